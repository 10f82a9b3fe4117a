"""The first pass over a panel: sums from which the effects, and the first estimates, follow.

products     Z'UZ of the columns Z = (X, y) less a shift, with weights U
by level     sums of the rows of Z and of the weights, and counts of rows, of each effect
pairs        of levels of two effects (:mod:`.pairs`)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.data.batch import Batch
from karat.engine.linalg import Array, Indices
from karat.io.source import Chunk
from karat.panels.levels import JointLevels
from karat.panels.pairs import PairCounts, check_budget
from karat.panels.rows import PanelPass
from karat.panels.state import part_state, require_shape
from karat.storage.archive import Stored

if TYPE_CHECKING:
    from karat.panels.singletons import Singletons


class LevelSums:
    """Sums of numbers by level, in arrays that grow with the levels."""

    def __init__(self, width: int) -> None:
        self.values = np.zeros((width, 0))
        self.weights = np.zeros(0)
        self.counts = np.zeros(0, dtype=np.int64)

    def cover(self, count: int) -> None:
        """Make room for the levels with codes below ``count``."""
        have = len(self.counts)
        if count > have:
            more = max(count, 5 * have // 4) - have
            self.values = np.pad(self.values, ((0, 0), (0, more)))
            self.weights = np.pad(self.weights, (0, more))
            self.counts = np.pad(self.counts, (0, more))

    def add(self, codes: Indices, z: Array, weights: Array | None) -> None:
        """Add rows, the columns of ``z``, which are multiplied by the weights already."""
        first, last = int(codes.min()), int(codes.max()) + 1
        self.cover(last)
        near = codes - first if first else codes
        counts = np.bincount(near, minlength=last - first)
        self.counts[first:last] += counts
        self.weights[first:last] += (
            counts if weights is None else np.bincount(near, weights, last - first)
        )
        for total, row in zip(self.values, z, strict=True):
            total[first:last] += np.bincount(near, row, last - first)

    def merge(self, other: LevelSums, codes: Indices | None = None) -> None:
        """Add the sums of other rows; ``codes`` are those that their levels have here."""
        codes = np.arange(len(other.counts)) if codes is None else codes[: len(other.counts)]
        if len(codes):
            self.cover(int(codes.max()) + 1)
            self.values[:, codes] += other.values[:, : len(codes)]
            self.weights[codes] += other.weights[: len(codes)]
            self.counts[codes] += other.counts[: len(codes)]

    def state(self) -> Stored:
        """For a checkpoint."""
        return {}, {"values": self.values, "weights": self.weights, "counts": self.counts}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.values = require_shape(arrays["values"], len(self.values), None)
        self.weights = require_shape(arrays["weights"], self.values.shape[1])
        self.counts = require_shape(arrays["counts"], self.values.shape[1])

    def fit(self, count: int) -> None:
        """Cut the arrays to the levels that there are."""
        self.cover(count)
        self.values = self.values[:, :count]
        self.weights, self.counts = self.weights[:count], self.counts[:count]


@dataclass
class PanelSums(PanelPass):
    """The sums of the first pass; columns are shifted by the means of the first rows.

    Parameters
    ----------
    known : list of JointLevels or None
        The levels, if a pass has found them; then ``shift`` is used as it is.
    singletons : Singletons or None
        Rows to leave out.
    """

    known: list[JointLevels] | None = None
    singletons: Singletons | None = None
    rows: int = field(default=0, init=False)
    missing: int = field(default=0, init=False)  # rows that were left out for a missing value
    weight: float = field(default=0.0, init=False)
    log_weights: float = field(default=0.0, init=False)
    total: Array = field(init=False)
    products: Array = field(init=False)
    by_level: list[LevelSums] = field(init=False)
    pairs: dict[tuple[int, int], PairCounts] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        plan = self.plan
        self.levels = self.known or [JointLevels.of(len(columns)) for columns in plan.coded]
        self.total = np.zeros(plan.width)
        self.products = np.zeros((plan.width, plan.width))
        self.by_level = [LevelSums(plan.width) for _ in plan.effects]
        self.pairs = {
            (a, b): PairCounts((plan.name(a), plan.name(b)), plan.weighted, plan.memory)
            for a, b in plan.pairs
        }

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.missing += chunk.table.num_rows - len(batch)
        super().add(chunk, batch)

    def before(self, batch: Batch) -> None:
        if self.known is None and not self.rows and not self.held and len(batch):
            means = [np.asarray(part, dtype=float).mean(axis=0) for part in batch.parts]
            self.shift = np.concatenate(means)

    def add_rows(self, z: Array, weights: Array | None, codes: list[Indices]) -> None:
        if self.singletons is not None:
            z, weights, codes = self.singletons.without(z, weights, codes)
            if not z.shape[1]:
                return
        weighted = z if weights is None else z * weights
        self.rows += z.shape[1]
        self.weight += float(z.shape[1] if weights is None else weights.sum())
        self.log_weights += 0.0 if weights is None else float(np.log(weights).sum())
        self.total += weighted.sum(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):  # refused after the pass
            self.products += z @ weighted.T
        for sums, place in zip(self.by_level, codes, strict=False):
            sums.add(place, weighted, weights)
        for (a, b), pairs in self.pairs.items():
            pairs.add(codes[a], codes[b], weights)
        check_budget(self.counted())

    def counted(self) -> list[PairCounts]:
        return list(self.pairs.values())

    def finish(self) -> None:
        """Add the rows that wait; sums by level get the length of the levels."""
        self.flush()
        for sums, levels in zip(self.by_level, self.levels, strict=False):
            sums.fit(levels.count)
        for pairs in self.pairs.values():
            pairs.settle()
        check_budget(self.counted())

    def centred_products(self) -> Array:
        """The products of the columns less their means."""
        return self.products - np.outer(self.total, self.total) / self.weight

    def parts_of_state(self) -> list[tuple[str, Stored]]:
        numbers = {
            "n": self.rows, "missing": self.missing, "weight": self.weight,
            "log_weights": self.log_weights,
        }  # fmt: skip
        arrays = {"shift": self.shift, "total": self.total, "products": self.products}
        levels = [] if self.known else self.levels
        return [
            ("totals", (numbers, arrays)),
            *((f"levels {place}", each.state()) for place, each in enumerate(levels)),
            *((f"sums {place}", sums.state()) for place, sums in enumerate(self.by_level)),
            *((f"pairs {a} {b}", pairs.state()) for (a, b), pairs in self.pairs.items()),
        ]

    def restore_parts(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        numbers, totals = part_state("totals", header, arrays)
        self.rows, self.weight = numbers["n"], numbers["weight"]
        self.missing = numbers["missing"]
        self.log_weights, width = numbers["log_weights"], self.plan.width
        self.shift = require_shape(totals["shift"], width)
        self.total = require_shape(totals["total"], width)
        self.products = require_shape(totals["products"], width, width)
        for place, each in enumerate([] if self.known else self.levels):
            each.restore(*part_state(f"levels {place}", header, arrays))
        for place, sums in enumerate(self.by_level):
            sums.restore(*part_state(f"sums {place}", header, arrays))
        for (a, b), pairs in self.pairs.items():
            pairs.restore(*part_state(f"pairs {a} {b}", header, arrays))

    def merge(self, other: PanelSums) -> None:
        """Add the sums of other rows."""
        self.finish()
        other.finish()
        self.missing += other.missing
        if not other.rows:
            return
        if not self.rows:
            self.shift = other.shift
        codes = [
            mine.absorb(theirs) for mine, theirs in zip(self.levels, other.levels, strict=True)
        ]
        move = other.shift - self.shift
        for mine, theirs, place in zip(self.by_level, other.by_level, codes, strict=False):
            theirs.values += move[:, None] * theirs.weights
            mine.merge(theirs, place)
        cross = np.outer(other.total, move)
        self.products += other.products + cross + cross.T + other.weight * np.outer(move, move)
        self.total += other.total + other.weight * move
        self.rows, self.weight = self.rows + other.rows, self.weight + other.weight
        self.log_weights += other.log_weights
        for (a, b), pairs in self.pairs.items():
            pairs.merge(other.pairs[a, b], codes[a], codes[b])
