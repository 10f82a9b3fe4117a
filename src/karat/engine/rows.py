"""Rows: a table ``[X | Y]`` with weights, read in blocks as float64.

The table is never copied whole.  A block is written into a small buffer as ``[1 | D - shift]``: the leading ones give
totals and first moments, and the shift (a pilot's column means, or zero) keeps later products accurate at no cost, since
the copy is made anyway.  Integers, float32 and sparse rows become float64 only there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.linalg import Array, Indices
from karat.engine.offsets import Offsets, lowered

GATHERED = 2**16  # rows that are gathered at a time: a part may have to compute them


FEW = 0.2  # of the columns


class Chunked:
    """A column or block of columns, its rows in several arrays one after the other; a slice of one of them is not copied."""

    def __init__(self, chunks: Sequence[Any]) -> None:
        self.chunks = [chunk for chunk in chunks if len(chunk)]
        self.edges = np.cumsum([0, *(len(chunk) for chunk in self.chunks)]).tolist()
        self.shape = (self.edges[-1], *chunks[0].shape[1:])
        self.dtype = np.result_type(*(chunk.dtype for chunk in self.chunks))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, slice):
            start, stop, _ = where.indices(len(self))
            first = bisect_right(self.edges, start) - 1
            if stop <= self.edges[min(first + 1, len(self.chunks))]:
                return self.chunks[min(first, len(self.chunks) - 1)][start - self.edges[first] : stop - self.edges[first]]
            last = bisect_right(self.edges, stop - 1)
            spans = zip(self.chunks[first:last], self.edges[first:last], strict=True)
            return np.concatenate([c[max(start - edge, 0) : max(stop - edge, 0)] for c, edge in spans])
        positions = np.asarray(where)
        owner = np.searchsorted(self.edges, positions, side="right") - 1
        values = np.empty((len(positions), *self.shape[1:]), dtype=self.dtype)
        for i in np.unique(owner):
            mine = np.flatnonzero(owner == i)
            values[mine] = self.chunks[i][positions[mine] - self.edges[i]]
        return values


class Rows:
    """Weighted rows of several column blocks side by side.

    Parameters
    ----------
    parts : sequence of 2-D arrays or CSR matrices
        Column blocks with the same number of rows.
    weights : array or None
        One positive weight per row of ``parts``; None means 1.
    index : array or None
        Use only these rows of ``parts``, in this order; None means all.
    offsets : mapping of column to int, or None
        Whole numbers that are subtracted from columns before they become doubles.
    """

    def __init__(
        self, parts: Sequence[Any], weights: Array | None = None, index: Indices | None = None, offsets: Offsets | None = None
    ) -> None:
        self.parts = lowered(list(parts), offsets)
        self.index = index
        self.weights = weights if index is None or weights is None else weights[index]
        self.count = len(index) if index is not None else int(self.parts[0].shape[0])
        widths = [int(part.shape[1]) for part in self.parts]
        self.edges = np.cumsum([1, *widths])
        self.columns = sum(widths)

    def __len__(self) -> int:
        return self.count

    @property
    def total(self) -> float:
        return float(self.count) if self.weights is None else float(self.weights.sum())

    def subset(self, positions: Indices, weights: Array | None = None) -> Rows:
        """The rows at ``positions``, with new weights or their own."""
        own = self.weights[positions] if weights is None and self.weights is not None else weights
        chosen = Rows(self.parts, index=positions if self.index is None else self.index[positions])
        chosen.weights = own
        return chosen

    def replaced(self, parts: Sequence[Any]) -> Rows:
        """Other column blocks for the same rows."""
        other = Rows(parts, index=self.index)
        other.weights = self.weights
        return other

    def gathered(self) -> Rows:
        """The same rows in one array, for those who read them many times and in pieces (sparse rows stay as they are)."""
        one = len(self.parts) == 1 and isinstance(self.parts[0], np.ndarray)
        if one or any(sparse.issparse(part) for part in self.parts):
            return self
        kinds = [part.dtype for part in self.parts]
        block = np.empty((len(self), self.columns), dtype=np.result_type(*kinds))
        for start in range(0, len(self), GATHERED):
            where = slice(start, min(start + GATHERED, len(self)))
            for part, left, right in zip(self.parts, self.edges[:-1], self.edges[1:], strict=True):
                block[where, left - 1 : right - 1] = part[where if self.index is None else self.index[where]]
        return Rows([block], self.weights)

    def take(self, positions: Indices, shift: Array) -> Array:
        """The rows at ``positions`` as a new block ``[1 | D - shift]``."""
        where = positions if self.index is None else self.index[positions]
        block = np.ones((len(where), self.columns + 1))
        self.fill(where, block)
        block[:, 1:] -= shift
        return block

    def fill(self, where: slice | Indices, block: Array) -> None:
        """Write rows of ``parts`` beside the ones of a block."""
        for part, left, right in zip(self.parts, self.edges[:-1], self.edges[1:], strict=True):
            values = part[where]
            block[:, left:right] = values.toarray() if sparse.issparse(values) else values


def useful_shift(pilot: Array, weights: Array | None = None, harmless: float = 1.0) -> Array:
    """The means of columns; zero where they are at most ``harmless`` standard deviations, so that they spoil no product."""
    with np.errstate(over="ignore", invalid="ignore"):  # noticed by the pass
        mean = np.average(pilot, axis=0, weights=weights)
        mean = np.where((pilot == pilot[0]).all(axis=0), pilot[0], mean)  # without the rounding of an average
        spread = np.sqrt(np.average(np.square(pilot - mean), axis=0, weights=weights))
    near = np.isfinite(spread) & (np.abs(mean) <= harmless * spread)
    if weights is not None and 2 * weights.max() > weights.sum():  # a mean that rounding would move away from its row
        mean = pilot[weights.argmax()]
    return np.where(near, 0.0, mean)


class Blocks:
    """Runs of rows as blocks ``[1 | D - shift]``, each written over the one before it.

    A few columns are shifted one by one.  For many, the shift is repeated in every row of a table: arrays of one shape are
    subtracted three times as fast as a row from a table.
    """

    def __init__(self, rows: Rows, shift: Array, size: int) -> None:
        self.rows, self.shift = rows, shift
        self.buffer = np.ones((size, rows.columns + 1))
        self.shifted = np.flatnonzero(shift).tolist()
        many = len(self.shifted) > FEW * len(shift)
        self.shifts = np.tile(np.concatenate([[0.0], shift]), (size, 1)) if many else None

    def read(self, start: int, stop: int) -> Array:
        """Rows ``start:stop``."""
        block = self.buffer[: stop - start]
        self.rows.fill(slice(start, stop) if self.rows.index is None else self.rows.index[start:stop], block)
        if self.shifts is not None:
            np.subtract(block, self.shifts[: stop - start], out=block)
        else:
            for column in self.shifted:
                block[:, column + 1] -= self.shift[column]
        return block
