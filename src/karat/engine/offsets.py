"""Whole numbers that double precision cannot tell apart, read as differences to an offset.

A double holds every whole number up to 2^53; identifiers and timestamps in nanoseconds are larger, and neighbours among
them become one number.  Their differences to an offset need not be: if ``value - offset`` is taken before the conversion,
nothing is rounded.  Moments about one origin determine those about another where the constant is among the variables, so
the engine never learns of the offset, and rows are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from karat.engine.linalg import Array

WHOLE = 2**53  # whole numbers up to here are doubles
GRID = 2**11  # offsets are multiples of it, so that they are doubles themselves: 2^64 = 2^53 * 2^11

Offsets = Mapping[int, int]  # by column; columns without one are read as they are


def is_long(kind: np.dtype[Any]) -> bool:
    """Whether a type holds whole numbers that a double may not."""
    return kind.kind in "iu" and kind.itemsize > 4


def all_small(values: np.ndarray) -> bool:
    """Whether no whole number is beyond 2^53."""
    return values.size == 0 or (int(values.min()) >= -WHOLE and int(values.max()) <= WHOLE)


def nearby_offset(values: np.ndarray) -> int:
    """An offset from which the differences of whole numbers are small."""
    low = int(values.min())
    return low - low % GRID


def all_exact(values: np.ndarray, offset: int = 0) -> bool:
    """Whether the difference of every whole number to an offset is a double."""
    if not len(values):
        return True
    furthest = max(abs(int(values.min()) - offset), abs(int(values.max()) - offset))
    if furthest <= WHOLE:
        return True
    if furthest >= 2**64:
        return False
    size, _ = _apart(values, offset)
    odd = size // np.maximum(size & (~size + np.uint64(1)), np.uint64(1))  # a double is an odd number times a power of two
    return bool((odd <= WHOLE).all())


def less(values: np.ndarray, offset: int) -> Array:
    """``values - offset`` in double precision, without rounding where the difference is a double."""
    if not is_long(values.dtype):
        return values.astype(float) - float(offset)
    size, below = _apart(values, offset)
    difference = size.astype(float)
    return np.where(below, -difference, difference)


def _apart(values: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances of whole numbers to an offset, and which are below it.  Modulo 2^64 signed numbers subtract as unsigned."""
    above = values.astype(np.uint64) - np.uint64(offset % 2**64)
    below = values < offset
    return np.where(below, ~above + np.uint64(1), above), below


def exact_sum(start: float, factors: Iterable[float], offsets: Iterable[float]) -> float:
    """``start + sum(factors * offsets)``, rounded once: the terms may be large and cancel."""
    pairs = [(float(factor), offset) for factor, offset in zip(factors, offsets, strict=True) if offset]
    if not np.isfinite([float(start), *(factor for factor, _ in pairs), *(float(offset) for _, offset in pairs)]).all():
        return float(start) + float(sum(factor * offset for factor, offset in pairs))
    return float(sum((Fraction(factor) * Fraction(offset) for factor, offset in pairs), Fraction(float(start))))


class Lowered:
    """A block of columns, some of them less an offset."""

    def __init__(self, part: Any, offsets: Offsets) -> None:
        self.part, self.offsets = part, offsets
        self.shape, self.dtype = part.shape, np.dtype(float)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, tuple):
            return self[where[0]][:, where[1]]
        values = self.part[where]
        block = values.astype(float)
        for column, offset in self.offsets.items():
            block[:, column] = less(values[:, column], offset)
        return block


def lowered(parts: list[Any], offsets: Offsets | None) -> list[Any]:
    """Column blocks less their offsets, which are numbered through all blocks."""
    if not offsets:
        return parts
    blocks, left = [], 0
    for part in parts:
        right = left + int(part.shape[1])
        own = {column - left: offset for column, offset in offsets.items() if left <= column < right}
        blocks.append(Lowered(part, own) if own else part)
        left = right
    return blocks
