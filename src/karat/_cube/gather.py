"""The cells of anything that holds rows: frames, files, queries and streams, and frames of Dask and Spark.

On a cluster the cells of a partition are made where it lies, and merged in a tree; only kept rows travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from karat._cluster.task import Partition, cluster_of
from karat._cube.build import collect, new_reducer
from karat._cube.cells import Cells, joined, label_list
from karat._cube.file import pack_cube, unpack_cube
from karat._cube.layout import CellLayout
from karat._cube.present import Present, unpacked
from karat._data.containers import collected
from karat.engine.rows import Progress
from karat.errors import InputError
from karat.io.scan import require_rows
from karat.io.source import open_source
from karat.problems import Problem

MODULUS = 2**64


def gather(
    data: Any, layout: CellLayout, problem: Problem, seed: int, origin: int, memory: int, content: bool,
    progress: Progress | None = None, present: Present | None = None,
) -> tuple[Cells, dict[str, Any], CellLayout]:  # fmt: skip
    """The cells of some rows, what is to be remembered of them, and the layout of their columns.

    ``origin`` is the number of the change that they are part of; ``present`` looks for kept rows among them.
    """
    cluster = cluster_of(data)
    if cluster is not None:
        known = layout.named(cluster.frame_schema(data).names)
        task = CubeTask(problem, known, seed, memory, content, present)
        cells, record = task.merged(cluster.messages(data, known, task))
        packed = record.pop("present")
        if present is not None:
            present.found |= unpacked(packed, len(present.found))
        cells = replace(cells, origins=((origin,),) * len(cells))
    else:
        opened = open_source(collected(data))
        known = layout.among(opened.schema())
        cells, record, position = collect(opened, known, problem, seed, origin, memory, content, progress, present)
        require_rows(opened, known, position)
    if not len(cells):
        raise InputError("The data has no rows that could be used; a cube needs at least one.")
    if record["content"]:
        record = record | {"content": [*record["content"], _label_digest(cells)]}
    return cells, record, known


def _label_digest(cells: Cells) -> str:
    """A digest of the labels and of how many rows each has: rows of other labels are other rows."""
    counted = sorted((repr(label), count) for label, count in zip(label_list(cells), cells.counts.tolist(), strict=True))
    return sha256(repr(counted).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class CubeTask:
    """What a worker must know.

    Attributes
    ----------
    problem : Problem
    layout : CellLayout
        Which knows its columns.
    seed, memory : int
    content : bool
    present : Present or None
        Kept rows to look for.
    """

    problem: Problem
    layout: CellLayout
    seed: int
    memory: int
    content: bool
    present: Present | None = None

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        """The cells of one partition, given as Arrow tables or batches; there are none if no row of it is left."""
        present = None if self.present is None else self.present.emptied()  # a task may serve several partitions
        source = Partition(number, [table for table in tables if table.num_rows])
        cells, found, _ = collect(source, self.layout, self.problem, self.seed, 0, self.memory, self.content, present=present)
        found["present"] = [] if present is None else [present.packed()]
        return pack_cube(cells, self.problem, self.layout, [found])

    def join(self, messages: Sequence[bytes]) -> bytes:
        """One message from several."""
        cells, record = self.merged(messages)
        return pack_cube(cells, self.problem, self.layout, [record])

    def merged(self, messages: Sequence[bytes]) -> tuple[Cells, dict[str, Any]]:
        """The cells of several messages, and what is to be remembered of them."""
        parts = [unpack_cube(message, "The message", self.problem) for message in messages]
        reducer = new_reducer(self.problem, self.layout, self.seed)
        return reducer.merged(joined([part[0] for part in parts])), _summed([part[3][0] for part in parts])


def _summed(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    content = None
    if all(record["content"] for record in records):
        content = [f"{sum(int(record['content'][i], 16) for record in records) % MODULUS:016x}" for i in (0, 1)]
    dropped = {name: sum(record["dropped"][name] for record in records) for name in ("missing", "broken")}
    rows = sum(record["rows"] for record in records)
    found = {"source": {"given": [], "files": []}, "rows": rows, "dropped": dropped, "content": content}
    return found | {"present": [text for record in records for text in record["present"]]}
