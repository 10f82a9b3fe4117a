"""Samples: the weighted observations of a latent-variable model, each with one view or three.

A sample is a row of X, a document, a window of three steps, or a triple of views.  Views are tables
read by blocks, so a window is never copied: it is three lazy selections of rows of X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.linalg import Array, Indices
from karat.engine.parts import Computed, SelectedRows
from karat.engine.rows import Rows, consecutive
from karat.errors import InputError, several

BLOCK = 2**22  # bytes of a block of samples
CODES = 2**20  # symbols or words, seen or not: a fitted model has a column for each

Reader = Callable[..., Array]  # blocks of the views -> coordinates (b x q)


def sequence_steps(lengths: Any, count: int) -> Indices:
    """The place of every row in its sequence, from 0 on, for sequences of given lengths one after
    another.
    """
    try:
        long = np.asarray(lengths)
    except ValueError:  # rows of unequal length
        long = np.zeros(0)
    if long.ndim != 1 or long.dtype.kind not in "iu" or (long < 1).any():
        raise InputError(
            "lengths must be a list of integers of at least 1, one per sequence.",
            argument="lengths",
        )
    if int(long.sum()) != count:
        raise InputError(
            f"lengths add up to {int(long.sum()):,}, but X has {several(count, 'row')}; they must"
            " be equal.",
            argument="lengths",
        )
    return np.asarray(np.arange(count) - np.repeat(np.cumsum(long) - long, long))


def check_wide(columns: int, most: int) -> None:
    """Raise, before anything of that size is made, if there are too many columns for matrices of
    second moments.
    """
    if columns > most:
        raise InputError(
            f"X has {columns:,} columns; the second moments would be a matrix of that size, and at"
            f" most {most:,} are supported. Project the rows to fewer columns first, for example by"
            " TruncatedSVD(100) of scikit-learn."
        )


def check_codes(codes: int, what: str, advice: str) -> None:
    """Raise, before anything of that size is made, if symbols or words have too large numbers."""
    if codes > CODES:
        raise InputError(
            f"{what}; a model has a column for each number up to the largest, and at most"
            f" {CODES:,} are supported. {advice}"
        )


def only(table: Any, columns: Indices) -> Any:
    """Some columns of a CSR table, in increasing order; the entries of others become zeros."""
    places = np.minimum(np.searchsorted(columns, table.indices), len(columns) - 1)
    inside = columns[places] == table.indices
    return sparse.csr_array(
        (np.where(inside, table.data, 0.0), np.where(inside, places, 0), table.indptr),
        shape=(table.shape[0], len(columns)),
    )


def spread_out(rows: Array, seen: Indices, count: int) -> Array:
    """The rows of ``count`` columns, from those of the columns seen; zero for the others."""
    spread = np.zeros((count, *rows.shape[1:]))
    spread[seen] = rows
    return spread


def select(table: Any, index: Indices) -> Any:
    """The rows of a table at ``index``; dense ones are not copied."""
    run = consecutive(index)
    if run is not None:
        return table[run]
    return table[index] if sparse.issparse(table) else SelectedRows(table, index)


@dataclass(frozen=True)
class Sample:
    """Weighted samples.

    Attributes
    ----------
    views : tuple of tables
        Each with one row per sample: arrays, CSR matrices or lazy selections.
    weights : array or None
        Positive; None means 1.
    origin : int array or None
        The input row of each sample (the first of a window); None if sample i is row i.
    n_rows : int
        Rows of the input.
    inputs : int
        Rows, documents, or sequences that it holds.
    dropped : int
        Those of them that could not be used (documents under three words, sequences under three
        steps).
    opening : (array (d,), float) or None
        Sum of the first observations of all sequences, and their total weight.
    """

    views: tuple[Any, ...]
    weights: Array | None
    origin: Indices | None
    n_rows: int
    inputs: int
    dropped: int = 0
    opening: tuple[Array, float] | None = None

    def __len__(self) -> int:
        return int(self.views[0].shape[0])

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(int(view.shape[1]) for view in self.views)

    @property
    def total(self) -> float:
        return float(len(self)) if self.weights is None else float(self.weights.sum())

    def rows_of(self, index: Indices) -> Indices:
        """The input rows of some of the samples."""
        return index if self.origin is None else self.origin[index]

    def blocks(self) -> Iterator[tuple[list[Any], Array | None]]:
        """Blocks of the views, dense as float64, and of the weights."""
        size = max(256, BLOCK // (8 * sum(self.columns)))
        for start in range(0, len(self), size):
            where = slice(start, min(start + size, len(self)))
            yield (
                [read(view, where) for view in self.views],
                None if self.weights is None else self.weights[where],
            )

    def rows(self, reader: Reader, columns: int) -> Rows:
        """The samples as the engine sees them: rows of coordinates, computed when a block is
        read.
        """
        return Rows([coordinates(self.views, reader, columns)], self.weights)


def plain_sample(tables: tuple[Any, ...], weights: Array | None) -> Sample:
    """One sample per row, without those of weight zero."""
    count = int(tables[0].shape[0])
    if weights is None or weights.all():
        return Sample(tables, weights, None, count, count)
    origin = np.flatnonzero(weights)
    return Sample(
        tuple(select(table, origin) for table in tables), weights[origin], origin, count, count
    )


def read(view: Any, where: Any) -> Any:
    """Some rows of a view, as float64, sparse ones as CSR."""
    return doubles_or_sparse(view[where])


def doubles_or_sparse(block: Any) -> Any:
    return block if sparse.issparse(block) else np.asarray(block, dtype=float)


def coordinates(views: tuple[Any, ...], reader: Reader, columns: int) -> Computed:
    """The coordinates of samples, computed from their views when they are read."""
    # kernels of latent-variable problems read blocks column by column
    return Computed(
        lambda *blocks: reader(*map(doubles_or_sparse, blocks)),
        *views,
        columns=columns,
        by_columns=True,
    )
