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

from karat.engine.linalg import Array, Indices
from karat.errors import InputError
from karat.problems.latent.base import Keep, Latent, Maps
from karat.problems.latent.sample import Reader, Sample, plain_sample
from karat.problems.latent.sums import Sums, counted
from karat.problems.latent.terms import Columns, Product, Symmetric, Term
from karat.problems.latent.whiten import unit_axes, whiten

PAIRS = ((0, 1), (0, 2), (1, 2))


class ThreeViews(Latent):
    """Base class of multi-view mixtures and hidden Markov models."""

    tables: ClassVar[int] = 3

    @property
    def with_variances(self) -> bool:
        """Whether |x2|^2 z1 is kept too."""
        return False

    @property
    def has_constant(self) -> bool:
        """Whether the entries of a view add up to 1, so that products of two views hold their first moments."""
        return False

    def sums(self, sample: Sample, whole: bool = True) -> Sums:
        """Products of the views, in one pass; where coordinates are to be standardised, also the moments of the second."""
        pairs = PAIRS if self.keep == "tensor" else (*PAIRS, (1, 1))
        products = {(a, b): np.zeros((sample.columns[a], sample.columns[b])) for a, b in pairs}
        mean = np.zeros(sample.columns[1])
        for views, weights in sample.blocks():
            for a, b in pairs:
                right = views[b] if weights is None else views[b] * weights[:, None]
                with np.errstate(over="ignore", invalid="ignore"):  # counted() raises
                    product = views[a].T @ right
                products[a, b] += product.toarray() if sparse.issparse(product) else product
            mean += views[1].sum(axis=0) if weights is None else views[1].T @ weights
        sums = counted(sample, mean2=mean, **{f"P{a + 1}{b + 1}": product for (a, b), product in products.items()})
        if sample.opening is not None:
            sums |= {"opening": sample.opening[0], "opened": np.array(sample.opening[1])}
        return sums

    def sums_size(self, columns: int) -> int:
        return columns * (columns * (3 if self.keep == "tensor" else 4) + 2)

    def columns_of(self, maps: Maps) -> tuple[int, ...]:
        return len(maps["W1"]), len(maps["M"]), len(maps["W3"])

    def maps_of(self, sums: Sums) -> Maps:
        P12, P13, P23 = (sums[name] / sums["total"] for name in ("P12", "P13", "P23"))
        columns = (*P12.shape, P13.shape[1])
        for count in columns:
            self.check_columns(count, "columns of a view" if len(set(columns)) > 1 else "dimensions")
        inverse = self._inverse(P13)
        C1, C3 = P23 @ inverse, P12.T @ inverse.T
        second = C1 @ P12
        white = whiten((second + second.T) / 2, self.k, self.parts)
        M = white.M
        maps = {
            "M": M, "B": white.B, "spectrum": white.spectrum, "W1": C1.T @ M, "W3": C3.T @ M,
            "cross1": P12 @ M, "cross3": P23.T @ M, "total": sums["total"], "n": sums["n"],
        }  # fmt: skip
        sizes = [np.linalg.norm(W, 2) * s for W, s in zip((maps["W1"], M, maps["W3"]), self._sizes(P12, P23), strict=True)]
        maps["magnify"] = np.array(max(1.0, *sizes))
        if self.keep != "tensor":
            # Without first moments among the features (mode C, but for symbols) the span does not allow a shift.
            shifted = self.keep == "moments" or self.has_constant
            mean = sums["mean2"] / sums["total"] if shifted else np.zeros(columns[1])
            maps["centre"] = mean @ M
            maps["axes"] = unit_axes(M.T @ (sums["P22"] / sums["total"] - np.outer(mean, mean)) @ M)
        if "opening" in sums:
            maps["first"] = sums["opening"] / max(float(sums["opened"]), 1e-300) @ M
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


@final
@dataclass(frozen=True)
class MultiView(ThreeViews):
    """A mixture seen in three views that are independent given the component.

    Parameters
    ----------
    n_components : int
        Number k of components, at most the number of columns of each view.
    keep : {"tensor", "moments", "all"}
        What the kept rows carry by themselves, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        With ``keep="tensor"``, also keep the total weight (one more row); other modes always do.

    Notes
    -----
    X is a tuple of three tables with the same number of rows.
    """

    n_components: int
    keep: Keep = "tensor"
    total_weight: bool = True
    parts: ClassVar[str] = "components"
    input_tables: ClassVar[int] = 3

    @property
    def k(self) -> int:
        return self.n_components

    def sample(self, tables: tuple[Any, ...], weights: Array | None, steps: Indices | None = None) -> Sample:
        return plain_sample(tables, weights)

    def views(self, tables: tuple[Any, ...], maps: Maps | None) -> tuple[Any, ...]:
        return tables
