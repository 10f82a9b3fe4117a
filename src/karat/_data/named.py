"""Columns of a frame that are named instead of passed: ``karat.coreset(frame, "price", groups="year")``."""

from __future__ import annotations

from os import PathLike
from typing import Any, NamedTuple

from karat._data.advice import instead
from karat._data.containers import as_narwhals, collected, dimensions, is_frame
from karat.errors import InputError


class Named(NamedTuple):
    """The inputs of a coreset; ``target`` is the name of y where its container (an Arrow array) does not hold names."""

    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    target: str | None = None


def named_columns(X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Named:
    """Take the columns that are named out of X; arguments that hold values stay as they are.

    A list is a list of names if all of its entries are columns of X, else it holds the values of y.
    """
    listed = isinstance(y, list) and len(y) > 0 and all(isinstance(name, str) for name in y)
    if not listed and not any(isinstance(value, str) for value in (y, sample_weight, groups)):
        return Named(X, y, sample_weight, groups)
    X = collected(X)
    try:
        frame = as_narwhals(X) if is_frame(X) and dimensions(X) == 2 else None
    except ValueError as error:
        raise InputError(f"The columns of X cannot be told apart by their names ({error}); rename some of them.") from error
    columns = [] if frame is None else list(frame.columns)
    several = listed and all(name in columns for name in y)
    single = {"y": y, "sample_weight": sample_weight, "groups": groups}
    asked = {argument: name for argument, name in single.items() if isinstance(name, str)}
    names = [*(y if several else []), *asked.values()]
    if not names:
        return Named(X, y, sample_weight, groups)
    if frame is None:
        argument, name = next(iter(asked.items()))
        if isinstance(X, str | PathLike):
            raise InputError(f"X is a path; rows in files are read by karat.coreset_files({str(X)!r}, {name!r}).", argument="X")
        raise InputError(
            f"{argument}={name!r} names a column, but X is a {type(X).__name__} without names; pass the values instead.",
            argument=argument,
        )
    for name in names:
        if name not in columns:
            raise InputError(f"X has no column {name!r}; {instead(name, columns)}", column=name)
        if names.count(name) > 1:
            raise InputError(f"Column {name!r} is named twice; it can have one role only.", column=name)
    values = single | {argument: frame[name].to_native() for argument, name in asked.items()}
    if several:
        values["y"] = frame.select(y).to_native()
    nameless = "y" in asked and not getattr(as_narwhals(values["y"]), "name", None)
    return Named(frame.drop(names).to_native(), **values, target=y if nameless else None)
