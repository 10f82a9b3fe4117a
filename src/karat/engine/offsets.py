"""Offsets for integers that double precision cannot tell apart.

A double holds every integer up to 2^53; identifiers and timestamps in nanoseconds are larger,
and neighbours among them become one number.  Their differences to an offset need not be:
:class:`karat.engine.rows.Rows` subtracts it before the conversion, so that nothing is rounded.
Moments about one origin determine those about another where the constant is among the variables, so
the rest of the engine needs no offset, and rows are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from karat.engine.parts import distances

WHOLE = 2**53  # integers up to here are doubles
GRID = 2**11  # offsets are multiples of it, so that they are doubles themselves: 2^64 = 2^53 * 2^11


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
