"""A header and arrays as Parquet: a table that any tool can open, and everything else in the
metadata of its schema.

    features... | target... | weight | row | group | key    one line per kept row
    metadata["karat"]                                       the header, and where arrays are (JSON)

The header and the arrays are those of the ``.npz`` (:mod:`karat.storage.archive`).  An array with
one entry per row becomes a column, or several if it is a matrix; rows of a sparse matrix become two
columns of lists.  Arrays of another shape (maps, corrections, the index of a frame) and of types
that Arrow does not support are stored as base64 in the JSON.  The header lists the columns of each
array, so their names are only for people: a name that is taken gets an underscore.  The digest of
header and arrays is a second entry of the metadata.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from karat.errors import DamagedFileError, reading, require
from karat.storage.archive import (
    KINDS,
    Admit,
    Spec,
    array_of,
    check_digest,
    content_digest,
    from_json,
    plain,
    to_json,
)
from karat.storage.footer import values_of_columns

KEY, DIGEST = b"karat", b"karat.digest"
EXPANSION = 32  # decoded bytes per byte of the file: Snappy makes at most 22 of one
PADDED = 2**26  # bytes of an array of text in any case: each entry has the width of the longest
BITS = {"BOOLEAN": 1, "INT32": 32, "FLOAT": 32}  # of a plain value; 64 of all others
CHANGED = "a coreset file, or its rows or columns were changed by another tool"
SPARSE = ("indices", "data", "indptr")


def pack_table(
    header: dict[str, Any], arrays: dict[str, Any], shown: Iterable[tuple[str, str, list[str]]]
) -> bytes:
    """The bytes of a Parquet file.

    Parameters
    ----------
    header, arrays
        What :func:`unpack_table` gives back.
    shown : (name, kind, column names)
        The arrays with one entry per row ("array", or "sparse": indices, data and indptr), and the
        preferred names of their columns.
    """
    stored = plain(arrays)
    rest = dict(stored)
    columns: dict[str, Any] = {}
    places: dict[str, Any] = {}
    for name, kind, wanted in shown:
        if kind == "sparse":
            names = [f"{name}/{part}" for part in SPARSE]
            ends = rest[names[2]]
            # SciPy may have reserved memory behind the last entry
            stored |= {n: rest[n][: ends[-1]] for n in names[:2]}
            made = [
                pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(stored[n]))
                for n in names[:2]
            ]
            place: dict[str, Any] = {"dtypes": [rest.pop(n).dtype.str for n in names]}
        else:
            arrow_columns = _arrow_columns(rest[name])
            if arrow_columns is None:
                continue
            made, array = arrow_columns, rest.pop(name)
            place = {"dtype": array.dtype.str, "shape": list(array.shape)}
        labels = [_free(label, columns, made[i]) for i, label in enumerate(wanted)]
        places[name] = place | {"columns": labels}
    texts = {name: _to_text(array) for name, array in rest.items()}
    table = pa.table(columns)
    file = io.BytesIO()
    # Arrow's own copy of the schema is not needed: the header has the types.
    with pq.ParquetWriter(
        file, table.schema, store_schema=False, use_dictionary=False, write_page_checksum=True
    ) as writer:
        writer.write_table(table)
        text = to_json(header | {"columns": places, "arrays": texts})
        writer.add_key_value_metadata({KEY: text, DIGEST: content_digest(text, stored).encode()})
    return file.getvalue()


def unpack_table(
    data: bytes, name: str, what: str, validate_schema: Admit | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and arrays of :func:`pack_table`; the arguments are those of
    :func:`karat.storage.archive.unpack`.
    """
    table = _described(data, name, what, validate_schema)
    with reading(name, CHANGED):
        arrays = table.arrays
        columns = [label for place in table.places.values() for label in place["columns"]]
        rows = table.file.read(columns)
        for key, place in table.places.items():
            arrays |= (
                _sparse_arrays(rows, key, place)
                if "dtypes" in place
                else {key: _array(rows, place)}
            )
        check_digest(table.digest, table.text, arrays)
    return table.header, arrays


def check_table(data: bytes, name: str, what: str, validate_schema: Admit) -> None:
    """Raise if :func:`unpack_table` would refuse these bytes for their header, or for types and
    sizes.
    """
    _described(data, name, what, validate_schema)


class Described(NamedTuple):
    """A file before its columns are read."""

    file: pq.ParquetFile
    header: dict[str, Any]
    text: bytes  # of the header
    digest: str
    places: dict[str, Any]  # of arrays in columns
    arrays: dict[str, Any]  # the others


