"""Independent components from fourth cumulants (see :mod:`karat.problems.latent.ica`)."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from karat.engine.linalg import Array
from karat.models import misfit
from karat.models.base import Learner
from karat.models.misfit import Check
from karat.models.recovery import warn_recovery
from karat.problems import latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, read
from karat.problems.latent.terms import expand

CAP = 3.0  # sources are compared up to this many standard deviations


class ICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """Independent component analysis by the fourth-cumulant tensor; takes sample weights.

    Parameters
    ----------
    n_components : int

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

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def _problem(self, X: Any = None, sample_weight: Any = None) -> latent.ICA:
        return latent.ICA(self.n_components)

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
            warn_recovery(
                f"{flat} sources look Gaussian (excess kurtosis {listed}, sampling noise about"
                f" {noise:.2g}), and only one source without excess kurtosis can be found."
            )

    def _checks(self, maps: Maps, problem: latent.Latent, sample: Sample | None) -> list[Check]:
        """Functions of different sources are uncorrelated; here sizes with sizes, and sources with
        sizes.
        """
        if sample is None or problem.k < 2:
            return []
        index = misfit.probe(sample)
        h = (
            (read(sample.views[0], index) - maps["mean"])
            @ maps["M"]
            @ misfit.orthonormal(self._basis[1]).T
        )
        pairs = list(combinations(range(problem.k), 2))
        bent = np.column_stack([_bent(source) for source in h.T])
        sizes = np.column_stack([bent[:, i] * bent[:, j] for i, j in pairs])
        bends = np.column_stack([_source_with_size(h[:, i], h[:, j]) for i, j in pairs])
        return [
            Check(
                "sizes",
                misfit.wald(sizes),
                "the sources are not independent: their sizes are correlated",
            ),
            Check(
                "bends",
                misfit.wald(bends),
                "the sources are not independent: some go with the size of others",
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
        return np.asarray(np.asarray(sources, dtype=float) @ self.mixing_.T + self.mean_)

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


def _source_with_size(a: Array, b: Array) -> Array:
    """A combination of ``f(a) g(b)`` and ``g(a) f(b)``, of mean zero if a and b are independent,
    sample by sample.

    f is the source up to CAP, g its square up to CAP^2, both of mean zero.  Let a small error of
    the unmixing add e b to a and e' a to b.  Then E f(a) g(b) changes by ``e E f'(a) E b g(b) + e'
    E a f(a) E g'(b)``.  The combination is the one that a turn (e' = -e) does not change; what the
    error of the whitening (e' = e = -E ab / 2) changes is taken off.
    """
    f, g, slopes = [], [], []
    for h in (a, b):
        inside = np.abs(h) < CAP
        f.append(np.clip(h, -CAP, CAP) - np.clip(h, -CAP, CAP).mean())
        g.append(np.minimum(np.square(h), CAP**2))
        g[-1] = g[-1] - g[-1].mean()
        # f', h f, h g, g'
        slopes.append(
            (inside.mean(), (h * f[-1]).mean(), (h * g[-1]).mean(), 2 * (h * inside).mean())
        )
    moved = (
        [slopes[i][0] * slopes[j][2] for i, j in ((0, 1), (1, 0))],
        [slopes[i][1] * slopes[j][3] for i, j in ((0, 1), (1, 0))],
    )
    turned = moved[0][0] - moved[1][0], moved[1][1] - moved[0][1]  # of f(a) g(b) and of g(a) f(b)
    size = max(float(np.hypot(*turned)), 1e-300)
    first, second = turned[1] / size, -turned[0] / size
    whitened = first * (moved[0][0] + moved[1][0]) + second * (moved[0][1] + moved[1][1])
    return np.asarray(first * f[0] * g[1] + second * g[0] * f[1] - whitened * a * b / 2)
