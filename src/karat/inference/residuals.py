"""Exact quantiles of all residuals by counting passes: minimum, quartiles, median and maximum, as R
prints them.

A residual is y - x'b, times the square root of its weight if there are weights.  The bits of
doubles, inverted for negative ones, are integers in the same order, so residuals can be counted by
their leading bits:

    pass 1   a count for each pattern of the first 20 bits: every rank lies in one of 2^20 brackets
    pass 2   the residuals in the brackets of the ranks are held and sorted; if they are too many,
             they are counted by the next 18 bits, and so on: four passes at most

Up to 2^22 rows are held in pass 1 already.  A residual is computed column by column, so that it has
the same bits in every pass, whatever the batches.  Quantiles between two ranks are interpolated, as
R and NumPy do by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from karat.data.batch import Batch
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.inference.scores import FullDataSolution
from karat.io.scan import Consumer
from karat.io.source import Chunk

SHARES = {"min": 0.0, "1Q": 0.25, "median": 0.5, "3Q": 0.75, "max": 1.0}
SHIFTS = (64, 44, 26, 8, 0)  # low bits that are still unknown before each pass, and at the end
HELD = 2**22  # residuals that may be held
SIGN = np.uint64(2**63)


def ordered_bits(values: Array) -> np.ndarray:
    """Integers in the order of the doubles; both zeros are the same."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def double_of(bits: int) -> float:
    """The double of :func:`ordered_bits`."""
    ordered = np.uint64(bits)
    return float((ordered ^ SIGN if ordered & SIGN else ~ordered).reshape(1).view(np.float64)[0])


@dataclass
class ResidualRanks(Consumer):
    """One pass: holds the residuals whose leading bits are those of a bracket, or counts them by
    their next bits.

    Parameters
    ----------
    solution : FullDataSolution
    level : int
        The number of passes before this one.
    brackets : tuple of int
        Leading bits, increasing; a single 0 in the first pass.
    """

    background = True

    solution: FullDataSolution
    level: int = 0
    brackets: tuple[int, ...] = (0,)
    rows: int = 0
    # residuals by bracket; None once they are counted
    held: list[list[np.ndarray]] | None = field(init=False)
    waiting: int = 0
    counts: np.ndarray = field(init=False)  # by bracket and next bits

    def __post_init__(self) -> None:
        self.held = [[] for _ in self.brackets]
        self.counts = np.zeros((len(self.brackets), 0), dtype=np.int64)

    def add(self, chunk: Chunk, batch: Batch) -> None:
        *design, response = batch.parts
        estimate, fixed = self.solution.estimate, int(self.solution.intercept)
        error = response[:, 0].astype(float) - estimate.centre
        if fixed:
            error -= estimate.shifted[0]
        for place, column in enumerate((column for part in design for column in part.T), fixed):
            error -= estimate.shifted[place] * (column - estimate.shift[place])
        self.rows += len(batch)
        bits = ordered_bits(error if batch.weights is None else np.sqrt(batch.weights) * error)
        self._take(self._by_bracket(bits) if self.level else [bits])

    def _take(self, parts: list[np.ndarray]) -> None:
        """Hold the residuals of each bracket, or count them."""
        if self.held is None:
            self._count(parts)
            return
        for have, part in zip(self.held, parts, strict=True):
            have.append(part)
        self.waiting += sum(map(len, parts))
        if self.waiting > HELD:
            self._count_held()

    def _by_bracket(self, bits: np.ndarray) -> list[np.ndarray]:
        """The residuals of each bracket."""
        leading = bits >> np.uint64(SHIFTS[self.level])
        return [bits[leading == np.uint64(bracket)] for bracket in self.brackets]

    def _count_held(self) -> None:
        held = joined_residuals(self.held or [])
        self.held, self.waiting = None, 0
        self.counts = np.zeros(
            (len(self.brackets), 2 ** (SHIFTS[self.level] - SHIFTS[self.level + 1])), dtype=np.int64
        )
        self._count(held)

    def _count(self, parts: list[np.ndarray]) -> None:
        below, mask = np.uint64(SHIFTS[self.level + 1]), np.uint64(self.counts.shape[1] - 1)
        for row, part in zip(self.counts, parts, strict=True):
            places, many = np.unique((part >> below) & mask, return_counts=True)
            row[places.astype(np.intp)] += many

    def merge(self, other: ResidualRanks) -> None:
        """Add the residuals of other rows."""
        self.rows += other.rows
        if other.held is not None:
            self._take(joined_residuals(other.held))
            return
        if self.held is not None:
            self._count_held()
        self.counts += other.counts


def joined_residuals(held: list[list[np.ndarray]]) -> list[np.ndarray]:
    """The residuals of each bracket in one array."""
    return [np.concatenate([np.empty(0, dtype=np.uint64), *parts]) for parts in held]


def residual_quantiles(rows: Any, layout: Any, solution: FullDataSolution) -> dict[str, float]:
    """The quantiles of all residuals, in as many passes as needed."""
    n = solution.observations
    places = {name: share * (n - 1) for name, share in SHARES.items()}
    ranks = sorted(
        {int(np.floor(place)) for place in places.values()}
        | {int(np.ceil(place)) for place in places.values()}
    )
    within = {rank: (0, rank) for rank in ranks}  # bracket, and rank inside it
    ranking = ResidualRanks(solution)
    while True:
        ranking = rows.scan(layout, ranking)
        if ranking.rows != n:
            raise InputError(
                f"These are not the rows that the coreset was made from: {ranking.rows:,} rows"
                f" instead of {n:,}."
            )
        if ranking.held is not None:
            break
        within = {rank: _narrowed(ranking, *where) for rank, where in within.items()}
        if SHIFTS[ranking.level + 1] == 0:  # every bit is known
            return _interpolated(
                places, {rank: double_of(bits) for rank, (bits, _) in within.items()}
            )
        ranking = ResidualRanks(
            solution, ranking.level + 1, tuple(sorted({bracket for bracket, _ in within.values()}))
        )
    order = {
        bracket: np.sort(part)
        for bracket, part in zip(ranking.brackets, joined_residuals(ranking.held), strict=True)
    }
    values = {
        rank: double_of(int(order[bracket][inside])) for rank, (bracket, inside) in within.items()
    }
    return _interpolated(places, values)


def _narrowed(ranking: ResidualRanks, bracket: int, rank: int) -> tuple[int, int]:
    """The smaller bracket of a rank, and its rank inside."""
    ends = np.cumsum(ranking.counts[ranking.brackets.index(bracket)])
    place = int(np.searchsorted(ends, rank, side="right"))
    bits = SHIFTS[ranking.level] - SHIFTS[ranking.level + 1]
    return (bracket << bits) + place, rank - (int(ends[place - 1]) if place else 0)


def _interpolated(places: dict[str, float], values: dict[int, float]) -> dict[str, float]:
    quantiles = {}
    for name, place in places.items():
        low, high = values[int(np.floor(place))], values[int(np.ceil(place))]
        quantiles[name] = float(low + (high - low) * (place - np.floor(place)))
    return quantiles
