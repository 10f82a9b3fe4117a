"""verify_files: the data read again, and a coreset of it proven or refuted.

moments     summed afresh in coordinates of the kept rows, which are measured against them: one pass in bounded memory
content     the hashes of all rows against those that were stored: identical, reordered, or changed, and where
kept rows   whether they still are the rows of the data at their indices
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from karat._core.certify import about_means, certify_again, measure_again
from karat._core.construct import Progress
from karat._core.coreset import Coreset
from karat._core.files import load
from karat._core.verify import shared_groups
from karat._data import containers, frames
from karat._data.batch import Piece
from karat._data.checks import OTHER_ROWS, read_input
from karat.engine.kernel import FittedMoments
from karat.engine.reduce import Reduction, better, fit_moments
from karat.engine.rows import Rows
from karat.errors import InputError, NotExactError
from karat.io.build import MEMORY, Run, fold_rows
from karat.io.layout import Layout
from karat.io.provenance import feature_columns, short_names
from karat.io.read_all import in_views, lengths, own_targets
from karat.io.row_hashes import Content, joined
from karat.io.source import Batch, Place, Source, open_source
from karat.io.verdict import FileVerification, compare
from karat.io.watching import Watching, all_present, dense, own_coordinates
from karat.problems.latent import Latent

ROWS = 2**17  # at a time, where rows are only collected
ROUNDS = 3  # passes until the coordinates fit; one is enough for the data that the coreset was made from


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
    if core.problem.transform is not None:
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
    target = target if target is not None else known.get("target") or own_targets(core)
    if target is None and core.y is not None:
        raise InputError(
            "The coreset does not say what its target is called in the data.", "Name it in target=.", argument="target"
        )
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
    if not containers.is_frame(core.X):
        raise InputError(
            "The coreset does not say what its columns are called in the data.", "Name them in columns=.", argument="columns"
        )
    return list(frames.columns_of(core.X))


def _mergeable(
    core: Coreset, source: Source, layout: Layout, content: Content, stored: dict[str, Any] | None, memory: int,
    progress: Progress | None,
) -> FileVerification:  # fmt: skip
    start = time.perf_counter()
    own = read_input(core.X, core.y, core.problem, core.weights, core.groups, unit=1.0)
    again = source.identity() and not core.absorbed  # else the rows of a sketch have to stand for those read
    alone = np.zeros(len(core), dtype=bool)
    if again and core.certificate.peeled and layout.weight is None:  # kept as they are, they cancel identically
        alone = core.weights == 1.0

    def rest(label: Any) -> Rows:
        """The other kept rows of a group."""
        among = own.index(label)
        return own.rows(label).subset(np.flatnonzero(~(alone if among is None else alone[among])))

    coordinates = own_coordinates(core, own, rest) if again else None

    def scan(hashes: Content | None) -> tuple[Watching, Run]:
        """A pass over the data, in the present coordinates."""
        sketch = Watching(core, own, layout.key, coordinates, core.indices[alone])
        sketch.buffer_rows = fold_rows(core.problem, layout, memory, None)
        run = Run(source, layout, sketch, None, progress, hashes)
        run.scan()
        sketch._fold()
        return sketch, run

    hashes: Content | None = content
    passes = 0
    while True:
        passes += 1
        sketch, run = scan(hashes)
        poor = {
            label: sums.kernel for label, running in sketch._running.items() if (sums := running.fitted_moments()).needs_pass
        }
        if coordinates is None or not poor or passes == ROUNDS:
            break
        coordinates, hashes = coordinates | poor, None
    totals = {label: running.total for label, running in sketch._running.items()}
    if not any(totals.values()) and not sketch.strange:
        raise InputError("The data has no row of positive weight.")
    labels, notes = shared_groups(core, [*(label for label, total in totals.items() if total), *sketch.strange])
    reductions = [_group(core, sketch, rest(label), label, passes, layout) for label in labels]
    centred = {
        label: kernel for label, found in zip(labels, reductions, strict=True) if (kernel := about_means(found)) is not None
    }
    if coordinates is not None and centred:
        coordinates = coordinates | centred
        afresh = scan(None)[0]._running
        for i, label in enumerate(labels):
            if label in centred:
                fitted = afresh[label].fitted_moments(last=True)
                reductions[i] = better(reductions[i], _summed(core, fitted, rest(label), passes + 1, layout))
    data, changed = compare(stored, content, short_names(source.names), run.counts)
    if sketch.moved and (data != "reordered" or (again and not all_present(own, _read(source, layout)))):
        notes.append(OTHER_ROWS)
    if core.n_rows != sketch.n_rows:
        notes.append(f"The coreset was made of {core.n_rows:,} rows, the data has {sketch.n_rows:,}.")
    seconds = time.perf_counter() - start
    certificate = certify_again(core, reductions, sum(totals.values()), sketch.n_rows, seconds, notes)
    return FileVerification(certificate, data, changed, tuple(sorted(sketch.moved)), tuple(content.columns))


def _group(core: Coreset, sketch: Watching, kept: Rows, label: Any, passes: int, layout: Layout) -> Reduction:
    """The coreset against the moments of one group of the data."""
    running = sketch._running[label]
    fitted, held = running.fitted_moments(), sketch._held
    if held is None:
        if fitted.needs_pass:
            raise NotExactError(
                "The moments of this data cannot be summed accurately; it is nothing like the kept rows, or needs scaling."
            )
        return _summed(core, fitted, kept, passes, layout)
    # The rows that a sketch holds stand for the others, and are off by what they claim.
    reduction = sketch._reduction(label)
    rows = held.rows(None if label is None else np.flatnonzero(held.groups == label))
    if fitted.needs_pass or core.absorbed or reduction.peeled.any():
        fitted, _ = fit_moments(rows, core.problem.kernel(sketch._columns, sketch._targets), np.arange(len(rows)))
        found = measure_again(core, rows, fitted, kept, passes)
        return replace(found, inherited=reduction.error, before=found.before + reduction.spent)
    found = _summed(core, fitted, kept, passes, layout)
    return replace(found, inherited=running.inherited, before=found.before + running.spent)


def _summed(core: Coreset, fitted: FittedMoments, kept: Rows, passes: int, layout: Layout) -> Reduction:
    """Kept rows against moments of rows that are not there any more."""
    return measure_again(core, None, fitted, kept, passes, witnesses=unweighted(kept, layout))


def unweighted(kept: Rows, layout: Layout) -> Rows | None:
    """The kept rows as witnesses, which count once each; None where they had weights of their own."""
    return (
        None if layout.weight is not None else Rows(kept.parts, np.ones(len(kept)) if kept.index is None else None, kept.index)
    )


def _read(source: Source, layout: Layout) -> Iterator[Piece]:
    for batch in source.batches(layout.columns, layout.numeric, ROWS, Place(), strict=not layout.drop):
        yield layout.piece(batch.table, 0, partial(_where, source, batch))[0]


def _where(source: Source, batch: Batch, row: int) -> str:
    return source.where(batch.file, batch.start + row)


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
                f"{core.problem.describe()} needs all rows in memory to be verified, and they do not fit into {memory:,} "
                "bytes; allow more memory."
            )
        if progress is not None and batch.end is not None:
            progress(*source.share(batch.end))
    if not pieces:
        raise InputError("The data has no row.")
    X = np.concatenate([dense(p.block(0, len(layout.features))) for p in pieces])
    weights = None if layout.weight is None else np.concatenate([p.weights for p in pieces if p.weights is not None])
    places = np.searchsorted(np.concatenate([p.numbers for p in pieces]), core.indices)  # rows that were left out do not count
    certificate = replace(core, indices=places).verify(in_views(core, X), sample_weight=weights, lengths=lengths(pieces))
    data, changed = compare(stored, content, short_names(source.names), counts)
    return FileVerification(certificate, data, changed, (), tuple(content.columns))
