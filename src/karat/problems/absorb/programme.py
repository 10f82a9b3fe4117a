"""Linear programmes over the rows, solved on a few candidates within a limit of time.

    minimise  cost . w    subject to   lower <= sum_i w_i phi_i <= upper,   w >= 0.

A vertex has at most as many rows as constraints are tight.  HiGHS's dual simplex solves it on the
candidates; its dual y prices every other row at ``1 - phi_i . y`` in one pass, and rows of negative
price join until none is left.  Then the candidates hold an optimum over all rows (column
generation): of the sum of weights, which is not the number of rows.  Where the total weight is
among the exact constraints, the sum is constant and every feasible point is an optimum.

Nearly collinear features make the simplex stall for minutes.  All programmes of one coreset share a
:class:`Budget`; what was found when it ends is used.  The solver does not return to Python before
it is done, so it runs on a thread of its own.  The calling thread waits, and can be interrupted at
any time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from karat.engine.linalg import Array, Indices
from karat.engine.powers import Powers
from karat.engine.rows import Rows, sweep

FEASIBLE = 1e-9  # HiGHS's tolerance
PRICE = 1e-7  # a reduced cost above minus this is zero
REWEIGHTINGS = 5
ROUNDS = 30
ENTERING, TRIM = 4, 3  # candidates entering and kept per round, in units of the number of features
# features for which one programme may take all the time there is; the cost grows with their cube
WIDE = 250
# seconds by which HiGHS may overrun its limit (it looks at the clock between steps) before it is
# abandoned
LATE = 5.0
TICK = 0.1  # seconds between looks at whether it is done


@dataclass
class Budget:
    """Wall time that all programmes of one coreset have together; the clock starts when it is
    made.
    """

    seconds: float = 20.0  # for all programmes of one coreset
    patience: float = 2.0  # seconds for one programme of few features
    start: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        return max(0.0, self.seconds - (time.perf_counter() - self.start))

    def share(self, width: int) -> float:
        """Seconds that one programme of so many features may take: one that takes much longer has
        stalled.
        """
        return min(self.left, self.patience + self.seconds * (width / WIDE) ** 3)


class Vertex(NamedTuple):
    """Weights on the candidates and the dual of the constraints."""

    weights: Array
    dual: Array


def _solved(limit: float, arguments: dict[str, Any]) -> Any:
    """What ``linprog`` returns; None if it takes longer than the limit."""
    from scipy.optimize import linprog  # 0.1 s that only absorbing regularisers need

    if limit <= 0.0:
        return None
    arguments["options"]["time_limit"] = limit
    start = time.perf_counter()
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(linprog(**arguments))
        except Exception as error:
            outcome.append(error)

    worker = Thread(target=run, daemon=True)
    worker.start()
    while worker.is_alive() and time.perf_counter() - start < limit + LATE:
        worker.join(TICK)
    if not outcome:
        return None
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def programme(
    features: Array, cost: Array, lower: Array, upper: Array, total: float, budget: Budget
) -> Vertex | None:
    """A vertex of the programme on the candidates, and its dual; None if the solver gives up or
    time is over.
    """
    size = np.sqrt(np.square(features).mean(axis=0))
    size[size == 0] = 1.0
    matrix = (features / size).T
    with np.errstate(over="ignore"):  # a bound beyond all numbers is no bound
        low, high = lower / size / total, upper / size / total
    exact = lower == upper
    if not np.isfinite(low[exact]).all():
        return None
    # Keep clear of a two-sided box, so that the solver's tolerance does not lead out of it.
    width = high / 4 - low / 4  # the difference itself may be beyond all numbers
    inset = np.where(np.isfinite(width), np.minimum(10 * FEASIBLE, width), 0.0)
    low, high = low + inset, high - inset
    above, below = ~exact & np.isfinite(high), ~exact & np.isfinite(low)
    options = {"primal_feasibility_tolerance": FEASIBLE, "dual_feasibility_tolerance": FEASIBLE}
    result = _solved(
        budget.share(len(lower)),
        {
            "c": cost,
            "A_ub": np.vstack([matrix[above], -matrix[below]]),
            "b_ub": np.concatenate([high[above], -low[below]]),
            "A_eq": matrix[exact],
            "b_eq": low[exact],
            "method": "highs-ds",
            "options": options,
        },
    )
    if result is None or result.status != 0:
        return None
    dual = np.zeros(len(lower))
    dual[exact] = result.eqlin.marginals
    dual[above] += result.ineqlin.marginals[: above.sum()]
    dual[below] -= result.ineqlin.marginals[above.sum() :]
    weights = np.asarray(result.x) * total
    return Vertex(np.where(weights > 1e-10 * weights.max(), weights, 0.0), dual / size)


def evaluate(rows: Rows, kernel: Powers, direction: Array) -> Array:
    """``features @ direction`` for every row (n,), in one pass."""
    form = np.zeros((kernel.variables, kernel.variables))
    # a quadratic form, taken back to the columns of the block: one GEMM, and no features
    if kernel.degree == 2:
        form[kernel.first, kernel.last] = kernel.root * direction[: len(kernel.root)]
        form = kernel.basis.map @ form @ kernel.basis.map.T

    def values(block: Array, _weights: Array | None, _start: int) -> list[Array]:
        if kernel.degree != 2:
            return [kernel.features(block) @ direction]
        variables = kernel.base_variables(block)
        quadratic = np.einsum("br,br->b", variables @ form, variables)
        return [quadratic + direction[-1] if kernel.total else quadratic]

    return np.concatenate(
        sweep(rows, kernel.shift, values, lambda a, b: a + b, kernel.product_shape)
    )


class Priced(NamedTuple):
    """Candidates after column generation, with the weights of the last vertex on them (None: there
    was none).
    """

    candidates: Indices
    weights: Array | None
    reduced: float
    passes: int


def price_all(
    rows: Rows, kernel: Powers, candidates: Indices, lower: Array, upper: Array, budget: Budget
) -> Priced:
    """Column generation at cost 1 per row: candidates that hold an optimum over all rows if the
    reduced cost is zero.
    """
    reduced, vertex = -np.inf, None
    for passes in range(1, ROUNDS + 1):
        features = kernel.features(rows.take(candidates, kernel.shift))
        solved = programme(features, np.ones(len(candidates)), lower, upper, rows.total, budget)
        if solved is None:
            return Priced(candidates, _weights_on(vertex, candidates), -np.inf, passes - 1)
        vertex = candidates[solved.weights > 0], solved.weights[solved.weights > 0]
        prices = 1.0 + evaluate(rows, kernel, -solved.dual)
        reduced = min(float(prices.min()), 0.0)
        # the vertex has price zero and stays
        cheapest = np.argsort(prices[candidates])[: TRIM * kernel.width]
        candidates = np.union1d(candidates[cheapest], vertex[0])
        if reduced >= -PRICE:
            break
        entering = np.flatnonzero(prices < -PRICE)
        if len(entering) > ENTERING * kernel.width:
            entering = entering[
                np.argpartition(prices[entering], ENTERING * kernel.width)[
                    : ENTERING * kernel.width
                ]
            ]
        candidates = np.union1d(candidates, entering)
    return Priced(candidates, _weights_on(vertex, candidates), reduced, passes)


def _weights_on(vertex: tuple[Indices, Array] | None, candidates: Indices) -> Array | None:
    """The weights of a vertex on a list of candidates that holds its rows."""
    if vertex is None:
        return None
    weights = np.zeros(len(candidates))
    weights[np.searchsorted(candidates, vertex[0])] = vertex[1]
    return weights


def sparsest(
    features: Array,
    lower: Array,
    upper: Array,
    total: float,
    fewest: int,
    budget: Budget,
    best: Array | None = None,
) -> Array | None:
    """A vertex at cost 1 per row, then for costs reweighted by 1/w a few times; the sparsest of
    them and of ``best``.
    """
    cost = np.ones(len(features))
    for _ in range(REWEIGHTINGS + 1):
        solved = programme(features, cost, lower, upper, total, budget)
        if solved is None:
            break
        if best is None or (solved.weights > 0).sum() < (best > 0).sum():
            best = solved.weights
        if (best > 0).sum() <= fewest:
            break
        cost = 1.0 / (solved.weights / total + 1e-3 / len(cost))
        cost /= cost.max()
    return best
