"""Reducers that look at every row: they always find weights, however the data is distributed.

**The tree** (the paper's Algorithm 5, corrected).  All rows are cut into 2m contiguous groups, the
groups' moments are reduced by Caratheodory's theorem to at most m, and the rows of the groups that
survive go to the next level with their group's factor. Half of the rows are left after a level, so
all levels together read the data twice.  The paper allows any number of groups; with m or fewer
nothing is ever removed and its recursion does not end.  Group moments are Gram matrices of
contiguous rows, so nothing is copied and no n x m matrix is formed.

**Row by row** (the paper's Algorithm 6 on a stream).  At most 2m + 1 rows are held at a time; it
costs O(n m^2).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Blocks, Progress, Rows, own_weights
from karat.engine.weights import eliminate, group_bounds

GROUPS_PER_FEATURE = 2.0
GROUPED = 2**20  # bytes of the rows whose groups are summed at a time


def reduce_by_tree(
    rows: Rows, fitted: FittedMoments, progress: Progress | None = None
) -> tuple[Indices, Array]:
    """Positions and weights of at most 2m + 2 rows with the same moments."""
    kernel = fitted.kernel
    groups = int(GROUPS_PER_FEATURE * kernel.width) + 2
    positions = np.arange(len(rows))
    weights = own_weights(rows, positions)
    while len(positions) > groups:
        bounds = group_bounds(len(positions), groups)
        here = rows if len(positions) == len(rows) else rows.subset(positions)
        factors = eliminate(_group_moments(here, kernel, weights, bounds))
        keep = np.repeat(factors > 0, np.diff(bounds))
        weights = (weights * np.repeat(factors, np.diff(bounds)))[keep]
        positions = positions[keep]
        if progress is not None:
            progress(len(rows) - len(positions), len(rows))
    return positions, weights


def reduce_sequentially(
    rows: Rows, fitted: FittedMoments, progress: Progress | None = None
) -> tuple[Indices, Array]:
    """Positions and weights of at most m rows: hold at most m rows, take in m + 1 more, eliminate,
    until all rows are used.
    """
    kernel = fitted.kernel
    positions = np.zeros(0, dtype=np.intp)
    weights = np.zeros(0)
    row_weights = own_weights(rows, np.arange(len(rows)))
    step = kernel.width + 1
    for start in range(0, len(rows), step):
        stop = min(start + step, len(rows))
        positions = np.concatenate([positions, np.arange(start, stop)])
        weights = np.concatenate([weights, row_weights[start:stop]])
        if len(positions) > kernel.width:
            features = kernel.features(rows.take(positions, kernel.shift))
            weights = weights * eliminate(np.asfortranarray(features * weights[:, None]))
            positions, weights = positions[weights > 0], weights[weights > 0]
        if progress is not None:
            progress(stop, len(rows))
    return positions, weights


def _group_moments(rows: Rows, kernel: Kernel, weights: Array, bounds: Indices) -> Array:
    """The moments of contiguous groups of rows, many groups at a time: one read and product per
    group would cost more than the few rows.
    """
    sums = np.empty((len(bounds) - 1, kernel.width), order="F")
    sizes = np.diff(bounds)
    most = max(int(sizes.max()), GROUPED // (8 * (rows.columns + 1)))
    blocks = Blocks(rows, kernel.shift, min(most, len(rows)))
    ends = np.flatnonzero(np.diff(sizes)) + 1  # of runs of groups of one size
    for first, last in pairwise([0, *ends.tolist(), len(sizes)]):
        size = int(sizes[first])
        step = max(1, most // size)
        for left in range(first, last, step):
            right = min(left + step, last)
            start, stop = int(bounds[left]), int(bounds[right])
            sums[left:right] = kernel.group_moments(
                blocks.read(start, stop), weights[start:stop], right - left
            )
    return sums
