"""Arrays out of bytes that nobody has checked: types and sizes are compared with the bytes before
memory is taken.

An array claims a shape in its own header, and a member of a zip archive claims how many bytes it
has.  Both may be made up by somebody.  An array is read if its claim agrees with the bytes that are
there, and a member if its size is possible at all: deflate makes at most 1032 bytes of one.
"""

from __future__ import annotations

import io
import zipfile
from math import prod
from typing import IO, NamedTuple

import numpy as np

from karat.errors import require

KINDS = "biufcUSMm"  # never Python objects, never records
EXPANSION = 1032
MOST_DIMENSIONS = 4


class Spec(NamedTuple):
    """What an array claims to be."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize  # Python's numbers do not overflow


class NpzReader:
    """The arrays of an ``.npz`` in memory, each read on demand."""

    def __init__(self, data: bytes) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(data))
        self.infos = {info.filename.removesuffix(".npy"): info for info in self.archive.infolist()}

    def spec(self, name: str) -> Spec:
        """What an array claims to be, after its claims were compared with the bytes."""
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
