"""Weights on candidates of many groups at once: the algorithms of :mod:`karat.engine.weights`, in
stacks.

A stack holds G problems of the same shape: points (G, N, r), weights (G, N), targets (G, r).  Every
step of an algorithm is one NumPy call on all of them, so the overhead of the interpreter is paid
once per step, not once per group.  Only the LU factorisations run group by group, because NumPy has
no LU for stacks; one takes about 10 microseconds.

Groups with fewer points than others of their stack are padded with zero points of weight zero.
Such a point has a null vector of its own and leaves at once, so no step treats it specially.

Results are not trusted here.  If the system of a group is singular or its search fails, its weights
are NaN or leave a large residual, and its proof fails.
"""

from __future__ import annotations

import numpy as np

from karat.engine import linalg
from karat.engine.group_moments import each
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.tolerances import EPS, MET
from karat.engine.weights import ALMOST, DIVERGED, SHORT, STEPS

# points per feature up to which they are eliminated without summing them into groups first
DIRECT = 2.25
KINDS = 1.8  # sums per feature at one level of halving
LEVELS = 64  # most levels of halving; each leaves two thirds
PANEL = 4  # points that enter between two matrix products of the elimination
POLISHINGS = 2  # rounds of polishing
ROUNDED = 2 * EPS  # relative residual that no round makes smaller
# share of the points up to which Gram matrices are brought up to date rather than summed anew
FEW_CHANGES = 0.6
FINISHED = 0.7  # a stack is packed anew when no more than this share of it is left


def take_rows(stack: Array, places: Indices) -> Array:
    """Some rows of every group: ``stack[g, places[g]]`` of a stack (G, N, k)."""
    groups, count, width = stack.shape
    return np.asarray(
        np.take(stack.reshape(-1, width), places + count * np.arange(groups)[:, None], axis=0)
    )


def solved(matrices: Array, rhs: Array) -> Array:
    """Solutions (G, r) of square systems; NaN where a matrix is singular."""
    return each(np.linalg.solve, matrices, rhs[:, :, None])[:, :, 0]


def match_group_moments(points: Array, root: Array, target: Array, gram: Array) -> Array:
    """Factors s >= 0 (G, N) on the nominal weights that meet the targets; NaN for groups where none
    were found.

    The semi-smooth Newton method of :func:`karat.engine.weights.match_moments`.  ``gram`` are the
    Gram matrices of the points, which are overwritten.
    """
    factors = np.full(root.shape, np.nan)
    where = np.arange(len(points))  # the groups that are still in the stack
    excess, active = np.ones(root.shape), np.ones(root.shape, dtype=bool)
    hessian = gram
    ridge = 4 * EPS * np.einsum("gii->gi", hessian)
    gradient = _sums(points, root) - target
    value: Array = 0.5 * np.square(root).sum(axis=1)
    pushed: Array = np.zeros(len(points))
    going = np.ones(len(points), dtype=bool)
    for _ in range(STEPS):
        damped = hessian.copy()
        np.einsum("gii->gi", damped)[:] += ridge
        move = -solved(damped, gradient)
        along = (points @ move[:, :, None])[:, :, 0] / root
        slope, push = np.einsum("gi,gi->g", gradient, move), np.einsum("gi,gi->g", target, move)
        length, held, trial = _line_search(excess, along, root, value, pushed, slope, push)
        excess += length[:, None] * along
        pushed += length * push
        value = trial
        going &= np.isfinite(value) & (length >= SHORT) & (held.max(axis=1) <= DIVERGED)
        gradient = _sums(points, root * held) - target
        now = held > 0
        same = going & (now == active).all(axis=1) & (length == 1.0)
        met = same & (np.linalg.norm(gradient, axis=1) <= MET * np.linalg.norm(target, axis=1))
        factors[where[met]] = held[met]
        going &= ~same
        if not going.any():
            break
        if going.mean() <= FINISHED:
            points, root, target, ridge, gradient = (
                part[going] for part in (points, root, target, ridge, gradient)
            )
            excess, active, value, pushed, where = (
                excess[going],
                active[going],
                value[going],
                pushed[going],
                where[going],
            )
            hessian, now = hessian[going], now[going]
            going = np.ones(len(points), dtype=bool)
        hessian = _changed(hessian, points, active, now)
        active = now
    return factors


