"""Monomials of one degree in some variables: their values, and how they split into lower ones."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, pairwise
from math import factorial, prod

import numpy as np

from karat.engine.linalg import Array, Flags, Indices


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
            begins = np.searchsorted(self.indices[:, 0], np.arange(variables + 1)).tolist()
            self.runs = list(pairwise(begins))  # sets that begin with the same variable

    def __len__(self) -> int:
        return len(self.sets)

    def values(self, variables: Array) -> Array:
        """Monomials of the columns of ``variables`` (q x b), as rows (K x b)."""
        if self.degree == 0:
            return np.ones((1, variables.shape[1]), dtype=variables.dtype)
        if self.lower is None:
            return variables
        lower = self.lower.values(variables)
        result = np.empty((len(self), variables.shape[1]), dtype=variables.dtype)
        # times sets of variables from this one on
        for variable, (start, stop) in zip(variables, self.runs, strict=True):
            np.multiply(lower[len(lower) - (stop - start) :], variable, out=result[start:stop])
        return result

    @cached_property
    def multinomials(self) -> Array:
        """Number of orderings c_t of each multiset."""
        top = factorial(self.degree)
        return np.array(
            [top // prod(factorial(t.count(v)) for v in set(t)) for t in self.sets], dtype=float
        )

    @cached_property
    def powers(self) -> Indices:
        """Positions of the powers of single variables."""
        return np.array(
            [self.position[(v,) * self.degree] for v in range(self.variables)], dtype=np.intp
        )

    @cached_property
    def balanced(self) -> tuple[Indices, Indices]:
        """Positions of the two halves of each multiset that take its indices alternately, for an
        even degree.
        """
        half = monomials(self.variables, self.degree // 2)
        left, right = ([half.position[t[i::2]] for t in self.sets] for i in (0, 1))
        return np.array(left, dtype=np.intp), np.array(right, dtype=np.intp)

    @cached_property
    def times(self) -> tuple[Indices, Array]:
        """Positions of each variable times each lower monomial, and the factors of the products if
        both are isometric.

        A monomial is isometric if it is multiplied by the root of its number of orderings.
        """
        lower = monomials(self.variables, self.degree - 1)
        positions = [
            [self.position[tuple(sorted((v, *t)))] for t in lower.sets]
            for v in range(self.variables)
        ]
        places = np.array(positions, dtype=np.intp).reshape(self.variables, len(lower))
        return places, np.sqrt(lower.multinomials / self.multinomials[places])

    @cached_property
    def split(self) -> tuple[Indices, Indices]:
        """Positions of each multiset's first ceil(p/2) and last floor(p/2) indices among the lower
        monomials.
        """
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


def remaining_monomials(gone: Flags, degree: int) -> tuple[Flags, Indices]:
    """Which monomials hold no dropped variable, and their positions among those of the remaining
    variables.
    """
    table, left = monomials(len(gone), degree), monomials(int((~gone).sum()), degree)
    stays = np.asarray(~gone[table.indices].any(axis=1))
    places = (np.cumsum(~gone) - 1)[table.indices[stays]]
    return stays, np.array([left.position[tuple(t)] for t in places.tolist()], dtype=np.intp)
