"""The cells of anything that holds rows: frames, files, queries, streams, and partitions of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from karat._core.construct import Progress
from karat._cube.build import collect, new_reducer
from karat._cube.cells import Cells
from karat._cube.cluster import CubeTask, from_dask, from_spark
from karat._cube.layout import CellLayout
from karat._data.containers import collected
from karat.errors import InputError
from karat.io.source import open_source
from karat.problems import Problem

Gathered = tuple[Cells, dict[str, Any], CellLayout]


def gather(
    data: Any, layout: CellLayout, problem: Problem, seed: int, origin: int, memory: int, content: bool,
    progress: Progress | None = None,
) -> Gathered:  # fmt: skip
    """The cells of some rows, what is to be remembered of them, and the layout of their columns.

    ``origin`` is the number of the change that they are part of.
    """

    def task(known: CellLayout) -> CubeTask:
        return CubeTask(problem, known, seed, memory, content)

    on_cluster = None
    if hasattr(data, "npartitions") and hasattr(data, "to_delayed"):
        on_cluster = from_dask
    elif hasattr(data, "mapInArrow"):
        on_cluster = from_spark
    if on_cluster is not None:
        found = on_cluster(data, layout, task)
        if found is None:
            raise InputError("The data has no rows that could be used; a cube needs at least one.")
        return replace(found[0], origins=((origin,),) * len(found[0])), *found[1:]
    opened = open_source(collected(data))
    known = layout.among(opened.schema())
    return *collect(opened, known, new_reducer(problem, known, seed), origin, memory, content, progress), known
