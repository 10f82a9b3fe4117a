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

import numpy as np

from karat.engine.linalg import Array
from karat.engine.tolerances import EPS

SMALLEST = float(np.finfo(float).smallest_subnormal)


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
