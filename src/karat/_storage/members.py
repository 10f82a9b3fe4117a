"""Arrays out of bytes that nobody has checked: types and sizes are compared with the bytes before memory is taken.

An array claims a shape in its own header, and a member of a zip archive claims how many bytes it has.  Both may be damaged, or
made up by somebody.  An array is read if its claim agrees with the bytes that are there, and a compressed member if its size is
possible at all: deflate makes at most 1032 bytes of one.
"""

from __future__ import annotations

import io
import zipfile
from math import prod
from typing import IO, NamedTuple

import numpy as np

from karat._storage.damage import require

KINDS = "biufcUSMm"  # never Python objects, never records
EXPANSION = 1032
CHUNK = 2**20
MOST_DIMENSIONS = 4


class Spec(NamedTuple):
    """What an array claims to be."""

    dtype: np.dtype
    shape: tuple[int, ...]
    order: str

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize  # Python's numbers do not overflow


class Members:
    """The arrays of an ``.npz`` in memory, each read on demand."""

    def __init__(self, data: bytes) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(data))
        self.infos: dict[str, zipfile.ZipInfo] = {}
        for info in self.archive.infolist():
            require(info.filename.endswith(".npy"), f"{info.filename[:60]!r} is no array")
            require(info.filename[:-4] not in self.infos, f"{info.filename[:60]!r} is there twice")
            self.infos[info.filename[:-4]] = info

    def spec(self, name: str) -> Spec:
        """What an array claims to be, after its claims were compared with the bytes."""
        with self._open(name) as stream:
            return _spec(stream, self.infos[name].file_size)

    def read(self, name: str) -> np.ndarray:
        """An array; its memory is taken once."""
        with self._open(name) as stream:
            return _array(stream, _spec(stream, self.infos[name].file_size))

    def _open(self, name: str) -> IO[bytes]:
        info = self.infos[name]
        require(info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), f"{name!r} is compressed in an unknown way")
        most = info.compress_size * (EXPANSION if info.compress_type == zipfile.ZIP_DEFLATED else 1)
        require(info.file_size <= most, f"{name!r} claims {info.file_size:,} bytes, more than it can hold")
        return self.archive.open(info)


def array_of(data: bytes) -> np.ndarray:
    """The array of ``.npy`` bytes."""
    stream = io.BytesIO(data)
    return _array(stream, _spec(stream, len(data)))


def _spec(stream: IO[bytes], size: int) -> Spec:
    """Read the header of an array that is stored in ``size`` bytes."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    require(version in readers, f"arrays of version {version} are not known")
    shape, fortran, dtype = readers[version](stream)
    require(dtype.kind in KINDS and dtype.itemsize > 0, f"values of type {dtype} are not stored")
    require(len(shape) <= MOST_DIMENSIONS and all(type(side) is int and side >= 0 for side in shape), f"no shape {shape}")
    spec = Spec(dtype, shape, "F" if fortran else "C")
    claimed = stream.tell() + spec.nbytes
    require(claimed == size, f"an array claims {claimed:,} bytes where there are {size:,}")
    return spec


def _array(stream: IO[bytes], spec: Spec) -> np.ndarray:
    flat = np.empty(spec.nbytes // spec.dtype.itemsize, dtype=spec.dtype)
    view = memoryview(flat.view(np.uint8)) if len(flat) else memoryview(b"")  # type: ignore[arg-type]
    done = 0
    while done < len(view):
        some = stream.read(min(CHUNK, len(view) - done))
        require(bool(some), "an array is cut off")
        view[done : done + len(some)] = some
        done += len(some)
    require(not stream.read(1), "an array is longer than it claims")  # at its end a zip file compares its checksum
    return np.asarray(flat.reshape(spec.shape, order=spec.order))  # type: ignore[call-overload]
