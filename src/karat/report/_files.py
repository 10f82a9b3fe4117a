"""The full data in files, for pictures: passes over batches, of which nothing is held but sums and a sample.

rows     the smallest of random keys, one drawn per row: a uniform sample of a source whose length is not known before
moments  the running sums of :mod:`karat.engine.stream`, in coordinates fitted to the kept rows
columns  sums and sums of squares, shifted by the means of the kept rows
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from karat._core.coreset import Coreset
from karat._data.checks import read_input
from karat.engine.linalg import Array
from karat.engine.reduce import NonFiniteError
from karat.engine.rows import Progress, Rows
from karat.engine.stream import Running
from karat.errors import InputError
from karat.io import verify_files
from karat.io.read_all import layout_of, pieces, whole
from karat.io.sample import sample_rows
from karat.report._data import Data, MemoryData, measured_facts
from karat.report._moments import ColumnMatch, MomentMatch, column_sums, match, match_columns

ROUNDS = 3  # passes until the coordinates fit; one is enough for the data that the coreset was made from


class _Seen(NamedTuple):
    columns: Array
    moments: MomentMatch


class FileData(Data):
    """Files that a coreset was made from, or others with the same columns."""

    def __init__(self, core: Coreset, source: Any, size: int, seed: int, progress: Progress | None) -> None:
        self.core, self.source, self.size, self.seed, self.progress = core, source, size, seed, progress
        own = read_input(core.X, core.y, core.problem, core.weights, None, unit=1.0)  # that of the rows as they are read
        self.kernel, self.kept = own.kernel(core.problem), own.rows()
        self.offsets, self.origin = own.offsets, own.origin
        self.shift = np.average(self._block[:, 1:], axis=0, weights=core.weights)

    @property
    def _block(self) -> Array:
        return self.kept.take(np.arange(len(self.kept)), np.zeros(self.kept.columns))

    @cached_property
    def _seen(self) -> _Seen:
        """What one pass shows; another follows if the data is so unlike the kept rows that their coordinates do not fit."""
        kernel = Running.fit(self.kernel, self._block, self.core.weights)
        for _ in range(ROUNDS):
            running = Running.within(kernel, self._block, self.core.weights).emptied()
            columns = np.zeros((3, self.kept.columns))
            for piece in pieces(self.core, self.source, self.progress):
                rows = Rows(piece.parts, piece.weights, offsets=self.offsets)
                if rows.columns != self.kept.columns:
                    raise InputError(f"The coreset has {self.kept.columns} columns, the data {rows.columns}.")
                try:
                    running = running.plus(rows)
                except NonFiniteError:
                    raise InputError("The data has values so large that their powers overflow; rescale the columns.") from None
                columns += column_sums(rows, self.shift)
            fitted = running.fitted_moments()
            if not fitted.needs_pass:
                break
            kernel = fitted.kernel
        return _Seen(columns, match(fitted, self.kept))

    def sample(self) -> Array:
        layout = layout_of(self.core)
        table, _ = sample_rows(self.source, layout.columns, self.size, self.seed)
        piece, _ = layout.piece(table, 0, lambda row: f"row {row} of a sample")
        rows = Rows(piece.parts)
        return rows.take(np.arange(len(rows)), np.zeros(rows.columns))[:, 1:]

    def moments(self) -> MomentMatch | None:
        return None if self.core.absorbed is not None else self._seen.moments

    def columns(self) -> ColumnMatch:
        return match_columns(self._seen.columns, column_sums(self.kept, self.shift), self.shift + self.origin)

    def verify(self) -> dict[str, Any]:
        return _verified(self.core, self.source, self.progress)


class LatentFiles(MemoryData):
    """Files of a latent-variable model, whose maps are made afresh from all rows at once: they are read into memory."""

    def __init__(self, core: Coreset, source: Any, size: int, seed: int, progress: Progress | None) -> None:
        rows = whole(core, source)
        super().__init__(core, rows.X, None, rows.weights, None, rows.lengths, size, seed)
        self.source, self.progress = source, progress

    def verify(self) -> dict[str, Any]:
        return _verified(self.core, self.source, self.progress)


def _verified(core: Coreset, source: Any, progress: Progress | None) -> dict[str, Any]:
    found = verify_files(core, source, progress=progress)
    return measured_facts(found.certificate, found.ok, found.data, [str(block) for block in found.changed], len(found.columns))
