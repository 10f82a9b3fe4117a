"""Codes of levels: 0, 1, 2, ... in the order in which the levels first occur.

Codes do not change when more rows come, so sums by level are arrays that grow.  Integers that lie
close together are looked up in an array, which takes one memory access per row.  Other labels are
encoded chunk by chunk (Arrow's dictionaries) and only the distinct ones of a chunk are looked up.
The levels of a combination such as firm^year are pairs of codes, in one integer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from karat.data.labels import encode
from karat.engine.linalg import Indices
from karat.errors import InputError, require
from karat.panels.state import joined_state, label_state, labels_of, part_state
from karat.storage.archive import Stored

SPAN = 2**20  # integers within so large a range are looked up in an array, however few there are
SPARE = 8  # entries of this array that are allowed per row
MOST = 2**31 - 1  # levels of one effect


@dataclass(frozen=True)
class Coded:
    """Labels of rows: the distinct ones, and the place of each row's among them."""

    distinct: np.ndarray
    places: np.ndarray

    def __getitem__(self, rows: Any) -> Coded:
        return Coded(self.distinct, self.places[rows])


@dataclass
class Levels:
    """The levels that were seen, and their codes.

    Attributes
    ----------
    count : int
        The number of levels.
    """

    count: int = 0
    rows: int = 0
    low: int = 0  # the integer at the first place of the array
    table: np.ndarray | None = field(default=None)  # codes by integer, -1 where it is no level
    places: dict[Any, int] | None = None  # codes of other labels
    frozen: bool = False  # whether a new level is an error

    def codes(self, labels: np.ndarray | Coded) -> Indices:
        """The code of every row's label; new labels get the next codes."""
        if isinstance(labels, Coded):
            self.rows += len(labels.places)
            if not len(labels.places):
                return np.zeros(0, dtype=np.intp)
            used = np.zeros(len(labels.distinct), dtype=bool)
            used[labels.places] = True
            found = np.full(len(labels.distinct), -1, dtype=np.intp)
            found[used] = self._looked_up(labels.distinct[used])
            return np.asarray(found[labels.places])
        self.rows += len(labels)
        if not len(labels):
            return np.zeros(0, dtype=np.intp)
        if self.places is None and labels.dtype.kind in "iu":
            low, high = int(labels.min()), int(labels.max())
            if self.table is not None:
                low, high = min(low, self.low), max(high, self.low + len(self.table) - 1)
            if high - low < max(SPAN, SPARE * self.rows) and low > -(2**62) and high < 2**62:
                return self._addressed(labels.astype(np.int64, copy=False), low, high)
        distinct, places = encode(labels)
        return np.asarray(self._looked_up(distinct)[places])

    def _addressed(self, labels: np.ndarray, low: int, high: int) -> Indices:
        self._cover(low, high)
        assert self.table is not None
        offsets = labels - self.low if self.low else labels
        codes = self.table[offsets]
        new = np.flatnonzero(codes < 0)
        if len(new):
            distinct = encode(offsets[new])[0]
            self.table[distinct] = self._next(len(distinct))
            codes[new] = self.table[offsets[new]]
        return np.asarray(codes, dtype=np.intp)

    def _cover(self, low: int, high: int) -> None:
        """Make the array long enough, with a margin for the integers of the next rows."""
        table = self.table
        if table is not None and self.low <= low and high < self.low + len(table):
            return
        start, size = low, high - low + 1
        if table is not None:
            margin = size // 8
            start, size = low - margin * (low < self.low), size + 2 * margin
        wider = np.full(size, -1, dtype=np.int32)
        if table is not None:
            wider[self.low - start : self.low - start + len(table)] = table
        self.low, self.table = start, wider

    def _looked_up(self, distinct: np.ndarray) -> Indices:
        if self.places is None:
            labels = self.labels()
            self.places = {label: code for code, label in enumerate(labels)}
            self.table = None
        places, before = self.places, len(self.places)
        codes = np.fromiter(
            (places.setdefault(label, len(places)) for label in distinct.tolist()),
            np.intp,
            len(distinct),
        )
        if len(places) > before:
            self._next(len(places) - before)
        return codes

    def _next(self, count: int) -> np.ndarray:
        """The next codes."""
        if self.frozen:
            raise InputError(
                "A later pass over the data found a level that the first had not: the data changed"
                " meanwhile. Write the rows to a file first, and read that."
            )
        if self.count + count > MOST:
            raise InputError(f"A fixed effect has more than {MOST:,} levels.")
        codes = np.arange(self.count, self.count + count)
        self.count += count
        return codes

    def labels(self) -> list[Any]:
        """The labels in the order of their codes."""
        if self.places is not None:
            return list(self.places)
        if self.table is None:
            return []
        held = np.flatnonzero(self.table >= 0)
        labels = np.empty(self.count, dtype=np.int64)
        labels[self.table[held]] = held + self.low
        return labels.tolist()

    def state(self) -> Stored:
        """For a checkpoint."""
        header = {"count": self.count, "rows": self.rows, "low": self.low, "table": None}
        if self.places is None and self.table is not None:
            return header | {"table": len(self.table)}, {"labels": np.array(self.labels())}
        return header, label_state(self.labels())

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.count, self.rows, self.low = header["count"], header["rows"], header["low"]
        if header["table"] is not None:
            self.table = np.full(header["table"], -1, dtype=np.int32)
            self.table[arrays["labels"] - self.low] = np.arange(self.count)
        elif self.count:
            self.places = {label: code for code, label in enumerate(labels_of(arrays))}
            require(len(self.places) == self.count, "a level without a label")

    def find(self, labels: np.ndarray) -> Indices:
        """The codes of labels; -1 where one is no level."""
        known = {label: code for code, label in enumerate(self.labels())}
        distinct, places = encode(labels)
        codes = [known.get(label, -1) for label in distinct.tolist()]
        return np.array(codes, dtype=np.intp)[places]

    def absorb(self, other: Levels) -> Indices:
        """Add the levels of another part of the data; returns their codes here."""
        labels, table = other.labels(), other.places is None
        codes = self.codes(np.array(labels, dtype=np.int64 if table else object))
        self.rows += other.rows - len(labels)
        return codes


