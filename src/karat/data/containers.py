"""Containers of rows: read a table of any kind as numbers, take rows out of it, join tables.

Arrays and scipy.sparse matrices need only NumPy and SciPy.  Data frames are read through narwhals,
the extra ``frames``; rows come out in a frame of the same kind, of a lazy frame in an eager one.
"""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from karat.compat import array_api
from karat.data.advice import about_time
from karat.data.device_arrays import device_table
from karat.engine.linalg import is_long
from karat.engine.parts import WHOLE, SideBySide, all_exact
from karat.errors import InputError, MissingExtraError, several

FRAME_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
IN_PARTITIONS = ("dask", "dask_expr", "pyspark")  # libraries of rows on several workers
TOO_LONG = "integers beyond 2^53, which double precision cannot tell apart"
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
    """The library of a data frame or series that narwhals reads; None for another table."""
    return _home(table, FRAME_LIBRARIES)


def partition_library(table: Any) -> str | None:
    """The library of rows in partitions; None for other data."""
    return _home(table, IN_PARTITIONS)


def _home(table: Any, libraries: tuple[str, ...]) -> str | None:
    """Which of the libraries a table is of; also a subclass, such as a GeoDataFrame."""
    homes = (kind.__module__.split(".")[0] for kind in type(table).__mro__)
    return next((home for home in homes if home in libraries), None)


def is_frame(table: Any) -> bool:
    """Whether the table is a data frame or a series of a library that narwhals reads."""
    return frame_library(table) is not None


def is_foreign(table: Any) -> bool:
    """Whether the table is an array of another library than NumPy."""
    known = isinstance(table, np.ndarray) or is_frame(table)
    return not known and array_api.library_of(table) is not None


def as_narwhals(table: Any) -> Any:
    """The narwhals frame or series of a table."""
    try:
        import narwhals
    except ImportError:
        raise MissingExtraError(
            f"Reading a {frame_library(table)} {type(table).__name__}", "frames"
        ) from None
    return narwhals.from_native(table, allow_series=True)


def collected(table: Any) -> Any:
    """The table itself, or the rows of a lazy frame."""
    lazy = is_frame(table) and hasattr(table, "collect") and hasattr(table, "lazy")
    return table.collect() if lazy else table


def row_count(table: Any) -> int:
    """Number of rows of any table."""
    if hasattr(table, "shape"):
        return int(table.shape[0])
    if not hasattr(table, "__len__"):
        raise InputError(f"A table is needed, such as a frame or an array, not {table!r}.")
    return len(table)


def dimensions(table: Any) -> int:
    """1 for a series or a flat array, 2 for a table."""
    return len(table.shape) if hasattr(table, "shape") else 1 if is_frame(table) else np.ndim(table)


def column_names(table: Any, count: int) -> list[str]:
    """Names for error messages: those of the frame, else numbers."""
    if is_frame(table):
        frame = as_narwhals(table)
        names = [frame.name] if hasattr(frame, "name") else list(frame.collect_schema().names())
        if len(names) == count and names[0] is not None:
            return [repr(str(name)) for name in names]
    return [str(i) for i in range(count)]


