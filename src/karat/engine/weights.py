"""Positive weights on candidates: match the moments, eliminate to a vertex, polish.

**Match** (:func:`match_moments`).  Candidates ``f_i`` carry nominal weights ``v_i`` (what sampling
would give them).  We look for factors close to one,

    minimise  1/2 sum_i v_i (s_i - 1)^2    subject to   sum_i v_i s_i f_i = t,   s >= 0.

The dual is smooth, convex and unconstrained in R^m,

    minimise  D(x) = 1/2 sum_i v_i (1 + f_i . x)_+^2 - t . x ,      s_i = (1 + f_i . x)_+ ,

with gradient ``sum v_i s_i f_i - t`` and the Hessian ``sum over active i of v_i f_i f_i'``.
Semi-smooth Newton ends exactly once the active set is found, mostly in 2 to 9 steps.  The Hessian
is updated by the rows that enter or leave, not summed anew.  If no such weights exist D is
unbounded below, and the method notices soon.  The code holds ``g_i = sqrt(v_i) f_i``: the Hessian
is then their Gram matrix.

**Eliminate** (:func:`reduce_points`; the paper's Algorithm 6, Caratheodory's theorem, corrected).
Given points ``f_1..f_N`` in R^m and weights ``w > 0``, find new weights ``w' >= 0`` with

    sum_i w'_i f_i = sum_i w_i f_i        and at most  rank(F)  of them positive.

One step of the classical proof takes a null vector ``v`` (``sum_i v_i f_i = 0``) and walks from
``w`` along it until the first weight reaches zero: the ratio test ``alpha = min_{v_i > 0} w_i /
v_i`` (the paper's proof says max, which leaves negative weights).  The total weight is kept if, and
only if, the constant is among the features; so a null vector may be followed in either direction,
and of the two pivots we take the larger one, which keeps the elimination stable. Three things make
it fast and exact:

* **All null vectors at once, by LU.**  ``P F = L U`` with ``L = [L1; L2]`` gives ``k = N - m`` null
  vectors ``[-L2 L1^-1, I]``: the first m points are *basic*, each other point *enters* once.
* **Blocked elimination.**  The table ``L2 L1^-1`` is a simplex tableau without a cost.  A panel of
  entering points is eliminated among itself, then one GEMM brings the rest up to date.  A point
  that leaves the basis gives its column to the point that entered, so the table never widens: k^2 m
  flops in all.
* **Halving by groups.**  Far more than 2m points are first summed into about 1.5m groups and the
  groups are reduced: the members of a group share its fate (one level of the paper's Algorithm 5).

The points should be given in coordinates of their span (:mod:`karat.engine.points`): then m is the
rank, where the paper stops at the ambient dimension.  On dependent features the LU still gives N -
m null vectors, as the tree needs them.

**Polish** (:func:`polish`).  The support of a vertex determines its weights.  Each round solves
``F_S' dw = t - F_S' w`` (least squares, should the features depend on each other, or least norm,
should the support be larger than the rank) and is accepted only if the residual falls and every
weight stays positive.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Array, Flags, Indices, Real
from karat.engine.points import CandidatePoints, candidate_points, drawn, enough
from karat.engine.rows import Rows, own_weights
from karat.engine.tolerances import MET, MISSED, POLISHED, TINY
from karat.errors import InputError

STEPS = 40  # of Newton's method
DIVERGED = 1e4  # a factor this large means that the dual is unbounded
RECENT = 0.25  # points per feature that may come or leave before many features are factored again
FALLS = 0.1  # by this factor at least the residual falls in a step that changes no active row
SHORT = 1e-6  # a line search shorter than this also means that the dual is unbounded
PANEL = 24  # points that enter between two GEMMs of the elimination;
FLAT = 150  # for so few features there are none
ALMOST = 1e-290  # a weight that counts as zero: a ratio to it is finite
LOWEST = np.array(ALMOST)  # the same for a ufunc, which takes twice as long for a float
AT_ONCE = 2.25  # points per feature up to which no groups are made of them
# groups summed at one halving level, in units of m; 1.5 costs least (1.9 m^3 per level)
GROUPS_PER_FEATURE = 1.5
ROUNDS = 4  # of polishing
# relative singular values left out, where a full solution would spoil the signs
CUTS = (1e-13, 1e-11, 1e-9, 1e-7)
SECOND = 6.0  # sampled candidates per feature, where fewer did not do
BESIDE = 0.5  # sampled candidates per feature, where held rows are candidates too


def match_moments(candidates: CandidatePoints) -> Array | None:
    """Factors s >= 0 (N,) on the nominal weights of resolved points that meet the target; None if
    there are none.
    """
    points, root, target = candidates.points, candidates.root, candidates.target
    hessian = Hessian(candidates)
    x = np.zeros(candidates.rank)
    excess = np.ones(len(points))  # 1 + f_i . x
    active = np.ones(len(points), dtype=bool)
    gradient = root @ points - target
    value = 0.5 * float(root @ root)
    for _ in range(STEPS):
        move = -hessian.solve(gradient)
        along = (points @ move) / root
        slope, push = float(gradient @ move), float(target @ move)
        base = value + float(target @ x)
        length = 1.0
        while True:
            held = np.maximum(excess + length * along, 0.0)
            trial = 0.5 * float(np.square(root * held).sum()) - float(target @ x) - length * push
            # Armijo's rule; the last term allows for rounding in the value of the dual
            if trial <= value + 1e-4 * length * slope + 1e-12 * abs(base) or length < SHORT:
                break
            length *= 0.5
        x += length * move
        excess += length * along
        value = trial
        if length < SHORT or held.max() > DIVERGED:
            break
        changed = np.flatnonzero((held > 0) != active)
        before, gradient = np.linalg.norm(gradient), (root * held) @ points - target
        if not len(changed) and length == 1.0:
            rest = np.linalg.norm(gradient)
            if rest <= MET * np.linalg.norm(target):
                return held
            if rest > FALLS * before:
                break
            continue  # a direction in single precision brings three more digits
        came = held[changed] > 0
        active[changed] = came
        if not hessian.change(changed, came, active):
            break
    return None


def feasible(candidates: CandidatePoints) -> tuple[CandidatePoints, Array] | None:
    """Resolved points, and weights on them that meet the target; None if there are none."""
    factors = None if candidates.missed > MISSED else match_moments(candidates)
    return None if factors is None else (candidates, candidates.root * factors)


class Hessian:
    """The Gram matrix of the active points, which is factored again only after many of them have
    come or left.

    With H = R'R + C S C', where the columns of C have come (S = 1) or left (S = -1) since, and W =
    R'^-1 C (Woodbury),

        H^-1 = R^-1 (I - W (S + W'W)^-1 W') R'^-1.
    """

    def __init__(self, candidates: CandidatePoints) -> None:
        self.columns, self.gram, self.factor = (
            candidates.columns,
            candidates.gram.copy(),
            candidates.factor,
        )
        self.ridge = 4 * np.finfo(self.gram.dtype).eps * np.diag(self.gram)
        self.recent, self.signs = np.zeros(0, dtype=np.intp), np.zeros(0)
        self.whitened = np.zeros((candidates.rank, 0), dtype=self.gram.dtype, order="F")  # W

    def solve(self, gradient: Array) -> Array:
        half = linalg.solve_upper(self.factor, gradient, transposed=True)
        if len(self.recent):
            between = np.diag(self.signs) + np.asarray(self.whitened.T @ self.whitened, dtype=float)
            # If this fails, the old factor alone still gives a direction of descent.
            with suppress(np.linalg.LinAlgError):
                half = half - self.whitened @ np.linalg.solve(between, self.whitened.T @ half)
        return linalg.solve_upper(self.factor, half)

    def change(self, changed: Indices, came: Flags, active: Flags) -> bool:
        """Record points that came or left; False if the matrix is no longer positive definite."""
        self.recent = np.concatenate([self.recent, changed])
        self.signs = np.concatenate([self.signs, np.where(came, 1.0, -1.0)])
        points = np.take(self.columns, changed, axis=1)
        if len(self.columns) >= linalg.LARGE and len(self.recent) <= RECENT * len(self.columns):
            self.whitened = np.hstack(
                [self.whitened, linalg.solve_upper(self.factor, points, transposed=True)]
            )
            return True
        if len(self.recent) > 0.5 * active.sum():
            self.gram = linalg.upper_gram(self.columns[:, active])
        else:
            points = (
                points
                if len(changed) == len(self.recent)
                else np.take(self.columns, self.recent, axis=1)
            )
            linalg.change_gram(self.gram, points, self.signs)
        damped = self.gram.copy()
        damped[np.diag_indices_from(damped)] += self.ridge
        factor = linalg.cholesky(damped)
        if factor is None:
            return False
        self.factor = factor
        self.recent, self.signs, self.whitened = (
            self.recent[:0],
            self.signs[:0],
            self.whitened[:, :0],
        )
        return True


def reduce_points(points: Real, weights: Array) -> Array:
    """Non-negative weights (N,) on at most m of N points (N, m), with the same weighted sum, up to
    the precision of the points.

    Points may be in single or double precision; their columns should be of comparable size.
    """
    weights = np.array(weights, dtype=float)
    columns, width = points.T, points.shape[1]
    alive = np.flatnonzero(weights > 0)
    while len(alive) > width:
        scale = weights.astype(columns.dtype)
        if len(alive) <= AT_ONCE * width:
            weights[alive] *= eliminate((np.take(columns, alive, axis=1) * scale[alive]).T)
        else:
            bounds = group_bounds(len(alive), max(int(GROUPS_PER_FEATURE * width), width + 2))
            factors = eliminate(_group_sums(columns, scale, alive[bounds[:-1]]).T)
            weights[alive] *= np.repeat(factors, np.diff(bounds))
        alive = alive[weights[alive] > 0]
    return weights


def _group_sums(columns: Real, weights: Real, starts: Indices) -> Real:
    """Weighted sums of contiguous ranges of points, a few features at a time to stay in cache."""
    sums = np.empty((len(columns), len(starts)), dtype=columns.dtype)
    for left in range(0, len(columns), 16):
        np.add.reduceat(
            columns[left : left + 16] * weights, starts, axis=1, out=sums[left : left + 16]
        )
    return sums


def group_bounds(count: int, groups: int) -> Indices:
    """Boundaries of ``groups`` contiguous ranges that cover ``range(count)``; the larger ranges
    come first.
    """
    groups = min(groups, count)
    size, larger = divmod(count, max(groups, 1))
    return np.concatenate(
        [[0], np.cumsum(np.arange(groups) < larger) + size * np.arange(1, groups + 1)]
    ).astype(np.intp)


def eliminate(points: Real) -> Array:
    """Factors ``s >= 0`` on at most m of N > m points in R^m with ``s @ points = sum(points)``."""
    return _walk_to_vertex(*linalg.null_table(points))


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def _walk_to_vertex(order: Indices, table: Real) -> Array:
    """Drive one point per row of the table to zero, from weights of 1.

    Row r of ``table`` (k x m) says ``f[order[m + r]] = sum_c table[r, c] f[order[c]]``: the point
    may *enter* the basis, which is ``order[:m]`` at first, in exchange for one that leaves.
    """
    count, width = table.shape
    held = np.ones(width)  # the weights of the points in the basis,
    basic = np.arange(width)  # and which they are
    size = PANEL if width > FLAT else count
    for start in range(0, count, size):
        panel, rest = table[start : start + size], table[start + size :]
        entered: list[int] = []
        columns: list[int] = []
        for r, row in enumerate(panel):
            column = _enter(row, held)
            if column is None:
                continue
            basic[column] = width + start + r
            # The row now expresses the point that left; use it to rewrite the rest of the panel in
            # the new basis.
            pivot = row[column]
            row[column] = -1.0
            np.divide(row, -pivot, out=row)
            below = panel[r + 1 :]
            if len(below):
                factor = below[:, column].copy()
                below[:, column] = 0.0
                linalg.add_outer(below, factor, row)
            entered.append(r)
            columns.append(column)
        if entered and len(rest):
            _exchange(rest, panel[entered], np.array(columns))
    reduced = np.zeros(len(order))
    reduced[order[basic]] = np.where(held > ALMOST, held, 0.0)
    return reduced


def _enter(row: Real, held: Array) -> int | None:
    """Follow one null vector to the boundary; return the column that left the basis, or None if the
    point itself left.

    Raising the point, of weight 1, by t lowers the basic weights by ``t * row``.  No weight is
    lowered below ALMOST, which counts as zero, so that no ratio is zero by zero.
    """
    ratio = row / held
    up, down = int(ratio.argmax()), int(ratio.argmin())
    rise, fall = ratio.item(up), ratio.item(down)
    itself = fall >= -1.0
    column: int | None
    if row.item(up) > (1.0 if itself else -row.item(down)):
        step, column = 1.0 / rise, up
    elif itself:
        step, column = -1.0, None
    else:
        step, column = 1.0 / fall, down
    held -= step * row
    np.maximum(held, LOWEST, out=held)
    if column is not None:
        held[column] = max(1.0 + step, ALMOST)
    return column


def _exchange(rest: Real, rows: Real, columns: Indices) -> None:
    """Apply a panel's exchanges, one after the other, to the rows below it, by one GEMM.

    Exchange i replaces ``rest[:, c_i]`` by its multiple of ``rows[i]``.  The multiples obey a
    triangular system; a column exchanged twice starts afresh from its last exchange.
    """
    last = {int(c): i for i, c in enumerate(columns)}
    seen: dict[int, int] = {}
    rows = rows.copy()
    system = np.eye(len(columns), dtype=rest.dtype)
    start = rest[:, columns]
    for i, c in enumerate(columns):
        since = seen.get(int(c))
        system[since or 0 : i, i] -= rows[since or 0 : i, c]
        if since is not None:
            start[:, i] = 0.0
        seen[int(c)] = i
    multiples = start @ linalg.unit_upper_inverse(system)
    for c, i in last.items():
        rows[:i, c] = 0.0
        rest[:, c] = 0.0
    linalg.add_product(rest, multiples, rows)


def refined_vertex(candidates: CandidatePoints, mass: Array) -> tuple[Indices, Array]:
    """Eliminate to a vertex and polish it: which points have weights, and the weights.

    Single precision almost always finds the right vertex, and refinement with residuals in double
    precision finds its weights to the last digits.  If not, because a weight ends below zero,
    double precision repeats both.
    """
    if candidates.single:
        support = np.flatnonzero(reduce_points(candidates.columns.T, mass) > 0)
        solve = linalg.square_solver(np.take(candidates.columns, support, axis=1))
        if solve is not None:
            points = np.take(candidates.points.T, support, axis=1).T
            # Clipped: refinement may still raise weights that single precision finds below zero.
            weights = _rounds(
                solve, points, np.maximum(solve(candidates.target), TINY), candidates.target
            )
            if np.linalg.norm(candidates.target - weights @ points) <= POLISHED * np.linalg.norm(
                candidates.target
            ):
                return support, weights
    mass = reduce_points(candidates.points, mass)
    support = np.flatnonzero(mass > 0)
    check_any(support)
    return support, polish(candidates.points[support], mass[support], candidates.target)


def polish(points: Array, weights: Array, target: Array) -> Array:
    """Refine positive weights on ``points`` (s x m) so that ``weights @ points`` meets
    ``target``.
    """
    # LU leaves a small residual, but needs as many points as features.
    for solver in (linalg.square_solver, linalg.least_squares_solver):
        solve = solver(points.T)
        if solve is None:
            continue
        refined = _rounds(solve, points, weights, target)
        if refined is not weights or not (target - weights @ points).any():
            return refined
    return weights


def polish_features(linear: FittedMoments, block: Array, weights: Array) -> Array:
    """Polish the weights of rows in dependent features, each of which must be met as closely as the
    others.
    """
    assert linear.absolute is not None
    size = np.where(linear.absolute > 0, linear.absolute, 1.0)
    features, target = linear.kernel.features(block) / size, linear.target / size
    largest = np.abs(target - weights @ features).max(initial=0.0)
    best = weights
    for cut in CUTS:
        factors = _rounds(
            linalg.least_squares_solver(features.T * weights, cut),
            features * weights[:, None],
            np.ones(len(weights)),
            target,
        )
        rest = np.abs(target - (weights * factors) @ features).max(initial=0.0)
        if rest < largest:
            best, largest = weights * factors, rest
        if (factors != 1.0).any():
            break
    return best


def _rounds(solve: Callable[[Array], Array], points: Array, weights: Array, target: Array) -> Array:
    residual = target - weights @ points
    for _ in range(ROUNDS):
        refined = weights + solve(residual)
        rest = target - refined @ points
        if not (refined > 0).all() or not np.linalg.norm(rest) < np.linalg.norm(residual):
            break
        weights, residual = refined, rest
    return weights


def check_any(support: Indices) -> None:
    if not len(support):
        raise InputError(
            "All moments of this data are zero, so an empty coreset would be exact. Pass"
            " total_weight=True to the problem to keep the total weight."
        )


def sampled(
    rows: Rows, fitted: FittedMoments, pool: Indices, rng: np.random.Generator, held: int = 0
) -> tuple[CandidatePoints, Array | None]:
    """Candidates and weights on them that meet the moments; None if Newton's method finds that
    there are none.

    The candidates are the first ``held`` rows and some of the others, from ``pool`` while it lasts.
    """
    always, width = np.arange(held), fitted.kernel.width
    # Summed, because a difference of two totals might be negative.
    share = float(len(rows) - held if rows.weights is None else rows.weights[held:].sum())
    sizes = (enough(fitted.kernel), int(SECOND * width))
    for size in sizes if not held else (int(BESIDE * width), *sizes):
        chosen, nominal = drawn(rows, fitted.kernel, pool, size, rng, held)
        nominal = nominal * (share / max(nominal.sum(), TINY))
        positions, weights = (
            np.concatenate([always, chosen]),
            np.concatenate([own_weights(rows, always), nominal]),
        )
        candidates = candidate_points(rows, fitted, positions, weights).resolve(
            may_miss=True, single=size == sizes[0]
        )
        matched = feasible(candidates)
        if matched is not None:
            return matched
        if candidates.missed > MISSED or (candidates.rank < width and len(rows) > SECOND * width):
            # features depend on each other: a look at all rows costs less than a larger sample
            break
    return candidates, None
