"""The kernel of all polynomials, in single columns."""

from __future__ import annotations

from copy import copy
from itertools import product
from typing import Any, Self

import numpy as np

from karat.engine.kernel import FittedMoments, Kernel, monomials
from karat.engine.linalg import Array, Indices
from karat.engine.powers import Polynomial, Powers
from karat.engine.rows import Statistic, useful_shift
from karat.engine.sums import SHORT, summed_product
from karat.engine.tolerances import EXTREME, TINY

# a mean of fewer standard deviations is left where it is, so that zeros stay zeros
OFF_CENTRE = 0.25
RETURN = 0.1  # a mean of all rows that is even smaller takes a shift back
# distance of the shift from the mean, in standard deviations, beyond which another shift is worth a
# pass
DRIFT = 2.0


class Polynomials(Polynomial):
    """All monomials, in columns that are shifted and scaled one by one; every polynomial is a
    query.
    """

    def __init__(self, columns: int, degree: int, *, affine: bool, total: bool = True) -> None:
        super().__init__(columns, degree, affine=affine, total=total)
        self.scale = np.ones(self.variables)

    def prepare(self, pilot: Array, weights: Array | None) -> Self:
        prepared = copy(self)
        if self.affine:
            prepared.shift = useful_shift(pilot[:, 1:], weights, OFF_CENTRE)
        return prepared.rescaled(np.abs(pilot[:, 1:] - prepared.shift).max(axis=0))

    def rescaled(self, sizes: Array) -> Self:
        other = copy(self)
        other.scale = self.scale.copy()
        extreme = (sizes > 0) & ((sizes > EXTREME) | (sizes < 1 / EXTREME))
        other.scale[int(self.affine) :][extreme] = np.exp2(-np.floor(np.log2(sizes[extreme])))
        return other

    def centred(self, moments: FittedMoments) -> Self | None:
        if not self.affine:
            return None
        sums, total = self._means(moments.target, 1.0), moments.total
        if moments.peeled is not None:
            block, weights = moments.peeled
            sums, total = (
                sums + weights @ ((block[:, 1:] - self.shift) * self.scale[1:]),
                total + float(weights.sum()),
            )
        centre = self.shift + sums / total / self.scale[1:]
        return None if (centre == self.shift).all() else self.at(centre)

    def off_centre(self, moments: FittedMoments) -> float:
        """The factor by which errors, relative to sums A of absolute values, may be larger about
        the means than about the shift.

        With B the sums of the terms of ``(w + m)^p``, of which A is one, an error of rho A is at
        most rho B about the means, and the sums of absolute values there are at least 2 A - B.
        """
        goal, absolute = self.centred(moments), moments.absolute
        assert absolute is not None
        if goal is None:
            return 1.0
        most = self.sizes_in(absolute, goal)
        least = 2 * absolute - most
        there = most > 0
        if (least[there] <= 0).any():
            return float("inf")
        return float((most[there] / least[there]).max(initial=1.0))

    def at(self, shift: Array) -> Self:
        """The same features of columns with another shift."""
        other = copy(self)
        other.shift = shift
        return other

    def aside(self, moments: FittedMoments, far: float) -> bool:
        """Whether the rows of a column are on one side of the shift: its mean exceeds ``far`` times
        its mean absolute value.
        """
        assert moments.absolute is not None
        single = self._single
        return bool((np.abs(moments.target[single]) > far * moments.absolute[single]).any())

    def extended(self, block: Array, weights: Array | None) -> Any:
        """Sums of the monomials, without their factors, of an unshifted block, in extended
        precision.
        """
        columns = np.ones((self.variables, len(block)), dtype=np.longdouble)
        columns[1:] = (block[:, 1:].T - self.shift[:, None].astype(np.longdouble)) * self.scale[
            1:, None
        ]
        values = columns
        for degree in range(2, self.degree + 1):
            table = monomials(self.variables, degree)
            values = values[table.parent] * columns[table.indices[:, -1]]
        return (values if weights is None else values * weights).sum(axis=1)

    def low_part(self, high: Array, low: Array) -> Array:
        """What the moments of the sums ``high`` lack, with what is lost when these are multiplied
        by the factors of the features.
        """
        wide = self.root.astype(np.longdouble)
        exact = wide * (high.astype(np.longdouble) + low)[self.first, self.last]
        rest = (exact - self.read_moments(high, 0.0)[: len(wide)]).astype(float)
        return np.append(rest, 0.0) if self.total else rest

    def carried(
        self, target: Array, low: Array, absolute: Array, shift: Array
    ) -> tuple[Array, Array]:
        """Sums of features ``target + low``, converted to another shift; and the sums of absolute
        values of their terms.

        A rounding of the given sums relative to ``absolute`` becomes a rounding of the result
        relative to the latter.
        """
        wide = np.longdouble
        move = np.concatenate([[wide(0)], (self.shift.astype(wide) - shift) * self.scale[1:]])
        digits = self.variables ** np.arange(self.degree)[::-1]
        codes, given = self.sets @ digits, target.astype(wide) + low
        sums, sizes = np.zeros(len(self.sets), dtype=wide), np.zeros(len(self.sets))
        # prod (w + m) = sum over subsets of prod m prod w
        for subset in product((False, True), repeat=self.degree):
            moved = np.array(subset)
            factor = np.prod(move[self.sets[:, moved]], axis=1)
            if factor.any():
                where = np.searchsorted(
                    codes, np.sort(np.where(moved, 0, self.sets), axis=1) @ digits
                )
                factor = factor * self.root / self.root[where]
                sums += factor * given[where]
                sizes += np.abs(factor).astype(float) * absolute[where]
        return sums.astype(float), sizes

    def sizes_in(self, sizes: Array, other: Kernel) -> Array:
        assert isinstance(other, Polynomials)
        if self.affine:
            zero = np.zeros(self.width)
            sizes = self.carried(zero, zero, sizes, other.shift)[1]
        ratio = other.scale / self.scale
        if (ratio == 1.0).all():
            return sizes
        factors = np.prod(ratio[self.sets], axis=1)
        return np.asarray(sizes * (np.append(factors, 1.0) if self.total else factors))

    @property
    def carrying(self) -> int:
        """How often a term of :meth:`carried` is rounded."""
        return int(2**self.degree) + 3 * self.degree + 2

    @property
    def roundings(self) -> int:
        return 2 * self.degree + 1

    @property
    def _single(self) -> Indices:
        """The features that are single columns."""
        return np.flatnonzero(np.count_nonzero(self.sets, axis=1) == 1)

    def _means(self, target: Array, total: float) -> Array:
        """Means of the shifted and scaled columns."""
        return np.asarray(target[self._single] / self.root[self._single] / total)

    def _product(self, left: Array, right: Array) -> Array:
        return summed_product(np.ascontiguousarray(left), np.ascontiguousarray(right), SHORT)

    def coordinates(self, block: Array) -> Array:
        variables = self.base_variables(block)
        return variables if (self.scale == 1.0).all() else variables * self.scale

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        variables = self.coordinates(block)
        return self.products(variables, weights), self.products(np.abs(variables), weights)

    def fitted_moments(
        self, statistic: Statistic, total: float, last: bool = False
    ) -> FittedMoments:
        target, absolute = (self.read_moments(part, total) for part in statistic)
        lead = int(self.affine)
        pure = absolute[: len(self.sets)][np.all(self.sets == self.sets[:, :1], axis=1)][lead:]
        better = (
            self._shifted(target, total) if self.affine and self.degree > 1 and not last else None
        )
        return FittedMoments(
            better or self,
            target,
            statistic,
            total,
            needs_pass=better is not None,
            absolute=absolute,
            vanished=pure <= TINY,
        )

    def _shifted(self, target: Array, total: float) -> Self | None:
        """The kernel with a better shift, if its own is far from the mean; that is known from
        degree 2 on.
        """
        squares = np.flatnonzero(
            (np.count_nonzero(self.sets, axis=1) == 2) & (self.sets[:, -1] == self.sets[:, -2])
        )
        mean = self._means(target, total)
        square = target[squares] / self.root[squares] / total
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        # About zero, zeros stay zeros and no monomial of a heavy tail is inflated by the shift of
        # another column.
        centre = self.shift + mean / self.scale[1:]
        back = (self.shift != 0) & (np.abs(centre) <= RETURN * spread / self.scale[1:])
        far = (np.abs(mean) > DRIFT * spread) & (centre != self.shift)
        if not (far | back).any():
            return None
        other = copy(self)
        other.shift = np.where(back, 0.0, np.where(far, centre, self.shift))
        return other


def unmixed(kernel: Kernel) -> Kernel:
    """A kernel for the same columns whose features are monomials of single columns, in no
    coordinates yet.
    """
    if not isinstance(kernel, Powers):
        return kernel
    return Polynomials(kernel.columns, kernel.degree, affine=kernel.affine, total=kernel.total)
