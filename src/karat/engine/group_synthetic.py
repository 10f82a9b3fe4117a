"""Synthetic rows of many groups at once: :mod:`karat.engine.synthetic` on stacks of groups of
nearly one size.

Each group gets one layer of rows, in the coordinates of :mod:`karat.engine.group_moments`.  A group
for which this gives no proof (offsets, collinear columns, wild rows) is treated by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from karat.engine.group_moments import GroupMoments
from karat.engine.group_proof import KeptStack, measure_groups
from karat.engine.group_weights import each
from karat.engine.linalg import Flags
from karat.engine.second_moments import SecondMoments
from karat.engine.synthetic import GOAL, SYNTHETIC, MadeRows, simplex_rows


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def made_in_stacks(
    kernel: SecondMoments, moments: GroupMoments, alive: Flags, frames: bool
) -> Iterator[tuple[int, MadeRows]]:  # fmt: skip
    """Made rows of the groups for which they are proven, with their places.

    ``alive`` flags the variables that are not zero.  With ``frames``, the moments hold the frame
    from which standard errors of coefficients are computed.
    """
    groups = len(moments.total)
    inner = np.ix_(np.arange(groups), alive, alive)
    sums, map_ = moments.sums[inner], moments.map[inner]
    mean_square = sums / moments.total[:, None, None]
    mean, rank = mean_square[:, 0, 1:], int(alive.sum()) - 1
    spread = mean_square[:, 1:, 1:] - mean[:, :, None] * mean[:, None, :]
    root = each(np.linalg.cholesky, spread).transpose(0, 2, 1) if rank else spread
    coordinates = np.ones((groups, rank + 1, rank + 1))
    coordinates[:, :, 1:] = mean[:, None, :] + simplex_rows(np.eye(rank)) @ root
    mapped = ~moments.plain
    variables = coordinates.copy()
    if mapped.any():
        variables[mapped] = coordinates[mapped] @ each(np.linalg.inv, map_[mapped])
    # The rows as they are stored, and read again.
    values = np.repeat(moments.shift[:, None, :], rank + 1, axis=1)
    values[:, :, alive[1:]] += variables[:, :, 1:]
    variables[:, :, 1:] = (values - moments.shift[:, None, :])[:, :, alive[1:]]
    variables[:, :, 0] = 1.0
    weights = np.repeat(moments.total[:, None] / (rank + 1), rank + 1, axis=1)
    kept = KeptStack(variables, weights, map_, moments.plain, sums, moments.total, True)
    positions, peeled = np.arange(rank + 1), np.zeros(rank + 1, dtype=bool)
    for place, proof in enumerate(measure_groups(kept, False)):
        if proof.ok and proof.reducible_error <= GOAL:
            fitted = kernel.no_moments(float(moments.total[place]))
            if frames:
                frame = moments.frame(place, alive, True)
                fitted = replace(fitted, statistic=(frame.second,), frame=frame)
            yield place, MadeRows(
                positions, weights[place], fitted, rank, proof, SYNTHETIC,
                1 + int(moments.twice[place]), peeled, values=values[place], most=rank + 1,
            )  # fmt: skip
