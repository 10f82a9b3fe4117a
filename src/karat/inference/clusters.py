"""Sums by cluster: G x k numbers for G clusters, added to as rows arrive in any order.

Whole numbers that lie close together are their own addresses; other labels get addresses from a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat._data.labels import encode
from karat.engine.linalg import Array

SPAN = 2**20  # addresses that are taken without asking how many rows there are
SPARE = 8  # addresses per row
SOME = 2**12  # clusters that are squared at a time


class ClusterSums:
    """Sums of k numbers by label.

    Parameters
    ----------
    width : int
        The numbers of a row.
    """

    def __init__(self, width: int) -> None:
        self.sums = np.zeros((width, 0))
        self.seen = np.zeros(0, dtype=bool)
        self.low: int | None = None  # the label at address 0, where labels are addresses
        self.places: dict[Any, int] | None = None  # of other labels
        self.rows = 0

    def add(self, labels: np.ndarray, values: Array) -> None:
        """Add the columns of ``values`` to the sums of their labels."""
        self.rows += len(labels)
        codes = self._codes(labels)
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
        known = np.array([places.setdefault(label, len(places)) for label in distinct.tolist()], dtype=np.intp)
        if len(places) > len(self.seen):
            self._move(0, max(len(places), 3 * len(self.seen) // 2))
        return np.asarray(known[codes])

    def _cover(self, start: int, end: int) -> None:
        """Make labels from ``start`` to ``end`` addresses, and some beside them: the next rows hold others."""
        if self.low is not None and self.low <= start and end < self.low + len(self.seen):
            return
        beside = (end - start) // 8
        low = start - beside
        low = low if self.low is None else min(low, self.low)
        self._move(0 if self.low is None else self.low - low, end + beside - low + 1)
        self.low = low

    def _move(self, before: int, size: int) -> None:
        """Take ``size`` addresses, ``before`` of them in front of those there are."""
        sums, seen = np.zeros((len(self.sums), size)), np.zeros(size, dtype=bool)
        held = len(self.seen)
        sums[:, before : before + held], seen[before : before + held] = self.sums, self.seen
        self.sums, self.seen = sums, seen

    def _tabulate(self) -> None:
        """Go over from addresses to a table."""
        labels = self.labels()
        self.sums, self.places, self.low = self.sums[:, self.seen], {label: i for i, label in enumerate(labels)}, None
        self.seen = np.ones(len(labels), dtype=bool)

    def labels(self) -> list[Any]:
        """The labels that were seen, in the order of their addresses."""
        if self.places is not None:
            return list(self.places)
        return [] if self.low is None else [self.low + place for place in np.flatnonzero(self.seen).tolist()]

    def merge(self, other: ClusterSums) -> None:
        """Add the sums of other rows."""
        labels = other.labels()
        if labels:
            # labels of a table stay what they are: an array of -1 and 2**63 would be one of doubles
            self.add(np.asarray(labels, dtype=None if other.places is None else object), other.sums[:, other.seen])

    @property
    def count(self) -> int:
        """Clusters that were seen."""
        return int(self.seen.sum())

    def outer(self, turn: Array) -> Array:
        """The sum over the clusters of s s', s the sums of a cluster times ``turn``."""
        total = np.zeros((turn.shape[1], turn.shape[1]))
        for start in range(0, self.sums.shape[1], SOME):
            some = turn.T @ self.sums[:, start : start + SOME]
            total += some @ some.T
        return total


def _differences(labels: np.ndarray, low: int) -> np.ndarray:
    """``labels - low``, which is between 0 and 2**63, for whole numbers of any width: modulo 2**64 nothing overflows."""
    if labels.dtype.kind == "i":
        labels = labels.astype(np.int64, copy=False).view(np.uint64)
    return np.asarray(labels.astype(np.uint64, copy=False) - np.uint64(low % 2**64), dtype=np.intp)
