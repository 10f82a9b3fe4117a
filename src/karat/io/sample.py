"""A uniform sample of rows in one pass: every row draws a number, and the rows with the smallest
numbers stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from karat.data.batch import Batch
from karat.engine.linalg import Indices
from karat.engine.rows import Rows
from karat.errors import InputError, check_integer
from karat.io.find import open_source
from karat.io.scan import Consumer
from karat.io.source import Chunk, ResumePoint

ROWS = 2**17  # at a time


def sample_rows(
    source: Any, columns: Sequence[str] | None, count: int, seed: int = 0
) -> tuple[pa.Table, np.ndarray]:
    """A uniform sample of rows without replacement, in bounded memory.

    Parameters
    ----------
    source : path, list of paths, or stream
        As in :func:`karat.coreset_files`.
    columns : list of str or None
        The columns to read; None means all.
    count : int
        How many rows; all, if there are fewer.
    seed : int
        The sample depends on the seed and on the row numbers alone.

    Returns
    -------
    rows : pyarrow.Table
        In the order of the source.
    numbers : int64 array
        Their numbers, as in ``core.indices``.
    """
    check_integer("count", count)
    opened = open_source(source, rows=ROWS)
    opened.whole = columns is None
    columns = list(opened.schema().names if columns is None else columns)
    draws, kept = BottomKSample(int(count), seed), None
    numbers, first = np.empty(0, dtype=np.int64), 0
    for chunk in opened.chunks(columns, None, ROWS, ResumePoint(), strict=False):
        table = (
            pa.Table.from_batches([chunk.table])
            if isinstance(chunk.table, pa.RecordBatch)
            else chunk.table
        )
        new, stay = draws.more(table.num_rows)
        chosen = table.select(columns).take(pa.array(new))
        kept = (
            chosen
            if kept is None
            else pa.concat_tables([kept, chosen], promote_options="permissive")
        )
        numbers = np.concatenate([numbers, first + new])
        if not isinstance(stay, slice):
            kept, numbers = kept.take(pa.array(stay)), numbers[stay]
        first += table.num_rows
    if kept is None:
        raise InputError("The source has no rows.")
    return kept, numbers


class BottomKSample:
    """Selects a uniform sample of a source of unknown length: every row draws a number, and the
    rows with the smallest numbers stay.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.rng = count, np.random.default_rng(seed)
        self.drawn = np.empty(0)

    def more(self, rows: int) -> tuple[Indices, Any]:
        """Which of the next rows join those chosen before, and which of both together stay."""
        drawn = self.rng.random(rows)
        new = np.flatnonzero(drawn < (self.drawn.max() if len(self.drawn) == self.count else 1.0))
        self.drawn = np.concatenate([self.drawn, drawn[new]])
        if len(self.drawn) <= self.count:
            return new, slice(None)
        stay = np.sort(np.argpartition(self.drawn, self.count - 1)[: self.count])
        self.drawn = self.drawn[stay]
        return new, stay


class SampleRows(Consumer):
    """A uniform sample of at most ``count`` rows, in ``rows``; ``read`` makes rows of a batch."""

    def __init__(self, count: int, seed: int, read: Callable[[Batch], Rows]) -> None:
        self.draws, self.read = BottomKSample(count, seed), read
        self.rows = np.empty((0, 0))

    def add(self, chunk: Chunk, batch: Batch) -> None:
        new, stay = self.draws.more(len(batch))
        rows = self.read(batch)
        chosen = rows.take(new, np.zeros(rows.columns))[:, 1:]
        self.rows = (np.concatenate([self.rows, chosen]) if len(self.rows) else chosen)[stay]
