"""Absorbed coresets, beyond the claim:

``core.loss`` in doubles, and ``problem.solve`` against a solution from all rows.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg as sla

from .arithmetic import EPS, power, wide
from .power import Power

STEEP = 1e6  # condition of the regularised system beyond which coefficients are not compared
ALLOWED = 2e-8  # distance of two minimisers, in units of the square root of the loss


def minimiser(oracle: Power) -> tuple[np.ndarray, float]:
    """The minimiser of the regularised loss over all rows, as a query with -1 at the target; and
    the condition of its system.

    Newton in extended precision from QR in double: the residuals are those of the extended data, so
    the last digits are right.
    """
    D, u, p, lead = oracle.D, oracle.u, oracle.p, int(oracle.affine)
    r = len(D) - 1
    penalty = np.zeros(r, dtype=wide)
    # in scaled coefficients z_j = size_j w_j, and residuals in units of the target: z_target = -1
    penalty[lead:] = oracle.alpha / power(oracle.size[:-1], p) / oracle.total
    share = u / oracle.total
    z, condition = np.zeros(r, dtype=wide), np.inf
    for step in range(60 if p > 2 else 4):
        form = (D[:-1] * z[:, None]).sum(axis=0) - D[-1]
        inner = power(np.abs(form), p - 2) if p > 2 and step else np.ones_like(form)
        q = p if p > 2 and step else 2
        root = np.sqrt(share * inner * (q - 1)).astype(float)
        bend = (
            penalty * (power(np.abs(z), p - 2) if p > 2 else 1) * (q - 1)
            if step or p == 2
            else penalty
        )
        stiff = np.sqrt(bend)
        if not (stiff < 1e300).all():  # units so far apart that doubles do not hold the system
            return z, np.inf
        stacked = np.vstack([(root * D[:-1].astype(float)).T, np.diag(stiff.astype(float))])
        gradient = (D[:-1] * (share * (power(form, q - 1)))).sum(axis=1) + penalty * (
            power(z, p - 1) if q == p else z
        )
        R = sla.qr(stacked, mode="r", check_finite=False)[0][:r]
        values = sla.svdvals(R)
        condition = float(values[0] / values[-1]) if values[-1] > 1e-15 * values[0] else np.inf
        if condition > STEEP:
            return z, condition
        g = gradient.astype(float)
        move = -sla.solve_triangular(R, sla.solve_triangular(R, g, trans=1))
        z = z + move.astype(wide)
        if step > 1 and np.abs(move).max() <= 1e-13 * float(np.abs(z).max()):
            return np.append(z, wide(-1)), condition
    return np.append(z, wide(-1)), condition if p == 2 else np.inf


def check(oracle: Power, core, call) -> str:
    """An empty string, or what is wrong with the loss or the solution; ``call`` runs what is
    karat's.
    """
    best, condition = minimiser(oracle)
    if not condition <= STEEP:
        return ""
    found = call(lambda: core.problem.solve(core))
    own = query(oracle, np.atleast_1d(found.coef), found.intercept)
    value, rounding = oracle._losses(best[:, None])
    distance = own - best
    # the regularised loss at the difference: its norm to the power p
    move = oracle._losses(distance[:, None])[0][0]
    noise = (
        power((np.abs(oracle.D) * np.abs(best)[:, None]).sum(axis=0), oracle.p) * oracle.u
    ).sum()
    root = 1.0 / oracle.p
    allowed = (
        ALLOWED * float(value[0]) ** root + 1e4 * EPS * float(noise) ** root
        if oracle.p == 2
        else np.inf
    )
    # the intercept is one double: no answer is nearer than half its spacing
    if oracle.p == 2 and oracle.affine:
        allowed += float(
            np.spacing(abs(found.intercept)) / 2 / oracle.size[-1] * np.sqrt(oracle.total)
        )
    if float(move) ** root > allowed:
        return (
            "problem.solve is off by"
            f" {float(move) ** root / max(float(value[0]) ** root, 1e-300):.1e} of the root loss"
        )
    if (
        oracle.p > 2
        and oracle._losses(own[:, None])[0][0] > value[0] * (1 + 1e-7) + 1e4 * EPS * rounding[0]
    ):
        return "problem.solve is not a minimiser"
    return losses(oracle, core, best, call)


def query(oracle: Power, coef: np.ndarray, intercept: float) -> np.ndarray:
    """Coefficients and intercept as a query in units of the target's size."""
    unit = oracle.size[-1]
    z = coef.astype(wide) * oracle.size[:-1] / unit
    if not oracle.affine:
        return np.append(z, wide(-1))
    moved = wide(intercept) + (coef.astype(wide) * oracle.shift[:-1]).sum() - oracle.shift[-1]
    return np.concatenate([[moved / unit], z, [wide(-1)]])


def losses(oracle: Power, core, best: np.ndarray, call) -> str:
    """``core.loss`` in doubles at a few queries, with the rounding that raw columns cost."""
    rng = np.random.default_rng(0)
    unit = oracle.size[-1]
    for number in range(4):
        z = best * (1 + (number > 0) * 10.0 ** rng.uniform(-3, 1) * rng.standard_normal(len(best)))
        z[-1] = -1
        coef = (z[int(oracle.affine) : -1] * unit / oracle.size[:-1]).astype(float)
        shift = (
            z[0] * unit - (coef * oracle.shift[:-1]).sum() + oracle.shift[-1]
            if oracle.affine
            else wide(0)
        )
        seen = call(lambda q=(coef, float(shift)) if oracle.affine else coef: core.loss(q))
        asked = query(oracle, coef, float(shift))
        value = oracle._losses(asked[:, None])[0][0] * power(unit, oracle.p)
        raw = (
            np.abs(oracle.D[int(oracle.affine) :] * oracle.size[:, None])
            + np.abs(oracle.shift)[:, None]
        )
        form = (raw * np.append(np.abs(coef), 1.0)[:, None]).sum(axis=0) + abs(shift)
        bound = oracle.p * (power(form, oracle.p) * oracle.u).sum() + value
        if not abs(seen - value) <= 1e-8 * value + 1e-13 * bound:
            return f"core.loss is {seen:.17g}, not {float(value):.17g}"
    return ""
