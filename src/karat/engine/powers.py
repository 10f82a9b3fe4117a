"""Polynomial kernels: monomials of one degree p in the columns, and powers of a linear form.

    f(q) = sum_i u_i (d_i . z)^p,      d_i = (1, x_i, y_i) or (x_i, y_i),   z = z(q).

**Monomials.**  The paper (cited in :mod:`karat.engine.kernel`) kernelizes ``(d . z)^p`` by
``vec(d^{(x)p})``, with (d+1)^p entries.  Only ``binom(v+p-1, p)`` of them differ, v the number of
variables.  With the factor ``sqrt(c_t)``, ``c_t`` the multinomial coefficient of the multiset t,
the unique ones are isometric, ``<phi(a), phi(b)> = (a . b)^p``.  Their sum over the rows needs no n
x m matrix: a multiset t of degree p splits into its first ``h = ceil(p/2)`` and last ``p - h``
indices, so its moment is one entry of the Gram matrix of lower monomials,

    sum_i u_i d_i^t = ( P_h' diag(u) P_{p-h} )[t_first, t_last].

**Variables** are the columns of D, with the constant 1 among them if ``affine`` (then the monomials
of degree exactly p in (1, D) are those of degree up to p in D, and the columns may be shifted).
Features are ``sqrt(c_t) W^t``; ``total`` appends the constant where it is not in the span.  Two
kernels differ in their queries, and so in their coordinates W:

    Powers       every power of a linear form is a query.  Columns are mixed to whitened ones, ``W =
                 [1 | D - shift] map``, so that small directions are as accurate as large ones (this
                 module).
    Polynomials  every polynomial is a query.  Columns are shifted and scaled, never mixed, so that
                 every monomial is as accurate as its own size allows
                 (:mod:`karat.engine.polynomial`).

Where every polynomial is a query, rows are still sought in whitened coordinates first: then powers
of small directions, which are lost in the rounding of monomials of single columns, are kept as
well.

For even p = 2h the moments form a Gram matrix, ``f(q) = v' M v`` with v the degree-h monomials of
the query in whitened coordinates and ``M = P_h' diag(u) P_h``; :mod:`karat.engine.proof` measures a
coreset by it.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import replace
from math import comb
from typing import ClassVar, Self

import numpy as np

from karat.engine.coordinates import Basis, condition_of, pilot_basis, refine
from karat.engine.device import squares
from karat.engine.frame import Frame
from karat.engine.kernel import FittedMoments, Kernel, check_width, monomials, remaining_monomials
from karat.engine.linalg import Array, Flags
from karat.engine.rows import Progress, Rows, Statistic, useful_shift
from karat.engine.sums import (
    MOST_ROWS,
    STACKED,
    RunningSum,
    add_upper_squares,
    gram_matrix,
    gram_with_ones,
    mirrored,
    piece_rows,
    summed_product,
    sums_in_extended,
    upper_squares,
)
from karat.engine.tolerances import ACCURATE, EPS, EXTREME, KAPPA, NULL, SMALL, TINY

# times the rounding of sums of uncorrelated variables: from there on better coordinates gain digits
CORRELATED = 8.0
LEAST = TINY / EPS  # a sum of powers below this may have lost terms


class Polynomial(Kernel):
    """Monomials of ``degree`` in the columns of the table (and 1 if ``affine``).

    ``total`` appends the constant feature, if it is not in the span already.  Products of different
    ones among the last ``separate_targets`` columns are left out (degree 2 only).
    """

    def __init__(
        self,
        columns: int,
        degree: int,
        *,
        affine: bool,
        total: bool = True,
        separate_targets: int = 0,
    ) -> None:
        self.columns, self.degree, self.power, self.affine = columns, degree, degree, affine
        self.total = total and not affine
        self.shift = np.zeros(columns)
        self.in_extended = False  # whether powers are summed in extended precision
        self._variables_are(columns + affine, separate_targets if separate_targets > 1 else 0)

    def _variables_are(self, count: int, separate_targets: int) -> None:
        """List the monomials of ``count`` variables; the last ``separate_targets`` are not
        multiplied with each other.
        """
        width = comb(count + self.degree - 1, self.degree) - comb(separate_targets, 2)
        check_width(width)
        if separate_targets:
            inner = count - separate_targets
            joint = monomials(inner, 2).indices
            with_targets = [
                np.column_stack([[*range(inner), t], [t] * (inner + 1)])
                for t in range(inner, count)
            ]
            sets = np.vstack([joint, *with_targets])
            self.root = np.where(sets[:, 0] == sets[:, 1], 1.0, np.sqrt(2.0))
            self.sets, self.first, self.last = sets, sets[:, 0], sets[:, 1]
        else:
            table = monomials(count, self.degree)
            self.sets, self.root = table.indices, np.sqrt(table.multinomials)
            self.first, self.last = table.split
        self.variables, self.separate_targets = count, separate_targets
        self.width = len(self.root) + self.total
        high = (self.degree + 1) // 2
        self.product_shape = (
            comb(count + high - 1, high),
            comb(count + self.degree - high - 1, self.degree - high),
        )

    def __copy__(self) -> Self:
        """The result of :func:`copy.copy`, in a third of the time."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def base_variables(self, block: Array) -> Array:
        """The variables of a block ``[1 | D - shift]`` before any map (b x v)."""
        return block if self.affine else block[:, 1:]

    @abstractmethod
    def coordinates(self, block: Array) -> Array:
        """The variables W of a block (b x r)."""

    def features(self, block: Array) -> Array:
        return self._features(np.ascontiguousarray(self.coordinates(block).T))

    def _features(self, variables: Array) -> Array:
        """Features of variables that come as rows (r x b)."""
        if self.separate_targets:
            values = variables[self.first] * variables[self.last]
        else:
            values = monomials(self.variables, self.degree).values(variables)
        values = np.multiply(
            values, self.root[:, None], out=None if values is variables else values
        )
        if self.total:
            values = np.vstack([values, np.ones(variables.shape[1])])
        return np.asarray(values.T)

    def products(self, variables: Array, weights: Array | None) -> Array:
        """The Gram matrix of lower monomials that holds all moments, of variables that come as
        columns (b x r).
        """
        if self.degree == 2:
            return self._product(
                variables, variables if weights is None else variables * weights[:, None]
            )
        high = (self.degree + 1) // 2
        rows = np.ascontiguousarray(variables.T, dtype=np.longdouble if self.in_extended else float)
        left = monomials(self.variables, high).values(rows)
        right = (
            left if self.degree == 2 * high else monomials(self.variables, high - 1).values(rows)
        )
        return self._product(left.T, (right if weights is None else right * weights).T)

    def _product(self, left: Array, right: Array) -> Array:
        piece = piece_rows(left.shape[1], self.degree)
        return summed_product(left, right.copy() if right is left else right, piece)

    def read_moments(self, products: Array, total: float) -> Array:
        """The moments of the features, from those products."""
        moments = np.asarray(self.root * products[self.first, self.last], dtype=float)
        return np.append(moments, total) if self.total else moments

    def moments(self, block: Array, weights: Array) -> Array:
        """``weights @ features(block)``, by products of lower monomials if that is faster."""
        if len(block) * self.width < 2 * self.product_shape[0] ** 2:
            return np.asarray(weights @ self.features(block))
        return self.read_moments(
            self.products(self.coordinates(block), weights), float(weights.sum())
        )

    def group_moments(self, block: Array, weights: Array, groups: int) -> Array:
        size = len(block) // groups
        # high powers: group by group, to the same rounding as all other moments
        if self.degree > 2:
            pairs = zip(np.split(block, groups), np.split(weights, groups), strict=True)
            return np.stack([self.moments(*pair) for pair in pairs])
        if size * self.width < 2 * self.product_shape[0] ** 2:
            return super().group_moments(block, weights, groups)
        variables = self.coordinates(block)
        weighted = (variables * weights[:, None]).reshape(groups, size, -1)
        products = variables.reshape(groups, size, -1).transpose(0, 2, 1) @ weighted
        moments = self.root * products[:, self.first, self.last]
        return (
            np.column_stack([moments, weights.reshape(groups, size).sum(axis=1)])
            if self.total
            else moments
        )

    def feature_name(self, feature: int, columns: list[str]) -> str:
        if feature >= len(self.sets):
            return "the total weight"
        names = ["1", *columns] if self.affine else columns
        factors = [names[v] for v in self.sets[feature] if not (self.affine and v == 0)]
        return "the sum of " + (" * ".join(factors) or "the weights")


