"""Unique monomials of degree p in q variables, and the Gram matrices that hold their moments.

Paper: the kernelization of ``(d . z)^p`` is ``vec(d^{(x)p})`` with (d+1)^p entries.  Only ``binom(q+p-1, p)`` of them
differ; with the factor ``sqrt(c_t)``, ``c_t`` the multinomial coefficient of the multiset t, the unique ones are isometric:

    <phi(a), phi(b)> = (a . b)^p.

The sum of all of them over the rows needs no n x m matrix: a multiset t of degree p splits into its first
``h = ceil(p/2)`` and last ``p - h`` indices, so its moment is one entry of the Gram matrix of lower monomials,

    sum_i u_i d_i^t = ( P_h' diag(u) P_{p-h} )[t_first, t_last].
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np

from karat.engine.linalg import Array, Indices


class Monomials:
    """All multisets of ``degree`` of ``variables``, in lexicographic order."""

    def __init__(self, variables: int, degree: int) -> None:
        self.variables, self.degree = variables, degree
        self.sets = list(combinations_with_replacement(range(variables), degree))
        self.position = {t: i for i, t in enumerate(self.sets)}
        self.indices = np.array(self.sets, dtype=np.intp).reshape(len(self.sets), degree)
        self.lower = monomials(variables, degree - 1) if degree > 1 else None
        if self.lower is not None:
            self.parent = np.array([self.lower.position[t[:-1]] for t in self.sets], dtype=np.intp)

    def __len__(self) -> int:
        return len(self.sets)

    def values(self, variables: Array) -> Array:
        """Monomials of the columns of ``variables`` (q x b), as rows (K x b)."""
        if self.degree == 0:
            return np.ones((1, variables.shape[1]))
        if self.lower is None:
            return variables
        return np.asarray(self.lower.values(variables)[self.parent] * variables[self.indices[:, -1]])

    @cached_property
    def multinomials(self) -> Array:
        """Number of orderings c_t of each multiset."""
        top = factorial(self.degree)
        return np.array([top // prod(factorial(t.count(v)) for v in set(t)) for t in self.sets], dtype=float)

    @cached_property
    def split(self) -> tuple[Indices, Indices]:
        """Positions of each multiset's first ceil(p/2) and last floor(p/2) indices among the lower monomials."""
        high = (self.degree + 1) // 2
        first, last = monomials(self.variables, high), monomials(self.variables, self.degree - high)
        return (
            np.array([first.position[t[:high]] for t in self.sets], dtype=np.intp),
            np.array([last.position[t[high:]] for t in self.sets], dtype=np.intp),
        )


@lru_cache(maxsize=64)
def monomials(variables: int, degree: int) -> Monomials:
    """The shared table of multisets (they are costly to list and never change)."""
    return Monomials(variables, degree)
