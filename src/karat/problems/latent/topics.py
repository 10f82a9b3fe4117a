"""Topic models on bags of words: one topic per document, or a Dirichlet mixture of them (Anandkumar
et al. 2014).

A document is a vector c of word counts with length l >= 3.  The means over ordered triples of
distinct word positions are unbiased:

    t1 = c / l,    t2 = (cc' - diag c) / (l (l-1)),
    t3 = (c (x) c (x) c - sum_ab c_a c_b (e_a e_a e_b + e_a e_b e_a + e_b e_a e_a) + 2 sum_a c_a e_a
    e_a e_a) / (l(l-1)(l-2)),

and whitened, without any d x d or d x d x d array, with z = M'c, S = M' diag(c) M, R = sum_a c_a
M_a (x) M_a (x) M_a:

    t3~ = (z (x) z (x) z - [z | S] + 2 R) / (l (l-1) (l-2)),    t2~ = (zz' - S) / (l (l-1)).

Single topic:      M2 = E t2,   M3 = E t3.
Latent Dirichlet:  M2 = E t2 - a/(a+1) m1 m1',  M3 = E t3 - a/(a+2) [m1 | E t2] + 2 a^2/((a+1)(a+2))
m1 (x) m1 (x) m1,

a = alpha_0 the sum of the Dirichlet parameters and m1 = E t1; a = 0 is the single topic.  With m1
of the full data fixed, M3 is a sum over documents.  S and R are sparse products of the counts with
d x k(k+1)/2 and d x k(k+1)(k+2)/6 tables of M.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any, ClassVar, final

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from karat.engine.kernel import monomials
from karat.engine.linalg import Array, Indices
from karat.engine.parts import Computed
from karat.errors import InputError
from karat.problems.latent.base import Keep, Latent, Maps
from karat.problems.latent.sample import Reader, Sample, check_codes, only, spread_out
from karat.problems.latent.sums import Sums, counted
from karat.problems.latent.terms import LinearTerm, Term, bracket
from karat.problems.latent.whiten import standardise, whiten

NEGLIGIBLE = 1e-12  # entries of a document's tensor, relative to its largest, that are rounding
DENSE = 600  # words up to which the d x d matrix is formed


class _Topics(Latent):
    """Base class of both topic models, which differ in alpha_0 only."""

    parts: ClassVar[str] = "topics"
    why_dropped: ClassVar[str] = "documents have fewer than 3 words"

    @property
    def concentration(self) -> float:
        return 0.0

    def check_size(self, columns: int) -> None:
        check_codes(
            columns,
            f"X has {columns:,} words",
            "Leave out the columns of words that do not occur, or hash the words to fewer columns.",
        )

    def sample(
        self, tables: tuple[Any, ...], weights: Array | None, steps: Indices | None = None
    ) -> Sample:
        self.check_size(int(tables[0].shape[1]))
        counts = checked_counts(tables[0])
        size = np.asarray(counts.sum(axis=1)).ravel()
        long = size >= 3
        used = long if weights is None else long & (weights > 0)
        origin = None if used.all() else np.flatnonzero(used)
        if origin is not None:
            counts = counts[origin]
            weights = None if weights is None else weights[origin]
        return Sample((counts,), weights, origin, len(size), len(size), int((~long).sum()))

    def empty_message(self, inputs: int, dropped: int) -> str:
        if dropped == inputs:
            return (
                f"All {inputs} documents have fewer than 3 words; the method needs triples of"
                " words."
            )
        return "No document of at least 3 words has a positive weight."

    def views(self, tables: tuple[Any, ...], maps: Maps | None) -> tuple[Any, ...]:
        return (
            Computed(
                lambda block: sparse.csr_array(block, dtype=float),
                tables[0],
                columns=int(tables[0].shape[1]),
            ),
        )

    def sums(self, sample: Sample, whole: bool = True) -> Sums:
        (counts,) = sample.views
        d = counts.shape[1]
        size = np.asarray(counts.sum(axis=1)).ravel()
        weights = np.ones(len(size)) if sample.weights is None else sample.weights
        shares = weights / (size * (size - 1))
        pairs: Any = None
        if d > DENSE and whole:  # all rows are in memory, so their products need not be formed
            seen = only(counts, np.unique(counts.indices))
            across = seen.T.tocsr()
            pairs = LinearOperator(
                (seen.shape[1], seen.shape[1]),
                matvec=lambda v: across @ (shares * (seen @ v.ravel())),
                dtype=float,
            )
        else:
            product = sparse.csr_array(counts.T @ (counts * shares[:, None]))
            pairs = product.toarray() if d <= DENSE else product
        return counted(sample, m1=counts.T @ (weights / size), words=counts.T @ shares, pairs=pairs)

    def sums_size(self, columns: int) -> int:
        return columns * (columns + 2)

    def maps_of(self, sums: Sums) -> Maps:
        total, n = float(sums["total"]), int(sums["n"])
        m1, words = sums["m1"] / total, sums["words"] / total
        d, pairs = len(m1), sums["pairs"]
        self.check_columns(d, "words")
        if n < self.k:
            raise InputError(
                f"{n} documents of at least 3 words cannot support {self.k} topics; give longer"
                " documents or ask for fewer topics."
            )
        less = self.concentration / (self.concentration + 1)
        if d <= DENSE:
            second: Any = pairs / total - np.diag(words) - less * np.outer(m1, m1)
            white = whiten(second, self.k, "topics")
            M, B = white.M, white.B
        else:  # of the words that occur
            seen = np.flatnonzero(m1)
            self.check_columns(len(seen), "words that occur")
            if not isinstance(pairs, LinearOperator):
                pairs = only(sparse.csr_array(pairs)[seen], seen)
            share, single = m1[seen], words[seen]

            def multiply(v: Array) -> Array:
                v = v.ravel()
                return np.asarray(pairs @ v / total - single * v - less * share * (share @ v))

            second = LinearOperator((len(seen), len(seen)), matvec=multiply, dtype=float)
            white = whiten(second, self.k, "topics")
            M, B = (spread_out(rows, seen, d) for rows in (white.M, white.B))
        return {
            "M": M, "B": B, "spectrum": white.spectrum,
            "magnify": np.array(white.magnify), "m1": m1, "total": sums["total"], "n": sums["n"],
        }  # fmt: skip

    def reader(self, maps: Maps, keep: Keep) -> Reader:
        seen = np.flatnonzero(maps["m1"])
        wide = len(maps["M"]) > DENSE  # tables below have a row for every word that occurs
        M, k, a = maps["M"][seen] if wide else maps["M"], self.k, self.concentration
        # better coordinates of the words: t3, t2, t1 and 1 together have the same span
        if keep != "tensor":
            centre, axes = standardise(M, maps["m1"][seen] if wide else maps["m1"])
            M, a = (M - centre) @ axes, 0.0
        pair, triple = monomials(k, 2), monomials(k, 3)
        root2, root3 = np.sqrt(pair.multinomials), np.sqrt(triple.multinomials)
        M_pairs = np.ascontiguousarray(pair.values(M.T).T)
        M_triples = np.ascontiguousarray(triple.values(M.T).T)
        i, j, m = triple.indices.T
        grid = np.zeros((k, k), dtype=np.intp)
        grid[tuple(pair.indices.T)] = np.arange(len(pair))
        ij, im, jm = grid[i, j], grid[i, m], grid[j, m]  # i <= j <= m in every multiset
        mean = maps["M"].T @ maps["m1"]
        mean_pairs = bracket_rows(mean)  # [m1~ | .] on scaled unique pairs
        mean_cube = 2 * a**2 / ((a + 1) * (a + 2)) * root3 * triple.values(mean[:, None])[:, 0]

        def coordinates(c: Any) -> Array:
            size = np.asarray(c.sum(axis=1)).ravel()[:, None]
            c = only(c, seen) if wide else c
            z, S, R = c @ M, c @ M_pairs, c @ M_triples
            t2 = (
                root2
                * (z[:, pair.indices[:, 0]] * z[:, pair.indices[:, 1]] - S)
                / (size * (size - 1))
            )
            cube = (
                z[:, i] * (z[:, j] * z[:, m] - S[:, jm])
                - z[:, j] * S[:, im]
                - z[:, m] * S[:, ij]
                + 2 * R
            )
            t3 = root3 * cube / (size * (size - 1) * (size - 2))
            # Topics with disjoint words have a diagonal tensor: other entries are rounding of M,
            # not features.
            t3[np.abs(t3) < NEGLIGIBLE * np.abs(t3).max(axis=1, keepdims=True)] = 0.0
            if a:
                t3 = t3 - a / (a + 2) * (t2 @ mean_pairs) + mean_cube
            if keep == "tensor":
                return np.asarray(t3)
            if keep == "moments":
                return np.hstack([t3, t2, z / size])
            dense = c.toarray()
            first, last = np.triu_indices(dense.shape[1])
            pairs = dense[:, first] * (dense[:, last] - (first == last))
            return np.hstack([t3, pairs / (size * (size - 1))])

        return coordinates

    def terms(
        self, columns: tuple[int, ...], maps: Maps | None, keep: Keep
    ) -> tuple[list[Term], int]:
        k, (d,) = self.k, columns
        cube = len(monomials(k, 3))
        terms: list[Term] = [LinearTerm("tensor", slice(0, cube))]
        more = {"tensor": 0, "moments": k * (k + 3) // 2, "all": d * (d + 1) // 2}[keep]
        if more:
            terms += [LinearTerm("second", slice(cube, cube + more))]
        return terms, cube + more


def bracket_rows(vector: Array) -> Array:
    """The matrix P with ``s P = [vector | S]``, both in scaled unique entries."""
    k = len(vector)
    pair = monomials(k, 2)
    root = np.sqrt(pair.multinomials)
    rows = np.empty((len(pair), len(monomials(k, 3))))
    for row, (p, q) in enumerate(pair.sets):
        unit = np.zeros((k, k))
        unit[p, q] = unit[q, p] = 1.0
        rows[row] = bracket(unit) @ vector / root[row]
    return rows


def checked_counts(table: Any) -> sparse.csr_array:
    """Word counts as CSR; integers of at least 0."""
    counts = sparse.csr_array(table if sparse.issparse(table) else table[:], dtype=float)
    values = counts.data
    for bad, fault in (
        (~np.isfinite(values), "NaN or infinite"),
        (values < 0, "negative"),
        (values != np.floor(values), "not integers"),
    ):
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            row = int(np.searchsorted(counts.indptr, first, side="right")) - 1
            sign = "Negative values in data: " if fault == "negative" else ""
            raise InputError(
                f"{sign}{int(bad.sum())} counts are {fault}, the first in document {row}, word"
                f" {counts.indices[first]} ({values[first]:g}); topics need word counts, not"
                " frequencies or tf-idf."
            )
    return counts


@final
@dataclass(frozen=True)
class SingleTopic(_Topics):
    """Documents of one topic each, as bags of words.

    Parameters
    ----------
    n_topics : int
        Number k of topics, at most the number of words.
    keep : {"tensor", "moments", "all"}
        What the kept rows carry by themselves, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        With ``keep="tensor"``, also keep the total weight (one more row); other modes always do.
    """

    n_topics: int
    keep: Keep = "tensor"
    total_weight: bool = True


@final
@dataclass(frozen=True)
class LatentDirichlet(_Topics):
    """Documents that mix topics in proportions drawn from a Dirichlet law, as bags of words.

    Parameters
    ----------
    n_topics : int
        Number k of topics, at most the number of words.
    alpha0 : float
        Sum of the Dirichlet parameters, known beforehand; small: nearly one topic per document.
    keep : {"tensor", "moments", "all"}
        What the kept rows carry by themselves, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        With ``keep="tensor"``, also keep the total weight (one more row); other modes always do.
    """

    n_topics: int
    alpha0: float
    keep: Keep = "tensor"
    total_weight: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.alpha0
        if not (isinstance(given, Real) and isfinite(given) and float(given) > 0):
            raise InputError(
                f"alpha0 must be a positive number, not {given!r}; alpha0 -> 0 is SingleTopic."
            )
        vars(self)["alpha0"] = float(given)  # JSON has no NumPy numbers

    @property
    def concentration(self) -> float:
        return float(self.alpha0)
