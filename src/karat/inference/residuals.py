"""Exact quantiles of all residuals, by passes that count: smallest, quartiles, median, largest, as
R prints them.

A residual is y - x'b, times the square root of its weight if there are weights.  Doubles in order
of size are integers in order of size (the bits, turned for negative ones), so they can be
counted by their leading bits:

    pass 1   a count for each pattern of the first 20 bits: every rank lies in one of 2^20 brackets
    pass 2   the residuals in the brackets of the ranks are held, and sorted if they are too many,
             they are counted by the next 18 bits, and so on: four passes at most

Few rows (2^22) are held in pass 1 already.  A residual is computed column by column, so that it has
the same bits in every pass, however the rows are divided into batches.  Quantiles between two ranks
are interpolated, as R and NumPy do by default.
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
SHIFTS = (64, 44, 26, 8, 0)  # bits below those that a pass has counted by
HELD = 2**22  # residuals that may be held
SIGN = np.uint64(2**63)


def ordered_bits(values: Array) -> np.ndarray:
    """Integers in the order of the doubles; zeros of both signs are one."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def double_of(bits: int) -> float:
    """The double of :func:`ordered_bits`."""
    found = np.uint64(bits)
    return float((found ^ SIGN if found & SIGN else ~found).reshape(1).view(np.float64)[0])


@dataclass
class ResidualRanks(Consumer):
    """One pass: residuals whose leading bits are those of a bracket are held, or counted by their
    next bits.

    Parameters
    ----------
    solution : Solution
    level : int
        Passes that were made before.
    brackets : tuple of int
        Leading bits, increasing; a single 0 in the first pass.
    """

    background = True

    solution: FullDataSolution
    level: int = 0
    brackets: tuple[int, ...] = (0,)
    rows: int = 0
    # by bracket; None once they are counted
    held: list[list[np.ndarray]] | None = field(init=False)
    waiting: int = 0
    counts: np.ndarray = field(init=False)  # by bracket and next bits

    def __post_init__(self) -> None:
        self.held = [[] for _ in self.brackets]
        self.counts = np.zeros((len(self.brackets), 0), dtype=np.int64)

    def add(self, chunk: Chunk, batch: Batch) -> None:
        *design, response = batch.parts
        found, fixed = self.solution.found, int(self.solution.intercept)
        error = response[:, 0].astype(float) - (found.shifted[0] if fixed else 0.0)
        for place, column in enumerate((column for part in design for column in part.T), fixed):
            error -= found.shifted[place] * (column - found.shift[place])
        self.rows += len(batch)
        bits = ordered_bits(error if batch.weights is None else np.sqrt(batch.weights) * error)
        self._take(self._sorted_in(bits) if self.level else [bits])

    def _take(self, parts: list[np.ndarray]) -> None:
        """Hold those of each bracket, or count them."""
        if self.held is None:
            self._count(parts)
            return
        for have, part in zip(self.held, parts, strict=True):
            have.append(part)
        self.waiting += sum(map(len, parts))
        if self.waiting > HELD:
            self._count_held()

    def _sorted_in(self, bits: np.ndarray) -> list[np.ndarray]:
        """Those of each bracket."""
        known = np.array(self.brackets, dtype=np.uint64)
        leading = bits >> np.uint64(SHIFTS[self.level])
        return [bits[leading == one] for one in known]

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
        """Add those of other rows."""
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
    """The quantiles of all residuals, by as many passes as they take."""
    n = solution.observations
    places = {name: share * (n - 1) for name, share in SHARES.items()}
    ranks = sorted(
        {int(np.floor(place)) for place in places.values()}
        | {int(np.ceil(place)) for place in places.values()}
    )
    within = {rank: (0, rank) for rank in ranks}  # bracket, and rank inside it
    found = ResidualRanks(solution)
    while True:
        found = rows.scan(layout, found)
        if found.rows != n:
            raise InputError(
                f"These are not the rows that the coreset was made of: {found.rows:,} instead of"
                f" {n:,}."
            )
        if found.held is not None:
            break
        within = {rank: _narrowed(found, *where) for rank, where in within.items()}
        if SHIFTS[found.level + 1] == 0:  # every bit is known
            return _interpolated(
                places, {rank: double_of(bits) for rank, (bits, _) in within.items()}
            )
        found = ResidualRanks(
            solution, found.level + 1, tuple(sorted({bracket for bracket, _ in within.values()}))
        )
    order = {
        one: np.sort(part)
        for one, part in zip(found.brackets, joined_residuals(found.held), strict=True)
    }
    return _interpolated(
        places, {rank: double_of(int(order[one][inside])) for rank, (one, inside) in within.items()}
    )


def _narrowed(found: ResidualRanks, bracket: int, rank: int) -> tuple[int, int]:
    """The smaller bracket of a rank, and its rank inside."""
    ends = np.cumsum(found.counts[found.brackets.index(bracket)])
    place = int(np.searchsorted(ends, rank, side="right"))
    bits = SHIFTS[found.level] - SHIFTS[found.level + 1]
    return (bracket << bits) + place, rank - (int(ends[place - 1]) if place else 0)


def _interpolated(places: dict[str, float], values: dict[int, float]) -> dict[str, float]:
    found = {}
    for name, place in places.items():
        low, high = values[int(np.floor(place))], values[int(np.ceil(place))]
        found[name] = float(low + (high - low) * (place - np.floor(place)))
    return found
