"""What every cluster does: a sketch per partition, where it lies; messages of O(m) rows, merged in a tree.

    message  = bytes of a sketch: at most rank rows per group, and peeled ones; small groups as they are  # all that travels
    join     = FAN messages become one, in the order of their partitions
    finish   = the coreset of all

A partition is a source like a file, and a worker scans it likewise (:mod:`karat.io.scan`).  Rows are numbered through
the partitions in order; unless a key column identifies them, their keys are ``partition:offset``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat._cluster.arrays import SHIFT, array_hashes, local, offsets, place, views_batch
from karat._cluster.sequences import StepHashes, steps_of
from karat._cluster.waiting import compact, from_arrays, set_aside, take_large, to_arrays
from karat._core.coreset import Coreset
from karat._core.export import free_name
from karat._core.plan import FAN
from karat._data import containers
from karat._data.batch import Batch
from karat._data.roles import ColumnRoles
from karat._storage.archive import pack, unpack
from karat._stream.samples import Samples, finished
from karat._stream.sketch import Sketch
from karat.errors import InputError
from karat.io.consumers import Hashes, Reduce, taken
from karat.io.layout import Layout
from karat.io.row_hashes import RowHashes, joined_hashes
from karat.io.scan import scan
from karat.io.source import Chunk, ResumePoint, Source
from karat.problems import Problem
from karat.problems.latent import HiddenMarkov, KnownMaps

OFFSET = "partition:offset"
WHOLE = 2**62  # rows between pauses of a scan: a partition has none
COUNTS = ("dropped", "travelled", "parts")


@dataclass(frozen=True)
class Task:
    """What a worker must know.

    Attributes
    ----------
    problem : Problem
        Which has been lowered.
    layout : Layout or None
        How rows are read; None where they come as arrays.
    seed : int
    before : int
        Bytes that travelled in a first pass.
    rows : int
        Rows seen in a first pass.
    notes : tuple of str
        What the first pass has to say, for the certificate.
    content : dict or None
        Hashes of the rows of a first pass, which the second must read again.
    """

    problem: Problem
    layout: Layout | None
    seed: int
    before: int = 0
    rows: int = 0
    notes: tuple[str, ...] = ()
    content: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.sketch()  # refuses what cannot be merged

    def sketch(self) -> Sketch:
        """An empty one, with keys in any case; offsets cannot come twice, so they need no fingerprint."""
        sketch = Sketch(self.problem, "key", random_state=self.seed)
        sketch.checks_keys = self.layout is not None and self.layout.roles.key is not None
        return sketch

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        """The message of one partition, given as Arrow tables or batches."""
        assert self.layout is not None
        layout, roles = self.layout, self.layout.roles
        hashes = Hashes(RowHashes(layout.columns, layout.gaps))
        source = Partition(number, tables)
        if roles.key is None:
            source.offset = free_name(OFFSET, layout.columns)
            layout = replace(layout, roles=replace(roles, key=source.offset))
        reduce = Reduce(self.sketch(), layout)
        samples = Samples(self.problem.problem, roles.widths) if isinstance(self.problem, KnownMaps) else None
        steps = [StepHashes(self.layout.columns, roles.sequence)] if self.ordered else []
        position = scan(source, layout, [hashes, *steps, reduce], WHOLE, samples=samples)
        again = steps[0].rows.to_dict() if steps else None
        state = {"dropped": position.dropped, "content": hashes.rows.to_dict(), "again": again}
        return self._first_message(reduce.sketch, state)

    def part_of_arrays(self, number: int, X: Any, y: Any, weights: Any, groups: Any) -> bytes:
        """The message of one partition, given as arrays."""
        sketch, X = self.sketch(), local(X)
        count = containers.row_count(X)
        if count:
            try:
                sketch.update_keyed(X, y, weights, groups, offsets(number, 0, count))
            except InputError as error:
                raise InputError(f"Partition {number}: {error}") from error
        content = array_hashes({"x": X, "y": y, "weight": weights, "group": groups})
        return self._first_message(sketch, {"content": content})

    def part_of_views(self, number: int, views: Sequence[Any], weights: Any, sequence: Any) -> bytes:
        """The message of one partition of a latent-variable problem, given as arrays."""
        assert isinstance(self.problem, KnownMaps)
        views = [local(view) for view in views]
        reduce, batch = Reduce(self.sketch(), None), views_batch(number, self.problem.problem, views, weights, sequence)
        if len(batch):
            samples = Samples(self.problem.problem, self.problem.widths)
            reduce.add_batch(taken(samples, batch, len(batch), place(number))[1], len(batch))
        again = views_hashes(views, weights, sequence, True) if self.ordered else None
        return self._first_message(reduce.sketch, {"content": views_hashes(views, weights, sequence), "again": again})

    def _first_message(self, sketch: Sketch, state: dict[str, Any]) -> bytes:
        """The message of a partition, of which the sketch has taken all rows."""
        counts = {"dropped": 0, "travelled": 0, "parts": 1, "again": None}
        return _message(*set_aside(sketch, self.sketch), counts | state)

    def join(self, messages: Sequence[bytes]) -> bytes:
        """One message from several."""
        return _message(*self._merged(messages))

    def finish(self, messages: Sequence[bytes], way: str) -> Coreset:
        """The coreset, from the messages that are left."""
        sketch, waiting, state = self._merged(messages)
        for batch in waiting:
            sketch.take(batch, owned=True)
        self._compare(state["again"] if self.ordered else state["content"])
        core = sketch.coreset()
        layout = Layout(ColumnRoles()) if self.layout is None else self.layout
        if layout.roles.key is None:
            core = replace(core, keys=np.array([f"{k >> SHIFT}:{k % 2**SHIFT}" for k in core.keys.tolist()]))  # type: ignore[union-attr]
        notes = [*core.certificate.notes, f"{state['parts']} partitions sent {self.before + state['travelled']:,} bytes."]
        if state["dropped"]:
            notes.append(f"{state['dropped']:,} rows with missing values were left out.")
        certificate = replace(core.certificate, method=f"{core.certificate.method}, {way}", notes=tuple(notes))
        core = replace(core, certificate=certificate)
        if isinstance(self.problem, KnownMaps):
            core = finished(core, self.rows, self.notes)
        source: dict[str, Any] = {"given": [], "files": []}
        dropped = {"missing": state["dropped"], "broken": 0}
        provenance = layout.provenance(core.problem, int(self.seed), source, dropped, state["content"])
        return replace(core, provenance=provenance)

    def _merged(self, messages: Sequence[bytes]) -> tuple[Sketch, list[Batch], dict[str, Any]]:
        sketch, parts, waiting, states, before = self.sketch(), [], [], [], 0
        for message in messages:
            header, arrays = unpack(message, "The message", "a sketch")
            part, state = Sketch.restore(header, arrays, "The message", self.problem), header["extra"]
            seen = part.summary
            if seen.like is not None:
                sketch.expect(seen.columns, seen.targets, seen.like, seen.names)
            waiting += [replace(one, numbers=one.numbers + before) for one in from_arrays(arrays, state["waiting"])]
            before += part.n_rows
            parts.append(part)
            states.append(state)
        sketch.merge(*parts)
        state = {name: sum(one[name] for one in states) for name in COUNTS}
        state["travelled"] += sum(map(len, messages))
        state |= {name: joined_hashes([one[name] for one in states]) for name in ("content", "again")}
        return sketch, compact(take_large(sketch, compact(waiting))), state

    @property
    def ordered(self) -> bool:
        """Whether the places of rows in their sequences count."""
        return isinstance(self.problem, KnownMaps) and isinstance(self.problem.problem, HiddenMarkov)

    def _compare(self, content: dict[str, Any] | None) -> None:
        """Refuse a second pass over other rows than the first."""
        if self.content is not None and (content is None or _seen(content) != _seen(self.content)):
            raise InputError(
                f"The second pass read other rows than the first, or read them in another order: {self.rows:,} rows in the "
                "first pass. The source must give the same rows both times; write it to files, or persist it, first."
            )


def cluster_of(data: Any) -> Any:
    """The module for a frame whose rows lie in partitions; None for other data."""
    if hasattr(data, "npartitions") and hasattr(data, "to_delayed"):
        from karat import dask

        return dask
    if hasattr(data, "mapInArrow"):
        from karat import spark

        return spark
    return None


def tree(work: Any, messages: list[Any]) -> list[Any]:
    """Messages of partitions, joined until few are left; work and messages may be delayed."""
    while len(messages) > FAN:
        messages = [work.join(messages[i : i + FAN]) for i in range(0, len(messages), FAN)]
    return messages


def _seen(content: dict[str, Any]) -> tuple[Any, Any]:
    """What tells rows from others, whatever partitions they are in."""
    return content["rows"], content["sums"]


def views_hashes(views: Sequence[Any], weights: Any, sequence: Any, ordered: bool = False) -> dict[str, Any]:
    """The hashes of the rows of a partition that comes as arrays; if ``ordered``, with their places in their sequences."""
    named = {f"view{i}_": view for i, view in enumerate(views)} | {"weight": weights, "sequence": sequence}
    return array_hashes(named | ({"step": steps_of(sequence, containers.row_count(views[0]))} if ordered else {}))


def _message(sketch: Sketch, waiting: list[Batch], state: dict[str, Any]) -> bytes:
    header, arrays = sketch.state(state | {"waiting": len(waiting)})
    return pack(header, arrays | to_arrays(waiting))


class Partition(Source):
    """The rows of one partition, each with a key that says where it is."""

    def __init__(self, number: int, tables: Iterable[Any]) -> None:
        self.number, self.tables, self.names = number, tables, [f"Partition {number}"]
        self.offset: str | None = None  # the name of the column of offsets, if there is one

    def read_schema(self) -> pa.Schema:
        raise NotImplementedError  # columns are checked before they are sent

    def chunks(
        self, columns: Sequence[str], numeric: Sequence[str] | None, rows: int, start: ResumePoint, strict: bool
    ) -> Iterator[Chunk]:
        done = 0
        for table in self.tables:
            whole = table
            if self.offset is not None:
                column = pa.array(offsets(self.number, done, table.num_rows))
                whole = table.append_column(self.offset, column)
            yield Chunk(self, whole, 0, done, None)
            done += table.num_rows
