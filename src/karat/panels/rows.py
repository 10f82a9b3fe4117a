"""What the passes over a panel have in common: rows collected in blocks, as numbers and codes.

Sums by level cost time in proportion to the levels for each block, so blocks are large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from karat.data.batch import Batch
from karat.engine.linalg import Array, Indices
from karat.io.checkpoint import ResumableConsumer
from karat.io.source import Chunk
from karat.panels.effects import Effect
from karat.panels.levels import JointLevels
from karat.panels.state import joined_state, part_state, require_shape
from karat.storage.archive import Stored

BLOCK_ROWS = 2**19
BLOCK_NUMBERS = 2**23  # of a block of many columns


@dataclass(frozen=True)
class PanelPlan:
    """What is summed.

    Attributes
    ----------
    effects : tuple of Effect
    clusters : tuple of str
        Columns of cluster labels.
    columns : tuple of str
        The label columns of the rows, in their order.
    width : int
        The number of regressors and the response.
    weighted : bool
    memory : int
        Bytes that pairs of levels may take.
    decimals : mapping
        By the name of a column of decimals, how many digits are behind the point.
    """

    effects: tuple[Effect, ...]
    clusters: tuple[str, ...]
    columns: tuple[str, ...]
    width: int
    weighted: bool
    memory: int
    decimals: Mapping[str, int] = field(default_factory=dict)

    @property
    def coded(self) -> list[tuple[str, ...]]:
        """The columns of everything that has codes: of the effects, then of the other clusters."""
        effects = [effect.columns for effect in self.effects]
        return effects + [(name,) for name in self.clusters if (name,) not in effects]

    @property
    def ways(self) -> list[int]:
        """The place among the codes of each way of clustering."""
        return [self.coded.index((name,)) for name in self.clusters]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs that are counted: of effects, and of ways of clustering."""
        pairs = [*combinations(range(len(self.effects)), 2), *combinations(sorted(self.ways), 2)]
        return list(dict.fromkeys(pairs))

    def name(self, place: int) -> str:
        """The name of what has codes, for messages."""
        return "^".join(self.coded[place])


@dataclass
class PanelPass(ResumableConsumer):
    """Collects rows in blocks; :meth:`add_rows` gets the columns less ``shift``."""

    background = True

    plan: PanelPlan
    shift: Array
    levels: list[JointLevels] = field(init=False)
    room: Array = field(init=False)
    weights: Array | None = field(init=False)
    codes: list[list[Indices]] = field(init=False)
    held: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.room = np.empty((self.plan.width, 0))
        self.weights = np.empty(0) if self.plan.weighted else None
        self.codes = [[] for _ in self.plan.coded]

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.add_batch(batch)

    def add_batch(self, batch: Batch) -> None:
        """Take the used rows."""
        assert batch.keys is not None
        labels = dict(zip(self.plan.columns, batch.keys.columns, strict=True))
        self.before(batch)
        codes = [
            levels.codes([labels[name] for name in columns])
            for levels, columns in zip(self.levels, self.plan.coded, strict=True)
        ]
        start, size = 0, min(BLOCK_ROWS, BLOCK_NUMBERS // self.plan.width + 1)
        while start < len(batch):
            stop = min(start + size - self.held, len(batch))
            self._cover(self.held + stop - start, size)
            self._collect(batch, codes, slice(start, stop))
            start = stop
            if self.held == size:
                self.flush()

    def _cover(self, rows: int, most: int) -> None:
        """Make room for so many rows, at least twice of what there was."""
        have = self.room.shape[1]
        if rows > have:
            more = max(rows, min(2 * have, most)) - have
            self.room = np.pad(self.room, ((0, 0), (0, more)))
            if self.weights is not None:
                self.weights = np.pad(self.weights, (0, more))

    def before(self, batch: Batch) -> None:
        """Called before the rows of a batch are collected."""

    def _collect(self, batch: Batch, codes: Sequence[Indices], rows: slice) -> None:
        place, after = 0, self.held + rows.stop - rows.start
        for part in batch.parts:
            width = part.shape[1]
            shift = self.shift[place : place + width, None]
            np.subtract(
                part[rows].T, shift, out=self.room[place : place + width, self.held : after]
            )
            place += width
        if self.weights is not None:
            assert batch.weights is not None
            self.weights[self.held : after] = batch.weights[rows]
        for held, new in zip(self.codes, codes, strict=True):
            held.append(new[rows])
        self.held = after

    def flush(self) -> None:
        """Add the rows that wait to the sums."""
        if self.held:
            codes = [np.concatenate(parts) for parts in self.codes]
            weights = None if self.weights is None else self.weights[: self.held]
            self.add_rows(self.room[:, : self.held], weights, codes)
        self.held, self.codes = 0, [[] for _ in self.plan.coded]

    def release(self) -> None:
        """Add the rows that wait to the sums, and give back their memory."""
        if self.held:
            self.flush()
            self.room = self.room[:, :0].copy()
            self.weights = None if self.weights is None else np.empty(0)

    def counted(self) -> Sequence[Any]:
        """The pairs of levels that are held."""
        return ()

    def add_rows(self, z: Array, weights: Array | None, codes: list[Indices]) -> None:
        """Add a block of rows, whose columns are the rows of ``z``; it may be overwritten."""
        raise NotImplementedError

    def state(self) -> Stored:
        """The rows that wait, and the sums."""
        codes = [np.concatenate([np.zeros(0, np.int64), *parts]) for parts in self.codes]
        arrays = {"room": self.room[:, : self.held], "codes": np.stack(codes)}
        if self.weights is not None:
            arrays["weights"] = self.weights[: self.held]
        return joined_state([("rows", ({}, arrays)), *self.parts_of_state()])

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        waiting = part_state("rows", header, arrays)[1]
        self.held = waiting["room"].shape[1]
        self.room = require_shape(waiting["room"], self.plan.width, None)
        codes = require_shape(waiting["codes"], len(self.codes), self.held)
        self.codes = [[each] for each in codes] if self.held else self.codes
        if self.weights is not None:
            self.weights = require_shape(waiting["weights"], self.held)
        self.restore_parts(header, arrays)

    def parts_of_state(self) -> list[tuple[str, Stored]]:
        """The sums, for a checkpoint."""
        raise NotImplementedError

    def restore_parts(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Continue with the sums of a checkpoint."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """For messages between workers: without the room for rows."""
        self.flush()
        empty = None if self.weights is None else self.weights[:0]
        return vars(self) | {"room": self.room[:, :0], "weights": empty}
