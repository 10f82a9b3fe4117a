"""A stream of rows, folded: few rows that carry the moments of everything seen, without drift.

    moments += statistic(new rows)                            # compensated, in coordinates that stay fixed
    rows     = vertex(held rows and new rows, moments)        # at most rank rows again

Merging alone would aim each fold at the sum of the rows held, and hand the rounding of one fold on to the next.  Here
every fold aims at the running sum of the stream itself, so nothing accumulates.  The sum is kept as an unevaluated pair
high + low (Knuth's two-sum: ``s = a + b`` and its exact error), so its own error does not grow with the number of folds.

Coordinates come from the rows held when the sum was started: they have the second moments of all rows before them, so
the map whitens exactly.  No direction is dropped; what vanished so far waits, because later rows may need it.  Should
the stream wander off (its mean or scale moves by orders of magnitude) the kernel asks for better coordinates.  Earlier
rows are gone, but the held ones stand for them: the sum starts afresh from these.  That happens a logarithmic number of
times, and the error of the held rows, which is then inherited, is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from karat.engine.build import COMPLETE, EXACT, FIRST, PILOT, NonFiniteError, Reduction, measure, sampled, settle, vertex
from karat.engine.candidates import own_weights, sample
from karat.engine.frame import frame
from karat.engine.kernel import Kernel, Settled
from karat.engine.linalg import Array, Indices
from karat.engine.moments import pass_over
from karat.engine.rows import Rows
from karat.engine.tree import thin

SHARP = 1e-13  # a fold with a larger gap tries whether fresh coordinates do better
WAY = "sketch"

Sums = tuple[Array, ...]


@dataclass(frozen=True)
class Running:
    """The statistic of a stream, with its total weight as the last entry, in fixed coordinates.

    Attributes
    ----------
    kernel : Kernel
        Its coordinates are a function of ``pilot`` and ``weights`` alone, so a checkpoint stores those.
    pilot, weights : arrays
        The rows ``[1 | D]`` on which the coordinates were fitted, with their weights.
    high, low : tuple of arrays
        The sum is high + low.
    inherited : float
        Relative loss error of the held rows from which the sum was started.
    gap : float
        Relative loss error of the rows held now, against this sum.
    hard : bool
        A sample of candidates was not enough before, so that the tree should be taken at once.
    """

    kernel: Kernel
    pilot: Array
    weights: Array
    high: Sums
    low: Sums
    inherited: float
    gap: float = 0.0
    hard: bool = False

    @staticmethod
    def fit(kernel: Kernel, pilot: Array, weights: Array) -> Kernel:
        """Coordinates in which no direction has been dropped."""
        return kernel.prepare(pilot, weights, complete=False)

    @staticmethod
    def start(kernel: Kernel, pilot: Array, weights: Array, inherited: float) -> Running:
        """A sum that begins with some weighted rows ``[1 | D]``."""
        return Running.within(Running.fit(kernel, pilot, weights), pilot, weights, inherited)

    @staticmethod
    def within(fitted: Kernel, pilot: Array, weights: Array, inherited: float = 0.0) -> Running:
        """The same, in given coordinates."""
        block = pilot - np.concatenate([[0.0], fitted.shift])
        high = (*fitted.statistic(block, weights), np.array([weights.sum()]))
        few = len(weights) if fitted.adapts else 0  # rows that a checkpoint needs
        return Running(fitted, pilot[:few], weights[:few], high, tuple(np.zeros_like(part) for part in high), inherited)

    def emptied(self) -> Running:
        """The sum of nothing, in the same coordinates."""
        zero = tuple(np.zeros_like(part) for part in self.high)
        return replace(self, high=zero, low=zero)

    def plus(self, rows: Rows) -> Running:
        """The sum after more rows."""
        if not len(rows):
            return self
        new = (*pass_over(rows, self.kernel), np.array([rows.total]))
        if not all(np.isfinite(part).all() for part in new):
            raise NonFiniteError
        pairs = [_two_sum(a, b) for a, b in zip(self.high, new, strict=True)]
        low = tuple(a + e for a, (_, e) in zip(self.low, pairs, strict=True))
        return replace(self, high=tuple(s for s, _ in pairs), low=low)

    def settle(self) -> Settled:
        """Final coordinates and the moments of the stream so far."""
        *statistic, total = (a + b for a, b in zip(self.high, self.low, strict=True))
        return self.kernel.settle(tuple(statistic), float(total[0]))


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fold(rows: Rows, new: Rows, kernel: Kernel, running: Running | None, rng: np.random.Generator) -> tuple[Reduction, Running]:
    """Reduce held and new rows to at most rank rows that carry the moments of the whole stream.

    Parameters
    ----------
    rows : Rows
        The held rows, then the new ones.
    new : Rows
        The new ones alone (without weights, if they have none: that is faster).
    kernel : Kernel
        The problem's, in no coordinates yet.
    running : Running or None
        The sum without the new rows; None at the first fold.
    """
    held = len(rows) - len(new)
    found: Reduction | None = None
    if running is not None:
        grown = running.plus(new)
        settled = grown.settle()
        if not settled.again:
            found, hard = _reduce(rows, settled, held, held + np.arange(0), rng, running.hard)
            grown = replace(grown, gap=found.gap, hard=hard)
            if found.gap <= SHARP:
                return found, grown
    size = len(new) if len(rows) <= COMPLETE else max(PILOT, int(FIRST * kernel.width))
    pool = held + sample(rng, len(new), size)
    settled, passes = settle(rows, kernel, np.concatenate([np.arange(held), pool]))
    hard = False
    if not settled.kernel.width:  # every feature vanishes on every row: any one row stands for all
        fresh = Reduction(np.zeros(1, dtype=np.intp), np.array([rows.total]), settled, 0, 0.0, 0.0, 1.0, 1.0, WAY, passes)
    else:
        fresh, hard = _reduce(rows, settled, held, pool, rng, running is not None and running.hard)
        fresh = replace(fresh, passes=passes)
    inherited = 0.0 if running is None else running.inherited + running.gap
    if found is not None and grown.inherited + found.gap <= inherited + fresh.gap:
        return found, grown
    block = rows.take(fresh.positions, np.zeros(rows.columns))
    started = replace(Running.start(kernel, block, fresh.weights, inherited + fresh.gap), hard=hard)
    if fresh.gap > SHARP:  # worth another pass: the sum of all these rows, so that later folds can do better
        started = replace(started.emptied().plus(rows), inherited=inherited, gap=fresh.gap)
    return fresh, started


def _reduce(
    rows: Rows, settled: Settled, held: int, pool: Indices, rng: np.random.Generator, hard: bool
) -> tuple[Reduction, bool]:
    """A vertex among the held rows and a sample of the new ones; by the tree, if that is not enough (``hard``)."""
    best: Reduction | None = None
    if not hard:
        known, mass = sampled(rows, settled, pool, rng, held)
        if mass is not None:
            best = vertex(rows, settled, known, mass, WAY, 1)
            if best.gap <= EXACT:
                return best, False
    rows = rows.gathered()
    positions, weights = thin(rows, settled)
    known = frame(rows, settled, positions, weights).resolve()
    found = vertex(rows, settled, known, known.root, f"{WAY} by the tree", 1)
    return (found if best is None or found.gap < best.gap else best), True


def prove(rows: Rows, kernel: Kernel, running: Running) -> Reduction:
    """Measure held rows, with the weights they have, against the running sum."""
    everything = np.arange(len(rows))
    weights = own_weights(rows, everything)
    settled = running.settle()
    if settled.again:
        settled, _ = settle(rows, kernel, everything)
    gap, moment_error, condition = measure(rows, settled, rows.take(everything, settled.kernel.shift), weights)
    rank = frame(rows, settled, everything, weights).resolve().rank if settled.kernel.width else 0
    return Reduction(everything, weights, settled, rank, gap, moment_error, condition, 1.0, WAY, 1)
