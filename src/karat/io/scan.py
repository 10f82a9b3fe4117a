"""The scan: the rows of a source are read once, for everything that is done with them.

    for chunk in source:                 # Arrow rows as they are stored, without a copy
        batch = layout.batch(chunk)      # the used rows, as numbers
        for each consumer: add rows      # a sketch, sums, hashes, ...
        pause, save                      # every so many rows: folds, then a checkpoint
        progress

A :class:`Consumer` is anything that is done with the rows.  Here are those of builds: ``Reduce``
and ``LatentSums``.  Others are in :mod:`karat.io.row_hashes`, :mod:`karat.io.measure`
(verification), :mod:`karat.io.sample`, :mod:`karat.io.learn`, and with tables and cubes.

Pauses happen at places that depend on the files alone, so a resumed scan repeats what an
uninterrupted one does.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from karat.data.advice import explain_non_finite
from karat.data.batch import Batch
from karat.engine.kernel import NonFiniteError
from karat.engine.rows import Progress
from karat.engine.stream import FOLD
from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.source import Chunk, ResumePoint, Source
from karat.io.written_labels import as_stored_text
from karat.problems.latent import Latent
from karat.problems.latent.sums import Sums, add
from karat.storage.archive import Stored, flat, prefixed, unflat, without_prefix
from karat.stream.samples import Samples
from karat.stream.sketch import Sketch

MOST_LEVELS = 10_000  # a column with more distinct values is an identifier, not a category


@dataclass
class Position:
    """How far a scan has come.

    Attributes
    ----------
    point : ResumePoint
    dropped, bad : int
        Rows with missing values, and broken ones, that were left out.
    counts : dict
        Rows of each file read so far.
    """

    point: ResumePoint = field(default_factory=ResumePoint)
    dropped: int = 0
    bad: int = 0
    counts: dict[int, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows read."""
        return sum(self.counts.values())

    def state(self, files: int) -> dict[str, Any]:
        """For JSON, and for :meth:`restored`."""
        counts = [self.counts.get(i, 0) for i in range(files)]
        return {
            "place": asdict(self.point),
            "dropped": self.dropped,
            "bad": self.bad,
            "counts": counts,
        }

    @staticmethod
    def restored(state: dict[str, Any]) -> Position:
        return Position(
            ResumePoint(**state["place"]),
            state["dropped"],
            state["bad"],
            dict(enumerate(state["counts"])),
        )


def scan(
    source: Source, layout: Layout, consumers: Sequence[Consumer], rows: int, *,
    position: Position | None = None, samples: Samples | None = None,
    progress: Progress | None = None, save: Callable[[], None] | None = None,
) -> Position:  # fmt: skip
    """Read a source from a position on, for some consumers.

    Parameters
    ----------
    source : Source
    layout : Layout
    consumers : sequence of Consumer
    rows : int
        Rows between pauses.
    position : Position, optional
        Where to begin; it is changed, and returned.
    samples : Samples, optional
        Makes samples of a latent-variable problem of the rows first.
    progress : callable, optional
        Called with (bytes done, bytes in all) after every chunk.
    save : callable, optional
        Called after a pause; a run can resume there.
    """
    position = position or Position()
    identity, reached = source.identity(), position.point
    # rows since the last pause, and since the last place where one could have been
    since = step = 0
    readings = layout.label_readings
    source.read_labels(readings)
    source.whole = layout.roles.whole
    stored_text = [name for name, reading in readings.items() if reading == "text"]
    if position.point.file < len(source.names):
        with background_calls() as beside:
            for read in source.chunks(
                layout.columns, layout.numeric, rows, position.point, strict=not layout.drop
            ):
                chunk = replace(read, table=as_stored_text(read.table, stored_text))
                count = chunk.table.num_rows
                batch, dropped = layout.batch(chunk.table, position.rows, chunk.where)
                if samples is not None:
                    batch = next_samples(samples, batch, count, chunk.where)[1]
                for consumer in consumers:
                    if consumer.background:
                        beside.call(consumer.add, chunk, batch)
                    else:
                        consumer.add(chunk, batch)
                position.counts[chunk.file] = position.counts.get(chunk.file, 0) + count
                position.dropped, position.bad, since = (
                    position.dropped + dropped,
                    position.bad + chunk.bad,
                    since + count,
                )
                step += count
                if chunk.end is not None:
                    reached, more, step = chunk.end, step, 0
                    # Pause now if another step of this size would exceed the limit.
                    if since + more > rows:
                        position.point, since = chunk.end, 0
                        for consumer in consumers:
                            consumer.pause()
                        beside.wait()
                        if save is not None:
                            save()
                if progress is not None:
                    progress(*source.bytes_done(reached))
    if source.identity() != identity:
        raise InputError(
            f"{changed_file(source.identity(), identity)} changed while it was read; run again."
        )
    position.point = ResumePoint(len(source.names))
    return position


