"""Class L: the sum of every linear combination of features (Moments, TensorContraction, Kernel), in
extended precision.

A query is a vector h of coefficients over features phi_t: monomials of columns that are shifted by
their weighted means (Moments), monomials of the columns (TensorContraction), or a user's features
(Kernel).  It is stored as ``g_t = h_t S_t`` with ``S_t = sum_i u_i |phi_t(i)|`` and normalised to
``sum_t |g_t| = 1``, so that R(q) = 1 and the claim reads

    |g . (rho / S)|  <=  loss_error * sum_i u_i |f_i|  +  rounding,
    rho = moments of the kept rows less those of all.

Differences of moments are extended; the denominator, of which a few digits are enough, is a double.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg as sla
from scipy import sparse
from scipy.optimize import linprog

from .arithmetic import (
    CHUNK,
    OWN,
    centre,
    columns,
    dense,
    expansion,
    exponents,
    form_power,
    monomials,
    wide,
)

# relative singular values below which an adversary leaves directions out
CUTS = (1e-15, 1e-13, 1e-11, 1e-8, 1e-4)
FLOPS = 6e8
MANY = 5e9
SMALL = 10_000  # entries of the features up to which a linear programme is solved
NEVER = 1e-300


class Monomials:
    """Features of Moments (``affine``) and TensorContraction."""

    def __init__(self, table, u: np.ndarray, degree: int, affine: bool, total: bool = True) -> None:
        cols = columns(table)
        self.affine, self.degree, self.count = affine, degree, len(cols)
        self.shift = centre(cols, u) if affine else np.zeros(len(cols), dtype=wide)
        self.powers = exponents(len(cols), 0 if affine else degree, degree)
        if not affine and total:
            self.powers = np.vstack([np.zeros((1, len(cols)), dtype=int), self.powers])
        moved = cols - self.shift[:, None]
        self.scale = np.array([np.abs(c).max(initial=0) or wide(1) for c in moved])
        size = np.sqrt((moved**2 * u).sum(axis=1) / u.sum())
        self.size = np.where(size > 0, size, wide(1))
        keep = u > 0
        thin = (np.sqrt(u[keep]) * (moved / self.size[:, None])[:, keep]).astype(float)
        self.axes = (
            sla.svd(thin, full_matrices=False)[0]
            if len(cols) > 1 and thin.size < 4e6
            else _axes(thin)
        )

    def __call__(self, table) -> np.ndarray:
        return monomials(columns(table) - self.shift[:, None], self.powers)

    def plain(self, table) -> np.ndarray:
        """The same in plain double precision, of shifted and scaled columns, as anybody would
        compute them.
        """
        shift, scale = self.shift.astype(float), self.scale
        moved = np.ascontiguousarray(dense(table).T).astype(float) - shift[:, None]
        return monomials((moved / scale[:, None]).astype(float), self.powers)

    def queries(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Raw monomials, and powers of affine forms: differences of columns, principal axes, random
        ones.
        """
        found = list(expansion(self.powers, self.shift)) if self.affine else []
        forms = [self.axes[:, k] / self.size for k in range(self.axes.shape[1])]
        forms += [rng.standard_normal(self.count) / self.size for _ in range(6)]
        for a in range(min(self.count, 8)):
            for b in range(a):
                plain, unit = np.zeros(self.count, dtype=wide), np.zeros(self.count, dtype=wide)
                plain[[a, b]], unit[[a, b]] = (1, -1), (1 / self.size[a], -1 / self.size[b])
                forms += [plain, unit]
        for form in forms:
            if not self.affine:
                found.append(form_power(self.powers[1:], form, 0, self.degree))
                found[-1] = (
                    np.concatenate([[wide(0)], found[-1]])
                    if len(self.powers) > len(found[-1])
                    else found[-1]
                )
                continue
            for degree in range(1, self.degree + 1):
                found.append(form_power(self.powers, form, 0, degree))
            # the raw form through zero, and any other
            for constant in (self.shift @ form, rng.standard_normal()):
                found.append(form_power(self.powers, form, constant, self.degree))
        return found


def _axes(thin: np.ndarray) -> np.ndarray:
    return sla.eigh(thin @ thin.T)[1]


