"""coreset_files: one pass over files, in bounded memory, that can be killed and resumed.

    for batch in source:                    # as it lies in the file, without a copy where the format allows
        sketch.take(batch)                  # moments are summed; every ``batch_rows`` rows a few of them are kept
        checkpoint                          # after a fold: the sketch and the place, in one atomic write
    return sketch.coreset()

Folds happen at places that depend on the files alone, so a resumed run repeats what an uninterrupted one does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc

from karat._core.construct import Progress
from karat._core.coreset import Coreset
from karat._core.plan import FOLD, fold_memory
from karat._data.checks import check_taken, chosen_problem
from karat._stream import state as sketch_state
from karat._stream.sketch import Sketch
from karat.errors import InputError, check_whole
from karat.io.background import behind
from karat.io.latent_roles import latent_roles, refuse_sequence
from karat.io.layout import Layout
from karat.io.provenance import described_source, provenance
from karat.io.row_hashes import Content
from karat.io.source import Place, Source, open_source
from karat.problems import Kernel, Problem
from karat.problems.latent import Latent, MultiView

MEMORY = 10**9
LEAST_ROWS = 1000


def coreset_files(
    source: Any,
    target: str | Sequence[str] | None = None,
    problem: Problem | None = None,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    on_missing: Literal["error", "drop"] = "error",
    checkpoint: str | Path | None = None,
    memory: int = MEMORY,
    progress: Progress | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    key: str | None = None,
    pipeline: Any = None,
    random_state: int = 0,
    sequence: str | None = None,
    content: bool = True,
) -> Coreset:
    """A coreset of rows in files, in one pass (latent-variable problems: two) and bounded memory.

    Parameters
    ----------
    source : path, list of paths, or stream
        Parquet, CSV (also ``.gz``) or Arrow/Feather files: one, a list, a pattern (``part-*.parquet``, ``**``), or a folder
        (``year=2024/`` in its names gives columns).  Addresses such as ``s3://`` are opened by pyarrow or fsspec.  Also an
        Arrow record-batch reader, a DuckDB relation, or anything else with an Arrow stream.
    target : str or list of str, optional
        The target column or columns.
    problem : Problem, optional
        What must not change; :class:`~karat.problems.LeastSquares` if there is a target, else ``Moments(2)``.
    columns : list of str, optional
        The features; by default all columns that have no other role.  For MultiView, three lists, one per view.
    batch_rows : int, optional
        Rows between folds; by default a million, or what ``memory`` allows.
    on_missing : {"error", "drop"}
        What to do with rows that lack a value or are broken.  The certificate's notes say how many were left out.
    checkpoint : path, optional
        An ``.npz`` file.  A run that was killed resumes from it; a run that had ended returns its coreset.
    memory : int
        Bytes beside the interpreter that the run may use.
    progress : callable, optional
        Called with (bytes done, bytes in all) after every batch; bytes in all is 0 for a stream.
    sample_weight, groups, key : str, optional
        Columns with weights, with group labels, and with keys that identify rows.
    pipeline : fitted transformer, optional
        Features go through its ``transform`` (as a pandas frame) first, for categorical columns and the like.
    random_state : int
        The choice of rows depends on it, the exactness does not.
    sequence : str, optional
        For HiddenMarkov, a column that names the sequence of a row; neighbours of the same name are in one sequence, also
        from one file to the next.  Without it all rows are one sequence.
    content : bool
        Hash the rows while they are read, so that :func:`karat.verify_files` can tell the same data from changed data.

    Returns
    -------
    Coreset
        ``indices`` number the rows through all files in order of their names; X is an Arrow table; ``provenance`` says what
        it was made from.

    Raises
    ------
    InputError
        A sentence that names the file, the row group or line, the column, and the remedy.
    """
    if on_missing not in ("error", "drop"):
        raise InputError(f"on_missing must be 'error' or 'drop', not {on_missing!r}.")
    if pipeline is not None and not hasattr(pipeline, "transform"):
        raise InputError("pipeline must be a fitted transformer with a transform method.")
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    if isinstance(problem, Latent):
        from karat.io.two_pass import TwoPass

        check_taken(problem, y=target, groups=groups)
        roles = latent_roles(problem, columns, sequence, sample_weight, key, pipeline, on_missing)
        run = TwoPass(source, problem, roles, batch_rows, memory, checkpoint, progress, random_state, content)
        return run.finish(source)
    refuse_sequence(problem, sequence)
    problem = chosen_problem(problem, bool(targets))
    if problem.needs_target and not targets:
        raise InputError(f"{problem.describe()} needs a target: name its column.")
    if problem.transform is not None:
        raise InputError("Rows in files are transformed by a fitted pipeline=; pass the inner problem, and the pipeline.")
    sketch = Sketch(problem, key, random_state=random_state)
    opened = open_source(source, batch_rows or FOLD)
    schema = opened.schema()
    if columns is None:
        taken = {*targets, sample_weight, groups, key}
        columns = [c for c in schema.names if c not in taken]
    if not columns:
        raise InputError("No columns are left for the features; keep at least one.")
    layout = Layout(tuple(columns), targets, sample_weight, groups, key, pipeline, on_missing == "drop")
    layout.check(schema)
    sketch.buffer_rows = fold_rows(problem, layout, memory, batch_rows)
    hashes = Content(layout.columns, layout.gaps) if content else None
    return Run(opened, layout, sketch, None if checkpoint is None else Path(checkpoint), progress, hashes).finish(source)


def fold_rows(problem: Problem, layout: Layout, memory: int, wanted: int | None) -> int:
    """Rows between folds that fit in memory."""
    width = len(layout.features) + len(layout.targets)
    if layout.pipeline is not None or isinstance(problem, Kernel):  # the number of features is not known yet
        fixed, each = 0, 8 * 8 * width
    else:
        tables = 3 if isinstance(problem, MultiView) else 1
        fixed, each = fold_memory(problem, -(-len(layout.features) // tables), len(layout.targets))
    if not isinstance(memory, int) or memory < fixed + each * LEAST_ROWS:
        raise InputError(
            f"A memory of {memory!r} bytes is too little: this problem needs {fixed + each * LEAST_ROWS:,} bytes at least."
        )
    most = (memory - fixed) // each
    if wanted is None:
        return int(min(FOLD, most))
    check_whole("batch_rows", wanted)
    if wanted > most:
        raise InputError(f"batch_rows={wanted:,} do not fit into {memory:,} bytes of memory; at most {most:,} do.")
    return int(wanted)


class Run:
    """One pass, from wherever the checkpoint left off."""

    def __init__(
        self, source: Source, layout: Layout, sketch: Sketch, checkpoint: Path | None, progress: Progress | None,
        content: Content | None,
    ) -> None:  # fmt: skip
        self.source, self.layout, self.sketch, self.content = source, layout, sketch, content
        self.checkpoint, self.progress = checkpoint, progress
        self.files = source.identity()
        self.place = Place()
        self.dropped = self.bad = 0
        self.counts: dict[int, int] = {}  # rows of the files read so far
        if checkpoint is not None and not self.files:
            raise InputError("A stream comes only once, so it cannot be resumed; leave checkpoint out or write it to files.")

    def finish(self, given: Any) -> Coreset:
        """The coreset of all rows, with the provenance of what was ``given`` as the source."""
        with _locked(self.checkpoint):
            if self.checkpoint is not None and self.checkpoint.exists():
                self._resume(self.checkpoint)
            core = self._passes()
            self._save()
        notes = [*core.certificate.notes]
        if self.dropped or self.bad:
            notes.append(f"{self.dropped:,} rows with missing values and {self.bad:,} broken rows were left out.")
        certificate = replace(core.certificate, notes=tuple(notes))
        return replace(core, certificate=certificate, provenance=self._provenance(given))

    def _provenance(self, given: Any) -> dict[str, Any]:
        dropped = {"missing": self.dropped, "broken": self.bad}
        content = None if self.content is None else self.content.to_dict()
        made_from = described_source(given, self.files, self.counts)
        return provenance(made_from, self.layout, self.sketch.problem, self.sketch.random_state, dropped, content)

    def _passes(self) -> Coreset:
        """All that is left to read, and the coreset."""
        self.scan()
        return self.sketch.coreset()

    def scan(self) -> None:
        """Read what is left of a pass."""
        start = time.perf_counter()
        self._read()
        self.sketch._seconds += time.perf_counter() - start
        if self.source.identity() != self.files:
            raise InputError(f"{self._changed(self.source.identity())} changed while it was read; run again.")
        self.place = Place(len(self.source.names))
        if self.dropped + self.bad and self.dropped == sum(self.counts.values()):
            raise InputError(self._nothing_left())

    def _nothing_left(self) -> str:
        """Why no row is left, from a second look at the first of them."""
        said = f"All {self.dropped + self.bad:,} rows were left out"
        if not (self.files and self.dropped):
            return f"{said}, because each is broken or lacks a value."
        layout = self.layout
        table = next(self.source.batches(layout.columns, layout.numeric, FOLD, Place(), strict=False)).table
        numbers = {*layout.features, *layout.targets}
        gaps = {name: pc.sum(pc.is_null(table.column(name), nan_is_null=True)).as_py() for name in numbers}
        worst = max(gaps, key=lambda name: gaps[name])
        where = f"{gaps[worst]:,} of the first {table.num_rows:,} of them"
        return f"{said}: column {worst!r} has no number in {where}. Leave the column out, or fill it."

    @property
    def _hashed(self) -> Content | None:
        """What hashes the rows of this pass."""
        return self.content

    def _read(self) -> None:
        layout, rows, content = self.layout, self.sketch.buffer_rows, self._hashed
        since = 0
        if self.place.file >= len(self.source.names):
            return
        with behind() as hashing:  # while rows are read and folded
            for batch in self.source.batches(layout.columns, layout.numeric, rows, self.place, strict=not layout.drop):
                if content is not None:
                    hashing.call(content.add, batch.table)
                dropped = self._feed(batch.table, self._where(batch.file, batch.start))
                count = batch.table.num_rows
                self.counts[batch.file] = self.counts.get(batch.file, 0) + count
                self.dropped, self.bad, since = self.dropped + dropped, self.bad + batch.bad, since + count
                if batch.end is not None and since >= rows:
                    self.place, since = batch.end, 0
                    self.sketch._fold()
                    hashing.wait()
                    self._save()
                if self.progress is not None:
                    self.progress(*self._share(batch.end or self.place))

    def _feed(self, table: Any, where: Callable[[int], str]) -> int:
        """Take the rows of a table; how many were left out."""
        return self.layout.feed(self.sketch, table, where)

    def _share(self, place: Place) -> tuple[int, int]:
        """Bytes done, and bytes in all."""
        return self.source.share(place)

    def _where(self, file: int, start: int) -> Callable[[int], str]:
        return lambda row: self.source.where(file, start + row)

    def _call(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed."""
        layout = {k: v for k, v in asdict(replace(self.layout, pipeline=None)).items() if k != "pipeline"}
        call = layout | {"rows": self.sketch.buffer_rows, "seed": self.sketch.random_state, "content": self.content is not None}
        described = repr(self.sketch.problem) if not isinstance(self.sketch.problem, Kernel) else "Kernel"
        return {k: list(v) if isinstance(v, tuple) else v for k, v in call.items()} | {"problem": described}

    def _state(self) -> dict[str, Any]:
        """What a checkpoint holds beside the sketch."""
        return {
            "call": self._call(),
            "files": self.files,
            "place": asdict(self.place),
            "dropped": self.dropped,
            "bad": self.bad,
            "counts": [self.counts.get(i, 0) for i in range(len(self.files))],
            "content": None if self.content is None else self.content.to_dict(),
        }

    def _save(self) -> None:
        if self.checkpoint is not None:
            sketch_state.save(self.sketch, self.checkpoint, self._state())

    def _resume(self, path: Path) -> None:
        sketch, state = sketch_state.load(path, self.sketch.problem)
        self._go_on(path, state)
        self.sketch = sketch

    def _go_on(self, path: Path, state: dict[str, Any]) -> None:
        """From the place of a checkpoint, if it is one of this call and these files."""
        if "call" not in state:
            raise InputError(f"{path} is a checkpoint of a sketch, not of coreset_files; choose another path.")
        mine = self._call()
        differ = [name for name, value in mine.items() if state["call"].get(name) != value]
        if differ:
            raise InputError(
                f"{path} is the checkpoint of another call: {', '.join(differ)} differ. Delete it to start afresh, or choose "
                "another path."
            )
        if state["files"] != self.files:
            raise InputError(
                f"{self._changed(state['files'])} changed since the checkpoint {path} was written; delete the checkpoint to "
                "start afresh."
            )
        self.place = Place(**state["place"])
        self.dropped, self.bad, self.counts = state["dropped"], state["bad"], dict(enumerate(state["counts"]))
        if self.content is not None:
            self.content = Content.from_dict(state["content"], self.layout.gaps)

    def _changed(self, other: list[list[Any]]) -> str:
        before, now = ({str(f[0]): f for f in files} for files in (other, self.files))
        return min(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


@contextmanager
def _locked(checkpoint: Path | None) -> Iterator[None]:
    """Two runs must not write one checkpoint; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on this system: writes are atomic in any case
        checkpoint = None
    if checkpoint is None:
        yield
        return
    with checkpoint.with_name(checkpoint.name + ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"Another process is writing the checkpoint {checkpoint}; wait for it or choose another path."
            ) from None
        for left in checkpoint.parent.glob(f".{checkpoint.name}.*.part"):  # by a run that was killed while it wrote
            left.unlink()
        yield
