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


def stack_rows(first: Any, second: Any) -> Any:
    """Rows of one table after those of another of the same kind."""
    if first is None:
        return None
    if hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat([first, second])
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")
    if hasattr(first, "column_names"):
        import pyarrow as pa

        return pa.concat_tables([first, second])
    return np.concatenate([np.asarray(first), np.asarray(second)])
