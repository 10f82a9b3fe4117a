"""karat.cube: a cube of any data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from karat.core.synthetic import KEEP, REAL, SYNTHETIC, check_rows_argument
from karat.cubes.base import Cube
from karat.cubes.build import gather_cells, stamped
from karat.cubes.cells import CellLayout
from karat.cubes.file import output_path
from karat.cubes.fourth import check_cov
from karat.cubes.hash_file import check_place
from karat.data.arguments import check_mergeable, column_problem
from karat.engine.rows import Progress
from karat.errors import InputError, check_integer, check_memory
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
    rows: Literal["synthetic", "real"] | None = None,
    cov: Literal["HC0", "HC1"] | None = None,
    hashes: Literal["inside", "beside"] = "inside",
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
        What must not change; :class:`~karat.problems.LeastSquares` if there is a target, else
        ``Moments(2)``.
    columns : list of str, optional
        The features; by default all columns that have no other role.
    sample_weight, key : str, optional
        Columns with weights, and with keys that identify rows.
    on_missing : {"error", "drop"}
        What to do with rows that have missing values.
    path : path, optional
        A Parquet file to write the cube, and later changes of it, to.
    rows : {"synthetic", "real"}, optional
        What a cell keeps: d + 2 synthetic rows, which are made (:doc:`/synthetic`), or real rows of
        the data, up to (d + 2)(d + 3) / 2 of them, with their keys.  By default synthetic rows for
        losses of degree 2, unless the data has integers beyond 2**53; cells of which no exact rows
        can be made keep real ones.
    cov : {"HC0", "HC1"}, optional
        Keep what tables of this cube and of its slices need for both of these covariances,
        ``karat.ols(formula, cube, cov_type="HC1")``: (d + 5 choose 4) numbers a cell, 5.7 kilobytes
        for 8 columns and a target.
    hashes : {"inside", "beside"}
        Whether hashes are in that file, or in a file of their own beside it.
    memory : int
        Bytes that the run may use, in addition to the interpreter and to the hashes, of about 40
        bytes a row and 64 with keys (on a cluster, per partition).
    random_state : int
        Seed for the choice of rows; the coresets are exact for any seed.
    content : bool
        Hash the rows, or the keys, so that they are not added again later.
    progress : callable, optional
        Called with (bytes done, bytes in all) after every batch.

    Returns
    -------
    Cube

    Examples
    --------
    >>> import numpy as np, pandas as pd, karat
    >>> rng = np.random.default_rng(0)
    >>> region = np.repeat(["EU", "US", "AP"], 3000)
    >>> frame = pd.DataFrame({"x": rng.standard_normal(9000), "region": region})
    >>> frame["y"] = 2 * frame.x + rng.standard_normal(9000)
    >>> cube = karat.cube(frame, target="y", by="region")
    >>> cube
    Cube(3 cells by region, 9 synthetic rows for 9,000 rows, LeastSquares())
    >>> cube.select(region=["EU", "US"]).n_rows
    6000
    """
    problem = check_mergeable(column_problem(problem, target))
    check_integer("random_state", random_state, 0)
    if problem.absorb is not None:
        raise InputError(
            "A cube does not support absorb: an absorbed coreset is exact for one fit of one alpha."
        )
    check_memory(memory)
    check_place(hashes)
    if progress is not None and not callable(progress):
        raise InputError(
            f"progress must be a function of two numbers, not {progress!r}.", argument="progress"
        )
    if path is not None:
        output_path(path)
    if rows is not None:
        check_rows_argument(rows, problem, "auto", KEEP)
    kind = rows or (REAL if problem.needs_real_rows else SYNTHETIC)
    sums = None if cov is None else check_cov(cov, problem, kind)
    layout = CellLayout.for_cells(
        problem, target, by, columns, sample_weight, key, on_missing, kind, sums
    )
    seed = int(random_state)
    cells, record, layout = gather_cells(
        data, layout, problem, seed, 0, memory, content, progress, either=rows is None
    )
    history = [stamped({"change": "build"} | record)]
    made = Cube(cells, problem, layout, history, hashes, seed=seed)
    if path is not None:
        made.save(path)
    return made
