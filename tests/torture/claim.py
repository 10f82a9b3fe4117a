"""Class P: powers of one affine form (LeastSquares, Ridge, LpRegression), for every query, without
slack.

    |f_c(z) - f(z)|  <=  delta f(z) + P(z),
    P = (f^(1/p) + rho U^(1/p) S)^p - f,      S(z) = sum_j |z_j| sigma_j

z are coefficients of (1, x, y), or of (x, y) without an intercept; sigma_j is the p-norm of column
j about its exact weighted mean (about 0 without an intercept); the constant has no share in S.
Rows that are kept unchanged, with their own weights, are left out on both sides.  The claim is
broken where :func:`Claim.worst` returns a ratio of error to allowance above 1.

Losses at a query are integers, so nothing is rounded; roots have 160 digits.  p = 2: because

    P(z) = min over t > 0 and shares l_j > 0 (sum 1) of  t f + rho^2 (1 + 1/t) U sum_j z_j^2
    sigma_j^2 / l_j,

the largest ratio is the largest eigenvalue of the difference relative to this form, over all t and
l.  From a grid of t it is climbed by turns, z then (t, l), and never falls.  The climb is in
doubles, in coordinates from an exact elimination in which both forms are well scaled; what it finds
is evaluated exactly.  p > 2: the same climb in the second moments, and then ascent in the form of
degree p, whose coefficients (differences of moments in these coordinates) have 64 bits.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from scipy import linalg as sla
from scipy.optimize import minimize

from .arithmetic import exponents, monomials, multinomial, wide
from .exact import CONTEXT, ZERO, Side, decimals, factor

GRID = 10.0 ** np.arange(-18.0, 10.1, 1.0)
LEAST = 1e-5  # share of a column in the climb
CLIMBS, STEPS, JUDGED = 8, 24, 6
MANY = 50_000  # rows beyond which few queries of higher powers are evaluated


@dataclass
class Worst:
    """A query and the ratio of its error to what the claim allows."""

    ratio: float
    error: float = 0.0  # relative to f
    allowed: float = 0.0  # likewise
    query: list | None = None  # integers, one per column (of the Side's units)

    def __str__(self) -> str:
        return (
            f"{self.ratio:.3g} times what is allowed (error {self.error:.1e} of the loss, allowed"
            f" {self.allowed:.1e})"
        )


class Claim:
    """The full data's side for one target."""

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray | None,
        u: np.ndarray | None,
        p: int,
        affine: bool,
        shared=None,
    ) -> None:
        self.p, self.affine, self.count = p, affine, len(X)
        weights = None if u is None or (np.asarray(u) == 1).all() else np.asarray(u)
        self.side = Side(_columns(X, y), weights, len(X))
        last = len(self.side.columns) - 1 + affine
        if shared is None:
            self.full = self.side.gram(self.side.lows, self.side.low, affine)
        else:  # another target beside the same columns
            self.full = shared.full.copy()
            own = self.side.gram(self.side.lows, self.side.low, affine, only=last)
            self.full[last], self.full[:, last] = own[last], own[:, last]

    def kept(self, X: np.ndarray, y: np.ndarray | None, w: np.ndarray) -> Side:
        return Side(_columns(X, y), np.asarray(w, dtype=float), len(X))

    def worst(
        self,
        kept: Side,
        delta: float,
        rho: float,
        verbatim: np.ndarray | None = None,
        apart: np.ndarray | None = None,
        queries: list | None = None,
    ) -> Worst:
        """The query at which the error is largest beside the claim.

        ``verbatim``: which kept rows are left out; ``apart``: the rows of the data that they are.
        ``queries``: where to look first (coefficients of the centred columns in units of their
        sigma).
        """
        with decimal.localcontext(CONTEXT):
            pair = Pair(self, kept, verbatim, apart)
            return pair.worst(Decimal(delta), Decimal(rho), queries)

    def pair(
        self, kept: Side, verbatim: np.ndarray | None = None, apart: np.ndarray | None = None
    ) -> Pair:
        """Both sides, to be judged with several delta and rho."""
        with decimal.localcontext(CONTEXT):
            return Pair(self, kept, verbatim, apart)


def _columns(X: np.ndarray, y: np.ndarray | None) -> list[np.ndarray]:
    """The columns of X, then one target or several."""
    tables = [X] if y is None else [X, y.reshape(len(y), -1)]
    return [np.ascontiguousarray(table[:, j]) for table in tables for j in range(table.shape[1])]


