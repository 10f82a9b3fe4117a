"""Sums by cluster, for labels of any kind, in several ways of clustering.

Rows may arrive in any order.  Integer labels that lie close together are used as addresses of the
sums of their clusters; other labels get addresses from a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from karat.data.labels import encode
from karat.engine.linalg import Array

SPAN = 2**20  # addresses that are always allowed, however few rows there are
SPARE = 8  # addresses that are allowed per row
CLUSTER_BLOCK = 2**12  # clusters whose outer products are summed at a time


class ClusterSums:
    """Sums of k numbers by label.

    Parameters
    ----------
    width : int
        The number of sums for each label.
    near : bool
        Whether labels that lie close together are addresses, which is faster and takes room for the
        labels between them, too.
    """

    def __init__(self, width: int, near: bool = True) -> None:
        self.sums = np.zeros((width, 0))
        self.seen = np.zeros(0, dtype=bool)
        self.low: int | None = None  # the label at address 0, if labels are addresses
        self.places: dict[Any, int] | None = None if near else {}  # addresses of other labels
        self.rows = 0

    def add(self, labels: np.ndarray, values: Array) -> None:
        """Add the columns of ``values`` to the sums of their labels."""
        self.rows += len(labels)
        codes = self._codes(labels)
        if self.places is not None and len(labels) < len(self.seen):
            distinct, codes = np.unique(codes, return_inverse=True)
            for row, value in zip(self.sums, values, strict=True):
                row[distinct] += np.bincount(codes, value, len(distinct))
            self.seen[distinct] = True
            return
        first, last = int(codes.min()), int(codes.max())
        if first:
            codes = codes - first
        for row, value in zip(self.sums, values, strict=True):
            row[first : last + 1] += np.bincount(codes, value, last + 1 - first)
        self.seen[first : last + 1][codes] = True

    def _codes(self, labels: np.ndarray) -> np.ndarray:
        if self.places is None and labels.dtype.kind in "iu":
            low, high = int(labels.min()), int(labels.max())
            start = low if self.low is None else min(low, self.low)
            end = high if self.low is None else max(high, self.low + len(self.seen) - 1)
            if end - start < max(SPAN, SPARE * self.rows):
                self._cover(start, end)
                assert self.low is not None
                return _differences(labels, self.low)
        if self.places is None:
            self._tabulate()
        assert self.places is not None
        distinct, codes = encode(labels)
        places = self.places
        addresses = np.array(
            [places.setdefault(label, len(places)) for label in distinct.tolist()], dtype=np.intp
        )
        if len(places) > len(self.seen):
            self._move(0, max(len(places), 3 * len(self.seen) // 2))
        return np.asarray(addresses[codes])

    def _cover(self, start: int, end: int) -> None:
        """Allocate addresses for the labels from ``start`` to ``end``, with a margin for those of
        the next rows.
        """
        if self.low is not None and self.low <= start and end < self.low + len(self.seen):
            return
        margin = (end - start) // 8
        low = start - margin
        low = low if self.low is None else min(low, self.low)
        self._move(0 if self.low is None else self.low - low, end + margin - low + 1)
        self.low = low

    def _move(self, before: int, size: int) -> None:
        """Allocate ``size`` addresses, ``before`` of them in front of the present ones."""
        sums, seen = np.zeros((len(self.sums), size)), np.zeros(size, dtype=bool)
        held = len(self.seen)
        sums[:, before : before + held], seen[before : before + held] = self.sums, self.seen
        self.sums, self.seen = sums, seen

    def _tabulate(self) -> None:
        """Change from labels as addresses to a table of labels."""
        labels = self.labels()
        self.sums, self.places, self.low = (
            self.sums[:, self.seen],
            {label: i for i, label in enumerate(labels)},
            None,
        )
        self.seen = np.ones(len(labels), dtype=bool)

    def labels(self) -> list[Any]:
        """The labels that were seen, in the order of their addresses."""
        if self.places is not None:
            return list(self.places)
        return (
            []
            if self.low is None
            else [self.low + place for place in np.flatnonzero(self.seen).tolist()]
        )

    def merge(self, other: ClusterSums) -> None:
        """Add the sums of other rows."""
        labels = other.labels()
        if labels:
            # labels of a table stay objects: -1 and 2**63 together would become doubles
            self.add(
                np.asarray(labels, dtype=None if other.places is None else object),
                other.sums[:, other.seen],
            )

    @property
    def count(self) -> int:
        """The number of clusters that were seen."""
        return int(self.seen.sum())

    def outer(self, whitening: Array | None = None) -> Array:
        """The sum of s s' over the clusters, where s are the sums of a cluster, whitened."""
        width = len(self.sums) if whitening is None else whitening.shape[1]
        total = np.zeros((width, width))
        for start in range(0, self.sums.shape[1], CLUSTER_BLOCK):
            scores = self.sums[:, start : start + CLUSTER_BLOCK]
            scores = scores if whitening is None else whitening.T @ scores
            total += scores @ scores.T
        return total


