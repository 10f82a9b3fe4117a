"""The part of the loss that the kept rows do not have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine.kernel import monomials
from karat.engine.linalg import Array, Indices
from karat.engine.sums import sum_of_products
from karat.problems.absorb.forms import union_positions


@dataclass(frozen=True)
class Correction:
    """A polynomial in the coefficients w: the difference of loss between all rows and the kept
    ones.

    ``value(w) = sum_t c_t delta_t z^t`` with z = (w, -1): delta_t is the moment of monomial t over
    all rows less that over the kept ones.
    """

    sets: Indices  # (K, p): the monomials: indices 0..d-1 of the inputs, d of the target
    delta: Array  # (K,)

    def __add__(self, other: Correction) -> Correction:
        return Correction(self.sets, self.delta + other.delta)

    def __sub__(self, other: Correction) -> Correction:
        return Correction(self.sets, self.delta - other.delta)

    def __bool__(self) -> bool:
        """Whether the correction is not zero."""
        return bool(self.delta.any())

    def times(self, unit: float) -> Correction:
        """Convert from units of the rows' weights; a unit is a power of two, so only underflow
        rounds.
        """
        return self if unit == 1.0 else Correction(self.sets, self.delta * unit)

    def over(self, unit: float) -> Correction:
        """Convert to units of the rows' weights."""
        return self if unit == 1.0 else Correction(self.sets, self.delta / unit)

    def form(self, lead: int) -> Array:
        """The differences as a form on the monomials of degree p/2 in (1, x, y) if ``lead`` is 1,
        in (x, y) if it is 0.
        """
        variables, degree = self.columns + 1 + lead, self.sets.shape[1]
        table = monomials(variables, degree)
        moments = np.zeros(len(table))
        moments[table.indices[:, 0] >= lead] = self.delta
        return np.asarray(moments[union_positions(variables, degree // 2)])

    @property
    def columns(self) -> int:
        return int(self.sets[-1, -1])

    def _terms(self, coefficients: Array) -> tuple[Array, Array]:
        table = monomials(self.columns + 1, self.sets.shape[1])
        z = np.append(coefficients, -1.0)
        return table.multinomials * self.delta, z[self.sets]

    def value(self, coefficients: Array) -> float:
        scale, factors = self._terms(coefficients)
        return sum_of_products(scale, *factors.T)

    def derivatives(self, coefficients: Array) -> tuple[Array, Array]:
        """Gradient and Hessian with respect to the coefficients."""
        scale, factors = self._terms(coefficients)
        p, d = self.sets.shape[1], self.columns
        gradient, hessian = np.zeros(d + 1), np.zeros((d + 1, d + 1))
        for i in range(p):
            others = np.delete(factors, i, axis=1)
            np.add.at(gradient, self.sets[:, i], scale * others.prod(axis=1))
            for j in range(p):
                if j != i:
                    rest = np.delete(factors, [i, j], axis=1).prod(axis=1)
                    np.add.at(hessian, (self.sets[:, i], self.sets[:, j]), scale * rest)
        return gradient[:d], hessian[:d, :d]

    def pure(self) -> Array:
        """The differences of the pure powers x_a^p."""
        return np.asarray(self.delta[np.all(self.sets == self.sets[:, :1], axis=1)][: self.columns])

    def matrices(self) -> tuple[Array, Array]:
        """(G, b) for p = 2: ``X'X - Xc'Xc`` and ``X'y - Xc'yc``."""
        d = self.columns
        full = np.zeros((d + 1, d + 1))
        full[self.sets[:, 0], self.sets[:, 1]] = self.delta
        full[self.sets[:, 1], self.sets[:, 0]] = self.delta
        return full[:d, :d], full[:d, d]
