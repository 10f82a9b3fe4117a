"""Counts of pairs of levels: how many rows each pair of levels of two effects has.

The pairs of a chunk are integers of 64 bits.  They wait until there are many, are then sorted, and
merged with the pairs before: each row is sorted once, and memory is that of the distinct pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.linalg import Array, Indices
from karat.errors import InputError
from karat.panels.levels import packed
from karat.panels.rows import PanelPlan
from karat.panels.state import require_shape
from karat.storage.archive import Stored

WAITING = 2**21  # pairs that are collected before they are sorted, or half as many as there are
LOW = 0xFFFFFFFF


@dataclass
class PairCounts:
    """The pairs of levels that occur, in order, with their rows and the sums of their weights.

    Parameters
    ----------
    names : tuple of str
        The two effects, for messages.
    weighted : bool
    budget : int
        Bytes that the pairs may take.
    """

    names: tuple[str, str]
    weighted: bool
    budget: int
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    weights: Array | None = None
    waiting: list[tuple[np.ndarray, Array | None]] = field(default_factory=list)
    held: int = 0

    def add(self, first: Indices, second: Indices, weights: Array | None) -> None:
        """Count the pairs of some rows."""
        keys = packed([first, second])
        self.waiting.append((keys, None if weights is None else weights.copy()))
        self.held += len(keys)
        if self.held > max(WAITING, len(self.keys) // 2):
            self.settle()

    def state(self) -> Stored:
        """For a checkpoint; pairs that wait are summed later, when they would have been."""
        waiting = [np.zeros(0, np.int64), *(keys for keys, _ in self.waiting)]
        arrays = {"keys": self.keys, "counts": self.counts, "waiting": np.concatenate(waiting)}
        if self.weighted:
            weights = [part for _, part in self.waiting if part is not None]
            arrays["waiting weights"] = np.concatenate([np.zeros(0), *weights])
            arrays["weights"] = np.zeros(0) if self.weights is None else self.weights
        return {}, arrays

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.keys, self.counts = (
            arrays["keys"],
            require_shape(arrays["counts"], len(arrays["keys"])),
        )
        waiting, self.held = arrays["waiting"], len(arrays["waiting"])
        weights = None
        if self.weighted:
            weights = require_shape(arrays["waiting weights"], self.held)
            self.weights = require_shape(arrays["weights"], len(self.keys))
        self.waiting = [(waiting, weights)] if self.held else []

    def settle(self) -> None:
        """Sort and count the pairs that wait."""
        if not self.held:
            return
        keys = np.concatenate([keys for keys, _ in self.waiting])
        weights = (
            np.concatenate([part for _, part in self.waiting if part is not None])
            if self.weighted
            else None
        )
        self.waiting, self.held = [], 0
        if weights is not None:
            order = np.argsort(keys, kind="stable")
            keys, weights = keys[order], weights[order]
        else:
            keys.sort()
        starts = _starts(keys)
        counts = np.diff(starts, append=len(keys)).astype(np.int32)
        if weights is not None:
            weights = np.add.reduceat(weights, starts)
        self._join(keys[starts], counts, weights)

    def _join(self, keys: np.ndarray, counts: np.ndarray, weights: Array | None) -> None:
        """Merge sorted pairs with those before."""
        if not len(self.keys):
            self.keys, self.counts, self.weights = keys, counts, weights
        else:
            places = np.searchsorted(self.keys, keys)
            known = self.keys[np.minimum(places, len(self.keys) - 1)] == keys
            before, new = places[~known], ~known
            self.counts[places[known]] += counts[known]
            self.counts = np.insert(self.counts, before, counts[new])
            if weights is not None:
                assert self.weights is not None
                self.weights[places[known]] += weights[known]
                self.weights = np.insert(self.weights, before, weights[new])
            self.keys = np.insert(self.keys, before, keys[new])
        check_budget([self])

    def merge(self, other: PairCounts, first: Indices, second: Indices) -> None:
        """Add the pairs of other rows, whose levels have these codes here."""
        self.settle()
        other.settle()
        if not len(other.keys):
            return
        keys = packed([first[other.keys >> 32], second[other.keys & LOW]])
        order = np.argsort(keys, kind="stable")
        weights = None if other.weights is None else other.weights[order]
        self._join(keys[order], other.counts[order], weights)

    def remove(self, first: Indices, second: Indices, weights: Array) -> None:
        """Take out rows, which have been counted."""
        places = np.searchsorted(self.keys, packed([first, second]))
        np.subtract.at(self.counts, places, 1)
        if self.weights is not None:
            np.subtract.at(self.weights, places, weights)
            self.weights = self.weights[self.counts > 0]
        self.keys, self.counts = self.keys[self.counts > 0], self.counts[self.counts > 0]

    def repeated(self) -> np.ndarray:
        """The pairs of several rows."""
        return self.keys[self.counts > 1]

    def matrix(self, shape: tuple[int, int], counts: bool = False) -> Any:
        """The sums of weights as a sparse matrix, or the numbers of rows."""
        rows = np.zeros(shape[0] + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.keys >> 32, minlength=shape[0]), out=rows[1:])
        kind = np.int32 if len(self.keys) < 2**31 else np.int64
        data = (self.counts if counts or self.weights is None else self.weights).astype(float)
        columns = (self.keys & LOW).astype(kind)
        matrix = sparse.csr_array((data, columns, rows.astype(kind)), shape=shape)
        matrix.has_sorted_indices = True
        return matrix


def check_budget(pairs: Sequence[PairCounts]) -> None:
    """Raise if the pairs of all effects take more bytes than they may."""
    count = sum(len(each.keys) for each in pairs)
    if pairs and count * pair_bytes(pairs[0].weighted) > pairs[0].budget:
        first, second = max(pairs, key=lambda each: len(each.keys)).names
        each_takes = pair_bytes(pairs[0].weighted)
        raise InputError(
            f"The pairs of levels of {first!r} and {second!r} take more than memory="
            f"{pairs[0].budget:,} bytes: {count:,} were found so far, which take up to {each_takes}"
            f" bytes each. Allow more with memory=, for which {each_takes} bytes for each row and"
            " each two effects are always enough, or use fewer levels.",
            argument="memory",
        )


def announce(plan: PanelPlan, rows: int | None) -> None:
    """Say, before the pass, that pairs of levels may take more memory than is allowed."""
    need = 0 if rows is None else rows * len(plan.pairs) * pair_bytes(plan.weighted)
    if need > plan.memory:
        warnings.warn(
            f"The pairs of levels of {rows:,} rows may take up to {need:,} bytes, and"
            f" memory={plan.memory:,} allows less: if they need more, there will be no table. Pass"
            f" memory={need} if there is so much.",
            UserWarning,
            stacklevel=5,
        )


def pair_bytes(weighted: bool) -> int:
    """Bytes of a pair, at the most: while pairs are merged, and as a matrix and its transpose."""
    return 64 if weighted else 48


def _starts(keys: np.ndarray) -> Indices:
    """Where runs of equal keys begin."""
    return np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
