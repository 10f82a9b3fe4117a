"""Class P: powers of one affine form (LeastSquares, Ridge, LpRegression), in extended precision.

A query is a vector z over the columns of D = [1, x - mean, y - mean] with an intercept, [x, y]
without, each column divided by its root mean square; the loss is ``sum_i u_i (d_i . z)^p``, and

    R(q) = p * sum_i u_i |d_i . z|^(p-1) sum_j |z_j d_ij|.

Queries: coordinates (also of the raw columns), random ones, singular directions of D, each column's
best prediction from the others (the least-squares residual is the last), their neighbours,
directions that vanish on kept rows, generalised eigenvectors of the difference of the two Gram
matrices within ever more singular directions, and a random search.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg as sla

from .arithmetic import OWN, centre, columns, dense, exponents, monomials, multinomial, power, wide

NEVER = wide("1e-4000")
MANY = 20_000  # rows
NULL = 2e-15  # relative singular value of scaled columns that is rounding


class Power:
    """The full data's side of the claim, for one target; several targets are judged one after the
    other.
    """

    def __init__(
        self, table, u: np.ndarray, p: int, affine: bool, alpha: float = 0.0, seed: int = 0
    ) -> None:
        self.u, self.p, self.affine, self.alpha = u, p, affine, wide(alpha)
        self.total = u.sum()
        cols = columns(table)
        self.shift = centre(cols, u) if affine else np.zeros(len(cols), dtype=wide)
        self.size = np.ones(len(cols), dtype=wide)
        self.D = self._base(table)
        rows = self.D[int(affine) :]
        size = np.sqrt((rows * rows * (u / self.total)).sum(axis=1))
        self.size = np.where(size > 0, size, wide(1))
        self.D = self._base(table)
        self.rng = np.random.default_rng(seed)
        keep = u > 0
        thin = (np.sqrt(u[keep] / self.total) * self.D[:, keep]).T.astype(float)
        if len(thin) > thin.shape[1]:
            thin = sla.qr(thin, mode="r", check_finite=False)[0][: thin.shape[1]]
        full = np.vstack([thin, np.zeros((max(0, thin.shape[1] - len(thin)), thin.shape[1]))])
        _, self.s, vt = sla.svd(full, full_matrices=False, check_finite=False)
        self.v = vt.T
        self.fixed = _unit(np.array(self._fixed()).T)
        self.value, self.rounding = self._losses(self.fixed)

    def _base(self, table) -> np.ndarray:
        moved = (columns(table) - self.shift[:, None]) / self.size[:, None]
        return (
            np.vstack([np.ones((1, moved.shape[1]), dtype=wide), moved]) if self.affine else moved
        )

    def _fixed(self) -> list[np.ndarray]:
        r, rng = len(self.D), self.rng
        found = [*np.eye(r).astype(wide), *self.v.T]
        # raw coordinates: a column without its mean is the raw column and an intercept
        if self.affine:
            for j in range(1, r):
                z = np.zeros(r, dtype=wide)
                z[j], z[0] = self.size[j - 1], self.shift[j - 1]
                found.append(z)
        raw = np.concatenate([np.ones(int(self.affine)), self.size])
        few = self.D.shape[1] > 50_000
        for _ in range(2 if few else 8):
            found += [
                rng.standard_normal(r),
                rng.standard_normal(r) * 10.0 ** rng.uniform(-6, 6, r),
            ]
            found.append(rng.standard_normal(r) * raw)
        for z in self.predictions():
            found.append(z)
            for step in () if few else (1e-9, 1e-6, 1e-3):
                found += [
                    z * (1 + step * rng.standard_normal(r)),
                    z + step * np.abs(z).max() * rng.standard_normal(r),
                ]
        for a in range(int(self.affine), r):
            for b in range(int(self.affine), a):
                z = np.zeros(r, dtype=wide)
                z[[a, b]] = raw[a], -raw[b]
                found += [z, np.sign(z)]
        return [np.asarray(z, dtype=wide) for z in found]

    def predictions(self) -> list[np.ndarray]:
        """Each column less its best prediction from the others, if that is well defined."""
        keep = self.s > NULL * self.s[0]
        inverse = (self.v[:, keep] / self.s[keep] ** 2) @ self.v[:, keep].T
        return [inverse[:, j] / inverse[j, j] for j in range(len(inverse)) if inverse[j, j] > 0]

    def _losses(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f(z) and R(z), the regulariser included in f."""
        value, rounding = np.zeros(Z.shape[1], dtype=wide), np.zeros(Z.shape[1], dtype=wide)
        size = np.abs(self.D)
        for q in range(Z.shape[1]):
            form = (self.D * Z[:, q][:, None]).sum(axis=0)
            below = power(np.abs(form), self.p - 1) * self.u
            value[q] = (below * np.abs(form)).sum()
            rounding[q] = self.p * (below * (size * np.abs(Z[:, q])[:, None]).sum(axis=0)).sum()
        return value + self.penalty(Z), rounding

    def coefficients(self, Z: np.ndarray) -> np.ndarray:
        """Raw coefficients: columns of z in units of the data; the last is that of the target."""
        return Z[int(self.affine) :] / self.size[:, None]

    def penalty(self, Z: np.ndarray) -> np.ndarray:
        return (
            self.alpha * power(np.abs(self.coefficients(Z)[:-1]), self.p).sum(axis=0)
            if self.alpha
            else wide(0)
        )

    def kept(self, table) -> np.ndarray:
        return self._base(table)

    def kept_loss(
        self, base: np.ndarray, w: np.ndarray, Z: np.ndarray, correction=None
    ) -> np.ndarray:
        forms = np.array([(base * z[:, None]).sum(axis=0) for z in Z.T]).reshape(Z.shape[1], -1)
        return (
            (power(forms, self.p) * w).sum(axis=1) + self.penalty(Z) + self.carried(correction, Z)
        )

    def carried(self, correction, Z: np.ndarray) -> np.ndarray:
        """What the stored correction says, at raw coefficients."""
        if correction is None:
            return np.zeros(Z.shape[1], dtype=wide)
        raw = self.coefficients(Z)
        first, second = (np.asarray(part) for part in correction)
        if self.p == 2:
            G, b = first.astype(wide), second.astype(wide)
            w = raw[:-1]
            return (w * (G[:, :, None] * w[None]).sum(axis=1)).sum(axis=0) + 2 * raw[-1] * (
                b[:, None] * w
            ).sum(axis=0)
        value = np.zeros(Z.shape[1], dtype=wide)
        for chosen, delta in zip(first, second, strict=True):
            counts = np.bincount(chosen, minlength=len(raw))
            value = value + wide(multinomial(counts)) * wide(delta) * np.prod(raw[chosen], axis=0)
        return value

    def error(
        self, base: np.ndarray, w: np.ndarray, rounding: float, correction=None
    ) -> tuple[float, str]:
        """The least loss_error that would make the claim true at every query tried, and where it is
        needed.
        """
        ratio = self._ratio(self.fixed, self.value, self.rounding, base, w, rounding, correction)
        worst, where = float(ratio.max(initial=0)), f"query {ratio.argmax()}"
        seen = [(self.fixed, ratio)]
        for name, make in (
            ("eigenvector", lambda: self._eigen(base, w, correction)),
            ("null", lambda: self._blind(base, w)),
            ("search", lambda: self._search(base, w, rounding, correction, seen)),
        ):
            own = _unit(np.array(make(), dtype=wide).reshape(-1, len(self.D)).T)
            if own.shape[1]:
                more = self._ratio(own, *self._losses(own), base, w, rounding, correction)
                seen.append((own, more))
                if more.max() > worst:
                    worst, where = float(more.max()), f"{name} {more.argmax()}"
        return worst, where

    def _ratio(self, Z, value, size, base, w, rounding, correction) -> np.ndarray:
        difference = np.abs(self.kept_loss(base, w, Z, correction) - value)
        excess = difference - (wide(rounding) + wide(OWN)) * size - wide(OWN) * value
        return np.where(excess > 0, excess / np.maximum(value, NEVER), wide(0)).astype(float)

    def _eigen(self, base: np.ndarray, w: np.ndarray, correction=None) -> list[np.ndarray]:
        """Generalised eigenvectors of the difference, within the first k singular directions, for
        every k.
        """
        count = int((self.s > 1e-17 * self.s[0]).sum())
        A = (self.v[:, :count] / self.s[:count]).astype(wide)
        M, C = _gram(A.T @ self.D, self.u / self.total), _gram(A.T @ base, w / self.total)
        if self.alpha and self.p == 2:
            raw = self.coefficients(A)
            M, C = (part + self.alpha / self.total * (raw[:-1].T @ raw[:-1]) for part in (M, C))
            if correction is not None:
                G, b = (np.asarray(part).astype(wide) / self.total for part in correction)
                cross = np.outer(raw[:-1].T @ b, raw[-1])
                C = C + raw[:-1].T @ G @ raw[:-1] + cross + cross.T
        found = []
        for k in range(1, count + 1):
            scale = np.sqrt(np.diag(M)[:k])
            E, B = ((part[:k, :k] / np.outer(scale, scale)).astype(float) for part in (C - M, M))
            try:
                vectors = sla.eigh(E, B)[1]
            except np.linalg.LinAlgError:
                vectors = sla.eigh(E)[1]
            found += [A[:, :k] @ (vectors[:, column] / scale) for column in sorted({0, k - 1})]
        return found

    def _blind(self, base: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
        """Directions that vanish, or almost, on kept rows: on all of them, and on as many as
        possible.
        """
        r = len(self.D)
        scaled = (np.sqrt(w / self.total) * base).T.astype(float)
        full = np.vstack([scaled, np.zeros((max(0, r - len(scaled)), r))])
        found = list(sla.svd(full, full_matrices=False)[2])
        if r > 1 and len(scaled) >= r - 1:
            for _ in range(6 if self.p == 2 else 20):
                rows = self.rng.choice(len(scaled), r - 1, replace=False)
                some = base[:, rows].T.astype(float)
                length = np.abs(some).max(axis=1, keepdims=True)
                found.append(
                    sla.svd(np.vstack([some / np.maximum(length, 1e-300), np.zeros((1, r))]))[2][-1]
                )
        return [z.astype(wide) for z in found]

    def _search(
        self, base: np.ndarray, w: np.ndarray, rounding: float, correction, seen
    ) -> list[np.ndarray]:
        """A random search in whitened coordinates, by doubles, narrowed around the worst; they are
        judged later.
        """
        # eigenvectors have found what there is, but for the part of R(q)
        if self.p == 2 and self.D.shape[1] > MANY:
            return []
        keep = self.s > 1e-15 * self.s[0]
        A = (self.v[:, keep] / self.s[keep]).astype(wide)
        white, own = A.T @ self.D, A.T @ base
        powers = exponents(int(keep.sum()), self.p, self.p)
        scale = np.array([multinomial(t) for t in powers], dtype=wide)
        rho = scale * (
            (monomials(own, powers) * (w / self.total)).sum(axis=1)
            - (monomials(white, powers) * (self.u / self.total)).sum(axis=1)
        )
        step = max(1, self.D.shape[1] // 4000)  # a sample of the rows will do for the search
        plain, D = white[:, ::step].astype(float), np.abs(self.D[:, ::step]).astype(float)
        share = (self.u[::step] / self.u[::step].sum()).astype(float)

        def value(V: np.ndarray) -> np.ndarray:
            Z = A @ V.astype(wide)
            forms = np.abs(V.T @ plain)
            size = forms**self.p @ share + (
                self.penalty(Z) / self.total + np.zeros(V.shape[1])
            ).astype(float)
            bound = self.p * (forms ** (self.p - 1) * (np.abs(Z.astype(float)).T @ D)) @ share
            change = np.abs(
                (rho[:, None] * monomials(V.astype(wide), powers)).sum(axis=0)
                + self.carried(correction, Z) / self.total
            )
            return (change.astype(float) - rounding * bound) / np.maximum(size, 1e-300)

        r, rng = A.shape[1], self.rng
        V = np.column_stack(
            [
                np.eye(r),
                rng.standard_normal((r, 150)),
                rng.standard_normal((r, 150)) * 10.0 ** rng.uniform(-8, 8, (r, 150)),
            ]
        )
        queries, ratios = (
            np.column_stack([q for q, _ in seen]),
            np.concatenate([found for _, found in seen]),
        )
        known = (self.v[:, keep] * self.s[keep]).T @ queries[:, np.argsort(-ratios)[:20]].astype(
            float
        )
        V = np.column_stack([V, known[:, np.abs(known).max(axis=0) > 0]])
        V = V / np.abs(V).max(axis=0)
        ratio = value(V)
        for length in (0.5, 0.2, 0.1, 0.03, 0.01, 1e-3):
            best = V[:, np.argsort(-ratio)[:10]]
            near = np.repeat(best, 12, axis=1)
            near = near + length * np.where(
                rng.random(near.shape) < 0.5, np.abs(near).max(axis=0), np.abs(near)
            ) * rng.standard_normal(near.shape)
            V = np.column_stack([best, near / np.abs(near).max(axis=0)])
            ratio = value(V)
        return list((A @ V[:, np.argsort(-ratio)[:10]].astype(wide)).T)

    def evaluable(self, table) -> bool:
        """Whether plain double precision evaluates the whitened Gram matrix to 1e-8, powers
        included.
        """
        keep = self.s > NULL * self.s[0]
        A = self.v[:, keep] / self.s[keep]
        moved = (
            np.ascontiguousarray(dense(table).T).astype(float) - self.shift.astype(float)[:, None]
        ) / self.size[:, None]
        moved = (
            np.vstack([np.ones((1, moved.shape[1])), moved.astype(float)])
            if self.affine
            else moved.astype(float)
        )
        share = (self.u / self.total).astype(float)
        plain, exact = A.T @ moved, A.T.astype(wide) @ self.D
        G = (plain * share) @ plain.T
        M = _gram(exact, self.u / self.total)
        return bool(
            np.isfinite(G).all() and np.abs(G - M.astype(float)).max(initial=0.0) <= 1e-8 / self.p
        )


def _unit(Z: np.ndarray) -> np.ndarray:
    size = np.abs(Z).max(axis=0)
    good = np.isfinite(size) & (size > 0)
    return Z[:, good] / size[good]


def _gram(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    heavy = rows * weights
    found = np.empty((len(rows), len(rows)), dtype=wide)
    for a in range(len(rows)):
        for b in range(a + 1):
            found[a, b] = found[b, a] = (heavy[a] * rows[b]).sum()
    return found
