"""Peeling: rows that dominate a moment are kept as they are, and the rest is reduced.

With heavy tails one row can hold most of a moment.  In floating point all features are then
parallel to those of that row, and what the other rows contribute is lost in its rounding.  Such a
row cannot be replaced by others anyway: it is kept verbatim with its own weight, and the remaining
rows are *summed anew* (a subtraction would cancel).  Their moments may again be dominated by a few
rows, and so on, until every row holds at most the share DOMINATES of every absolute moment ``sum_i
u_i |phi_t(i)|``.  For a power law the number of these rows grows with the number of features and
the logarithm of the range, not with n.

**Light rows** have hardly any weight.  What they alone have, say a difference of two columns that
are equal elsewhere, is lost in the rounding of the others, too.  They are peeled where nothing else
is proven.

**Wild rows** (regression).  The claim is relative to the sizes of the columns.  One row of 1e20
dominates the size of its column, which then says nothing about the others.  So the size sigma_j of
a column is compared with what is typical in it, the median of the non-zero distances from the
middle in a sample.  Where it is more than WILD times as large, the rows beyond WILD times the
typical distance are wild.  Few of them are kept verbatim; many are a level of their own, which is
reduced by itself.  What more than an eighth of the rows have in a column is not wild.  (Of 1e6 rows
sigma is 1.5 times the typical distance for normal data, 59 for lognormal data with sigma 2, 540 for
Cauchy's: nothing to do.  A sentinel in 0.03 % of the rows: 302 wild rows. Pareto with the exponent
0.3: a level of 34,489 rows.)"""

from __future__ import annotations

import numpy as np

from karat.engine.device import rows_beyond
from karat.engine.frame import Frame
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.polynomial import unmixed
from karat.engine.powers import Powers
from karat.engine.rows import Rows, own_weights, sample, sweep, typical
from karat.engine.tolerances import DOMINATES, TINY, WILD

PILOT = 2048
ROUNDS = 60
PEELED = 16  # most rows to peel per feature
LOOKED_AT = 512  # rows of a sample that tell what is typical
MINORITY = 0.125  # share of the rows up to which those that are large in a column may be wild
LIGHT = 1e-9  # part of the mean weight below which a row is light
ABOVE = 4.0  # among few rows, shares of so many times the average are dominating


def dominating(rows: Rows, kernel: Kernel, most: int) -> Indices | None:
    """Positions of the rows to peel, increasing; None if more than ``most`` would be."""
    peeled = np.zeros(len(rows), dtype=bool)
    for _ in range(ROUNDS):
        left = np.flatnonzero(~peeled)
        if not len(left):
            break
        rest = rows if not peeled.any() else rows.subset(left)
        heavy = left[heaviest(rest, kernel)]
        if not len(heavy):
            return np.flatnonzero(peeled)
        peeled[heavy] = True
        if peeled.sum() > most:
            return None
    return np.flatnonzero(peeled)


def looked_at(rows: Rows) -> Indices:
    """A sample that tells what is typical.  It depends only on the number of rows, so that
    verification finds the same wild rows.
    """
    return sample(np.random.default_rng(0), len(rows), LOOKED_AT)


def wild_rows(
    rows: Rows, fitted: FittedMoments, among: Array | None = None,
    usual: tuple[Array, Array] | None = None,
) -> tuple[float, Indices]:  # fmt: skip
    """The largest ratio of a column's size to its typical size, and the wild rows.

    The typical size is that of the rows ``among`` (``[1 | D]``), by default :func:`looked_at`, and
    ``usual`` if it is known.
    """
    frame, none = fitted.frame, np.zeros(0, dtype=np.intp)
    if frame is None or not isinstance(fitted.kernel, Powers) or fitted.kernel.single is not None:
        return 1.0, none
    if among is None:
        among = rows.take(looked_at(rows), np.zeros(rows.columns))
    spread, middle, far = _wild_limits(frame, among[:, 1:], usual)
    if not spread > WILD:
        return spread, none
    if rows.on_device:
        return spread, rows_beyond(rows, middle, far)

    def visit(block: Array, _: Array | None, start: int) -> list[Indices]:
        return [start + np.flatnonzero((np.abs(block[:, 1:]) > far).any(axis=1))]

    return spread, np.concatenate(
        sweep(rows, middle, visit, lambda a, b: a + b, (rows.columns + 1, 1))
    )


def _wild_limits(
    frame: Frame, sample: Array, known: tuple[Array, Array] | None
) -> tuple[float, Array, Array]:
    """The largest ratio of a column's size to its typical size in a sample; the middle of every
    column; and the distance from it beyond which rows are wild.

    The distance is infinite for most columns.
    """
    first = int(frame.affine)
    with np.errstate(over="ignore", invalid="ignore"):
        middle, usual = known or typical(sample[:: max(1, len(sample) // LOOKED_AT)].T, bool(first))
        ratio = np.where(usual > 0, frame.spreads[first:] / np.where(usual > 0, usual, 1.0), 1.0)
        far = np.where(ratio > WILD, WILD * usual, np.inf)
        if (far == np.inf).all():
            return float(ratio.max(initial=1.0)), middle, far
        beyond = np.abs(sample - middle) > far
    # What many rows have is what the column is, such as probabilities near 0 and 1.
    far[beyond.mean(axis=0) > MINORITY] = np.inf
    if (beyond & (far < np.inf)).any(axis=1).mean() > 0.5:
        far[:] = np.inf
    return float(ratio.max(initial=1.0)), middle, far


def light_rows(rows: Rows) -> Indices:
    """Rows of so little weight that what only they have is lost in the rounding of the others, in
    any coordinates.
    """
    if rows.weights is None:
        return np.zeros(0, dtype=np.intp)
    share = rows.weights / rows.weights.max()
    return np.flatnonzero(share < LIGHT * share.mean())


def apart(
    rows: Rows, kernel: Kernel, fitted: FittedMoments, among: Array | None, proven: bool
) -> tuple[float, Indices]:  # fmt: skip
    """How wild rows are, and the rows to peel: a few wild ones or, if nothing is proven, dominating
    and light ones.
    """
    spread, wild = wild_rows(rows, fitted, among)
    most = PEELED * max(1, fitted.kernel.width)
    if 0 < len(wild) <= most and len(wild) < len(rows):
        return spread, wild
    if proven:
        return spread, wild[:0]
    heavy = dominating(rows, kernel, most)
    heavy = wild[:0] if heavy is None else heavy
    both = np.union1d(heavy, light_rows(rows))
    return spread, both if len(both) <= most else heavy


def heaviest(rows: Rows, kernel: Kernel) -> Indices:
    """Rows that hold more than DOMINATES of an absolute moment, in features of single columns."""
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
