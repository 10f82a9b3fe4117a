"""The pass that learns an encoding: the levels and means of all rows, which the checkpoint stores.

A run that was killed resumes with what its checkpoint holds, and does not read the data for it
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path

import numpy as np
import pyarrow as pa

from karat.data.batch import Batch
from karat.engine.rows import Progress
from karat.errors import InputError
from karat.io.encoding import Encoding, level_text
from karat.io.layout import Layout
from karat.io.row_hashes import Hashes, RowHashes, Seen, seen_rows
from karat.io.scan import LearnLevels, require_rows, scan
from karat.io.source import Chunk, ResumePoint, Source
from karat.storage.archive import read_archive
from karat.stream.state import validate_schema


def learned(
    source: Source,
    layout: Layout,
    encoding: Encoding,
    rows: int,
    checkpoint: str | Path | None,
    progress: Progress | None,
) -> tuple[Layout, Progress | None, Seen]:
    """The layout with the encoding of all rows, the progress of the passes that follow, and which
    rows they must read again.
    """
    if source.once:
        raise InputError(
            "one_hot and on_missing='mean' read the data twice, and a stream can be read only once."
            " Write it to files."
        )
    stored = _stored(checkpoint, encoding)
    if stored is not None:
        return replace(layout, encoding=stored[0]), progress, stored[1]
    learn = LearnEncoding(encoding, layout.roles.features)
    first = None if progress is None else lambda done, total: progress(done, 2 * total)
    hashes = Hashes(RowHashes(layout.columns, layout.gaps))
    require_rows(source, layout, scan(source, layout, [hashes, learn], rows, progress=first))
    encoding = learn.learned()
    encoding.names(layout.roles.features)  # raises if two columns have the same name
    whole = source.bytes_done(ResumePoint(len(source.names)))[1] if progress is not None else 0
    later = None if progress is None else lambda done, total: progress(whole + done, whole + total)
    return replace(layout, encoding=encoding), later, seen_rows(hashes.rows)


def _stored(checkpoint: str | Path | None, asked: Encoding) -> tuple[Encoding, Seen] | None:
    """The encoding that the checkpoint of the same call has learned, and from which rows.

    A checkpoint of another call is not an error here: the checkpoint itself says what differs.
    """
    if checkpoint is None or not Path(checkpoint).exists():
        return None
    header, _ = read_archive(Path(checkpoint), "a checkpoint", validate_schema)
    call = header.get("extra", {}).get("call", {})
    if not isinstance(call, dict) or "learned_rows" not in call:
        return None
    stored, (count, first, second) = Encoding.read(call.get("encoding")), call["learned_rows"]
    if stored is None or (stored.columns, stored.fill) != (asked.columns, asked.fill):
        return None
    return replace(stored, lenient=False), (count, first, second)


class LearnEncoding(LearnLevels):
    """Collects the levels of the used rows, and sums for their means."""

    def __init__(self, encoding: Encoding, features: Sequence[str]) -> None:
        self.encoding = encoding
        self.places = {name: i for i, name in enumerate(features) if name not in encoding.columns}
        self.levels = {name: set() for name in encoding.columns}
        self.sums: dict[str, list[tuple[float, float]]] = {name: [] for name in self.places}
        self.rows = 0

    def add(self, chunk: Chunk, batch: Batch) -> None:
        where = pa.array(batch.numbers - self.rows)
        self.rows += chunk.table.num_rows
        for name in self.levels:
            text = level_text(chunk.table.column(name)).take(where)
            self.add_levels("column", name, text, "leave it out, or join rare levels first")
        if self.encoding.fill:
            for name, place in self.places.items():
                self.sums[name].append(_weighted_sum(batch.parts[place][:, 0], batch.weights))

    def learned(self) -> Encoding:
        """The encoding of all rows."""
        means = {name: _mean(name, sums) for name, sums in self.sums.items() if self.encoding.fill}
        levels = {name: tuple(sorted(values, key=_order)) for name, values in self.levels.items()}
        return replace(self.encoding, levels=levels, means=means)


def _weighted_sum(values: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Total weight, and weighted sum, of the values that are there."""
    there = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), dtype=bool)
    mass = there.astype(float) if weights is None else np.where(there, weights, 0.0)
    return float(mass.sum()), float((np.where(there, values, 0) * mass).sum())


def _mean(name: str, sums: Sequence[tuple[float, float]]) -> float:
    total = fsum(mass for mass, _ in sums)
    if not total > 0:
        raise InputError(
            f"Column {name!r} has no values, so it has no mean; leave it out.",
            column=name,
        )
    return fsum(value for _, value in sums) / total


def _order(level: str | None) -> tuple[int, float, str]:
    """Numbers by size, then text, then the missing level."""
    if level is None:
        return 2, 0.0, ""
    try:
        return 0, float(level), level
    except ValueError:
        return 1, 0.0, level