def _changed(hessian: Array, points: Array, before: Flags, now: Flags) -> Array:
    """Gram matrices of the points that are active now, updated from those of the points active
    before.
    """
    changed = now != before
    most = int(changed.sum(axis=1).max())
    if most > FEW_CHANGES * points.shape[1]:
        return np.asarray((points * now[:, :, None]).transpose(0, 2, 1) @ points)
    places = np.argsort(~changed, axis=1, kind="stable")[:, :most]
    changed_points = take_rows(points, places)
    came, went = (np.take_along_axis(flags & changed, places, axis=1) for flags in (now, before))
    hessian += (changed_points * (came.astype(float) - went)[:, :, None]).transpose(
        0, 2, 1
    ) @ changed_points
    return hessian


def _sums(points: Array, weights: Array) -> Array:
    return np.asarray((weights[:, None, :] @ points)[:, 0])


def _line_search(
    excess: Array, along: Array, root: Array, value: Array, pushed: Array, slope: Array, push: Array
) -> tuple[Array, Array, Array]:
    """Step lengths that lower the dual enough, the factors there, and the values of the dual."""
    length, base = np.ones(len(excess)), value + pushed
    while True:
        held = np.maximum(excess + length[:, None] * along, 0.0)
        trial = 0.5 * np.square(root * held).sum(axis=1) - pushed - length * push
        enough = trial <= value + 1e-4 * length * slope + 1e-12 * np.abs(base)
        again = ~enough & (length >= SHORT) & np.isfinite(trial)
        if not again.any():
            return length, held, trial
        length = np.where(again, 0.5 * length, length)