class BackgroundCalls:
    """Calls made by a thread, in order."""

    def __init__(self, worker: ThreadPoolExecutor) -> None:
        self.worker = worker
        self.pending: list[Future[None]] = []

    def call(self, work: Callable[..., None], *items: Any) -> None:
        self.pending.append(self.worker.submit(work, *items))

    def wait(self) -> None:
        """Wait for all calls; errors are raised here."""
        for call in self.pending:
            call.result()
        self.pending.clear()


@contextmanager
def background_calls() -> Iterator[BackgroundCalls]:
    """A thread for calls whose results are needed later; it ends with the context."""
    with ThreadPoolExecutor(1) as worker:
        calls = BackgroundCalls(worker)
        yield calls
        calls.wait()


def changed_file(before: list[list[Any]], now: list[list[Any]]) -> str:
    """The first file that is not the same in two lists of files (:meth:`Source.identity`)."""
    then, after = ({str(f[0]): f for f in files} for files in (before, now))
    differ = [name for name in then.keys() | after.keys() if then.get(name) != after.get(name)]
    return min(differ) if differ else "The order of the files"


def require_rows(source: Source, layout: Layout, position: Position) -> None:
    """Raise if no row of a source was used; the first rows are read again to find out why."""
    if not position.rows + position.bad:
        raise InputError("The data has no rows; leave it out, or check where they went.")
    if not position.dropped + position.bad or position.dropped < position.rows:
        return
    read = position.dropped + position.bad
    problem = f"All {read:,} rows were left out" if read > 1 else "The only row was left out"
    if not source.identity() or not position.dropped:
        raise InputError(f"{problem}, because each is broken or has a missing value.")
    table = next(
        source.chunks(layout.columns, layout.numeric, FOLD, ResumePoint(), strict=False)
    ).table
    numbers = {*layout.roles.features, *layout.roles.targets}
    gaps = {
        name: pc.sum(pc.is_null(table.column(name), nan_is_null=True)).as_py() for name in numbers
    }
    worst = max(gaps, key=lambda name: gaps[name])
    where = f"{gaps[worst]:,} of the first {table.num_rows:,} of them"
    raise InputError(
        f"{problem}: column {worst!r} has no number in {where}. Leave the column out, or fill it."
    )


