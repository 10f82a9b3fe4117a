"""An oracle for small panels: every effect is a column of indicators, in long double.

Columns are made orthogonal one after the other (Gram-Schmidt, twice); a column of which nothing is
left depends on those before it.  No sums per level, no iteration, nothing of the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
NOTHING_LEFT = 1e-10  # of the norm of a column


def without_singletons(factors: Sequence[Array]) -> Array:
    """Which rows are left when levels with one row are removed, again and again."""
    kept = np.ones(len(factors[0]), dtype=bool)
    while True:
        before = kept.sum()
        for codes in factors:
            counts = np.bincount(codes[kept], minlength=int(codes.max()) + 1)
            kept &= counts[codes] > 1
        if kept.sum() == before:
            return kept


def indicators(codes: Array) -> Array:
    """A column per level that occurs."""
    return (codes[:, None] == np.unique(codes)).astype(np.longdouble)


def orthonormal(columns: Array) -> Array:
    """An orthonormal basis of what columns span."""
    basis = np.empty((len(columns), 0), dtype=np.longdouble)
    for column in columns.T:
        left = column - basis @ (basis.T @ column)
        left = left - basis @ (basis.T @ left)
        norm = np.sqrt(left @ left)
        if norm > NOTHING_LEFT * np.sqrt(column @ column):
            basis = np.column_stack([basis, left / norm])
    return basis


def inverse(matrix: Array) -> Array:
    """Of a small matrix that is positive definite, by Gauss and Jordan, in long double."""
    k = len(matrix)
    both = np.column_stack([matrix, np.eye(k, dtype=np.longdouble)])
    for j in range(k):
        both[j] = both[j] / both[j, j]
        for i in set(range(k)) - {j}:
            both[i] = both[i] - both[i, j] * both[j]
    return both[:, k:]


@dataclass
class Dummies:
    """The regression of y on x and the indicators of all levels."""

    x: Array
    y: Array
    factors: Sequence[Array]
    weights: Array | None = None

    def __post_init__(self) -> None:
        kept = self.kept = without_singletons(self.factors)
        self.factors = [codes[kept] for codes in self.factors]
        self.n = int(kept.sum())
        w = np.ones(self.n) if self.weights is None else self.weights[kept]
        self.root = root = np.sqrt(w.astype(np.longdouble))
        D = np.column_stack([indicators(codes) for codes in self.factors])
        self.basis = basis = orthonormal(D * root[:, None])
        self.rank = basis.shape[1]
        z = np.column_stack([self.x[kept], self.y[kept]]).astype(np.longdouble) * root[:, None]
        self.z, within = z, z - basis @ (basis.T @ z)
        self.within = within = within - basis @ (basis.T @ within)
        self.x_within, self.y_within = within[:, :-1], within[:, -1]
        self.bread = inverse(self.x_within.T @ self.x_within)
        self.params = self.bread @ (self.x_within.T @ self.y_within)
        self.residuals = self.y_within - self.x_within @ self.params
        self.scores = self.x_within * self.residuals[:, None]

    def levels(self) -> list[int]:
        return [len(np.unique(codes)) for codes in self.factors]

    def counted(self, clusters: Sequence[Array] = ()) -> int:
        """The parameters of the effects as fixest counts them: those of factors that are nested in
        clusters count as one in all.
        """
        inside = [any(is_nested(codes, given) for given in clusters) for codes in self.factors]
        levels = self.levels()
        return (
            sum(levels)
            - (len(levels) - 1)
            - sum(count - 1 for count, nested in zip(levels, inside, strict=True) if nested)
        )

    def classical(self) -> Array:
        k = len(self.params)
        return self.bread * (self.residuals @ self.residuals) / (self.n - k - self.counted())

    def hc1(self) -> Array:
        k = len(self.params)
        factor = self.n / np.longdouble(self.n - k - self.counted())
        return factor * self.bread @ (self.scores.T @ self.scores) @ self.bread

    def clustered(self, *ways: Array) -> Array:
        """In one way or two, with the factors of fixest and pyfixest, before any correction of
        negative variances.
        """
        ways = tuple(np.unique(given[self.kept], return_inverse=True)[1] for given in ways)
        k, groups = len(self.params), min(int(given.max()) + 1 for given in ways)
        factor = np.longdouble(groups) / (groups - 1)
        factor *= np.longdouble(self.n - 1) / (self.n - k - self.counted(ways))
        meat = sum(self.meat(given) for given in ways)
        if len(ways) == 2:
            meat = meat - self.meat(ways[0] * (int(ways[1].max()) + 1) + ways[1])
        return factor * self.bread @ meat @ self.bread

    def meat(self, labels: Array) -> Array:
        sums = indicators(labels).T @ self.scores
        return sums.T @ sums

    def leverages(self) -> Array:
        """Of the effects and the regressors."""
        effects = np.sum(self.basis**2, axis=1)
        return effects + np.sum((self.x_within @ self.bread) * self.x_within, axis=1)

    def r2_within(self) -> float:
        return float(1 - self.residuals @ self.residuals / (self.y_within @ self.y_within))

    def r2(self) -> float:
        y = self.z[:, -1]
        centred = y - self.root * (self.root @ y) / (self.root @ self.root)
        return float(1 - self.residuals @ self.residuals / (centred @ centred))


def is_nested(codes: Array, clusters: Array) -> bool:
    """Whether every level lies in one cluster."""
    pairs = np.unique(codes * (int(clusters.max()) + 1) + clusters)
    return len(pairs) == len(np.unique(codes))
