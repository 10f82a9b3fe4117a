"""Minimisers of power losses from weighted rows: linear algebra for p = 2, damped Newton for p > 2.

    F(w, b) = sum_i u_i (x_i . w + b - y_i)^p + alpha sum_a |w_a|^p + correction(w)

F is convex.  Columns are scaled to unit size and, with an intercept, centred first; that changes
neither the minimiser (scaled back) nor the meaning of the intercept, which is not penalised.

Means may be 1e8 times as large as what is left without them.  Then a mean in double precision is
itself off by 1e-8 of that, so columns are centred twice; and means times coefficients are as large,
and cancel against the target, so the intercept is the best one for the coefficients *as returned*,
rounded once.  No double is closer; what is left is that half ulp.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg as sla

from karat.engine import linalg
from karat.engine.linalg import Array
from karat.engine.parts import exact_combination
from karat.errors import NotExactError
from karat.problems.absorb.correction import Correction

NEWTON_STEPS = 200
REFINEMENTS = 3
CONVERGED = 1e-12  # relative decrease of the value that a step promises


class Solution(NamedTuple):
    """Coefficients and intercept of a fitted linear model."""

    coef: Array
    intercept: Array | float


def minimise_power(
    X: Array,
    y: Array,
    weights: Array,
    power: int,
    alpha: float,
    intercept: bool,
    correction: Correction | None = None,
) -> Solution:
    """Minimise the loss above over w (and b); several targets (power 2 only) are solved side by
    side.
    """
    targets = y.reshape(len(y), -1)
    if not correction:  # zero: nothing was absorbed, and the rows alone are solved more accurately
        correction = None
    # of the loss: squares of a gradient in units of 1e200 would overflow
    unit = 2.0 ** np.floor(np.log2(weights.max()))
    weights, alpha = weights / unit, alpha / unit
    if correction is not None:
        correction = correction.over(unit)
    total = weights.sum()
    X, means = _centred(X, weights, intercept)
    targets, middles = _centred(targets, weights, intercept)
    size = linalg.column_norms(np.sqrt(weights / total)[:, None] * X)
    # or the penalty of a small column would drown all others
    size = np.maximum(size, (alpha / total) ** (1 / power))
    size[size == 0] = 1.0
    if power == 2:
        coef = _ridge(X / size, targets, weights, alpha / size**2, correction, size) / size[:, None]
        shift = np.zeros(targets.shape[1])
    else:
        columns = [
            _newton(X / size, t, weights, power, alpha, intercept, correction, size)
            for t in targets.T
        ]
        coef = np.column_stack([c for c, _ in columns]) / size[:, None]
        shift = np.array([b for _, b in columns])
    offset = np.array(
        [_offset(means, w, [*m, b]) for w, m, b in zip(coef.T, middles.T, shift, strict=True)]
    )
    if y.ndim == 1:
        return Solution(coef[:, 0], float(offset[0]) if intercept else 0.0)
    return Solution(coef, offset if intercept else np.zeros(len(offset)))


def _centred(columns: Array, weights: Array, intercept: bool) -> tuple[Array, Array]:
    """Columns without their means, and the means: a first row, and a second with what rounding left
    of the first.
    """
    means = np.zeros((2, columns.shape[1]))
    if intercept:  # a constant is its own mean; rounding would leave a column of its own
        means[0] = np.where(
            np.ptp(columns, axis=0) == 0, columns[0], weights @ columns / weights.sum()
        )
        columns = columns - means[0]
        means[1] = weights @ columns / weights.sum()
        columns = columns - means[1]
    return columns, means


def _offset(means: Array, coef: Array, parts: list[float]) -> float:
    """The intercept: the target's own parts less what the coefficients make of the means."""
    return exact_combination(0.0, [*parts, *-coef, *-coef], [*np.ones(len(parts)), *means.ravel()])


def _ridge(
    X: Array, Y: Array, weights: Array, penalty: Array, correction: Correction | None, size: Array
) -> Array:
    root = np.sqrt(weights)[:, None]
    if correction is None:
        stacked = np.vstack([root * X, np.diag(np.sqrt(penalty))])
        padded = np.vstack([root * Y, np.zeros((X.shape[1], Y.shape[1]))])
        return np.asarray(sla.lstsq(stacked, padded, cond=1e-14, check_finite=False)[0])
    G, b = correction.matrices()
    carried = G / np.outer(size, size) + np.diag(penalty)
    gram = (root * X).T @ (root * X) + carried
    right = (root * X).T @ (root * Y) + (b / size)[:, None]
    factor = sla.lu_factor(gram, check_finite=False)
    coef = sla.lu_solve(factor, right, check_finite=False)
    # the gradient from the residuals is accurate where that from the Gram matrix is not
    for _ in range(REFINEMENTS):
        gradient = (root * X).T @ (root * (Y - X @ coef)) + (b / size)[:, None] - carried @ coef
        coef = coef + sla.lu_solve(factor, gradient, check_finite=False)
    return np.asarray(coef)


def _newton(
    X: Array, y: Array, weights: Array, power: int, alpha: float, intercept: bool,
    correction: Correction | None, size: Array,
) -> tuple[Array, float]:  # fmt: skip
    """Damped Newton on the scaled problem; the residuals are measured in units of their size, so
    nothing overflows.
    """
    Z = np.column_stack([X, np.ones(len(X))]) if intercept else X
    d = X.shape[1]
    root = np.sqrt(weights)[:, None]
    start = sla.lstsq(root * Z, root[:, 0] * y, check_finite=False)[0]
    unit = float(np.max(np.abs(Z @ start - y)))
    if unit == 0.0:
        unit = float(np.max(np.abs(y))) or 1.0
    y, x = y / unit, start / unit
    penalty = alpha / size**power

    def value(v: Array) -> float:
        f = float(weights @ (Z @ v - y) ** power + penalty @ np.abs(v[:d]) ** power)
        return f if correction is None else f + correction.value(v[:d] * unit / size) / unit**power

    def derivatives(v: Array) -> tuple[Array, Array]:
        residual = Z @ v - y
        gradient = power * Z.T @ (weights * residual ** (power - 1))
        hessian = power * (power - 1) * (Z.T * (weights * residual ** (power - 2))) @ Z
        gradient[:d] += power * penalty * v[:d] ** (power - 1)
        hessian[np.arange(d), np.arange(d)] += power * (power - 1) * penalty * v[:d] ** (power - 2)
        if correction is not None:
            g, h = correction.derivatives(v[:d] * unit / size)
            gradient[:d] += g * (unit / size) / unit**power
            hessian[:d, :d] += h * np.outer(unit / size, unit / size) / unit**power
        return gradient, hessian

    f = value(x)
    gradient, hessian = derivatives(x)
    for _ in range(NEWTON_STEPS):
        move = -sla.lstsq(hessian, gradient, cond=1e-15, check_finite=False)[0]
        slope = float(gradient @ move)
        # the value is at its rounding: from here on the gradient decides
        if -slope <= CONVERGED * abs(f):
            trial = x + move
            better, curvature = derivatives(trial)
            if not np.linalg.norm(better) < 0.5 * np.linalg.norm(gradient):
                break
            x, gradient, hessian = trial, better, curvature
            continue
        length = 1.0
        while value(x + length * move) > f + 1e-4 * length * slope and length > 1e-10:
            length *= 0.5
        x = x + length * move
        f = value(x)
        gradient, hessian = derivatives(x)
    else:
        raise NotExactError(
            f"Newton's method did not converge in {NEWTON_STEPS} steps; scale the columns of X"
            " and y."
        )
    return x[:d] * unit, float(x[d] * unit) if intercept else 0.0
