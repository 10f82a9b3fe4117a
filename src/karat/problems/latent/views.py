"""Three views of one hidden value: multi-view mixtures, and (:mod:`karat.problems.latent.markov`)
windows of a Markov chain.

A sample is (x1, x2, x3), independent given h; A_a = E[x_a | h] (columns), g the law of h, P_ab = E
x_a x_b' = A_a diag(g) A_b'.  Everything is carried over to view 2:

    C1 = P23 P13^+,   C3 = P21 P31^+   (pseudo-inverses of rank k):     C1 A1 = C3 A3 = A2,
    M2 = P23 P13^+ P12  (symmetrised)  = A2 diag(g) A2',
    z1 = M'C1 x1,  z2 = M'x2,  z3 = M'C3 x3,        t~ = the symmetric part of z1 (x) z2 (x) z3.

The empirical tensor is not symmetric (unsymmetrised it has rank k^3), so its symmetric part is the
definition, for all rows and coreset alike.  Then A2 = [ell_j B v_j], g = 1 / ell^2, and from P12 =
A1 diag(g) A2':  A1 = P12 M (A2'M)^-1 diag(g)^-1; A3 likewise.

Numbers (not symbols) are first centred, and a constant is appended: y_a = (x_a - m_a, 1).  Then the
answer does not depend on the origin, and k <= d + 1.  E y_a y_b' consists of the blocks S_ab = E
(x_a - m_a)(x_b - m_b)', of rank k - 1, and 1; so all of the above is done with S_ab and k - 1 in
place of P_ab and k, and the constant becomes the last coordinate of every z.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from scipy import linalg as sla
from scipy import sparse

from karat.engine.kernel import NonFiniteError
from karat.engine.linalg import Array, Indices
from karat.errors import InputError, several
from karat.problems.latent.base import Keep, Latent, Maps
from karat.problems.latent.plain import dense_blocks
from karat.problems.latent.sample import (
    Reader,
    Sample,
    check_wide,
    only,
    plain_sample,
    spread_out,
)
from karat.problems.latent.sums import Sums, counted
from karat.problems.latent.terms import LinearTerm, Product, Symmetric, Term
from karat.problems.latent.whiten import (
    FAR_ROW,
    UNDERFLOW,
    UNDERFLOWS,
    ask_for,
    unit_axes,
    whiten,
)

PAIRS = ((0, 1), (0, 2), (1, 2))
BY_SYMBOL = ("M", "B", "W1", "W3", "cross1", "cross3")  # maps with a row per column of a view
SHOWN = 8  # singular values that are stored beyond those that k components have
# symbols up to which products are arrays; symbols or columns that are decomposed
DENSE_SYMBOLS, MANY_SYMBOLS = 600, 3000


class ThreeViews(Latent):
    """Base class of multi-view mixtures and hidden Markov models."""

    tables: ClassVar[int] = 3

    @property
    def with_variances(self) -> bool:
        """Whether the noise of the second view times z1 is kept too."""
        return False

    @property
    def has_constant(self) -> bool:
        """Whether the entries of a view add up to 1, so that products of two views hold their first
        moments.
        """
        return False

    @property
    def lifted(self) -> bool:
        return not self.has_constant

    def check_size(self, columns: int) -> None:
        check_wide(columns, MANY_SYMBOLS)

    def sums(self, sample: Sample, whole: bool = True) -> Sums:
        """Products of the views, in one pass, numbers about their means; that of the second with
        itself for coordinates.
        """
        count = sample.columns[1]
        if self.has_constant:
            sample, seen = of_seen_symbols(sample)
        pairs = PAIRS if self.keep == "tensor" else (*PAIRS, (1, 1))
        products: dict[tuple[int, int], Any] = dict.fromkeys(pairs, 0.0)
        firsts = [np.zeros(count) for count in sample.columns]
        shifts: list[Array] | None = None
        for blocks, weights in sample.blocks():
            views = blocks
            if not self.has_constant:  # a shift by the means of the first block, for accuracy
                shifts = [view.mean(axis=0) for view in blocks] if shifts is None else shifts
                with np.errstate(over="ignore", invalid="ignore"):
                    views = [view - shift for view, shift in zip(blocks, shifts, strict=True)]
                    sizes = np.array([np.abs(view).max() for view in views])
                    # squares that are added up later
                    if not np.isfinite(len(sample) * sizes * sizes).all():
                        raise NonFiniteError
            for a, b in pairs:
                right = views[b] if weights is None else views[b] * weights[:, None]
                with np.errstate(over="ignore", invalid="ignore"):  # counted() raises
                    product = views[a].T @ right
                products[a, b] = products[a, b] + product
            own = [view.sum(axis=0) if weights is None else view.T @ weights for view in views]
            firsts = [first + more for first, more in zip(firsts, own, strict=True)]
        if self.has_constant:
            raw = {
                f"P{a + 1}{b + 1}": of_all_symbols(product, seen, count)
                for (a, b), product in products.items()
            }
            sums = counted(sample, mean2=spread_out(firsts[1], seen, count), **raw)
        else:
            sums = self._about_means(sample, products, firsts, shifts or firsts)
        if sample.opening is not None:
            sums |= {"opening": sample.opening[0], "opened": np.array(sample.opening[1])}
        return sums

    @staticmethod
    def _about_means(
        sample: Sample,
        products: dict[tuple[int, int], Any],
        firsts: list[Array],
        shifts: list[Array],
    ) -> Sums:
        total = sample.total
        with np.errstate(over="ignore", invalid="ignore"):
            apart = [first / total for first in firsts]
            scatters = {
                f"S{a + 1}{b + 1}": product - total * np.outer(apart[a], apart[b])
                for (a, b), product in products.items()
            }
            means = {f"centre{a + 1}": shifts[a] + apart[a] for a in range(3)}
        return counted(sample, **scatters, **means)

    def sums_size(self, columns: int) -> int:
        return columns * (
            columns * (3 if self.keep == "tensor" else 4) + (2 if self.has_constant else 3)
        )

    def columns_of(self, maps: Maps) -> tuple[int, ...]:
        return len(maps["W1"]), len(maps["M"]), len(maps["W3"])

    def maps_of(self, sums: Sums) -> Maps:
        lifted = self.lifted
        letter, total, k = "S" if lifted else "P", float(sums["total"]), self.k - lifted
        P12, P13, P23 = (sums[f"{letter}{pair}"] / total for pair in ("12", "13", "23"))
        columns = (*P12.shape, P13.shape[1])
        for count in columns:
            unit = "column" if lifted else "symbol"
            where = " of a view" if len(set(columns)) > 1 else ""
            self.check_columns(count, unit, where, more=lifted)
        P12, P13, P23, seen = self.without_unseen(P12, P13, P23)
        inverse, singular = self._inverse(P13, k)
        C1, C3 = P23 @ inverse, P12.T @ inverse.T
        with np.errstate(over="ignore", invalid="ignore"):
            second = C1 @ P12
        if not np.isfinite(second).all():
            raise InputError(
                "Products of the second moments overflow double precision; rescale the columns."
            )
        white = whiten((second + second.T) / 2, k, self.part, lifted, FAR_ROW if lifted else "")
        M = white.M
        maps = {
            "M": M, "B": white.B, "spectrum": white.spectrum, "W1": C1.T @ M, "W3": C3.T @ M,
            "cross1": P12 @ M, "cross3": P23.T @ M, "total": sums["total"], "n": sums["n"],
        }  # fmt: skip
        maps["magnify"] = np.array(1.0)
        if k:  # there is no norm of no columns
            views = zip((maps["W1"], M, maps["W3"]), self._sizes(P12, P23), strict=True)
            maps["magnify"] = np.array(
                max(1.0, *(float(np.linalg.norm(W, 2)) * size for W, size in views))
            )
        maps |= {"singular": singular}
        if seen is not None:  # symbols that do not occur have rows of zeros
            maps |= {name: spread_out(maps[name], seen, columns[0]) for name in BY_SYMBOL}
        M = maps["M"]
        # one state has the law of all symbols, whether the model fits or not
        if self.k == 1 and self.has_constant:
            maps["mean2"] = sums["mean2"] / total
        if lifted:
            maps |= {f"mean{a}": sums[f"centre{a}"] for a in (1, 2, 3)}
            maps |= {"top": np.linalg.qr(white.B)[0]} if self.with_variances else {}
        if self.keep != "tensor":
            mean = np.zeros(columns[1]) if lifted else sums["mean2"] / total
            maps["centre"] = mean @ M
            maps["axes"] = unit_axes(
                M.T @ (sums[f"{letter}22"] @ M) / total - np.outer(mean @ M, mean @ M)
            )
        if "opening" in sums:
            first = sums["opening"] / max(float(sums["opened"]), 1e-300)
            maps["first"] = np.append((first - maps["mean2"]) @ M, 1.0) if lifted else first @ M
        return maps

    def without_unseen(
        self, P12: Any, P13: Any, P23: Any
    ) -> tuple[Array, Array, Array, Indices | None]:
        """The products as arrays; where they are sparse, of those columns only that occur, and
        which these are.
        """
        if not sparse.issparse(P12):
            return P12, P13, P23, None
        d = P12.shape[0]
        seen = np.unique(
            np.concatenate([np.concatenate(sparse.csr_array(P).nonzero()) for P in (P12, P13, P23)])
        )
        if len(seen) > MANY_SYMBOLS:
            raise InputError(
                f"X contains {len(seen):,} different symbols; the moments of a chain are matrices"
                f" of that size, and at most {MANY_SYMBOLS:,} are supported. Merge rare symbols."
            )
        keep = sparse.csr_array(
            (np.ones(len(seen)), (np.arange(len(seen)), seen)), shape=(len(seen), d)
        )
        dense = [np.asarray((keep @ P @ keep.T).toarray()) for P in (P12, P13, P23)]
        return dense[0], dense[1], dense[2], seen

    @staticmethod
    def _sizes(P12: Array, P23: Array) -> tuple[float, float, float]:
        first, third = (float(np.sqrt(np.linalg.norm(P, 2))) for P in (P12, P23))
        return first, max(first, third), third

    def _inverse(self, P13: Array, k: int) -> tuple[Array, Array]:
        """The pseudo-inverse of rank k, and the first singular values."""
        u, s, vt = sla.svd(P13, full_matrices=False, check_finite=False)
        more = self.k - k
        if k and not s[k - 1] > 1e-12 * s[0]:
            good = int(np.sum(s > 1e-12 * s[0])) + more
            listed = ", ".join(f"{x:.3g}" for x in s[:k])
            raise InputError(
                f"The data support {several(good, self.part)}, not {self.k}: the first and third"
                f" views are related by a matrix with singular values {listed}. {ask_for(good)}."
                f"{UNDERFLOW if s[0] < UNDERFLOWS else ''}"
            )
        return np.asarray((vt[:k].T / s[:k]) @ u[:, :k].T), s[: k + SHOWN]

    def reader(self, maps: Maps, keep: Keep) -> Reader:
        lifted = self.lifted
        axes = maps.get("axes", np.zeros((0, 0)))
        free = len(axes)
        views = [
            self.whitening(maps[name], maps[f"mean{a}"] if lifted else None)
            for a, name in enumerate(("W1", "M", "W3"), 1)
        ]

        def coordinates(*x: Any) -> Array:
            z = [whiten_rows(view) for whiten_rows, view in zip(views, x, strict=True)]
            columns = list(z)
            if keep != "tensor":
                columns = [
                    np.hstack([(view[:, :free] - maps["centre"]) @ axes, view[:, free:]])
                    for view in z
                ]
            centred = [view - maps[f"mean{a}"] if lifted else view for a, view in enumerate(x, 1)]
            if self.with_variances:
                columns += [self.noise(centred[1], maps)[:, None] * z[0]]
            if keep == "all":
                columns += [view.toarray() if sparse.issparse(view) else view for view in centred]
            return np.hstack(columns)

        return coordinates

    @staticmethod
    def noise(x: Array, maps: Maps) -> Array:
        """``|P x|^2 / p``, P onto the p dimensions in which the means do not differ; ``|x|^2`` if
        there are none.
        """
        squares = np.einsum("ij,ij->i", x, x)
        top = maps["top"]
        if top.shape[1] == x.shape[1]:
            return np.asarray(squares)
        inside = x @ top
        return np.asarray(
            (squares - np.einsum("ij,ij->i", inside, inside)) / (x.shape[1] - top.shape[1])
        )

    def terms(
        self, columns: tuple[int, ...], maps: Maps | None, keep: Keep
    ) -> tuple[list[Term], int]:
        k, lifted = self.k, self.lifted
        free = k - (lifted and keep != "tensor")
        z = [slice(a * k, a * k + free) for a in range(3)]
        terms: list[Term] = [Symmetric("tensor", *z)] if free else []
        count = 3 * k
        if self.with_variances:
            terms += [LinearTerm("spread", slice(count, count + k))]
            count += k
        if keep == "moments":
            terms += [LinearTerm("first", own) for own in z] + [
                Product(f"pair{a + 1}{b + 1}", z[a], z[b]) for a, b in PAIRS
            ]
        if keep == "all":
            sizes = columns if len(columns) == 3 else (columns[0],) * 3
            edges = np.cumsum([count, *sizes]).tolist()
            x = [slice(edges[a], edges[a + 1]) for a in range(3)]
            terms += [Product(f"pair{a + 1}{b + 1}", x[a], x[b]) for a, b in PAIRS]
            terms += [LinearTerm("first", slice(edges[0], edges[-1]))] if lifted else []
            count = edges[-1]
        return [term for term in terms if term.width], count


def of_seen_symbols(sample: Sample) -> tuple[Sample, Indices]:
    """The sample with a column for each symbol that occurs in it, and these symbols."""
    seen = np.unique(np.concatenate([view.indices for view in sample.views]))
    return replace(sample, views=tuple(only(view, seen) for view in sample.views)), seen


def of_all_symbols(product: Any, seen: Indices, count: int) -> Any:
    """Products of the symbols seen, as a matrix of all ``count``."""
    entries = sparse.coo_array(product)
    wide = sparse.csr_array(
        (entries.data, (seen[entries.row], seen[entries.col])), shape=(count, count)
    )
    return wide.toarray() if count <= DENSE_SYMBOLS else wide


@final
@dataclass(frozen=True)
class MultiView(ThreeViews):
    """A mixture seen in three views that are independent given the component.

    Parameters
    ----------
    n_components : int
        Number k of components, at most the number of columns of each view, and one.
    keep : {"tensor", "moments", "all"}
        What the kept rows carry by themselves, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        Keep the total weight.  The tensor about the means holds it anyway.

    Notes
    -----
    X is a tuple of three tables with the same number of rows.
    """

    n_components: int
    keep: Keep = "tensor"
    total_weight: bool = True
    part: ClassVar[str] = "component"
    input_tables: ClassVar[int] = 3

    def sample(
        self, tables: tuple[Any, ...], weights: Array | None, steps: Indices | None = None
    ) -> Sample:
        self.check_size(max(int(table.shape[1]) for table in tables))
        return plain_sample(self.views(tables, None), weights)

    def views(self, tables: tuple[Any, ...], maps: Maps | None) -> tuple[Any, ...]:
        return tuple(map(dense_blocks, tables))
