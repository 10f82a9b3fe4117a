"""Peeling: rows that dominate a moment are kept as they are, and the rest is reduced.

With heavy tails one row can hold most of a moment.  In floating point all features are then parallel to those of that row,
and what the other rows contribute is lost in its rounding.  Such a row cannot be replaced by others anyway: it is kept verbatim
with its own weight, and the remaining rows are *summed anew* (a subtraction would cancel).  Their moments may again be
dominated by a few rows, and so on, until every row holds at most the share DOMINATES of every absolute moment
``sum_i u_i |phi_t(i)|``.  For a power law the number of these rows grows with the number of features and the logarithm of the
range, not with n.
"""

from __future__ import annotations

import numpy as np

from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.polynomial import unmixed
from karat.engine.rows import Rows, own_weights, sample, sweep
from karat.engine.tolerances import DOMINATES, TINY

PILOT = 2048
ROUNDS = 60
ABOVE = 4.0  # among few rows, shares of so many times the average are dominating


def dominating(rows: Rows, kernel: Kernel, most: int) -> Indices | None:
    """Positions of the rows to peel, increasing; None if more than ``most`` would be."""
    peeled = np.zeros(len(rows), dtype=bool)
    for _ in range(ROUNDS):
        left = np.flatnonzero(~peeled)
        if not len(left):
            break
        rest = rows if not peeled.any() else rows.subset(left)
        found = left[heaviest(rest, kernel)]
        if not len(found):
            return np.flatnonzero(peeled)
        peeled[found] = True
        if peeled.sum() > most:
            return None
    return np.flatnonzero(peeled)


def heaviest(rows: Rows, kernel: Kernel) -> Indices:
    """Rows that hold more than DOMINATES of an absolute moment; its features are looked at in single columns, unmixed."""
    pilot = sample(np.random.default_rng(0), len(rows), PILOT)
    block = rows.take(pilot, np.zeros(rows.columns))
    kernel = unmixed(kernel).prepare(block, own_weights(rows, pilot))
    shape = (kernel.width, 1)

    def sizes(block: Array, weights: Array | None, _: int) -> Array:
        features = np.abs(kernel.features(block))
        return np.asarray(features.sum(axis=0) if weights is None else weights @ features)

    moments = sweep(rows, kernel.shift, sizes, lambda a, b: a + b, shape)
    limit = np.maximum(max(DOMINATES, ABOVE / len(rows)) * moments, TINY)

    def heavy(block: Array, weights: Array | None, start: int) -> list[Indices]:
        share = (np.abs(kernel.features(block)) / limit).max(axis=1)
        return [start + np.flatnonzero((share if weights is None else share * weights) > 1.0)]

    return np.concatenate(sweep(rows, kernel.shift, heavy, lambda a, b: a + b, shape))
