"""The one place that knows containers: what a table of rows may be, and how its rows are taken out again.

Arrays and scipy.sparse matrices need nothing but NumPy and SciPy.  Data frames (pandas, polars eager and lazy, pyarrow)
are read through narwhals, the extra ``frames``; rows come out in a frame of the same kind, with names, types and index.
A lazy frame is collected once, so its rows come out in an eager one.  Every refusal names the column and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.offsets import WHOLE, all_exact
from karat.engine.rows import is_long
from karat.errors import InputError, MissingExtraError

FRAME_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
TOO_LONG = "whole numbers beyond 2^53, which double precision cannot tell apart"
NUMERIC_TARGET = "karat needs a numeric target: encode it as numbers first"


class Mapped:
    """Rows seen through a row-wise map: the engine reads transformed blocks, the coreset keeps raw rows.

    Parameters
    ----------
    raw
        A table of any kind.
    transform : callable
        Maps a block of raw rows to a numeric array, one row each, whatever the other rows are.
    """

    def __init__(self, raw: Any, transform: Callable[[Any], Any]) -> None:
        self.raw, self.transform = raw, transform
        first = self[:1]
        self.dtype = first.dtype
        self.shape = (row_count(raw), int(first.shape[1]))

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, tuple):  # one column, for error messages only
            return self[where[0]][:, where[1]]
        if not isinstance(where, slice):
            rows = take_rows(self.raw, where)
        elif hasattr(self.raw, "iloc"):
            rows = self.raw.iloc[where]
        elif isinstance(self.raw, np.ndarray):
            rows = self.raw[where]
        else:
            rows = take_rows(self.raw, np.arange(*where.indices(row_count(self.raw))))
        features = self.transform(rows)
        features = sparse.csr_array(features) if sparse.issparse(features) else np.asarray(features)
        if rounds(np.asarray(features.data) if sparse.issparse(features) else features):
            raise InputError(f"The transformed columns hold {TOO_LONG}; let the transformation subtract an offset.")
        return features

    def __abs__(self) -> Any:
        return abs(self[:])


class Columns:
    """Columns of several types side by side: in one array, large whole numbers would become doubles.

    Parameters
    ----------
    columns : list of 1-D arrays
    """

    def __init__(self, columns: list[np.ndarray]) -> None:
        self.columns = columns
        self.shape = (len(columns[0]), len(columns))
        self.ndim = 2
        self.dtype = np.result_type(*columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, where: Any) -> np.ndarray:
        if isinstance(where, tuple):  # one column, for error messages only
            return np.asarray(self.columns[where[1]][where[0]])
        return np.column_stack([column[where] for column in self.columns])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)

    def __abs__(self) -> np.ndarray:
        return np.asarray(np.abs(self[:]))


def parts_of(*tables: Any) -> list[Any]:
    """Tables side by side, as blocks of columns of one type."""
    parts: list[Any] = []
    for table in tables:
        if table is not None:
            parts += [column[:, None] for column in table.columns] if isinstance(table, Columns) else [table]
    return parts


def rounds(values: np.ndarray) -> bool:
    """Whether there are whole numbers among the values that double precision would change."""
    return is_long(values.dtype) and not all_exact(values.ravel())


def is_frame(table: Any) -> bool:
    """Whether the table is a data frame or a series of a library that narwhals reads."""
    return type(table).__module__.split(".")[0] in FRAME_LIBRARIES


def _narwhals(table: Any) -> Any:
    try:
        import narwhals
    except ImportError:
        kind = f"{type(table).__module__.split('.')[0]} {type(table).__name__}"
        raise MissingExtraError(f"Reading a {kind}", "frames") from None
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
        frame = _narwhals(table)
        names = [frame.name] if hasattr(frame, "name") else list(frame.columns)
        if len(names) == count and names[0] is not None:
            return [repr(str(name)) for name in names]
    return [str(i) for i in range(count)]


def aligned(table: Any, like: Any) -> Any:
    """The columns of ``like``, by their names, if both are frames; else the table itself."""
    if not (is_frame(table) and is_frame(like)) or dimensions(table) != 2 or dimensions(like) != 2:
        return table
    frame, names = _narwhals(table), list(_narwhals(like).columns)
    if list(frame.columns) == names:
        return table
    missing = [str(name) for name in names if name not in frame.columns]
    if missing:
        raise InputError(f"The data has no column {missing[0]!r}, which the coreset has; it has {', '.join(frame.columns)}.")
    return frame.select(names).to_native()


def as_table(table: Any, name: str, apart: bool = False) -> Any:
    """A two-dimensional numeric array, or a CSR matrix, that shares memory with the input where possible.

    A frame that mixes large whole numbers with other types is read as :class:`Columns`; with ``apart``, any that mixes types.
    """
    if isinstance(table, Mapped):
        return table
    if sparse.issparse(table):
        if len(table.shape) != 2:
            raise InputError(
                f"{name} is a sparse array of {len(table.shape)} dimensions; it must be a table: reshape((-1, 1))."
            )
        _check_kind(table.dtype, name, "")
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
    if isinstance(array, Columns):
        return array
    if array.ndim == 0 and array.dtype.kind not in "fiub":
        raise InputError(f"{name} is a {type(table).__name__}; it must be a table: an array, a sparse matrix or a data frame.")
    if array.dtype.kind == "O" or (
        isinstance(table, list | tuple) and array.dtype.kind == "f" and (np.abs(array) > WHOLE).any()
    ):
        _check_integers(table, name)
    _check_kind(array.dtype, name, "")
    if array.ndim == 0 or array.ndim > 2:
        raise InputError(f"{name} has {array.ndim} dimensions; it must be a table of rows and columns.")
    return array if array.ndim == 2 else array[:, None]


def _check_integers(table: Any, name: str) -> None:
    """Refuse Python's whole numbers among other objects or floats, where they would be rounded without a word."""
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


