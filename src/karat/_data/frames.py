"""Tables of any container joined and taken apart: rows stacked, columns matched by their names, a key column split off."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from karat._data.advice import instead
from karat._data.containers import as_narwhals, as_table, collected, dimensions, is_frame, rounds
from karat._data.labels import as_keys, as_objects
from karat.errors import InputError


def aligned(table: Any, like: Any) -> Any:
    """The columns of ``like``, by their names, if both are frames; else the table itself."""
    if not (is_frame(table) and is_frame(like)) or dimensions(table) != 2 or dimensions(like) != 2:
        return table
    frame, names = as_narwhals(table), list(as_narwhals(like).columns)
    if list(frame.columns) == names:
        return table
    missing = [str(name) for name in names if name not in frame.columns]
    if missing:
        raise InputError(f"The data has no column {missing[0]!r}, which the coreset has; {instead(missing[0], frame.columns)}")
    return frame.select(names).to_native()


def stack_rows(first: Any, *others: Any) -> Any:
    """Rows of tables of the same kind, one after the other."""
    if first is None or not others:
        return first
    if is_frame(first):
        return _stack_frames(first, *others)
    for other in others:
        if len(first.shape) == 2 and first.shape[1] != other.shape[1]:
            raise InputError(f"The rows have {first.shape[1]} and {other.shape[1]} columns; they must have the same ones.")
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, *others], format="csr"))
    arrays = [np.asarray(table) for table in (first, *others)]
    _check_types([array.dtype for array in arrays], arrays, "The rows")
    return np.concatenate(arrays)


def _check_types(kinds: list[Any], columns: list[np.ndarray], where: str) -> None:
    """Raise if the common type of columns to be joined would round some of them."""
    if len(set(kinds)) > 1 and any(rounds(column) for column in columns):
        types = " and ".join(sorted({str(kind) for kind in kinds}))
        raise InputError(f"{where} are {types}: joined, whole numbers beyond 2^53 would be rounded. Convert them to one type.")


def _stack_frames(first: Any, *others: Any) -> Any:
    import narwhals

    top, below = as_narwhals(first), [as_narwhals(other) for other in others]
    if not hasattr(top, "columns"):
        columns = [top.to_frame(), *(b.to_frame().rename({b.name: top.name}) for b in below)]
        pieces = [frame[:, 0] for frame in columns]
        _check_types([p.dtype for p in pieces], [np.asarray(p.to_numpy()) for p in pieces], "The targets")
        return narwhals.concat(columns)[:, 0].to_native()
    for other in below:
        if set(top.columns) != set(other.columns):
            raise InputError(f"The frames have different columns, {top.columns} and {other.columns}; rename or drop some.")
    if list(top.columns) != list(below[0].columns) or any(list(other.columns) != list(top.columns) for other in below):
        below = [other.select(top.columns) for other in below]
    for place, column in enumerate(top.columns):
        pieces = [frame[:, place] for frame in (top, *below)]
        _check_types([p.dtype for p in pieces], [np.asarray(p.to_numpy()) for p in pieces], f"Values of column {column!r}")
    return narwhals.concat([top, *below]).to_native()


def split_column(table: Any, column: str | int) -> tuple[Any, np.ndarray]:
    """A table without one of its columns, and that column as an array."""
    table = collected(table)
    if is_frame(table) and dimensions(table) == 2:
        frame = table if hasattr(table, "iloc") else as_narwhals(table)  # a name in pandas may be a number, or come twice
        if column not in frame.columns:
            raise InputError(f"X has no column {column!r} to use as the key; {instead(str(column), frame.columns)}")
        rest = table.drop(columns=[column]) if hasattr(table, "iloc") else frame.drop([column]).to_native()
        values = as_objects(frame[column])
    else:
        array = as_table(table, "X")
        if not isinstance(column, int | np.integer) or not -array.shape[1] <= column < array.shape[1]:
            raise InputError(f"The key of an array is the number of a column below {array.shape[1]}, not {column!r}.")
        keep = np.arange(array.shape[1]) != column % array.shape[1]
        rest, values = array[:, keep], array[:, [column]]
        values = values.toarray()[:, 0] if sparse.issparse(values) else values[:, 0]
    return rest, as_keys(values)