class Powers(Polynomial):
    """Monomials of ``degree`` in whitened columns (and 1 if ``affine``); see :class:`Polynomial`.

    If every polynomial is a query, the moments are also summed in the features ``single`` of single
    columns.  An odd degree needs them.
    """

    makes_features: ClassVar[bool] = True
    alone: ClassVar[float] = 0.5  # share of the weight from which on a row is taken for the mean

    def __init__(
        self,
        columns: int,
        degree: int,
        *,
        affine: bool,
        total: bool = True,
        separate_targets: int = 0,
        single: Polynomial | None = None,
    ) -> None:
        super().__init__(
            columns, degree, affine=affine, total=total, separate_targets=separate_targets
        )
        self.single = single
        self.basis = Basis.of(np.eye(self.variables), self.separate_targets)
        self.maps: tuple[Array, ...] = ()
        self.null = NULL
        self.count = MOST_ROWS  # that a pass sums
        self.sharp = False

    def within(self, basis: Basis, maps: tuple[Array, ...] | None = None) -> Self:
        """The same kernel in other coordinates: variables are multiplied by ``maps``, by default by
        the map of the basis.
        """
        other = copy(self)
        other.basis, other.maps = basis, (basis.map,) if maps is None else maps
        other._variables_are(basis.map.shape[1], basis.separate_targets)
        return other

    def over(self, rows: int) -> Self:
        other = copy(self)
        other.count = rows
        other.in_extended = (
            self.degree > 2 and self.degree % 2 == 0 and sums_in_extended(rows, *self.product_shape)
        )
        return other

    def sharper(self) -> Self:
        other = copy(self)
        other.sharp = True
        return other

    def keeping_all(self) -> Self:
        """The same kernel, which drops only directions that are zero in every row."""
        other = copy(self)
        other.null = 0.0
        return other

    def prepare(self, pilot: Array, weights: Array | None) -> Self:
        prepared = self.within(
            Basis.of(np.eye(self.columns + self.affine), self.separate_targets), maps=()
        )
        if self.single is not None:
            prepared.single = self.single.prepare(pilot, weights)
            prepared.shift = prepared.single.shift
        elif self.affine:
            prepared.shift = useful_shift(pilot[:, 1:], weights, alone=self.alone)
        if prepared.shift.any():
            pilot = pilot - np.concatenate([[0.0], prepared.shift])
        variables = prepared.coordinates(pilot)
        largest = np.abs(variables).max(axis=0)
        tame = bool(((largest < EXTREME) & (largest > 1 / EXTREME)).all())
        if self.degree == 2 and tame and condition_of(variables, largest) <= KAPPA:
            return prepared
        return prepared.within(
            pilot_basis(variables, weights, self.basis.separate_targets, self.affine, self.degree)
        )

    def rescaled(self, sizes: Array) -> Self:
        """Scale columns that were zero in the pilot, and are unscaled so far, by ``sizes``."""
        columns = self.basis.map[int(self.affine) :]
        waiting = self.basis.unconfirmed & (np.count_nonzero(columns, axis=0) == 1)
        column_of = np.abs(columns[:, waiting]).argmax(axis=0)
        factors = np.ones(self.basis.map.shape[1])
        factors[waiting] = 1.0 / np.where(sizes > 0, sizes, 1.0)[column_of]
        other = self.within(replace(self.basis, map=self.basis.map * factors))
        if self.single is not None:
            other.single = self.single.rescaled(sizes)
        return other

    def resolution(self, block: Array) -> Array:
        sizes = self.basis.sizes(self.base_variables(block))
        least = sizes[sizes >= SMALL].min(initial=1.0)
        relative = 16 * EPS / np.maximum(np.minimum(sizes, least), EPS)  # rounding of a coordinate
        size = np.sqrt(np.square(self.coordinates(block)).mean(axis=0))
        noise = np.abs(self._features(size[:, None])[0])
        noise[: len(self.sets)] *= relative[self.sets].sum(axis=1)
        if self.total:
            noise[-1] = 0.0
        return np.asarray(noise)

    def coordinates(self, block: Array) -> Array:
        variables = self.base_variables(block)
        for map_ in self.maps:
            variables = variables @ map_
        return variables

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        powers = self._power_statistic(block, weights)
        return powers if self.single is None else (*powers, *self.single.statistic(block, weights))

    def add_statistic(self, sums: RunningSum, block: Array, weights: Array | None) -> None:
        if self.degree > 2 or self.single is not None:
            super().add_statistic(sums, block, weights)
        else:
            add_upper_squares(sums, self.coordinates(block), weights)

    def _power_statistic(self, block: Array, weights: Array | None) -> Statistic:
        if self.degree == 2 and not self.maps and block.shape[1] <= STACKED:
            gram = gram_with_ones(block, weights)
            return (gram if self.affine else gram[1:, 1:],)
        variables = self.coordinates(block)
        if self.degree == 2 and variables.shape[1] > STACKED:
            return (upper_squares(variables, weights),)
        gram = gram_matrix(variables, weights)
        return (gram,) if self.degree == 2 else (gram, self.products(variables, weights))

    def device_statistic(self, rows: Rows, progress: Progress | None = None) -> Statistic | None:
        if self.degree > 2 or self.single is not None:
            return None
        return (squares(rows, self.shift, self.affine, self.maps, progress=progress),)

    def fitted_moments(
        self, statistic: Statistic, total: float, last: bool = False
    ) -> FittedMoments:
        if self.single is None:
            return self._power_moments(statistic, total, last)
        fitted, also = (
            self._power_moments(statistic[:-2], total, last),
            self.single.fitted_moments(statistic[-2:], total, last),
        )
        if also.needs_pass and not fitted.needs_pass:  # a better shift, which the map takes along
            return replace(fitted, kernel=self._shifted(also.kernel), needs_pass=True)
        assert fitted.vanished is not None
        assert also.vanished is not None
        return replace(fitted, also_linear=also, vanished=fitted.vanished | also.vanished)

    def _shifted(self, single: Kernel) -> Self:
        """The same coordinates about another shift."""
        move = np.concatenate([[0.0], single.shift - self.shift])
        basis = replace(self.basis, map=self.basis.map.copy())
        basis.map[0] += move @ self.basis.map
        other = self.within(basis)
        other.single, other.shift = single, single.shift  # type: ignore[assignment]
        return other

    def _power_moments(self, statistic: Statistic, total: float, last: bool) -> FittedMoments:
        gram = self._whole_gram(statistic)
        gone, left, step, basis, poor, kappa = refine(
            self.basis, gram / total, self.degree, self.affine, self.null
        )
        if self.degree > 2:
            kernel, statistic = self._kept(statistic, gone, left, total)
            frame = kernel._frame(statistic, total) if self.degree % 2 == 0 else None
        else:
            means = gram[0] / total if self.affine else np.zeros(len(gram))
            plain_moments = None if self.maps else (means, np.diag(gram) / total)
            second = gram[np.ix_(~gone, ~gone)] if gone.any() else gram
            frame = Frame(
                left, not self.maps, second, second, total, 2, self.affine, self.count,
                plain_moments,
            )  # fmt: skip
            limit = CORRELATED * frame.sum_error * len(frame.half) if self.sharp else ACCURATE
            poor = poor or (kappa > 2 and frame.sums > limit)
            # the same products as in the pass, then the final step, so that rounding is the same
            if self.makes_features:
                kernel, statistic = self.within(basis, (*self.maps, step)), (step.T @ gram @ step,)
            else:
                kernel = self.within(left, self.maps)
        vanished = self._vanished(gram)
        if poor and not last:
            return FittedMoments(
                self.within(basis),
                np.zeros(0),
                statistic,
                total,
                needs_pass=True,
                vanished=vanished,
            )
        moments = kernel.read_moments(statistic[-1], total) if self.makes_features else np.zeros(0)
        return FittedMoments(kernel, moments, statistic, total, frame=frame, vanished=vanished)

    def _whole_gram(self, statistic: Statistic) -> Array:
        upper = self.degree == 2 and len(statistic[0]) > STACKED
        return mirrored(statistic[0]) if upper else statistic[0]

    def _frame(self, statistic: Statistic, total: float) -> Frame:
        """These coordinates, with their moments over all rows, for the proof; degrees above 2."""
        second, half = statistic[0], statistic[-1]
        # Coordinates that are still unscaled become about 1, by powers of two: nothing is rounded.
        rms = np.sqrt(np.maximum(np.diag(second) / total, 0.0))
        scale = np.exp2(-np.round(np.log2(np.where(rms > 0, rms, 1.0))))
        table = monomials(self.variables, self.degree // 2)
        factor = table.values(scale[:, None])[:, 0] * np.sqrt(table.multinomials)
        basis = replace(self.basis, map=self.basis.map * scale)
        second, half = second * np.outer(scale, scale), half * factor * factor[:, None]
        return Frame(basis, False, second, half, total, self.degree, self.affine, self.count)

    def _vanished(self, gram: Array) -> Flags:
        """Columns that are still unscaled and have no second moment that a double can hold."""
        return np.asarray(self.basis.map[int(self.affine) :, np.diag(gram) <= TINY].any(axis=1))

    def _kept(
        self, statistic: Statistic, gone: Flags, left: Basis, total: float
    ) -> tuple[Self, Statistic]:
        """For degrees above 2: the coordinates of the pass that do not vanish, and their part of
        the statistic.
        """
        if not gone.any():
            return self, statistic
        high = (self.degree + 1) // 2
        powers = [monomials(len(gone), degree).powers for degree in (high, self.degree - high)]
        # What is dropped is measured in p-th powers; they may underflow.
        lost = np.maximum(statistic[1][powers[0][gone], powers[1][gone]], LEAST).astype(float)
        before = len(left.excluded) - len(lost)
        norms = np.concatenate(
            [left.excluded.norms[:before], (lost / total) ** (1.0 / self.degree)]
        )
        norms[before:][np.diag(statistic[0])[gone] == 0] = 0.0
        kernel = self.within(replace(left, excluded=replace(left.excluded, norms=norms)))
        (rows, row_places), (columns, column_places) = (
            remaining_monomials(gone, degree) for degree in (high, self.degree - high)
        )
        products = np.empty((len(row_places), len(column_places)), dtype=statistic[1].dtype)
        products[np.ix_(row_places, column_places)] = statistic[1][np.ix_(rows, columns)]
        return kernel, (statistic[0][np.ix_(~gone, ~gone)], products)

    def feature_name(self, feature: int, columns: list[str]) -> str:
        return f"the loss along {columns[feature]}" if feature < len(columns) else "the loss"
