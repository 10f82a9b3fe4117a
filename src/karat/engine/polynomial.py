"""The kernel of polynomial losses: all monomials of one degree in the base variables.

Variables are the columns of D, with the constant 1 among them if ``affine`` (then the monomials of degree exactly p in
(1, D) are those of degree up to p in D, and the columns may be shifted).  Features are ``sqrt(c_t) W^t`` in whitened
coordinates ``W = [1 | D - shift] map``, one per multiset t; ``total`` appends the constant where it is not in the span.

For even p = 2h the moments form a Gram matrix, ``f(q) = v' M v`` with v the degree-h monomials of the query and
``M = P_h' diag(u) P_h``.  Hence, over every query,

    |f_c - f| / f  <=  || M^(-1/2) (M_c - M) M^(-1/2) ||_2,

with equality for p = 2: the generalised eigenvalues of (M_c, M).
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Self

import numpy as np

from karat.engine import linalg
from karat.engine.basis import KAPPA, Basis, condition_of, pilot_basis, refine
from karat.engine.kernel import Kernel, Settled, Statistic
from karat.engine.linalg import Array
from karat.engine.monomials import monomials
from karat.engine.rows import useful_shift
from karat.errors import InputError

MOST = 20_000  # features of a row; beyond this the m x m matrices do not fit in memory
UNDERFLOW = 1e-100  # squares of smaller values are lost
ROUNDING = 64 * linalg.EPS  # relative rounding of a column's mean and of the difference to it


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
        self.columns, self.degree, self.affine = columns, degree, affine
        self.total = total and not affine
        self.shift = np.zeros(columns)
        self.mapped = False
        self.before: Array | None = None  # the map of the pass, and
        self.step: Array | None = None  # the whitening after it, for degree 2
        self._use(Basis.identity(columns + affine, apart if apart > 1 else 0))

    def _use(self, basis: Basis) -> Self:
        """Switch to other coordinates of the variables."""
        self.basis = basis
        count = basis.map.shape[1]
        if comb(count + self.degree - 1, self.degree) > MOST:
            raise InputError(
                f"Degree {self.degree} in {count} variables has {comb(count + self.degree - 1, self.degree):,} monomials, more "
                f"than the {MOST:,} that a coreset is worth making for; lower the degree or the number of columns."
            )
        table = monomials(count, self.degree)
        first, last = table.split
        inner = count - basis.apart
        self.kept = np.arange(len(table))
        if basis.apart:
            self.kept = np.flatnonzero([len({v for v in t if v >= inner}) <= 1 for t in table.sets])
        self.root = np.sqrt(table.multinomials[self.kept])
        self.first, self.last = first[self.kept], last[self.kept]
        self.width = len(self.kept) + self.total
        high = (self.degree + 1) // 2
        self.product_shape = (len(monomials(count, high)), len(monomials(count, self.degree - high)))
        return self

    def _copy(self, basis: Basis, *, mapped: bool, before: Array | None = None, step: Array | None = None) -> Self:
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__)
        other.mapped, other.before, other.step = mapped, before, step
        return other._use(basis)

    def prepare(self, pilot: Array, weights: Array | None, complete: bool) -> Self:
        prepared = self._copy(self.basis, mapped=False)
        if self.affine:
            prepared.shift = useful_shift(pilot[:, 1:], weights)
        variables = prepared._variables(pilot - np.concatenate([[0.0], prepared.shift]))
        noise = ROUNDING * np.abs(prepared.shift)
        largest = np.abs(variables[:, int(self.affine) :]).max(axis=0)
        scaling = (largest <= noise) | (largest < UNDERFLOW)
        if self.degree == 2 and not scaling.any() and condition_of(variables) <= KAPPA:
            return prepared
        noise = np.concatenate([np.zeros(int(self.affine)), noise])
        basis = pilot_basis(variables, weights, self.basis.apart, self.affine, complete, noise)
        return prepared._copy(basis, mapped=True)

    def condition(self, block: Array, witness: Callable[[], Array] | None = None) -> float:
        return self.basis.condition(block if self.affine else block[:, 1:])

    def resolution(self, block: Array) -> Array:
        size = np.sqrt(np.square(self._variables(block)).mean(axis=0))
        products = monomials(len(size), self.degree).values(size[:, None])[self.kept, 0]
        noise = 16 * linalg.EPS * self.condition(block) * self.root * products
        return np.append(noise, 0.0) if self.total else noise

    def _variables(self, block: Array) -> Array:
        """Coordinates W of a block (b x r)."""
        variables = block if self.affine else block[:, 1:]
        if self.step is not None:  # the way the pass went: its map, then the final step, so that rounding is the same
            return linalg.mapped(variables if self.before is None else linalg.mapped(variables, self.before), self.step)
        return linalg.mapped(variables, self.basis.map) if self.mapped else variables

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        if self.degree == 2 and not self.mapped:
            gram = linalg.gram_with_ones(block, weights)
            return (gram if self.affine else gram[1:, 1:],)
        variables = self._variables(block)
        gram = linalg.gram(variables, weights)
        if self.degree == 2:
            return (gram,)
        high = (self.degree + 1) // 2
        left = monomials(variables.shape[1], high).values(np.ascontiguousarray(variables.T))
        right = left if self.degree == 2 * high else monomials(variables.shape[1], high - 1).values(variables.T)
        return gram, linalg.tall_product(left.T, (right if weights is None else right * weights).T)

    def settle(self, statistic: Statistic, total: float) -> Settled:
        gram = statistic[0]
        step, basis, poor, kappa = refine(self.basis, gram / total, self.degree, self.affine)
        dropped = len(gram) > basis.map.shape[1]
        if poor or (self.degree > 2 and (dropped or self.basis.loose.any())):
            better = self._copy(basis, mapped=True)
            return Settled(better, np.zeros(0), statistic, total, again=True)
        if self.degree == 2:
            before = self.basis.map if self.mapped else None
            kernel, statistic = self._copy(basis, mapped=True, before=before, step=step), (step.T @ gram @ step,)
        else:
            kernel = self
        rounding = linalg.EPS * kappa**self.degree
        moments = kernel._moments(statistic[-1], total)
        return Settled(kernel, moments, statistic, total, rounding=rounding, excluded=basis.excluded)

    def _moments(self, products: Array, total: float) -> Array:
        moments = self.root * products[self.first, self.last]
        return np.append(moments, total) if self.total else moments

    def features(self, block: Array) -> Array:
        variables = np.ascontiguousarray(self._variables(block).T)
        values = monomials(len(variables), self.degree).values(variables)
        if len(self.kept) < len(values):
            values = values[self.kept]
        values = values * self.root[:, None]
        if self.total:
            values = np.vstack([values, np.ones(len(block))])
        return values.T

    def moments(self, block: Array, weights: Array) -> Array:
        if len(block) * self.width < 2 * self.product_shape[0] ** 2:
            return super().moments(block, weights)
        return self._moments(self.statistic(block, weights)[-1], float(weights.sum()))

    def evaluate(self, block: Array, directions: Array) -> Array:
        if self.degree != 2:
            return super().evaluate(block, directions)
        # Degree 2 is a quadratic form per direction, taken back to the columns of the block: one GEMM, and no features.
        count, several = self.basis.map.shape[1], directions.shape[1]
        forms = np.zeros((several, count, count))
        forms[:, self.first, self.last] = (self.root[:, None] * directions[: len(self.root)]).T
        variables = block if self.affine else block[:, 1:]
        forms = self.basis.map @ forms @ self.basis.map.T
        products = variables @ forms.transpose(1, 0, 2).reshape(variables.shape[1], -1)
        values = np.einsum("bjr,br->bj", products.reshape(len(block), several, -1), variables)
        return np.asarray(values + directions[-1] if self.total else values)

    def gap(self, block: Array, weights: Array, settled: Settled, witness: Callable[[], Array]) -> float:
        if self.degree % 2:
            return super().gap(block, weights, settled, witness)
        half = monomials(self.basis.map.shape[1], self.degree // 2)
        values = half.values(np.ascontiguousarray(self._variables(block).T))
        root = np.sqrt(half.multinomials)
        difference = np.outer(root, root) * ((values * weights) @ values.T - settled.statistic[-1])
        full = np.outer(root, root) * settled.statistic[-1]
        inner = len(full) - self.basis.apart
        blocks = [[*range(inner), t] for t in range(inner, len(full))] if self.basis.apart else [list(range(len(full)))]
        worst = max(linalg.generalized_norm(difference[np.ix_(b, b)], full[np.ix_(b, b)]) for b in blocks)
        return max(worst, abs(weights.sum() / settled.total - 1.0)) if self.total else worst
