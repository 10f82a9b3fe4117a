"""One schema for everything that karat stores: a JSON header and named arrays, never pickled.

    .npz            the arrays, and the header as an array of bytes (this module; also as bytes that travel)
    .parquet        arrays with one entry per row as columns, the rest in the metadata (:mod:`karat._storage.parquet`)

What the header and the arrays mean is known to those who write them: :mod:`karat._core.files` and :mod:`karat._stream.state`.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from karat._storage.atomic import write_atomically
from karat.errors import InputError

FORMAT_VERSION = 2  # 1: karat 0.1.0, whose certificates do not count
ZIP = b"PK"  # with which an .npz begins

Stored = tuple[dict[str, Any], dict[str, Any]]  # header, arrays


def write_archive(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """An archive in a file, atomically."""
    if path.suffix != ".npz":
        raise InputError(f"It is saved as .npz, not {path.suffix or 'without a suffix'!r}: {path}.")
    write_atomically(path, lambda file: file.write(pack(header, arrays)))


def read_archive(path: Path, what: str) -> Stored:
    """The header and arrays of :func:`write_archive`."""
    return unpack(read_bytes(path), str(path), what)


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error


def plain(arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    """Arrays that need no pickle: text of any kind becomes plain text, None is left out."""
    known = {k: np.asarray(v) for k, v in arrays.items() if v is not None}
    return {k: v.astype(str) if v.dtype.kind == "O" else v for k, v in known.items()}


def to_json(header: dict[str, Any]) -> bytes:
    return json.dumps({"format_version": FORMAT_VERSION} | header).encode()


def check_version(header: dict[str, Any], name: str) -> None:
    version = header.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(f"{name} has format version {version}; this karat reads up to {FORMAT_VERSION}. Update karat.")


def pack(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """A JSON header and arrays as the bytes of an ``.npz``."""
    file = io.BytesIO()
    np.savez_compressed(file, **plain(arrays), header=np.frombuffer(to_json(header), dtype=np.uint8))  # type: ignore[arg-type]
    return file.getvalue()


def unpack(data: bytes, name: str, what: str) -> Stored:
    """The header and arrays of :func:`pack`; ``name`` and ``what`` it is are for error messages."""
    if not data.startswith(ZIP):
        raise InputError(f"{name} is not {what}, or it is damaged (it does not begin like one).")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except (ValueError, KeyError, OSError, zipfile.BadZipFile, EOFError, AttributeError, zlib.error) as error:
        raise InputError(f"{name} is not {what}, or it is damaged ({error}).") from error
    check_version(header, name)
    return header, arrays


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Named arrays and CSR matrices as arrays only."""
    arrays: dict[str, Any] = {}
    for name, value in values.items():
        if sparse.issparse(value):
            arrays |= {f"{name}/{part}": getattr(value, part) for part in ("data", "indices", "indptr", "shape")}
        else:
            arrays[name] = value
    return arrays


def unflat(arrays: dict[str, Any]) -> dict[str, Any]:
    """What :func:`flat` was given."""
    values = {name: value for name, value in arrays.items() if "/" not in name}
    for name in {name.partition("/")[0] for name in arrays if "/" in name}:
        data, indices, indptr, shape = (arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr", "shape"))
        values[name] = sparse.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
    return values


def prefixed(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}:{name}": value for name, value in arrays.items()}


def without_prefix(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays that :func:`prefixed` named."""
    return {name.partition(":")[2]: value for name, value in arrays.items() if name.startswith(f"{prefix}:")}
