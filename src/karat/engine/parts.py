"""Column blocks: what rows are read from.

A block is an array, a CSR matrix, or one of the lazy blocks below, which hold less than they show
and make rows where these are read: integers less an offset, rows in several chunks, indicators
held as codes, blocks side by side, and what a function makes of the rows of other blocks.  The
engine reads a block by slices and by positions, ``block[where]``, and asks for no more than
:class:`Part` says.

**Offsets.**  A double holds every integer up to 2^53; identifiers and timestamps in nanoseconds are
larger, and neighbours among them become one number.  Their differences to an offset need not be: it
is subtracted before the conversion, so that nothing is rounded.  Moments about one origin determine
those about another where the constant is among the variables, so the rest of the engine needs no
offset, and rows are kept as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from karat.engine.linalg import is_long

Offsets = Mapping[int, int]  # by column; columns without one are read as they are
WHOLE = 2**53  # integers up to here are doubles
GRID = 2**11  # offsets are multiples of it, so that they are doubles themselves: 2^64 = 2^53 * 2^11


class Part(Protocol):
    """A block of columns."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def __getitem__(self, where: Any, /) -> Any: ...


class LazyPart(ABC):
    """Base class of blocks whose rows are made when they are read.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
        Of the rows that are read.
    ndim : int
    by_columns : bool
        Whether the columns of what is read lie apart, so that a buffer should hold them one after
        the other.
    has_views : bool
        Whether :meth:`run` costs nothing.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = np.dtype(float)
    by_columns = False
    has_views = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @abstractmethod
    def __getitem__(self, where: Any) -> Any:
        """Rows at a slice or at positions."""

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype=dtype)

    def run(self, where: slice) -> Part:
        """Consecutive rows as a block."""
        return self[where]  # type: ignore[no-any-return]


def has_views(part: Part) -> bool:
    """Whether consecutive rows of a block are available without a copy."""
    return part.has_views if isinstance(part, LazyPart) else isinstance(part, np.ndarray)


def run(part: Part, where: slice) -> Part:
    """Consecutive rows of a block, as a view where there is one."""
    return part.run(where) if isinstance(part, LazyPart) else part[where]


def distances(values: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances of integers from an offset, and which integers are below it.

    Signed integers are subtracted as unsigned ones, modulo 2^64.
    """
    above = values.astype(np.uint64) - np.uint64(offset % 2**64)
    below = values < offset
    return np.where(below, ~above + np.uint64(1), above), below


def less(values: np.ndarray, offset: int) -> npt.NDArray[np.float64]:
    """``values - offset`` in double precision, without rounding where the difference is a
    double.
    """
    if not is_long(values.dtype):
        return values.astype(float) - float(offset)
    size, below = distances(values, offset)
    difference = size.astype(float)
    return np.where(below, -difference, difference)


def all_small(values: np.ndarray) -> bool:
    """Whether no integer is beyond 2^53."""
    return values.size == 0 or (int(values.min()) >= -WHOLE and int(values.max()) <= WHOLE)


def nearby_offset(values: np.ndarray) -> int:
    """An offset from which the differences of integers are small."""
    low = int(values.min())
    return low - low % GRID


def all_exact(values: np.ndarray, offset: int = 0) -> bool:
    """Whether the difference of every integer to an offset is exact in double precision."""
    if not len(values):
        return True
    furthest = max(abs(int(values.min()) - offset), abs(int(values.max()) - offset))
    if furthest <= WHOLE:
        return True
    if furthest >= 2**64:
        return False
    size, _ = distances(values, offset)
    # a double is an odd number times a power of two
    odd = size // np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
    return bool((odd <= WHOLE).all())


def long_columns(part: Any) -> list[int]:
    """The columns of a block that hold integers beyond 2^53."""
    values = part.data if sparse.issparse(part) else part
    if all_small(values):
        return []
    if sparse.issparse(part):
        return np.unique(part.indices[(values < -WHOLE) | (values > WHOLE)]).tolist()  # type: ignore[no-any-return]
    return np.flatnonzero((part.min(axis=0) < -WHOLE) | (part.max(axis=0) > WHOLE)).tolist()


