"""What changed rows hold now: the rows that the hashes name are read once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.row_hashes import BLOCK
from karat.io.source import ResumePoint, Source
from karat.io.verdict import Changed


def read_changed(source: Source, layout: Layout, changed: Sequence[Changed]) -> tuple[Changed, ...]:
    """The blocks with the values of their changed rows; reading stops after the last of these rows."""
    wanted = {block.row for block in changed if block.row is not None}
    if wanted and source.once:
        raise InputError("A stream comes only once, so changed rows cannot be read again; leave locate out, or use files.")
    found: dict[int, dict[str, Any]] = {}
    first = 0
    layout = layout.among(source.schema()) if wanted else layout
    chunks = source.chunks(layout.columns, layout.numeric, BLOCK, ResumePoint(), strict=not layout.drop) if wanted else ()
    for chunk in chunks:
        rows = chunk.table.num_rows
        for row in sorted(row for row in wanted - found.keys() if first <= row < first + rows):
            one = chunk.table.slice(row - first, 1)
            found[row] = {name: one.column(name)[0].as_py() for name in layout.columns}
        first += rows
        if len(found) == len(wanted):
            break
    return tuple(replace(block, values=found.get(block.row)) if block.row is not None else block for block in changed)