class Function:
    """Features of Kernel: what a function of the user returns for a block, and the constant."""

    def __init__(self, function, total: bool = True) -> None:
        self.function, self.total = function, total

    def plain(self, table) -> np.ndarray:
        values = np.asarray(self.function(dense(table).astype(float)), dtype=float).T
        return np.vstack([values, np.ones(values.shape[1])]) if self.total else values

    def __call__(self, table) -> np.ndarray:
        return np.ascontiguousarray(self.plain(table)).astype(wide)

    def queries(self, rng: np.random.Generator) -> list[np.ndarray]:
        return []


class Linear:
    """The full data's side of the claim, for any coreset of it."""

    def __init__(self, features, table, u: np.ndarray, seed: int = 0) -> None:
        self.features, self.u, self.rows = features, u, dense(table)
        self.share = (u / u.sum()).astype(float)
        self.blocks = [slice(a, a + CHUNK) for a in range(0, len(u), CHUNK)]
        moments, sizes = 0, 0
        for block in self.blocks:
            phi = features(self.rows[block])
            moments = moments + (phi * u[block]).sum(axis=1)
            size = (
                features.absolute(self.rows[block])
                if hasattr(features, "absolute")
                else np.abs(phi)
            )
            sizes = sizes + (size * u[block]).sum(axis=1)
        self.moments, self.sizes = moments, np.where(sizes > 0, sizes, wide(1))
        self.rng = np.random.default_rng(seed)

    @cached_property
    def plain(self) -> np.ndarray:
        """Features in units of their mean absolute value, as doubles."""
        unit, found = self.sizes / self.u.sum(), np.empty((len(self.u), len(self.sizes)))
        for block in self.blocks:
            found[block] = (self.features(self.rows[block]) / unit[:, None]).T.astype(float)
        return found

    @cached_property
    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Singular values and directions of the weighted features."""
        return _right(self._triangle(self.share))

    @cached_property
    def fixed(self) -> np.ndarray:
        """The queries that do not depend on a coreset."""
        return self._normal(self._fixed())

    def _triangle(self, weights: np.ndarray) -> np.ndarray:
        # of very many rows a sample will do: it only finds queries
        step = 1 + int(self.plain.size * len(self.sizes) / MANY)
        scaled = np.sqrt(weights[::step])[:, None] * self.plain[::step]
        if len(scaled) > scaled.shape[1]:
            scaled = sla.qr(scaled, mode="r", check_finite=False, overwrite_a=True)[0][
                : scaled.shape[1]
            ]
        return scaled

    def _fixed(self) -> list[np.ndarray]:
        m, rng = len(self.sizes), self.rng
        found = [h * self.sizes for h in self.features.queries(rng)]
        found += list(np.eye(m))
        found += list(self.directions[1].T[-60:])
        for _ in range(20):
            found += [
                rng.standard_normal(m),
                rng.standard_normal(m) * 10.0 ** rng.uniform(-8, 0, m),
            ]
            a, b = rng.integers(0, m, 2)
            found.append(np.eye(m)[a] - rng.choice([-1, 1]) * np.eye(m)[b])
        return found

    def _normal(self, found: list[np.ndarray]) -> np.ndarray:
        table = np.array(
            [
                np.asarray(g, dtype=wide)
                for g in found
                if np.isfinite(np.asarray(g, dtype=wide)).all()
            ]
        )
        table = table.reshape(-1, len(self.sizes))
        size = np.abs(table).sum(axis=1)
        return table[size > 0] / size[size > 0][:, None]

    def kept(self, table) -> np.ndarray:
        """Features of kept rows, to be judged with any weights."""
        return self.features(table)

    def error(self, phi: np.ndarray, w: np.ndarray, rounding: float) -> tuple[float, str]:
        """The least loss_error that would make the claim true at every query tried, and where it is
        needed.
        """
        rho = ((phi * w).sum(axis=1) - self.moments) / self.sizes
        # then |g . rho| <= rounding for every g: nothing can be found
        if np.abs(rho).max(initial=0) <= rounding + OWN:
            return 0.0, ""
        worst, where = self._at(self.fixed, rho, rounding)
        for name, found in (
            ("null", self._blind(phi, w)),
            ("dual", self._dual(rho)),
            ("programme", self._programme(rho, rounding)),
        ):
            error, place = self._at(self._normal(found), rho, rounding)
            if error > worst:
                worst, where = error, f"{name} {place}"
        return worst, where

    def _at(self, queries: np.ndarray, rho: np.ndarray, rounding: float) -> tuple[float, str]:
        excess = np.abs((queries * rho).sum(axis=1)) - wide(rounding) - wide(OWN)
        doubtful = np.flatnonzero(excess > 0)
        if not len(doubtful):
            return 0.0, ""
        G = queries[doubtful].T.astype(float)
        size = np.zeros(len(doubtful))
        step = max(1, int(2e7 / G.shape[1]))
        for a in range(0, len(self.plain), step):
            size += self.share[a : a + step] @ np.abs(self.plain[a : a + step] @ G)
        ratio = excess[doubtful].astype(float) / np.maximum(size, NEVER)
        top = int(ratio.argmax())
        return float(ratio[top]), f"query {doubtful[top]} of {len(queries)}"

    def _blind(self, phi: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
        """Directions that vanish, or almost, on every kept row."""
        scaled = (np.sqrt(w / w.sum()) * phi / (self.sizes / self.u.sum())[:, None]).T.astype(float)
        full = np.vstack(
            [scaled, np.zeros((max(0, scaled.shape[1] - len(scaled)), scaled.shape[1]))]
        )
        return list(_right(full)[1].T[-40:])

    def _dual(self, rho: np.ndarray) -> list[np.ndarray]:
        """Directions of large difference and small loss: by least squares, then a few steps towards
        least sums.
        """
        goal, (size, v) = rho.astype(float), self.directions
        if not goal.any() or not size[0]:
            return []
        goal = goal / np.abs(goal).max()
        found = []
        for cut in CUTS:
            keep = size > cut * size[0]
            inside = v[:, keep].T @ goal
            found += [v[:, keep] @ (inside / size[keep] ** 2), v[:, keep] @ inside]
            if not keep.all():
                found.append(goal - v[:, keep] @ inside)  # what lies outside of the span
        if self.plain.size * len(self.sizes) > FLOPS / 4:
            return found
        h = found[0]
        for _ in range(4):
            values = np.abs(self.plain @ h)
            top = values.max(initial=0.0)
            if not np.isfinite(top) or top == 0:
                break
            s, v = _right(self._triangle(self.share / np.maximum(values / top, 1e-9)))
            keep = s > 1e-14 * s[0]
            h = v[:, keep] @ ((v[:, keep].T @ goal) / s[keep] ** 2)
            found.append(h)
        return found

    def _programme(self, rho: np.ndarray, rounding: float) -> list[np.ndarray]:
        """For small data the supremum itself: maximise ``g . rho - rounding |g|_1`` subject to
        ``sum_i u_i |f_i| <= 1``.
        """
        rows = np.flatnonzero(self.share > 0)
        n, m = len(rows), len(rho)
        if n * m > SMALL:
            return []
        unit = float(np.abs(rho).max())
        goal, price = rho.astype(float) / unit, rounding / unit
        values, one = sparse.csr_matrix(self.plain[rows]), sparse.eye(n, format="csr")
        limits = sparse.vstack(
            [
                sparse.hstack([values, -values, -one]),
                sparse.hstack([-values, values, -one]),
                sparse.hstack(
                    [sparse.csr_matrix((1, 2 * m)), sparse.csr_matrix(self.share[rows][None, :])]
                ),
            ]
        )
        cost = np.concatenate([price - goal, price + goal, np.zeros(n)])
        most = np.append(np.zeros(2 * n), 1.0)
        found = linprog(
            cost,
            A_ub=limits,
            b_ub=most,
            bounds=(0, None),
            method="highs",
            options={"time_limit": 2.0},
        )
        return [] if found.x is None else [found.x[:m] - found.x[m : 2 * m]]

    def evaluable(self, table) -> bool:
        """Whether plain double precision evaluates every moment to 1e-8 of its sum of absolute
        values.
        """
        rows, u, first, size = dense(table), (self.u / self.u.max()).astype(float), 0.0, 0.0
        with np.errstate(all="ignore"):
            for block in self.blocks:
                phi = self.features.plain(rows[block])
                first, size = first + phi @ u[block], size + np.abs(phi) @ u[block]
            ratio = first / np.maximum(size, NEVER)
        seen = np.abs(self.moments) > 0
        return bool(
            np.isfinite(ratio).all()
            and np.abs(ratio - self.moments / self.sizes)[seen].max(initial=0) <= 1e-8
        )


def _right(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values, decreasing, and right singular vectors as columns."""
    try:
        _, s, vt = sla.svd(matrix, full_matrices=False, check_finite=False)
    except np.linalg.LinAlgError:
        _, s, vt = sla.svd(matrix, full_matrices=False, check_finite=False, lapack_driver="gesvd")
    return s, vt.T
