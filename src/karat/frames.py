"""The one place that knows containers: what a table of rows may be, and how its rows are taken out again.

Arrays, scipy.sparse matrices and data frames (anything with ``iloc``, or pyarrow's ``take``) are accepted.  Every refusal names
the column and the remedy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from karat.errors import InputError


def column_names(table: Any, count: int) -> list[str]:
    """Names for error messages: those of the frame, else numbers."""
    names = getattr(table, "columns", None)
    if names is None:
        names = getattr(table, "column_names", None)
    if names is None and getattr(table, "name", None) is not None:
        names = [table.name]
    return [repr(str(c)) for c in names] if names is not None and len(names) == count else [str(i) for i in range(count)]


def as_table(table: Any, name: str) -> Any:
    """A two-dimensional numeric array, or a CSR matrix, that shares memory with the input where possible."""
    if sparse.issparse(table):
        table = sparse.csr_array(table)
        _check_kind(table.dtype, name, "")
        return table
    if np.ma.isMaskedArray(table) and np.ma.getmaskarray(table).any():
        rows = np.flatnonzero(np.ma.getmaskarray(table).reshape(len(table), -1).any(axis=1))
        raise InputError(f"{name} has masked values in {len(rows)} rows, the first in row {rows[0]}; fill or drop them first.")
    if hasattr(table, "dtypes") and hasattr(table, "columns"):
        for column, kind in zip(table.columns, table.dtypes, strict=False):
            if not _numeric(kind):
                raise InputError(
                    f"Column {str(column)!r} of {name} has type {kind}, which is not numeric; encode it (for example one-hot) "
                    "or leave it out."
                )
    try:
        array = np.asarray(table)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be read as an array of numbers: {error}. Rows must have equal length.") from error
    _check_kind(array.dtype, name, "")
    if array.ndim == 0 or array.ndim > 2:
        raise InputError(f"{name} has {array.ndim} dimensions; it must be a table of rows and columns.")
    return array if array.ndim == 2 else array[:, None]


def _numeric(kind: Any) -> bool:
    try:
        return np.dtype(kind).kind in "fiub"
    except TypeError:
        text = str(kind).lower()
        return text.startswith(("int", "uint", "float", "bool", "double"))


def _check_kind(kind: np.dtype[Any], name: str, where: str) -> None:
    if kind.kind == "c":
        raise InputError(f"{name} holds complex numbers{where}; split it into real and imaginary columns.")
    if kind.kind not in "fiub":
        raise InputError(
            f"{name} has type {kind}{where}, which is not numeric; convert it to numbers first, for example with astype(float)."
        )


def take_rows(table: Any, positions: np.ndarray) -> Any:
    """Some rows of a table, in a container of the same type."""
    if table is None:
        return None
    if hasattr(table, "iloc"):
        return table.iloc[positions]
    if hasattr(table, "take") and hasattr(table, "column_names"):
        return table.take(positions)
    if sparse.issparse(table):
        return sparse.csr_array(table)[positions]
    if isinstance(table, np.ndarray) or hasattr(table, "__array__"):
        return table[positions]
    return np.asarray(table)[positions]


def stack_rows(first: Any, *others: Any) -> Any:
    """Rows of tables of the same kind, one after the other."""
    tables = [first, *others]
    if first is None or not others:
        return first
    if hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat(tables)
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack(tables, format="csr"))
    if hasattr(first, "column_names"):
        import pyarrow as pa

        return pa.concat_tables(tables)
    return np.concatenate([np.asarray(table) for table in tables])


def split_column(table: Any, column: str | int) -> tuple[Any, np.ndarray]:
    """A table without one of its columns, and that column as an array."""
    if hasattr(table, "iloc") or hasattr(table, "column_names"):
        names = list(table.columns if hasattr(table, "iloc") else table.column_names)
        if column not in names:
            raise InputError(f"X has no column {column!r} to use as the key; it has {', '.join(map(str, names))}.")
        rest = table.drop(columns=[column]) if hasattr(table, "iloc") else table.drop_columns([column])
        values = np.asarray(table[column])
    else:
        array = as_table(table, "X")
        if not isinstance(column, int | np.integer) or not -array.shape[1] <= column < array.shape[1]:
            raise InputError(f"The key of an array is the number of a column below {array.shape[1]}, not {column!r}.")
        keep = np.arange(array.shape[1]) != column % array.shape[1]
        rest, values = array[:, keep], array[:, [column]]
        values = values.toarray()[:, 0] if sparse.issparse(values) else values[:, 0]
    return rest, as_keys(values)


def as_keys(values: Any) -> np.ndarray:
    """Keys as whole numbers, numbers or text; a missing one is an error."""
    keys = np.asarray(values)
    if keys.dtype.kind == "O":
        if any(k is None or (isinstance(k, float) and np.isnan(k)) for k in keys):
            raise InputError("The key column has missing values; every row needs a key.")
        keys = keys.astype(str)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        raise InputError("The key column has missing values; every row needs a key.")
    return keys


def describe(X: Any, y: Any) -> dict[str, Any]:
    """What :func:`restore` needs beside plain arrays, in words that JSON can hold."""
    kind = "sparse" if sparse.issparse(X) else "pandas" if hasattr(X, "iloc") else "array"
    names = getattr(X, "columns", None) if kind == "pandas" else getattr(X, "column_names", None)
    return {
        "container": "arrow" if kind == "array" and names is not None else kind,
        "columns": None if names is None else [str(c) for c in names],
        "target": None if getattr(y, "name", None) is None else str(y.name),
        "flat": y is not None and np.ndim(y) == 1,
    }


def restore(described: dict[str, Any], X: Any, y: Any, index: np.ndarray) -> tuple[Any, Any]:
    """Plain arrays in containers like those that were described; plain, where the library is not installed."""
    if y is not None and y.ndim == 2 and described.get("flat"):
        y = y[:, 0]
    kind, names = described["container"], described["columns"]
    try:
        if kind == "sparse":
            X = sparse.csr_array(X)
        elif kind == "pandas":
            import pandas as pd

            X = pd.DataFrame(X, columns=names, index=index)
            if y is not None and y.ndim == 1 and described["target"] is not None:
                y = pd.Series(y, name=described["target"], index=index)
        elif kind == "arrow":
            import pyarrow as pa

            X = pa.table([np.ascontiguousarray(column) for column in X.T], names=names)
    except ImportError:
        pass
    return X, y