def _frame_values(table: Any, name: str, apart: bool) -> np.ndarray | Columns:
    """The numbers of a frame or series; missing values become NaN, which the pass then reports with its place."""
    frame = _narwhals(collected(table))
    if not hasattr(frame, "columns"):
        _check_column(frame.name, frame.dtype, name)
        return np.asarray(_plain(frame))
    if len(set(frame.columns)) < len(frame.columns):
        raise InputError(f"{name} has two columns of one name; rename one of them.")
    for column, kind in frame.schema.items():
        _check_column(column, kind, name)
    if not frame.columns:
        return np.empty((frame.shape[0], 0))
    if type(table).__module__.startswith("pandas") and len({str(kind) for kind in table.dtypes}) == 1:
        whole = np.asarray(table)  # a view where the frame is one block
        if whole.dtype.kind in "fiub":
            return whole
    columns = [_plain(frame[column]) for column in frame.columns]
    if np.result_type(*columns).kind == "f" and (apart or any(rounds(column) for column in columns)):
        return Columns(columns)
    return np.column_stack(columns)


def _plain(series: Any) -> np.ndarray:
    values = np.asarray(series.to_numpy())
    return values if values.dtype.kind in "fiub" and not series.null_count() else np.asarray(series.to_numpy(), dtype=float)


def _check_column(column: Any, kind: Any, name: str) -> None:
    if not (kind.is_numeric() or str(kind) == "Boolean") or str(kind).startswith("Decimal"):
        if name == "y":
            target = "y" if column in (None, "") else repr(str(column))
            raise InputError(f"The target {target} {_said(kind, str(kind) == 'String')}; {NUMERIC_TARGET}.")
        raise InputError(
            f"Column {str(column)!r} of {name} has type {kind}, which is not numeric; encode it (for example one-hot, inside a "
            "pipeline given to CoresetRegressor) or leave it out."
        )


