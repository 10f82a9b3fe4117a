"""Problems whose samples are the rows of one table, and whose maps are made of its mean and
covariance.

Most tables must be copied block by block: to convert them, to weight them, or to subtract an
offset, without which the scatter would lose digits.  An array of doubles near the origin is
multiplied where it lies, which takes two thirds of the time.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.blocked import share
from karat.engine.linalg import Array, Indices, one_blas_thread, threads
from karat.engine.parts import Computed
from karat.engine.rows import CACHE, PARTS, Rows, Statistic, add_in_place, sweep, useful_shift
from karat.engine.sums import gram_with_ones, summed_product
from karat.problems.latent.sample import Sample, check_wide, plain_sample
from karat.problems.latent.sums import Sums, counted

# means up to so many standard deviations cost the scatter one digit: no shift is needed
HARMLESS = 3.0
MANY_COLUMNS = 5000  # the covariance takes 200 MB then, and its eigenvectors some ten seconds
LONG = 2**13  # rows that are multiplied at once where they lie


class PlainRows:
    """Mixin: sample i is row i."""

    def check_size(self, columns: int) -> None:
        check_wide(columns, MANY_COLUMNS)

    def sample(
        self, tables: tuple[Any, ...], weights: Array | None, steps: Indices | None = None
    ) -> Sample:
        self.check_size(int(tables[0].shape[1]))
        return plain_sample((dense_blocks(tables[0]),), weights)

    def views(self, tables: tuple[Any, ...], maps: Any) -> tuple[Any, ...]:
        return (dense_blocks(tables[0]),)

    def sums(self, sample: Sample, whole: bool = True) -> Sums:
        """Mean and scatter in one pass; the columns are shifted by a pilot's means first, for
        accuracy.
        """
        rows = Rows(list(sample.views), sample.weights)
        pilot = rows.take(
            np.arange(0, len(rows), max(1, len(rows) // 1024)), np.zeros(rows.columns)
        )
        shift = useful_shift(pilot[:, 1:], harmless=HARMLESS)
        table = sample.views[0]
        by_rows = (
            isinstance(table, np.ndarray) and table.dtype == float and table.flags.c_contiguous
        )
        if by_rows and sample.weights is None and not shift.any():
            gram = gram_in_place(table)
        else:
            # a block is multiplied in pieces, so it may be long
            piece = (rows.columns + 1, -(-rows.columns // 8))
            (gram,) = sweep(
                rows,
                shift,
                lambda b, w, _: (gram_with_ones(b, w),),
                add_in_place,
                piece,
                cache=2 * CACHE,
            )
        with np.errstate(over="ignore", invalid="ignore"):  # counted() raises
            first = gram[0, 1:] / gram[0, 0]
            scatter = gram[1:, 1:] - gram[0, 0] * np.outer(first, first)
        return counted(sample, mean=shift + first, scatter=(scatter + scatter.T) / 2)

    def sums_size(self, columns: int) -> int:
        return columns * (columns + 1)


def gram_in_place(table: Array) -> Array:
    """Gram matrix of ``[1 | table]``, without a copy of the table.

    All columns times all but the last: for equal operands NumPy would call SYRK, which is slower on
    thin blocks.
    """
    n, d = table.shape
    starts = range(0, n, LONG)
    ones = np.ones(min(n, LONG))

    def run(part: range) -> Statistic:
        gram = np.zeros((d + 1, d + 1))
        with np.errstate(over="ignore", invalid="ignore"):  # counted() raises
            for start in part:
                block = table[start : start + LONG]
                gram[0, 1:] += ones[: len(block)] @ block
                gram[1:, 1:-1] += summed_product(block, block[:, :-1])
                gram[-1, -1] += block[:, -1] @ block[:, -1]
        return (gram,)

    cuts = np.linspace(0, len(starts), min(PARTS, len(starts)) + 1).astype(int)
    with one_blas_thread():
        (gram,) = reduce(
            add_in_place, share(run, [starts[a:b] for a, b in pairwise(cuts)], threads())
        )
    gram[0, 0], gram[1:, 0] = n, gram[0, 1:]
    gram[1:-1, -1] = gram[-1, 1:-1]
    return gram


def dense_blocks(table: Any) -> Any:
    """The table; a sparse one is made dense when its blocks are read."""
    return (
        Computed(lambda block: block.toarray(), table, columns=int(table.shape[1]))
        if sparse.issparse(table)
        else table
    )


def mean_and_covariance(sums: Sums) -> tuple[Array, Array]:
    return sums["mean"], sums["scatter"] / sums["total"]
