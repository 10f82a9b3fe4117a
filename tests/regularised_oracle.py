"""Judges of regularised losses with a correction, in extended precision.  Nothing here calls karat.

    f(z) = sum_i u_i (d_i . z)^p + alpha sum_a |w_a|^p       z = (w, [b,] -1) or any multiple of it
    g(z) = sum_c w_c (d_c . z)^p + alpha sum_a |w_a|^p + C(w, -1)

Degree 2: rows of the regulariser, ``sqrt(alpha) e_a``, are stacked below the data; this is made
orthonormal by QR and three more rounds in extended precision.  There f = |q|^2, so the worst
relative error is an eigenvalue.  Higher degrees: many queries in the same coordinates, random ones
at many scales, those that annihilate kept rows, and the worst found so far moved about.  A search,
so what it finds is below the true error.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np

wide = np.longdouble


def base(X, y, intercept):
    X, y = np.asarray(X).astype(wide), np.asarray(y).astype(wide)
    parts = [X, np.ones((len(X), 1), dtype=wide), y[:, None]] if intercept else [X, y[:, None]]
    return np.column_stack(parts)


def _frame(D, u, alpha, p, d):
    """Coordinates z = A q in which ``sum u/U (d.z)^2 + (alpha/U)^(2/p) |w|^2`` is |q|^2; also D A,
    without cancellation.
    """
    U = u.sum()
    penalty = (wide(alpha) / U) ** (wide(2) / p)
    rows = np.zeros((d, D.shape[1]), dtype=wide)
    rows[np.arange(d), np.arange(d)] = np.sqrt(penalty)
    stacked = np.vstack([np.sqrt(u / U)[:, None] * D, rows])
    size = np.sqrt((stacked**2).sum(axis=0))
    stacked = stacked / size
    A = np.eye(len(size), dtype=wide)
    for _ in range(4):  # QR in double, applied in extended precision, until nothing is left to do
        R = np.linalg.qr((stacked @ A).astype(float), mode="r")
        A = A @ np.linalg.inv(R).astype(wide)
    return A / size[:, None]


def _symmetric(correction, columns):
    """The matrix of a correction of degree 2 in (x, y)."""
    C = np.zeros((columns, columns), dtype=wide)
    for (a, b), value in zip(correction.sets, correction.delta, strict=True):
        C[a, b] = C[b, a] = wide(value)
    return C


def absorbed_error(X, y, core, alpha, p, intercept, weights=None, queries=4000):
    """Worst ``|g - f| / f``: exact for degree 2, the worst found for others."""
    u = (np.ones(len(y)) if weights is None else np.asarray(weights)).astype(wide)
    D, d = base(X, y, intercept), np.shape(X)[1]
    K, w = base(*core.arrays(), intercept), core.weights.astype(wide)
    # the constant takes up a shift of the others, which a correction of the highest degree does not
    # see
    if intercept:
        shift = u @ D / u.sum()
        shift[d] = 0
        D, K = D - shift, K - shift
    A = _frame(D, u, alpha, p, d)
    U, correction = u.sum(), core.absorbed
    W, V = D @ A, K @ A
    outer = np.delete(A, d, axis=0) if intercept else A  # how (w, -1) reads in q
    if p == 2:
        E = (V * (w / U)[:, None]).T @ V - (W * (u / U)[:, None]).T @ W
        E += outer.T @ (_symmetric(correction, d + 1) / U) @ outer
        return float(np.abs(np.linalg.eigvalsh(E.astype(float))).max())
    sets = list(combinations_with_replacement(range(d + 1), p))
    orders = np.array(
        [factorial(p) // prod(factorial(t.count(v)) for v in set(t)) for t in sets], dtype=wide
    )
    scale = orders * correction.delta.astype(wide) / U
    indices = np.array(sets)
    assert np.array_equal(indices, correction.sets)

    def errors(Q):
        Z = outer @ Q
        penalty = wide(alpha) / U * _power(Z[:d], p).sum(axis=0)
        full = (u / U) @ _power(W @ Q, p)
        kept = (w / U) @ _power(V @ Q, p)
        carried = np.array([scale @ np.prod(z[indices], axis=1) for z in Z.T])
        return np.abs(kept + carried - full) / (full + penalty)

    rng = np.random.default_rng(0)
    r = A.shape[1]
    Q = [np.eye(r), rng.standard_normal((r, queries // 8))]
    Q.append(rng.standard_normal((r, queries // 8)) * 10.0 ** rng.uniform(-4, 4, (r, queries // 8)))
    least = np.linalg.svd(W.astype(float), full_matrices=False)[2].T
    Q.append(least)
    if len(V) >= r - 1 > 0:
        some = np.array([rng.choice(len(V), r - 1, replace=False) for _ in range(100)])
        Q.append(np.linalg.svd(V[some].astype(float))[2][:, -1].T)
    Q = np.column_stack(Q).astype(wide)
    found = errors(Q)
    for step in (1.0, 0.3, 0.1):  # about the worst
        worst = Q[:, np.argsort(found)[-10:]]
        worst = worst / np.sqrt((worst**2).sum(axis=0))
        moved = np.repeat(worst, 10, axis=1) + step * rng.standard_normal((r, 100))
        Q, found = np.column_stack([Q, moved]), np.concatenate([found, errors(moved)])
    return float(found.max())


def _power(x, p):
    if p == 0:
        return np.ones_like(x)
    half = _power(x, p // 2)
    return half * half * x if p % 2 else half * half
