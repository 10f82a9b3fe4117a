"""karat.cube: a cube of rows in frames, files, databases and clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from karat._cube.base import Cube, stamped
from karat._cube.build import gather_cells
from karat._cube.file import output_path
from karat._cube.layout import CellLayout
from karat._data.roles import column_problem
from karat._stream.admission import check_mergeable
from karat.engine.rows import Progress
from karat.errors import InputError, check_memory, check_whole
from karat.io.build import MEMORY
from karat.problems import Problem


def cube(
    data: Any,
    target: str | Sequence[str] | None = None,
    by: str | Sequence[str] = (),
    problem: Problem | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    key: str | None = None,
    on_missing: Literal["error", "drop"] = "error",
    path: str | Path | None = None,
    memory: int = MEMORY,
    random_state: int = 0,
    content: bool = True,
    progress: Progress | None = None,
) -> Cube:
    """An exact coreset for every cell, so that any slice, window or refit is a union of a few rows.

    Parameters
    ----------
    data : frame, path, list of paths, query, stream, Dask or Spark frame
        As in :func:`karat.coreset_files`; a frame of pandas or polars, or an Arrow table.
    target : str or list of str, optional
        The target column or columns.
    by : str or list of str
        The columns that label cells: text, numbers, dates or times.
    problem : Problem, optional
        What must not change; :class:`~karat.problems.LeastSquares` if there is a target, else ``Moments(2)``.
    columns : list of str, optional
        The features; by default all columns that have no other role.
    sample_weight, key : str, optional
        Columns with weights, and with keys that identify rows.
    on_missing : {"error", "drop"}
        What to do with rows that lack a value.
    path : path, optional
        A Parquet file to write the cube, and later changes of it, to.
    memory : int
        Bytes beside the interpreter that the run may use (on a cluster, for each partition).
    random_state : int
        The choice of rows depends on it, the exactness does not.
    content : bool
        Hash the rows, so that the same rows are not added twice later.
    progress : callable, optional
        Called with (bytes done, bytes in all) after every batch.

    Returns
    -------
    Cube

    Examples
    --------
    >>> import numpy as np, pandas as pd, karat
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"x": rng.standard_normal(9000), "region": np.repeat(["EU", "US", "AP"], 3000)})
    >>> frame["y"] = 2 * frame.x + rng.standard_normal(9000)
    >>> cube = karat.cube(frame, target="y", by="region")
    >>> cube
    Cube(3 cells by region, 18 of 9,000 rows, LeastSquares())
    >>> cube.select(region=["EU", "US"]).n_rows
    6000
    """
    problem = check_mergeable(column_problem(problem, target))
    check_whole("random_state", random_state, 0)
    if problem.absorb is not None:
        raise InputError("absorb and cells do not go together: an absorbed coreset serves one fit of one alpha.")
    check_memory(memory)
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function of two numbers, not {progress!r}.", argument="progress")
    if path is not None:
        output_path(path)
    layout = CellLayout.for_cells(problem, target, by, columns, sample_weight, key, on_missing)
    seed = int(random_state)
    cells, record, layout = gather_cells(data, layout, problem, seed, 0, memory, content, progress)
    made = Cube(cells, problem, layout, [stamped({"change": "build"} | record)], seed=seed)
    if path is not None:
        made.save(path)
    return made
