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

import numpy as np

from karat.engine import linalg
from karat.engine.basis import Basis, Flags
from karat.engine.build import Reduction
from karat.engine.correction import Correction
from karat.engine.kernel import Settled, Statistic
from karat.engine.linalg import Array, Indices
from karat.engine.moments import Progress, pass_over
from karat.engine.monomials import monomials
from karat.engine.polish import polish
from karat.engine.polynomial import Polynomial
from karat.engine.programme import price_all, sparsest
from karat.engine.rows import Rows

CANDIDATES = 12  # in units of the number of monomials
EXACT = 1e-11


@dataclass(frozen=True)
class Absorbed:
    """Rows kept, what the regulariser carries, and the proof.

    Attributes
    ----------
    positions, weights : arrays
    correction : Correction
    gap : float
        Worst relative error of the regularised loss over every query, correction included.
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
    tight: int
    reduced_cost: float
    passes: int


def absorb(
    rows: Rows,
    exact: Reduction,
    degree: int,
    intercept: bool,
    alpha: float,
    box: bool,
    total: bool,
    missing: Correction | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Absorbed:
    """Reduce rows ``[X | y]`` as far as a regulariser of strength alpha allows.

    Parameters
    ----------
    exact : Reduction
        An exact coreset of them.  It is feasible for every alpha, and what is returned if nothing better is found.
    missing : Correction, optional
        What the given rows miss already, when absorbed coresets are merged.
    """
    kernel = _scaled_kernel(rows, degree, intercept, total)
    statistic = pass_over(rows, kernel, progress)
    moments = kernel._moments(statistic[-1], rows.total)
    kinds = _Kinds(kernel, rows.columns)
    if missing is not None:
        moments[: len(kinds.unit)][kinds.plain] += missing.delta * kinds.unit[kinds.plain]
    lower, upper = kinds.bounds(moments, alpha, box)
    fixed = lower == upper
    rng = np.random.default_rng(seed)
    candidates = np.union1d(exact.positions, rng.integers(0, len(rows), CANDIDATES * kernel.width))
    passes, reduced = 1, -np.inf
    if box:
        candidates, reduced, priced = price_all(rows, kernel, candidates, lower, upper)
        passes += priced
    features = kernel.features(rows.take(candidates, kernel.shift))
    cost = np.ones(len(candidates))
    fewest = max(1, int(fixed.sum()))  # generic data cannot do with fewer rows than exact moments
    chosen = sparsest(features, cost, lower, upper, rows.total, fewest)
    if chosen is not None:
        positions, weights = candidates[chosen > 0], chosen[chosen > 0]
        block, features = rows.take(candidates[chosen > 0], kernel.shift), features[chosen > 0]
        weights, tight = _polished(features, weights, moments, lower, upper, rows.total)
        if degree == 2:
            missed = _missed_squares(rows, exact.settled, positions, weights)
            if missing is not None:
                missed[kinds.plain] += missing.delta
        else:
            missed = (moments - weights @ features)[: len(kinds.unit)] / kinds.unit
        correction = Correction(kinds.sets, np.where(kinds.free, missed, 0.0)[kinds.plain])
        carried = correction if missing is None else correction + -missing
        gap = _gap(kernel, block, weights, statistic, carried, kinds, alpha)
        if gap <= max(EXACT, 10 * linalg.EPS * exact.condition**degree):
            return Absorbed(positions, weights, correction, gap, tight, reduced, passes)
    nothing = Correction(kinds.sets, np.zeros(len(kinds.sets)))
    return Absorbed(exact.positions, exact.weights, missing or nothing, exact.gap, kernel.width, -np.inf, passes)


def _polished(features: Array, weights: Array, moments: Array, lower: Array, upper: Array, total: float) -> tuple[Array, int]:
    """Bring a vertex to full accuracy: all its tight constraints, or at least those that must be exact; also their number."""
    size = np.sqrt(np.square(features).mean(axis=0))
    size[size == 0] = 1.0
    kept, near = weights @ features, 1e-7 * size * total
    high, low = np.abs(kept - upper) <= near, np.abs(kept - lower) <= near
    tight = (lower == upper) | high | low
    # A regulariser weight at its bound is zero; a cross moment stays where it is, just inside the box.
    goal = np.where(lower == upper, moments, np.where(high & np.isinf(lower), upper, kept))
    for held in (tight, lower == upper):
        weights = polish((features / size)[:, held], weights, (goal / size)[held])
    return weights, int(tight.sum())


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
    size = linalg.column_norms(block[:, 1:] - kernel.shift) / np.sqrt(len(block))
    size[size == 0] = 1.0
    sizes = np.concatenate([np.ones(int(intercept)), 1.0 / size])
    basis = Basis.identity(len(sizes), 0)
    return kernel._copy(Basis(np.diag(sizes), basis.loose), mapped=True)


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