def as_table(table: Any, name: str, apart: bool = False) -> Any:
    """The table as a two-dimensional numeric array or a CSR matrix, without a copy where possible.

    A frame that mixes large integers with other types becomes a :class:`SideBySide`; with
    ``apart``, every frame of mixed types does.
    """
    if is_foreign(table):
        array_api.check_readable(table, name)
        if not array_api.on_host(table):
            return device_table(table, name)
        table = array_api.to_host(table)
    if sparse.issparse(table):
        if len(table.shape) != 2:
            raise InputError(
                f"{name} is a sparse array of {len(table.shape)} dimensions; it must be a table:"
                " reshape((-1, 1))."
            )
        _check_kind(table.dtype, name)
        return sparse.csr_array(table)
    if np.ma.isMaskedArray(table) and np.ma.getmaskarray(table).any():
        rows = np.flatnonzero(np.ma.getmaskarray(table).reshape(len(table), -1).any(axis=1))
        raise InputError(
            f"{name} has masked values in {several(len(rows), 'row')}, the first in row"
            f" {rows[0]}; fill or"
            " drop them first."
        )
    if hasattr(table, "__arrow_c_stream__") and not is_frame(table):
        raise InputError(
            f"{name} is a {type(table).__name__}, which is read in batches; call"
            " karat.coreset_files, or pass a data frame.",
            argument=name,
        )
    try:
        array = _frame_values(table, name, apart) if is_frame(table) else np.asarray(table)
    except (ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{name} cannot be read as an array of numbers: {error}. Rows must have equal length."
        ) from error
    if isinstance(array, SideBySide):
        return array
    if isinstance(table, str | PathLike):
        raise InputError(
            f"{name} is a path; read files with karat.coreset_files({str(table)!r}).",
            argument=name,
        )
    if array.ndim == 0 and array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} is a {type(table).__name__}; it must be a table: an array, a sparse matrix or"
            " a data frame."
        )
    if array.dtype.kind == "O" or (
        isinstance(table, list | tuple)
        and array.dtype.kind == "f"
        and (np.abs(array) >= WHOLE).any()
    ):
        _check_integers(table, name)
    _check_kind(array.dtype, name)
    if array.ndim == 0:
        raise InputError(
            f"{name} is a single number; pass one per row. One row alone is X = [[...]] and y ="
            " [...]."
        )
    if array.ndim > 2:
        raise InputError(
            f"{name} has {array.ndim} dimensions; it must be a table of rows and columns."
        )
    return array if array.ndim == 2 else array[:, None]


def _check_integers(table: Any, name: str) -> None:
    """Raise if NumPy would silently round large Python integers among values of other types."""
    for value in np.asarray(table, dtype=object).flat:
        if (
            isinstance(value, int | np.integer)
            and abs(int(value)) > WHOLE
            and not (abs(int(value)) < 2**1000 and int(float(value)) == value)
        ):
            raise InputError(
                f"{name} holds {value}, an integer beyond 2^53, among values of other types;"
                " pass such columns as int64 or uint64, in a data frame if the types differ, or"
                " convert them with astype(float) if rounding does no harm."
            )


def _frame_values(table: Any, name: str, apart: bool) -> np.ndarray | SideBySide:
    """The numbers of a frame or series; missing values become NaN, which the pass will report."""
    table = collected(table)
    check_unique_names(table, name)
    frame = as_narwhals(table)
    if not hasattr(frame, "columns"):
        _check_column(frame.name, frame.dtype, name)
        return np.asarray(_plain(frame))
    for column, kind in frame.schema.items():
        _check_column(column, kind, name)
    if not frame.columns:
        return np.empty((frame.shape[0], 0))
    if frame_library(table) == "pandas" and len({str(kind) for kind in table.dtypes}) == 1:
        block = np.asarray(table)  # a view where pandas holds all columns in one block
        if block.dtype.kind in "fiub":
            return block
    columns = [_plain(frame[column]) for column in frame.columns]
    if np.result_type(*columns).kind == "f" and (
        apart or any(rounds(column) for column in columns)
    ):
        return SideBySide([column[:, None] for column in columns])
    return np.column_stack(columns)


def check_unique_names(table: Any, name: str) -> None:
    """Raise if two columns of a frame have the same name, which narwhals does not support."""
    names = getattr(table, "column_names", None) or list(getattr(table, "columns", ()))
    if len(set(names)) < len(names):
        repeated = str(max(names, key=names.count))
        message = f"{name} has two columns of one name, {repeated!r}; rename one of them."
        raise InputError(message, argument=name, column=repeated)


def _plain(series: Any) -> np.ndarray:
    values = np.asarray(series.to_numpy())
    numeric = values.dtype.kind in "fiub" and not series.null_count()
    return values if numeric else np.asarray(series.to_numpy(), dtype=float)


