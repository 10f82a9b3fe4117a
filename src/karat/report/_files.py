"""The full data in files, for pictures: one pass over batches, of which nothing is held but sums and a few rows.

rows     the smallest of random keys, one drawn per row: a uniform sample of a source whose length is not known before
moments  the running sums of :mod:`karat.engine.stream`, in coordinates fitted to the kept rows
columns  sums and sums of squares, shifted by the means of the kept rows
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from karat._certificate import Certificate
from karat._construct import kernel_of
from karat._coreset import Coreset
from karat._input import read_input
from karat.engine.build import NonFiniteError
from karat.engine.linalg import Array
from karat.engine.moments import Progress
from karat.engine.rows import Rows
from karat.engine.stream import Running
from karat.errors import InputError
from karat.io._whole import pieces
from karat.report._data import Data
from karat.report._moments import ColumnMatch, MomentMatch, column_sums, match, match_columns

ROUNDS = 3  # passes until the coordinates fit; one is enough for the data that the coreset was made from


class Reservoir:
    """A uniform sample of rows that come in batches."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.rng = size, np.random.default_rng(seed)
        self.keys, self.rows = np.empty(0), np.empty((0, 0))

    def add(self, batch: Rows) -> None:
        """Let every row of a batch draw a key; the smallest stay."""
        keys = self.rng.random(len(batch))
        least = np.inf if len(self.keys) < self.size else self.keys.max()
        new = np.flatnonzero(keys < least)
        taken = batch.take(new, np.zeros(batch.columns))[:, 1:]
        keys = np.concatenate([self.keys, keys[new]])
        rows = np.concatenate([self.rows.reshape(-1, batch.columns), taken])
        few = np.argsort(keys, kind="stable")[: self.size]
        self.keys, self.rows = keys[few], rows[few]


class _Seen(NamedTuple):
    sample: Array
    columns: Array
    moments: MomentMatch


class FileData(Data):
    """Files that a coreset was made from, or others with the same columns."""

    def __init__(self, core: Coreset, source: Any, size: int, seed: int, progress: Progress | None) -> None:
        self.core, self.source, self.size, self.seed, self.progress = core, source, size, seed, progress
        own = read_input(core.X, core.y, core.problem, core.weights, None)
        self.kernel, self.kept = kernel_of(core.problem, own), own.rows()
        self.shift = np.average(self._block[:, 1:], axis=0, weights=core.weights)

    @property
    def _block(self) -> Array:
        return self.kept.take(np.arange(len(self.kept)), np.zeros(self.kept.columns))

    @cached_property
    def _seen(self) -> _Seen:
        """What one pass shows; another follows if the data is so unlike the kept rows that their coordinates do not fit."""
        fitted = Running.fit(self.kernel, self._block, self.core.weights)
        for _ in range(ROUNDS):
            sums = (*fitted.statistic(self._block - np.concatenate([[0.0], fitted.shift]), self.core.weights), np.zeros(1))
            nothing = tuple(np.zeros_like(part) for part in sums)
            running = Running(fitted, self._block, self.core.weights, nothing, nothing, 0.0)
            sample, columns = Reservoir(self.size, self.seed), np.zeros((3, self.kept.columns))
            for piece in pieces(self.core, self.source, self.progress):
                rows = Rows(piece.parts, piece.weights)
                if rows.columns != self.kept.columns:
                    raise InputError(f"The coreset has {self.kept.columns} columns, the data {rows.columns}.")
                try:
                    running = running.plus(rows)
                except NonFiniteError:
                    raise InputError("The data has values so large that their powers overflow; rescale the columns.") from None
                columns += column_sums(rows, self.shift)
                sample.add(rows)
            settled = running.settle()
            if not settled.again:
                break
            fitted = settled.kernel
        return _Seen(sample.rows, columns, match(settled, self.kept))

    def sample(self) -> Array:
        return self._seen.sample

    def moments(self) -> MomentMatch | None:
        return None if self.core._correction is not None else self._seen.moments

    def columns(self) -> ColumnMatch:
        return match_columns(self._seen.columns, column_sums(self.kept, self.shift), self.shift)

    def verify(self) -> Certificate:
        raise NotImplementedError