def reduce_group_points(points: Array, weights: Array) -> Array:
    """Weights (G, N) on at most r points of each group, with the same weighted sums; see
    :mod:`karat.engine.weights`.
    """
    weights = weights.copy()
    width = points.shape[2]
    for _ in range(LEVELS):
        alive = weights > 0
        most = int(alive.sum(axis=1).max(initial=0))
        if most <= width:
            break
        if most == weights.shape[1]:
            chosen, mass, places = points, weights, None
        else:
            places = np.argsort(~alive, axis=1, kind="stable")[:, :most]
            mass, chosen = np.take_along_axis(weights, places, axis=1), take_rows(points, places)
        chosen = chosen * mass[:, :, None]
        if most <= DIRECT * width:
            factors = eliminate_groups(chosen)
        else:
            kinds = max(int(KINDS * width), width + 2)
            sums = chosen[:, :kinds].copy()  # every kinds-th point shares the fate of its sum
            for start in range(kinds, most, kinds):
                more = chosen[:, start : start + kinds]
                sums[:, : more.shape[1]] += more
            factors = np.tile(eliminate_groups(sums), (1, -(-most // kinds)))[:, :most]
        if places is None:
            weights = mass * factors
        else:
            np.put_along_axis(weights, places, mass * factors, axis=1)
    return weights


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def eliminate_groups(points: Array) -> Array:
    """Factors ``s >= 0`` (G, N) on at most r of the N > r points of each group, with ``s @ points =
    sum(points)``.
    """
    return _walk_groups(*null_tables(points))


def null_tables(points: Array) -> tuple[Indices, Array]:
    """``linalg.null_table`` of every group: the order of its points (G, N), and a table (G, N - r,
    r).
    """
    groups, count, width = points.shape
    # so that every group is a matrix in Fortran order
    columns = np.ascontiguousarray(points.transpose(0, 2, 1))
    inverse, swaps = np.empty((groups, width, width)), np.empty((groups, width), dtype=np.intp)
    for g in range(groups):
        swaps[g], inverse[g] = linalg.factored(columns[g].T)
    order = np.tile(np.arange(count), (groups, 1))
    lines = np.arange(groups)
    for i in range(width):
        j = swaps[:, i]
        order[:, i], order[lines, j] = order[lines, j], order[:, i].copy()
    inverse *= np.tri(width, k=-1)
    np.einsum("gii->gi", inverse)[:] = 1.0
    lower = columns[:, :, width:].transpose(0, 2, 1)
    return order, lower @ inverse


def _walk_groups(order: Indices, table: Array) -> Array:
    """Drive one point per row of the tables to zero (:mod:`karat.engine.weights` does this for one
    table).

    Groups lie along the last axis, and PANEL rows form a panel.  Exchanging column c of the basis
    for the point of a row adds to every row below its entry in column c times a vector v.  Within a
    panel this is done at once, also to the vectors of earlier exchanges.  The rows below the panel
    get the sum of all its exchanges, by one matrix product.
    """
    groups, rounds, width = table.shape
    each_group = np.arange(groups)
    basic, entering = (
        np.ascontiguousarray(order[:, :width].T),
        np.ascontiguousarray(order[:, width:].T),
    )
    held, ratio = np.ones((width, groups)), np.empty((width, groups))
    products, columns = np.empty((PANEL, width, groups)), np.empty((PANEL, groups), dtype=np.intp)
    for first in range(0, rounds, PANEL):
        size = min(PANEL, rounds - first)
        # the rows of the panel, then the vectors of its exchanges
        work = np.empty((2 * size, width, groups))
        work[:size] = table[:, first : first + size].transpose(1, 2, 0)
        for r in range(size):
            row, vector, column = work[r], work[size + r], columns[r]
            np.divide(row, held, out=ratio)
            column[:], step, enters = _enter_groups(row, held, ratio, each_group)
            place = (column, each_group)
            pivot = np.where(enters, row[place], np.inf)
            np.divide(row, -pivot, out=vector)
            vector[place] = np.where(enters, 1.0 / pivot - 1.0, 0.0)
            held -= np.multiply(row, step, out=ratio)
            np.maximum(held, ALMOST, out=held)
            held[place] = np.where(enters, 1.0 + step, held[place])
            basic[place] = np.where(enters, entering[first + r], basic[place])
            below = work[r + 1 : size + r]
            below += np.multiply(
                below[:, column, each_group][:, None, :], vector, out=products[: len(below)]
            )
        rest = table[:, first + size :]
        rest += np.take_along_axis(rest, columns[:size].T[:, None, :], axis=2) @ work[
            size:
        ].transpose(2, 0, 1)
    held[held <= ALMOST] = 0.0
    reduced = np.zeros(order.shape)
    np.put_along_axis(reduced, basic.T, held.T, axis=1)
    return reduced


def _enter_groups(
    row: Array, held: Array, ratio: Array, each_group: Indices
) -> tuple[Indices, Array, Flags]:
    """Follow null vectors to the boundary: the columns that leave, the steps, and which points
    enter (the other points leave).

    ``ratio`` is row / held.  Its largest and smallest entries belong to the weights that reach zero
    first.
    """
    up, down = ratio.argmax(axis=0), ratio.argmin(axis=0)
    raised, lowered = row[up, each_group], row[down, each_group]
    most_raised = np.where(raised > 0, held[up, each_group] / raised, np.inf)
    most_lowered = np.where(lowered < 0, held[down, each_group] / -lowered, np.inf)
    itself = most_lowered >= 1.0  # the weight of a point that has not entered yet is 1
    upwards = raised > np.where(itself, 1.0, -lowered)
    step = np.where(upwards, most_raised, np.where(itself, -1.0, -most_lowered))
    return np.where(upwards, up, down), step, upwards | ~itself


def polish_groups(points: Array, weights: Array, target: Array) -> Array:
    """Refine positive weights (G, r) on as many points as features, so that they meet the
    targets.
    """
    matrices = np.ascontiguousarray(points.transpose(0, 2, 1))
    residual = target - _sums(points, weights)
    left = np.arange(len(points))  # the groups that another round may improve
    for _ in range(POLISHINGS):
        refined = weights[left] + solved(matrices[left], residual[left])
        rest = target[left] - _sums(points[left], refined)
        size, before = np.linalg.norm(rest, axis=1), np.linalg.norm(residual[left], axis=1)
        better = (refined > 0).all(axis=1) & (size < before)
        weights[left[better]], residual[left[better]] = refined[better], rest[better]
        left = left[better & (size > ROUNDED * np.linalg.norm(target[left], axis=1))]
        if not len(left):
            break
    return weights
