"""Cells: for every label of a cube a few weighted rows, and the certificate that they are exact.

Cells lie one after the other in the order of their labels; the rows of cell g are ``starts[g]:starts[g + 1]`` of every column.
Rows of a cell are numbered from 0 on in the order in which they came; rows of several cells are numbered one cell after the
other.  Nothing here changes: every operation gives new cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np

from karat._core.certify import Certificate
from karat._cube.kinds import joined_labels, label_keys
from karat._data.frames import stack_rows
from karat.engine.linalg import Array, Indices
from karat.problems import Problem


@dataclass(frozen=True)
class Cells:
    """Weighted rows of cells.

    Attributes
    ----------
    labels : tuple of arrays
        For each column that labels cells, its value in every cell.
    starts : array of shape (cells + 1,)
    columns : tuple of arrays
        The features of the kept rows, then the targets, each of its own type.
    weights : array
    numbers : int64 array
        Of each kept row, within its cell.
    keys : array or None
        Values of a key column.
    certificates : tuple of Certificate
        One for each cell; ``n_rows`` says how many rows the cell has.
    origins : tuple of tuple of int
        For each cell, the changes of the cube that its rows came by.
    """

    labels: tuple[np.ndarray, ...]
    starts: Indices
    columns: tuple[np.ndarray, ...]
    weights: Array
    numbers: np.ndarray
    keys: np.ndarray | None
    certificates: tuple[Certificate, ...]
    origins: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.certificates)

    @property
    def sizes(self) -> Indices:
        """Kept rows of each cell."""
        return np.diff(self.starts)

    @property
    def counts(self) -> np.ndarray:
        """Rows that each cell stands for."""
        return np.array([certificate.n_rows for certificate in self.certificates], dtype=np.int64)

    @property
    def totals(self) -> Array:
        """The total weight of each cell."""
        return np.add.reduceat(self.weights, self.starts[:-1]) if len(self) else np.zeros(0)

    def rows_of(self, chosen: Indices) -> Indices:
        """The places of the kept rows of some cells, one cell after the other."""
        return ranges(self.starts[:-1][chosen], self.sizes[chosen])

    def identifiers(self, which: Indices) -> list[str]:
        """What tells cells from others, by their kept rows and weights: the same cell must not be merged twice."""
        rows, ends = self.rows_of(which), np.cumsum([0, *self.sizes[which]]).tolist()
        data = np.column_stack([self.weights[rows], self.numbers[rows], self.columns[0][rows]]).astype(float)
        return [sha256(data[a:b].tobytes()).hexdigest()[:32] for a, b in pairwise(ends)]

    def chosen(self, which: Indices) -> Cells:
        """Some of the cells, in a given order."""
        rows = self.rows_of(which)
        return Cells(
            tuple(values[which] for values in self.labels),
            starts_of(self.sizes[which]),
            tuple(column[rows] for column in self.columns),
            self.weights[rows],
            self.numbers[rows],
            None if self.keys is None else self.keys[rows],
            tuple(self.certificates[i] for i in which),
            tuple(self.origins[i] for i in which),
        )


def joined_cells(parts: Sequence[Cells]) -> Cells:
    """The cells of several parts, one part after the other; labels may occur several times."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    first = parts[0]
    if len(parts) == 1:
        return first
    return Cells(
        tuple(joined_labels(values) for values in zip(*(part.labels for part in parts), strict=True)),
        starts_of(np.concatenate([part.sizes for part in parts])),
        tuple(stack_rows(*values) for values in zip(*(part.columns for part in parts), strict=True)),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        None if first.keys is None else np.concatenate([np.asarray(part.keys) for part in parts]),
        tuple(certificate for part in parts for certificate in part.certificates),
        tuple(origin for part in parts for origin in part.origins),
    )


def no_cells(labels: int, columns: int) -> Cells:
    """Those of rows of which none is left, with so many columns of labels and of numbers."""
    none, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
    return Cells((none,) * labels, starts_of(whole), (none,) * columns, none, whole, None, (), ())


def no_weight(problem: Problem, count: int) -> Certificate:
    """That of a cell of ``count`` rows, of which none has a weight: nothing is kept, and nothing is off.

    Rows of the same label may have weights in other partitions of the data.
    """
    return Certificate(
        loss_error=0.0, rounding=0.0, remainder=0.0, moment_error=0.0, total_error=0.0, rank=0, size=0, bound=0, condition=1.0,
        excluded_directions=(), method="no row", passes=1, seconds=0.0, keeps=problem.keeps, excludes=problem.excludes,
        n_rows=count, spent=0.0,
    )  # fmt: skip


def starts_of(sizes: Indices) -> Indices:
    """Where the rows of cells of these sizes begin, and where the last of them ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def ranges(starts: Indices, sizes: Indices) -> Indices:
    """The numbers ``start, start + 1, ..., start + size - 1`` for every start, one after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - sizes), sizes))


def in_order(labels: Sequence[np.ndarray], count: int) -> tuple[Indices, Indices]:
    """The order of labels, and where a new one begins in that order (with the end)."""
    if not labels:
        return np.arange(count), np.array([0, count] if count else [0])
    order = np.lexsort(tuple(reversed(labels)))
    new = np.zeros(count, dtype=bool)
    for values in labels:
        sorted_values = values[order]
        new[1:] |= sorted_values[1:] != sorted_values[:-1]
    new[:1] = True
    return order, np.append(np.flatnonzero(new), count)


def label_list(cells: Cells) -> list[tuple[Any, ...]]:
    """The label of every cell; dates as they are in NumPy, in microseconds."""
    if not cells.labels:
        return [()] * len(cells)
    values = (v.astype("datetime64[us]") if v.dtype.kind == "M" else v for v in cells.labels)
    return list(zip(*map(label_keys, values), strict=True))
