"""Dask: partitions become sketches where they lie, and are merged in a tree of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from karat.errors import MissingExtraError

try:
    import pyarrow as pa
    from dask.array import Array
    from dask.base import compute
    from dask.delayed import Delayed, delayed
except ImportError:
    raise MissingExtraError("karat.dask", "dask") from None

from karat._cluster.latent import FirstTask
from karat._cluster.names import as_text, positions
from karat._cluster.task import Task, tree
from karat._core.coreset import Coreset
from karat._data.batch import check_taken
from karat._data.roles import column_roles, refuse_sequence
from karat.errors import InputError
from karat.io.build import checked_problem
from karat.io.layout import Layout
from karat.problems import Problem
from karat.problems.latent import Latent

NAME = "Dask"
WAY = "partitions merged by Dask"


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
        For MultiView also a tuple of three arrays.  Chunks of an array may be SciPy matrices.
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
        For HiddenMarkov: a column (for an array, a Dask array) that names the sequence of every row.  A sequence must lie in
        one partition, its rows one after the other.
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
    if is_frame(data):
        problem = checked_problem(problem, as_text(target, list(data.columns)))
        layout = _frame_layout(data, problem, (target, columns, sample_weight, groups, key, None), on_missing)
        work = _sent(Task(problem, layout, random_state))
        parts = _part_messages(work, data, layout)
    elif isinstance(data, Array):
        _refuse_names(columns, key, on_missing)
        problem = checked_problem(problem, None if target is None else "y")
        aligned = _aligned(data, {"target": target, "sample_weight": sample_weight, "groups": groups})
        work = _sent(Task(problem, None, random_state))
        parts = [work.part_of_arrays(i, *part) for i, part in enumerate(aligned)]
    else:
        raise _wrong_kind(data)
    core = work.finish(tree(work, parts), WAY)
    return core.compute() if compute else core


def frame_schema(data: Any) -> pa.Schema:
    """The columns of a Dask data frame, as numbers or text."""
    if not is_frame(data):
        raise _wrong_kind(data, "a Dask data frame")
    kinds = ((str(name), kind) for name, kind in zip(data.columns, data.dtypes, strict=True))
    return pa.schema([(name, pa.float64() if getattr(kind, "kind", "O") in "fiub" else pa.string()) for name, kind in kinds])


def messages(data: Any, layout: Layout, work: Any) -> list[bytes]:
    """What the partitions of a data frame have to say (``work.part``), joined until few messages are left (``work.join``)."""
    task = _sent(work)
    return list(compute(*tree(task, _part_messages(task, data, layout))))


def _sent(work: Any) -> Delayed:
    """What a worker must know, sent once."""
    return delayed(work, pure=False, traverse=False)


def _part_messages(work: Delayed, data: Any, layout: Layout) -> list[Any]:
    return [delayed(part_of_frame, pure=False)(work, i, part) for i, part in enumerate(partitions(data, layout.columns))]


def is_frame(data: Any) -> bool:
    """Whether data is a Dask data frame; a Delayed object claims to have any attribute."""
    return (
        not isinstance(data, Delayed)
        and hasattr(data, "npartitions")
        and getattr(data, "ndim", 0) == 2
        and hasattr(data, "columns")
    )


def _wrong_kind(data: Any, wanted: str = "a Dask data frame or array") -> InputError:
    kind, remedy = type(data).__name__, "use karat.coreset"
    if isinstance(data, Delayed):
        kind = "Delayed"
        remedy = "make a frame of it by dask.dataframe.from_delayed, or an array by dask.array.from_delayed"
    elif hasattr(data, "npartitions") and hasattr(data, "to_frame"):
        remedy = "make a frame of it by to_frame()"
    elif hasattr(data, "npartitions") and hasattr(data, "to_dataframe"):
        remedy = "make a frame of it by to_dataframe()"
    elif isinstance(data, Array):
        remedy = "make a frame of it by dask.dataframe.from_dask_array"
    return InputError(f"data must be {wanted}, not {kind}; {remedy}.", argument="data")


def _refuse_names(columns: Any, key: Any, on_missing: str) -> None:
    given = {"columns": columns, "key": key, "on_missing": None if on_missing == "error" else on_missing}
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is for data frames; an array has no column names.")


def _frame_layout(data: Any, problem: Problem, named: Sequence[Any], on_missing: str) -> Layout:
    """How the rows of a data frame are read; ``named`` are the columns that :func:`column_roles` takes."""
    labels = list(data.columns)
    roles = column_roles(problem, *(as_text(one, labels) for one in named)).among([str(label) for label in labels])
    return Layout.of(problem, roles, None, on_missing)


def partitions(data: Any, wanted: list[str]) -> list[Any]:
    """The partitions of some columns."""
    labels = list(data.columns)
    twice = [label for i, label in enumerate(labels) if label in labels[:i]]
    if twice:  # Dask itself cannot choose among such columns
        raise InputError(f"{labels.count(twice[0])} columns of the data are called {str(twice[0])!r}; rename them.")
    return list(data[[labels[i] for i in positions(wanted, labels)]].to_delayed())


def part_of_frame(work: Any, number: int, frame: Any) -> bytes:
    """The message of a partition of a data frame."""
    table = pa.Table.from_pandas(frame.set_axis(work.layout.columns, axis=1), preserve_index=False)
    work.layout.among(table.schema)
    return bytes(work.part(number, [table]))


def _aligned(X: Any, others: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The chunks of rows of an array, each with the same rows of others."""
    if X.ndim not in (1, 2):
        raise InputError(f"data has {X.ndim} dimensions; it must be a table of rows and columns.", argument="data")
    X = X if X.ndim == 1 else X.rechunk({1: -1})
    aligned = [list(np.ravel(X.to_delayed()))]
    for name, other in others.items():
        if other is None:
            aligned.append([None] * len(X.chunks[0]))
            continue
        if not isinstance(other, Array):
            raise InputError(f"{name} must be a Dask array with as many rows as the data, not a {type(other).__name__}.")
        if np.isnan(X.shape[0]) or np.isnan(other.shape[0]):
            raise InputError(f"The rows of the data or of {name} are not counted; call compute_chunk_sizes() on both first.")
        if other.ndim not in (1, 2) or other.shape[0] != X.shape[0]:
            raise InputError(f"{name} must be a Dask array with as many rows as the data, {X.shape[0]}.")
        chunks = (X.chunks[0],) if other.ndim == 1 else (X.chunks[0], -1)
        aligned.append(list(np.ravel(other.rechunk(chunks).to_delayed())))
    return list(zip(*aligned, strict=True))


