"""Independent components: x = A h + m, the entries of h independent, of unit variance, all but one
of excess kurtosis not zero.

With cov = E (x-m)(x-m)' whitened, z = M'(x - m), G = E zz' (= I on the full data):

    T4 = E z (x) z (x) z (x) z - (the three pairings of G (x) G)  =  sum_j kappa_j v_j (x) v_j (x)
    v_j (x) v_j,

kappa_j the excess kurtosis of h_j, which may have either sign; A = B V up to the signs and order of
its columns. Fourth moments replace the third, so mode A keeps binom(k+3, 4) + binom(k+1, 2) numbers
and mode B all moments up to degree 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from karat.engine.linalg import Array
from karat.problems.latent.base import Keep, Latent, Maps
from karat.problems.latent.mixture import whitening_matrix
from karat.problems.latent.plain import PlainRows, mean_and_covariance
from karat.problems.latent.sample import Reader
from karat.problems.latent.sums import Sums
from karat.problems.latent.terms import LinearTerm, Power, Term
from karat.problems.latent.whiten import whiten


@final
@dataclass(frozen=True)
class ICA(PlainRows, Latent):
    """Independent component analysis by fourth cumulants.

    Parameters
    ----------
    n_components : int
        Number k of components, at most the number of columns; with fewer, the k leading principal
        components are unmixed.
    keep : {"tensor", "moments", "all"}
        What the kept rows carry by themselves, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        With ``keep="tensor"``, also keep the total weight (one more row); other modes always do.
    """

    n_components: int
    keep: Keep = "tensor"
    total_weight: bool = True
    order: ClassVar[int] = 4
    parts: ClassVar[str] = "components"

    def maps_of(self, sums: Sums) -> Maps:
        mean, cov = mean_and_covariance(sums)
        self.check_columns(len(mean))
        white = whiten(cov, self.k, "components")
        maps = {
            "M": white.M, "B": white.B, "spectrum": white.spectrum,
            "magnify": np.array(white.magnify), "mean": mean, "total": sums["total"],
            "n": sums["n"],
        }  # fmt: skip
        return maps | {"frame": whitening_matrix(cov)} if self.keep == "all" else maps

    def reader(self, maps: Maps, keep: Keep) -> Reader:
        M, mean = maps["M"], maps["mean"]

        def coordinates(x: Array) -> Array:
            centred = x - mean
            z = centred @ M
            return np.hstack([z, centred @ maps["frame"]]) if keep == "all" else np.asarray(z)

        return coordinates

    def terms(
        self, columns: tuple[int, ...], maps: Maps | None, keep: Keep
    ) -> tuple[list[Term], int]:
        k, (d,) = self.k, columns
        z = slice(0, k)
        terms: list[Term] = [Power("tensor", z, 4)]
        if keep == "all":
            x = slice(k, k + d)
            return [*terms, LinearTerm("first", x), Power("second", x, 2)], k + d
        terms += [Power("second", z, 2)]
        if keep == "moments":
            terms += [LinearTerm("first", z), Power("third", z, 3)]
        return terms, k
