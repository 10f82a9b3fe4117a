"""Kernels whose features are monomials of one degree in the base variables.

Variables are the columns of D, with the constant 1 among them if ``affine`` (then the monomials of degree exactly p in
(1, D) are those of degree up to p in D, and the columns may be shifted).  Features are ``sqrt(c_t) W^t``, one per multiset t,
c_t the number of its orders; ``total`` appends the constant where it is not in the span.  The two subclasses differ in their
queries, and so in their coordinates W:

    Polynomials  every polynomial is a query.  Columns are shifted and scaled, never mixed, so that every monomial is as
                 accurate as its own size allows (this module).
    Powers       every power of a linear form is a query.  Columns are mixed to whitened ones, so that small directions are as
                 accurate as large ones (:mod:`karat.engine.powers`).
"""

from __future__ import annotations

from abc import abstractmethod
from math import comb
from typing import Self

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import Kernel, Settled, Statistic, check_width
from karat.engine.linalg import Array
from karat.engine.monomials import monomials
from karat.engine.rows import useful_shift
from karat.engine.tolerances import EXTREME, TINY

OFF_CENTRE = 0.25  # a mean of fewer standard deviations is left where it is, so that zeros stay zeros
RETURN = 0.1  # a mean of all rows that is even smaller takes a shift back
DRIFT = 2.0  # distance of the shift from the mean, in standard deviations, beyond which another shift is worth a pass


class Polynomial(Kernel):
    """Monomials of ``degree`` in the columns of the table (and 1 if ``affine``).

    Parameters
    ----------
    columns : int
        Columns of the table.
    degree : int
        The degree p >= 1.
    affine : bool
        Whether the constant is one of the variables.
    total : bool
        Whether to append the constant feature, if it is not in the span already.
    apart : int
        Leave out the products of different ones among the last ``apart`` columns (degree 2 only).
    """

    def __init__(self, columns: int, degree: int, *, affine: bool, total: bool = True, apart: int = 0) -> None:
        self.columns, self.degree, self.power, self.affine = columns, degree, degree, affine
        self.total = total and not affine
        self.shift = np.zeros(columns)
        self._variables_are(columns + affine, apart if apart > 1 else 0)

    def _variables_are(self, count: int, apart: int) -> None:
        """List the monomials of so many variables, the last ``apart`` of which are not multiplied with each other."""
        width = comb(count + self.degree - 1, self.degree) - comb(apart, 2)
        check_width(width)
        if apart:
            inner = count - apart
            joint = monomials(inner, 2).indices
            own = [np.column_stack([[*range(inner), t], [t] * (inner + 1)]) for t in range(inner, count)]
            sets = np.vstack([joint, *own])
            self.root = np.where(sets[:, 0] == sets[:, 1], 1.0, np.sqrt(2.0))
            self.sets, self.first, self.last = sets, sets[:, 0], sets[:, 1]
        else:
            table = monomials(count, self.degree)
            self.sets, self.root = table.indices, np.sqrt(table.multinomials)
            self.first, self.last = table.split
        self.variables, self.apart = count, apart
        self.width = len(self.root) + self.total
        high = (self.degree + 1) // 2
        self.product_shape = (comb(count + high - 1, high), comb(count + self.degree - high - 1, self.degree - high))

    def _copy(self) -> Self:
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__)
        return other

    @abstractmethod
    def coordinates(self, block: Array) -> Array:
        """The variables W of a block (b x r)."""

    def features(self, block: Array) -> Array:
        return self._features(np.ascontiguousarray(self.coordinates(block).T))

    def _features(self, variables: Array) -> Array:
        """Features of variables that come as rows (r x b)."""
        if self.apart:
            values = variables[self.first] * variables[self.last]
        else:
            values = monomials(self.variables, self.degree).values(variables)
        values = values * self.root[:, None]
        if self.total:
            values = np.vstack([values, np.ones(variables.shape[1])])
        return np.asarray(values.T)

    def products(self, variables: Array, weights: Array | None) -> Array:
        """The Gram matrix of lower monomials that holds all moments, of variables that come as columns (b x r)."""
        if self.degree == 2:
            return self._product(variables, variables if weights is None else variables * weights[:, None])
        high = (self.degree + 1) // 2
        rows = np.ascontiguousarray(variables.T)
        left = monomials(self.variables, high).values(rows)
        right = left if self.degree == 2 * high else monomials(self.variables, high - 1).values(rows)
        return self._product(left.T, (right if weights is None else right * weights).T)

    def _product(self, left: Array, right: Array) -> Array:
        return linalg.tall_product(left, right.copy() if right is left else right)

    def read_moments(self, products: Array, total: float) -> Array:
        """The moments of the features, from those products."""
        moments = self.root * products[self.first, self.last]
        return np.append(moments, total) if self.total else moments

    def moments(self, block: Array, weights: Array) -> Array:
        if len(block) * self.width < 2 * self.product_shape[0] ** 2:
            return super().moments(block, weights)
        return self.read_moments(self.products(self.coordinates(block), weights), float(weights.sum()))

    def feature_name(self, feature: int, columns: list[str]) -> str:
        if feature >= len(self.sets):
            return "the total weight"
        names = ["1", *columns] if self.affine else columns
        factors = [names[v] for v in self.sets[feature] if not (self.affine and v == 0)]
        return "the sum of " + (" * ".join(factors) or "the weights")


