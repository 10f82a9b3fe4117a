"""Two proofs for as many coordinates as rows, or nearly: sums in large pieces, and rotations.

**Sums of second moments** of kept rows beside those of all rows, and what rounding adds to their
error.  Entries of computed sums ``sum_i w_i c_i c_i'`` are off by at most g times the sums A of
absolute values.  In units of the coordinates (d, the roots of the diagonal of M) and with lambda
the smallest eigenvalue of their correlations,

    |v'E v|  <=  g |v|'A |v|  <=  (g / lambda) norm(A) v'M v,
    norm(A) <= r,   norm(A) <= max_k (A x)_k / x_k

for any positive x (docs/mathematics.md, Proposition 18).  For all rows A is not known, and its norm
is at most r.  For made rows the norm takes a few products with vectors and is far smaller, about
2 log r, because a made row is close to the mean in most coordinates.  So their moments can be
summed in large pieces.

**Rotations.**  Weighted rows that are a rotation of others have their squares.  With B the rows
``[1 | D - shift]`` of the data, times the roots of their weights, and C those of the coreset,
``f(z) = |B z|^2`` and ``f_c(z) = |C z|^2``.  If there is a matrix R with

    B = H R + F,      C = K R + G,      H'H = I + E_H,      K'K = I + E_K,

then the claim of :mod:`karat.engine.proof` holds with the loss error ``|E_H| + |E_K|`` and rounding
``max_j (|F_j| + |G_j|) / sigma_j``: both are |R z|^2, up to rotations and a change of the columns
(docs/mathematics.md, Proposition 20, which also has the term of the constant).  R, H and K come
from factorisations, and may be off by any amount: E, F and G are computed.  Unlike a comparison of
sums of squares, this needs no coordinates in which the columns are well conditioned.  It takes H,
which is as large as the data, so that it is for few rows, and where these are as many as columns.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from karat.engine import linalg
from karat.engine.claim import Proof
from karat.engine.coordinates import moved_columns
from karat.engine.frame import KEPT, Frame
from karat.engine.linalg import Array
from karat.engine.sums import chained_squares, gram_matrix, mirrored, squares_rounding
from karat.engine.tolerances import COORDINATES, EPS, ROUNDING, TINY

PIECE = 128  # rows that are added one after the other
STEPS = 3  # of the power method
FEWER = 8.0  # times less than r: the norm up to which sums in large pieces will do
SMALLEST = 1e-3  # entry of x
# relative singular values below which a direction is left to the change of the columns
RANK = 8 * EPS


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


def prove_by_rotations(block: Array, data_weights: Array, made: Array, weights: Array) -> Proof:
    """Prove weighted rows against all rows: blocks ``[1 | D - shift]`` and their weights."""
    total = float(data_weights.sum())
    means = data_weights @ block / total
    spreads = np.sqrt(np.maximum(data_weights @ np.square(block - means) / total, 0.0)) * (
        1 - len(block) * EPS
    )
    everything, kept = (
        block * np.sqrt(data_weights / total)[:, None],
        made * np.sqrt(weights / total)[:, None],
    )
    size = np.maximum(linalg.column_norms(everything), linalg.column_norms(kept))
    unit = np.where(size > 0, size, 1.0)
    triangle = _triangle(everything / unit, min(len(block), len(made)))
    error, moved, lost = 0.0, np.zeros(len(unit)), np.zeros(len(unit))
    for rows in (everything / unit, kept / unit):
        rotation = _rotation(rows, triangle)
        products = gram_matrix(rotation, None) - np.eye(len(triangle))
        error += linalg.spectral_norm(products) + len(triangle) * squares_rounding(
            len(rows), len(triangle), 2
        )
        moved += linalg.column_norms(rows - rotation @ triangle)
        # what the product, the root of the weight and the subtraction of the shift may be off by
        lost += (
            EPS
            / 2
            * ((len(triangle) + 1) * linalg.column_norms(np.abs(rotation) @ np.abs(triangle)) + 4)
        )
    moved, lost = moved * unit, lost * unit
    ratio = [float(moved_columns(k, means, spreads, True).max(initial=0.0)) for k in (moved, lost)]
    loss = error + 2 * float(moved[0] + lost[0])
    worst = int(np.argmax(moved[1:] / np.maximum(spreads[1:], TINY))) if len(moved) > 1 else 0
    remainder = max(ratio[0] / ROUNDING, ratio[1] / (COORDINATES * (len(unit) + 1)))
    return Proof(
        loss, remainder, error, 1.0, (), loss, 2, worst, measured=ratio[0], derived=ratio[1],
        in_columns=True
    )  # fmt: skip


def _triangle(rows: Array, most: int) -> Array:
    """R of full rank (r x v, r <= ``most``) with the squares of the rows, up to rounding."""
    _, sizes, vectors = linalg.svd(rows, full_matrices=False)
    keep = (sizes > RANK * sizes[:1]) & (np.arange(len(sizes)) < most)
    return np.asarray(sizes[keep, None] * vectors[keep])


def _rotation(rows: Array, triangle: Array) -> Array:
    """H with orthonormal columns and ``H R`` near the rows.

    The last columns of ``rows R^+`` belong to small directions and are mostly rounding.  So they
    are made orthogonal to the others, and not the reverse.
    """
    size = linalg.column_norms(triangle.T)
    rotation, triangular = np.linalg.qr(rows @ (triangle / np.square(size)[:, None]).T)
    return np.asarray(rotation * np.where(np.diag(triangular) < 0, -1.0, 1.0))
