"""Independent judges.  Nothing here calls the engine.

A power loss is homogeneous of degree p in *base variables* B: the columns, the target if there is
one, and the constant 1 if the problem has an intercept.  All judges work on whitened base variables
``W = B A`` with ``W' diag(u) W = I``: every query on B is a query on W and the other way round, and
there its loss can be evaluated to rounding.  The map is applied in extended precision to shifted
columns (a shift is allowed where 1 is a base variable), so that the judge itself is accurate to
about 1e-19 times the condition number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
from scipy import linalg as sla
from scipy.optimize import linprog, nnls

EPS = np.finfo(float).eps
NULL = 1e-10  # relative singular value of the scaled base below which a direction is rounding
wide = np.longdouble


@dataclass(frozen=True)
class White:
    """Whitened base variables, fitted to full data."""

    affine: bool
    shift: np.ndarray
    scale: np.ndarray
    map: np.ndarray
    condition: float

    @property
    def rank(self) -> int:
        return self.map.shape[1]

    def __call__(self, table: np.ndarray) -> np.ndarray:
        """Coordinates of the rows of a table, in extended precision."""
        return (_base(table, self.affine, self.shift) / self.scale) @ self.map


def _base(table: np.ndarray, affine: bool, shift: np.ndarray) -> np.ndarray:
    moved = np.asarray(table).astype(wide) - shift
    return np.column_stack([np.ones(len(moved), dtype=wide), moved]) if affine else moved


def whiten(table: np.ndarray, weights: np.ndarray, affine: bool) -> White:
    """Fit the whitening map of weighted rows."""
    u = weights.astype(wide)
    zero = np.zeros(table.shape[1], dtype=wide)
    shift = (u @ np.asarray(table).astype(wide)) / u.sum() if affine else zero
    base = _base(table, affine, shift)
    size = np.sqrt(u @ base**2)
    # A column that is constant leaves only the rounding of its mean after the shift.
    raw = np.sqrt(u @ _base(table, affine, zero) ** 2)
    gone = size <= 1e-17 * raw
    scale = np.where(gone, wide(1), size)
    scaled = (np.sqrt(u)[:, None] * base / scale).astype(float)
    scaled[:, gone] = 0.0
    _, s, vt = np.linalg.svd(scaled, full_matrices=False)
    keep = s > NULL * s[0]
    A = (vt[keep].T / s[keep]).astype(wide)
    A[gone] = 0
    for _ in range(2):
        W = (base / scale) @ A
        G = ((W * u[:, None]).T @ W).astype(float)
        A = A @ np.linalg.inv(np.linalg.cholesky(G)).T.astype(wide)
    return White(affine, shift, scale, A, float(s[0] / s[keep][-1]))


def square_error(white: White, core: np.ndarray, core_weights: np.ndarray) -> float:
    """Worst relative loss error over every query, degree 2: generalised eigenvalues of the two Gram
    matrices.
    """
    W = white(core)
    G = (W * core_weights.astype(wide)[:, None]).T @ W
    return float(np.abs(np.linalg.eigvalsh((G - np.eye(white.rank)).astype(float))).max())


class PowerJudge:
    """Loss of degree p at thousands of adversarial queries, in whitened coordinates.

    Random directions at many ratios of scale; coordinate axes, of which the last are the small
    singular directions of the base; minimisers of the loss and their neighbours; and, per coreset,
    directions that annihilate as many kept rows as possible, where its loss rests on the fewest
    rows.
    """

    def __init__(
        self, white: White, table: np.ndarray, weights: np.ndarray, p: int, count: int = 3000
    ) -> None:
        self.white, self.weights, self.p, self.count = white, weights, p, count
        self.W = np.asarray(white(table), dtype=float)
        rng = np.random.default_rng(0)
        r = white.rank
        found = [np.eye(r), rng.standard_normal((r, count // 2))]
        found.append(
            rng.standard_normal((r, count // 2)) * 10.0 ** rng.uniform(-3, 3, (r, count // 2))
        )
        # how each base variable reads in whitened coordinates
        axes = np.linalg.pinv(white.map.astype(float))
        functionals = np.column_stack([axes, np.eye(r), rng.standard_normal((r, 8))])[
            :, : None if count > 1000 else axes.shape[1]
        ]
        for c in functionals.T:
            if np.linalg.norm(c) > 0:
                v = minimiser(self.W, weights, p + p % 2, c)[:, None]
                found += [v, v + 1e-6 * np.linalg.norm(v) * rng.standard_normal((r, 8))]
        self.Q = _unit(np.column_stack(found))
        self.top, self.value, self.size = self._loss(self.Q)

    def _loss(self, Q: np.ndarray):
        """Scale, loss and loss of absolute values at queries."""
        values = self.W @ Q
        top = np.maximum(np.abs(values).max(axis=0), 1e-300)
        powers = (values / top) ** self.p
        return top, self.weights @ powers, self.weights @ np.abs(powers)

    def error(self, core: np.ndarray, core_weights: np.ndarray) -> float:
        """Worst ``|f_c - f| / sum u |f_i|`` found."""
        kept = np.asarray(self.white(core), dtype=float)
        worst = self._compare(kept, core_weights, self.Q, self.top, self.value, self.size)
        r = self.white.rank
        if r > 1 and len(kept) >= r - 1:
            rng = np.random.default_rng(1)
            rows = np.array(
                [rng.choice(len(kept), r - 1, replace=False) for _ in range(self.count // 10)]
            )
            Q = _unit(np.linalg.svd(kept[rows])[2][:, -1].T)
            worst = max(worst, self._compare(kept, core_weights, Q, *self._loss(Q)))
        return worst

    def _compare(self, kept, core_weights, Q, top, value, size) -> float:
        return float((np.abs(core_weights @ ((kept @ Q) / top) ** self.p - value) / size).max())


def _unit(Q: np.ndarray) -> np.ndarray:
    return Q / np.linalg.norm(Q, axis=0)


def minimiser(W: np.ndarray, weights: np.ndarray, p: int, c: np.ndarray) -> np.ndarray:
    """Minimise ``sum u (W v)^p`` subject to ``c . v = 1`` (p even), by damped Newton."""
    v = c / (c @ c)
    free = sla.null_space(c[None, :])
    if not free.size:
        return v
    for _ in range(40):
        r = W @ v
        r = r / np.abs(r).max()
        gradient = free.T @ (W.T @ (weights * r ** (p - 1)))
        hessian = (p - 1) * free.T @ (W.T * (weights * r ** (p - 2))) @ W @ free
        move = free @ np.linalg.lstsq(hessian, -gradient, rcond=1e-14)[0] * np.abs(W @ v).max()
        now, length = weights @ r**p, 1.0
        top = np.abs(W @ v).max()
        while weights @ ((W @ (v + length * move)) / top) ** p > now and length > 1e-8:
            length /= 2
        if length <= 1e-8 or np.linalg.norm(length * move) < 1e-9 * np.linalg.norm(v):
            break
        v = v + length * move
    return v


def monomials(W: np.ndarray, p: int) -> np.ndarray:
    """All monomials of degree p of the columns, one product after the other."""
    W = np.asarray(W, dtype=float)
    return np.column_stack(
        [
            np.prod(W[:, list(t)], axis=1)
            for t in combinations_with_replacement(range(W.shape[1]), p)
        ]
    )


def rank(features: np.ndarray, weights: np.ndarray, total: bool) -> int:
    """Numerical rank of weighted features, with the constant if the total weight is to be kept.

    Fails if a singular value is so close to the threshold that the rank is a matter of taste.
    """
    if total:
        features = np.column_stack([features, np.ones(len(features))])
    weighted = np.sqrt(weights)[:, None] * features
    size = np.linalg.norm(weighted, axis=0)
    weighted = weighted[:, size > 0] / size[size > 0]
    weighted = weighted[weights > 0]
    if len(weighted) > 2 * weighted.shape[1]:
        weighted = sla.qr(weighted, mode="r", check_finite=False)[0][: weighted.shape[1]]
    s = np.linalg.svd(weighted, compute_uv=False)
    s = s / s[0]
    assert not ((s > 3e-12) & (s < 3e-11)).any(), (
        f"the rank is not clear: singular values {s[(s > 1e-13) & (s < 1e-9)]}"
    )
    return int((s > 1e-11).sum())


def solve_ridge(X, y, weights, alpha, intercept):
    """Ridge by QR of the augmented system on centred columns: coefficients and intercept."""
    total = weights.sum()
    centre = weights @ X / total if intercept else np.zeros(X.shape[1])
    middle = weights @ y / total if intercept else 0.0
    root = np.sqrt(weights)
    stacked = np.vstack([root[:, None] * (X - centre), np.sqrt(alpha) * np.eye(X.shape[1])])
    coef = np.linalg.lstsq(
        stacked, np.concatenate([root * (y - middle), np.zeros(X.shape[1])]), rcond=None
    )[0]
    return coef, (middle - centre @ coef) if intercept else 0.0


def solve_power(X, y, weights, p, alpha, intercept):
    """Minimise ``sum u (x.w + b - y)^p + alpha sum |w|^p`` on all rows, by Newton in extended
    precision.
    """
    n, d = X.shape
    size = np.sqrt((X**2).mean(axis=0)).astype(wide)
    Z = X.astype(wide) / size
    Z = np.column_stack([Z, np.ones(n, dtype=wide)]) if intercept else Z
    penalty = alpha / size**p
    u, t = weights.astype(wide), y.astype(wide)
    v = np.linalg.lstsq(Z.astype(float), y, rcond=None)[0].astype(wide)

    def value(v):
        return u @ _power(Z @ v - t, p) + penalty @ _power(v[:d], p)

    final = 0
    for _ in range(200):
        r = Z @ v - t
        gradient = p * Z.T @ (u * _power(r, p - 1))
        hessian = p * (p - 1) * (Z.T * (u * _power(r, p - 2))) @ Z
        gradient[:d] += p * penalty * _power(v[:d], p - 1)
        hessian[np.arange(d), np.arange(d)] += p * (p - 1) * penalty * _power(v[:d], p - 2)
        balance = np.sqrt(np.diag(hessian))
        H, g = (hessian / np.outer(balance, balance)).astype(float), gradient / balance
        top = np.abs(g).max()
        if top == 0 or final == 3:
            return (v[:d] / size).astype(float), float(v[d]) if intercept else 0.0
        move = -np.linalg.solve(H, (g / top).astype(float)).astype(wide) * top / balance
        now, length = value(v), wide(1)
        if -gradient @ move < 1e-16 * now:  # the value is at its rounding: three full steps more
            final += 1
        else:
            while value(v + length * move) > now and length > 1e-12:
                length /= 2
        v = v + length * move
    raise AssertionError("the reference minimiser did not converge")


def _power(x, p: int):
    """Powers by squaring (the library's power of extended numbers is slow)."""
    if p == 0:
        return np.ones_like(x)
    half = _power(x, p // 2)
    return half * half * x if p % 2 else half * half


def mean_error(X, weights, core, core_weights) -> float:
    """Worst relative error of ``sum u |x - q|^2`` over a dense set of centres."""
    u, w = weights.astype(wide), core_weights.astype(wide)
    X, core = np.asarray(X).astype(wide), np.asarray(core).astype(wide)
    for _ in range(2):  # the second round removes what the first sum rounded off
        mean = u @ X / u.sum()
        X, core = X - mean, core - mean
    scatter = u @ (X**2).sum(axis=1)
    if scatter == 0:
        return float(abs(w.sum() / u.sum() - 1))
    drift = w @ core - u @ X
    d_total, d_scatter = w.sum() - u.sum(), w @ (core**2).sum(axis=1) - scatter
    spread = np.sqrt(scatter / u.sum())
    worst = wide(0)
    axis = drift / max(np.sqrt(drift @ drift), wide(1e-300))
    for length in [0.0, *(10.0 ** np.linspace(-6, 6, 200))]:
        for sign in (1, -1):
            q = sign * length * spread * axis
            change = d_scatter - 2 * q @ drift + d_total * (q @ q)
            worst = max(worst, abs(change) / (scatter + u.sum() * (q @ q)))
    return float(worst)


def nnls_exists(features: np.ndarray, target: np.ndarray) -> float:
    """Relative residual of the best non-negative weights on these rows."""
    size = np.linalg.norm(features, axis=0)
    size[size == 0] = 1.0
    solution, residual = nnls((features / size).T, target / size, maxiter=20 * features.size)
    del solution
    return float(residual / np.linalg.norm(target / size))


def programme_exists(features: np.ndarray, target: np.ndarray, rows=slice(None)) -> bool:
    """Whether a linear programme finds non-negative weights on some of these rows that meet the
    target.

    Stated in orthonormal coordinates of the features' span: solvers drop the small coefficients of
    anything else.
    """
    size = np.linalg.norm(features, axis=0)
    size[size == 0] = 1.0
    u, s, vt = np.linalg.svd(features / size, full_matrices=False)
    keep = s > 1e-11 * s[0]
    goal = vt[keep] @ (target / size) / s[keep]
    points = u[:, keep][rows]
    length = np.linalg.norm(points, axis=1)
    result = linprog(
        np.zeros(len(points)),
        A_eq=(points / length[:, None]).T,
        b_eq=goal / np.abs(goal).max(),
        method="highs",
        bounds=(0, None),
    )
    return result.status == 0


def exact_moments(table, weights, p: int) -> list[Fraction]:
    """Moments of all monomials of degree p in (1, columns), in rational arithmetic."""
    rows = [[Fraction(1), *(Fraction(float(v)) for v in row)] for row in table]
    mass = [Fraction(float(w)) for w in weights]
    sets = list(combinations_with_replacement(range(len(rows[0])), p))
    sums = [Fraction(0)] * len(sets)
    for row, u in zip(rows, mass, strict=True):
        for i, t in enumerate(sets):
            term = u
            for j in t:
                term *= row[j]
            sums[i] += term
    return sums
