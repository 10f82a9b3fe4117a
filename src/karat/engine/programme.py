"""Linear programmes over the rows, solved on a few candidates.

    minimise  cost . w    subject to   lower <= sum_i w_i phi_i <= upper,   w >= 0.

A vertex has at most as many rows as constraints are tight.  HiGHS's dual simplex solves it on the candidates; its dual y prices
every other row at ``1 - phi_i . y`` in one pass, and rows of negative price join until none is left.  That proves optimality
over all rows (column generation).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.moments import evaluate
from karat.engine.rows import Rows

FEASIBLE = 1e-9  # HiGHS's tolerance
PRICE = 1e-7  # a reduced cost above minus this is zero
REWEIGHTINGS = 5
ROUNDS = 30
ENTERING, TRIM = 4, 3  # candidates entering and kept per round, in units of the number of features


class Vertex(NamedTuple):
    """Weights on the candidates and the dual of the constraints."""

    weights: Array
    dual: Array


def programme(features: Array, cost: Array, lower: Array, upper: Array, total: float) -> Vertex | None:
    """A vertex of the programme on the candidates, and its dual; None if the solver gives up."""
    from scipy.optimize import linprog  # 0.1 s that only absorbing regularisers need

    size = np.sqrt(np.square(features).mean(axis=0))
    size[size == 0] = 1.0
    matrix = (features / size).T
    low, high = lower / size / total, upper / size / total
    # Keep clear of a two-sided box, so that the solver's tolerance does not lead out of it.
    inset = np.where(np.isfinite(high - low), np.minimum(10 * FEASIBLE, (high - low) / 4), 0.0)
    low, high = low + inset, high - inset
    exact, above, below = lower == upper, (lower != upper) & np.isfinite(upper), (lower != upper) & np.isfinite(lower)
    result = linprog(
        cost,
        A_ub=np.vstack([matrix[above], -matrix[below]]) if above.any() or below.any() else None,
        b_ub=np.concatenate([high[above], -low[below]]) if above.any() or below.any() else None,
        A_eq=matrix[exact] if exact.any() else None,
        b_eq=low[exact] if exact.any() else None,
        method="highs-ds",
        options={"primal_feasibility_tolerance": FEASIBLE, "dual_feasibility_tolerance": FEASIBLE},
    )
    if result.status != 0:
        return None
    dual = np.zeros(len(lower))
    if exact.any():
        dual[exact] = result.eqlin.marginals
    if above.any() or below.any():
        marginals = result.ineqlin.marginals
        dual[above] += marginals[: above.sum()]
        dual[below] -= marginals[above.sum() :]
    weights = np.asarray(result.x) * total
    return Vertex(np.where(weights > 1e-10 * weights.max(), weights, 0.0), dual / size)


def price_all(rows: Rows, kernel: Kernel, candidates: Indices, lower: Array, upper: Array) -> tuple[Indices, float, int]:
    """Column generation at cost 1 per row: candidates that hold an optimum over all rows, its proof (reduced cost), passes."""
    reduced = -np.inf
    for passes in range(1, ROUNDS + 1):
        features = kernel.features(rows.take(candidates, kernel.shift))
        solved = programme(features, np.ones(len(candidates)), lower, upper, rows.total)
        if solved is None:
            return candidates, -np.inf, passes
        prices = 1.0 + evaluate(rows, kernel, -solved.dual[:, None])[:, 0]
        reduced = min(float(prices.min()), 0.0)
        own = np.argsort(prices[candidates])[: TRIM * kernel.width]  # the vertex has price zero and stays
        candidates = np.union1d(candidates[own], candidates[solved.weights > 0])
        if reduced >= -PRICE:
            break
        entering = np.flatnonzero(prices < -PRICE)
        if len(entering) > ENTERING * kernel.width:
            entering = entering[np.argpartition(prices[entering], ENTERING * kernel.width)[: ENTERING * kernel.width]]
        candidates = np.union1d(candidates, entering)
    return candidates, reduced, passes


def sparsest(features: Array, cost: Array, lower: Array, upper: Array, total: float, fewest: int) -> Array | None:
    """A vertex for the cost, then for costs reweighted by 1/w a few times; the sparsest of them, None if there is none."""
    best = None
    for _ in range(REWEIGHTINGS + 1):
        solved = programme(features, cost, lower, upper, total)
        if solved is None:
            break
        if best is None or (solved.weights > 0).sum() < (best > 0).sum():
            best = solved.weights
        if (best > 0).sum() <= fewest:
            break
        cost = 1.0 / (solved.weights / total + 1e-3 / len(cost))
        cost /= cost.max()
    return best
