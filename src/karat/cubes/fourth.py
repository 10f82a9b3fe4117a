"""Fourth moments of the rows of cells, from which HC0 and HC1 follow for every slice
(:mod:`karat.engine.fourth_moments`): how they are summed, and how a file holds them.

Rows of a cell that come together have coordinates of their own, and are united with those that came
before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from karat.core.synthetic import REAL
from karat.engine.fourth_moments import MOST, FourthSums, number_count, row_coordinates, sums_of
from karat.engine.linalg import Array, Indices
from karat.errors import InputError, require
from karat.problems import Problem

KINDS = ("HC0", "HC1")  # both follow from the same sums
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


def fourth_moments(
    parts: Sequence[np.ndarray], weights: Array | None, order: Indices, starts: Indices
) -> FourthSums:
    """Of groups of rows of positive weight: those of group g are ``order[starts[g]:starts[g+1]]``.

    A group without rows has none.
    """
    columns = sum(part.shape[1] for part in parts)
    found = FourthSums.none(len(starts) - 1, columns)
    for group in np.flatnonzero(np.diff(starts)).tolist():
        places = order[starts[group] : starts[group + 1]]
        rows = np.concatenate([part[places] for part in parts], axis=1, dtype=float)
        if np.abs(rows).max() > LARGEST:
            raise InputError(
                f"With cov=, columns have values up to {LARGEST:.0e}; change the units of larger"
                " ones.",
                argument="cov",
            )
        u = np.ones(len(rows)) if weights is None else weights[places]
        shift, factor = row_coordinates(rows, u)
        found.shift[group], found.factor[group] = shift, factor
        found.sums[group] = sums_of(rows, u, shift, factor)
    return found


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


def fourth_arrays(
    moments: FourthSums | None, starts: Indices
) -> tuple[dict[str, np.ndarray], list[tuple[str, str, list[str]]]]:
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


def stored_fourth(arrays: Mapping[str, np.ndarray], starts: Indices, columns: int) -> FourthSums:
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
    return FourthSums.unpacked(data.reshape(-1, width))
