"""Which columns of the data are what: one home for the roles, for files, clusters and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from karat._data.advice import instead
from karat._data.batch import chosen_problem
from karat.errors import InputError
from karat.problems import Problem


@dataclass(frozen=True)
class ColumnRoles:
    """The roles of the columns."""

    features: tuple[str, ...] = ()  # empty: all columns that have no other role, once these are known (:meth:`among`)
    targets: tuple[str, ...] = ()
    weight: str | None = None
    group: str | None = None
    key: str | None = None
    sequence: str | None = None
    widths: tuple[int, ...] | None = None  # features of each view, where there are several

    @property
    def label(self) -> str | None:
        """The column that labels rows: with their group, or with their sequence."""
        return self.group or self.sequence

    @property
    def columns(self) -> list[str]:
        """All that must be read, each once."""
        return list(dict.fromkeys([*self.features, *self._others]))

    @property
    def _others(self) -> list[str]:
        return [*self.targets, *(c for c in (self.weight, self.label, self.key) if c is not None)]

    def among(self, names: Sequence[str]) -> ColumnRoles:
        """The same roles among columns of these names: every column must be there, and features are known."""
        features = self.features or tuple(other_columns(names, self._others))
        if not features:
            raise InputError("No columns are left for the features; keep at least one.")
        found = replace(self, features=features)
        for name in found.columns:
            if name not in names:
                raise InputError(f"The data has no column {name!r}; {instead(name, names)}")
        for name in self.targets:
            if name in features:
                raise InputError(f"Column {name!r} is the target, so it cannot be a feature; leave it out of the features.")
        return found


def column_problem(problem: Problem | None, target: Any) -> Problem:
    """The problem for rows whose columns are named, or the default one; a target where it needs one."""
    problem = chosen_problem(problem, target is not None and target != [])
    if problem.needs_target and not target:
        raise InputError(f"{problem.describe()} needs a target: name its column.")
    if problem.transform is not None:
        raise InputError(
            f"{problem.describe()} is for rows in memory (karat.coreset). Pass the inner problem, and transform the rows "
            "first, or those of files by a fitted pipeline=."
        )
    return problem


def column_roles(
    problem: Problem | None, target: str | Sequence[str] | None, columns: Any, weight: str | None, group: str | None,
    key: str | None, sequence: str | None,
) -> ColumnRoles:  # fmt: skip
    """The roles that arguments name; refused if the problem has no use for one of them."""
    targets = () if target is None else (target,) if isinstance(target, str) else listed_names("target", target)
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
    if problem is not None and problem.needs_sums and any(not isinstance(name, str) for name in features):
        raise InputError(f"{problem.describe()} takes columns as one list of names.", argument="columns")
    if widths is not None and not all(widths):
        raise InputError("Each of the three views needs a column.", argument="columns")
    named = {"sample_weight": weight, "groups": group, "key": key, "sequence": sequence}
    for argument, names in {"columns": features, "target": targets}.items():
        for i, name in enumerate(names):
            _check_name(argument, name)
            if name in names[:i]:
                raise InputError(f"Column {name!r} is named twice in {argument}; name it once.", argument=argument)
    for argument, name in named.items():
        if name is not None:
            _check_name(argument, name)
    return ColumnRoles(features, targets, weight, group, key, sequence, widths)


def listed_names(argument: str, names: Any) -> tuple[Any, ...]:
    """A list of names; a text would be a list of its letters."""
    if isinstance(names, str):
        raise InputError(f"{argument} must be a list of names; did you mean {argument}=[{names!r}]?", argument=argument)
    try:
        return tuple(names)
    except TypeError:
        wanted = "the name of a column, or a list of names" if argument == "target" else "a list of names"
        raise InputError(f"{argument} must be {wanted}, not {_short(names)}.", argument=argument) from None


def _check_name(argument: str, name: Any) -> None:
    if not isinstance(name, str):
        raise InputError(f"{argument} must name columns of the data by text, not {_short(name)}.", argument=argument)


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, int | float | str | tuple | list) else f"a {type(value).__name__}"


def refuse_sequence(problem: Problem | None, sequence: Any) -> None:
    if sequence is not None and (problem is None or "lengths" not in problem.takes):
        name = "This problem" if problem is None else problem.describe()
        remedy = "The argument sequence is for HiddenMarkov only."
        raise InputError(f"{name} does not look at sequences.", remedy, argument="sequence")


def other_columns(names: Iterable[str], taken: Iterable[str | None]) -> list[str]:
    """The columns that have no role yet: by default, they are the features."""
    known = set(taken)
    return [name for name in names if name not in known]
