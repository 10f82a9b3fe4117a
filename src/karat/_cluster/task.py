"""What every cluster does: a sketch per partition, where it lies; messages of O(m) rows, merged in a tree.

    message  = bytes of a sketch: at most rank rows per group, and peeled ones  # all that ever travels
    join     = FAN messages become one, in the order of their partitions
    finish   = the coreset of all

A partition is a source like a file, and a worker scans it likewise (:mod:`karat.io.scan`).  Rows are numbered through
the partitions in order; unless a key column identifies them, their keys are ``partition:offset``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat._core.coreset import Coreset
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
from karat.problems.latent import KnownMaps

OFFSET = "partition:offset"
SHIFT = 40  # a partition and an offset in one number, while they travel
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
    """

    problem: Problem
    layout: Layout | None
    seed: int
    before: int = 0
    rows: int = 0
    notes: tuple[str, ...] = ()

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
        if roles.key is None:
            layout = replace(layout, roles=replace(roles, key=OFFSET))
        reduce = Reduce(self.sketch(), layout)
        samples = Samples(self.problem.problem, roles.widths) if isinstance(self.problem, KnownMaps) else None
        position = scan(Partition(number, tables), layout, [hashes, reduce], WHOLE, samples=samples)
        return _message(reduce.sketch, {"dropped": position.dropped, "content": hashes.rows.to_dict()})

    def part_of_arrays(self, number: int, X: Any, y: Any, weights: Any, groups: Any) -> bytes:
        """The message of one partition, given as arrays."""
        sketch = self.sketch()
        if len(X):
            try:
                sketch.update_keyed(X, y, weights, groups, offsets(number, 0, len(X)))
            except InputError as error:
                raise InputError(f"Partition {number}: {error}") from error
        return _message(sketch, {"content": array_hashes({"x": X, "y": y, "weight": weights, "group": groups})})

    def part_of_views(self, number: int, views: Sequence[Any], weights: Any, sequence: Any) -> bytes:
        """The message of one partition of a latent-variable problem, given as arrays."""
        assert isinstance(self.problem, KnownMaps)
        reduce, batch = Reduce(self.sketch(), None), array_batch(number, views, weights, sequence)
        if len(batch):
            samples = Samples(self.problem.problem, self.problem.widths)
            reduce.add_batch(taken(samples, batch, len(batch), place(number))[1], len(batch))
        named = {f"view{i}_": view for i, view in enumerate(views)} | {"weight": weights, "sequence": sequence}
        return _message(reduce.sketch, {"content": array_hashes(named)})

    def join(self, messages: Sequence[bytes]) -> bytes:
        """One message from several."""
        return _message(*self._merged(messages))

    def finish(self, messages: Sequence[bytes], way: str) -> Coreset:
        """The coreset, from the messages that are left."""
        sketch, state = self._merged(messages)
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

    def _merged(self, messages: Sequence[bytes]) -> tuple[Sketch, dict[str, Any]]:
        opened = [unpack(message, "The message", "a sketch") for message in messages]
        sketch = self.sketch().merge(*(Sketch.restore(*one, "The message", self.problem) for one in opened))
        states = [header["extra"] for header, _ in opened]
        state = {name: sum(one[name] for one in states) for name in COUNTS}
        state["travelled"] += sum(map(len, messages))
        return sketch, state | {"content": joined_hashes([one["content"] for one in states])}


def _message(sketch: Sketch, state: dict[str, Any]) -> bytes:
    return pack(*sketch.state({"dropped": 0, "travelled": 0, "parts": 1} | state))


class Partition(Source):
    """The rows of one partition, each with a key that says where it is."""

    def __init__(self, number: int, tables: Iterable[Any]) -> None:
        self.number, self.tables, self.names = number, tables, [f"Partition {number}"]

    def read_schema(self) -> pa.Schema:
        raise NotImplementedError  # columns are checked before they are sent

    def chunks(
        self, columns: Sequence[str], numeric: Sequence[str], rows: int, start: ResumePoint, strict: bool
    ) -> Iterator[Chunk]:
        done = 0
        for table in self.tables:
            whole = table
            if OFFSET in columns:
                column = pa.array(offsets(self.number, done, table.num_rows))
                whole = table.append_column(OFFSET, column if isinstance(table, pa.RecordBatch) else [column])
            yield Chunk(self, whole, 0, done, None)
            done += table.num_rows


def offsets(number: int, start: int, count: int) -> np.ndarray:
    """The keys of rows of a partition."""
    return (number << SHIFT) + np.arange(start, start + count)


def place(number: int) -> Callable[[int], str]:
    """Rows of a partition, for error messages."""
    return lambda row: f"Partition {number}, row {row:,}"


def array_batch(number: int, views: Sequence[Any], weights: Any, sequence: Any) -> Batch:
    """The rows of a partition that comes as arrays."""
    parts = [np.asarray(view) if np.ndim(view) == 2 else np.asarray(view)[:, None] for view in views]
    count = len(parts[0])
    for part in parts:
        bad = np.argwhere(~np.isfinite(part)) if part.dtype.kind == "f" else np.zeros((0, 2), dtype=int)
        if len(bad):
            raise InputError(f"{place(number)(bad[0, 0])}: column {bad[0, 1]} is not finite; drop or fix the row.")
    own = None if weights is None else np.asarray(weights, dtype=float)
    if own is not None and not (own >= 0).all():
        raise InputError(f"{place(number)(int(np.argmin(own >= 0)))}: the weight is not a number of at least 0.")
    labels = None if sequence is None else np.asarray(sequence)
    return Batch(parts, np.arange(count), own, labels, offsets(number, 0, count))


def array_hashes(arrays: dict[str, Any]) -> dict[str, Any] | None:
    """The hashes of the rows of some arrays, whose columns are numbered; None where they are not plain arrays."""
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        if array is None:
            continue
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufU":
            return None
        columns |= {f"{name}{i}": column for i, column in enumerate(array.reshape(len(array), -1).T)}
    hashes = RowHashes(list(columns))
    hashes.add(pa.table({name: np.ascontiguousarray(column) for name, column in columns.items()}))
    return hashes.to_dict()
