"""Dask: partitions become sketches where they lie, and are merged in a tree of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from karat.errors import MissingExtraError

try:
    import pyarrow as pa
    from dask.delayed import Delayed, delayed
    from dask.graph_manipulation import clone
except ImportError:
    raise MissingExtraError("karat.dask", "dask") from None

from karat._cluster.latent import FirstTask
from karat._cluster.task import Task
from karat._core.coreset import Coreset
from karat._core.plan import FAN
from karat._data.checks import check_taken
from karat._data.roles import column_roles, refuse_sequence
from karat.errors import InputError
from karat.io.build import checked_problem
from karat.io.layout import Layout
from karat.problems import Problem
from karat.problems.latent import Latent, MultiView


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
    sequence: Any = None,
    compute: bool = True,
) -> Coreset | Delayed:
    """The coreset of a Dask data frame or array; only O(m) rows per partition travel.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
        For MultiView also a tuple of three arrays.
    target : str or list of str; for an array, a Dask array of shape (n,) or (n, T)
    problem : Problem, optional
        As in :func:`karat.coreset`.  Latent-variable problems read the data twice.
    columns : list of str, optional
        The features of a data frame; by default all columns that have no other role.  For MultiView, three lists.
    sample_weight, groups
        Columns of a data frame; for an array, Dask arrays of shape (n,).
    key : str, optional
        A column of a data frame that identifies rows.  Without one the keys are ``partition:offset``.
    on_missing : {"error", "drop"}
        What to do with rows of a data frame that lack a value.
    random_state : int
    sequence
        For HiddenMarkov: a column (for an array, a Dask array) that names the sequence of every row.  No sequence may lie in
        two partitions.
    compute : bool
        False: nothing is computed, a :class:`dask.delayed.Delayed` is returned.

    Returns
    -------
    Coreset or Delayed
    """
    if isinstance(problem, Latent):
        check_taken(problem, y=target, groups=groups)
        return _two_passes(data, problem, columns, sample_weight, sequence, key, on_missing, random_state, compute)
    refuse_sequence(problem, sequence)
    if hasattr(data, "npartitions") and hasattr(data, "columns"):
        work, parts = _frame(data, target, problem, columns, sample_weight, groups, key, on_missing, random_state)
    elif hasattr(data, "chunks") and hasattr(data, "rechunk"):
        _refuse_names(columns, key, on_missing)
        work, parts = _array(data, target, problem, sample_weight, groups, random_state)
    else:
        raise InputError(f"data must be a Dask data frame or array, not {type(data).__name__}; use karat.coreset.")
    return _finished(delayed(work, pure=False, traverse=False), parts, compute)


def _tree(work: Delayed, parts: list[Any]) -> list[Any]:
    """Messages joined until few are left."""
    while len(parts) > FAN:
        parts = [work.join(parts[i : i + FAN]) for i in range(0, len(parts), FAN)]
    return parts


def _finished(work: Delayed, parts: list[Any], compute: bool) -> Coreset | Delayed:
    result = work.finish(_tree(work, parts), "partitions merged by Dask")
    return result.compute() if compute else result


def _refuse_names(columns: Any, key: Any, on_missing: str) -> None:
    given = {"columns": columns, "key": key, "on_missing": None if on_missing == "error" else on_missing}
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is for data frames; an array has no column names.")


def _frame(
    data: Any, target: Any, problem: Problem | None, columns: Sequence[str] | None, sample_weight: Any, groups: Any,
    key: str | None, on_missing: str, random_state: int,
) -> tuple[Task, list[Any]]:  # fmt: skip
    problem = checked_problem(problem, target)
    roles = column_roles(problem, target, columns, sample_weight, groups, key, None).among([str(c) for c in data.columns])
    work = Task(problem, Layout.of(problem, roles, None, on_missing), random_state)
    return work, [delayed(_part_of_frame, pure=False)(work, i, part) for i, part in enumerate(data[roles.columns].to_delayed())]


def _part_of_frame(work: Task | FirstTask, number: int, frame: Any) -> bytes:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    assert work.layout is not None
    work.layout.among(table.schema)
    return work.part(number, [table])


def _array(
    X: Any, y: Any, problem: Problem | None, sample_weight: Any, groups: Any, random_state: int
) -> tuple[Task, list[Any]]:
    problem = checked_problem(problem, None if y is None else "y")
    parts = _aligned(X, {"target": y, "sample_weight": sample_weight, "groups": groups})
    work = Task(problem, None, random_state)
    return work, [delayed(work.part_of_arrays, pure=False)(i, *part) for i, part in enumerate(parts)]


def _aligned(X: Any, others: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The chunks of rows of an array, each with the same rows of others."""
    X = X if X.ndim == 1 else X.rechunk({1: -1})
    aligned = [list(np.ravel(X.to_delayed()))]
    for name, other in others.items():
        if other is not None and (not hasattr(other, "rechunk") or other.shape[0] != X.shape[0]):
            raise InputError(f"{name} must be a Dask array with as many rows as the data, {X.shape[0]}.")
        if other is None:
            aligned.append([None] * len(X.chunks[0]))
        else:
            chunks = (X.chunks[0],) if other.ndim == 1 else (X.chunks[0], -1)
            aligned.append(list(np.ravel(other.rechunk(chunks).to_delayed())))
    return list(zip(*aligned, strict=True))


def _two_passes(
    data: Any, problem: Latent, columns: Any, sample_weight: Any, sequence: Any, key: str | None, on_missing: str,
    random_state: int, compute: bool,
) -> Coreset | Delayed:  # fmt: skip
    """The coreset of a latent-variable problem.

    Partitions are read again for the second pass: kept in between, they would fill the memory.
    """
    first: Callable[..., bytes]
    second: Callable[..., bytes]
    views = data if isinstance(data, tuple | list) else (data,)
    if hasattr(data, "npartitions") and hasattr(data, "columns"):
        names = [str(c) for c in data.columns]
        roles = column_roles(problem, None, columns, sample_weight, None, key, sequence).among(names)
        work = FirstTask(problem, Layout.of(problem, roles, None, on_missing), roles.widths, int(random_state))
        parts = [(i, part) for i, part in enumerate(data[roles.columns].to_delayed())]
        first = second = _part_of_frame
    elif all(hasattr(view, "rechunk") for view in views) and len(views) == (3 if isinstance(problem, MultiView) else 1):
        refuse_sequence(problem, sequence)
        _refuse_names(columns, key, on_missing)
        others = {"The second view": views[1], "The third view": views[2]} if len(views) == 3 else {}
        aligned = _aligned(views[0], others | {"sample_weight": sample_weight, "sequence": sequence})
        widths = tuple(int(view.shape[1]) for view in views) if len(views) == 3 else None
        work = FirstTask(problem, None, widths, int(random_state))
        parts = [(i, list(part[: len(views)]), *part[len(views) :]) for i, part in enumerate(aligned)]
        first, second = FirstTask.part_of_arrays, Task.part_of_views
    else:
        raise InputError(
            f"data must be a Dask data frame or array{' (for MultiView also three arrays)' if len(views) > 1 else ''}, not "
            f"{type(data).__name__}; use karat.coreset."
        )
    opening = delayed(work, pure=False, traverse=False)
    sums = [delayed(first, pure=False)(opening, *part) for part in parts]
    known = opening.second(_tree(opening, sums))
    if compute:
        known = delayed(known.compute(), pure=False, traverse=False)
    else:
        parts = clone(parts)  # tasks of other names
    return _finished(known, [delayed(second, pure=False)(known, *part) for part in parts], compute)
