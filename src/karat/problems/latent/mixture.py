"""Mixtures of k spherical Gaussians in d >= k dimensions (the paper's Algorithm 4; Hsu and Kakade
2013), about their mean.

x given component j ~ N(mu_j, s_j^2 I), with probability g_j.  With m = E x and cov = E (x-m)(x-m)':

    sigma^2  mean of the d-k+1 smallest eigenvalues of cov  (each estimates sum_j g_j s_j^2; their
    mean best) between  = cov - sigma^2 I  = sum_j g_j (mu_j - m)(mu_j - m)',  of rank k - 1,
    whitened by M (d x (k-1))
    z        = (M'(x - m), 1):    E zz' - sigma^2 G = I_k,    G = M'M and zeros for the constant
    q(x)     = |P(x - m)|^2 / (d-k+1),  P onto the eigenspace of the smallest:  E[q | j] = s_j^2
    t~(x)    = z (x) z (x) z - q(x) [z | G];    shared variances: q = sigma^2 for every x.

The centred means add up to zero, so they depend on each other.  The constant coordinate makes them
independent again, wherever the origin is, and t~ keeps the total weight.  It is linear in the
sample once M, sigma^2, m and P are fixed. The s_j^2 solve ``sum_j (g_j nu_j) s_j^2 = E[q z]``, nu_j
= E[z | j]: k more features.

``centred=False`` is the method of the paper's reference (Anandkumar et al. 2014), to the letter:
moments about the origin, and one eigenvalue as the variance,

    sigma^2  the smallest eigenvalue of cov,      M2 = E xx' - sigma^2 I,  of rank k,  whitened by M
    z        = M'x  (k numbers),    t~ = z (x) z (x) z - sigma^2 [z | M'M].

It needs linearly independent means, and its answer changes with the origin: after a shift of all
rows, the means do not only shift.  That is why it is not the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from karat.engine import linalg
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.problems.base import Problem
from karat.problems.latent.base import Keep, Latent, Maps
from karat.problems.latent.plain import PlainRows, mean_and_covariance
from karat.problems.latent.sample import Reader
from karat.problems.latent.sums import Sums, effective
from karat.problems.latent.terms import Cubes, Cubic, LinearTerm, Power, Product, Term
from karat.problems.latent.whiten import largest_eigenpairs, unit_axes, whiten, whitened

SHOWN = 8  # eigenvalues that are stored beyond those that k components have


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
        Keep the total weight.  The tensor about the mean holds it anyway; that about the origin
        needs one more row for it.
    centred : bool, default True
        Moments about the mean.  False takes them about the origin, as the paper does; with shared
        variances and ``keep="tensor"`` only.

    Examples
    --------
    >>> import numpy as np, karat
    >>> rng = np.random.default_rng(0)
    >>> X = 4 * np.eye(4, 8)[rng.integers(4, size=20_000)] + rng.standard_normal((20_000, 8))
    >>> core = karat.coreset(X, problem=karat.problems.GaussianMixture(4))
    >>> len(core), core.certificate.ok
    (20, True)
    """

    n_components: int
    variances: Literal["shared", "spherical"] = "shared"
    keep: Keep = "tensor"
    total_weight: bool = True
    centred: bool = True
    parts: ClassVar[str] = "components"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variances not in ("shared", "spherical"):
            raise InputError(f'variances must be "shared" or "spherical", not {self.variances!r}.')
        if not self.centred and (self.variances, self.keep) != ("shared", "tensor"):
            raise InputError(
                'centred=False is the paper\'s method, which has variances="shared" and'
                ' keep="tensor"; use centred=True for others.'
            )

    @property
    def lifted(self) -> bool:
        return self.centred

    def params(self) -> dict[str, Any]:
        """The parameters as stored; in files of karat 0.2.0 ``centred=False`` has another
        variance, and :class:`Latent` refuses them.
        """
        values = super().params()
        return values if values.pop("centred") else values | {"origin": True}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> Problem:
        params = dict(params)
        if params.pop("origin", False):
            return cls(**params, centred=False)
        return super().from_params(params)

    def maps_of(self, sums: Sums) -> Maps:
        mean, cov = mean_and_covariance(sums)
        self.check_columns(len(mean))
        if not self.centred:
            return self._maps_about_origin(mean, cov, sums)
        d, k = len(mean), self.k
        values, vectors = largest_eigenpairs(cov, min(d, k + SHOWN))
        sigma2 = max(float(np.trace(cov) - values[: k - 1].sum()) / (d - k + 1), 0.0)
        maps = {
            "sigma2": np.array(sigma2),
            "mean": mean,
            "top": vectors[:, : k - 1],
            "total": sums["total"],
            "n": sums["n"],
        }
        white = whitened(values - sigma2, vectors, k - 1, self.parts, more=1)
        rest = cov - (vectors[:, : k - 1] * values[: k - 1]) @ vectors[:, : k - 1].T
        with np.errstate(over="ignore"):  # rows beyond 1e75
            low = min(float(np.square(rest).sum()), np.finfo(float).max)
        maps |= {"low": np.array(low), "effective": effective(sums)}
        maps |= {
            "M": white.M,
            "B": white.B,
            "spectrum": white.spectrum,
            "magnify": np.array(white.magnify),
        }
        if self.keep != "tensor":
            maps |= {"axes": unit_axes(white.M.T @ cov @ white.M)}
        return maps | {"frame": whitening_matrix(cov)} if self.keep == "all" else maps

    def _maps_about_origin(self, mean: Array, cov: Array, sums: Sums) -> Maps:
        sigma2 = max(float(np.linalg.eigvalsh(cov)[0]), 0.0)
        second = cov + np.outer(mean, mean) - sigma2 * np.eye(len(mean))
        white = whiten(second, self.k, self.parts)
        return {
            "sigma2": np.array(sigma2), "mean": mean, "total": sums["total"], "n": sums["n"],
            "M": white.M, "B": white.B, "spectrum": white.spectrum,
            "magnify": np.array(white.magnify),
        }  # fmt: skip

    def reader(self, maps: Maps, keep: Keep) -> Reader:
        if not self.centred:
            return self.whitening(maps["M"], None)
        mean, top = maps["mean"], maps["top"]
        free, spherical = len(mean) - self.k + 1, self.variances == "spherical"
        whiten_rows = self.whitening(maps["M"], mean)
        axes = maps.get("axes", np.zeros((0, 0)))

        def coordinates(x: Array) -> Array:
            z = whiten_rows(x)
            columns = [z]
            if spherical:
                centred = x - mean
                inside = centred @ top
                q = (
                    np.einsum("ij,ij->i", centred, centred) - np.einsum("ij,ij->i", inside, inside)
                ) / free
                # with the lower moments kept as well, q z has the span of (q - sigma^2) z, which is
                # far from that of z
                columns += [(q if keep == "tensor" else q - float(maps["sigma2"]))[:, None]]
            if keep != "tensor":
                columns += [z[:, : len(axes)] @ axes]
            if keep == "all":
                columns += [(x - mean) @ maps["frame"]]
            return z if len(columns) == 1 else np.hstack(columns)

        return coordinates

    def terms(
        self, columns: tuple[int, ...], maps: Maps | None, keep: Keep
    ) -> tuple[list[Term], int]:
        k, (d,) = self.k, columns
        spherical = self.variances == "spherical"
        z, free = slice(0, k), k - 1
        count = k + spherical
        terms: list[Term] = []
        if keep == "tensor":
            metric = np.eye(k) if maps is None else within(maps["M"], k)
            q = k if spherical else 0.0 if maps is None else float(maps["sigma2"])
            terms += [Cubic("tensor", z, metric, q, self.centred)]
        else:  # the lower moments are in the span, so q [z | G] need not be taken off
            whole = slice(count, count + free)
            count += free
            terms += [Power("third", whole, 3)] if free else []
            if keep == "moments" and free:
                terms += [LinearTerm("first", whole), Power("second", whole, 2)]
            elif keep == "all":
                x = slice(count, count + d)
                count += d
                terms += [LinearTerm("first", x), Power("second", x, 2)]
        if spherical:  # q itself is a combination of second moments
            terms += [Product("spread", slice(k, k + 1), slice(0, free) if keep == "all" else z)]
        return [term for term in terms if term.width], count

    def kept_terms(self, columns: tuple[int, ...], maps: Maps | None) -> tuple[list[Term], int]:
        """With a constant among the z and one q, t~ has the span of z (x) z (x) z, which is summed
        faster.
        """
        terms, count = super().kept_terms(columns, maps)
        if self.keep == "tensor" and self.variances == "shared" and self.centred:
            terms = [Cubes("tensor", slice(0, self.k))]
        return terms, count


def within(M: Array, k: int) -> Array:
    """``M'M``, with zeros for a constant coordinate, which has no noise."""
    metric = np.zeros((k, k))
    metric[: M.shape[1], : M.shape[1]] = M.T @ M
    return metric


def whitening_matrix(cov: Array) -> Array:
    """W (d x d) such that ``(x - m)' W`` has covariance I; columns of zeros where the data do not
    vary.
    """
    size = np.sqrt(np.diag(cov))
    size = np.where(size > 0, size, 1.0)
    values, vectors = linalg.eigh(cov / np.outer(size, size))
    seen = values > 1e-12 * max(values[0], 1e-300)
    return np.asarray(
        np.where(seen, vectors / np.sqrt(np.where(seen, values, 1.0)), 0.0) / size[:, None]
    )
