"""Archives: everything that karat stores is a JSON header and named arrays, never pickled.

    .npz      the arrays, and the header as an array of bytes (this module)
    .parquet  arrays with one entry per row as columns, the rest in the metadata
              (:mod:`karat.storage.parquet`)

A SHA-256 digest of the header and of all arrays is stored with them.  It detects damage, but it is
no signature: whoever writes a hostile file can write its digest, too.  So types, shapes and sizes
are checked before memory is taken.  An array claims a shape in its own header, and a member of a
zip archive claims a number of bytes; both must agree with the bytes that are there.  Arrays are
read only if ``validate_schema`` expects them.  :mod:`karat.core.files` and
:mod:`karat.stream.state` know what the header and the arrays mean.

**Atomic writes**: a file is complete or unchanged, whatever happens while it is written.  It is
written in the same folder under another name, ``.name.<16 digits>.part``, and then renamed.  What
karat stores is read back before (header and sizes), so that a file which it could not read never
replaces one that it can.  A process that is killed while it writes leaves that part, but its lock
on the part ends.  The next process that writes the same path removes all parts that nobody has
locked.
"""

from __future__ import annotations

import glob
import hashlib
import io
import json
import os
import secrets
import stat
import warnings
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from scipy import sparse

from karat.data.labels import as_text
from karat.errors import InputError, StorageError, reading, require

FORMAT_VERSION, NEWEST_FORMAT = 3, 4  # below 3 there is no digest; 4 is that of synthetic rows
ZIP = b"PK"  # the first bytes of an .npz
HEADER, DIGEST = "header", "digest"
MOST_VALUES = 10**6  # of a header: each takes up to a hundred bytes of memory

KINDS = "biufcUSMm"  # never Python objects, never records
EXPANSION = 1032  # bytes that deflate makes of one, at most
MOST_DIMENSIONS = 4


