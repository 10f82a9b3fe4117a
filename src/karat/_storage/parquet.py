"""A header and arrays as Parquet: a table that any tool can open, and everything else in the metadata of its schema.

    features... | target... | weight | row | group | key          one line per kept row
    metadata["karat"]                                             JSON: the header, and which columns hold which array

The header and the arrays are those of the ``.npz`` (:mod:`karat._storage.archive`).  An array with one entry per row becomes a
column, or one per column of its own; rows of a sparse matrix become two columns of lists.  Arrays of another shape (maps,
corrections, the index of a frame) and types that Arrow does not know travel as base64 inside the JSON.  Names of columns are
for the reader: where a name is taken it gets an underscore, and arrays are found again by the list in the header.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from karat._storage.archive import check_version, plain, to_json
from karat.errors import InputError

KEY = b"karat"
SPARSE = ("indices", "data", "indptr")


def pack_table(header: dict[str, Any], arrays: dict[str, Any], shown: Iterable[tuple[str, str, list[str]]]) -> bytes:
    """The bytes of a Parquet file.

    Parameters
    ----------
    header, arrays
        What :func:`unpack_table` gives back.
    shown : (name, kind, column names)
        The arrays with one entry per row ("array", or "sparse": indices, data and indptr), and how their columns are called.
    """
    rest = plain(arrays)
    columns: dict[str, Any] = {}
    places: dict[str, Any] = {}
    for name, kind, wanted in shown:
        if kind == "sparse":
            names = [f"{name}/{part}" for part in SPARSE]
            indices, values, ends = (rest[n] for n in names)
            made = [pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(a[: ends[-1]])) for a in (indices, values)]
            place: dict[str, Any] = {"dtypes": [rest.pop(n).dtype.str for n in names]}
        else:
            found = _arrow_columns(rest[name])
            if found is None:
                continue
            made, array = found, rest.pop(name)
            place = {"dtype": array.dtype.str, "shape": list(array.shape)}
        labels = [_free(label, columns, made[i]) for i, label in enumerate(wanted)]
        places[name] = place | {"columns": labels}
    beside = {name: _to_text(array) for name, array in rest.items()}
    table = pa.table(columns)
    file = io.BytesIO()
    # Arrow's own copy of the schema is left out: types come back from the header.
    with pq.ParquetWriter(file, table.schema, store_schema=False, use_dictionary=False, write_page_checksum=True) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({KEY: to_json(header | {"columns": places, "arrays": beside})})
    return file.getvalue()


def unpack_table(data: bytes, name: str, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and arrays of :func:`pack_table`; ``name`` and ``what`` it is are for error messages."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        table, metadata = file.read(), file.metadata.metadata or {}
        header = json.loads(metadata[KEY]) if KEY in metadata else None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{name} is not {what}, or it is damaged ({str(error).splitlines()[0]}).") from error
    if header is None:
        raise InputError(
            f"{name} is a Parquet file but not a coreset: it has no {KEY.decode()!r} in its metadata. Build a coreset of its "
            "rows with karat.coreset_files, and save that to another file."
        )
    check_version(header, name)
    try:
        arrays = {key: _from_text(text) for key, text in header.pop("arrays").items()}
        for key, place in header.pop("columns").items():
            arrays |= _sparse_arrays(table, key, place) if "dtypes" in place else {key: _array(table, place)}
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{name} is damaged, or its rows or columns were changed by another tool ({error}).") from error
    return header, arrays


def _free(label: str, columns: dict[str, Any], values: Any) -> str:
    """Put a column under a name that no other has, and that is valid UTF-8."""
    label = label.encode("utf-8", "replace").decode()
    while label in columns:
        label += "_"
    columns[label] = values
    return label


def _arrow_columns(array: np.ndarray) -> list[Any] | None:
    """One Arrow column per column of an array; None if Arrow does not know the type."""
    native = array.astype(array.dtype.newbyteorder("=")).reshape(len(array), -1)
    try:
        return [pa.array(column.tolist() if column.dtype.kind in "US" else np.ascontiguousarray(column)) for column in native.T]
    except (pa.ArrowException, UnicodeError):
        return None


def _array(table: pa.Table, place: dict[str, Any]) -> np.ndarray:
    kind = np.dtype(place["dtype"])
    columns = [table.column(label).to_numpy() for label in place["columns"]]
    return np.stack(columns, axis=1).astype(kind).reshape(place["shape"])


def _sparse_arrays(table: pa.Table, name: str, place: dict[str, Any]) -> dict[str, np.ndarray]:
    indices, values = (table.column(label).combine_chunks() for label in place["columns"])
    found = [indices.flatten().to_numpy(), values.flatten().to_numpy(), indices.offsets.to_numpy()]
    return {f"{name}/{part}": a.astype(kind) for part, a, kind in zip(SPARSE, found, place["dtypes"], strict=True)}


def _to_text(array: np.ndarray) -> str:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def _from_text(text: str) -> np.ndarray:
    return np.asarray(np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False))
