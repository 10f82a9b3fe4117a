"""The scan: rows of a source are read once, for everything that is to be done with them.

    for chunk in source:                 # as it lies in the file, without a copy where possible
        batch = layout.batch(chunk)      # the rows that count, as numbers
        for each consumer: add rows      # a sketch, sums, hashes, ... (:mod:`karat.io.consumers`)
        pause, save                      # every so many rows: folds, then a checkpoint
        progress

Pauses happen at places that depend on the files alone, so a resumed scan repeats what an
uninterrupted one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow.compute as pc

from karat.engine.rows import Progress
from karat.engine.stream import FOLD
from karat.errors import InputError
from karat.io.consumers import Consumer, next_samples
from karat.io.layout import Layout
from karat.io.source import ResumePoint, Source
from karat.stream.samples import Samples


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
    if position.point.file < len(source.names):
        with background_calls() as beside:
            for chunk in source.chunks(
                layout.columns, layout.numeric, rows, position.point, strict=not layout.drop
            ):
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
                    if since + more > rows:  # with as many again, they would be too many
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
        """Until all is done; raises what went wrong."""
        for call in self.pending:
            call.result()
        self.pending.clear()


@contextmanager
def background_calls() -> Iterator[BackgroundCalls]:
    """A thread for work whose result is needed only later; it ends with the context."""
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
    """Refuse a source of which no row is left; a second look at the first of them says why."""
    if not position.dropped + position.bad or position.dropped < position.rows:
        return
    said = f"All {position.dropped + position.bad:,} rows were left out"
    if not source.identity() or not position.dropped:
        raise InputError(f"{said}, because each is broken or lacks a value.")
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
        f"{said}: column {worst!r} has no number in {where}. Leave the column out, or fill it."
    )
