"""Least squares to 160 digits: does QR in doubles keep the fitted values, and how far do
coefficients of kept rows move?
"""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np

from .arithmetic import dense
from .cases import Case
from .claim import Claim, Pair
from .exact import CONTEXT, ZERO, decimals, factor

LOST = 1e-8  # of the size of the target
NOTHING = Decimal("1e-80")  # of a scaled pivot


def answered(case: Case) -> bool:
    """Whether Householder QR of all rows in doubles gives fitted values to 1e-8, in every group and
    for every target.
    """
    X, Y = dense(case.X), case.y.reshape(case.count, -1)
    u = np.ones(case.count) if case.weights is None else case.weights
    affine = case.spec.get("fit_intercept", True)
    for label in [None] if case.groups is None else list(np.unique(case.groups)):
        rows = np.arange(case.count) if label is None else np.flatnonzero(case.groups == label)
        rows = rows[u[rows] > 0]
        for t in range(Y.shape[1]):
            if len(rows) and lost(X[rows], Y[rows, t], u[rows], affine) > LOST:
                return False
    return True


def lost(X: np.ndarray, y: np.ndarray, u: np.ndarray, affine: bool) -> float:
    """The error of the fitted values of QR in doubles, relative to the size of the target."""
    A = np.column_stack([np.ones(len(X)), X]) if affine else np.asarray(X)
    A = A.astype(float)
    with np.errstate(all="ignore"):
        root = np.sqrt(u / u.max())
        tall = root[:, None] * A
        scale = np.abs(tall).max(axis=0)
        Q, _ = np.linalg.qr(tall / np.where(scale > 0, scale, 1.0))
        seen = Q @ (Q.T @ (root * y))
    truth = root * fitted(X, y, u, affine)
    size = np.linalg.norm(root * y / max(np.abs(y).max(), 1e-300)) * max(np.abs(y).max(), 1e-300)
    error = float(np.linalg.norm((seen - truth) / size)) if size else 0.0
    return error if np.isfinite(error) else np.inf


def fitted(X: np.ndarray, y: np.ndarray, u: np.ndarray, affine: bool) -> np.ndarray:
    """Fitted values of the exact solution, rounded once."""
    with decimal.localcontext(CONTEXT):
        claim = Claim(X, y, u, 2, affine)
        M = decimals(claim.full)
        size = np.array([v.sqrt() if v else Decimal(1) for v in np.diag(M)], dtype=object)
        G = M / size / size[:, None]
        T, d = factor(G[:-1, :-1], NOTHING)
        right = T.T.dot(G[:-1, -1])
        b = (
            T.dot(
                np.array(
                    [v / k if k else ZERO for v, k in zip(right, d, strict=True)], dtype=object
                )
            )
            * size[-1]
            / size[:-1]
        )
        unit = Decimal(2) ** claim.side.lows[-1]
        found = []
        for _, columns in claim.side.blocks(claim.side.lows, claim.side.low, affine):
            found += list(sum(decimals(c) * v for c, v in zip(columns[:-1], b, strict=True)) * unit)
        return np.array([float(v) for v in found])


def moved(pair: Pair, count: int, least: float = 0.0) -> float | None:
    """How many standard errors of all rows the coefficients of the kept rows are from those of all
    rows.

    None if they are not determined: a direction of the features of relative size ``least`` or
    below.
    """
    with decimal.localcontext(CONTEXT):
        if not pair.used or pair.used[-1] != len(pair.M) - 1 or count <= len(pair.used) - 1:
            return None
        G, C = pair.G, pair.G + pair.Es
        own = []
        for H in (G, C):
            T, d = factor(H[:-1, :-1], NOTHING)
            if not all(v > Decimal(least) ** 2 for v in d):
                return None
            own.append((T / d).dot(T.T))
        b, bc = (inverse.dot(H[:-1, -1]) for inverse, H in zip(own, (G, C), strict=True))
        rss = G[-1, -1] - b.dot(G[:-1, -1])
        if rss <= NOTHING:
            return None
        variance = rss / (count - len(b))
        found = [float(abs(bc[j] - b[j]) / (variance * own[0][j, j]).sqrt()) for j in range(len(b))]
        return max(found, default=0.0)
