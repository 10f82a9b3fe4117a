"""Wild rows: values far beyond those of a typical row, such as sentinels and slips of units, are kept apart.

The claim is relative to the sizes of the columns.  One row of 1e20 makes the size of its column, and says nothing any more
about the others.  So the size sigma_j of a column is compared with what is typical in it, the median of the non-zero distances
from the middle in a sample of rows.  Where it is more than WILD times as large, the rows beyond WILD times the typical distance
are wild.  Few of them are kept verbatim, with their own weights, and left out of the claim on both sides; many are a level of
their own, which is reduced by itself and may have wild rows again.  (Of 1e6 rows sigma is 1.5 times as large as typical values
for normal data, 59 for lognormal data with sigma 2, 540 for Cauchy's: nothing to do.  A sentinel in 0.03 % of the rows: 302
wild rows.  Pareto with the exponent 0.3: a level of 34,489 rows.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine.frame import Frame
from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Array, Indices
from karat.engine.powers import Powers
from karat.engine.rows import Rows, sweep
from karat.engine.tolerances import WILD

LOOKED_AT = 512  # rows of a sample


@dataclass(frozen=True)
class Cut:
    """Where the rows of a level end."""

    centre: Array  # (c,): of the columns,
    limit: Array  # and the largest distance from it; infinite for most

    def beyond(self, rows: Rows) -> Indices:
        """The positions of wild rows, by one pass."""

        def visit(block: Array, _: Array | None, start: int) -> list[Indices]:
            return [start + np.flatnonzero((np.abs(block[:, 1:]) > self.limit).any(axis=1))]

        return np.concatenate(sweep(rows, self.centre, visit, lambda a, b: a + b, (rows.columns + 1, 1)))


def typical(values: Array, affine: bool) -> tuple[Array, Array]:
    """The middle of columns (n, c), or 0, and the median of the non-zero distances from it; 0 where there are none."""
    values = values[:: max(1, len(values) // LOOKED_AT)]
    centre = np.median(values, axis=0) if affine else np.zeros(values.shape[1])
    distances = np.sort(np.abs(values - centre), axis=0)
    zeros = np.count_nonzero(distances == 0, axis=0)
    middle = np.minimum((zeros + len(distances)) // 2, len(distances) - 1)
    return centre, distances[middle, np.arange(values.shape[1])]


def look(fitted: FittedMoments, sample: Array) -> tuple[float, Cut | None]:
    """The largest ratio of a column's size to what is typical in a sample of rows ``[1 | D]``; and a cut, if it is wild."""
    frame, kernel = fitted.frame, fitted.kernel
    if not isinstance(frame, Frame) or not isinstance(kernel, Powers) or kernel.single is not None or not len(sample):
        return 1.0, None
    with np.errstate(over="ignore", invalid="ignore"):
        centre, usual = typical(sample[:, 1:], frame.affine)
        spreads = frame.spreads[int(frame.affine) :]
        ratio = np.where(usual > 0, spreads / np.where(usual > 0, usual, 1.0), 1.0)
    wild = ratio > WILD
    if not wild.any():
        return float(ratio.max(initial=1.0)), None
    rows = (np.abs(sample[:, 1:] - centre) > np.where(wild, WILD * usual, np.inf)).any(axis=1)
    if 2 * np.count_nonzero(rows) > len(sample):  # most rows have some wild value: begin with one column
        wild = ratio == ratio.max()
    return float(ratio.max()), Cut(centre, np.where(wild, WILD * usual, np.inf))
