"""Let the regulariser carry a part of the moments: fewest rows within a box, by column generation.

With the weights of the regulariser's rows eliminated, the paper's Algorithms 2 and 3 ask for data weights w >= 0 with

    lower <= sum_i w_i phi_i <= upper      (upper = lower on what must be exact),

phi the raw monomials of degree p, S their moments, and per monomial

                      "diagonal"            "box"
    x_a^p             S_c <= S + alpha      S_c <= S + alpha       (regulariser weight 1 + (S - S_c)/alpha >= 0)
    other, without 1  exact                 |S_c - S| <= alpha
    y^p, or with 1    exact                 exact

A vertex of this polyhedron has at most as many rows as constraints are tight.  A linear programme finds one on a few
candidates.  For "box" each row costs 1, the dual prices all other rows in one pass, and rows of negative reduced cost join
until none is left: that proves optimality over all rows.  "diagonal" minimises the pure powers, which leaves the
inequalities slack.  Both then try costs reweighted by 1/w for a sparser vertex.

Whatever the kept rows miss becomes the :class:`~karat.engine.correction.Correction`, so the loss is exact however loosely
the programme is solved; only the moments of zero width must be met, and are polished.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from karat.engine import linalg
from karat.engine.basis import Basis, Flags
from karat.engine.correction import Correction
from karat.engine.kernel import Settled, Statistic
from karat.engine.linalg import Array, Indices
from karat.engine.moments import Progress, evaluate, pass_over
from karat.engine.monomials import monomials
from karat.engine.polish import polish
from karat.engine.polynomial import Polynomial
from karat.engine.rows import Rows

EXACT = 1e-11
PRICE = 1e-7  # a reduced cost above minus this is zero
REWEIGHTINGS = 5
ROUNDS = 30
CANDIDATES, ENTERING, TRIM = 6, 4, 3  # at first, entering per round, kept per round, in units of the number of monomials


@dataclass(frozen=True)
class Absorbed:
    """Rows kept, what the regulariser carries, and the proof.

    Attributes
    ----------
    positions, weights : arrays
    correction : Correction
    gap : float
        Worst relative loss error over every query, correction included.
    moment_error : float
        Largest relative error of a moment that has to be exact.
    features : int
        Number of monomials.
    tight : int
        Constraints tight at the vertex, which bounds its rows.
    reduced_cost : float
        Smallest reduced cost over all rows (0 proves that the linear programme is optimal).
    passes : int
    """

    positions: Indices
    weights: Array
    correction: Correction
    gap: float
    moment_error: float
    features: int
    tight: int
    reduced_cost: float
    passes: int


def absorb(
    rows: Rows,
    degree: int,
    intercept: bool,
    alpha: float,
    box: bool,
    total: bool,
    start: tuple[Indices, Array],
    settled: Settled,
    missing: Correction | None = None,
    tolerance: float = EXACT,
    seed: int = 0,
    progress: Progress | None = None,
) -> Absorbed:
    """Reduce rows ``[X | y]`` as far as a regulariser of strength alpha allows.

    Parameters
    ----------
    start : (positions, weights)
        An exact coreset, which is feasible for every alpha.
    settled : Settled
        The moments it keeps, in whitened coordinates.
    missing : Correction, optional
        What the given rows miss already, when absorbed coresets are merged.
    tolerance : float
        The gap up to which the result is accepted; the exact coreset is returned otherwise.
    """
    kernel = _scaled_kernel(rows, degree, intercept, total)
    statistic = pass_over(rows, kernel, progress)
    moments = kernel._moments(statistic[-1], rows.total)
    kinds = _Kinds(kernel, rows.columns)
    if missing is not None:
        moments[: len(kinds.unit)][kinds.plain] += missing.delta * kinds.unit[kinds.plain]
    lower, upper = kinds.bounds(moments, alpha, box)
    exact = lower == upper
    fewest = max(1, int(exact.sum()))  # generic data cannot do with fewer rows than exact moments
    rng = np.random.default_rng(seed)
    candidates = np.union1d(start[0], rng.integers(0, len(rows), CANDIDATES * kernel.width))
    passes, reduced = 1, -np.inf
    if box:
        candidates, reduced, priced = _price(rows, kernel, candidates, lower, upper)
        passes += priced
    features = kernel.features(rows.take(candidates, kernel.shift))
    cost = np.ones(len(candidates)) if box else features[:, : len(kinds.pure)] @ kinds.pure
    chosen = _sparsest(features, cost, lower, upper, rows.total, fewest)
    options = [] if chosen is None else [(candidates[chosen > 0], chosen[chosen > 0])]
    for positions, found in [*options, start]:  # the exact coreset is the last resort: it needs no correction
        weights = found
        block = rows.take(positions, kernel.shift)
        features = kernel.features(block)
        size = np.sqrt(np.square(features).mean(axis=0))
        size[size == 0] = 1.0
        kept, near = weights @ features, 1e-7 * size * rows.total
        high, low = np.abs(kept - upper) <= near, np.abs(kept - lower) <= near
        goal = np.where(high, upper, np.where(low, lower, moments))
        for held in (exact | high | low, exact):  # the whole vertex; should that fail, at least what must be exact
            weights = polish((features / size)[:, held], weights, (goal / size)[held])
        kept = weights @ features
        missed = (moments - kept)[: len(kinds.unit)] / kinds.unit
        if degree == 2:
            missed = _missed_squares(rows, settled, positions, weights)
            if missing is not None:
                missed[kinds.plain] += missing.delta
        correction = Correction(kinds.sets, np.where(kinds.free, missed, 0.0)[kinds.plain])
        carried = correction if missing is None else correction + -missing
        gap = _gap(kernel, block, weights, statistic, carried, kinds, alpha)
        if gap <= tolerance:
            break
    uncovered = np.append(~kinds.free, np.ones(kernel.width - len(kinds.free), dtype=bool))
    return Absorbed(
        positions=positions,
        weights=weights,
        correction=correction,
        gap=gap,
        moment_error=float(np.max((np.abs(kept - moments) / size)[uncovered], initial=0.0) / rows.total),
        features=kernel.width,
        tight=int((exact | high | low).sum()),
        reduced_cost=reduced,
        passes=passes,
    )


class _Kinds:
    """The monomials by what may happen to them."""

    def __init__(self, kernel: Polynomial, columns: int) -> None:
        sets = monomials(kernel.basis.map.shape[1], kernel.degree).indices
        lead = int(kernel.affine)
        label = columns - 1 + lead
        same = np.all(sets == sets[:, :1], axis=1)
        self.plain: Flags = ~np.any(sets == 0, axis=1) if kernel.affine else np.ones(len(sets), dtype=bool)
        self.pure: Flags = same & (sets[:, 0] >= lead) & (sets[:, 0] < label)
        self.free: Flags = self.plain & ~(same & (sets[:, 0] == label))
        self.unit = kernel.root * np.prod(np.diag(kernel.basis.map)[sets], axis=1)  # from raw moments to features
        self.sets = sets[self.plain] - lead

    def bounds(self, moments: Array, alpha: float, box: bool) -> tuple[Array, Array]:
        lower, upper = moments.copy(), moments.copy()
        slack = alpha * self.unit
        rest = slice(0, len(slack))
        upper[rest][self.pure] += slack[self.pure]
        lower[rest][self.pure] = -np.inf
        if box:
            cross = self.free & ~self.pure
            upper[rest][cross] += slack[cross]
            lower[rest][cross] -= slack[cross]
        return lower, upper


def _missed_squares(rows: Rows, settled: Settled, positions: Indices, weights: Array) -> Array:
    """Second moments of all rows less those of the kept ones, by a subtraction in whitened coordinates.

    There it costs eps of the *difference*; between raw moments it would cost eps of the moments, kappa^2 times as much.
    """
    kernel = settled.kernel
    assert isinstance(kernel, Polynomial)
    variables = kernel._variables(rows.take(positions, kernel.shift))
    back = np.linalg.pinv(kernel.basis.map)
    difference = back.T @ (settled.statistic[0] - linalg.gram(variables, weights)) @ back
    table = monomials(len(difference), 2)
    return np.asarray(difference[table.indices[:, 0], table.indices[:, 1]])


def _scaled_kernel(rows: Rows, degree: int, intercept: bool, total: bool) -> Polynomial:
    """Monomials of shifted and scaled columns, not mixed: the box belongs to the raw monomials."""
    kernel = Polynomial(rows.columns, degree, affine=intercept, total=total)
    block = rows.take(np.arange(0, len(rows), max(1, len(rows) // 4096)), np.zeros(rows.columns))
    if intercept:
        kernel.shift = block[:, 1:].mean(axis=0)
    size = np.sqrt(np.square(block[:, 1:] - kernel.shift).mean(axis=0))
    size[size == 0] = 1.0
    sizes = np.concatenate([np.ones(int(intercept)), 1.0 / size])
    basis = Basis.identity(len(sizes), 0)
    return kernel._copy(Basis(np.diag(sizes), basis.loose), mapped=True)


class _Vertex(NamedTuple):
    weights: Array
    dual: Array


def _programme(features: Array, cost: Array, lower: Array, upper: Array, total: float) -> _Vertex | None:
    """A vertex of the programme on the candidates, and its dual; None if the solver gives up."""
    size = np.sqrt(np.square(features).mean(axis=0))
    size[size == 0] = 1.0
    matrix = (features / size).T
    low, high = lower / size / total, upper / size / total
    exact, above, below = lower == upper, (lower != upper) & np.isfinite(upper), (lower != upper) & np.isfinite(lower)
    result = linprog(
        cost,
        A_ub=np.vstack([matrix[above], -matrix[below]]) if above.any() or below.any() else None,
        b_ub=np.concatenate([high[above], -low[below]]) if above.any() or below.any() else None,
        A_eq=matrix[exact] if exact.any() else None,
        b_eq=low[exact] if exact.any() else None,
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
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
    return _Vertex(np.where(weights > 1e-10 * weights.max(), weights, 0.0), dual / size)


def _price(rows: Rows, kernel: Polynomial, candidates: Indices, lower: Array, upper: Array) -> tuple[Indices, float, int]:
    """Column generation at cost 1 per row: candidates that hold an optimum over all rows, its proof (reduced cost), passes."""
    reduced = -np.inf
    for passes in range(1, ROUNDS + 1):
        features = kernel.features(rows.take(candidates, kernel.shift))
        solved = _programme(features, np.ones(len(candidates)), lower, upper, rows.total)
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


def _sparsest(features: Array, cost: Array, lower: Array, upper: Array, total: float, fewest: int) -> Array | None:
    """A vertex for the cost, then for costs reweighted by 1/w a few times; the sparsest of them, None if there is none."""
    best = None
    for _ in range(REWEIGHTINGS + 1):
        solved = _programme(features, cost, lower, upper, total)
        if solved is None:
            break
        if best is None or (solved.weights > 0).sum() < (best > 0).sum():
            best = solved.weights
        if (best > 0).sum() <= fewest:
            break
        cost = 1.0 / (solved.weights / total + 1e-3 / len(cost))
        cost /= cost.max()
    return best


def _gap(
    kernel: Polynomial,
    block: Array,
    weights: Array,
    statistic: Statistic,
    carried: Correction,
    kinds: _Kinds,
    alpha: float,
) -> float:
    """The bound of :meth:`Polynomial.gap` for the regularised loss, the carried moments added to those of the kept rows."""
    half = monomials(kernel.basis.map.shape[1], kernel.degree // 2)
    table = monomials(half.variables, kernel.degree)
    values = half.values(np.ascontiguousarray(kernel._variables(block).T))
    difference = (values * weights) @ values.T - statistic[-1]
    delta = np.zeros(len(table))
    delta[kinds.plain] = carried.delta * (kinds.unit / kernel.root)[kinds.plain]
    place = [[table.position[tuple(sorted(a + b))] for b in half.sets] for a in half.sets]
    base = statistic[-1].copy()
    for a in range(int(kernel.affine), half.variables - 1):
        i = half.position[(a,) * half.degree]
        base[i, i] += alpha * kernel.basis.map[a, a] ** kernel.degree
    return linalg.generalized_norm(difference + delta[np.array(place)], base)


def measure_absorbed(
    rows: Rows,
    degree: int,
    intercept: bool,
    alpha: float,
    block: Callable[[Array], Array],
    weights: Array,
    carried: Correction,
) -> float:
    """Worst relative loss error of kept rows and their correction against all rows; ``block(shift)`` reads the kept rows."""
    kernel = _scaled_kernel(rows, degree, intercept, total=False)
    kinds = _Kinds(kernel, rows.columns)
    return _gap(kernel, block(kernel.shift), weights, pass_over(rows, kernel), carried, kinds, alpha)
