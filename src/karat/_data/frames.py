"""Tables of any container joined and taken apart.

Rows of several tables are stacked, columns are matched by name, a key column is split off, and containers are described in
JSON and made again.  Reading tables and taking rows is :mod:`karat._data.containers`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from karat._data.advice import instead
from karat._data.containers import Columns, as_narwhals, as_table, collected, dimensions, frame_library, is_frame, rounds
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


def columns_of(table: Any) -> dict[str, np.ndarray]:
    """The columns of a frame or series by name, as arrays."""
    frame = as_narwhals(collected(table))
    if not hasattr(frame, "columns"):
        return {str(frame.name): frame.to_numpy()}
    return {str(column): frame[:, i].to_numpy() for i, column in enumerate(frame.columns)}


def frame_of(library: str, columns: dict[str, np.ndarray], series: bool, index: np.ndarray | None) -> Any:
    """A frame or series of a library from its columns; an array if the library is not installed."""
    try:
        import narwhals

        frame = narwhals.from_dict(columns, backend=library).to_native()
    except ImportError:
        return next(iter(columns.values())) if series else np.column_stack(list(columns.values()))
    if index is not None and hasattr(frame, "iloc"):
        frame.index = index
    if not series:
        return frame
    return frame.iloc[:, 0] if hasattr(frame, "iloc") else frame[next(iter(columns))]


def native_frame(columns: dict[str, np.ndarray]) -> Any:
    """A pandas frame, where pandas is installed, else an Arrow table."""
    return frame_of("pandas" if find_spec("pandas") else "pyarrow", columns, False, None)


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


def describe(X: Any, y: Any) -> dict[str, Any]:
    """A description of the containers of X and y for JSON, from which :func:`restore` makes them again."""
    library = frame_library(X)
    return {
        "container": library or ("sparse" if sparse.issparse(X) else "array"),
        "columns": _names(X) if library else None,
        "types": _types(X) if library else None,
        "target": next(iter(columns_of(y))) if is_frame(y) and dimensions(y) == 1 else None,
        "flat": y is not None and dimensions(y) == 1,
    }


def _names(table: Any) -> list[Any]:
    """The columns of a frame; a series becomes the only one."""
    frame = as_narwhals(collected(table))
    return list(frame.columns) if hasattr(frame, "columns") else ["0" if frame.name is None else frame.name]


def _types(table: Any) -> list[str | None]:
    """Of every column of a frame, its type if it holds whole numbers or booleans; read side by side they become doubles."""
    frame = as_narwhals(collected(table))
    columns = [frame[:, i] for i in range(frame.shape[1])] if hasattr(frame, "columns") else [frame]
    return [whole_type(column.to_numpy()[:0].dtype) if not column.null_count() else None for column in columns]


def whole_type(kind: np.dtype[Any]) -> str | None:
    """The name of a type of whole numbers or booleans; None for another."""
    return str(kind) if kind.kind in "iub" else None


def common_types(first: list[str | None] | None, second: list[str | None] | None) -> list[str | None] | None:
    """Types that hold the columns of two batches; None where one of them holds other numbers, or does not say."""
    if first is None or second is None:
        return None
    both = [None if a is None or b is None else np.result_type(a, b) for a, b in zip(first, second, strict=True)]
    return [None if kind is None else whole_type(kind) for kind in both]


def restore(described: dict[str, Any], X: Any, y: Any, index: np.ndarray) -> tuple[Any, Any]:
    """Arrays in the containers that :func:`describe` described; plain arrays if the library is not installed."""
    if y is not None and y.ndim == 2 and described.get("flat"):
        y = y[:, 0]
    kind = described["container"]
    if kind == "sparse":
        return sparse.csr_array(X), y
    if kind != "array":
        columns = X.columns if isinstance(X, Columns) else list(X.T)
        kinds = described.get("types") or [None] * len(columns)
        columns = [c if kind is None else c.astype(kind) for c, kind in zip(columns, kinds, strict=True)]
        X = frame_of(kind, dict(zip(described["columns"], columns, strict=True)), False, index)
        if described["target"] is not None:
            y = frame_of(kind, {described["target"]: y}, True, index)
    return X, y
