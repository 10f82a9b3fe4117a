"""A uniform sample of rows in files, in one pass: every row draws a number, and the rows with the
smallest stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from karat.errors import InputError, check_integer
from karat.io.consumers import BottomKSample
from karat.io.find import open_source
from karat.io.source import ResumePoint

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
        The sample depends on it and on the rows' numbers alone.

    Returns
    -------
    rows : pyarrow.Table
        In the order of the source.
    numbers : int64 array
        Their numbers, as in ``core.indices``.
    """
    check_integer("count", count)
    opened = open_source(source, rows=ROWS)
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
