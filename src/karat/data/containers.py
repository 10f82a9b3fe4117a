"""Containers of rows: reading a table of any kind as numbers, taking rows out of it, and storing it
as arrays and JSON.

Arrays and scipy.sparse matrices need nothing but NumPy and SciPy.  Data frames (pandas, polars
eager and lazy, pyarrow) are read through narwhals, the extra ``frames``; rows come out in a frame
of the same kind, with names, types and index. A lazy frame is collected once, so its rows come out
in an eager one.  Every error message names the column and the remedy.
"""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from karat.data.advice import about_time
from karat.engine.linalg import is_long
from karat.engine.offsets import WHOLE, all_exact
from karat.engine.parts import SideBySide
from karat.errors import InputError, MissingExtraError

FRAME_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
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
    """The library of a data frame or series that narwhals reads, also of a subclass (GeoDataFrame);
    None for another table.
    """
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
        raise MissingExtraError(
            f"Reading a {frame_library(table)} {type(table).__name__}", "frames"
        ) from None
    return narwhals.from_native(table, allow_series=True)


def collected(table: Any) -> Any:
    """The table itself, or the rows of a lazy frame."""
    return (
        table.collect()
        if is_frame(table) and hasattr(table, "collect") and hasattr(table, "lazy")
        else table
    )


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
        names = [frame.name] if hasattr(frame, "name") else list(frame.collect_schema().names())
        if len(names) == count and names[0] is not None:
            return [repr(str(name)) for name in names]
    return [str(i) for i in range(count)]


def as_table(table: Any, name: str, apart: bool = False) -> Any:
    """A two-dimensional numeric array, or a CSR matrix, that shares memory with the input where
    possible.

    A frame that mixes large integers with other types is read as :class:`MixedColumns`; with
    ``apart``, any that mixes types.
    """
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
            f"{name} has masked values in {len(rows)} rows, the first in row {rows[0]}; fill or"
            " drop them first."
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
            f"{name} is a path; rows in files are read by karat.coreset_files({str(table)!r}).",
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
    """Raise if large Python integers among other objects or floats would be rounded silently."""
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
    """The numbers of a frame or series; missing values become NaN, which the pass then reports with
    its place.
    """
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
        whole = np.asarray(table)  # a view where the frame is one block
        if whole.dtype.kind in "fiub":
            return whole
    columns = [_plain(frame[column]) for column in frame.columns]
    if np.result_type(*columns).kind == "f" and (
        apart or any(rounds(column) for column in columns)
    ):
        return SideBySide([column[:, None] for column in columns])
    return np.column_stack(columns)


def check_unique_names(table: Any, name: str) -> None:
    """Raise if two columns of a frame have one name; narwhals reads no such frame."""
    names = getattr(table, "column_names", None) or list(getattr(table, "columns", ()))
    if len(set(names)) < len(names):
        twice = str(max(names, key=names.count))
        raise InputError(
            f"{name} has two columns of one name, {twice!r}; rename one of them.",
            argument=name,
            column=twice,
        )


def _plain(series: Any) -> np.ndarray:
    values = np.asarray(series.to_numpy())
    return (
        values
        if values.dtype.kind in "fiub" and not series.null_count()
        else np.asarray(series.to_numpy(), dtype=float)
    )


def _check_column(column: Any, kind: Any, name: str) -> None:
    """Raise unless a column of a frame is numeric."""
    if not (kind.is_numeric() or str(kind) == "Boolean") or str(kind).startswith("Decimal"):
        if name == "y":
            target = "y" if column in (None, "") else repr(str(column))
            raise InputError(
                f"The target {target} {_said(kind, str(kind) == 'String')}; {NUMERIC_TARGET}."
            )
        advice = about_time(kind) or (
            f"encode it (by karat.coreset_files(X, ..., one_hot=[{str(column)!r}]), which takes"
            " frames too, or in a pipeline given to CoresetRegressor) or leave it out"
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


def dense(table: Any) -> np.ndarray:
    """A table as an array, sparse or not."""
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table)


def in_double(table: Any) -> Any:
    """The table with single-precision columns in double precision; other columns and containers as
    they are.
    """
    if is_frame(table):
        frame = as_narwhals(table)
        import narwhals

        if not hasattr(frame, "columns"):
            return (
                frame.cast(narwhals.Float64).to_native()
                if frame.dtype == narwhals.Float32
                else table
            )
        kinds = frame.schema
        single = [name for name, kind in kinds.items() if kind == narwhals.Float32]
        if frame_library(table) == "pandas" and len(single) == len(kinds):
            # in one piece, of which scikit-learn makes an array without another copy
            return table.astype(np.float64)
        return (
            frame.with_columns(narwhals.col(*single).cast(narwhals.Float64)).to_native()
            if single
            else table
        )
    return (
        table.astype(np.float64)
        if getattr(table, "dtype", None) in (np.float32, np.float16)
        else table
    )


