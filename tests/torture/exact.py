"""Exact arithmetic for the oracles: doubles as integers times powers of two, and second
moments of them.

Nothing here rounds.  What is not an integer (roots, inverses) is a Decimal of many digits, and
says so.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np

DIGITS = 160  # of Decimals
CONTEXT = decimal.Context(
    prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, rounding=decimal.ROUND_HALF_EVEN
)
BLOCK = 2**16
ZERO = Decimal(0)


def parts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Odd integers m and exponents e with ``values = m 2^e`` exactly; 0 has exponent 0.

    Integers stay whole.
    """
    values = np.asarray(values)
    if values.dtype.kind in "iub":
        whole, exponent = values.astype(object), np.zeros(len(values), dtype=np.int64)
        return whole, exponent
    if values.dtype == np.longdouble:  # a double and what is left: both exact
        high = values.astype(float)
        low = (values - high).astype(float)
        if not low.any():
            return parts(high)
        both = [exact(h) + exact(rest) for h, rest in zip(high, low, strict=True)]
        shift = max(number.denominator.bit_length() - 1 for number in both)
        return np.array([int(number * 2**shift) for number in both], dtype=object), np.full(
            len(values), -shift
        )
    mantissa, exponent = np.frexp(values.astype(float))
    whole = (mantissa * 2.0**53).astype(np.int64)
    last = whole & -whole
    zeros = np.where(whole != 0, np.frexp(last.astype(float))[1] - 1, 0)
    return whole >> zeros, np.where(whole != 0, exponent - 53 + zeros, 0).astype(np.int64)


def exact(value):
    from fractions import Fraction

    return Fraction(float(value))


def lowest(values: np.ndarray) -> int:
    """The exponent of the last bit of any of the values; a large number if all are 0."""
    whole, exponent = parts(values)
    there = whole != 0
    return int(exponent[there].min()) if there.any() else 0


def whole(values: np.ndarray, low: int) -> np.ndarray:
    """The values as Python's integers, in units of 2^low."""
    odd, exponent = parts(values)
    shift = np.where(odd != 0, exponent - low, 0)
    assert shift.min(initial=0) >= 0
    if odd.dtype != object and shift.max(initial=0) <= 9:
        return (odd << shift).astype(object)
    return np.left_shift(odd.astype(object), shift.astype(object))


class Side:
    """Columns and weights of some rows."""

    def __init__(self, columns: list[np.ndarray], weights: np.ndarray | None, count: int) -> None:
        self.columns, self.weights, self.count = columns, weights, count
        self.lows = [lowest(c) for c in columns]
        self.low = 0 if weights is None else lowest(weights)

    def take(self, rows: np.ndarray) -> Side:
        return Side(
            [c[rows] for c in self.columns],
            None if self.weights is None else self.weights[rows],
            len(rows),
        )

    def blocks(self, lows: list[int], low: int, constant: bool):
        """Weights and columns as integers, block by block; a column of ones first if
        ``constant``.
        """
        for a in range(0, self.count, BLOCK):
            some = slice(a, min(a + BLOCK, self.count))
            ones = np.full(some.stop - a, 1, dtype=object)
            u = ones << (-low) if self.weights is None else whole(self.weights[some], low)
            found = [whole(c[some], at) for c, at in zip(self.columns, lows, strict=True)]
            yield u, [ones, *found] if constant else found

    def gram(
        self, lows: list[int], low: int, constant: bool, only: int | None = None
    ) -> np.ndarray:
        """Second moments, as integers; ``only``: those with this column, the others are 0."""
        size = len(self.columns) + constant
        total = np.full((size, size), 0, dtype=object)
        for u, columns in self.blocks(lows, low, constant):
            for a in range(size):
                heavy = u * columns[a]
                for b in range(a, size):
                    if only is None or only in (a, b):
                        total[a, b] += np.dot(heavy, columns[b]) if len(heavy) else 0
        for a in range(size):
            for b in range(a):
                total[a, b] = total[b, a]
        return total


def decimals(matrix: np.ndarray) -> np.ndarray:
    """Integers as Decimals, rounded to DIGITS."""
    made = np.empty(matrix.shape, dtype=object)
    for place, value in np.ndenumerate(matrix):
        made[place] = CONTEXT.create_decimal(int(value))
    return made


def factor(G: np.ndarray, least: Decimal = Decimal("1e-90")) -> tuple[np.ndarray, np.ndarray]:
    """``(T, d)`` with ``T' G T = diag(d)``, T of order 1: elimination with the largest pivot first,
    in Decimals.
    """
    size = len(G)
    A, order, L = G.copy(), list(range(size)), np.full((size, size), ZERO, dtype=object)
    d = np.full(size, ZERO, dtype=object)
    for k in range(size):
        top = max(range(k, size), key=lambda i: A[i, i])
        if A[top, top] <= least:
            for i in range(k, size):
                L[i, i] = Decimal(1)
            break
        order[k], order[top] = order[top], order[k]
        A[[k, top]] = A[[top, k]]
        A[:, [k, top]] = A[:, [top, k]]
        L[[k, top], :k] = L[[top, k], :k]
        d[k], L[k, k] = A[k, k], Decimal(1)
        if k + 1 < size:
            L[k + 1 :, k] = A[k + 1 :, k] / d[k]
            A[k + 1 :, k + 1 :] = A[k + 1 :, k + 1 :] - np.outer(L[k + 1 :, k], A[k, k + 1 :])
    inverse = np.full((size, size), ZERO, dtype=object)  # of L', from the last row up
    for k in reversed(range(size)):
        row = np.full(size, ZERO, dtype=object)
        row[k] = Decimal(1)
        for i in range(k + 1, size):
            if L[i, k]:
                row = row - L[i, k] * inverse[i]
        inverse[k] = row
    T = np.empty((size, size), dtype=object)
    T[order] = inverse
    return T, d
