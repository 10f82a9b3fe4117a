"""Batches: some rows of a source as column blocks, with their numbers, and the weights, groups and keys that they carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from karat._data import frames
from karat._data.groups import Grouping, group_rows
from karat.engine.linalg import Array, Indices
from karat.engine.parts import Chunked, Offsets, SideBySide
from karat.engine.rows import Rows, sweep


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a source, or the rows held of it."""

    parts: list[Any]  # column blocks side by side: those of X, then those of y
    numbers: Any  # row numbers in the source; a stacked batch has them, and its keys, in chunks
    weights: Array | None = None
    groups: np.ndarray | None = None
    keys: Any = None
    # what is subtracted from columns when they are read; the column blocks hold the numbers as they came
    offsets: Offsets | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def grouping(self) -> Grouping | None:
        """The rows by their groups; None if there are no groups."""
        return None if self.groups is None else group_rows(self.groups)

    @property
    def nbytes(self) -> int:
        """Memory of the column blocks."""
        return sum(p.data.nbytes + p.indices.nbytes if sparse.issparse(p) else p.nbytes for p in self.parts)

    def take(self, where: Any, weights: Array | None = None) -> Batch:
        """Some of the rows (a slice, mask or positions), with new weights or their own."""
        own = weights if weights is not None else None if self.weights is None else self.weights[where]
        labels = None if self.groups is None else self.groups[where]
        keys = None if self.keys is None else self.keys[where]
        return Batch([p[where] for p in self.parts], self.numbers[where], own, labels, keys, self.offsets)

    def rows(self, index: Indices | None = None) -> Rows:
        """For the engine: all rows, or some of them."""
        return Rows(self.parts, self.weights, index, self.offsets)

    def block(self, left: int, right: int) -> Any:
        """Columns ``left:right``, side by side in one array or CSR matrix (in several, where one would round them)."""
        edges = np.cumsum([0, *(p.shape[1] for p in self.parts)])
        inside = [p for p, a, b in zip(self.parts, edges, edges[1:], strict=False) if left <= a and b <= right]
        if any(sparse.issparse(p) for p in inside):
            return sparse.csr_array(sparse.hstack(inside, format="csr"))
        if self.offsets and len(inside) > 1:
            return SideBySide([column[:, None] for p in inside for column in p.T])
        return inside[0] if len(inside) == 1 else np.hstack(inside)


def stack(batches: Sequence[Batch]) -> Batch:
    """Batches of equal columns, one after the other; dense column blocks are not copied."""
    first = batches[0]
    if len(batches) == 1:
        return first
    return Batch(
        _stacked_parts(batches),
        Chunked([p.numbers for p in batches]),
        _stacked_weights(batches),
        None if first.groups is None else np.concatenate([p.groups for p in batches]),
        None if first.keys is None else Chunked([p.keys for p in batches]),
        first.offsets,
    )


def joined(batches: Sequence[Batch]) -> Batch:
    """The same as one copy of all rows."""
    first = batches[0]
    return Batch(
        [frames.stack_rows(*blocks) for blocks in zip(*(p.parts for p in batches), strict=True)],
        np.concatenate([p.numbers for p in batches]),
        _stacked_weights(batches),
        None if first.groups is None else np.concatenate([p.groups for p in batches]),
        None if first.keys is None else np.concatenate([p.keys for p in batches]),
        first.offsets,
    )


def stacked_rows(batches: Sequence[Batch], index: Indices | None) -> Rows:
    """Rows of several batches for the engine, without numbers, groups and keys."""
    return Rows(_stacked_parts(batches), _stacked_weights(batches), index, batches[0].offsets)


def _stacked_parts(batches: Sequence[Batch]) -> list[Any]:
    """Column blocks of several batches."""
    if len(batches) == 1:
        return batches[0].parts
    columns = zip(*(p.parts for p in batches), strict=True)
    return [frames.stack_rows(*blocks) if sparse.issparse(blocks[0]) else Chunked(blocks) for blocks in columns]


def _stacked_weights(batches: Sequence[Batch]) -> Array | None:
    if all(p.weights is None for p in batches):
        return None
    return np.concatenate([np.ones(len(p)) if p.weights is None else p.weights for p in batches])


def labels_of(batch: Batch) -> list[Any]:
    """The groups of some rows, in order; None alone if there are no groups."""
    return [None] if batch.grouping is None else batch.grouping.labels


def members(batch: Batch, label: Any) -> Indices | None:
    """The rows of one group; None means all."""
    return None if label is None or batch.grouping is None else batch.grouping.rows(label)


def column_sums(rows: Rows, shift: Array) -> Array:
    """Total weight, sums and sums of squares of the shifted columns (3, d)."""

    def visit(block: Array, weights: Array | None, start: int) -> Array:
        values = block[:, 1:]
        w = np.ones(len(block)) if weights is None else weights
        return np.stack([np.full(values.shape[1], w.sum()), w @ values, w @ np.square(values)])

    return np.asarray(sweep(rows, shift, visit, np.add, (rows.columns + 1, 3)))