class Pair:
    """All rows and the kept ones, in the same units, with coordinates in which both forms of the
    claim are well scaled.
    """

    def __init__(self, claim: Claim, kept: Side, verbatim, apart) -> None:
        self.claim, self.p, self.affine = claim, claim.p, claim.affine
        full = claim.side
        if verbatim is not None and np.any(verbatim):
            kept = kept.take(np.flatnonzero(~verbatim))
        else:
            apart = None
        self.kept, self.apart = kept, apart
        self.lows = [min(a, b) for a, b in zip(full.lows, kept.lows, strict=True)]
        self.low = min(full.low, kept.low)
        shift = np.array(
            [*([0] * claim.affine), *(a - b for a, b in zip(full.lows, self.lows, strict=True))],
            dtype=object,
        )
        self.M = claim.full << (shift[:, None] + shift[None, :] + (full.low - self.low))
        if apart is not None:
            self.M = self.M - full.take(apart).gram(self.lows, self.low, claim.affine)
        self.C = kept.gram(self.lows, self.low, claim.affine)
        self.E = self.C - self.M
        self.blind = self._columns()
        if len(self.used):
            self._coordinates()

    def _columns(self) -> bool:
        """Which columns vary; whether one that does not is not kept as it is: an error where
        nothing is allowed.
        """
        M, E, lead = self.M, self.E, int(self.affine)
        size = len(M)
        if self.affine:  # M_00 times the sum of squares about the mean
            self.square = [M[j, j] * M[0, 0] - M[0, j] ** 2 for j in range(size)]
        else:
            self.square = [M[j, j] for j in range(size)]
        flat = [j for j in range(lead, size) if self.square[j] == 0]
        self.used = [j for j in range(size) if j < lead or self.square[j] > 0]
        if self.affine and M[0, 0] == 0:
            self.used = []
            return any(v != 0 for v in E.ravel())
        if not self.affine:
            return any(E[j, k] != 0 for j in flat for k in range(size))
        # the column less its constant: its products with all others must vanish on the kept rows
        # too
        return any(
            self.C[j, k] * M[0, 0] != M[0, j] * self.C[0, k] for j in flat for k in range(size)
        )

    def _coordinates(self) -> None:
        used, lead = self.used, int(self.affine)
        M = decimals(self.M[np.ix_(used, used)])
        E = decimals(self.E[np.ix_(used, used)])
        size = len(used)
        self.mean = [ZERO] * size
        if self.affine:
            U = M[0, 0]
            self.mean = [M[0, j] / U for j in range(size)]
            move = np.array(
                [[Decimal(int(i == j)) for j in range(size)] for i in range(size)], dtype=object
            )
            for j in range(1, size):
                move[0, j] = -self.mean[j]
            # exact sums of squares about the mean: integers are subtracted before they are
            # rounded
            full = self.M[np.ix_(used, used)]
            centred = np.empty((size, size), dtype=object)
            for a in range(size):
                for b in range(size):
                    value = int(full[a, b] * full[0, 0] - full[0, a] * full[0, b])
                    centred[a, b] = CONTEXT.create_decimal(value) / U
            centred[0, 0] = U
            M, E = centred, self._moved(used, U)
        self.size = np.array([M[j, j].sqrt() for j in range(size)], dtype=object)
        self.G, self.Es = (part / self.size / self.size[:, None] for part in (M, E))
        self.T, d = factor(self.G)
        self.d = d.astype(float)
        self.Et = self.T.T.dot(self.Es).dot(self.T).astype(float)
        self.Tf = self.T.astype(float)
        self.free = np.ones(size)
        self.free[:lead] = 0.0
        self.norms = self._norms()

    def _moved(self, used, U) -> np.ndarray:
        """The difference about the means of all rows, as Decimals of exact integers."""
        full, C, size = self.M[np.ix_(used, used)], self.C[np.ix_(used, used)], len(used)
        made, square = np.empty((size, size), dtype=object), int(full[0, 0]) ** 2
        u, total = int(full[0, 0]), CONTEXT.create_decimal(square)
        for a in range(size):
            for b in range(size):
                if a == 0 or b == 0:
                    k = a + b  # sum w (d_k - m_k), all of it
                    value = (
                        u * (C[0, k] * u - full[0, k] * C[0, 0]) if k else square * (C[0, 0] - u)
                    )
                else:
                    value = (
                        square * C[a, b]
                        - u * (full[0, a] * C[0, b] + full[0, b] * C[0, a])
                        + full[0, a] * full[0, b] * C[0, 0]
                    )
                    value -= u * (u * full[a, b] - full[0, a] * full[0, b])
                made[a, b] = CONTEXT.create_decimal(int(value)) / total
        return made

    def _norms(self) -> np.ndarray:
        """U^(1/p) sigma_j of the used columns in units of ``size``, as Decimals; 0 for the
        constant.
        """
        lead = int(self.affine)
        if self.p == 2:
            return np.array([ZERO] * lead + [Decimal(1)] * (len(self.used) - lead), dtype=object)
        sums = [0] * len(self.used)
        total, first = (
            int(self.M[0, 0]) if self.affine else 1,
            [int(self.M[0, j]) if self.affine else 0 for j in self.used],
        )
        for u, columns in self._rows():
            for place, j in enumerate(self.used):
                if place >= lead:
                    moved = np.abs(columns[j] * total - first[place])
                    sums[place] += int(np.dot(u, moved**self.p))
        root = 1 / Decimal(self.p)
        return np.array(
            [
                ZERO if not s else (Decimal(s) ** root) / total / self.size[place]
                for place, s in enumerate(sums)
            ],
            dtype=object,
        )

    def _rows(self):
        """All rows but those apart, as integers in common units; kept as they are where there
        are few.
        """
        if not hasattr(self, "held"):
            side = self.claim.side
            if self.apart is not None:
                side = side.take(np.setdiff1d(np.arange(side.count), self.apart))
            if side.count > 4 * MANY:
                return side.blocks(self.lows, self.low, self.affine)
            self.held = list(side.blocks(self.lows, self.low, self.affine))
        return self.held

    # Queries

    def query(self, a: np.ndarray, digits: int) -> list[int]:
        """Coordinates as a query in integers of so many digits, one per column of the data and
        the constant.
        """
        scaled = self.T.dot(np.array([Decimal(float(v)) for v in a], dtype=object))
        return self.raw(scaled, digits)

    def sparse(self, a: np.ndarray, digits: int) -> list[list[int]]:
        """A query, and the same without columns of next to no share: the 1-norm of the claim likes
        few.
        """
        scaled = self.T.dot(np.array([Decimal(float(v)) for v in a], dtype=object))
        share = np.abs(scaled) * self.norms
        small = (share < Decimal("1e-4") * share.sum()) & (self.free > 0)
        found = [self.raw(scaled, digits)]
        return (
            [*found, self.raw(np.where(small, ZERO, scaled), digits)]
            if small.any() and not small.all()
            else found
        )

    def raw(self, scaled: np.ndarray, digits: int) -> list[int]:
        """Coefficients of centred columns in units of their size, as coefficients of the raw
        columns.
        """
        z = scaled / self.size
        if self.affine:
            z[0] = z[0] - sum((z[j] * self.mean[j] for j in range(1, len(z))), ZERO)
        top = max((abs(v) for v in scaled), default=ZERO)
        if not top:
            return [0] * len(self.M)
        places = digits - top.adjusted() + max(s.adjusted() for s in self.size)
        whole = [int(v.scaleb(places)) for v in z]
        found = [0] * len(self.M)
        for place, j in enumerate(self.used):
            found[j] = whole[place]
        return found

    def losses(self, z: list[int]) -> tuple[int, int]:
        """f and f_c - f at a query of integers: exact."""
        if self.p == 2:
            q = np.array(z, dtype=object)
            return int(q.dot(self.M).dot(q)), int(q.dot(self.E).dot(q))
        there = [j for j, v in enumerate(z) if v]
        value, own = 0, 0
        for total, source in (
            (0, self._rows()),
            (1, self.kept.blocks(self.lows, self.low, self.affine)),
        ):
            part = 0
            for u, columns in source:
                form = sum(columns[j] * z[j] for j in there)
                part += int(np.dot(u, form**self.p)) if len(u) else 0
            value, own = (value, part) if total else (part, own)
        return value, own - value

    def ratio(self, z: list[int], delta: Decimal, rho: Decimal) -> Worst:
        """The claim at one query: f and f_c exact, roots of 160 digits."""
        f, error = self.losses(z)
        reach = ZERO  # U^(1/p) S
        for place, j in enumerate(self.used):
            if self.norms[place] and z[j]:
                reach += abs(Decimal(z[j])) * self.norms[place] * self.size[place]
        value, change = CONTEXT.create_decimal(f), abs(CONTEXT.create_decimal(error))
        if self.p == 2:
            allowed = delta * value + 2 * rho * reach * value.sqrt() + (rho * reach) ** 2
        else:
            root = value ** (1 / Decimal(self.p)) if f else ZERO
            allowed = delta * value + ((root + rho * reach) ** self.p - root**self.p)
        if not change:
            return Worst(0.0)
        if not allowed:
            return Worst(np.inf, np.inf, 0.0, z)
        share = (float(v / value) if f else np.inf for v in (change, allowed))
        return Worst(float(change / allowed), *share, z)

    def worst(self, delta: Decimal, rho: Decimal, queries: list | None = None) -> Worst:
        with decimal.localcontext(CONTEXT):
            if self.blind:
                return Worst(np.inf, np.inf)
            if not len(self.used):
                return Worst(0.0)
            delta, rho = Decimal(delta), Decimal(rho)
            found = self.climb(float(delta), float(rho))
            digits = 110
            if self.p > 2:
                better, digits = Ascent(self, float(delta), float(rho)).best(found), 45
                # doubles may not hold such queries
                found = [a for a in better if np.isfinite(a).all()] or found
            best = Worst(0.0)
            some = [q for a in found for q in self.sparse(a, digits)]
            some += [
                self.raw(np.array([Decimal(float(v)) for v in q], dtype=object), digits)
                for q in queries or []
            ]
            if self.affine:
                some.append([1, *([0] * (len(self.M) - 1))])
            for z in some:
                seen = self.ratio(z, delta, rho)
                if seen.ratio > best.ratio:
                    best = seen
            return best

    # The climb

    def allowance(
        self, A: np.ndarray, delta: float, rho: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """In doubles, for coordinates as columns of A: f, S and delta f + P, of the second
        moments.
        """
        f, z = self.d @ A**2, self.free[:, None] * np.abs(self.Tf @ A)
        S = z.sum(axis=0)
        return f, S, delta * f + 2 * rho * S * np.sqrt(f) + (rho * S) ** 2

    def climb(self, delta: float, rho: float) -> list[np.ndarray]:
        """Coordinates of bad queries, the worst first."""
        size, lead = len(self.used), int(self.affine)
        even = np.where(self.free > 0, 1.0 / max(1, size - lead), 1.0)
        starts = [a for t in GRID for a in self._top(delta, rho, t, even, every=True)]
        starts += [np.eye(size)[k] for k in range(size)]
        pairs = [(i, j) for i in range(lead, size) for j in range(lead, i)][:60]
        inverse = (
            self._into(
                np.array(
                    [[(k == i) - (k == j) for i, j in pairs] for k in range(size)], dtype=float
                )
            )
            if pairs
            else []
        )
        starts += list(np.asarray(inverse).T)
        A = _unit(np.array(starts).T)
        order = np.argsort(-self._values(A, delta, rho))
        best, seen = [], []
        for k in order:
            if len(best) == CLIMBS:
                break
            a = A[:, k]
            if any(abs(a @ b) > 1 - 1e-9 for b in seen):
                continue
            seen.append(a)
            value = self._values(a[:, None], delta, rho)[0]
            for _ in range(STEPS):
                f, S, _all = (v[0] for v in self.allowance(a[:, None], delta, rho))
                t = rho * S / np.sqrt(f) if f > 0 else 1e12
                z = self.free * np.abs(self.Tf @ a)
                share = np.where(self.free > 0, np.maximum(z / S, LEAST) if S > 0 else even, 1.0)
                ups = self._top(delta, rho, float(np.clip(t, 1e-25, 1e20)), share)
                values = self._values(_unit(np.array(ups).T), delta, rho)
                if not len(ups) or not values.max() > value * (1 + 1e-5):
                    break
                a, value = _unit(np.array(ups).T)[:, values.argmax()], values.max()
            best.append((value, a))
        best.sort(key=lambda pair: -pair[0])
        return [a for _, a in best[:JUDGED]]

    def _into(self, Z: np.ndarray) -> np.ndarray:
        """Coordinates of scaled coefficients: T a = z."""
        return _solved(self.Tf, Z)

    def _values(self, A: np.ndarray, delta: float, rho: float) -> np.ndarray:
        allowed = self.allowance(A, delta, rho)[2]
        change = np.abs((A * (self.Et @ A)).sum(axis=0))
        return np.divide(change, allowed, out=np.zeros(len(change)), where=allowed > 0)

    def _top(
        self, delta: float, rho: float, t: float, share: np.ndarray, every: bool = False
    ) -> list[np.ndarray]:
        """Eigenvectors of the difference relative to the form of t and shares: both ends of the
        spectrum.
        """
        form = rho**2 * (1 + 1 / t) * (self.Tf.T * (self.free / share)) @ self.Tf
        B = (delta + t) * np.diag(self.d) + form
        q = np.sqrt(np.maximum(np.diag(B), 1e-300))
        try:
            _, vectors = sla.eigh(self.Et / np.outer(q, q), B / np.outer(q, q), check_finite=False)
        except (np.linalg.LinAlgError, ValueError):
            return [] if every else [np.eye(len(q))[0]]
        chosen = range(len(q)) if every and len(q) <= 8 else sorted({0, len(q) - 1})
        return [
            v for v in ((vectors[:, k] / q) for k in chosen) if np.isfinite(v).all() and v.any()
        ]


class Ascent:
    """Powers above 2: ascent of the ratio from many starts, in doubles; coefficients of the
    difference have 64 bits.
    """

    def __init__(self, pair: Pair, delta: float, rho: float) -> None:
        self.pair, self.delta, self.rho, self.p = pair, delta, rho, pair.p
        size = len(pair.used)
        # coordinates of size 1
        self.scale = np.where(pair.d > 1e-38, 1 / np.sqrt(np.maximum(pair.d, 1e-38)), 1e19)
        maps = pair.T * np.array([Decimal(float(s)) for s in self.scale], dtype=object)
        self.maps = [pair.raw(maps[:, k].copy(), 60) for k in range(size)]
        unit = self._unit(maps)
        white, u = self._turned(pair._rows(), unit)
        own, w = self._turned(pair.kept.blocks(pair.lows, pair.low, pair.affine), unit)
        self.own = own
        total = u.sum()
        self.rows, self.share = np.asarray(white, dtype=float), np.asarray(u / total, dtype=float)
        self.powers = exponents(size, self.p, self.p)
        count = np.array([multinomial(t) for t in self.powers], dtype=wide)
        change = (monomials(own, self.powers) * (w / total)).sum(axis=1) - self._moments(
            white, u / total
        )
        self.change = np.asarray(count * change, dtype=float)
        self.norms = (
            pair.norms
            * CONTEXT.create_decimal(self.units) ** (Decimal("0.5") - 1 / Decimal(self.p))
        ).astype(float)
        self.T = pair.Tf * self.scale
        self._level()

    def _level(self) -> None:
        """Coordinates in units in which the claim allows each of them about the same: ascent likes
        that.
        """
        _, f, z, _ = self.parts(np.eye(len(self.scale)))
        allowed = self.allowed(f, self.norms @ np.abs(z)) + 1e-16 * f
        allowed = np.maximum(allowed, 1e-60 * allowed.max())
        q = (allowed / allowed.min()) ** (1 / self.p)
        self.scale, self.rows, self.T = self.scale / q, self.rows / q[:, None], self.T / q
        self.change = self.change / np.prod(q**self.powers, axis=1)

    def _moments(self, white: np.ndarray, u: np.ndarray) -> np.ndarray:
        found = 0
        for a in range(0, white.shape[1], 2**15):
            some = slice(a, a + 2**15)
            found = found + (monomials(white[:, some], self.powers) * u[some]).sum(axis=1)
        return found

    def _unit(self, maps: np.ndarray) -> list[Decimal]:
        """What one unit of a coordinate is, in the integers of ``maps``."""
        found = []
        for k, raw in enumerate(self.maps):
            j = max(
                range(len(maps)),
                key=lambda i: abs(maps[i, k] if i or not self.pair.affine else ZERO),
            )
            if self.pair.affine and j == 0:
                found.append(Decimal(raw[0]) / (maps[0, k] / self.pair.size[0]))
                continue
            found.append(Decimal(raw[self.pair.used[j]]) / (maps[j, k] / self.pair.size[j]))
        return found

    def _turned(self, blocks, unit: list[Decimal]) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of rows, extended: from exact integers; and weights."""
        rows, weights = [], []
        self.units = getattr(self, "units", int(self.pair.M[0, 0]) if self.pair.affine else None)
        for u, columns in blocks:
            rows.append(
                [[columns[j] * raw[j] for j in range(len(raw)) if raw[j]] for raw in self.maps]
            )
            weights.append(u)
        if self.units is None:
            self.units = sum(int(u.sum()) for u in weights)
        root = CONTEXT.create_decimal(self.units).sqrt()
        made = []
        for k in range(len(self.maps)):
            whole = [
                sum(block[k]) if block[k] else np.full(len(u), 0, dtype=object)
                for block, u in zip(rows, weights, strict=True)
            ]
            made.append(_extended(np.concatenate(whole), unit[k] / root))
        return np.array(made), _extended(np.concatenate(weights), Decimal(self.units))

    def parts(self, A: np.ndarray) -> tuple[np.ndarray, ...]:
        """For coordinates as columns: form of every row, f, reach, the difference."""
        form = A.T @ self.rows
        f = np.abs(form) ** self.p @ self.share
        z = self.T @ A
        return form, f, z, self.change @ monomials(A, self.powers)

    def value(self, A: np.ndarray) -> np.ndarray:
        _, f, z, change = self.parts(A)
        return np.abs(change) / np.maximum(self.allowed(f, self.norms @ np.abs(z)), 1e-300)

    def allowed(self, f, reach):
        root, x = f ** (1 / self.p), self.rho * reach
        # (root + x)^p - root^p without cancellation
        total = 0.0
        for k in range(1, self.p + 1):
            total = total + _choose(self.p, k) * root ** (self.p - k) * x**k
        return self.delta * f + total

    def goal(self, a: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the logarithm of the ratio, and its gradient."""
        p = self.p
        form, z = a @ self.rows, self.T @ a
        ladder = np.concatenate(
            [np.ones((len(a), 1)), np.cumprod(np.repeat(a[:, None], p, axis=1), axis=1)], axis=1
        )
        factors = ladder[np.arange(len(a)), self.powers]
        f, change = float(form**p @ self.share), float(self.change @ factors.prod(axis=1))
        reach = float(self.norms @ np.abs(z))
        if not f > 0 or not change:
            return 0.0, np.zeros(len(a))
        down = p * (self.rows @ (self.share * form ** (p - 1)))
        side = self.T.T @ (self.norms * np.sign(z))
        root, x = f ** (1 / p), self.rho * reach
        total, by_root, by_x = 0.0, 0.0, 0.0
        for k in range(1, p + 1):
            c = _choose(p, k)
            total += c * root ** (p - k) * x**k
            by_root += c * (p - k) * root ** (p - k - 1) * x**k if k < p else 0.0
            by_x += c * k * root ** (p - k) * x ** (k - 1)
        allowed = self.delta * f + total
        slope = self.delta * down + by_root * root / (p * f) * down + by_x * self.rho * side
        up = np.empty(len(a))
        for k in range(len(a)):
            other = factors.copy()
            other[:, k] = self.powers[:, k] * ladder[k, np.maximum(self.powers[:, k] - 1, 0)]
            up[k] = self.change @ other.prod(axis=1)
        return float(np.log(allowed) - np.log(abs(change))), slope / allowed - up / change

    def best(self, found: list[np.ndarray]) -> list[np.ndarray]:
        """The worst queries, in the coordinates of the pair."""
        size, rng = len(self.scale), np.random.default_rng(0)
        lead = int(self.pair.affine)
        starts = [a / self.scale for a in found] + list(np.eye(size))
        starts += list(rng.standard_normal((60, size))) + list(
            rng.standard_normal((60, size)) * 10.0 ** rng.uniform(-6, 6, (60, size))
        )
        sparse = [np.eye(size)[j] for j in range(size)]
        for i in range(lead, size):
            for j in range(lead, i):
                sparse += [np.eye(size)[i] - np.eye(size)[j], np.eye(size)[i] + np.eye(size)[j]]
        starts += list(_solved(self.T, np.array(sparse[:80]).T).T)
        usable = [s for s in starts if np.isfinite(s).all() and s.any()]
        if not usable:
            return []
        A = _unit(np.array(usable).T)
        order = np.argsort(-self.value(A))
        few = self.rows.shape[1] > MANY
        ends = []
        for k in order[: 3 if few else 12]:
            ends += [A[:, k], self.ascend(A[:, k], np.eye(size), 15 if few else 60)]
            z = self.T @ ends[-1]
            small = self.norms * np.abs(z) < 1e-3 * (self.norms @ np.abs(z))
            small[:lead] = False
            if small.any():
                ends.append(_solved(self.T, np.where(small, 0.0, z)))
        if not few:
            ends += self._without(_sorted(self, ends)[:3], lead)
        return [a * self.scale for a in _sorted(self, ends)[: 2 if few else JUDGED]]

    def ascend(self, a: np.ndarray, within: np.ndarray, steps: int = 60) -> np.ndarray:
        """A local maximum of the ratio within a subspace, given by an orthonormal basis."""

        def goal(b: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self.goal(within @ b)
            return value, within.T @ slope

        end = (
            within
            @ minimize(
                goal, within.T @ a, jac=True, method="L-BFGS-B", options={"maxiter": steps}
            ).x
        )
        return end / max(np.abs(end).max(), 1e-300)

    def _without(self, starts: list[np.ndarray], lead: int) -> list[np.ndarray]:
        """The same with columns left out one after the other: the 1-norm of the claim has its kinks
        there.
        """
        found, out = [], []
        if not np.isfinite(self.T).all():  # queries beyond the range of doubles
            return found
        size = len(self.scale)
        best = self.value(starts[0][:, None])[0] if starts else 0.0
        for _ in range(size - lead - 1):
            ends = {}
            for j in set(range(lead, size)) - set(out):
                left = self.T[[*out, j]]
                within = sla.null_space(
                    left / np.maximum(np.abs(left).max(axis=1, keepdims=True), 1e-300)
                )
                tries = [
                    self.ascend(a, within, 30)
                    for a in starts
                    if np.abs(within.T @ a).max(initial=0) > 0
                ]
                if best_first := _sorted(self, tries):
                    ends[j] = best_first[0]
            if not ends:
                break
            top = max(ends, key=lambda j: self.value(ends[j][:, None])[0])
            found += list(ends.values())
            value = self.value(ends[top][:, None])[0]
            if not value > best * 0.5:
                break
            best, starts = max(best, value), [ends[top]]
            out.append(top)
        return found


def _sorted(ascent: Ascent, ends: list[np.ndarray]) -> list[np.ndarray]:
    usable = [e for e in ends if np.isfinite(e).all() and e.any()]
    if not usable:  # nothing is claimed of the rows that are left
        return []
    A = _unit(np.array(usable).T)
    return [A[:, k] for k in np.argsort(-ascent.value(A))] if A.size else []


def _choose(p: int, k: int) -> float:
    from math import comb

    return float(comb(p, k))


def _unit(A: np.ndarray) -> np.ndarray:
    A = A.reshape(len(A), -1)
    top = np.abs(A).max(axis=0)
    good = np.isfinite(top) & (top > 0)
    return A[:, good] / top[good]


def _solved(T: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Coordinates of scaled coefficients; of columns in units that are far apart, approximately."""
    rows = np.abs(T).max(axis=1)
    rows = np.where(rows > 0, rows, 1.0)
    scaled = T / rows[:, None]
    columns = np.abs(scaled).max(axis=0)
    columns = np.where(columns > 0, columns, 1.0)
    right = (Z.T / rows).T
    try:
        found = np.linalg.solve(scaled / columns, right)
    except np.linalg.LinAlgError:
        found = np.linalg.lstsq(scaled / columns, right, rcond=None)[0]
    return (found.T / columns).T


def _extended(whole: np.ndarray, unit: Decimal) -> np.ndarray:
    """Integers over a unit, with 64 bits."""
    inverse = 1 / unit
    shift = int(inverse.logb() * Decimal("3.3219280948873623")) - 80  # inverse = scale 2^shift
    scale = int(inverse * Decimal(2) ** -shift)
    high = np.empty(len(whole), dtype=wide)
    for i, v in enumerate(whole):
        number = int(v)
        cut = max(0, number.bit_length() - 90)
        number = (number >> cut) * scale
        first = float(number)
        high[i] = np.ldexp(wide(first) + wide(float(number - int(first))), cut + shift)
    return high
