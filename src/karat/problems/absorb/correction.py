"""The part of the loss that the kept rows do not have, and forms, as which moments are compared.

Moments of even degree p = 2h are forms on the monomials of degree h.  For rows b_i and weights u_i
the form is ``F[a, b] = sum_i u_i b_i^(a+b)``, one row and column per multiset of h variables. New
variables ``b' = b A`` have the monomials ``b'^a = sum_c b^c L[c, a]``, so that their form is
``F' = L' F L``: every index of the symmetric tensor of degree p is contracted with A, and no array
of ``v^p`` entries is ever made.

A query z has the loss ``sum u (b . z)^p = s' F~ s`` with ``F~[a, b] = sqrt(m_a m_b) F[a, b]`` and
``s_a = sqrt(m_a) z^a``, m the multinomial coefficients; in this scaling ``|s|^2 = |z|^p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from karat.engine.kernel import monomials
from karat.engine.linalg import Array, Indices
from karat.engine.sums import sum_of_products


def lifted(matrix: Array, half: int) -> Array:
    """The matrix L of the change of variables A (v x r), on the monomials of degree ``half``."""
    coefficients = np.asarray(matrix, dtype=float)
    for degree in range(2, half + 1):
        old, new = monomials(len(matrix), degree), monomials(matrix.shape[1], degree)
        # Row a of the transpose is the polynomial b'^a; it is that of a's first indices times one
        # linear form.
        before, factor = coefficients.T[new.parent], matrix.T[new.indices[:, -1]]
        product = np.zeros((len(new), len(old)))
        lower = monomials(len(matrix), degree - 1)
        for variable in range(len(matrix)):
            target = _positions(
                np.column_stack([lower.indices, np.full(len(lower), variable)]), len(matrix), degree
            )
            # the targets of one variable are distinct
            product[:, target] += before * factor[:, [variable]]
        coefficients = product.T
    return coefficients


def _positions(sets: Indices, variables: int, degree: int) -> Indices:
    """Positions of multisets, given as rows of indices in any order, among all of their degree."""
    digits = variables ** np.arange(degree)[::-1]
    codes = monomials(variables, degree).indices @ digits  # lexicographic order: increasing
    return np.searchsorted(codes, np.sort(sets, axis=-1) @ digits)


@lru_cache(maxsize=8)
def union_positions(variables: int, half: int) -> Indices:
    """For each pair of multisets of degree ``half``, the position of their union among those of
    degree ``2 half``.
    """
    sets = monomials(variables, half).indices
    left, right = np.broadcast_arrays(sets[:, None, :], sets[None, :, :])
    return _positions(np.concatenate([left, right], axis=2), variables, 2 * half)


def gathered(form: Array, variables: int, half: int) -> Array:
    """The moments of all monomials of degree ``2 half``, read off their form."""
    first, last = monomials(variables, 2 * half).split
    return np.asarray(form[first, last])


def form_of(variables: Array, weights: Array, half: int) -> Array:
    """The form of a few weighted rows (k x v)."""
    values = monomials(variables.shape[1], half).values(np.ascontiguousarray(variables.T))
    return np.asarray((values * weights) @ values.T)


def balanced(form: Array, variables: int, half: int) -> Array:
    """The form F~ in which the loss is a quadratic form of norm-preserving monomials."""
    root = np.sqrt(monomials(variables, half).multinomials)
    return np.asarray(root[:, None] * form * root)


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