class Polynomials(Polynomial):
    """All monomials, in columns that are shifted and scaled one by one; every polynomial is a query."""

    def __init__(self, columns: int, degree: int, *, affine: bool, total: bool = True) -> None:
        super().__init__(columns, degree, affine=affine, total=total)
        self.scale = np.ones(self.variables)

    def prepare(self, pilot: Array, weights: Array | None, complete: bool) -> Self:
        prepared = self._copy()
        if self.affine:
            prepared.shift = useful_shift(pilot[:, 1:], weights, OFF_CENTRE)
        return prepared.rescaled(np.abs(pilot[:, 1:] - prepared.shift).max(axis=0))

    def rescaled(self, sizes: Array) -> Self:
        other = self._copy()
        extreme = (sizes > 0) & ((sizes > EXTREME) | (sizes < 1 / EXTREME))
        known = np.where(extreme, sizes, 1.0)
        scale = other.scale.copy()
        lead = int(self.affine)
        scale[lead:] = np.where(extreme, np.exp2(-np.floor(np.log2(known))), scale[lead:])
        other.scale = scale
        return other

    def centred(self, target: Array, total: float) -> Self | None:
        if not self.affine:
            return None
        other = self._copy()
        other.shift = self.shift + self._means(target, total) / self.scale[1:]
        return other

    def _means(self, target: Array, total: float) -> Array:
        """Those of the shifted and scaled columns."""
        linear = np.flatnonzero(np.count_nonzero(self.sets, axis=1) == 1)
        return np.asarray(target[linear] / self.root[linear] / total)

    def _product(self, left: Array, right: Array) -> Array:
        return linalg.accurate_product(np.ascontiguousarray(left), np.ascontiguousarray(right))

    def coordinates(self, block: Array) -> Array:
        variables = block if self.affine else block[:, 1:]
        return variables if (self.scale == 1.0).all() else variables * self.scale

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        variables = self.coordinates(block)
        return self.products(variables, weights), self.products(np.abs(variables), weights)

    def settle(self, statistic: Statistic, total: float, last: bool = False) -> Settled:
        target, absolute = (self.read_moments(part, total) for part in statistic)
        lead = int(self.affine)
        pure = absolute[: len(self.sets)][np.all(self.sets == self.sets[:, :1], axis=1)][lead:]
        again, kernel = False, self
        if self.affine and not last:
            again, kernel = self._drifted(absolute, target, total)
        return Settled(kernel, target, statistic, total, again=again, absolute=absolute, vanished=pure <= TINY)

    def _drifted(self, absolute: Array, target: Array, total: float) -> tuple[bool, Self]:
        """Whether the shift is far from the mean, and the kernel with a better one (known from degree 2 on)."""
        if self.degree < 2:
            return False, self
        squares = np.flatnonzero((np.count_nonzero(self.sets, axis=1) == 2) & (self.sets[:, -1] == self.sets[:, -2]))
        mean = self._means(target, total)
        square = target[squares] / self.root[squares] / total
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        # About zero, zeros stay zeros and no monomial of a heavy tail is inflated by the shift of another column.
        move = mean / self.scale[1:]
        centre = self.shift + move
        back = (self.shift != 0) & (np.abs(centre) <= RETURN * spread / self.scale[1:])
        far = (np.abs(mean) > DRIFT * spread) & (centre != self.shift)
        if not (far | back).any():
            return False, self
        other = self._copy()
        other.shift = np.where(back, 0.0, np.where(far, centre, self.shift))
        return True, other
