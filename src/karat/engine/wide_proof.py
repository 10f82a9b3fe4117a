"""Kept rows beside all rows, in many coordinates: the error of their second moments, and what
rounding adds to it.

Entries of computed sums ``sum_i w_i c_i c_i'`` are off by at most g times the sums A of absolute
values.  In units of the coordinates (d, the roots of the diagonal of M) and with lambda the
smallest eigenvalue of their correlations,

    |v'E v|  <=  g |v|'A |v|  <=  (g / lambda) norm(A) v'M v,
    norm(A) <= r,   norm(A) <= max_k (A x)_k / x_k

for any positive x (docs/mathematics.md, Proposition 18).  For all rows A is not known, and its norm
is at most r.  For made rows the norm takes a few products with vectors and is far smaller, about
2 log r, because a made row is close to the mean in most coordinates.  So their moments can be
summed in large pieces.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from karat.engine.frame import KEPT, Frame
from karat.engine.linalg import Array
from karat.engine.sums import chained_squares, mirrored
from karat.engine.tolerances import EPS, TINY

PIECE = 128  # rows that are added one after the other
STEPS = 3  # of the power method
FEWER = 8.0  # times less than r: the norm up to which sums in large pieces will do
SMALLEST = 1e-3  # entry of x


def norm_of_absolute(frame: Frame, coordinates: Array, weights: Array) -> float:
    """A bound on the norm of A, for the given rows."""
    root = np.sqrt(np.maximum(np.diag(frame.half), TINY))
    terms, x, norm = np.abs(coordinates), np.ones(len(root)), np.inf
    terms /= root
    for _ in range(STEPS):
        after = (weights * (terms @ x)) @ terms
        norm = min(norm, float((after / x).max()))
        x = np.maximum(after / max(after.max(), TINY), SMALLEST)
    return min(norm, float(len(root)))


def _rounding(frame: Frame, norm: float, rows: int = 0) -> float:
    """What rounding of the sums may add to an error relative to the loss.

    If ``rows`` is given, that many kept rows are summed in large pieces.
    """
    full, kept = frame.sum_errors(KEPT)
    if rows:
        kept = 0.5 * EPS * (frame.degree + 2 + PIECE + ceil(rows / PIECE))
    return (full * len(frame.half) + kept * norm) / frame.least if frame.least > 0 else np.inf


def expected_rounding(frame: Frame) -> float:
    """About the same for rows that are not made yet: their A resembles the correlations."""
    return _rounding(frame, min(2 * frame.correlation_norm, len(frame.half)), len(frame.half))


def moments_beside(
    frame: Frame, coordinates: Array, weights: Array, allowed: float
) -> tuple[Array, float, float]:
    """E, its norm relative to the loss, and what rounding may add to it.

    Sums in small pieces follow if those in large pieces exceed what is ``allowed``.
    """
    norm = norm_of_absolute(frame, coordinates, weights)
    if FEWER * norm <= len(frame.half) and allowed > 0:
        difference = mirrored(chained_squares(coordinates, weights, PIECE))
        difference -= frame.half
        gap, rounding = frame.relative_norm(difference), _rounding(frame, norm, len(weights))
        if gap + rounding <= allowed:
            return difference, gap, rounding
    difference = frame.difference(coordinates, weights)
    return difference, frame.relative_norm(difference), _rounding(frame, norm)