def _described(data: bytes, name: str, what: str, validate_schema: Admit | None) -> Described:
    with reading(name, what):
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        metadata = file.metadata.metadata or {}
        if KEY not in metadata:
            raise DamagedFileError(
                f"{name} is a Parquet file but not a coreset: it has no {KEY.decode()!r} in its"
                " metadata. Build a coreset of its rows with karat.coreset_files, and save that to"
                " another file."
            )
        header = from_json(metadata[KEY], name)
    with reading(name, CHANGED):
        places = header.pop("columns")
        arrays = {
            key: array_of(base64.b64decode(text, validate=True))
            for key, text in header.pop("arrays").items()
        }
        specs = {key: Spec(array.dtype, array.shape) for key, array in arrays.items()}
        specs |= _claimed(file, places, data)
        if validate_schema is not None:
            validate_schema(header, specs)
        digest = metadata[DIGEST].decode()
    return Described(file, header, metadata[KEY], digest, places, arrays)


def _claimed(file: Any, places: dict[str, Any], data: bytes) -> dict[str, Spec]:
    """What the arrays in columns claim to be; raise if the file's bytes cannot hold them."""
    rows, most = file.metadata.num_rows, EXPANSION * len(data)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    leaves = [file.metadata.schema.column(i) for i in range(file.metadata.num_columns)]
    bits = rows * sum(BITS.get(leaf.physical_type, 64) for leaf in leaves)
    # Only lists have more values than rows.
    lists = [i for i, leaf in enumerate(leaves) if leaf.max_repetition_level]
    if lists:
        counts = [group[i] for group in values_of_columns(data) for i in lists]
        require(min(counts, default=0) >= 0, "it claims fewer than no values")
        bits += 64 * sum(counts)
    require(
        sum(group.num_rows for group in groups) == rows,
        "its row groups have other rows than it says",
    )
    require(bits // 8 <= most, "it claims more values than its bytes can hold")
    specs: dict[str, Spec] = {}
    for name, place in places.items():
        kinds = [np.dtype(kind) for kind in place.get("dtypes", [place.get("dtype", "f8")])]
        require(all(kind.kind in KINDS for kind in kinds), "types that are not stored")
        if "dtypes" in place:
            specs |= {
                f"{name}/{part}": Spec(kind, (-1,))
                for part, kind in zip(SPARSE, kinds, strict=True)
            }
            continue
        spec = Spec(kinds[0], tuple(place["shape"]))
        require(
            spec.shape[0] == rows and all(type(side) is int and side >= 0 for side in spec.shape),
            f"no shape {spec.shape}",
        )
        remedy = (
            f": text of {kinds[0].itemsize // 4:,} characters in {rows:,} rows; shorten it"
            if kinds[0].kind == "U"
            else ""
        )
        require(
            spec.nbytes <= most + max(4096 * rows, PADDED),
            f"{name!r} claims more bytes than the file can hold{remedy}",
        )
        specs[name] = spec
    return specs


def _free(label: str, columns: dict[str, Any], values: Any) -> str:
    """Add a column under a unique name in valid UTF-8, which is returned."""
    label = label.encode("utf-8", "replace").decode()
    while label in columns:
        label += "_"
    columns[label] = values
    return label


def _arrow_columns(array: np.ndarray) -> list[Any] | None:
    """One Arrow column per column of an array; None if Arrow does not support the type."""
    native = array.astype(array.dtype.newbyteorder("=")).reshape(len(array), prod(array.shape[1:]))
    try:
        return [
            pa.array(column.tolist() if column.dtype.kind in "US" else np.ascontiguousarray(column))
            for column in native.T
        ]
    except (pa.ArrowException, UnicodeError):
        return None


def _array(table: pa.Table, place: dict[str, Any]) -> np.ndarray:
    kind = np.dtype(place["dtype"])
    columns = [table.column(label).to_numpy() for label in place["columns"]]
    return np.stack(columns, axis=1).astype(kind).reshape(place["shape"])


def _sparse_arrays(table: pa.Table, name: str, place: dict[str, Any]) -> dict[str, np.ndarray]:
    indices, values = (table.column(label).combine_chunks() for label in place["columns"])
    arrays = [
        indices.flatten().to_numpy(), values.flatten().to_numpy(zero_copy_only=False),
        indices.offsets.to_numpy()
    ]  # fmt: skip
    return {
        f"{name}/{part}": a.astype(kind)
        for part, a, kind in zip(SPARSE, arrays, place["dtypes"], strict=True)
    }


def _to_text(array: np.ndarray) -> str:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()