class Spec(NamedTuple):
    """What an array claims to be."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize  # Python's numbers do not overflow


Stored = tuple[dict[str, Any], dict[str, Any]]  # header, arrays
# raises unless these arrays belong to this header
Admit = Callable[[dict[str, Any], Mapping[str, Spec]], object]


def write_archive(
    path: Path, header: dict[str, Any], arrays: dict[str, Any], what: str, validate_schema: Admit
) -> None:
    """An archive in a file, atomically; ``what`` it is and how it is validated are those of
    :func:`read_archive`.
    """
    if path.suffix != ".npz":
        raise InputError(f"Save it as .npz, not {path.suffix or 'without a suffix'!r}: {path}.")
    write_atomically(
        path,
        lambda file: file.write(pack(header, arrays)),
        lambda data: check_packed(data, str(path), what, validate_schema),
    )


def read_archive(path: Path, what: str, validate_schema: Admit | None = None) -> Stored:
    """The header and arrays of :func:`write_archive`."""
    return unpack(read_bytes(path), str(path), what, validate_schema)


def read_bytes(path: Path) -> bytes:
    try:
        if path.is_fifo():
            raise InputError(f"{path} is a pipe, not a file.")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:  # NUL in a path
        raise InputError(f"{str(path)!r} is not a path ({error}).") from error


def plain(arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    """Arrays that need no pickle: text of any kind becomes plain text, None is left out."""
    present = {k: np.asarray(v) for k, v in arrays.items() if v is not None}
    return {k: as_text(v) if v.dtype.kind == "O" else v for k, v in present.items()}


def to_json(header: dict[str, Any]) -> bytes:
    return json.dumps({"format_version": FORMAT_VERSION} | header).encode()


def from_json(text: bytes, name: str) -> dict[str, Any]:
    """A header; raise if it is of another version, or might take far more memory than its text."""
    require(
        sum(text.count(sign) for sign in (b",", b"[", b"{", b":")) <= MOST_VALUES,
        "its header is too large",
    )
    header: dict[str, Any] = json.loads(text)
    require(isinstance(header, dict), "its header is no object")
    version = header.get("format_version")
    if version in (1, 2):
        raise InputError(
            f"{name} has format version {version}, which has no digest. Make it again, or read it"
            " with karat 0.2.0, the last to support it."
        )
    if type(version) is not int or not FORMAT_VERSION <= version <= NEWEST_FORMAT:
        raise InputError(
            f"{name} has format version {version}; this karat reads up to version {NEWEST_FORMAT}."
            " Update karat."
        )
    return header


def content_digest(text: bytes, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of a header and of arrays: their names, types, shapes and values."""
    digest = hashlib.sha256(text)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def check_digest(stored: str, text: bytes, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise unless the content is what was written."""
    require(
        content_digest(text, arrays) == stored, "its content is not what was written, by its digest"
    )


def pack(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """A JSON header and arrays as the bytes of an ``.npz``."""
    file, text = io.BytesIO(), to_json(header)
    plain_arrays = plain(arrays)
    digest = bytes.fromhex(content_digest(text, plain_arrays))
    described = {
        HEADER: np.frombuffer(text, dtype=np.uint8),
        DIGEST: np.frombuffer(digest, dtype=np.uint8),
    }
    np.savez_compressed(file, **plain_arrays, **described)  # type: ignore[arg-type]
    return file.getvalue()


def unpack(data: bytes, name: str, what: str, validate_schema: Admit | None = None) -> Stored:
    """The header and arrays of :func:`pack`; ``name`` and ``what`` it is are for error messages.

    Parameters
    ----------
    validate_schema : callable, optional
        Called with the header and with what the arrays claim to be, before they are read.
    """
    with reading(name, what):
        members, text, header, specs = _described(data, name, validate_schema)
        arrays = {key: members.read(key) for key in specs}
        check_digest(members.read(DIGEST).tobytes().hex(), text, arrays)
    return header, arrays


def check_packed(data: bytes, name: str, what: str, validate_schema: Admit) -> None:
    """Raise if :func:`unpack` would refuse these bytes for their header, or for types and sizes."""
    with reading(name, what):
        _described(data, name, validate_schema)


def _described(
    data: bytes, name: str, validate_schema: Admit | None
) -> tuple[NpzReader, bytes, dict[str, Any], dict[str, Spec]]:
    """An archive before its arrays are read: as text and as an object the header, and what the
    arrays claim to be.
    """
    require(data.startswith(ZIP), "it does not begin like one")
    members = NpzReader(data)
    text = members.read(HEADER).tobytes()
    header = from_json(text, name)
    specs = {key: members.spec(key) for key in members.infos if key not in (HEADER, DIGEST)}
    if validate_schema is not None:
        validate_schema(header, specs)
    return members, text, header, specs


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Named arrays and CSR matrices as arrays only."""
    arrays: dict[str, Any] = {}
    for name, value in values.items():
        if sparse.issparse(value):
            arrays |= {
                f"{name}/{part}": getattr(value, part)
                for part in ("data", "indices", "indptr", "shape")
            }
        else:
            arrays[name] = value
    return arrays


def unflat(arrays: dict[str, Any]) -> dict[str, Any]:
    """Named arrays and CSR matrices from the arrays of :func:`flat`."""
    values = {name: value for name, value in arrays.items() if "/" not in name}
    for name in {name.partition("/")[0] for name in arrays if "/" in name}:
        data, indices, indptr, shape = (
            arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr", "shape")
        )
        values[name] = sparse.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
    return values


def prefixed(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}:{name}": value for name, value in arrays.items()}


def without_prefix(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays that :func:`prefixed` named."""
    return {
        name.partition(":")[2]: value
        for name, value in arrays.items()
        if name.startswith(f"{prefix}:")
    }


class NpzReader:
    """The arrays of an ``.npz`` in memory, each read on demand."""

    def __init__(self, data: bytes) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(data))
        self.infos = {info.filename.removesuffix(".npy"): info for info in self.archive.infolist()}

    def spec(self, name: str) -> Spec:
        """What an array claims to be; raise if the bytes contradict it."""
        info = self.infos[name]
        require(
            info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
            f"{name!r} is compressed in an unknown way",
        )
        require(
            info.file_size <= EXPANSION * info.compress_size,
            f"{name!r} claims more bytes than it can hold",
        )
        with self.archive.open(info) as stream:
            return _spec(stream, info.file_size)

    def read(self, name: str) -> np.ndarray:
        """An array that is what it claims to be."""
        self.spec(name)
        with self.archive.open(self.infos[name]) as stream:
            return _array(stream)


def array_of(data: bytes) -> np.ndarray:
    """The array of ``.npy`` bytes."""
    stream = io.BytesIO(data)
    _spec(stream, len(data))
    stream.seek(0)
    return _array(stream)


def _spec(stream: IO[bytes], size: int) -> Spec:
    """Read the header of an array that is stored in ``size`` bytes."""
    require(np.lib.format.read_magic(stream) == (1, 0), "an array of another version")
    with warnings.catch_warnings(action="ignore"):  # about the text of a damaged header
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    require(dtype.kind in KINDS and dtype.itemsize > 0, f"values of type {dtype} are not stored")
    require(
        len(shape) <= MOST_DIMENSIONS and all(type(side) is int and side >= 0 for side in shape),
        f"no shape {shape}",
    )
    spec = Spec(dtype, shape)
    claimed = stream.tell() + spec.nbytes
    require(claimed == size, f"an array claims {claimed:,} bytes where there are {size:,}")
    return spec


def _array(stream: IO[bytes]) -> np.ndarray:
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


try:
    import fcntl
except ImportError:
    LOCKS = False  # not on this system: leftovers stay
else:
    LOCKS = True


def write_atomically(
    path: Path,
    write: Callable[[BinaryIO], object],
    read_back: Callable[[bytes], object] | None = None,
) -> None:
    """Let ``write`` fill a new file beside ``path``, then put it in its place in one step.

    ``read_back`` is called with the bytes of the new file first; if it raises, nothing is replaced.

    If two processes write the same path, the last one wins; no reader sees a half-written file.
    The file has the permissions of the file that it replaces, or those of the umask.
    """
    remove_leftovers(path)
    try:
        part, handle = _new_part(path)
        try:
            with os.fdopen(handle, "wb") as file:
                if path.exists():
                    part.chmod(stat.S_IMODE(path.stat().st_mode))
                write(file)
                file.flush()
                os.fsync(file.fileno())
                if read_back is not None:
                    _read_back(part, path, read_back)
                if LOCKS:  # while it is locked; without locks a file is closed before it is renamed
                    part.replace(path)
            if not LOCKS:
                part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except StorageError:  # it says what is wrong already
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"{path} could not be written ({reason}); an older file there is unchanged."
        ) from error


def remove_leftovers(path: Path) -> None:
    """Remove the parts left by processes that were killed while they wrote ``path``."""
    if not LOCKS:
        return
    for part in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        # an error means that the part is locked by its writer, already gone, or not ours
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _read_back(part: Path, path: Path, read_back: Callable[[bytes], object]) -> None:
    try:
        read_back(part.read_bytes())
    except InputError as error:
        raise StorageError(
            f"{path} was not written, because it could not be read afterwards"
            f" ({error.__cause__ or error}); an older file there is unchanged."
        ) from error


def _new_part(path: Path) -> tuple[Path, int]:
    """A new file beside ``path``, open and locked."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        handle = os.open(
            part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
        )
        if not LOCKS:
            return part, handle
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if part.exists():
            return part, handle
        os.close(handle)  # before the lock, another process took it for a leftover and removed it