def _check_kind(kind: np.dtype[Any], name: str, where: str) -> None:
    if kind.kind == "c":
        raise InputError(f"{name} holds complex numbers{where}; split it into real and imaginary columns.")
    if kind.kind not in "fiub" and name == "y":
        raise InputError(f"The target y {_said(kind, kind.kind in 'US')}; {NUMERIC_TARGET}.")
    if kind.kind not in "fiub":
        raise InputError(
            f"{name} has type {kind}{where}, which is not numeric; convert it to numbers first, for example with astype(float)."
        )


def _said(kind: Any, text: bool) -> str:
    return "is text" if text else f"has type {kind}"


def take_rows(table: Any, positions: np.ndarray) -> Any:
    """Some rows of a table, in a container of the same type."""
    if table is None:
        return None
    if isinstance(table, Mapped):
        return take_rows(table.raw, positions)
    if is_frame(table):
        return _narwhals(collected(table))[positions].to_native()
    if sparse.issparse(table):
        return sparse.csr_array(table)[positions]
    if isinstance(table, np.ndarray) or hasattr(table, "__array__"):
        return table[positions]
    return np.asarray(table)[positions]


def in_double(table: Any) -> Any:
    """The table with single-precision columns in double precision; other columns and containers as they are."""
    if is_frame(table):
        frame = _narwhals(table)
        import narwhals

        if not hasattr(frame, "columns"):
            return frame.cast(narwhals.Float64).to_native() if frame.dtype == narwhals.Float32 else table
        single = [name for name, kind in frame.schema.items() if kind == narwhals.Float32]
        return frame.with_columns(narwhals.col(*single).cast(narwhals.Float64)).to_native() if single else table
    return table.astype(np.float64) if getattr(table, "dtype", None) in (np.float32, np.float16) else table


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
    """Refuse to join columns whose common type would round some of them."""
    if len(set(kinds)) > 1 and any(rounds(column) for column in columns):
        types = " and ".join(sorted({str(kind) for kind in kinds}))
        raise InputError(f"{where} are {types}: joined, whole numbers beyond 2^53 would be rounded. Convert them to one type.")


def _stack_frames(first: Any, *others: Any) -> Any:
    import narwhals

    top, below = _narwhals(first), [_narwhals(other) for other in others]
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
    frame = _narwhals(collected(table))
    if not hasattr(frame, "columns"):
        return {str(frame.name): frame.to_numpy()}
    return {str(column): frame[:, i].to_numpy() for i, column in enumerate(frame.columns)}


def frame_of(library: str, columns: dict[str, np.ndarray], series: bool, index: np.ndarray | None) -> Any:
    """A frame or series of a library again; an array where it is not installed."""
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


def split_column(table: Any, column: str | int) -> tuple[Any, np.ndarray]:
    """A table without one of its columns, and that column as an array."""
    if hasattr(table, "columns") and (hasattr(table, "iloc") or hasattr(table, "column_names")):
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
    frame = is_frame(X)
    return {
        "container": type(X).__module__.split(".")[0] if frame else "sparse" if sparse.issparse(X) else "array",
        "columns": _names(X) if frame else None,
        "target": next(iter(columns_of(y))) if is_frame(y) and dimensions(y) == 1 else None,
        "flat": y is not None and dimensions(y) == 1,
    }


def _names(table: Any) -> list[Any]:
    """The columns of a frame; a series becomes the only one."""
    frame = _narwhals(collected(table))
    return list(frame.columns) if hasattr(frame, "columns") else ["0" if frame.name is None else frame.name]


def restore(described: dict[str, Any], X: Any, y: Any, index: np.ndarray) -> tuple[Any, Any]:
    """Plain arrays in containers like those that were described; plain, where the library is not installed."""
    if y is not None and y.ndim == 2 and described.get("flat"):
        y = y[:, 0]
    kind = described["container"]
    if kind == "sparse":
        return sparse.csr_array(X), y
    if kind != "array":
        columns = X.columns if isinstance(X, Columns) else X.T
        X = frame_of(kind, dict(zip(described["columns"], columns, strict=True)), False, index)
        if described["target"] is not None:
            y = frame_of(kind, {described["target"]: y}, True, index)
    return X, y
