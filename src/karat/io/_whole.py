"""All rows of files in memory, for training on them what was trained on a coreset: the same columns, the same rows left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from karat._construct import Progress
from karat._coreset import Coreset
from karat._pieces import Piece
from karat._plan import FOLD
from karat.errors import InputError
from karat.io._rows import Layout
from karat.io._source import Batch, Place, Source, open_source


class Whole(NamedTuple):
    """The numbers of all rows; y has one dimension if there is one target."""

    X: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray | None


def whole(core: Coreset, source: Any) -> Whole:
    """The rows that a coreset of files was made from, read again as its provenance says."""
    blocks: list[np.ndarray] = []
    weights: list[Any] = []
    for piece in pieces(core, source):
        blocks.append(np.column_stack([np.asarray(part, dtype=float) for part in piece.parts]))
        weights.append(piece.weights)
    if not blocks:
        raise InputError(f"{source} has no rows.")
    layout = layout_of(core)
    table, d = np.concatenate(blocks), len(layout.features)
    targets = table[:, d] if len(layout.targets) == 1 else table[:, d:] if layout.targets else None
    return Whole(table[:, :d], targets, None if layout.weight is None else np.concatenate(weights))


def pieces(core: Coreset, source: Any, progress: Progress | None = None) -> Iterator[Piece]:
    """The rows that a coreset of files was made from, batch by batch, read again as its provenance says."""
    layout = layout_of(core)
    opened = open_source(source, FOLD)
    layout.check(opened.schema())
    for batch in opened.batches(layout.columns, layout.numeric, FOLD, Place(), strict=not layout.drop):
        yield layout.piece(batch.table, 0, partial(_where, opened, batch))[0]
        if progress is not None and batch.end is not None:
            progress(*opened.share(batch.end))


def _where(source: Source, batch: Batch, row: int) -> str:
    return source.where(batch.file, batch.start + row)


def layout_of(core: Coreset) -> Layout:
    """Which columns of its files a coreset was made from."""
    origin = core.provenance or {}
    if not {"columns", "target", "roles", "on_missing"} <= origin.keys() or origin.get("pipeline") is not None:
        raise InputError(
            "The coreset does not say from which columns of files it was made, so it cannot be compared with them; build it "
            "with karat.coreset_files or karat build."
        )
    target = origin["target"]
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    return Layout(
        tuple(origin["columns"]), targets, origin["roles"]["weight"], None, None, None, origin["on_missing"] == "drop"
    )
