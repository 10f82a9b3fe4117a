"""Sums over rows, and how far rounding can move them.

Every rounding changes a term by at most u = EPS / 2 of itself.  A sum whose terms go through k of them each is off by at most
``k u`` times the sum of absolute values (to first order: k u < 1e-13).  So it is enough to count, for one term, the roundings
on its way into the sum:

    its own           a feature of degree p is p shifted columns, p - 1 products, a factor and a weight  (``Kernel.roundings``)
    a run             BLAS adds SHORT rows at most one after the other; NumPy's sum has runs of 25 (an eighth of 128 values,
                      eight partial sums, up to seven values beside)
    a tree            runs of a block, blocks of a range and ranges are added in pairs, with a rest at either of the first two

What underflows on the way is off by at most the smallest number of all.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from karat.engine.linalg import SHORT, Array
from karat.engine.tolerances import EPS

RESTS = 5  # additions beyond a perfect tree: rests of blocks, ranges of unequal length, and the first value of NumPy's sum
MOST_ROWS = 2**40
EXTENDED = 2**21  # products that extended precision sums in some milliseconds
WIDE = float(np.finfo(np.longdouble).eps)  # EPS where the machine has nothing longer than a double
SMALLEST = float(np.finfo(float).smallest_subnormal)


def sums_in_extended(rows: int, left: int, right: int) -> bool:
    """Whether products (left x rows)(rows x right) are so small that they are summed in extended precision, if there is one."""
    return WIDE < EPS and rows * left * right <= EXTENDED


def sum_rounding(rows: int, own: int, piece: int = SHORT) -> float:
    """What the sum over so many rows may be off by, per unit of absolute values; a term has ``own`` roundings itself.

    ``piece``: rows that are added one after the other.
    """
    tree = RESTS + ceil(log2(rows / piece)) if rows > piece else 0
    return 0.5 * EPS * (own + min(rows, piece) + tree)


def exact_sum_rounding(own: int) -> float:
    """The same for :func:`exact_sum`."""
    return 0.5 * EPS * (own + 2)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def exact_sum(features: Array, weights: Array) -> Array:
    """``weights @ features``: the sum of the rounded products is rounded once, however many rows there are."""
    terms = np.multiply(np.ascontiguousarray(features.T), weights)
    if not terms.shape[1]:
        return np.zeros(len(terms))
    lost = np.zeros(len(terms))
    while (count := terms.shape[1]) > 1:
        half = count // 2
        joint, error = two_sum(terms[:, :half], terms[:, half : 2 * half])
        lost += error.sum(axis=1)
        terms = joint if count == 2 * half else np.hstack([joint, terms[:, -1:]])
    return np.asarray(terms[:, 0] + lost)