class SumsByWay:
    """Sums of k numbers by label, for each way of clustering and each combination of ways.

    Adding to clusters costs time in proportion to their number, so columns wait in a room and many
    are added at once.

    Parameters
    ----------
    width : int
        The number of sums for each label.
    subsets : sequence of tuples
        The ways, and their combinations.
    waiting : int
        Columns that may wait.
    near : bool
        As in :class:`ClusterSums`.
    check : callable, optional
        Called with a number of clusters; raises if there are too many.
    """

    def __init__(
        self, width: int, subsets: Sequence[tuple[int, ...]], waiting: int, near: bool = True,
        check: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self.by_way = {subset: ClusterSums(width, near) for subset in subsets}
        self.waiting, self.check = waiting, check
        self.room = np.empty((width, 0))
        self.held, self.labels = 0, list[Any]()

    def place(self, labels: Any, count: int) -> Array:
        """Where to write the columns of so many rows with these labels of each way."""
        if self.held + count > self.room.shape[1]:
            self.flush()
            size = max(count, self.waiting)
            if size != self.room.shape[1]:
                self.room = np.empty((len(self.room), size))
        columns = self.room[:, self.held : self.held + count]
        if self.by_way:
            self.labels.append(labels)
            self.held += count
        return columns

    def flush(self) -> None:
        """Add the columns that wait to their clusters."""
        if self.held:
            labels = [np.concatenate(parts) for parts in zip(*self.labels, strict=True)]
            columns = self.room[:, : self.held]
            for subset, sums in self.by_way.items():
                if len(subset) == 1:
                    sums.add(labels[subset[0]], columns)
                else:
                    sums.add(*_joint_sums([labels[way] for way in subset], columns))
            if self.check is not None:
                self.check(sum(sums.count for sums in self.by_way.values()))
        self.held, self.labels = 0, []

    def __getstate__(self) -> dict[str, Any]:
        """For messages between workers: without the room."""
        self.flush()
        return vars(self) | {"room": self.room[:, :0]}

    def merge(self, other: SumsByWay) -> None:
        """Add the sums of other rows."""
        self.flush()
        other.flush()
        for subset, sums in other.by_way.items():
            self.by_way[subset].merge(sums)
            if self.check is not None:
                self.check(self.by_way[subset].count)


def _joint_sums(labels: Sequence[np.ndarray], values: Array) -> tuple[np.ndarray, Array]:
    """The distinct combinations of labels, as texts, and the sums of the columns of ``values``."""
    encoded = [encode(column) for column in labels]
    codes = np.zeros(len(labels[0]), dtype=np.int64)
    for distinct, places in encoded:
        codes = codes * len(distinct) + places
    joint, inverse = np.unique(codes, return_inverse=True)
    sums: Array = np.stack([np.bincount(inverse, row, len(joint)) for row in values]).astype(float)
    parts = np.unravel_index(joint, [len(distinct) for distinct, _ in encoded])
    columns = [distinct[part].tolist() for (distinct, _), part in zip(encoded, parts, strict=True)]
    return np.array([repr(row) for row in zip(*columns, strict=True)], dtype=object), sums


def _differences(labels: np.ndarray, low: int) -> np.ndarray:
    """``labels - low`` for integers of any width; the result is between 0 and 2**63, so arithmetic
    modulo 2**64 is exact.
    """
    if labels.dtype.kind == "i":
        labels = labels.astype(np.int64, copy=False).view(np.uint64)
    return np.asarray(labels.astype(np.uint64, copy=False) - np.uint64(low % 2**64), dtype=np.intp)