def _check_column(column: Any, kind: Any, name: str) -> None:
    """Raise unless a column of a frame is numeric."""
    if not (kind.is_numeric() or str(kind) == "Boolean") or str(kind).startswith("Decimal"):
        if name == "y":
            target = "y" if column in (None, "") else repr(str(column))
            fault = "is text" if str(kind) == "String" else f"has type {kind}"
            raise InputError(f"The target {target} {fault}; {NUMERIC_TARGET}.")
        advice = about_time(kind) or (
            f"encode it (name the target and pass one_hot=[{str(column)!r}] or one_hot='auto', or"
            " use a pipeline in CoresetRegressor) or leave it out"
        )
        raise InputError(
            f"Column {str(column)!r} of {name} has type {kind}, which is not numeric; {advice}.",
            column=str(column),
        )


def _check_kind(kind: np.dtype[Any], name: str) -> None:
    """Raise unless a type is numeric."""
    if kind.kind == "c":
        raise InputError(f"{name} holds complex numbers; split it into real and imaginary columns.")
    if kind.kind not in "fiub" and name == "y":
        fault = "is text" if kind.kind in "US" else f"has type {kind}"
        raise InputError(f"The target y {fault}; {NUMERIC_TARGET}.")
    if kind.kind not in "fiub":
        advice = about_time(kind) or "convert it to numbers first, for example with astype(float)"
        raise InputError(f"{name} has type {kind}, which is not numeric; {advice}.")


def take_rows(table: Any, positions: np.ndarray) -> Any:
    """Some rows of a table, in a container of the same type."""
    if table is None:
        return None
    if is_frame(table):
        return as_narwhals(collected(table))[positions].to_native()
    if is_foreign(table):
        return array_api.take_rows(table, positions)
    if sparse.issparse(table):
        return sparse.csr_array(table)[positions]
    if isinstance(table, np.ndarray) or hasattr(table, "__array__"):
        return table[positions]
    return np.asarray(table)[positions]


def on_host(table: Any) -> Any:
    """The table itself, or a NumPy array in place of an array of another library."""
    return array_api.to_host(table) if is_foreign(table) else table


def is_on_device(table: Any) -> bool:
    """Whether a table is an array on an accelerator."""
    return is_foreign(table) and not array_api.on_host(table)


def check_on_host(**tables: Any) -> None:
    """Raise if a table is on an accelerator, for what needs it in the memory of the host."""
    for name, table in tables.items():
        if is_on_device(table):
            raise InputError(
                f"{name} is on an accelerator, and all rows are needed on the host; copy X and y"
                " there.",
                argument=name,
            )


def as_numpy(table: Any) -> np.ndarray:
    """A table as a NumPy array, sparse or not, wherever it is."""
    table = on_host(table)
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table)


def in_double(table: Any) -> Any:
    """The table with its single-precision columns in double precision."""
    if not is_frame(table):
        single = getattr(table, "dtype", None) in (np.float32, np.float16)
        return table.astype(np.float64) if single else table
    frame = as_narwhals(table)
    import narwhals

    if not hasattr(frame, "columns"):
        single = frame.dtype == narwhals.Float32
        return frame.cast(narwhals.Float64).to_native() if single else table
    names = [name for name, kind in frame.schema.items() if kind == narwhals.Float32]
    if frame_library(table) == "pandas" and len(names) == len(frame.schema):
        # in one piece, of which scikit-learn makes an array without another copy
        return table.astype(np.float64)
    if not names:
        return table
    return frame.with_columns(narwhals.col(*names).cast(narwhals.Float64)).to_native()


def copied(table: Any) -> Any:
    """A copy of the table; the table itself if its library never changes one in place."""
    return table.copy() if hasattr(table, "copy") and not hasattr(table, "lazy") else table


def is_sparse(table: Any) -> bool:
    """Whether the table is a sparse matrix or array of SciPy."""
    return bool(sparse.issparse(table))


def columns_of(table: Any) -> dict[str, np.ndarray]:
    """The columns of a frame or series by name, as arrays."""
    return dict(zip(map(str, column_labels(table)), column_arrays(table), strict=True))


