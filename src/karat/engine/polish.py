"""Polish: the last digits of the weights on a fixed support.

The support of a vertex determines its weights.  Each round solves ``F_S' dw = t - F_S' w`` (least norm, should the support be
smaller than the rank) and is accepted only if the residual falls and every weight stays positive.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg as sla

from karat.engine import linalg
from karat.engine.linalg import Array

ROUNDS = 4


def polish(points: Array, weights: Array, target: Array) -> Array:
    """Refine positive weights on ``points`` (s x m) so that ``weights @ points`` meets ``target``."""
    solve = _solver(points)
    residual = target - weights @ points
    for _ in range(ROUNDS):
        refined = weights + solve(residual)
        rest = target - refined @ points
        if not (refined > 0).all() or not np.linalg.norm(rest) < np.linalg.norm(residual):
            break
        weights, residual = refined, rest
    return weights


def _solver(points: Array):  # type: ignore[no-untyped-def]
    count, width = points.shape
    if count == width:
        lu, pivots, info = linalg.lapack.dgetrf(points.T)
        diagonal = np.abs(np.diag(lu))
        if not info and diagonal.min() > linalg.RANK_TOLERANCE * diagonal.max():
            return lambda rhs: linalg.lapack.dgetrs(lu, pivots, rhs)[0]
    return lambda rhs: linalg.least_squares(points.T, rhs)
