"""Positive weights on a few candidates that meet the moments of all rows.

Candidates ``f_i`` carry nominal weights ``v_i`` (what sampling would give them).  We look for factors close to one,

    minimise  1/2 sum_i v_i (s_i - 1)^2    subject to   sum_i v_i s_i f_i = t,   s >= 0.

The dual is smooth, convex and unconstrained in R^m,

    minimise  D(x) = 1/2 sum_i v_i (1 + f_i . x)_+^2 - t . x ,      s_i = (1 + f_i . x)_+ ,

with gradient ``sum v_i s_i f_i - t`` and the Hessian ``sum over active i of v_i f_i f_i'``.  Semi-smooth Newton ends exactly
once the active set settles, mostly in 2 to 9 steps.  The Hessian is updated by the rows that enter or leave, not summed
anew.  If no such weights exist D is unbounded below, and x turns into a Farkas direction: f_i . x <= 0 on every candidate
while t . x > 0.  A row of the data with f . x > 0 must then exist, and pricing finds it.

The code holds ``g_i = sqrt(v_i) f_i``: the Hessian is then their Gram matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine import linalg
from karat.engine.linalg import Array
from karat.engine.points import Frame
from karat.engine.tolerances import EPS, MET

STEPS = 40
DIVERGED = 1e4  # a factor this large means that the dual is unbounded
SHORT = 1e-6  # so does a step this short


@dataclass(frozen=True)
class Outcome:
    """What Newton's method found.

    Attributes
    ----------
    met : bool
        Whether the target is met; if not, no such weights exist or they are too hard to find.
    factors : array (N,)
        The factors s.
    direction : array (m,)
        The dual x; a Farkas direction if unmet.
    steps : int
    """

    met: bool
    factors: Array
    direction: Array
    steps: int


def meet(known: Frame) -> Outcome:
    """Solve the problem above for the points of a resolved frame."""
    points, root, target = known.points, known.root, known.target
    hessian, factor = known.gram.copy(order="F"), known.factor
    ridge = 4 * EPS * np.diag(hessian)
    x = np.zeros(points.shape[1])
    excess = np.ones(len(points))  # 1 + f_i . x
    active = np.ones(len(points), dtype=bool)
    gradient = linalg.product(points.T, root[:, None])[:, 0] - target
    value = 0.5 * float(root @ root)
    step = 0
    for step in range(1, STEPS + 1):
        move = -linalg.cholesky_solve(factor, gradient)
        along = linalg.product(points, move[:, None])[:, 0] / root
        slope, push = float(gradient @ move), float(target @ move)
        base = value + float(target @ x)
        length = 1.0
        while True:
            held = np.maximum(excess + length * along, 0.0)
            trial = 0.5 * float(np.square(root * held).sum()) - float(target @ x) - length * push
            if trial <= value + 1e-4 * length * slope + 1e-12 * abs(base) or length < SHORT:
                break
            length *= 0.5
        x += length * move
        excess += length * along
        value = trial
        if length < SHORT or held.max() > DIVERGED:
            break
        changed = np.flatnonzero((held > 0) != active)
        gradient = linalg.product(points.T, (root * held)[:, None])[:, 0] - target
        if not len(changed) and length == 1.0:
            return Outcome(bool(np.linalg.norm(gradient) <= MET * np.linalg.norm(target)), held, x, step)
        came = held[changed] > 0
        active[changed] = came
        if len(changed) > 0.5 * active.sum():
            hessian = linalg.upper_gram(points[active])
        else:
            hessian += linalg.upper_gram(points[changed[came]]) - linalg.upper_gram(points[changed[~came]])
        damped = hessian.copy(order="F")
        damped[np.diag_indices_from(damped)] += ridge
        next_factor = linalg.cholesky(damped)
        if next_factor is None:
            break
        factor = next_factor
    return Outcome(False, np.maximum(excess, 0.0), x, step)
