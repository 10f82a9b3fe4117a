"""The pipeline: moments in one pass, a vertex among a few candidates, a proof.

    settled  = sum over rows of  weight * kernel features                # one pass, coordinates included
    vertex   = positive weights on at most rank rows, the same moments   # onepass | tree | caratheodory
    weights  = polish(vertex, settled.target)                            # the last digits
    gap      = worst relative loss error over every query                # the certificate

``onepass`` looks at uniform candidates first; whether they can meet the moments is decided by Newton's method, which fails
fast.  Then come more of them, candidates drawn by kernel leverage, rows found by pricing a Farkas direction, and last the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from karat.engine import linalg
from karat.engine.candidates import OUTSIDE, by_leverage, leverage, own_weights, sample, witnesses
from karat.engine.caratheodory import reduce_points
from karat.engine.frame import MISSED, TINY, Frame, frame
from karat.engine.kernel import Kernel, Settled
from karat.engine.linalg import Array, Indices
from karat.engine.moments import Progress, evaluate, pass_over
from karat.engine.newton import meet
from karat.engine.polish import polish
from karat.engine.rows import Rows
from karat.engine.tree import chain, thin
from karat.errors import InputError

PILOT = 2048
COMPLETE = 16384  # up to this many rows the pilot is all of them
FIRST, SECOND = 2.5, 6.0  # uniform candidates, in units of m
BESIDE = 0.5  # the same, beside rows that carry most of the moments already
ROUNDS = 6
WITNESS = 2**21  # features of rows looked at to bound the loss from below, where no exact formula exists
EXACT = 1e-10  # a vertex with a larger gap is not accepted while another way is left


class NonFiniteError(ArithmeticError):
    """A pass met NaN or infinity; the caller knows the columns and says where."""


@dataclass(frozen=True)
class Reduction:
    """A vertex, how it was found, and how exact it is.

    Attributes
    ----------
    positions, weights : arrays
        The rows kept, increasing, and their positive weights.
    settled : Settled
        The kernel in its final coordinates and the moments of all rows.
    rank : int
        Numerical rank of the kernel features.
    gap : float
        Worst relative loss error over every query.
    moment_error : float
        Largest relative error of a moment.
    condition : float
        By how much the coordinates magnify rounding.
    spectrum : float
        Smallest kept singular value of the features, relative to the largest.
    method : str
        The way that led to it.
    passes : int
        Passes over all rows.
    """

    positions: Indices
    weights: Array
    settled: Settled
    rank: int
    gap: float
    moment_error: float
    condition: float
    spectrum: float
    method: str
    passes: int


def build(rows: Rows, kernel: Kernel, method: str, seed: int, progress: Progress | None = None) -> Reduction:
    """Reduce weighted rows to a vertex with the same moments; ``method`` as in :func:`karat.coreset`."""
    rng = np.random.default_rng(seed)
    size = len(rows) if len(rows) <= COMPLETE else max(PILOT, int(FIRST * kernel.width))
    pilot = sample(rng, len(rows), size)
    settled, passes = settle(rows, kernel, pilot, progress)
    if not settled.kernel.width:  # every feature vanishes on every row: any one row stands for all
        first = np.zeros(1, dtype=np.intp)
        return Reduction(first, np.array([rows.total]), settled, 0, 0.0, 0.0, 1.0, 1.0, "onepass", passes)
    best: Reduction | None = None
    with linalg.few_threads(settled.kernel.width):
        for known, mass, way, more in _ways(rows, settled, method, pilot, rng, progress):
            passes += more
            found = vertex(rows, settled, known, mass, way, passes)
            if best is None or found.gap < best.gap:
                best = found
            if best.gap <= EXACT:
                break
    assert best is not None
    return best


def settle(rows: Rows, kernel: Kernel, pilot: Indices, progress: Progress | None = None) -> tuple[Settled, int]:
    """Fit the kernel's coordinates and sum its moments; also the number of passes it took."""
    block = rows.take(pilot, np.zeros(rows.columns))
    weights = None if rows.weights is None else rows.weights[pilot]
    if not np.isfinite(block).all():
        raise NonFiniteError
    with np.errstate(over="ignore", invalid="ignore"):
        kernel = kernel.prepare(block, weights, complete=len(pilot) == len(rows))
    if not np.isfinite(kernel.shift).all():
        raise NonFiniteError
    passes = 0
    while True:
        statistic = pass_over(rows, kernel, progress)
        if not all(np.isfinite(part).all() for part in statistic):
            raise NonFiniteError
        settled = kernel.settle(statistic, rows.total)
        passes += 1
        if not settled.again or passes == ROUNDS:
            return settled, passes
        kernel = settled.kernel


Way = tuple[Frame, Array, str, int]  # points, weights on them that meet the moments, the way's name, passes it took


def _ways(
    rows: Rows, settled: Settled, method: str, pilot: Indices, rng: np.random.Generator, progress: Progress | None
) -> Iterator[Way]:
    """Feasible weights on a few rows, by ever stronger means."""
    width = settled.kernel.width
    if method in ("auto", "onepass"):
        if len(rows) <= SECOND * width:
            known = frame(rows, settled, np.arange(len(rows)), own_weights(rows, np.arange(len(rows)))).resolve()
            yield known, known.root, "onepass", 0
        else:
            yield from _onepass(rows, settled, pilot, rng, patient=method == "onepass")
    reducer, way, passes = (chain, "caratheodory", 1) if method == "caratheodory" else (thin, "tree", 2)
    positions, weights = reducer(rows, settled, progress)
    check_any(positions)
    known = frame(rows, settled, positions, weights).resolve()
    yield known, known.root, way, passes