def column_labels(table: Any) -> list[Any]:
    """The names of the columns of a frame or series; in pandas some may be numbers or tuples."""
    frame = as_narwhals(collected(table))
    return list(frame.columns) if hasattr(frame, "columns") else [frame.name]


def column_arrays(table: Any) -> list[np.ndarray]:
    """The columns of a frame or series as arrays, in order."""
    frame = as_narwhals(collected(table))
    if not hasattr(frame, "columns"):
        return [frame.to_numpy()]
    return [frame[:, i].to_numpy() for i in range(frame.shape[1])]


def frame_of(
    library: str, columns: dict[Any, np.ndarray], series: bool, index: np.ndarray | None
) -> Any:
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
    if not hasattr(frame, "iloc"):
        return frame[next(iter(columns))]
    column = frame.iloc[:, 0]
    # the name of a series without one, stored as text
    return column.rename(None) if column.name == "None" else column


def native_frame(columns: dict[str, np.ndarray]) -> Any:
    """A pandas frame, where pandas is installed, else an Arrow table."""
    return frame_of("pandas" if find_spec("pandas") else "pyarrow", columns, False, None)


def labels_for_json(labels: list[Any]) -> list[Any]:
    """Names of columns as JSON holds them: a tuple becomes a list."""
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return [list(label) if isinstance(label, tuple) else label for label in plain]


def labels_from_json(labels: list[Any]) -> list[Any]:
    """The names that :func:`labels_for_json` was given."""
    return [tuple(label) if isinstance(label, list) else label for label in labels]


def describe(X: Any, y: Any) -> dict[str, Any]:
    """Describe the containers of X and y as JSON, from which :func:`in_container` makes them."""
    library = frame_library(X)
    labels = ["0" if label is None else label for label in column_labels(X)] if library else None
    return {
        "container": library or ("sparse" if sparse.issparse(X) else "array"),
        "columns": None if labels is None else labels_for_json(labels),
        "types": _types(X) if library else None,
        "target": str(column_labels(y)[0]) if is_frame(y) and dimensions(y) == 1 else None,
        "flat": y is not None and dimensions(y) == 1,
    }


def _types(table: Any) -> list[str | None]:
    """The types of integer and boolean columns; None for others.  Arrays of rows lose them."""
    frame = as_narwhals(collected(table))
    columns = [frame[:, i] for i in range(frame.shape[1])] if hasattr(frame, "columns") else [frame]
    return [
        integer_type(column.to_numpy()[:0].dtype) if not column.null_count() else None
        for column in columns
    ]


def integer_type(kind: np.dtype[Any]) -> str | None:
    """The name of a type of integers or booleans; None for another."""
    return str(kind) if kind.kind in "iub" else None


def common_types(
    first: list[str | None] | None, second: list[str | None] | None
) -> list[str | None] | None:
    """Integer types that hold the columns of two batches; None for other columns."""
    if first is None or second is None:
        return None
    return [
        None if a is None or b is None else integer_type(np.result_type(a, b))
        for a, b in zip(first, second, strict=True)
    ]


def in_container(described: dict[str, Any], X: Any, y: Any, index: np.ndarray) -> tuple[Any, Any]:
    """Put arrays into the containers that :func:`describe` described, if these are installed."""
    if y is not None and y.ndim == 2 and described.get("flat"):
        y = y[:, 0]
    kind = described["container"]
    if kind == "sparse":
        return sparse.csr_array(X), y
    if kind != "array":
        columns = [column for part in parts_of(X) for column in part.T]
        kinds = described.get("types") or [None] * len(columns)
        columns = [
            c if kind is None else c.astype(kind) for c, kind in zip(columns, kinds, strict=True)
        ]
        labels = labels_from_json(described["columns"])
        X = frame_of(kind, dict(zip(labels, columns, strict=True)), False, index)
        if described["target"] is not None:
            y = frame_of(kind, {described["target"]: y}, True, index)
    return X, y
