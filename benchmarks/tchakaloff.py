"""Caratheodory-Tchakaloff compression by accelerated non-negative least squares, as in dCATCH; for
comparison only.

M. Dessole, F. Marcuzzi and M. Vianello, *dCATCH: a numerical package for d-variate near G-optimal
Tchakaloff regression via fast NNLS*, Mathematics 8 (2020).  For points with features V (n x m) and
weights u:

    1. an orthonormal basis:  sqrt(u) V = Q R with column pivoting, cut at the rank; then the QR of
       V R^-1;
    2.  its moments               b = Q'u;
    3. non-negative solution of  Q'w = b  by the active-set method of Lawson and Hanson (LH), whose
       support is a coreset,
        with *deviation maximisation* (DM): not one column enters at a time, but up to k = m / 20
        whose gradients are at least 0.8 of the largest and whose angles to each other have a cosine
        of at most 0.2222.

The constants are those of the package.  LH keeps a set P of positive weights, solves least squares
on it, and moves towards that solution as far as weights stay positive; what reaches zero leaves P.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg as sla

from karat.engine.linalg import Array, Flags, Indices

COSINE = 0.2222  # of the angle between two columns that enter together
SHARE = 0.8  # of the largest gradient that a column needs to enter with it
TOGETHER = 20  # features per column that may enter at once
EPS = float(np.finfo(float).eps)


def dcatch(features: Array, weights: Array) -> tuple[Indices, Array]:
    """Indices and weights with the same moments, at most as many as the rank of the features."""
    orthonormal = _orthonormal(features, weights)
    solution = lawson_hanson(np.ascontiguousarray(orthonormal.T), orthonormal.T @ weights)
    return np.flatnonzero(solution > 0), solution[solution > 0]


def _orthonormal(features: Array, weights: Array) -> Array:
    """An orthonormal basis of the columns, by two QR factorisations."""
    weighted = features * np.sqrt(weights)[:, None]
    R, pivots = sla.qr(weighted, mode="r", pivoting=True, check_finite=False)
    size = np.abs(np.diag(R))
    rank = int(np.sum(size > max(features.shape) * EPS * size[0]))
    basis = sla.solve_triangular(
        R[:rank, :rank], features[:, pivots[:rank]].T, trans="T", check_finite=False
    ).T
    return np.asarray(np.linalg.qr(basis)[0])


def lawson_hanson(matrix: Array, goal: Array) -> Array:
    """A non-negative x with ``matrix x = goal`` in the least-squares sense; its columns in the
    support are independent.
    """
    m, n = matrix.shape
    tolerance = 10 * EPS * float(np.abs(matrix).sum(axis=0).max()) * n
    unit = matrix / np.linalg.norm(matrix, axis=0)
    x, positive = np.zeros(n), np.zeros(n, dtype=bool)
    gradient = matrix.T @ goal
    settled = 1  # columns that the last step added and kept; zero calls for a single column
    for _ in range(2 * m):
        if not np.any(gradient[~positive] > tolerance):
            break
        open_gradient = np.where(positive, -np.inf, gradient)
        entering = (
            _deviating(unit, open_gradient, m)
            if settled and positive.any()
            else np.array([open_gradient.argmax()])
        )
        entering = entering[: max(1, m - int(positive.sum()))]
        before = positive.copy()
        positive[entering] = True
        x = _to_solution(matrix, goal, x, positive, tolerance)
        settled = int(np.sum(positive & ~before)) if np.any(positive & ~before) else 0
        gradient = matrix.T @ (goal - matrix[:, positive] @ x[positive])
    return x


def _deviating(unit: Array, gradient: Array, m: int) -> Indices:
    """Columns of large gradient, in its order, that are nearly orthogonal to each other."""
    likely = np.flatnonzero(gradient > SHARE * gradient.max())
    likely = likely[np.argsort(-gradient[likely], kind="stable")]
    chosen = [likely[0]]
    for column in likely[1:]:
        if len(chosen) >= -(-m // TOGETHER):
            break
        if np.abs(unit[:, chosen].T @ unit[:, column]).max() < COSINE:
            chosen.append(column)
    return np.array(chosen)


def _to_solution(matrix: Array, goal: Array, x: Array, positive: Flags, tolerance: float) -> Array:
    """Go from x to the least-squares solution on the positive set, from which columns at zero
    leave; changes the set.
    """
    solution = x
    for _ in range(2 * len(goal) + 1):
        solution = np.zeros_like(x)
        solution[positive] = np.linalg.lstsq(matrix[:, positive], goal, rcond=None)[0]
        falling = positive & (solution <= 0)
        if not falling.any():
            break
        step = np.min(x[falling] / (x[falling] - solution[falling]))
        x = x + step * (solution - x)
        positive &= np.abs(x) >= tolerance
    return solution
