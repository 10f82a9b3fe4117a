"""A uniform sample of rows in files, in one pass: every row draws a number, and the rows with the smallest stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from karat.errors import InputError, check_whole
from karat.io.source import Place, open_source

ROWS = 2**17  # at a time


def sample_rows(source: Any, columns: Sequence[str] | None, count: int, seed: int = 0) -> tuple[pa.Table, np.ndarray]:
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
    check_whole("count", count)
    opened = open_source(source, ROWS)
    schema = opened.schema()
    columns = list(schema.names if columns is None else columns)
    rng = np.random.default_rng(seed)
    kept = pa.table({})
    numbers, draws = np.empty(0, dtype=np.int64), np.empty(0)
    first = 0
    for batch in opened.batches(columns, (), ROWS, Place(), strict=False):
        table = pa.Table.from_batches([batch.table]) if isinstance(batch.table, pa.RecordBatch) else batch.table
        drawn = rng.random(table.num_rows)
        few = np.flatnonzero(drawn < (draws.max() if len(draws) == count else 1.0))
        chosen = table.select(columns).take(pa.array(few))
        kept = chosen if first == 0 else pa.concat_tables([kept, chosen], promote_options="permissive")
        numbers, draws = np.concatenate([numbers, first + few]), np.concatenate([draws, drawn[few]])
        if len(draws) > count:
            stay = np.sort(np.argpartition(draws, count - 1)[:count])
            kept, numbers, draws = kept.take(pa.array(stay)), numbers[stay], draws[stay]
        first += table.num_rows
    if not first:
        raise InputError("The source has no rows.")
    return kept, numbers