def _two_passes(
    data: Any, problem: Latent, columns: Any, sample_weight: Any, sequence: Any, key: str | None, on_missing: str,
    random_state: int, compute: bool,
) -> Coreset | Delayed:  # fmt: skip
    """The coreset of a latent-variable problem."""
    views = data if isinstance(data, tuple | list) else (data,)
    if is_frame(data):
        layout = _frame_layout(data, problem, (None, columns, sample_weight, None, key, sequence), on_missing)
        work = FirstTask(problem, layout, layout.roles.widths, int(random_state))
        parts = list(enumerate(partitions(data, layout.columns)))
    elif all(isinstance(view, Array) for view in views) and len(views) == problem.input_tables:
        refuse_sequence(problem, sequence)
        _refuse_names(columns, key, on_missing)
        others = {"The second view": views[1], "The third view": views[2]} if len(views) == 3 else {}
        aligned = _aligned(views[0], others | {"sample_weight": sample_weight, "sequence": sequence})
        widths = tuple(1 if view.ndim == 1 else int(view.shape[1]) for view in views) if len(views) == 3 else None
        work = FirstTask(problem, None, widths, int(random_state))
        parts = [(i, list(part[: len(views)]), *part[len(views) :]) for i, part in enumerate(aligned)]
    else:
        more = " (for MultiView a tuple of three arrays)" if problem.input_tables > 1 else ""
        raise _wrong_kind(data, f"a Dask data frame or array{more}")
    passes = partial(_run_passes, work, parts)
    return passes() if compute else delayed(passes, pure=False, traverse=False)()


def _run_passes(work: FirstTask, parts: list[Any]) -> Coreset:
    """Both passes, one computed after the other: in one graph partitions would wait for the second pass in memory.

    Where the passes are to be computed later, this is a task that starts tasks.
    """
    opening = _sent(work)
    sums = [delayed(_part_of_latent, pure=False)(opening, *part) for part in parts]
    again = _sent(opening.second(tree(opening, sums)).compute())
    rows = [delayed(_part_of_latent, pure=False)(again, *part) for part in parts]
    core: Coreset = again.finish(tree(again, rows), WAY).compute()
    return core


def _part_of_latent(work: FirstTask | Task, number: int, rows: Any, *others: Any) -> bytes:
    """The message of a partition of a data frame, or of a list of views."""
    return work.part_of_views(number, rows, *others) if isinstance(rows, list) else part_of_frame(work, number, rows)
