"""Checks of the rows that a fit is asked to predict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from karat.data import containers
from karat.engine.linalg import Array
from karat.errors import InputError

ROWS = "a frame, a dictionary of columns, files, or an array of the columns of the design"
BLOCK = 2**14  # rows that are encoded, and multiplied, at a time


def checked_array(rows: np.ndarray, labels: list[str]) -> Array:
    """An array whose columns are those of the design."""
    try:
        found = np.atleast_2d(np.asarray(rows, dtype=float))
    except (TypeError, ValueError):
        raise InputError(
            f"The new rows are an array that does not hold numbers; pass {ROWS}.", argument="exog"
        ) from None
    if found.ndim != 2 or found.shape[1] != len(labels):
        raise InputError(
            f"The new rows are an array of shape {rows.shape}; it must have {len(labels)} columns,"
            f" those of the design: {', '.join(labels)}. Or pass a frame of the data's columns.",
            argument="exog",
        )
    return found


def in_blocks(rows: Array) -> Iterator[Array]:
    """Some rows at a time, without a copy."""
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def check_rows(rows: Any) -> None:
    """Refuse what is no table: a single column, numbers in a list."""
    if containers.frame_library(rows) in ("pandas", "polars") and containers.dimensions(rows) == 1:
        raise InputError(
            f"The new rows are a {type(rows).__name__}, which has one dimension; pass a frame:"
            " frame.iloc[[0]] has one row.",
            argument="exog",
        )
    paths = (
        isinstance(rows, list | tuple)
        and rows
        and not all(isinstance(one, int | float) for one in rows)
    )
    if isinstance(rows, int | float | complex) or (isinstance(rows, list | tuple) and not paths):
        raise InputError(
            f"The new rows are {type(rows).__name__} {rows!r:.50}; pass {ROWS}.", argument="exog"
        )


def design_columns(rows: Any, labels: list[str]) -> Array:
    """The columns of a frame by the names of a design that was not made from a formula."""
    if not hasattr(rows, "columns") and not isinstance(rows, dict):
        raise InputError(f"The new rows are a {type(rows).__name__}; pass {ROWS}.", argument="exog")
    names = (
        list(rows)
        if isinstance(rows, dict)
        else getattr(rows, "column_names", None) or list(rows.columns)
    )
    missing = [name for name in labels if name not in (*names, "const")]
    if missing:
        raise InputError(f"The new rows have no column {missing[0]!r}.", column=missing[0])
    found = {name: np.atleast_1d(rows[name]) for name in labels if name in names}
    count = {len(values) for values in found.values()}
    if len(count) > 1:
        raise InputError("The columns of the new rows have different lengths.", argument="exog")
    rows_there = count.pop() if count else len(rows)
    try:
        return np.column_stack([found.get(name, np.ones(rows_there)) for name in labels]).astype(
            float
        )
    except (TypeError, ValueError):
        raise InputError(
            "The new rows hold values that are not numbers.", argument="exog"
        ) from None
