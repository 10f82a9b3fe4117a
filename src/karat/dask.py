"""Dask: workers make sketches of their partitions, which are merged in a tree of tasks."""

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

from karat.cluster.latent import VIEW
from karat.cluster.partitions import PartitionPass, labels_as_text, positions, tree
from karat.cluster.sketches import finish, last_pass, two_passes
from karat.core.coreset import Coreset
from karat.core.synthetic import RowChoice, RowKind, Verbatim, check_rows_argument
from karat.data.arguments import (
    check_mergeable,
    check_taken,
    column_problem,
    column_roles,
    refuse_sequence,
)
from karat.errors import InputError, check_integer
from karat.io.layout import Layout
from karat.problems import Problem
from karat.problems.latent import Latent

NAME = "Dask"
ARGUMENTS = {  # what error messages call the arrays that travel together
    "y": "target", "weight": "sample_weight", "group": "groups", "sequence": "sequence",
    f"{VIEW}1_": "The second view", f"{VIEW}2_": "The third view",
}  # fmt: skip


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
    rows: RowKind = "real",
    verbatim: Verbatim = "keep",
    random_state: int = 0,
    sequence: Any = None,
    compute: bool = True,
) -> Coreset | Delayed:
    """The coreset of a Dask data frame or array; only O(m) rows per partition are sent.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
        For MultiView also a tuple of three arrays.  Chunks of an array may be SciPy matrices.
    target : str or list of str; for an array, a Dask array of shape (n,) or (n, T)
    problem : Problem, optional
        As in :func:`karat.coreset`.  Latent-variable problems read the data twice.
    columns : list of str, optional
        The features of a data frame; by default all columns that have no other role.  For
        MultiView, three lists.
    sample_weight, groups
        Columns of a data frame; for an array, Dask arrays of shape (n,).
    key : str, optional
        A column of a data frame that identifies rows.  Without one the keys are
        ``partition:offset``.
    on_missing : {"error", "drop"}
        What to do with rows of a data frame that have missing values.
    rows, verbatim : str
        As in :func:`karat.coreset`: "real" or "synthetic" rows, and what to do about rows that
        would be kept as they are.
    random_state : int
    sequence
        For HiddenMarkov: a column (for an array, a Dask array) with the sequence of every row.  The
        rows of a sequence must be in one partition, one after the other.
    compute : bool
        If False, return a :class:`dask.delayed.Delayed` without computing anything.

    Returns
    -------
    Coreset or Delayed
    """
    check_integer("random_state", random_state, 0)
    choice = RowChoice(rows, verbatim)
    if isinstance(problem, Latent):
        check_rows_argument(rows, problem, "auto", verbatim)
        check_taken(problem, y=target, groups=groups)
        return _of_latent(
            data, problem, columns, sample_weight, sequence, key, on_missing, random_state, compute
        )
    refuse_sequence(problem, sequence)
    if is_dask_frame(data):
        problem = column_problem(problem, labels_as_text(target, list(data.columns)))
        layout = _frame_layout(
            data, problem, (target, columns, sample_weight, groups, key, None), on_missing
        )
        work = last_pass(check_mergeable(problem), layout, random_state, choice)
        task, parts = _frame_messages(data, work)
    elif isinstance(data, Array):
        _refuse_names(columns, key, on_missing)
        problem = column_problem(problem, None if target is None else "y")
        aligned = _aligned({"x": data}, {"y": target, "weight": sample_weight, "group": groups})
        task, parts = _array_messages(
            aligned, last_pass(check_mergeable(problem), None, random_state, choice)
        )
    else:
        raise _wrong_kind(data)
    core = delayed(finish, pure=False)(task, tree(task, parts), NAME)
    return core.compute() if compute else core


def frame_schema(data: Any) -> pa.Schema:
    """The columns of a Dask data frame, as numbers or text."""
    if not is_dask_frame(data):
        raise _wrong_kind(data, "a Dask data frame")
    kinds = ((str(name), kind) for name, kind in zip(data.columns, data.dtypes, strict=True))
    return pa.schema(
        [
            (name, pa.float64() if getattr(kind, "kind", "O") in "fiub" else pa.string())
            for name, kind in kinds
        ]
    )


def messages(data: Any, work: PartitionPass) -> list[bytes]:
    """The messages of the partitions of a data frame, joined until few are left."""
    return _computed(*_frame_messages(data, work))


def _computed(task: Delayed, parts: list[Any]) -> list[bytes]:
    return list(compute(*tree(task, parts)))


def _frame_messages(data: Any, work: PartitionPass) -> tuple[Delayed, list[Any]]:
    """The pass, which is sent once, and the messages of the partitions of a data frame."""
    assert work.layout is not None
    task = delayed(work, pure=False, traverse=False)
    parts = enumerate(partitions(data, work.layout.columns))
    return task, [delayed(part_of_frame, pure=False)(task, number, part) for number, part in parts]


def _array_messages(
    aligned: list[dict[str, Any]], work: PartitionPass
) -> tuple[Delayed, list[Any]]:
    """The same for the chunks of arrays."""
    task = delayed(work, pure=False, traverse=False)
    return task, [task.part_of_arrays(number, arrays) for number, arrays in enumerate(aligned)]


