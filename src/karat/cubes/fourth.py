"""Fourth moments of the rows of cells, from which HC0 and HC1 follow for every slice
(:mod:`karat.engine.fourth_moments`): how they are summed, and how a file holds them.

A cell has coordinates of its own, from its first rows.  While these are few, and where new rows lie
far out in them, new rows get other coordinates, and both are united.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from karat.core.synthetic import REAL
from karat.engine.fourth_moments import (
    MOST,
    FourthMoments,
    number_count,
    pair_places,
    row_coordinates,
    sums_of,
)
from karat.engine.linalg import Array, Indices
from karat.errors import InputError, require
from karat.problems import Problem

KINDS = ("HC0", "HC1")  # both follow from the same sums
RIPE = 16  # rows for each coordinate, from which on a cell keeps its coordinates
FAR = 64.0  # mean square of a coordinate of new rows that lie far out
SHARE = 4  # of the memory: cells are copied when they are put in order, and when they are merged
LARGEST = 1e140  # squares of larger numbers overflow, and tables refuse them


def check_cov(cov: Any, problem: Problem, rows: str) -> str:
    """The covariances that cells keep the sums of: one name for both."""
    if cov not in KINDS:
        raise InputError(
            f"cov must be 'HC0' or 'HC1' (a cube with one has both), not {cov!r}. Errors clustered"
            " by a label need nothing more in a cube; other covariances need all rows:"
            " karat.ols(formula, data, cov_type=...).",
            argument="cov",
        )
    if rows == REAL and not (problem.keeps_squares and problem.keeps_total):
        raise InputError(
            f"cov is for tables, and a cube of {problem.describe()} gives none; leave it out, or"
            " use LeastSquares().",
            argument="cov",
        )
    return KINDS[1]


class GatherFourth:
    """Sums fourth moments by cell, in one pass.

    Parameters
    ----------
    columns : int
        The number of features and targets.
    memory : int
        Bytes that the run may use.
    """

    def __init__(self, columns: int, memory: int) -> None:
        self.memory = memory
        self.moments = FourthMoments.none(0, columns)
        self.rows = np.zeros(0, dtype=np.int64)  # by which the coordinates were chosen

    def add(self, codes: Indices, columns: Sequence[np.ndarray], weights: Array | None) -> None:
        """Add rows; ``codes`` are the numbers of their cells."""
        table = np.column_stack(columns).astype(float, copy=False)
        heavy = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=float)
        if not (np.isfinite(table).all() and np.isfinite(heavy).all()):
            return  # the rows are refused when they are reduced, with their names
        if np.abs(table).max(initial=0.0) > LARGEST:
            raise InputError(
                f"With cov=, columns have values up to {LARGEST:.0e}; change the units of larger"
                " ones.",
                argument="cov",
            )
        self._make_room(int(codes.max()) + 1)
        order = np.argsort(codes, kind="stable")
        order = order[heavy[order] > 0]
        codes, table, heavy = codes[order], table[order], heavy[order]
        edges = np.flatnonzero(np.diff(codes, prepend=-1))
        again: list[tuple[int, int, FourthMoments]] = []
        for start, stop in pairwise([*edges.tolist(), len(codes)]):
            cell, rows, u = int(codes[start]), table[start:stop], heavy[start:stop]
            if self.rows[cell] < RIPE * (rows.shape[1] + 1) or not self._added(cell, rows, u):
                shift, factor = row_coordinates(rows, u)
                sums = sums_of(rows, u, shift, factor)
                new = FourthMoments(shift[None], factor[None], sums[None])
                if self.rows[cell]:
                    again.append((cell, len(rows), new))
                else:
                    self._put(np.array([cell]), new)
                    self.rows[cell] = len(rows)
        if again:
            numbers, counts, parts = zip(*again, strict=True)
            cells, count = np.array(numbers), len(numbers)
            both = FourthMoments.joined([self.moments.chosen(cells), *parts])
            self._put(cells, both.united([np.array([i, count + i]) for i in range(count)]))
            self.rows[cells] += counts

    def _added(self, cell: int, rows: Array, weights: Array) -> bool:
        """Add rows in the coordinates of their cell, unless they lie far out, or may move in a
        direction in which earlier rows do not.
        """
        if not np.diagonal(self.moments.factor[cell]).all():
            return False
        sums = sums_of(rows, weights, self.moments.shift[cell], self.moments.factor[cell])
        q = rows.shape[1] + 1
        squares = sums[pair_places(q).whole[0][_diagonal(q)]]
        if squares.max() > FAR * squares[0]:
            return False
        self.moments.sums[cell] += sums
        return True

    def _put(self, cells: Indices, new: FourthMoments) -> None:
        held = self.moments
        held.shift[cells], held.factor[cells], held.sums[cells] = new.shift, new.factor, new.sums

    def _make_room(self, cells: int) -> None:
        """Room for so many cells."""
        if cells <= len(self.rows):
            return
        columns = self.moments.columns
        check_room(cells, columns, self.memory)
        more = max(cells, 3 * len(self.rows) // 2) - len(self.rows)
        self.moments = FourthMoments.joined([self.moments, FourthMoments.none(more, columns)])
        self.rows = np.append(self.rows, np.zeros(more, dtype=np.int64))

    def of(self, cells: Indices) -> FourthMoments:
        """Those of some cells; a cell whose rows have weight zero has none."""
        if len(cells):
            self._make_room(int(cells.max()) + 1)
        return self.moments.chosen(cells)


def _diagonal(q: int) -> Indices:
    """The pairs of a coordinate and itself."""
    return np.cumsum([0, *range(q, 1, -1)])


def check_room(cells: int, columns: int, memory: int) -> None:
    """Raise if the sums of so many cells do not fit."""
    if columns > MOST:
        raise InputError(
            f"cov='HC1' is for up to {MOST} columns, and there are {columns}: name those of the"
            " tables in columns=.",
            argument="cov",
        )
    each = 8 * number_count(columns)
    if SHARE * cells * each > memory:
        raise InputError(
            f"cov='HC1' takes {each:,} bytes for each cell of {columns} columns, and there are"
            f" {cells:,} cells or more: {SHARE * cells * each / 1e9:.2g} GB while they are made,"
            f" of memory={memory:,}. Give more memory, or use fewer columns or labels.",
            argument="memory",
        )


def fourth_arrays(moments: FourthMoments | None, starts: Indices) -> tuple[
    dict[str, np.ndarray], list[tuple[str, str, list[str]]]
]:  # fmt: skip
    """Arrays for the file of a cube, and their columns: a list in the first kept row of a cell."""
    if moments is None:
        return {}, []
    lines = moments.packed()
    ends = np.zeros(int(starts[-1]) + 1, dtype=np.int64)
    ends[starts[:-1] + 1] = lines.shape[1]
    arrays: dict[str, np.ndarray] = {
        "fourth/indices": np.tile(np.arange(lines.shape[1], dtype=np.int32), len(lines)),
        "fourth/data": lines.ravel(),
        "fourth/indptr": np.cumsum(ends),
    }
    return arrays, [("fourth", "sparse", ["fourth_place", "fourth_sum"])]


def stored_fourth(arrays: Mapping[str, np.ndarray], starts: Indices, columns: int) -> FourthMoments:
    """What :func:`fourth_arrays` made."""
    require("fourth/indptr" in arrays, "its fourth moments are missing")
    ends, data = arrays["fourth/indptr"], arrays["fourth/data"]
    width = number_count(columns)
    require(
        len(ends) == int(starts[-1]) + 1
        and data.dtype == np.float64
        and bool((np.diff(ends[starts]) == width).all())
        and int(ends[-1]) == len(data)
        and bool(np.isfinite(data).all()),
        "its fourth moments are not valid",
    )
    return FourthMoments.unpacked(data.reshape(-1, width))