def copied(table: Any) -> Any:
    """A copy of a table that others may overwrite; a table that nobody can overwrite as it is."""
    return table.copy() if hasattr(table, "copy") and not hasattr(table, "lazy") else table


def is_sparse(table: Any) -> bool:
    """Whether the table is a sparse matrix or array of SciPy."""
    return bool(sparse.issparse(table))


def columns_of(table: Any) -> dict[str, np.ndarray]:
    """The columns of a frame or series by name, as arrays."""
    return dict(zip(map(str, _labels(table)), _values(table), strict=True))


def _labels(table: Any) -> list[Any]:
    """The names of the columns of a frame or series: text, and in pandas also numbers and
    tuples.
    """
    frame = as_narwhals(collected(table))
    return list(frame.columns) if hasattr(frame, "columns") else [frame.name]


def _values(table: Any) -> list[np.ndarray]:
    frame = as_narwhals(collected(table))
    return (
        [frame[:, i].to_numpy() for i in range(frame.shape[1])]
        if hasattr(frame, "columns")
        else [frame.to_numpy()]
    )


def columns_by_name(table: Any, letter: str) -> dict[str, np.ndarray]:
    """The columns of any table by name; without names, a letter and a number, or the letter alone
    for a single column.
    """
    if is_frame(table) and (dimensions(table) == 2 or getattr(table, "name", None) is not None):
        return columns_of(table)
    values = dense(table)
    if values.ndim == 1:
        return {letter: values}
    return {f"{letter}{i}": column for i, column in enumerate(values.T)}


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
    # as text, a series without a name has this one
    return column.rename(None) if column.name == "None" else column


def native_frame(columns: dict[str, np.ndarray]) -> Any:
    """A pandas frame, where pandas is installed, else an Arrow table."""
    return frame_of("pandas" if find_spec("pandas") else "pyarrow", columns, False, None)


def _for_json(labels: list[Any]) -> list[Any]:
    """Names of columns that JSON can hold: a tuple is a list there."""
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return [list(label) if isinstance(label, tuple) else label for label in plain]


def _from_json(labels: list[Any]) -> list[Any]:
    return [tuple(label) if isinstance(label, list) else label for label in labels]


def store(table: Any, name: str, arrays: dict[str, Any]) -> dict[str, Any] | None:
    """Put the arrays of a container among others; what kind it was, as JSON for :func:`restore`."""
    if table is None:
        return None
    if isinstance(table, tuple):
        return {
            "kind": "tuple",
            "parts": [store(part, f"{name}/{i}", arrays) for i, part in enumerate(table)],
        }
    if sparse.issparse(table):
        table = sparse.csr_array(table)
        arrays |= {
            f"{name}/data": table.data,
            f"{name}/indices": table.indices,
            f"{name}/indptr": table.indptr,
        }
        return {"kind": "sparse", "shape": list(table.shape)}
    library = frame_library(table)
    if library is None:
        arrays[name] = np.asarray(table)
        return {"kind": "array"}
    arrays |= {f"{name}/{i}": values for i, values in enumerate(_values(table))}
    if hasattr(table, "iloc"):
        arrays[f"{name}/index"] = np.asarray(table.index)
    labels, series = _labels(table), dimensions(table) == 1
    described = {"kind": library, "columns": [str(label) for label in labels], "series": series}
    return (
        described
        if series or described["columns"] == labels
        else described | {"labels": _for_json(labels)}
    )


def restore(kind: dict[str, Any] | None, name: str, arrays: dict[str, Any]) -> Any:
    """The container that :func:`store` described; an array where the library of a frame is not
    installed.
    """
    if kind is None:
        return None
    if kind["kind"] == "tuple":
        return tuple(restore(part, f"{name}/{i}", arrays) for i, part in enumerate(kind["parts"]))
    if kind["kind"] == "sparse":
        parts = (arrays[f"{name}/data"], arrays[f"{name}/indices"], arrays[f"{name}/indptr"])
        table = sparse.csr_array(parts, shape=tuple(kind["shape"]))
        table.check_format(full_check=True)
        return table
    if kind["kind"] == "array":
        return arrays[name]
    labels = _from_json(kind.get("labels", kind["columns"]))
    columns = {label: arrays[f"{name}/{i}"] for i, label in enumerate(labels)}
    return frame_of(kind["kind"], columns, kind["series"], arrays.get(f"{name}/index"))