class Consumer:
    """Receives the rows of a scan."""

    background = False  # whether rows may be added by another thread, while the next are read

    def add(self, chunk: Chunk, batch: Batch) -> None:
        """Take the next rows: the chunk has all of them as read, the batch the used ones as
        numbers.
        """
        raise NotImplementedError

    def pause(self) -> None:
        """Called where a run may be resumed: from here on, results must depend on :meth:`state` and
        later rows alone.
        """

    def another_pass(self) -> bool:
        """Whether the consumer needs all rows once more; if so, it is ready for them."""
        return False

    def state(self) -> Stored:
        """A JSON header and arrays from which :meth:`restore` continues."""
        return {}, {}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Continue from a checkpoint, which also holds the state of other consumers."""

    # On a cluster every partition has a consumer of its own (:mod:`karat.cluster.partitions`).

    def begin(self, partition: int) -> None:
        """The rows of a partition come next, and no others."""

    def add_arrays(self, arrays: dict[str, Any]) -> None:
        """Take the rows of a partition that comes as arrays."""
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        """Add the result of the consumer of a later partition."""
        raise NotImplementedError

    def merge_all(self, others: Sequence[Any]) -> None:
        """Add the results of several consumers; by default one after the other."""
        for other in others:
            self.merge(other)

    def pack(self) -> bytes:
        """The message that a consumer sends when it has taken all of its rows."""
        return pickle.dumps(self)

    def unpack(self, message: bytes) -> Any:
        """The consumer that was packed; this one is empty and of the same kind."""
        return pickle.loads(message)


class Reduce(Consumer):
    """Keeps a few rows with the moments of all, in a sketch; without a layout, rows are arrays."""

    def __init__(self, sketch: Sketch, layout: Layout | None) -> None:
        self.sketch, self.layout = sketch, layout

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.add_batch(batch, chunk.table.num_rows)

    def add_batch(self, batch: Batch, count: int) -> None:
        """Add a batch that stands for ``count`` rows of the source."""
        if len(batch):
            targets = () if self.layout is None else self.layout.roles.targets
            columns = sum(part.shape[1] for part in batch.parts) - len(targets)
            names = range(columns) if self.layout is None else self.layout.feature_names(columns)
            self.sketch.expect(
                columns,
                len(targets),
                self._like(batch),
                [repr(name) for name in [*names, *targets]],
            )
            self.sketch.take(batch, owned=True)
        self.sketch.summary.n_rows += count

    def _like(self, batch: Batch) -> dict[str, Any]:
        """The container in which rows are returned: windows and sparse samples have no column
        names.
        """
        problem, dense = self.sketch.problem, not sparse.issparse(batch.parts[0])
        if self.layout is not None and (
            not problem.has_view or (problem.rows_per_sample == 1 and dense)
        ):
            return self.layout.like(batch)
        return {
            "container": "array" if dense else "sparse",
            "columns": None,
            "target": None,
            "flat": False,
        }

    def pause(self) -> None:
        self.sketch.fold()

    def state(self) -> Stored:
        return self.sketch.state()


class LatentSums(Consumer):
    """The sums from which the maps of a latent-variable problem are computed.

    Attributes
    ----------
    samples : Samples
        Counts the rows, and the documents or sequences among them.
    sums : dict of arrays or None
        None before the first sample.
    """

    def __init__(
        self,
        problem: Latent,
        layout: Layout | None,
        widths: tuple[int, ...] | None,
        memory: int | None = None,
    ) -> None:
        self.problem, self.layout, self.memory = problem, layout, memory
        self.samples = Samples(problem, widths)
        self.sums: Sums | None = None

    def add(self, chunk: Chunk, batch: Batch) -> None:
        assert self.layout is not None
        names = self.layout.feature_names(sum(part.shape[1] for part in batch.parts))
        self.add_batch(batch, chunk.table.num_rows, chunk.where, names)
        pairs = (self.sums or {}).get("pairs")
        size = 0 if pairs is None else pairs.data.nbytes
        if self.memory is not None and size > self.memory // 4:
            raise InputError(
                f"Up to {chunk.where(0)}, pairs of words that occur together take {size:,} bytes,"
                f" more than a quarter of memory={self.memory:,}; allow more memory, or leave out"
                " rare words."
            )

    def add_batch(
        self, batch: Batch, count: int, where: Callable[[int], str], names: list[str] | None = None
    ) -> None:
        """Add a batch of ``count`` rows of the source; ``where`` and ``names`` are for error
        messages.
        """
        samples, _ = next_samples(self.samples, batch, count, where)
        if not len(samples):
            return
        try:
            self.plus(self.problem.sums(samples, whole=False))
        except NonFiniteError:
            columns = sum(part.shape[1] for part in batch.parts)
            error = explain_non_finite(
                batch.parts, [repr(name) for name in names or range(columns)]
            )
            raise InputError(f"Counting from {where(0)}: {error}") from None

    def plus(self, sums: Sums) -> None:
        self.sums = sums if self.sums is None else add(self.sums, sums)

    def total(self) -> Sums:
        """The sums of all samples."""
        if self.sums is None:
            raise InputError(self.problem.empty_message(self.samples.inputs, self.samples.dropped))
        return self.sums

    @property
    def notes(self) -> tuple[str, ...]:
        """What the certificate says about inputs that could not be used."""
        return self.problem.notes(self.samples.inputs, self.samples.dropped)

    def state(self) -> Stored:
        numbers, open_rows = self.samples.state()
        return {"first": numbers}, prefixed("first", open_rows) | prefixed(
            "sums", flat(self.sums or {})
        )

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.samples.restore(header["first"], without_prefix("first", arrays))
        self.sums = unflat(without_prefix("sums", arrays)) or None


def next_samples(samples: Samples, batch: Batch, count: int, where: Callable[[int], str]) -> Any:
    """``samples.take``, with the place of the rows in error messages."""
    try:
        return samples.take(batch, count)
    except InputError as error:
        raise InputError(f"Counting from {where(0)}: {error}") from error


class LearnLevels(Consumer):
    """Collects the levels of categories: of one-hot columns, or of the terms of a formula.

    Attributes
    ----------
    levels : dict
        By the name of the category.
    """

    levels: dict[str, set[Any]]

    def add_levels(self, kind: str, name: str, column: Any, remedy: str) -> None:
        """Add the distinct values of an Arrow column."""
        try:
            self.levels[name].update(pc.unique(column).to_pylist())
        except pa.ArrowNotImplementedError:
            raise InputError(
                f"The {kind} {name!r} has values of type {column.type}, which cannot be levels;"
                " convert it to text or numbers."
            ) from None
        if len(self.levels[name]) > MOST_LEVELS:
            raise InputError(
                f"The {kind} {name!r} has more than {MOST_LEVELS:,} levels; {remedy}.", column=name
            )
