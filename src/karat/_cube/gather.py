"""The cells of anything that holds rows: frames, files, queries, streams, and partitions of a cluster."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

from karat._core.construct import Progress
from karat._cube.build import collect
from karat._cube.cells import Cells, label_list
from karat._cube.cluster import CubeTask, cluster_of
from karat._cube.layout import CellLayout
from karat._data.containers import collected
from karat.errors import InputError
from karat.io.source import open_source
from karat.problems import Problem


def gather(
    data: Any, layout: CellLayout, problem: Problem, seed: int, origin: int, memory: int, content: bool,
    progress: Progress | None = None,
) -> tuple[Cells, dict[str, Any], CellLayout]:  # fmt: skip
    """The cells of some rows, what is to be remembered of them, and the layout of their columns.

    ``origin`` is the number of the change that they are part of.
    """
    cluster = cluster_of(data)
    if cluster is not None:
        known = layout.named([str(name) for name in data.columns])
        task = CubeTask(problem, known, seed, memory, content)
        found = task.merged(cluster.messages(data, known, task))
        if found is None:
            raise InputError("The data has no rows that could be used; a cube needs at least one.")
        cells, record = found
        cells = replace(cells, origins=((origin,),) * len(cells))
    else:
        opened = open_source(collected(data))
        known = layout.among(opened.schema())
        cells, record = collect(opened, known, problem, seed, origin, memory, content, progress)
    if record["content"]:
        record = record | {"content": [*record["content"], _label_digest(cells)]}
    return cells, record, known


def _label_digest(cells: Cells) -> str:
    """A digest of the labels and of how many rows each has: rows of other labels are other rows."""
    counted = sorted((repr(label), count) for label, count in zip(label_list(cells), cells.counts.tolist(), strict=True))
    return sha256(repr(counted).encode()).hexdigest()[:16]