def is_dask_frame(data: Any) -> bool:
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
        remedy = (
            "make a frame of it by dask.dataframe.from_delayed, or an array by"
            " dask.array.from_delayed"
        )
    elif hasattr(data, "npartitions") and hasattr(data, "to_frame"):
        remedy = "make a frame of it by to_frame()"
    elif hasattr(data, "npartitions") and hasattr(data, "to_dataframe"):
        remedy = "make a frame of it by to_dataframe()"
    elif isinstance(data, Array):
        remedy = "make a frame of it by dask.dataframe.from_dask_array"
    return InputError(f"data must be {wanted}, not {kind}; {remedy}.", argument="data")


def _refuse_names(columns: Any, key: Any, on_missing: str) -> None:
    given = {
        "columns": columns,
        "key": key,
        "on_missing": None if on_missing == "error" else on_missing,
    }
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is for data frames only; an array has no column names.")


def _frame_layout(data: Any, problem: Problem, named: Sequence[Any], on_missing: str) -> Layout:
    """How to read the rows of a data frame; ``named`` has the arguments of :func:`column_roles`."""
    labels = list(data.columns)
    roles = column_roles(problem, *(labels_as_text(name, labels) for name in named)).among(
        [str(label) for label in labels]
    )
    return Layout.of(problem, roles, None, on_missing)


def partitions(data: Any, wanted: list[str]) -> list[Any]:
    """The partitions of some columns."""
    labels = list(data.columns)
    twice = [label for i, label in enumerate(labels) if label in labels[:i]]
    if twice:  # Dask itself cannot choose among such columns
        raise InputError(
            f"{labels.count(twice[0])} columns of the data are called {str(twice[0])!r}; rename"
            " them."
        )
    return list(data[[labels[i] for i in positions(wanted, labels)]].to_delayed())


def part_of_frame(work: PartitionPass, number: int, frame: Any) -> bytes:
    """The message of a partition of a data frame."""
    assert work.layout is not None
    names, wanted = [str(label) for label in frame.columns], work.layout.columns
    if names != wanted:  # Dask compares a partition with meta= only if it is told to
        raise InputError(
            f"Partition {number} has the columns {', '.join(names)}, but the Dask frame says"
            f" {', '.join(wanted)}; make its meta= and its partitions agree."
        )
    table = pa.Table.from_pandas(frame.set_axis(names, axis=1), preserve_index=False)
    work.layout.among(table.schema)
    return work.part(number, [table])


def _aligned(tables: dict[str, Any], others: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of some arrays, cut at the same rows as the first; None stands for no array."""
    (name, X), *more = tables.items()
    if X.ndim not in (1, 2):
        raise InputError(
            f"data has {X.ndim} dimensions; it must be a table of rows and columns.",
            argument="data",
        )
    X = X if X.ndim == 1 else X.rechunk({1: -1})
    columns = {name: list(np.ravel(X.to_delayed()))}
    for name, other in [*more, *others.items()]:
        if other is None:
            columns[name] = [None] * len(X.chunks[0])
            continue
        argument = ARGUMENTS[name]
        if not isinstance(other, Array):
            raise InputError(
                f"{argument} must be a Dask array with as many rows as the data, not a"
                f" {type(other).__name__}."
            )
        if np.isnan(X.shape[0]) or np.isnan(other.shape[0]):
            raise InputError(
                f"The number of rows of the data or of {argument} is not known; call"
                " compute_chunk_sizes() on both first."
            )
        if other.ndim not in (1, 2) or other.shape[0] != X.shape[0]:
            raise InputError(
                f"{argument} must be a Dask array with as many rows as the data, {X.shape[0]}."
            )
        chunks = (X.chunks[0],) if other.ndim == 1 else (X.chunks[0], -1)
        columns[name] = list(np.ravel(other.rechunk(chunks).to_delayed()))
    return [dict(zip(columns, chunk, strict=True)) for chunk in zip(*columns.values(), strict=True)]


def _of_latent(
    data: Any, problem: Latent, columns: Any, sample_weight: Any, sequence: Any, key: str | None,
    on_missing: str, random_state: int, compute: bool,
) -> Coreset | Delayed:  # fmt: skip
    """The coreset of a latent-variable problem.

    The passes are computed one after the other: in a single graph, partitions would wait in memory
    for the second pass.  If the passes are delayed, they are a task that starts tasks.
    """
    views = data if isinstance(data, tuple | list) else (data,)
    layout = None
    if is_dask_frame(data):
        layout = _frame_layout(
            data, problem, (None, columns, sample_weight, None, key, sequence), on_missing
        )
        widths = layout.roles.widths
        run = partial(messages, data)
    elif all(isinstance(view, Array) for view in views) and len(views) == problem.input_tables:
        refuse_sequence(problem, sequence)
        _refuse_names(columns, key, on_missing)
        named = {f"{VIEW}{i}_": view for i, view in enumerate(views)}
        aligned = _aligned(named, {"weight": sample_weight, "sequence": sequence})
        widths = (
            tuple(1 if view.ndim == 1 else int(view.shape[1]) for view in views)
            if len(views) == 3
            else None
        )
        run = partial(_run_on_arrays, aligned)
    else:
        more = " (for MultiView a tuple of three arrays)" if problem.input_tables > 1 else ""
        raise _wrong_kind(data, f"a Dask data frame or array{more}")
    passes = partial(two_passes, run, problem, layout, widths, random_state, NAME)
    return passes() if compute else delayed(passes, pure=False, traverse=False)()


def _run_on_arrays(aligned: list[dict[str, Any]], work: PartitionPass) -> list[bytes]:
    return _computed(*_array_messages(aligned, work))
