"""Polish: the last digits of the weights on a fixed support.

The support of a vertex determines its weights.  Each round solves ``F_S' dw = t - F_S' w`` (least norm, should the support be
smaller than the rank) and is accepted only if the residual falls and every weight stays positive.
"""

from __future__ import annotations

import numpy as np

from karat.engine import linalg
from karat.engine.linalg import Array

ROUNDS = 4


def polish(points: Array, weights: Array, target: Array) -> Array:
    """Refine positive weights on ``points`` (s x m) so that ``weights @ points`` meets ``target``."""
    for solver in (linalg.square_solver, linalg.least_squares_solver):
        solve = solver(points.T)
        if solve is None:
            continue
        residual = target - weights @ points
        accepted = False
        for _ in range(ROUNDS):
            refined = weights + solve(residual)
            rest = target - refined @ points
            if not (refined > 0).all() or not np.linalg.norm(rest) < np.linalg.norm(residual):
                break
            weights, residual, accepted = refined, rest, True
        if accepted or not residual.any():
            break
    return weights
