"""Mixtures of k spherical Gaussians in d >= k dimensions (the paper's Algorithm 4; Hsu and Kakade 2013).

x given component j ~ N(mu_j, s_j^2 I), with probability g_j; the mu_j are linearly independent.  With m = E x, E2 = E xx':

    sigma^2  mean of the d-k+1 smallest eigenvalues of cov = E2 - mm'  (each estimates sum_j g_j s_j^2; their mean best)
    M2     = E2 - sigma^2 I           = sum_j g_j mu_j mu_j'
    q(x)   = |P(x - m)|^2 / (d-k+1),  P onto their eigenspace:  E[q | j] = s_j^2
    M3     = E x (x) x (x) x - [E q x | I]  = sum_j g_j mu_j (x) mu_j (x) mu_j;    shared variances: q = sigma^2 for every x.

Whitened, with z = M'x:  t~(x) = z (x) z (x) z - q(x) [z | M'M],  linear in the sample once M, sigma^2, m, P are fixed.
The s_j^2 solve ``sum_j (g_j M'mu_j) s_j^2 = E[q z]``: k more features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from karat.engine import linalg
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.problems.latent.base import Keep, Latent, Maps
from karat.problems.latent.plain import PlainRows, mean_and_covariance
from karat.problems.latent.sample import Reader
from karat.problems.latent.sums import Sums
from karat.problems.latent.terms import Columns, Cubic, Power, Product, Term
from karat.problems.latent.whiten import largest_eigenpairs, unit_axes, whiten


@final
@dataclass(frozen=True)
class GaussianMixture(PlainRows, Latent):
    """A mixture of spherical Gaussians, learned by moments.

    Parameters
    ----------
    n_components : int
        Number k of components, at most the number of columns.
    variances : {"shared", "spherical"}
        One variance for all components, or one for each.
    keep : {"tensor", "moments", "all"}
        What the kept rows carry by themselves, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        With ``keep="tensor"``, also keep the total weight (one more row); other modes always do.

    Examples
    --------
    >>> import numpy as np, karat
    >>> rng = np.random.default_rng(0)
    >>> X = 4 * np.eye(4, 8)[rng.integers(4, size=20_000)] + rng.standard_normal((20_000, 8))
    >>> core = karat.coreset(X, problem=karat.problems.GaussianMixture(4))
    >>> len(core), core.certificate.ok
    (21, True)
    """

    n_components: int
    variances: Literal["shared", "spherical"] = "shared"
    keep: Keep = "tensor"
    total_weight: bool = True
    parts: ClassVar[str] = "components"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variances not in ("shared", "spherical"):
            raise InputError(f'variances must be "shared" or "spherical", not {self.variances!r}.')

    @property
    def k(self) -> int:
        return self.n_components

    def maps_of(self, sums: Sums) -> Maps:
        mean, cov = mean_and_covariance(sums)
        self.check_columns(len(mean))
        d, k = len(mean), self.k
        values, top = largest_eigenpairs(cov, max(k - 1, 1))
        top, values = top[:, : k - 1], values[: k - 1]
        sigma2 = max(float(np.trace(cov) - values.sum()) / (d - k + 1), 0.0)
        white = whiten(cov - sigma2 * np.eye(d) + np.outer(mean, mean), k, "components")
        maps = {
            "M": white.M, "B": white.B, "spectrum": white.spectrum, "magnify": np.array(white.magnify),
            "sigma2": np.array(sigma2), "mean": mean, "top": top, "total": sums["total"], "n": sums["n"],
        }  # fmt: skip
        if self.keep != "tensor":
            maps |= {"centre": mean @ white.M, "axes": unit_axes(white.M.T @ cov @ white.M)}
        return maps | {"frame": whitening_matrix(cov)} if self.keep == "all" else maps

    def reader(self, maps: Maps, keep: Keep) -> Reader:
        M, mean, top = maps["M"], maps["mean"], maps["top"]
        free, own = len(mean) - self.k + 1, self.variances == "spherical"

        def coordinates(x: Array) -> Array:
            z = linalg.mapped(x, M)
            columns = [z]
            if own:
                centred = x - mean
                inside = linalg.mapped(centred, top)
                q = (np.einsum("ij,ij->i", centred, centred) - np.einsum("ij,ij->i", inside, inside)) / free
                # with the lower moments kept as well, q z has the span of (q - sigma^2) z, which is far from that of z
                columns += [(q if keep == "tensor" else q - float(maps["sigma2"]))[:, None]]
            if keep != "tensor":
                columns += [linalg.mapped(z - maps["centre"], maps["axes"])]
            if keep == "all":
                columns += [linalg.mapped(x - mean, maps["frame"])]
            return z if len(columns) == 1 else np.hstack(columns)

        return coordinates

    def terms(self, columns: tuple[int, ...], maps: Maps | None, keep: Keep) -> tuple[list[Term], int]:
        k, (d,) = self.k, columns
        z, own = slice(0, k), self.variances == "spherical"
        count = k + own
        terms: list[Term] = []
        if keep == "tensor":
            metric = np.eye(k) if maps is None else maps["M"].T @ maps["M"]
            terms += [Cubic("tensor", z, metric, k if own else 0.0 if maps is None else float(maps["sigma2"]))]
        else:  # the lower moments are in the span, so q [z | G] need not be taken off
            whole = slice(count, count + k)
            count += k
            terms += [Power("third", whole, 3)]
            if keep == "moments":
                terms += [Columns("first", whole), Power("second", whole, 2)]
            else:
                x = slice(count, count + d)
                count += d
                terms += [Columns("first", x), Power("second", x, 2)]
        if own:
            terms += [Product("spread", slice(k, k + 1), z)]
        return terms, count


def whitening_matrix(cov: Array) -> Array:
    """W (d x d) such that ``(x - m)' W`` has covariance I; columns of zeros where the data do not vary."""
    size = np.sqrt(np.diag(cov))
    size = np.where(size > 0, size, 1.0)
    values, vectors = linalg.eigh(cov / np.outer(size, size))
    seen = values > 1e-12 * max(values[0], 1e-300)
    return np.asarray(np.where(seen, vectors / np.sqrt(np.where(seen, values, 1.0)), 0.0) / size[:, None])
