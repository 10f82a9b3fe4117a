"""verify_files: read the data again, and prove or refute a coreset of it.

    SumMoments     the moments of all rows, against which the kept rows are measured
    CheckKeptRows  whether the kept rows are still the rows of the data at their indices
    Hashes         the hashes of all rows, compared with the stored ones: identical, reordered, or
                   changed, and where

in one scan and bounded memory.  The maps of a latent-variable problem take a scan of their own
before that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from karat.core.certify import certify_again
from karat.core.coreset import Coreset
from karat.core.provenance import Provenance
from karat.core.synthetic import SYNTHETIC
from karat.core.verify import OTHER_ROWS, centred_kernel, kept_table, measure_again, shared_groups
from karat.core.verify_synthetic import verified
from karat.data.arguments import progress_bar
from karat.data.batch import Table
from karat.engine.claim import Reduction
from karat.engine.kernel import fit_moments
from karat.engine.reduce import better
from karat.engine.rows import Progress, Rows
from karat.errors import InputError, NotExactError, several
from karat.io.build import MEMORY, fold_rows, require_rereadable
from karat.io.content_digest import Digest
from karat.io.find import open_source
from karat.io.layout import Layout
from karat.io.measure import CheckKeptRows, FindAnywhere, SumMoments, SumSecondMoments
from karat.io.read_all import file_layout
from karat.io.row_hashes import Hashes, RowHashes, Seen, joined_hashes, require_same, seen_rows
from karat.io.scan import Consumer, LatentSums, Position, Reduce, changed_file, require_rows, scan
from karat.io.source import Source, short_names
from karat.io.verdict import Data, FileVerification, compare, read_changed
from karat.problems import Problem
from karat.problems.latent import KnownMaps, Latent
from karat.stream.samples import Samples
from karat.stream.sketch import Sketch


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
    progress: Progress | bool | None = None,
    locate: bool = False,
) -> FileVerification:
    """Read the data of a coreset again, and prove or refute the coreset.

    Parameters
    ----------
    core : Coreset or path
        A coreset, or the file that it was saved to.
    source : path, list of paths, or stream, optional
        As in :func:`karat.coreset_files`; by default the source that the coreset was made from.
    target, columns, sample_weight, groups, key, on_missing
        As in :func:`karat.coreset_files`; by default taken from the coreset's provenance.
    pipeline : fitted transformer
        Needed if the coreset was made with a pipeline, which is not saved.
    memory : int
        Bytes that the run may use, in addition to the interpreter.
    progress : True or callable, optional
        True shows a tqdm bar (extra ``progress``).  A callable is called with (bytes read, total
        bytes) after every batch.
    locate : bool
        Read the changed rows again, to report their values (``Changed.values``).

    Returns
    -------
    FileVerification
        Not ``ok`` if a moment differs, if the kept rows are not in the data, or if any row has
        changed.
    """
    core = core if isinstance(core, Coreset) else Coreset.load(core)
    provenance = Provenance.read(core.provenance)
    source = source if source is not None else provenance.given
    # A stored query never runs by itself: the file may come from somebody else.
    if isinstance(source, list) and not source and provenance.query is not None:
        call = (
            f"karat.io.query({provenance.query.get('sql')!r}, {provenance.query.get('database')!r})"
        )
        raise InputError(
            "The coreset was made from a query.", f"Pass it as the source: {call}.", argument="sql"
        )
    if isinstance(source, list) and not source:
        raise InputError("The coreset does not store its source; pass the source.")
    layout = file_layout(core, target, columns, sample_weight, groups, key, pipeline, on_missing)
    with progress_bar(progress, "B") as advance:
        opened = open_source(source)
        if core.regression is not None and not {*layout.columns} <= {*opened.schema().names}:
            raise InputError(
                f"The coreset was made from the formula {core.regression.facts['formula']!r};"
                " verify it by karat.inference.verify(core, data), or karat verify."
            )
        verification = FileCheck(core, opened, layout, memory, advance).run()
    return (
        replace(verification, changed=read_changed(opened, layout, verification.changed))
        if locate
        else verification
    )


@dataclass
class FileCheck:
    """A coreset against its data in files.

    Attributes
    ----------
    core : Coreset
    source : Source
    layout : Layout
    memory : int
    progress : callable or None
    beside : callable or None
        Called with the check before its last pass; returns further consumers of the same rows.
    kept, sums, rows
        The kept rows, what sums up the data, and rows that are read at a time; known to ``beside``.
    """

    core: Coreset
    source: Source
    layout: Layout
    memory: int = MEMORY
    progress: Progress | None = None
    beside: Callable[[FileCheck], Sequence[Consumer]] | None = None
    kept: Table = field(init=False)
    sums: SumMoments | Reduce | SumSecondMoments = field(init=False)
    rows: int = field(init=False)
    first_hashes: RowHashes | None = field(default=None, init=False)
    seen: list[Seen] = field(default_factory=list, init=False)  # of the first of these passes

    def run(self) -> FileVerification:
        """Read the data, and compare."""
        start = time.perf_counter()
        core, source = self.core, self.source
        if core.problem.transform is not None:
            raise InputError(
                "A coreset of transformed columns is verified in memory, by core.verify(X, y)."
            )
        provenance = Provenance.read(core.provenance)
        if self.layout.pipeline is None and provenance.pipeline:
            raise InputError(
                f"The coreset was made with a pipeline ({provenance.pipeline}), which is not saved;"
                " pass it as pipeline=."
            )
        require_rereadable(core.problem, source)
        self.layout = layout = self.layout.among(source.schema())
        self.rows = fold_rows(core.problem, layout, self.memory, None, core.rows)
        files = source.identity()
        problem, notes, other_maps = self._lowered()
        self.kept = kept = kept_table(core, problem)
        stored, hashes, digests = self._fingerprints(provenance)
        made = core.rows == SYNTHETIC
        kept_rows = [] if made else [CheckKeptRows(kept)]  # made rows are no rows of the data
        # Otherwise the rows of a sketch stand for all rows.
        again = not source.once and not core.absorbed
        self.sums = SumSecondMoments(core, kept, self.rows) if made else self._sums(again)
        beside = [] if self.beside is None else self.beside(self)
        position, passes = self._scans([hashes, *digests, *kept_rows, self.sums, *beside])
        self._require_same_rows(files, hashes)
        reductions, total, other_groups = self._measured(self.sums, passes)
        data, changed = compare(stored, hashes.rows, short_names(source.names), position.counts)
        refutations = [*other_maps, *other_groups]
        moved = [number for check in kept_rows for number in sorted(check.moved)]
        if moved and (data != "reordered" or (again and not self._all_present())):
            refutations.append(OTHER_ROWS)
        data = self._checked(data, digests, provenance, position.rows, refutations)
        seconds = time.perf_counter() - start
        certificate = (verified if made else certify_again)(
            core, reductions, total, position.rows, seconds, refutations, notes
        )
        certificate = replace(certificate, left_out=position.dropped)
        return FileVerification(
            certificate, data, changed, tuple(moved), tuple(hashes.rows.columns)
        )

    def _sums(self, again: bool) -> SumMoments | Reduce:
        """What sums up the data beside real rows."""
        core = self.core
        if not again:
            return Reduce(self._sketch(), self.layout)
        apart = np.zeros(len(core), dtype=bool)
        # Rows that were kept unchanged cancel exactly, so they are left out on both sides.
        if core.certificate.peeled and self.layout.roles.weight is None:
            apart = core.weights == 1.0
        return SumMoments(self.kept, self.rows, apart)

    def _fingerprints(
        self, provenance: Provenance
    ) -> tuple[dict[str, Any] | None, Hashes, list[Digest]]:
        """The stored hashes, if they are of these columns, and consumers that hash the data."""
        layout = self.layout
        stored = joined_hashes([part.content for part in provenance.parts])
        if stored is not None and stored["columns"] != sorted(layout.columns):
            stored = None
        hashes = Hashes(
            RowHashes(layout.columns, layout.gaps, [] if stored is None else stored["parts"][:-1])
        )
        digests = (
            [Digest(layout.columns)]
            if len(provenance.parts) == 1 and provenance.parts[0].digest
            else []
        )
        return stored, hashes, digests

    def _checked(
        self, data: Data, digests: list[Digest], provenance: Provenance, rows: int,
        refutations: list[str],
    ) -> Data:  # fmt: skip
        """The verdict of the hashes, corrected by the digest of the rows; adds refutations by the
        digest and by the number of rows.
        """
        if data == "identical" and digests and digests[0].to_dict() != provenance.parts[0].digest:
            data = "changed"  # somebody has changed the data such that the hashes agree
            refutations.append("The SHA-256 digest of the rows differs from the stored one.")
        if self.core.n_rows != rows:
            refutations.append(
                f"The coreset was made of {several(self.core.n_rows, 'row')}, the data has"
                f" {rows:,}."
            )
        return data

    def _require_same_rows(self, files: list[list[Any]], hashes: Hashes) -> None:
        """Raise if the source changed between passes."""
        if self.source.identity() != files:
            raise InputError(
                f"{changed_file(files, self.source.identity())} changed while it was read; run"
                " again."
            )
        if self.first_hashes is not None and self.first_hashes.sums != hashes.rows.sums:
            raise InputError(
                "The second pass read other rows than the first; write the source to files first."
            )

    def _lowered(self) -> tuple[Problem, Sequence[str], Sequence[str]]:
        """The problem with the maps of the coreset, notes, and how the maps of this data differ."""
        core = self.core
        if not isinstance(core.problem, Latent):
            return core.problem, (), ()
        first = LatentSums(core.problem, self.layout, self.layout.roles.widths, self.memory)
        self.first_hashes = RowHashes(self.layout.columns, self.layout.gaps)
        scan(
            self.source,
            self.layout,
            [first, Hashes(self.first_hashes)],
            self.rows,
            progress=self.progress,
        )
        fresh = core.problem.with_maps(first.total(), self.layout.roles.widths)
        assert isinstance(fresh, KnownMaps)
        if core.maps is None:
            return fresh, first.notes, ()
        return (
            KnownMaps(core.problem, core.maps, fresh.widths),
            first.notes,
            fresh.changed_maps(core.maps, fresh.maps),
        )

    def _sketch(self) -> Sketch:
        """An empty sketch, for which a repeated key is a change of the data, not an error."""
        sketch = Sketch(self.kept.problem, self.layout.roles.key, buffer_rows=self.rows)
        sketch.checks_keys = False
        sketch.summary.offsets = self.kept.offsets  # moments are compared about one origin
        return sketch

    def _scans(self, consumers: list[Consumer]) -> tuple[Position, int]:
        """Read the rows until no consumer needs another pass; the position, and the number of
        passes.
        """
        passes, position, problem = 0, Position(), self.core.problem
        while consumers:
            samples = (
                Samples(problem, self.layout.roles.widths) if isinstance(problem, Latent) else None
            )
            hashes = Hashes(RowHashes(self.layout.columns, self.layout.gaps))
            reached = scan(
                self.source,
                self.layout,
                [hashes, *consumers] if self.seen else consumers,
                self.rows,
                samples=samples,
                progress=self.progress,
            )
            for first in self.seen:
                require_same(first, seen_rows(hashes.rows))
            self.seen = self.seen or [seen_rows(c.rows) for c in consumers if type(c) is Hashes]
            require_rows(self.source, self.layout, reached)
            passes, position = passes + 1, reached if not passes else position
            consumers = [consumer for consumer in consumers if consumer.another_pass()]
        return position, passes

    def _all_present(self) -> bool:
        """Whether every kept row is somewhere among the rows of the data."""
        present = FindAnywhere(self.kept)
        self._scans([present])
        return not present.missing

    def _measured(
        self, sums: SumMoments | Reduce | SumSecondMoments, passes: int
    ) -> tuple[list[Reduction], float, list[str]]:
        """The coreset against the moments of every group, the total weight, and notes on groups."""
        if isinstance(sums, SumSecondMoments):
            return sums.measured(passes)
        if isinstance(sums, Reduce):
            sums.sketch.fold()
        running = sums.running if isinstance(sums, SumMoments) else sums.sketch.summary.running
        strange = sums.strange if isinstance(sums, SumMoments) else set()
        totals = {label: sums_of_group.total for label, sums_of_group in running.items()}
        if not any(totals.values()) and not strange:
            raise InputError("The data has no row of positive weight.")
        labels, notes = shared_groups(
            self.core, [*(label for label, total in totals.items() if total), *strange]
        )
        group = self._by_moments if isinstance(sums, SumMoments) else self._by_sketch
        reductions = [group(sums, label, passes) for label in labels]
        if isinstance(sums, SumMoments):
            reductions = self._about_means(sums, labels, reductions, passes)
        return reductions, sum(totals.values()), notes

    def _about_means(
        self, sums: SumMoments, labels: list[Any], reductions: list[Reduction], passes: int
    ) -> list[Reduction]:
        """Groups that were not proven, measured about their means in one more pass."""
        kernels = {
            label: kernel
            for label, reduction in zip(labels, reductions, strict=True)
            if (kernel := centred_kernel(reduction)) is not None
        }
        if not kernels:
            return reductions
        centred = SumMoments(
            self.kept, self.rows, sums.apart, coordinates=sums.coordinates | kernels
        )
        self._scans([centred])
        again = [
            self._against(centred, label, passes + 1, last=True) if label in kernels else None
            for label in labels
        ]
        return [
            reduction if other is None else better(reduction, other)
            for reduction, other in zip(reductions, again, strict=True)
        ]

    def _by_moments(self, sums: Any, label: Any, passes: int) -> Reduction:
        """One group, against the moments of all of its rows."""
        if sums.running[label].fitted_moments().needs_pass:
            raise NotExactError(
                "The moments of this data cannot be summed accurately; the data differs greatly"
                " from the kept rows, or needs scaling."
            )
        return self._against(sums, label, passes)

    def _against(self, sums: SumMoments, label: Any, passes: int, last: bool = False) -> Reduction:
        kept = sums.rest(label)
        fitted = sums.running[label].fitted_moments(last)
        return measure_again(
            self.core, None, fitted, kept, passes, witnesses=self._unweighted(kept)
        )

    def _by_sketch(self, sums: Any, label: Any, passes: int) -> Reduction:
        """One group, against the rows of a sketch, whose claimed error is inherited."""
        core, summary, kept = self.core, sums.sketch.summary, self.kept.rows(label)
        running, reduction = summary.running[label], summary.reduction(label)
        fitted = running.fitted_moments()
        rows, _ = summary.held_rows(label)
        if fitted.needs_pass or core.absorbed or reduction.peeled.any():
            fitted, _ = fit_moments(rows, summary.kernel, np.arange(len(rows)))
            measured = measure_again(core, rows, fitted, kept, passes)
            return replace(measured, inherited=reduction.claim)
        measured = measure_again(core, None, fitted, kept, passes, witnesses=self._unweighted(kept))
        return replace(measured, inherited=running.inherited)

    def _unweighted(self, kept: Rows) -> Rows | None:
        """The kept rows with weight one each, as witnesses; None if the data has weights."""
        if self.layout.roles.weight is not None:
            return None
        return Rows(kept.parts, np.ones(len(kept)) if kept.index is None else None, kept.index)
