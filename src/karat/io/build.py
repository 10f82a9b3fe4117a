"""coreset_files: a scan in bounded memory that keeps a few rows.  A run that was killed can be
resumed.

sums    = scan(source, [LatentSums])          # only if the problem depends on all rows
problem = problem.with_maps(sums)
core    = scan(source, [Hashes, Reduce])
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Never

from karat.core.coreset import Coreset
from karat.core.files import problem_header
from karat.core.provenance import with_provenance
from karat.core.synthetic import (
    KEEP,
    REAL,
    SYNTHETIC,
    RowChoice,
    RowKind,
    Verbatim,
    check_rows_argument,
    made_memory,
)
from karat.data.advice import unknown_argument
from karat.data.arguments import (
    check_mergeable,
    check_taken,
    column_problem,
    column_roles,
    listed_names,
    progress_bar,
)
from karat.engine.rows import Progress
from karat.engine.stream import FOLD
from karat.errors import InputError, check_integer, reading
from karat.io.checkpoint import Checkpoint, transform_digest
from karat.io.content_digest import ALGORITHM, Digest
from karat.io.encoding import Encoding, categories
from karat.io.find import open_source
from karat.io.layout import Layout
from karat.io.learn import learned
from karat.io.row_hashes import Hashes, RowHashes, Seen, require_same, seen_rows
from karat.io.scan import LatentSums, Position, Reduce, changed_file, require_rows, scan
from karat.io.source import Source, sort_of
from karat.problems import Kernel, Problem
from karat.problems.latent import KnownMaps, Latent
from karat.storage.archive import prefixed, without_prefix
from karat.stream.samples import Samples, finished
from karat.stream.sketch import Sketch

MEMORY = 10**9
LEAST_ROWS = 1000
LEARN_ROWS = 2**18  # at a time, while levels and means are learned


def coreset_files(
    source: Any,
    target: str | Sequence[str] | None = None,
    problem: Problem | None = None,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    on_missing: Literal["error", "drop", "mean"] = "error",
    one_hot: Sequence[str] | Literal["auto"] = (),
    checkpoint: str | Path | None = None,
    memory: int = MEMORY,
    progress: Progress | bool | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    key: str | None = None,
    pipeline: Any = None,
    rows: RowKind = "real",
    verbatim: Verbatim = "keep",
    random_state: int = 0,
    sequence: str | None = None,
    content: bool = True,
    digest: Literal["sha256"] | None = None,
    **unknown: Never,
) -> Coreset:
    """A coreset of rows in files, in one pass (latent-variable problems: two) and bounded memory.

    Parameters
    ----------
    source : path, list of paths, stream, or an open source
        Parquet, CSV (also ``.gz``) or Arrow/Feather files: one, a list, a pattern
        (``part-*.parquet``, ``**``), or a folder (``year=2024/`` in its names gives columns).
        Addresses such as ``s3://`` are opened by pyarrow or fsspec.  Also a query of a database
        (:func:`karat.io.query`), a DuckDB relation, an ADBC cursor, an Arrow record-batch reader,
        or anything else with an Arrow stream; all are read in batches.
    target : str or list of str, optional
        The target column or columns.
    problem : Problem, optional
        What must not change; :class:`~karat.problems.LeastSquares` if there is a target, else
        ``Moments(2)``.
    columns : list of str, optional
        The features; by default all columns that have no other role.  For MultiView, three lists,
        one per view.
    batch_rows : int, optional
        Rows between folds; by default a million, or what ``memory`` allows.
    on_missing : {"error", "drop", "mean"}
        What to do with rows that have missing values or are broken.  "drop" leaves them out, and
        the certificate's notes say how many.  "mean" fills features with the mean of all rows
        (weighted, if there are weights), which takes one more pass.
    one_hot : list of str, or "auto"
        Features that are categories ("auto": all columns of text).  Each becomes a column of 0 and
        1 per level, named ``carrier=AA``.  The levels are those of all rows, which takes one more
        pass, and are stored in ``provenance``.
    checkpoint : path, optional
        An ``.npz`` file.  A run that was killed resumes from it.  A run that was complete returns
        its coreset.
    memory : int
        Bytes that the run may use, in addition to the interpreter.
    progress : True or callable, optional
        True shows a tqdm bar (extra ``progress``).  A callable is called with (bytes read, total
        bytes) after every batch; the total is 0 for a stream.
    sample_weight, groups, key : str, optional
        Columns with weights, with group labels, and with keys that identify rows.
    pipeline : fitted transformer, optional
        Features go through its ``transform`` (as a pandas frame) first, for categorical columns and
        the like.
    rows, verbatim : str
        As in :func:`karat.coreset`: "real" or "synthetic" rows, and what to do about rows that
        would be kept as they are.
    random_state : int
        Seed for the choice of rows; the coreset is exact for any seed.
    sequence : str, optional
        For HiddenMarkov, a column that names the sequence of a row; neighbours of the same name are
        in one sequence, also from one file to the next.  Without it all rows are one sequence.
    content : bool
        Hash the rows while they are read, so that :func:`karat.verify_files` can tell the same data
        from changed data.
    digest : {"sha256"}, optional
        Also compute a cryptographic digest of the used columns, in order.  The hashes only detect
        accidental changes.
    **unknown
        Raises an error that names the argument that was probably meant.

    Returns
    -------
    Coreset
        ``indices`` number the rows through all files in order of their names (synthetic rows have
        none); X is an Arrow table; ``provenance`` says what it was made from.

    Raises
    ------
    InputError
        The message names the file, the row group or line, the column, and the remedy.
    """
    if unknown:
        raise unknown_argument(coreset_files, unknown)
    problem = column_problem(problem, target)
    check_taken(problem, y=target or None, groups=groups)
    if rows != REAL or verbatim != KEEP:
        check_rows_argument(rows, problem, "auto", verbatim)
    roles = column_roles(problem, target, columns, sample_weight, groups, key, sequence)
    names = () if one_hot == "auto" else listed_names("one_hot", one_hot)
    layout = Layout.encoded(problem, roles, pipeline, on_missing, names)
    if digest not in (None, ALGORITHM):
        raise InputError(f"digest must be {ALGORITHM!r} or None, not {digest!r}.")
    if not problem.needs_sums:
        check_mergeable(problem)
    check_integer("random_state", random_state, 0)
    if batch_rows is not None:
        check_integer("batch_rows", batch_rows)
    opened = open_source(source, rows=batch_rows or FOLD)
    if one_hot == "auto":
        names = categories(opened.schema(), roles)
        layout = Layout.encoded(problem, roles, pipeline, on_missing, names)
    require_rereadable(problem, opened)
    layout = replace(layout.among(opened.schema()), reading="written")
    with progress_bar(progress, "B") as advance:
        rest, learned_rows = advance, None
        if layout.encoding is not None:
            layout, rest, learned_rows = learned(
                opened, layout, layout.encoding, batch_rows or LEARN_ROWS, checkpoint, advance
            )
        between = fold_rows(problem, layout, memory, batch_rows, rows)
        build = _Build(
            opened, layout, problem, between, int(random_state), content, memory, checkpoint, rest,
            digest is not None, RowChoice(rows, verbatim), learned_rows,
        )  # fmt: skip
        return build.finish()


def require_rereadable(problem: Problem, source: Source) -> None:
    """Refuse a stream where a problem takes two passes."""
    if problem.needs_sums and source.once:
        raise InputError(
            f"{problem.describe()} reads the data twice (maps, then tensor), and a stream can be"
            " read only once; write it to files."
        )


def fold_rows(
    problem: Problem, layout: Layout, memory: int, wanted: int | None, kind: str = REAL
) -> int:
    """Rows between folds that fit in memory."""
    roles = layout.roles
    width = layout.width + len(roles.targets)
    if kind == SYNTHETIC:
        fixed, each = made_memory(width)
    # the number of features is not known yet
    elif layout.pipeline is not None or isinstance(problem, Kernel):
        fixed, each = 0, 8 * 8 * width
    else:
        columns = -(-layout.width // problem.input_tables)
        try:
            fixed, each = problem.fold_memory(columns, len(roles.targets))
        except InputError as error:  # too many columns
            raise InputError(str(error), (layout.encoding or Encoding()).most_levels()) from None
    if isinstance(memory, bool) or not isinstance(memory, int):
        raise InputError(f"memory must be an integer of bytes, such as 10**9, not {memory!r}.")
    if memory < fixed + each * LEAST_ROWS:
        least = fixed + each * LEAST_ROWS
        raise InputError(f"memory={memory!r} is too small; give at least {least:,} bytes.")
    most = (memory - fixed) // each
    if wanted is None:
        return int(min(FOLD, most))
    if wanted > most:
        raise InputError(
            f"batch_rows={wanted:,} rows do not fit into {memory:,} bytes of memory; use at most"
            f" {most:,}."
        )
    return int(wanted)


class _Build:
    """A run of :func:`coreset_files`, resumed from its checkpoint if there is one."""

    def __init__(
        self, source: Source, layout: Layout, problem: Problem, rows: int, seed: int, content: bool,
        memory: int, checkpoint: str | Path | None, progress: Progress | None, digest: bool,
        choice: RowChoice, learned_rows: Seen | None,
    ) -> None:  # fmt: skip
        self.choice, self.learned_rows = choice, learned_rows
        self.source, self.layout, self.problem, self.rows, self.seed = (
            source,
            layout,
            problem,
            rows,
            seed,
        )
        self.progress, self.position = progress, Position()
        self.content = content
        self.first = (
            LatentSums(problem, layout, layout.roles.widths, memory)
            if isinstance(problem, Latent)
            else None
        )
        # All passes must read the same rows, so these are hashed even if hashes are not stored.
        self.hashes = (
            [Hashes(RowHashes(layout.columns, layout.gaps))]
            if content or self.first is not None or learned_rows is not None
            else []
        )
        self.again = None if self.first is None else Hashes(RowHashes(layout.columns, layout.gaps))
        self.digests = [Digest(layout.columns)] if digest else []
        self.seconds = 0.0  # of the first pass
        self.samples: Samples | None = None
        self.reduce: Reduce | None = None
        self.files = source.identity()
        if checkpoint is not None and not self.files:
            raise InputError(
                "Only a run over files can be resumed; omit checkpoint=, or write the stream to"
                " files."
            )
        self.checkpoint = (
            None if checkpoint is None else Checkpoint(checkpoint, self._call(), self.files)
        )

    def finish(self) -> Coreset:
        """The coreset of all rows."""
        with nullcontext() if self.checkpoint is None else self.checkpoint.locked():
            self._resume()
            if self.first is not None and self.reduce is None:
                self._scan([*self.hashes, *self.digests, self.first])
                self._begin(self.problem.with_maps(self.first.total(), self.layout.roles.widths))
                self.first.sums, self.position = None, Position()
                self._save()
            elif self.reduce is None:
                self._begin(self.problem)
            assert self.reduce is not None
            one_pass, again = (
                [*self.hashes, *self.digests],
                [] if self.again is None else [self.again],
            )
            self._scan([*(one_pass if self.first is None else again), self.reduce])
            core = self.reduce.sketch.coreset()
            if self.first is not None:
                self._require_same_rows()
                core = finished(core, self.first.samples.rows, self.first.notes)
            if self.learned_rows is not None:
                require_same(self.learned_rows, seen_rows(self.hashes[0].rows))
            self._save()
        return with_provenance(core, self._provenance(), self.source.notes)

    def _require_same_rows(self) -> None:
        """Raise if the second pass read other rows than the first."""
        if self.source.identity() != self.files:
            changed = changed_file(self.files, self.source.identity())
            raise InputError(f"{changed} changed between the two passes; run again.")
        if self.again is not None and not self.again.rows.same_rows(self.hashes[0].rows):
            raise InputError(
                "The second pass read other rows than the first. Write the source to files first,"
                " so that both passes read the same rows."
            )

    def _begin(self, problem: Problem, sketch: Sketch | None = None) -> None:
        """The last pass, from its beginning or with the sketch of a checkpoint."""
        key, widths = self.layout.roles.key, self.layout.roles.widths
        if sketch is None:
            sketch = Sketch(
                problem, key, **self.choice._asdict(), random_state=self.seed, buffer_rows=self.rows
            )
        self.reduce = Reduce(sketch, self.layout)
        if isinstance(problem, KnownMaps):
            self.samples = Samples(problem.problem, widths)

    def _scan(self, consumers: list[Any]) -> None:
        start = time.perf_counter()
        scan(
            self.source, self.layout, consumers, self.rows, position=self.position,
            samples=self.samples, progress=None if self.progress is None else self._report,
            save=self._save,
        )  # fmt: skip
        require_rows(self.source, self.layout, self.position)
        if self.reduce is None:
            self.seconds += time.perf_counter() - start
        else:
            self.reduce.sketch.summary.seconds += time.perf_counter() - start + self.seconds
            self.seconds = 0.0

    def _report(self, done: int, total: int) -> None:
        assert self.progress is not None
        passes = 1 if self.first is None else 2
        self.progress(done + total * (passes == 2 and self.reduce is not None), passes * total)

    def _provenance(self) -> dict[str, Any]:
        source = self.source.described(self.files, self.position.counts)
        dropped = {"missing": self.position.dropped, "broken": self.position.bad}
        content = self.hashes[0].rows.to_dict() if self.content else None
        digest = self.digests[0].to_dict() if self.digests else None
        kinds = self.source.label_kinds(list(self.layout.label_readings))
        text = [name for name, kind in kinds.items() if sort_of(kind) == "text"]
        return self.layout.provenance(
            self.problem, self.seed, source, dropped, content, digest, text
        )

    def _call(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed."""
        roles = self.layout.roles
        call: dict[str, Any] = {
            "features": list(roles.features),
            "targets": list(roles.targets),
            "weight": roles.weight,
            "group": roles.label,
            "key": roles.key,
            "drop": self.layout.drop,
            "rows": self.rows,
            "seed": self.seed,
            "content": self.content,
            "digest": ALGORITHM if self.digests else None,
            "problem": "Kernel" if isinstance(self.problem, Kernel) else repr(self.problem),
            "pipeline": (
                None if self.layout.pipeline is None else type(self.layout.pipeline).__name__
            ),
            "encoding": None if self.layout.encoding is None else self.layout.encoding.to_dict(),
        }
        if self.layout.pipeline is not None or isinstance(self.problem, Kernel):
            call["function"] = transform_digest(self.source, self.layout, self.problem)
        if self.learned_rows is not None:
            call["learned_rows"] = list(self.learned_rows)
        if self.choice.rows != REAL:
            call["choice"] = list(self.choice)
        return (
            call if self.first is None else call | {"widths": roles.widths and list(roles.widths)}
        )

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        header: dict[str, Any] = {}
        extra: dict[str, Any] = self.position.state(len(self.files)) | {"content": None}
        arrays: dict[str, Any] = {}
        for consumer in (*self.hashes, *self.digests):
            numbers, rows = consumer.state()
            extra, arrays = extra | numbers, arrays | rows
        if self.again is not None:
            extra |= {"content_again": self.again.state()[0]["content"]}
        if self.first is not None:
            numbers, sums = self.first.state()
            arrays |= sums
            header = problem_header(self.problem) | {"pass": 1}
            extra |= numbers | {"seconds": self.seconds}
        if self.reduce is not None:
            sketch_header, held = self.reduce.state()
            header, arrays = header | sketch_header, arrays | held
            lowered = self.reduce.sketch.problem
            if self.samples is not None and isinstance(lowered, KnownMaps):
                numbers, open_rows = self.samples.state()
                extra |= {"second": numbers}
                arrays |= prefixed("second", open_rows) | prefixed("maps", lowered.maps)
                header["pass"] = 2
        self.checkpoint.save(header, extra, arrays)

    def _resume(self) -> None:
        saved = None if self.checkpoint is None else self.checkpoint.load()
        if self.checkpoint is None or saved is None:
            return
        path = str(self.checkpoint.path)
        with reading(path, "a checkpoint"):
            self._restore(*saved, path)

    def _restore(self, header: dict[str, Any], arrays: dict[str, Any], path: str) -> None:
        extra = header["extra"]
        self.position = Position.restored(extra)
        for consumer in (*self.hashes, *self.digests):
            consumer.restore(extra, arrays)
        sketch_arrays = {name: value for name, value in arrays.items() if ":" not in name}
        if self.first is None:
            self._begin(self.problem, Sketch.restore(header, sketch_arrays, path, self.problem))
            return
        if self.again is not None:
            self.again.restore({"content": extra["content_again"]}, arrays)
        self.first.restore(extra, arrays)
        self.seconds = extra["seconds"]
        if header["pass"] == 2:
            assert isinstance(self.problem, Latent)
            lowered = KnownMaps(
                self.problem, without_prefix("maps", arrays), self.layout.roles.widths
            )
            self._begin(lowered, Sketch.restore(header, sketch_arrays, path, lowered))
            assert self.samples is not None
            self.samples.restore(extra["second"], without_prefix("second", arrays))
