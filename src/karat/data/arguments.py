"""Arguments: the problem and what it takes, the roles of columns, progress bars.

Columns of files and clusters have names and roles (:class:`ColumnRoles`).  For a frame in memory,
names may replace values, too: ``karat.coreset(frame, "price", groups="year")``
(:func:`named_columns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from karat.data.advice import instead, problem_correction
from karat.data.containers import (
    as_narwhals,
    as_table,
    check_unique_names,
    collected,
    dimensions,
    is_frame,
)  # fmt: skip
from karat.data.labels import as_keys, as_objects
from karat.engine.rows import Progress
from karat.errors import InputError, MissingExtraError, NotExactError
from karat.problems import LeastSquares, Moments, Problem

NOT_TAKEN = {
    "y": "has no target; leave y out",
    "groups": (
        "does not take groups, because its maps belong to one data set; build one coreset per group"
    ),
    "lengths": "does not look at sequences; lengths is for sequence models only",
}


@dataclass(frozen=True)
class ColumnRoles:
    """The roles of the columns."""

    # empty: all columns without another role, which :meth:`among` finds
    features: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    weight: str | None = None
    group: str | None = None
    key: str | None = None
    sequence: str | None = None
    widths: tuple[int, ...] | None = None  # features of each view, where there are several
    whole: bool = False  # whether the features are all other columns of the data

    @property
    def label(self) -> str | None:
        """The column of labels: of groups or of sequences."""
        return self.group or self.sequence

    @property
    def columns(self) -> list[str]:
        """All columns to read, each once."""
        return list(dict.fromkeys([*self.features, *self._others]))

    @property
    def _others(self) -> list[str]:
        return [*self.targets, *(c for c in (self.weight, self.label, self.key) if c is not None)]

    def among(self, names: Sequence[str]) -> ColumnRoles:
        """The roles in data with these columns; raise if one is missing.  Features are listed."""
        features = self.features or tuple(other_columns(names, self._others))
        if not features:
            raise InputError("No columns are left for the features; keep at least one.")
        roles = replace(self, features=features, whole=self.whole or not self.features)
        for name in roles.columns:
            if name not in names:
                raise InputError(f"The data has no column {name!r}; {instead(name, names)}")
        for name in self.targets:
            if name in features:
                raise InputError(
                    f"Column {name!r} is the target, so it cannot be a feature; leave it out of the"
                    " features."
                )
        return roles


def check_problem(problem: Any) -> Problem:
    """Return ``problem``; raise unless it is one."""
    if not isinstance(problem, Problem):
        raise InputError(problem_correction(problem), argument="problem")
    return problem


def chosen_problem(problem: Any, with_target: bool) -> Problem:
    """The given problem, or the default: least squares with a target, else second moments."""
    if problem is None:
        return LeastSquares() if with_target else Moments(2)
    return check_problem(problem)


def check_taken(problem: Problem, **arguments: Any) -> None:
    """Raise for an argument (``y``, ``groups``, ``lengths``) that the problem does not take."""
    for name, value in arguments.items():
        if value is not None and name not in problem.takes:
            raise InputError(f"{problem.describe()} {NOT_TAKEN[name]}.", argument=name)


def check_absorbing(problem: Problem, groups: Any, targets: int) -> None:
    """Raise if the problem has ``absorb`` and the data groups or several targets."""
    if problem.absorb is None:
        return
    if groups is not None:
        raise InputError(
            "absorb and groups cannot be combined: an absorbed coreset serves one fit of one alpha."
        )
    if targets != 1:
        raise InputError(f"absorb needs exactly one target; y has {targets}.")


def check_mergeable(problem: Problem) -> Problem:
    """Return the problem; raise unless parts of the data can be summed one by one and merged."""
    if problem.transform is not None:
        raise InputError(
            f"A sketch does not transform columns, as {problem.describe()} needs; transform the"
            " rows before you add them, and pass the inner problem."
        )
    if not problem.mergeable:
        raise NotExactError(
            f"A sketch of {problem.describe()} cannot be exact, because its features depend on the"
            " full data. Use two passes over all rows: karat.coreset(X, problem=...), or"
            " karat.coreset_files(source, problem=...)."
        )
    return problem


def column_problem(problem: Problem | None, target: Any) -> Problem:
    """The given or default problem for data with named columns; raise if a target is missing."""
    if hasattr(target, "shape"):
        raise InputError(
            f"target must be the name of a column, not values of type {type(target).__name__}. Put"
            " the values into the table and name their column, or call karat.coreset(X, y), which"
            " takes values.",
            argument="target",
        )
    problem = chosen_problem(problem, target is not None and target != [])
    if problem.needs_target and not target:
        raise InputError(f"{problem.describe()} needs a target: name its column.")
    if problem.transform is not None:
        raise InputError(
            f"{problem.describe()} takes rows in memory only (karat.coreset). Pass the inner"
            " problem, and transform the rows first, for files with a fitted pipeline=."
        )
    return problem


def column_roles(
    problem: Problem | None, target: str | Sequence[str] | None, columns: Any, weight: str | None,
    group: str | None, key: str | None, sequence: str | None,
) -> ColumnRoles:  # fmt: skip
    """The roles of the named columns; raise if the problem does not take one of them."""
    targets = (
        ()
        if target is None
        else (target,)
        if isinstance(target, str)
        else listed_names("target", target)
    )
    refuse_sequence(problem, sequence)
    features = () if columns is None else listed_names("columns", columns)
    if columns is not None and not features:
        raise InputError("No columns are left for the features; keep at least one.")
    widths = None
    if problem is not None and problem.input_tables > 1:
        if len(features) != 3 or any(isinstance(view, str) for view in features):
            raise InputError(
                "MultiView needs the columns of each of its three views.",
                "Pass columns as three lists of names, one per view.",
                argument="columns",
            )
        widths = tuple(len(view) for view in features)
        features = tuple(name for view in features for name in view)
    if (
        problem is not None
        and problem.needs_sums
        and any(not isinstance(name, str) for name in features)
    ):
        raise InputError(
            f"{problem.describe()} takes columns as one list of names.", argument="columns"
        )
    if widths is not None and not all(widths):
        raise InputError("Each of the three views needs a column.", argument="columns")
    named = {"sample_weight": weight, "groups": group, "key": key, "sequence": sequence}
    for argument, names in {"columns": features, "target": targets}.items():
        for i, name in enumerate(names):
            _check_name(argument, name)
            if name in names[:i]:
                raise InputError(
                    f"Column {name!r} is named twice in {argument}; name it once.",
                    argument=argument,
                )
    for argument, name in named.items():
        if name is not None:
            _check_name(argument, name)
    return ColumnRoles(features, targets, weight, group, key, sequence, widths)


def listed_names(argument: str, names: Any) -> tuple[Any, ...]:
    """The names as a tuple; raise for a single string, which would be a list of letters."""
    if isinstance(names, str):
        raise InputError(
            f"{argument} must be a list of names; did you mean {argument}=[{names!r}]?",
            argument=argument,
        )
    try:
        return tuple(names)
    except TypeError:
        wanted = (
            "the name of a column, or a list of names"
            if argument == "target"
            else "a list of names"
        )
        raise InputError(
            f"{argument} must be {wanted}, not {shown_value(names)}.", argument=argument
        ) from None


def _check_name(argument: str, name: Any) -> None:
    if not isinstance(name, str):
        raise InputError(
            f"{argument} must name columns of the data by text, not {shown_value(name)}.",
            argument=argument,
        )


def shown_value(value: Any) -> str:
    """An argument that should be a name, in a message."""
    return (
        repr(value)
        if isinstance(value, int | float | str | tuple | list)
        else f"values of type {type(value).__name__}"
    )


def refuse_sequence(problem: Problem | None, sequence: Any) -> None:
    if sequence is not None and (problem is None or "lengths" not in problem.takes):
        name = "This problem" if problem is None else problem.describe()
        remedy = "The argument sequence is for HiddenMarkov only."
        raise InputError(f"{name} does not look at sequences.", remedy, argument="sequence")


def other_columns(names: Iterable[str], taken: Iterable[str | None]) -> list[str]:
    """The columns without a role, which are the features by default."""
    with_role = set(taken)
    return [name for name in names if name not in with_role]


class Named(NamedTuple):
    """The inputs of a coreset; ``target`` names y where its container (an Arrow array) cannot."""

    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    target: str | None = None


def named_columns(X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Named:
    """Replace names of columns by their values, and drop these columns from X.

    A list is a list of names if all of its entries are columns of X, else it holds the values of y.
    """
    listed = isinstance(y, list) and len(y) > 0 and all(isinstance(name, str) for name in y)
    if not listed and not any(isinstance(value, str) for value in (y, sample_weight, groups)):
        return Named(X, y, sample_weight, groups)
    X = collected(X)
    table = is_frame(X) and dimensions(X) == 2
    if table:
        check_unique_names(X, "X")
    frame = as_narwhals(X) if table else None
    columns = [] if frame is None else list(frame.columns)
    all_columns = listed and all(name in columns for name in y)
    arguments = {"y": y, "sample_weight": sample_weight, "groups": groups}
    texts = {argument: name for argument, name in arguments.items() if isinstance(name, str)}
    names = [*(y if all_columns else []), *texts.values()]
    if not names:
        return Named(X, y, sample_weight, groups)
    if frame is None:
        argument, name = next(iter(texts.items()))
        if isinstance(X, str | PathLike):
            raise InputError(
                f"X is a path; read files with karat.coreset_files({str(X)!r}, {name!r}).",
                argument="X",
            )
        if hasattr(X, "__arrow_c_stream__"):  # a relation, a cursor, a record-batch reader
            raise InputError(
                f"X is a {type(X).__name__}, which is read in batches; call"
                f" karat.coreset_files(X, {name!r}).",
                argument="X",
            )
        raise InputError(
            f"{argument}={name!r} names a column, but X is of type {type(X).__name__}, without"
            " names; pass the values, or X as a frame with named columns.",
            argument=argument,
        )
    for name in names:
        if name not in columns:
            raise InputError(f"X has no column {name!r}; {instead(name, columns)}", column=name)
        if names.count(name) > 1:
            raise InputError(
                f"Column {name!r} is named twice; it can have one role only.", column=name
            )
    values = arguments | {argument: frame[name].to_native() for argument, name in texts.items()}
    if all_columns:
        values["y"] = frame.select(y).to_native()
    # an Arrow array forgets the name of its column, which error messages and files still need
    nameless = "y" in texts and not getattr(as_narwhals(values["y"]), "name", None)
    return Named(frame.drop(names).to_native(), **values, target=y if nameless else None)


def aligned(table: Any, like: Any) -> Any:
    """The columns of the table in the order of ``like``, if both are frames; else the table."""
    if not (is_frame(table) and is_frame(like)) or dimensions(table) != 2 or dimensions(like) != 2:
        return table
    frame, names = as_narwhals(table), list(as_narwhals(like).columns)
    if list(frame.columns) == names:
        return table
    missing = [str(name) for name in names if name not in frame.columns]
    if missing:
        raise InputError(
            f"The data has no column {missing[0]!r}, which the coreset has;"
            f" {instead(missing[0], frame.columns)}"
        )
    return frame.select(names).to_native()


def split_column(table: Any, column: str | int) -> tuple[Any, np.ndarray]:
    """A table without one of its columns, and that column as an array."""
    table = collected(table)
    if is_frame(table) and dimensions(table) == 2:
        # pandas allows numbers as names, and repeated names; narwhals does not
        frame = table if hasattr(table, "iloc") else as_narwhals(table)
        if column not in frame.columns:
            raise InputError(
                f"X has no column {column!r} to use as the key;"
                f" {instead(str(column), frame.columns)}"
            )
        rest = (
            table.drop(columns=[column])
            if hasattr(table, "iloc")
            else frame.drop([column]).to_native()
        )
        values = as_objects(frame[column])
    else:
        array = as_table(table, "X")
        if (
            not isinstance(column, int | np.integer)
            or not -array.shape[1] <= column < array.shape[1]
        ):
            raise InputError(
                f"The key of an array is the number of a column below {array.shape[1]}, not"
                f" {column!r}."
            )
        keep = np.arange(array.shape[1]) != column % array.shape[1]
        rest, values = array[:, keep], array[:, [column]]
        values = values.toarray()[:, 0] if sparse.issparse(values) else values[:, 0]
    return rest, as_keys(values)


@contextmanager
def progress_bar(
    shown: Progress | bool | None, unit: str, **options: Any
) -> Iterator[Progress | None]:
    """Show tqdm's bar while the block runs, if ``shown`` is True; yield a callback for (done, in
    all), or None.

    The bar is text in a notebook, too: a page made from the notebook would show a widget in its
    first state, 0 rows.

    Parameters
    ----------
    shown : bool, callable or None
        A callable is yielded as it is.
    unit : {"rows", "B"}
        What is counted.
    **options
        For tqdm.
    """
    if not isinstance(shown, bool):
        if shown is not None and not callable(shown):
            raise InputError(
                f"progress is {shown!r}; it must be True, False or a function of (done, in all).",
                argument="progress",
            )
        yield shown
    elif not shown:
        yield None
    elif find_spec("tqdm") is None:
        raise MissingExtraError("progress=True (a bar by tqdm)", "progress")
    else:
        from tqdm import tqdm

        with tqdm(unit=f" {unit}" if unit == "rows" else unit, unit_scale=True, **options) as bar:
            yield lambda done, total: _move(bar, done, total)


def _move(bar: Any, done: int, total: int) -> None:
    """Move a bar to ``done``; start it again if that is a step back, since a new pass began."""
    if done < bar.n:
        bar.reset(total or None)
    bar.total = total or None
    bar.update(done - bar.n)