def exact_combination(start: float, factors: Iterable[float], offsets: Iterable[float]) -> float:
    """``start + sum(factors * offsets)``, rounded once: the terms may be large and cancel."""
    pairs = [
        (float(factor), offset) for factor, offset in zip(factors, offsets, strict=True) if offset
    ]
    if not np.isfinite(
        [float(start), *(factor for factor, _ in pairs), *(float(offset) for _, offset in pairs)]
    ).all():
        return float(start) + float(sum(factor * offset for factor, offset in pairs))
    return float(
        sum(
            (Fraction(factor) * Fraction(offset) for factor, offset in pairs),
            Fraction(float(start)),
        )
    )


class OffsetColumns(LazyPart):
    """A block of columns, some of them minus an offset."""

    def __init__(self, part: Any, offsets: Offsets) -> None:
        self.part, self.offsets = part, offsets
        self.shape, self.has_views = part.shape, has_views(part)

    def run(self, where: slice) -> Part:
        return OffsetColumns(run(self.part, where), self.offsets)

    def __getitem__(self, where: Any) -> Any:
        values = self.part[where]
        block = values.astype(float)
        for column, offset in self.offsets.items():
            block[:, column] = less(values[:, column], offset)
        return block


def minus_offsets(parts: Sequence[Any], offsets: Offsets) -> list[Any]:
    """Column blocks minus their offsets, whose keys count the columns of all blocks."""
    blocks, left = [], 0
    for part in parts:
        right = left + int(part.shape[1])
        part_offsets = {
            column - left: offset for column, offset in offsets.items() if left <= column < right
        }
        blocks.append(OffsetColumns(part, part_offsets) if part_offsets else part)
        left = right
    return blocks


class Chunked(LazyPart):
    """A column or block of columns whose rows are in several arrays, one after the other.

    A slice within one array is not copied.
    """

    def __init__(self, chunks: Sequence[Any]) -> None:
        self.chunks = [chunk for chunk in chunks if len(chunk)]
        self.edges = np.cumsum([0, *(len(chunk) for chunk in self.chunks)]).tolist()
        self.shape = (self.edges[-1], *chunks[0].shape[1:])
        self.dtype = np.result_type(*(chunk.dtype for chunk in self.chunks))

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, slice):
            start, stop, _ = where.indices(len(self))
            first = bisect_right(self.edges, start) - 1
            if stop <= self.edges[min(first + 1, len(self.chunks))]:
                return self.chunks[min(first, len(self.chunks) - 1)][
                    start - self.edges[first] : stop - self.edges[first]
                ]
            last = bisect_right(self.edges, stop - 1)
            spans = zip(self.chunks[first:last], self.edges[first:last], strict=True)
            return np.concatenate(
                [c[max(start - edge, 0) : max(stop - edge, 0)] for c, edge in spans]
            )
        positions = np.asarray(where)
        owner = np.searchsorted(self.edges, positions, side="right") - 1
        values = np.empty((len(positions), *self.shape[1:]), dtype=self.dtype)
        for i in np.unique(owner):
            mine = np.flatnonzero(owner == i)
            values[mine] = self.chunks[i][positions[mine] - self.edges[i]]
        return values


class SideBySide(LazyPart):
    """Blocks side by side, joined when rows are read: a single array might round integers."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)
        self.shape = (int(parts[0].shape[0]), sum(int(part.shape[1]) for part in parts))
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, where: Any) -> Any:
        return np.hstack([part[where] for part in self.parts])


class SelectedRows(LazyPart):
    """A selection of the rows of a block, applied when rows are read."""

    def __init__(self, part: Any, index: np.ndarray) -> None:
        self.part, self.index = part, index
        self.shape, self.dtype = (len(index), int(part.shape[1])), part.dtype

    def __getitem__(self, where: Any) -> Any:
        return self.part[self.index[where]]


class Computed(LazyPart):
    """What a function makes of the same rows of one or several blocks.

    Parameters
    ----------
    function : callable
        Gets rows of every block; a row of its result must not depend on other rows.
    parts : blocks
    columns : int
        Of the result.
    by_columns : bool
    """

    def __init__(
        self, function: Callable[..., Any], *parts: Any, columns: int, by_columns: bool = False
    ) -> None:
        self.function, self.parts, self.by_columns = function, parts, by_columns
        self.shape = (int(parts[0].shape[0]), columns)

    def __getitem__(self, where: Any) -> Any:
        return self.function(*(part[where] for part in self.parts))
