"""Class P, Mean: the 1-mean loss, a sum of squares of the forms x_j - q_j, in extended
precision.
"""

from __future__ import annotations

import numpy as np

from .arithmetic import OWN, centre, columns, dense, wide
from .power import NEVER


class Mean:
    """The 1-mean loss ``sum_i u_i |x_i - q|^2``: the forms x_j - q_j, added up."""

    def __init__(self, table, u: np.ndarray, seed: int = 0) -> None:
        self.u, self.total = u, u.sum()
        cols = columns(table)
        self.shift = centre(cols, u)
        self.D = cols - self.shift[:, None]
        self.spread = np.sqrt((self.D**2 * u).sum(axis=1) / self.total)
        rng = np.random.default_rng(seed)
        d = len(cols)
        unit = np.sqrt((self.spread**2).sum()) or wide(1)
        found = [np.zeros(d), -self.shift, *(self.D[:, rng.integers(0, len(u), 6)].T)]
        for length in 10.0 ** np.arange(-6, 7, 2):
            found += [
                length * unit * rng.standard_normal(d),
                length * self.spread * rng.standard_normal(d),
            ]
            found += list(length * unit * np.eye(d)[:8])
        self.fixed = np.array(found, dtype=wide)
        self.seconds = (self.D**2 * u).sum(axis=1)

    def kept(self, table) -> np.ndarray:
        return columns(table) - self.shift[:, None]

    def error(self, base: np.ndarray, w: np.ndarray, rounding: float) -> tuple[float, str]:
        drift = (base * w).sum(axis=1) - (self.D * self.u).sum(axis=1)
        queries = self.fixed
        size = np.sqrt((drift**2).sum())
        if size > 0:
            unit = np.sqrt((self.spread**2).sum()) or wide(1)
            queries = np.vstack(
                [
                    queries,
                    [s * 10.0**k * unit * drift / size for k in range(-4, 5) for s in (-1, 1)],
                ]
            )
        worst, where = 0.0, ""
        for number, q in enumerate(queries):
            forms = self.D - q[:, None]
            value = (forms * forms * self.u).sum()
            bound = 2 * (np.abs(forms) * (np.abs(self.D) + np.abs(q)[:, None]) * self.u).sum()
            own = base - q[:, None]
            excess = abs((own * own * w).sum() - value) - (wide(rounding) + wide(OWN)) * bound
            if excess > 0 and excess / max(value, NEVER) > worst:
                worst, where = float(excess / max(value, NEVER)), f"centre {number}"
        return worst, where

    def evaluable(self, table) -> bool:
        plain = (
            np.ascontiguousarray(dense(table).T).astype(float) - self.shift.astype(float)[:, None]
        )
        with np.errstate(all="ignore"):
            top = np.abs(plain).max() or 1.0
            second = ((plain / top) ** 2 * (self.u / self.total).astype(float)).sum()
        exact = (self.seconds / self.total).sum() / wide(top) ** 2
        return bool(
            np.isfinite(second) and abs(second - float(exact)) <= 1e-8 * max(float(exact), 1e-300)
        )
