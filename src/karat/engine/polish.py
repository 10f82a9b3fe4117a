"""Polish: the last digits of the weights on a fixed support.

The support of a vertex determines its weights.  Each round solves ``F_S' dw = t - F_S' w`` (least squares, should the features
depend on each other, or least norm, should the support be larger than the rank) and is accepted only if the residual falls and
every weight stays positive.
"""

from __future__ import annotations

import numpy as np

from karat.engine import linalg
from karat.engine.linalg import Array

ROUNDS = 4
CUTS = (1e-13, 1e-11, 1e-9, 1e-7)  # relative singular values left out, where a full solution would spoil the signs


def polish(points: Array, weights: Array, target: Array) -> Array:
    """Refine positive weights on ``points`` (s x m) so that ``weights @ points`` meets ``target``."""
    for solver in (linalg.square_solver, linalg.least_squares_solver):
        solve = solver(points.T)
        if solve is None:
            continue
        refined = _rounds(solve, points, weights, target)
        if refined is not weights or not (target - weights @ points).any():
            return refined
    return weights


def polish_features(features: Array, weights: Array, target: Array) -> Array:
    """The same for dependent features, each to be met as closely as the others (they have equal absolute moments)."""
    largest = np.abs(target - weights @ features).max(initial=0.0)
    best = weights
    for cut in CUTS:
        found = _rounds(
            linalg.least_squares_solver(features.T * weights, cut), features * weights[:, None], np.ones(len(weights)), target
        )
        rest = np.abs(target - (weights * found) @ features).max(initial=0.0)
        if rest < largest:
            best, largest = weights * found, rest
        if (found != 1.0).any():
            break
    return best


def _rounds(solve, points: Array, weights: Array, target: Array) -> Array:  # type: ignore[no-untyped-def]
    residual = target - weights @ points
    for _ in range(ROUNDS):
        refined = weights + solve(residual)
        rest = target - refined @ points
        if not (refined > 0).all() or not np.linalg.norm(rest) < np.linalg.norm(residual):
            break
        weights, residual = refined, rest
    return weights