def packed(columns: list[Indices]) -> Indices:
    """Pairs of codes as one integer: 32 bits each."""
    first, second = columns
    return np.asarray((first.astype(np.int64) << 32) | second)


@dataclass
class JointLevels:
    """The levels of a combination of columns, from the codes of the columns.

    Combinations of three or more are paired from the left.
    """

    parts: list[Levels]
    joint: list[Levels]

    @staticmethod
    def of(columns: int) -> JointLevels:
        return JointLevels(
            [Levels() for _ in range(columns)], [Levels() for _ in range(columns - 1)]
        )

    @property
    def count(self) -> int:
        return (self.joint or self.parts)[-1].count

    def state(self) -> Stored:
        """For a checkpoint."""
        every = enumerate([*self.parts, *self.joint])
        return joined_state((str(place), levels.state()) for place, levels in every)

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        for place, levels in enumerate([*self.parts, *self.joint]):
            levels.restore(*part_state(str(place), header, arrays))

    def freeze(self) -> None:
        """From now on, a new level is an error."""
        for levels in (*self.parts, *self.joint):
            levels.frozen = True

    def codes(self, labels: list[Any]) -> Indices:
        """The codes of rows, from one array of labels for each column."""
        codes, *others = (
            part.codes(column) for part, column in zip(self.parts, labels, strict=True)
        )
        for level, right in zip(self.joint, others, strict=True):
            codes = level.codes(packed([codes, right]))
        return codes

    def find(self, labels: list[np.ndarray]) -> Indices:
        """The codes of rows; -1 where a combination is no level."""
        codes, *others = (
            part.find(column) for part, column in zip(self.parts, labels, strict=True)
        )
        for level, right in zip(self.joint, others, strict=True):
            known = (codes >= 0) & (right >= 0)
            codes = np.where(known, level.find(packed([codes, np.maximum(right, 0)])), -1)
        return codes

    def labels(self) -> list[Any]:
        """The labels in the order of their codes; tuples for a combination of columns."""
        if not self.joint:
            return self.parts[0].labels()
        places = np.arange(self.count)
        columns = []
        for level, part in zip(reversed(self.joint), reversed(self.parts), strict=False):
            both = np.array(level.labels(), dtype=np.int64)[places]
            names = part.labels()
            columns.append([names[place] for place in (both & 0xFFFFFFFF).tolist()])
            places = both >> 32
        names = self.parts[0].labels()
        columns.append([names[place] for place in places.tolist()])
        return list(zip(*reversed(columns), strict=True))

    def absorb(self, other: JointLevels) -> Indices:
        """Add the levels of another part of the data; returns their codes here."""
        maps = [part.absorb(theirs) for part, theirs in zip(self.parts, other.parts, strict=True)]
        codes = maps[0]
        for place, level in enumerate(self.joint):
            theirs = np.array(other.joint[place].labels(), dtype=np.int64)
            pairs = packed([codes[theirs >> 32], maps[place + 1][theirs & 0xFFFFFFFF]])
            codes = level.codes(pairs)
            level.rows += other.joint[place].rows - len(pairs)
        return codes