def describe(X: Any, y: Any) -> dict[str, Any]:
    """The containers of X and y as JSON, for rows that are held without them; :func:`in_container`
    makes them again.
    """
    library = frame_library(X)
    labels = ["0" if label is None else label for label in _labels(X)] if library else None
    return {
        "container": library or ("sparse" if sparse.issparse(X) else "array"),
        "columns": None if labels is None else _for_json(labels),
        "types": _types(X) if library else None,
        "target": str(_labels(y)[0]) if is_frame(y) and dimensions(y) == 1 else None,
        "flat": y is not None and dimensions(y) == 1,
    }


def _types(table: Any) -> list[str | None]:
    """Of every column of a frame, its type if it holds integers or booleans; read side by side
    they become doubles.
    """
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
    """Types that hold the columns of two batches; None where one of them holds other numbers, or
    does not say.
    """
    if first is None or second is None:
        return None
    both = [
        None if a is None or b is None else np.result_type(a, b)
        for a, b in zip(first, second, strict=True)
    ]
    return [None if kind is None else integer_type(kind) for kind in both]


def in_container(described: dict[str, Any], X: Any, y: Any, index: np.ndarray) -> tuple[Any, Any]:
    """Arrays in the containers that :func:`describe` described; plain arrays if the library is not
    installed.
    """
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
        X = frame_of(
            kind, dict(zip(_from_json(described["columns"]), columns, strict=True)), False, index
        )
        if described["target"] is not None:
            y = frame_of(kind, {described["target"]: y}, True, index)
    return X, y


def made_like(table: Any, values: np.ndarray) -> Any:
    """Other rows, as doubles, in a container like that of a table: a frame of its library with its
    names; else an array.
    """
    flat = dimensions(table) == 1
    library = frame_library(table)
    if library is None:
        return values[:, 0] if flat else values
    labels = ["None" if label is None else label for label in _labels(table)]
    return frame_of(library, dict(zip(labels, values.T, strict=True)), flat, None)


def stack_rows(first: Any, *others: Any) -> Any:
    """Rows of tables of the same kind, one after the other."""
    if first is None or not others:
        return first
    if is_frame(first):
        return _stack_frames(first, *others)
    for other in others:
        if len(first.shape) == 2 and first.shape[1] != other.shape[1]:
            raise InputError(
                f"The rows have {first.shape[1]} and {other.shape[1]} columns; they must have the"
                " same ones."
            )
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, *others], format="csr"))
    arrays = [np.asarray(table) for table in (first, *others)]
    _check_types([array.dtype for array in arrays], arrays, "The rows")
    return np.concatenate(arrays)


def _check_types(kinds: list[Any], columns: list[np.ndarray], where: str) -> None:
    """Raise if the common type of columns to be joined would round some of them."""
    if len(set(kinds)) > 1 and any(rounds(column) for column in columns):
        types = " and ".join(sorted({str(kind) for kind in kinds}))
        raise InputError(
            f"{where} are {types}: joined, integers beyond 2^53 would be rounded. Convert them"
            " to one type."
        )


def _stack_frames(first: Any, *others: Any) -> Any:
    import narwhals

    top, below = as_narwhals(first), [as_narwhals(other) for other in others]
    if not hasattr(top, "columns"):
        columns = [top.to_frame(), *(b.to_frame().rename({b.name: top.name}) for b in below)]
        pieces = [frame[:, 0] for frame in columns]
        _check_types(
            [p.dtype for p in pieces], [np.asarray(p.to_numpy()) for p in pieces], "The targets"
        )
        return narwhals.concat(columns)[:, 0].to_native()
    for other in below:
        if set(top.columns) != set(other.columns):
            raise InputError(
                f"The frames have different columns, {top.columns} and {other.columns}; rename or"
                " drop some."
            )
    if list(top.columns) != list(below[0].columns) or any(
        list(other.columns) != list(top.columns) for other in below
    ):
        below = [other.select(top.columns) for other in below]
    for place, column in enumerate(top.columns):
        pieces = [frame[:, place] for frame in (top, *below)]
        _check_types(
            [p.dtype for p in pieces],
            [np.asarray(p.to_numpy()) for p in pieces],
            f"Values of column {column!r}",
        )
    return narwhals.concat([top, *below]).to_native()
