"""Batches that wait to be folded, in memory of their own where the caller may reuse his."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from karat._data.batch import Batch, stack

MOST = 2**28  # bytes of memory that is used again


class Buffer:
    """The batches that wait, of at most ``rows`` rows and ``size`` bytes before :attr:`full` is true.

    Memory used before costs half as much as new memory, so rows are copied into the same arrays after every fold.
    """

    def __init__(self, rows: int, size: int) -> None:
        self.most_rows, self.most_bytes = rows, size
        self.batches: list[Batch] = []
        self.rows = self.nbytes = 0
        self._used = 0
        self._arrays: list[Any] = []

    @property
    def full(self) -> bool:
        return self.rows >= self.most_rows or self.nbytes >= self.most_bytes

    def add(self, batch: Batch, owned: bool) -> None:
        """Let a batch wait; it is copied unless it is ``owned`` by nobody else."""
        self.batches.append(batch if owned else self._copied(batch))
        self.rows, self.nbytes = self.rows + len(batch), self.nbytes + batch.nbytes

    def _copied(self, batch: Batch) -> Batch:
        """The same rows, copied, with whatever they carry."""
        weights, groups, keys = (None if a is None else a.copy() for a in (batch.weights, batch.groups, batch.keys))
        batch = replace(batch, weights=weights, groups=groups, keys=keys)
        if not self._arrays and not any(sparse.issparse(p) for p in batch.parts):
            rows = min(self.most_rows, max(1, min(self.most_bytes, MOST) // max(1, batch.nbytes // len(batch))))
            self._arrays = [np.empty((rows, p.shape[1]), p.dtype) for p in batch.parts]
        end = self._used + len(batch)
        fits = [end <= len(a) and a.dtype == p.dtype for a, p in zip(self._arrays, batch.parts, strict=False)]
        if not fits or not all(fits):
            return replace(batch, parts=[p.copy() for p in batch.parts])
        views = [a[self._used : end] for a in self._arrays]
        for view, part in zip(views, batch.parts, strict=True):
            view[...] = part
        self._used = end
        return replace(batch, parts=views)

    def gathered(self) -> list[Batch]:
        """The batches that wait; as a single one, without a copy, if all of them are held here."""
        if self.rows != self._used:
            return self.batches
        return [replace(stack(self.batches), parts=[a[: self._used] for a in self._arrays])]

    def clear(self) -> None:
        self.batches, self.rows, self.nbytes, self._used = [], 0, 0, 0
