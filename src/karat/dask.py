"""Dask: partitions become sketches where they lie, and are merged in a tree of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from karat.errors import MissingExtraError

try:
    import pyarrow as pa
    from dask.delayed import Delayed, delayed
except ImportError:
    raise MissingExtraError("karat.dask", "dask") from None

from karat._cluster import Task, roles, task
from karat._coreset import Coreset
from karat._plan import FAN
from karat._sketch import Sketch
from karat.errors import InputError
from karat.problems import LeastSquares, Moments, Problem


def coreset(
    data: Any,
    target: Any = None,
    problem: Problem | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    key: str | None = None,
    on_missing: str = "error",
    random_state: int = 0,
    compute: bool = True,
) -> Coreset | Delayed:
    """The coreset of a Dask data frame or array; only O(m) rows per partition travel.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
    target : str or list of str; for an array, a Dask array of shape (n,) or (n, T)
    problem : Problem, optional
        As in :func:`karat.coreset`; latent problems, which take two passes, are refused.
    columns : list of str, optional
        The features of a data frame; by default all columns that have no other role.
    sample_weight, groups
        Columns of a data frame; for an array, Dask arrays of shape (n,).
    key : str, optional
        A column of a data frame that identifies rows.  Without one the keys are ``partition:offset``.
    on_missing : {"error", "drop"}
        What to do with rows of a data frame that lack a value.
    random_state : int
    compute : bool
        False: nothing is computed, a :class:`dask.delayed.Delayed` is returned.

    Returns
    -------
    Coreset or Delayed
    """
    if hasattr(data, "npartitions") and hasattr(data, "columns"):
        work, parts = _frame(data, target, problem, columns, sample_weight, groups, key, on_missing, random_state)
    elif hasattr(data, "chunks") and hasattr(data, "rechunk"):
        given = {"columns": columns, "key": key, "on_missing": None if on_missing == "error" else on_missing}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} is for data frames; an array has no column names.")
        work, parts = _array(data, target, problem, sample_weight, groups, random_state)
    else:
        raise InputError(f"data must be a Dask data frame or array, not {type(data).__name__}; use karat.coreset.")
    while len(parts) > FAN:
        parts = [delayed(work.join, pure=False)(parts[i : i + FAN]) for i in range(0, len(parts), FAN)]
    result = delayed(work.finish, pure=False)(parts, "partitions merged by Dask")
    return result.compute() if compute else result


def _frame(
    data: Any, target: Any, problem: Problem | None, columns: Sequence[str] | None, sample_weight: Any, groups: Any,
    key: str | None, on_missing: str, random_state: int,
) -> tuple[Task, list[Any]]:  # fmt: skip
    targets, features = roles([str(c) for c in data.columns], target, columns, sample_weight, groups, key)
    work = task(problem, targets, features, sample_weight, groups, key, on_missing, random_state)
    assert work.layout is not None
    parts = data[work.layout.columns].to_delayed()
    return work, [delayed(_part_of_frame, pure=False)(work, i, part) for i, part in enumerate(parts)]


def _part_of_frame(work: Task, number: int, frame: Any) -> bytes:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    assert work.layout is not None
    work.layout.check(table.schema)
    return work.part(number, [table])


def _array(
    X: Any, y: Any, problem: Problem | None, sample_weight: Any, groups: Any, random_state: int
) -> tuple[Task, list[Any]]:
    if problem is None:
        problem = Moments(2) if y is None else LeastSquares()
    Sketch(problem, random_state=random_state)  # refuses, with a sentence, what cannot be merged
    X = X.rechunk({1: -1})
    aligned: list[list[Any]] = []
    for name, other in (("target", y), ("sample_weight", sample_weight), ("groups", groups)):
        if other is not None and (not hasattr(other, "rechunk") or other.shape[0] != X.shape[0]):
            raise InputError(f"{name} must be a Dask array with as many rows as the data, {X.shape[0]}.")
        if other is None:
            aligned.append([None] * len(X.chunks[0]))
        else:
            chunks = (X.chunks[0],) if other.ndim == 1 else (X.chunks[0], -1)
            aligned.append(list(np.ravel(other.rechunk(chunks).to_delayed())))
    work = Task(problem, None, int(random_state))
    parts = zip(np.ravel(X.to_delayed()), *aligned, strict=True)
    return work, [delayed(work.part_of_arrays, pure=False)(i, *part) for i, part in enumerate(parts)]