def sampled(rows: Rows, settled: Settled, pool: Indices, rng: np.random.Generator, held: int = 0) -> tuple[Frame, Array | None]:
    """The first ``held`` rows and a uniform sample of the others (from ``pool`` while it lasts), as candidates.

    Also the weights on them that meet the moments; None if Newton's method finds that there are none.
    """
    always = np.arange(held)
    share = rows.total - float(own_weights(rows, always).sum())
    for times in (FIRST, SECOND) if not held else (BESIDE, FIRST, SECOND):
        size = int(times * settled.kernel.width)
        chosen = pool[sample(rng, len(pool), size)] if size <= len(pool) else held + sample(rng, len(rows) - held, size)
        nominal = own_weights(rows, chosen) * (share / max(own_weights(rows, chosen).sum(), TINY))
        positions, weights = np.concatenate([always, chosen]), np.concatenate([own_weights(rows, always), nominal])
        known = frame(rows, settled, positions, weights).resolve()
        if known.missed > MISSED:
            break
        outcome = meet(known)
        if outcome.met:
            return known, known.root * outcome.factors
    return known, None


def _onepass(rows: Rows, settled: Settled, pilot: Indices, rng: np.random.Generator, patient: bool) -> Iterator[Way]:
    known, mass = sampled(rows, settled, pilot, rng)
    if mass is not None:
        yield known, mass, "onepass", 0
    if not patient:
        return
    passes = 0
    for _ in range(ROUNDS):  # until the candidates span what all rows span
        known = known if known.span is not None else known.independent()
        scores = leverage(rows, settled, known, rng)
        passes += 1
        outside = np.flatnonzero(scores > OUTSIDE)
        if not len(outside):
            break
        known = _extended(rows, settled, known, outside[sample(rng, len(outside), 2 * known.rank)])
    known = frame(rows, settled, *by_leverage(rows, scores, 6 * known.rank, rng)).resolve()
    for _ in range(ROUNDS):  # until they can meet the moments
        outcome = meet(known)
        if outcome.met and known.missed <= MISSED:
            yield known, known.root * outcome.factors, "onepass with leverage candidates", passes
            return
        prices = evaluate(rows, settled.kernel, known.direction(outcome.direction)[:, None])[:, 0]
        passes += 1
        prices[known.positions] = -np.inf
        entering = np.argpartition(prices, -known.rank)[-known.rank :]
        entering = entering[prices[entering] > 0]
        if not len(entering):
            return
        known = _extended(rows, settled, known, entering)


def _extended(rows: Rows, settled: Settled, known: Frame, entering: Indices) -> Frame:
    positions = np.concatenate([known.positions, entering])
    return frame(rows, settled, positions, np.concatenate([known.root**2, own_weights(rows, entering)])).resolve()


def vertex(rows: Rows, settled: Settled, known: Frame, mass: Array, way: str, passes: int) -> Reduction:
    """Eliminate to a vertex, polish it, and measure it."""
    if len(rows) <= known.rank:  # nothing to reduce: the rows with their own weights
        support, refined = np.arange(len(mass)), mass
    else:
        mass = reduce_points(known.points, mass)
        support = np.flatnonzero(mass > 0)
        check_any(support)
        refined = polish(known.points[support], mass[support], known.target)
    order = np.argsort(known.positions[support])
    support, refined = support[order], refined[order]
    weights = refined * known.root[support]
    block = rows.take(known.positions[support], settled.kernel.shift)
    gap, moment_error, condition = measure(rows, settled, block, weights)
    return Reduction(
        positions=known.positions[support],
        weights=weights,
        settled=settled,
        rank=known.rank,
        gap=gap,
        moment_error=moment_error,
        condition=condition,
        spectrum=known.spectrum,
        method=way,
        passes=passes,
    )


def check_any(support: Indices) -> None:
    if not len(support):
        raise InputError(
            "The moments of this data are all zero, so an empty coreset would do; keep the total weight: total_weight=True."
        )


def measure(rows: Rows, settled: Settled, block: Array, weights: Array) -> tuple[float, float, float]:
    """Loss error over every query, largest relative moment error, and condition, of weighted rows against all rows."""
    kernel = settled.kernel

    @cache
    def witness() -> Array:
        seen, nominal = witnesses(rows, min(COMPLETE, max(1, WITNESS // kernel.width)), kernel.extrapolates)
        return nominal[:, None] * kernel.features(rows.take(seen, kernel.shift))

    features = kernel.features(block)
    size = np.sqrt(weights @ np.square(features) / weights.sum())
    size[size == 0] = 1.0
    residual = np.abs(weights @ features - settled.target) / size / settled.total
    condition = kernel.condition(block * np.sqrt(weights)[:, None], witness)
    return kernel.gap(block, weights, settled, witness), float(residual.max(initial=0.0)), condition
