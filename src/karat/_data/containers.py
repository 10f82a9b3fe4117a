"""Containers of rows: reading a table of any kind as numbers, and taking rows out of it again.

Arrays and scipy.sparse matrices need nothing but NumPy and SciPy.  Data frames (pandas, polars eager and lazy, pyarrow)
are read through narwhals, the extra ``frames``; rows come out in a frame of the same kind, with names, types and index.
A lazy frame is collected once, so its rows come out in an eager one.  Every error message names the column and the remedy.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from karat._data.advice import about_time
from karat.engine.offsets import WHOLE, all_exact
from karat.engine.parts import SideBySide, is_long
from karat.errors import InputError, MissingExtraError

FRAME_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
TOO_LONG = "whole numbers beyond 2^53, which double precision cannot tell apart"
NUMERIC_TARGET = "karat needs a numeric target: encode it as numbers first"


def parts_of(*tables: Any) -> list[Any]:
    """Tables side by side, as blocks of columns of one type."""
    parts: list[Any] = []
    for table in tables:
        if table is not None:
            parts += table.parts if isinstance(table, SideBySide) else [table]
    return parts


def rounds(values: np.ndarray) -> bool:
    """Whether double precision would change some of the values."""
    return is_long(values.dtype) and not all_exact(values.ravel())


def frame_library(table: Any) -> str | None:
    """The library of a data frame or series that narwhals reads, also of a subclass (GeoDataFrame); None for another table."""
    homes = (kind.__module__.split(".")[0] for kind in type(table).__mro__)
    return next((home for home in homes if home in FRAME_LIBRARIES), None)


def is_frame(table: Any) -> bool:
    """Whether the table is a data frame or a series of a library that narwhals reads."""
    return frame_library(table) is not None


def as_narwhals(table: Any) -> Any:
    """The narwhals frame or series of a table."""
    try:
        import narwhals
    except ImportError:
        raise MissingExtraError(f"Reading a {frame_library(table)} {type(table).__name__}", "frames") from None
    return narwhals.from_native(table, allow_series=True)


def collected(table: Any) -> Any:
    """The table itself, or the rows of a lazy frame."""
    return table.collect() if is_frame(table) and hasattr(table, "collect") and hasattr(table, "lazy") else table


def row_count(table: Any) -> int:
    """Number of rows of any table."""
    return int(table.shape[0]) if hasattr(table, "shape") else len(table)


def dimensions(table: Any) -> int:
    """1 for a series or a flat array, 2 for a table."""
    return len(table.shape) if hasattr(table, "shape") else 1 if is_frame(table) else np.ndim(table)


def column_names(table: Any, count: int) -> list[str]:
    """Names for error messages: those of the frame, else numbers."""
    if is_frame(table):
        frame = as_narwhals(table)
        names = [frame.name] if hasattr(frame, "name") else list(frame.columns)
        if len(names) == count and names[0] is not None:
            return [repr(str(name)) for name in names]
    return [str(i) for i in range(count)]


def as_table(table: Any, name: str, apart: bool = False) -> Any:
    """A two-dimensional numeric array, or a CSR matrix, that shares memory with the input where possible.

    A frame that mixes large whole numbers with other types is read as :class:`Columns`; with ``apart``, any that mixes types.
    """
    if sparse.issparse(table):
        if len(table.shape) != 2:
            raise InputError(
                f"{name} is a sparse array of {len(table.shape)} dimensions; it must be a table: reshape((-1, 1))."
            )
        _check_kind(table.dtype, name)
        return sparse.csr_array(table)
    if np.ma.isMaskedArray(table) and np.ma.getmaskarray(table).any():
        rows = np.flatnonzero(np.ma.getmaskarray(table).reshape(len(table), -1).any(axis=1))
        raise InputError(f"{name} has masked values in {len(rows)} rows, the first in row {rows[0]}; fill or drop them first.")
    try:
        array = _frame_values(table, name, apart) if is_frame(table) else np.asarray(table)
    except (ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} cannot be read as an array of numbers: {error}. Rows must have equal length.") from error
    if isinstance(array, SideBySide):
        return array
    if isinstance(table, str | PathLike):
        raise InputError(f"{name} is a path; rows in files are read by karat.coreset_files({str(table)!r}).", argument=name)
    if array.ndim == 0 and array.dtype.kind not in "fiub":
        raise InputError(f"{name} is a {type(table).__name__}; it must be a table: an array, a sparse matrix or a data frame.")
    if array.dtype.kind == "O" or (
        isinstance(table, list | tuple) and array.dtype.kind == "f" and (np.abs(array) >= WHOLE).any()
    ):
        _check_integers(table, name)
    _check_kind(array.dtype, name)
    if array.ndim == 0:
        raise InputError(f"{name} is a single number; pass one per row. One row alone is X = [[...]] and y = [...].")
    if array.ndim > 2:
        raise InputError(f"{name} has {array.ndim} dimensions; it must be a table of rows and columns.")
    return array if array.ndim == 2 else array[:, None]


def _check_integers(table: Any, name: str) -> None:
    """Raise if large Python integers among other objects or floats would be rounded silently."""
    for value in np.asarray(table, dtype=object).flat:
        if (
            isinstance(value, int | np.integer)
            and abs(int(value)) > WHOLE
            and not (abs(int(value)) < 2**1000 and int(float(value)) == value)
        ):
            raise InputError(
                f"{name} holds {value}, a whole number beyond 2^53, among values of other types; pass such columns as int64 or "
                "uint64, in a data frame if the types differ, or convert them with astype(float) if rounding does no harm."
            )


def _frame_values(table: Any, name: str, apart: bool) -> np.ndarray | SideBySide:
    """The numbers of a frame or series; missing values become NaN, which the pass then reports with its place."""
    frame = as_narwhals(collected(table))
    if not hasattr(frame, "columns"):
        _check_column(frame.name, frame.dtype, name)
        return np.asarray(_plain(frame))
    if len(set(frame.columns)) < len(frame.columns):
        raise InputError(f"{name} has two columns of one name; rename one of them.")
    for column, kind in frame.schema.items():
        _check_column(column, kind, name)
    if not frame.columns:
        return np.empty((frame.shape[0], 0))
    if frame_library(table) == "pandas" and len({str(kind) for kind in table.dtypes}) == 1:
        whole = np.asarray(table)  # a view where the frame is one block
        if whole.dtype.kind in "fiub":
            return whole
    columns = [_plain(frame[column]) for column in frame.columns]
    if np.result_type(*columns).kind == "f" and (apart or any(rounds(column) for column in columns)):
        return SideBySide([column[:, None] for column in columns])
    return np.column_stack(columns)


def _plain(series: Any) -> np.ndarray:
    values = np.asarray(series.to_numpy())
    return values if values.dtype.kind in "fiub" and not series.null_count() else np.asarray(series.to_numpy(), dtype=float)


def _check_column(column: Any, kind: Any, name: str) -> None:
    """Raise unless a column of a frame is numeric."""
    if not (kind.is_numeric() or str(kind) == "Boolean") or str(kind).startswith("Decimal"):
        if name == "y":
            target = "y" if column in (None, "") else repr(str(column))
            raise InputError(f"The target {target} {_said(kind, str(kind) == 'String')}; {NUMERIC_TARGET}.")
        advice = about_time(kind) or (
            f"encode it (by karat.coreset_files(X, ..., one_hot=[{str(column)!r}]), which takes frames too, or in a pipeline "
            "given to CoresetRegressor) or leave it out"
        )
        raise InputError(
            f"Column {str(column)!r} of {name} has type {kind}, which is not numeric; {advice}.", column=str(column)
        )


def _check_kind(kind: np.dtype[Any], name: str) -> None:
    """Raise unless a type is numeric."""
    if kind.kind == "c":
        raise InputError(f"{name} holds complex numbers; split it into real and imaginary columns.")
    if kind.kind not in "fiub" and name == "y":
        raise InputError(f"The target y {_said(kind, kind.kind in 'US')}; {NUMERIC_TARGET}.")
    if kind.kind not in "fiub":
        advice = about_time(kind) or "convert it to numbers first, for example with astype(float)"
        raise InputError(f"{name} has type {kind}, which is not numeric; {advice}.")


def _said(kind: Any, text: bool) -> str:
    return "is text" if text else f"has type {kind}"


def take_rows(table: Any, positions: np.ndarray) -> Any:
    """Some rows of a table, in a container of the same type."""
    if table is None:
        return None
    if is_frame(table):
        return as_narwhals(collected(table))[positions].to_native()
    if sparse.issparse(table):
        return sparse.csr_array(table)[positions]
    if isinstance(table, np.ndarray) or hasattr(table, "__array__"):
        return table[positions]
    return np.asarray(table)[positions]


def in_double(table: Any) -> Any:
    """The table with single-precision columns in double precision; other columns and containers as they are."""
    if is_frame(table):
        frame = as_narwhals(table)
        import narwhals

        if not hasattr(frame, "columns"):
            return frame.cast(narwhals.Float64).to_native() if frame.dtype == narwhals.Float32 else table
        kinds = frame.schema
        single = [name for name, kind in kinds.items() if kind == narwhals.Float32]
        if frame_library(table) == "pandas" and len(single) == len(kinds):
            return table.astype(np.float64)  # in one piece, of which scikit-learn makes an array without another copy
        return frame.with_columns(narwhals.col(*single).cast(narwhals.Float64)).to_native() if single else table
    return table.astype(np.float64) if getattr(table, "dtype", None) in (np.float32, np.float16) else table


def copied(table: Any) -> Any:
    """A copy of a table that others may overwrite; a table that nobody can overwrite as it is."""
    return table.copy() if hasattr(table, "copy") and not hasattr(table, "lazy") else table


def is_sparse(table: Any) -> bool:
    """Whether the table is a sparse matrix or array of SciPy."""
    return bool(sparse.issparse(table))
