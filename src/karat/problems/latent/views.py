"""Three views of one hidden value: multi-view mixtures, and (:mod:`karat.problems.latent.markov`) windows of a Markov chain.

A sample is (x1, x2, x3), independent given h; A_a = E[x_a | h] (columns), g the law of h, P_ab = E x_a x_b' = A_a diag(g)
A_b'.  Everything is carried over to view 2:

    C1 = P23 P13^+,   C3 = P21 P31^+   (pseudo-inverses of rank k):     C1 A1 = C3 A3 = A2,
    M2 = P23 P13^+ P12  (symmetrised)  = A2 diag(g) A2',
    z1 = M'C1 x1,  z2 = M'x2,  z3 = M'C3 x3,        t~ = the symmetric part of z1 (x) z2 (x) z3.

The empirical tensor is not symmetric (unsymmetrised it has rank k^3), so its symmetric part is the definition, for all rows and
coreset alike.  Then A2 = [ell_j B v_j], g = 1 / ell^2, and from P12 = A1 diag(g) A2':  A1 = P12 M (A2'M)^-1 diag(g)^-1; A3
likewise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import linalg as sla
from scipy import sparse

from karat.engine.build import NonFiniteError
from karat.engine.linalg import Array, Indices
from karat.errors import InputError
from karat.problems.latent.base import Keep, Latent, Maps
from karat.problems.latent.sample import Reader, Sample, select
from karat.problems.latent.terms import Columns, Product, Symmetric, Term
from karat.problems.latent.whiten import standardise, whiten

PAIRS = ((0, 1), (0, 2), (1, 2))


class ThreeViews(Latent):
    """Shared by both."""

    @property
    def with_variances(self) -> bool:
        """Whether |x2|^2 z1 is kept too."""
        return False

    def maps(self, sample: Sample) -> Maps:
        for columns in sample.columns:
            self.check_columns(columns, "columns of a view" if len(set(sample.columns)) > 1 else "dimensions")
        P12, P13, P23 = cross_moments(sample)
        inverse = self._inverse(P13)
        C1, C3 = P23 @ inverse, P12.T @ inverse.T
        second = C1 @ P12
        white = whiten((second + second.T) / 2, self.k, self.parts)
        M = white.M
        maps = {
            "M": M, "B": white.B, "spectrum": white.spectrum, "W1": C1.T @ M, "W3": C3.T @ M,
            "cross1": P12 @ M, "cross3": P23.T @ M, "total": np.array(sample.total), "n": np.array(float(len(sample))),
        }  # fmt: skip
        sizes = [np.linalg.norm(W, 2) * s for W, s in zip((maps["W1"], M, maps["W3"]), self._sizes(P12, P23), strict=True)]
        # Without first moments among the features (mode C, Gaussian) the span does not allow a shift.
        maps["centre"], maps["axes"] = standardise(
            sample.pilot(1) @ M,
            None,
            centred=self.keep == "moments" or (self.keep == "all" and sparse.issparse(sample.views[1])),
        )
        maps["magnify"] = np.array(max(1.0, *sizes))
        if sample.first is not None:
            maps["first"] = sample.first @ M
        return maps

    @staticmethod
    def _sizes(P12: Array, P23: Array) -> tuple[float, float, float]:
        one, two = (float(np.sqrt(np.linalg.norm(P, 2))) for P in (P12, P23))
        return one, max(one, two), two

    def _inverse(self, P13: Array) -> Array:
        """The pseudo-inverse of rank k."""
        u, s, vt = sla.svd(P13, full_matrices=False, check_finite=False)
        k = self.k
        if not s[k - 1] > 1e-12 * s[0]:
            good = int(np.sum(s > 1e-12 * s[0]))
            listed = ", ".join(f"{x:.3g}" for x in s[:k])
            raise InputError(
                f"The data support {good} {self.parts}, not {k}: the first and third views are related by a matrix "
                "with singular "
                f"values {listed}. Ask for {max(good, 1)}, or give more data."
            )
        return np.asarray((vt[:k].T / s[:k]) @ u[:, :k].T)

    def reader(self, maps: Maps, keep: Keep) -> Reader:
        W1, M, W3 = maps["W1"], maps["M"], maps["W3"]

        def coordinates(x1: Any, x2: Any, x3: Any) -> Array:
            columns = [x1 @ W1, x2 @ M, x3 @ W3]
            if keep != "tensor":
                columns = [(z - maps["centre"]) @ maps["axes"] for z in columns]
            if self.with_variances:
                columns += [np.einsum("ij,ij->i", x2, x2)[:, None] * (x1 @ W1)]
            if keep == "all":
                columns += [x.toarray() if sparse.issparse(x) else x for x in (x1, x2, x3)]
            return np.hstack(columns)

        return coordinates

    def terms(self, columns: tuple[int, ...], maps: Maps | None, keep: Keep) -> tuple[list[Term], int]:
        k = self.k
        z = [slice(a * k, (a + 1) * k) for a in range(3)]
        terms: list[Term] = [Symmetric("tensor", *z)]
        count = 3 * k
        if self.with_variances:
            terms += [Columns("spread", slice(count, count + k))]
            count += k
        if keep == "moments":
            terms += [Columns("first", slice(0, 3 * k))]
            terms += [Product(f"pair{a + 1}{b + 1}", z[a], z[b]) for a, b in PAIRS]
        if keep == "all":
            sizes = columns if len(columns) == 3 else (columns[0],) * 3
            edges = np.cumsum([count, *sizes]).tolist()
            x = [slice(edges[a], edges[a + 1]) for a in range(3)]
            terms += [Product(f"pair{a + 1}{b + 1}", x[a], x[b]) for a, b in PAIRS]
            count = edges[-1]
        return terms, count


def cross_moments(sample: Sample) -> tuple[Array, Array, Array]:
    """P12, P13, P23 in one pass."""
    sums = [np.zeros((sample.columns[a], sample.columns[b])) for a, b in PAIRS]
    for views, weights in sample.blocks():
        for place, (a, b) in enumerate(PAIRS):
            right = views[b] if weights is None else views[b] * weights[:, None]
            with np.errstate(over="ignore", invalid="ignore"):  # noticed, and explained, below
                product = views[a].T @ right
            sums[place] += product.toarray() if sparse.issparse(product) else product
    if not all(np.isfinite(total).all() for total in sums):
        raise NonFiniteError
    first, second, third = (total / sample.total for total in sums)
    return first, second, third


@final
@dataclass(frozen=True)
class MultiView(ThreeViews):
    """A mixture seen in three views that are independent given the component.

    Parameters
    ----------
    n_components : int
        Number k of components, at most the number of columns of each view.
    keep : {"tensor", "moments", "all"}
        What the coreset carries by itself, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        Also keep the total weight (one more row with ``keep="tensor"``; part of the other modes in any case).

    Notes
    -----
    X is a tuple of three tables with the same number of rows.
    """

    n_components: int
    keep: Keep = "tensor"
    total_weight: bool = True
    parts: ClassVar[str] = "components"

    def __post_init__(self) -> None:
        self.check()

    @property
    def k(self) -> int:
        return self.n_components

    def sample(self, tables: tuple[Any, ...], weights: Array | None, lengths: Indices | None) -> Sample:
        count = int(tables[0].shape[0])
        if weights is None or weights.all():
            return Sample(tables, weights, None, count)
        origin = np.flatnonzero(weights)
        return Sample(tuple(select(t, origin) for t in tables), weights[origin], origin, count)

    def kept_sample(self, tables: tuple[Any, ...], weights: Array, maps: Maps | None) -> Sample:
        return self.sample(tables, weights, None)
