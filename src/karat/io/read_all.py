"""All rows of files in memory, for training on them what was trained on a coreset: the same columns, the same rows left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from karat._core.construct import Progress
from karat._core.coreset import Coreset
from karat._core.plan import FOLD
from karat._data import containers, frames
from karat._data.batch import Piece
from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.provenance import feature_columns
from karat.io.source import Batch, Place, Source, open_source


class Whole(NamedTuple):
    """All rows, as :func:`karat.coreset` takes them: X is a tuple where there are views, y one-dimensional for one target."""

    X: Any
    y: np.ndarray | None
    weights: np.ndarray | None
    lengths: np.ndarray | None


def whole(core: Coreset, source: Any) -> Whole:
    """The rows that a coreset of files was made from, read again as its provenance says."""
    layout = layout_of(core)
    read = list(pieces(core, source))
    if not read:
        raise InputError(f"{source} has no rows.")
    table, d = np.concatenate([numbers(piece) for piece in read]), len(layout.features)
    targets = table[:, d] if len(layout.targets) == 1 else table[:, d:] if layout.targets else None
    weights = None if layout.weight is None else np.concatenate([np.asarray(piece.weights) for piece in read])
    return Whole(in_views(core, table[:, :d]), targets, weights, lengths(read))


def numbers(piece: Piece) -> np.ndarray:
    """The columns of a piece side by side."""
    return np.column_stack([np.asarray(part, dtype=float) for part in piece.parts])


def in_views(core: Coreset, table: np.ndarray) -> Any:
    """The table, or its three views if the coreset was made of views."""
    widths = [len(view) for view in (core.provenance or {}).get("columns", []) if not isinstance(view, str)]
    return tuple(np.split(table, np.cumsum(widths)[:-1], axis=1)) if widths else table


def lengths(read: Sequence[Piece]) -> np.ndarray | None:
    """Lengths of the sequences of which the pieces name one for each row; None if they do not."""
    if not read or read[0].groups is None:
        return None
    labels = np.concatenate([np.asarray(piece.groups) for piece in read])
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    return np.diff(np.append(starts, len(labels)))


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


def in_memory(core: Coreset) -> dict[str, Any]:
    """What a coreset of frames says about its columns, as provenance; nothing where weights, lengths or names are not known."""
    targets = own_targets(core)
    weighted = core.maps is not None or not np.isclose(core.weights.sum(), core.n_rows)
    if weighted or not containers.is_frame(core.X) or (core.y is not None and targets is None):
        return {}
    columns = list(frames.columns_of(core.X))
    return {"columns": columns, "target": targets, "roles": {"weight": None}, "on_missing": "error"}


def own_targets(core: Coreset) -> list[str] | None:
    """The names that the targets of a coreset have by themselves; None if there are none."""
    names = list(frames.columns_of(core.y)) if containers.is_frame(core.y) else []
    return names if names and not {"", "None"} & set(names) else None


def layout_of(core: Coreset) -> Layout:
    """Which columns of its files a coreset was made from."""
    origin = core.provenance or in_memory(core)
    if not {"columns", "target", "roles", "on_missing"} <= origin.keys() or origin.get("pipeline") is not None:
        raise InputError(
            "The coreset does not say from which columns of files it was made, so it cannot be compared with them; build it "
            "with karat.coreset_files or karat build."
        )
    target = origin["target"]
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    return Layout(
        tuple(feature_columns(origin["columns"])), targets, origin["roles"]["weight"], origin["roles"].get("sequence"), None,
        None, origin["on_missing"] == "drop",
    )  # fmt: skip
