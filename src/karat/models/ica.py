"""Independent components from fourth cumulants (see :mod:`karat.problems.latent.ica`)."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from karat.data import containers
from karat.data.transformed import dense
from karat.engine.linalg import Array
from karat.errors import InputError, several
from karat.models import misfit
from karat.models.base import Learner
from karat.models.misfit import JACKKNIFE as BLOCKS
from karat.models.misfit import Check
from karat.models.tensor import follow, transformed_axes
from karat.problems import latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, read
from karat.problems.latent.terms import expand

MOST = 6  # sources that are compared; the pairs of more are more than the blocks
STEPS = 60  # of the power method, from the sources found
CAP = 3.0  # sources are compared up to this many standard deviations


class ICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """Independent component analysis by the fourth-cumulant tensor; takes sample weights.

    Parameters
    ----------
    n_components : int or "auto"
        "auto": the rank of the correlations.

    Attributes
    ----------
    mixing_ : array (d, k)
        A, for sources of unit variance; each column has its largest entry positive.
    components_ : array (k, d)
        The unmixing matrix.
    kurtosis_ : array (k,)
        Excess kurtosis of the sources, in decreasing absolute value.
    mean_ : array (d,)
    recovery_ : Recovery
    """

    problem_type = latent.ICA

    def __init__(self, n_components: int | Literal["auto"] = 2) -> None:
        self.n_components = n_components

    def _problem(self, X: Any = None, sample_weight: Any = None, lengths: Any = None) -> latent.ICA:
        return latent.ICA(self._number(X, sample_weight, latent.ICA(1)))

    def _recover(self, moments: dict[str, Array], maps: Maps, problem: latent.Latent) -> None:
        G = expand(moments["second"], problem.k, 2)
        pairs = np.multiply.outer(G, G)
        cumulant = (
            moments["tensor"] - pairs - pairs.transpose(0, 2, 1, 3) - pairs.transpose(0, 3, 2, 1)
        )
        self.kurtosis_, V = self._components(cumulant, maps, problem)
        mixing = V @ maps["B"].T
        sign = np.where(
            np.take_along_axis(mixing, np.abs(mixing).argmax(axis=1)[:, None], axis=1) < 0,
            -1.0,
            1.0,
        )
        self.mixing_ = (sign * mixing).T
        # B V has the inverse V^-1 M' also where the estimated vectors are not quite orthogonal
        self.components_ = np.linalg.solve((self.mixing_.T @ maps["M"]).T, maps["M"].T)
        self.mean_ = maps["mean"]
        noise = 2.0 * np.sqrt(24.0 / float(maps["n"]))
        flat = int(np.sum(np.abs(self.kurtosis_) < noise))
        if flat > 1:
            listed = ", ".join(f"{x:.2g}" for x in self.kurtosis_)
            self._notes.append(
                f"{flat} sources look Gaussian (excess kurtosis {listed}, sampling noise about"
                f" {noise:.2g}), and only one source without excess kurtosis can be found"
            )

    def _checks(self, maps: Maps, problem: latent.Latent, sample: Sample | None) -> list[Check]:
        """Functions of different sources are uncorrelated; here sizes with sizes, and sources with
        sizes.
        """
        if sample is None or problem.k < 2:
            return []
        index = misfit.probe(sample)
        z = (read(sample.views[0], index) - maps["mean"]) @ maps["M"]
        V = misfit.orthonormal(self._basis[1])
        bent = np.column_stack([_bent(source) for source in V @ z.T])
        sizes = np.column_stack(
            [bent[:, i] * bent[:, j] for i, j in combinations(range(problem.k), 2)]
        )
        return [
            misfit.compared(
                "sizes",
                misfit.wald(sizes),
                "the sources are not independent: their sizes are correlated",
                "the samples are too few for so many sources",
            ),
            misfit.compared(
                "bends",
                bends(z, V),
                "the sources are not independent: some go with the size of others",
                f"it needs at most {MOST} sources, all of which vary in most of the samples",
            ),
        ]

    def transform(self, X: Any) -> Array:
        """The sources of each row (n x k)."""
        return np.asarray((self._table(X) - self.mean_) @ self.components_.T)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def inverse_transform(self, sources: Any) -> Array:
        """Rows from their sources."""
        self._check_fitted()
        table = np.asarray(dense(containers.as_table(sources, "sources")), dtype=float)
        if table.shape[1] != self.n_components_:
            raise InputError(
                f"sources has {several(table.shape[1], 'column')}; it must have one for each of the"
                f" {several(self.n_components_, 'source')}.",
                argument="sources",
            )
        return np.asarray(table @ self.mixing_.T + self.mean_)

    def to_sklearn(self) -> Any:
        """A fitted ``sklearn.decomposition.FastICA`` with this unmixing.

        Clone it with ``w_init`` to start its own iteration: a separate step, which needs the full
        data.
        """
        from sklearn.decomposition import FastICA

        self._check_fitted()
        peer = FastICA(self.components_.shape[0], whiten="arbitrary-variance")
        peer.components_, peer.mixing_, peer.mean_ = self.components_, self.mixing_, self.mean_
        peer.whitening_, peer.n_iter_, peer.n_features_in_ = (
            self.components_,
            0,
            self.n_features_in_,
        )
        return peer


def _bent(h: Array) -> Array:
    """``g(h) - c h`` of mean zero, g the square up to CAP^2, with c = E g'.

    A turn of the basis by a small angle changes the mean product of two such functions in second
    order only.
    """
    inside = np.abs(h) < CAP
    bent = np.minimum(np.square(h), CAP**2) - 2 * np.mean(h * inside) * h
    return np.asarray(bent - bent.mean())


def bends(z: Array, V: Array) -> float | None:
    """The p-value of "no source goes with the size of another"; None if it is unknown.

    f is a source h up to CAP, g its square up to CAP^2, both of mean zero.  E f(h_a) g(h_b)
    vanishes for independent sources; but if the unmixing is wrong by h <- (I + E) h, it is
    ``E_ab E f'(h_a) E h_b g(h_b) + E_ba E h_a f(h_a) E g'(h_b)``.  The jackknife measures the noise
    of the means and of E together: blocks of samples are left out, and the sources are found again.

    Parameters
    ----------
    z : array (n, k)
        Whitened samples.
    V : array (k, k)
        The sources in the whitened space (rows, orthonormal).
    """
    h = z @ V.T
    n, k = h.shape
    if not MOST >= k > 1 or n < 2 * BLOCKS:
        return None
    f, g = np.clip(h, -CAP, CAP), np.minimum(np.square(h), CAP**2)
    f, g = f - f.mean(axis=0), g - g.mean(axis=0)
    inside = np.abs(h) < CAP
    moved = np.outer(inside.mean(axis=0), (h * g).mean(axis=0))
    turned_by = np.outer((h * f).mean(axis=0), 2 * (h * inside).mean(axis=0))
    blocks = []
    for start in range(BLOCKS):
        rows = h[start::BLOCKS]
        pairs = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        fourth = (pairs.T @ pairs / len(rows)).reshape((k,) * 4)
        products = f[start::BLOCKS].T @ g[start::BLOCKS] / len(rows)
        blocks.append((fourth, rows.T @ rows / len(rows), rows.mean(axis=0), products))
    whole = tuple(np.mean(parts, axis=0) for parts in zip(*blocks, strict=True))
    off, left_out = ~np.eye(k, dtype=bool), []
    for block in blocks:
        rest = [(BLOCKS * a - b) / (BLOCKS - 1) for a, b in zip(whole, block, strict=True)]
        found = unmixing(*rest[:3])
        if found is None:
            return None
        error = found - np.eye(k)
        left_out.append((rest[3] + error * moved + error.T * turned_by)[off])
    # at the whole sample the unmixing is what it is: its error there is no deviation
    return misfit.jackknife_p_value(whole[3][off], np.array(left_out))


def unmixing(fourth: Array, second: Array, mean: Array) -> Array | None:
    """The matrix that takes nearly independent coordinates to those that these moments give; None
    if these have no part in some direction.
    """
    k = len(mean)
    covariance = second - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    if not values[0] > misfit.ALIKE * values[-1]:
        return None
    white = (vectors / np.sqrt(values)) @ vectors.T
    tensor = transformed_axes(fourth, white)
    same = np.multiply.outer(np.eye(k), np.eye(k))
    tensor = tensor - same - same.transpose(0, 2, 1, 3) - same.transpose(0, 3, 2, 1)
    V, _, _ = follow(tensor, np.eye(k), STEPS)
    V = V * np.where(np.diag(V) < 0, -1.0, 1.0)[:, None]
    return np.asarray(misfit.orthonormal(V) @ white)
