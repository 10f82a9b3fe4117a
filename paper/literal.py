"""The paper's Algorithms 2, 3, 5 and 6 as printed: an SVD per removed point, and d + 1 points at
the end.

They are here for comparison; the library does not use them.  Without three guards they do not end:

* Algorithm 5 is called with k > d + 1 clusters.  The paper leaves k open; with k <= d + 1 no
  cluster is ever removed and the recursion is endless.
* The weight that determines the step is set to zero.  Rounding may leave it at 1e-17, and ``w > 0``
  would keep the point.
* Both recursions are tail calls, written as loops: Python would run out of stack.

Algorithms 5 and 6 stop at d + 1 points for points in R^d, whatever the rank.  The benchmarks pass
them the unique monomials without the constant: with the paper's vec(d d') of (d+1)^2 entries they
would keep almost twice as many rows.

Algorithm 2 stacks the unfolded rows vec(d d') on lambda T, T the diagonal matrix of signs, and
reduces both together.  With weights W_ab on the rows of T and Delta = S - S_c the difference of the
moments, this means ``W_ab = 1 - Delta_ab / lambda`` above the diagonal, ``1 + Delta_ab / lambda``
below and on it: each cross moment may differ by up to lambda.  The paper then solves ``(Xc'Xc +
lambda I_c) w = Xc'yc`` with I_c the weighted signs.  That is wrong twice: only the symmetric part
of I_c belongs there, and the signs in the label's row and column are a term of the right side.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise, permutations
from math import factorial, prod
from typing import NamedTuple

import numpy as np

from karat.engine.linalg import Array, Indices


def caratheodory(points: Array, weights: Array) -> Array:
    """Algorithm 6: remove one point after the other, O(n^4) in all; returns new weights, mostly
    zero.
    """
    weights = weights.astype(float)
    alive = np.flatnonzero(weights > 0)
    while len(alive) > points.shape[1] + 1:
        chosen = points[alive]
        differences = (chosen[1:] - chosen[0]).T
        null = np.linalg.svd(differences, full_matrices=True)[2][-1]
        null = np.concatenate([[-null.sum()], null])
        ratios = np.full(len(alive), np.inf)
        np.divide(weights[alive], null, out=ratios, where=null > 0)
        out = ratios.argmin()
        weights[alive] -= ratios[out] * null
        weights[alive[out]] = 0.0
        alive = alive[weights[alive] > 0]
    weights[weights < 0] = 0.0
    return weights


def fast_caratheodory(
    points: Array, weights: Array, clusters: int | None = None
) -> tuple[Indices, Array]:
    """Algorithm 5:

    Algorithm 6 on the means of clusters, repeated on the points of the clusters that are left.

    Returns indices and weights.
    """
    width = points.shape[1]
    clusters = 2 * (width + 1) if clusters is None else clusters
    if clusters <= width + 1:
        raise ValueError(
            f"{clusters} clusters of points in R^{width}: with at most {width + 1} the recursion"
            " never ends."
        )
    index = np.flatnonzero(weights > 0)
    weights = weights[index].astype(float)
    while len(index) > width + 1:
        bounds = np.linspace(0, len(index), min(clusters, len(index)) + 1).astype(int)
        mass = np.add.reduceat(weights, bounds[:-1])
        means = np.array([weights[a:b] @ points[index[a:b]] for a, b in pairwise(bounds)])
        kept = caratheodory(means / mass[:, None], mass)
        weights = weights * np.repeat(kept / mass, np.diff(bounds))
        index, weights = index[weights > 0], weights[weights > 0]
    return index, weights


def sign_matrix(d: int) -> Array:
    """The matrix M of Algorithm 2: -1 above the diagonal, +1 below it and on it, 0 at (y, y)."""
    M = np.tril(np.ones((d + 1, d + 1))) - np.triu(np.ones((d + 1, d + 1)), 1)
    M[d, d] = 0.0
    return M


def sign_tensor(d: int, p: int) -> Array:
    """The tensor M of Algorithm 3: -1 for the first half of the orderings of a tuple, +1 for the
    others and for equal indices, 0 at (y, .., y); raise if a tuple has an odd number of orderings.
    """
    tuples = [t for t in combinations_with_replacement(range(d + 1), p) if len(set(t)) > 1]
    for t in tuples:
        count = factorial(p) // prod(factorial(t.count(i)) for i in set(t))
        if count % 2:
            raise ValueError(
                f"{t} has {count} orderings, an odd number: there are no signs for p = {p}."
            )
    M = np.ones((d + 1,) * p)
    for t in tuples:
        orderings = sorted(set(permutations(t)))
        for ordering in orderings[: len(orderings) // 2]:
            M[ordering] = -1.0
    M[(d,) * p] = 0.0
    return M


def unfolded(D: Array, p: int = 2) -> Array:
    """Rows with all (d+1)^p products of p entries, each as often as it has orderings."""
    rows = np.ones((len(D), 1))
    for _ in range(p):
        rows = (rows[:, :, None] * D[:, None, :]).reshape(len(D), -1)
    return rows


def claimed_bound(D: Array, lam: float, copies: float = 1.0) -> float:
    """The bound of the paper's theorem on ridge, ``sum_i 1 / (1 + lambda^2 / sigma_i^2) + 1`` data
    rows, which is false.

    sigma are the singular values of the unfolded rows; there are ``copies`` of each row.
    """
    sigma = np.linalg.svd(unfolded(np.sqrt(np.sqrt(copies)) * D), compute_uv=False)
    sigma = sigma[sigma > 1e-12 * sigma[0]]
    return 1.0 + float(np.sum(1.0 / (1.0 + lam**2 / sigma**2)))


class SignCoreset(NamedTuple):
    """The result of Algorithm 2 or 3: data rows with weights, and the weights of the rows of T as a
    matrix or a tensor.
    """

    rows: Indices
    weights: Array
    signs: Array


def sign_coreset(X: Array, y: Array, lam: float, p: int = 2) -> SignCoreset:
    """Algorithm 2, or for p > 2 Algorithm 3: make a coreset with the matrix or tensor of signs."""
    n, d = X.shape
    M = sign_matrix(d) if p == 2 else sign_tensor(d, p)
    points = np.vstack([unfolded(np.column_stack([X, y]), p), lam * np.diag(M.ravel())])
    kept, weights = fast_caratheodory(points, np.ones(len(points)))
    mass = np.zeros(len(points))
    mass[kept] = weights
    rows = np.flatnonzero(mass[:n])
    return SignCoreset(rows, mass[rows], mass[n:].reshape(M.shape))


def solve_as_written(core: SignCoreset, X: Array, y: Array, lam: float) -> Array:
    """Solve as the paper does, ``(Xc'Xc + lambda I_c)^-1 Xc'yc``."""
    d = X.shape[1]
    weighted = X[core.rows].T * core.weights
    carried = (core.signs * sign_matrix(d))[:d, :d]
    return np.asarray(
        np.linalg.solve(weighted @ X[core.rows] + lam * carried, weighted @ y[core.rows])
    )


def solve_corrected(core: SignCoreset, X: Array, y: Array, lam: float) -> Array:
    """Solve correctly: I_c is made symmetric, and its label terms are on the right side."""
    d = X.shape[1]
    weighted = X[core.rows].T * core.weights
    carried = core.signs * sign_matrix(d)
    carried = (carried + carried.T) / 2
    left, right = (
        weighted @ X[core.rows] + lam * carried[:d, :d],
        weighted @ y[core.rows] + lam * carried[:d, d],
    )
    return np.asarray(np.linalg.solve(left, right))
