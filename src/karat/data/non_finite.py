"""Where the NaN is: the error for rows whose moments are not finite.

The pass does not look for NaN and infinity; it sums them like other numbers.  If a moment is then
not finite, one more pass finds the column to blame: the first with NaN or infinity; else one with
an outlier beyond every unit; else the one whose values are furthest from 1, because its powers
overflow or underflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from karat.engine.linalg import Array
from karat.engine.parts import Part
from karat.engine.points import LOOKED_AT
from karat.engine.rows import Rows, sample, sweep, typical
from karat.errors import InputError

# times the typical size of a column: the squares of such a value and of the others do not fit into
# doubles of one unit
OUTLIER = 1e100


def explain_non_finite(parts: Sequence[Part], names: Sequence[str]) -> InputError:
    """The error that names the first column with NaN or infinity, or else the one to rescale."""
    rows = Rows(parts)

    def visit(block: Array, _weights: Array | None, start: int) -> tuple[Any, ...]:
        values = block[:, 1:]
        bad = ~np.isfinite(values)
        first = np.where(bad.any(axis=0), start + bad.argmax(axis=0), len(rows))
        return (
            bad.sum(axis=0),
            np.isnan(values).any(axis=0),
            first,
            values.max(axis=0),
            values.min(axis=0),
        )

    def join(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return (
            a[0] + b[0],
            a[1] | b[1],
            np.minimum(a[2], b[2]),
            np.maximum(a[3], b[3]),
            np.minimum(a[4], b[4]),
        )

    counts, nan, first, high, low = sweep(
        rows, np.zeros(rows.columns), visit, join, (rows.columns + 1, 1)
    )
    if not counts.any():
        return _explain_outlier(rows, names) or _explain_sizes(high, low, names)
    i = int(np.flatnonzero(counts)[0])
    name, row = names[i], int(first[i])
    many = f"{counts[i]} {'NaN' if nan[i] else 'infinite'} value{'s' if counts[i] > 1 else ''}"
    message = f"Column {name} has {many}, the first in row {row}; drop or impute those rows."
    return InputError(message, column=name, row=row)


def _explain_outlier(rows: Rows, names: Sequence[str]) -> InputError | None:
    """The error that names a row too far from the others for any unit; None if there is none."""
    block = rows.take(
        sample(np.random.default_rng(0), len(rows), LOOKED_AT), np.zeros(rows.columns)
    )[:, 1:]
    with np.errstate(over="ignore", invalid="ignore"):
        middle, usual = typical(block.T, centred=True)

    def visit(values: Array, _weights: Array | None, start: int) -> Array:
        away = np.abs(values[:, 1:])
        return np.array([away.max(axis=0), start + away.argmax(axis=0)])

    largest, where = sweep(
        rows,
        np.nan_to_num(middle),
        visit,
        lambda a, b: np.where(a[0] >= b[0], a, b),
        (rows.columns + 1, 1),
    )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.where(usual > 0, largest / usual, 0.0)
    i = int(ratio.argmax())
    if not ratio[i] > OUTLIER:
        return None
    row = int(where[i])
    return InputError(
        f"Column {names[i]} has a value in row {row} that is {ratio[i]:.0e} times as far from the"
        " others as they are from each other. Correct or drop such rows: double precision cannot"
        " hold the squares of both.",
        column=names[i],
        row=row,
    )


def _explain_sizes(high: Array, low: Array, names: Sequence[str]) -> InputError:
    """The error that names the column furthest from 1, too large or too small: the one to rescale.

    ``high`` and ``low`` are the largest and the smallest value of every column.
    """
    # the difference of the largest doubles of either sign overflows
    with np.errstate(over="ignore"):
        sizes, spreads = np.maximum(np.abs(high), np.abs(low)), high - low
    smallest = np.where(spreads > 0, np.minimum(sizes, spreads), np.where(sizes > 0, sizes, 1.0))
    above, below = np.log2(sizes.clip(1.0)), -np.log2(smallest)
    i = int(np.argmax(np.maximum(above, below)))
    name = names[i]
    if above[i] >= below[i]:
        fault = (
            f"has values up to {sizes[i]:.1e}; rescale it, because its powers overflow double"
            " precision."
        )
    else:
        kind = "values up to" if smallest[i] == sizes[i] else "values that differ by at most"
        fault = (
            f"has {kind} {smallest[i]:.1e}, so small that double precision loses their digits;"
            " rescale or drop it."
        )
    return InputError(f"Column {name} {fault}", column=name)
