"""verify_files: the data read again, and a coreset of it proven or refuted.

moments     summed afresh by a sketch, in one pass and bounded memory; the kept rows are measured against them
content     the hashes of all rows against those that were stored: identical, reordered, or changed, and where
kept rows   whether they still are the rows of the data at their indices
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from karat import frames
from karat._construct import Progress
from karat._coreset import Coreset
from karat._files import load
from karat._fingerprint import Fingerprint
from karat._input import Table, read_input
from karat._pieces import Piece
from karat._sketch import Sketch
from karat._verify import measured, proof, shared_groups
from karat.engine.build import Reduction, settle
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.io._content import Content, joined
from karat.io._provenance import feature_columns, short_names
from karat.io._rows import Layout
from karat.io._run import MEMORY, Run, fold_rows
from karat.io._source import Batch, Place, Source, open_source
from karat.io._verdict import FileVerification, compare
from karat.io._whole import in_views, lengths
from karat.problems.latent import Latent

ROWS = 2**17  # at a time, where rows are only collected


def verify_files(
    core: Coreset | str | Path,
    source: Any = None,
    target: str | Sequence[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    key: str | None = None,
    pipeline: Any = None,
    on_missing: Literal["error", "drop"] | None = None,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> FileVerification:
    """Read the data of a coreset again, and prove or refute the coreset.

    Parameters
    ----------
    core : Coreset or path
        Or the file that it was saved to.
    source : path, list of paths, or stream, optional
        As in :func:`karat.coreset_files`; by default what the coreset was made from.
    target, columns, sample_weight, groups, key, on_missing
        As in :func:`karat.coreset_files`; by default what the coreset's provenance says.
    pipeline : fitted transformer
        Needed if the coreset was made with one, which is not saved.
    memory : int
        Bytes beside the interpreter that the run may use.
    progress : callable, optional
        Called with (bytes done, bytes in all) after every batch.

    Returns
    -------
    FileVerification
        Not ``ok`` if a moment differs, if the kept rows are not in the data, or if any row has changed.
    """
    core = core if isinstance(core, Coreset) else load(core)
    if hasattr(core.problem, "transform"):
        raise InputError("A coreset of transformed columns is verified in memory, by core.verify(X, y).")
    known = core.provenance or {}
    roles = known.get("roles") or {}
    parts = known.get("merged") or [known]
    if source is None:
        source = [path for part in parts for path in (part or {}).get("source", {}).get("given", [])]
        if not source:
            raise InputError("The coreset does not say what it was made from; pass the source.")
    if pipeline is None and known.get("pipeline"):
        raise InputError(
            f"The coreset was made with a pipeline ({known['pipeline']}), which is not saved; pass it as pipeline=."
        )
    target = target if target is not None else known.get("target")
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    named = columns if columns is not None else known.get("columns") or _own_names(core)
    group = groups or roles.get("group")
    layout = Layout(
        tuple(feature_columns(named)), targets, sample_weight or roles.get("weight"), group or roles.get("sequence"),
        key or roles.get("key"), pipeline, (on_missing or known.get("on_missing")) == "drop",
    )  # fmt: skip
    if (core.groups is None) != (group is None):
        raise InputError(
            f"The coreset has {'no ' if core.groups is None else ''}groups; name their column, or none, in groups=."
        )
    stored = joined([(part or {}).get("content") for part in parts])
    if stored is not None and stored["columns"] != sorted(layout.columns):
        stored = None
    opened = open_source(source, ROWS)
    layout.check(opened.schema())
    content = Content(layout.columns, layout.gaps, [] if stored is None else stored["parts"][:-1])
    check = _latent if isinstance(core.problem, Latent) else _mergeable
    return check(core, opened, layout, content, stored, memory, progress)


def _own_names(core: Coreset) -> list[str]:
    if not frames.is_frame(core.X):
        raise InputError("The coreset does not say what its columns are called in the data; name them in columns=.")
    return list(frames.columns_of(core.X))


def _mergeable(
    core: Coreset, source: Source, layout: Layout, content: Content, stored: dict[str, Any] | None, memory: int,
    progress: Progress | None,
) -> FileVerification:  # fmt: skip
    start = time.perf_counter()
    own = read_input(core.X, core.y, core.problem, core.weights, core.groups, unit=1.0)
    sketch = _Watching(core, own, layout.key)
    sketch.buffer_rows = fold_rows(core.problem, layout, memory, None)
    run = Run(source, layout, sketch, None, progress, content)
    run.scan()
    sketch._fold()
    if sketch._held is None:
        raise InputError("The data has no row of positive weight.")
    if (own.columns, own.targets) != (sketch._columns, sketch._targets):
        raise InputError(
            f"The coreset has {own.columns} columns and {own.targets} targets, the data has {sketch._columns} and "
            f"{sketch._targets}."
        )
    labels, notes = shared_groups(core, list(sketch._running))
    reductions = [_group(core, sketch, own, label) for label in labels]
    total = sum(float((r.high[-1] + r.low[-1])[0]) for r in sketch._running.values())
    data, changed = compare(stored, content, short_names(source.names), run.counts)
    refuted = bool(notes)
    if sketch.moved and data != "reordered":
        notes.append("The kept rows are not the rows of this data at the stored indices.")
        refuted = True
    if core.n_rows != sketch.n_rows:
        notes.append(f"The coreset stands for {core.n_rows:,} rows, the data has {sketch.n_rows:,}.")
    certificate = proof(core, reductions, total, sketch.n_rows, start, notes, refuted)
    return FileVerification(certificate, data, changed, tuple(sorted(sketch.moved)))


def _group(core: Coreset, sketch: Sketch, own: Table, label: Any) -> Reduction:
    """The coreset against the running moments of one group; the rows that the sketch holds stand for the others."""
    held, running = sketch._held, sketch._running[label]
    assert held is not None
    rows = held.rows(None if label is None else np.flatnonzero(held.groups == label))
    settled, off = running.settle(), running.inherited
    if settled.again or core._correction is not None:  # the moments of the rows held, which are off by their gap
        off += running.gap
    if settled.again:
        settled, _ = settle(rows, core.problem.kernel(sketch._columns, sketch._targets), np.arange(len(rows)))
    found = measured(core, rows, settled, own.rows(label), 1)
    return replace(found, gap=found.gap + off)


class _Watching(Sketch):
    """A sketch that also looks whether the rows of a coreset are among those it takes, under their numbers."""

    def __init__(self, core: Coreset, own: Table, key: str | None) -> None:
        super().__init__(core.problem, key)
        self._watches_keys = False  # a key that comes twice is a change, not an error
        self.core, self.own = core, own
        self.moved = set(core.indices.tolist())

    def _take(self, piece: Piece, *, owned: bool, seen: Fingerprint | None = None) -> None:
        wanted = np.arange(*np.searchsorted(self.core.indices, [piece.numbers[0], piece.numbers[-1] + 1]))
        place = np.searchsorted(piece.numbers, self.core.indices[wanted])
        there = piece.numbers[place] == self.core.indices[wanted]  # it may have been left out
        wanted, place = wanted[there], place[there]
        if len(wanted):
            found = piece.take(place)
            same = np.ones(len(wanted), dtype=bool)
            for mine, theirs in zip((self.own.X, self.own.y), self._split(found), strict=True):
                if mine is not None:
                    same &= (_dense(mine[wanted]) == _dense(theirs)).all(axis=1)
            for labels, theirs in ((self.core.groups, found.groups), (self.core.keys, found.keys)):
                if labels is not None and theirs is not None:
                    same &= labels[wanted] == theirs
            self.moved -= set(self.core.indices[wanted[same]].tolist())
        super()._take(piece, owned=owned, seen=seen)


def _where(source: Source, batch: Batch, row: int) -> str:
    return source.where(batch.file, batch.start + row)


def _dense(block: Any) -> Array:
    return np.asarray(block.toarray() if sparse.issparse(block) else block)


def _latent(
    core: Coreset, source: Source, layout: Layout, content: Content, stored: dict[str, Any] | None, memory: int,
    progress: Progress | None,
) -> FileVerification:  # fmt: skip
    """Problems whose features depend on the full data: all rows in memory, if they fit."""
    pieces: list[Piece] = []
    counts: dict[int, int] = {}
    for batch in source.batches(layout.columns, layout.numeric, ROWS, Place(), strict=not layout.drop):
        piece, _ = layout.piece(batch.table, content.rows, partial(_where, source, batch))
        content.add(batch.table)
        pieces.append(piece)
        counts[batch.file] = counts.get(batch.file, 0) + batch.table.num_rows
        if 4 * 8 * len(layout.features) * content.rows > memory:
            raise InputError(
                f"{core.problem.describe()} needs all rows in memory to be verified, and they do not fit in "
                f"memory={memory:,}; allow more."
            )
        if progress is not None and batch.end is not None:
            progress(*source.share(batch.end))
    if not pieces:
        raise InputError("The data has no row.")
    X = np.concatenate([_dense(p.block(0, len(layout.features))) for p in pieces])
    weights = None if layout.weight is None else np.concatenate([p.weights for p in pieces if p.weights is not None])
    places = np.searchsorted(np.concatenate([p.numbers for p in pieces]), core.indices)  # rows that were left out do not count
    certificate = replace(core, indices=places).verify(in_views(core, X), sample_weight=weights, lengths=lengths(pieces))
    data, changed = compare(stored, content, short_names(source.names), counts)
    return FileVerification(certificate, data, changed, ())
