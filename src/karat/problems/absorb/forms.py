"""Moments of even degree p = 2h as forms on the monomials of degree h, and what a change of
variables does to them.

For rows b_i and weights u_i the form is ``F[a, b] = sum_i u_i b_i^(a+b)``, one row and column per
multiset of h variables. New variables ``b' = b A`` have the monomials ``b'^a = sum_c b^c L[c, a]``,
so that their form is ``F' = L' F L``: every index of the symmetric tensor of degree p is contracted
with A, and no array of ``v^p`` entries is ever made.

A query z has the loss ``sum u (b . z)^p = s' F~ s`` with ``F~[a, b] = sqrt(m_a m_b) F[a, b]`` and
``s_a = sqrt(m_a) z^a``, m the multinomial coefficients; in this scaling ``|s|^2 = |z|^p``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from karat.engine.kernel import monomials
from karat.engine.linalg import Array, Indices


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
