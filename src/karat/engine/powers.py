"""The kernel of powers of one linear form, in whitened coordinates.

    f(q) = sum_i u_i (d_i . z)^p,      features sqrt(c_t) W^t with W = [1 | D - shift] map.

Where every polynomial is a query, rows are still sought in these coordinates first: then powers of small directions, which
rounding drowns among the monomials of single columns, are kept as well.

For even p = 2h the moments form a Gram matrix, ``f(q) = v' M v`` with v the degree-h monomials of the query in whitened
coordinates and ``M = P_h' diag(u) P_h``; :mod:`karat.engine.proof` measures a coreset by it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from karat.engine import linalg
from karat.engine.coordinates import Basis, condition_of, evidence, is_real, pilot_basis, refine, restored, vanishing, without
from karat.engine.kernel import Flags, Kernel, Settled, Statistic
from karat.engine.linalg import Array, Indices
from karat.engine.monomials import monomials
from karat.engine.polynomial import Polynomial, Polynomials
from karat.engine.rows import Rows, useful_shift
from karat.engine.sweep import column_sizes, sweep
from karat.engine.tolerances import EPS, EXTREME, KAPPA, NOTHING, SMALL, TINY


class Powers(Polynomial):
    """Monomials of ``degree`` in whitened columns (and 1 if ``affine``); see :class:`Polynomial`.

    Parameters
    ----------
    polynomials : bool
        Every polynomial is a query, so the moments are also summed in single columns.  An odd degree needs it.
    """

    linear: ClassVar[bool] = False

    def __init__(
        self, columns: int, degree: int, *, affine: bool, total: bool = True, apart: int = 0, polynomials: bool = False
    ) -> None:
        super().__init__(columns, degree, affine=affine, total=total, apart=apart)
        self.single = Polynomials(columns, degree, affine=affine, total=total) if polynomials else None
        self.basis = Basis.identity(self.variables, self.apart)
        self.mapped = False
        self.before: Array | None = None  # the map of the pass, and
        self.step: Array | None = None  # the whitening after it, for degree 2

    def within(self, basis: Basis, *, mapped: bool = True, before: Array | None = None, step: Array | None = None) -> Self:
        """The same kernel in other coordinates."""
        other = self._copy()
        other.basis, other.mapped, other.before, other.step = basis, mapped, before, step
        other._variables_are(basis.map.shape[1], basis.apart)
        return other

    def prepare(self, pilot: Array, weights: Array | None, complete: bool) -> Self:
        prepared = self.within(Basis.identity(self.columns + self.affine, self.apart), mapped=False)
        if self.single is not None:
            prepared.single = self.single.prepare(pilot, weights, complete)
            prepared.shift = prepared.single.shift
        elif self.affine:
            prepared.shift = useful_shift(pilot[:, 1:], weights)
        variables = prepared.coordinates(pilot - np.concatenate([[0.0], prepared.shift]))
        largest = np.abs(variables).max(axis=0)
        tame = bool(((largest < EXTREME) & (largest > 1 / EXTREME)).all())
        if self.degree == 2 and tame and condition_of(variables) <= KAPPA:
            return prepared
        return prepared.within(pilot_basis(variables, weights, self.basis.apart, self.affine, complete))

    def rescaled(self, sizes: Array) -> Self:
        """Columns that were zero in the pilot wait in units of their own; ``sizes`` are those units."""
        scale = np.where(sizes > 0, 1.0 / np.where(sizes > 0, sizes, 1.0), 1.0)
        scale = np.concatenate([np.ones(int(self.affine)), scale])
        waiting = self.basis.loose & (np.count_nonzero(self.basis.map[int(self.affine) :], axis=0) == 1)
        which = np.abs(self.basis.map[int(self.affine) :, waiting]).argmax(axis=0) + int(self.affine)
        factors = np.ones(self.basis.map.shape[1])
        factors[waiting] = scale[which]
        other = self.within(replace(self.basis, map=self.basis.map * factors))
        if self.single is not None:
            other.single = self.single.rescaled(sizes)
        return other

    def resolution(self, block: Array) -> Array:
        sizes = self.basis.sizes(block if self.affine else block[:, 1:])
        least = sizes[sizes >= SMALL].min(initial=1.0)
        relative = 16 * EPS / np.maximum(np.minimum(sizes, least), EPS)  # rounding of a coordinate
        size = np.sqrt(np.square(self.coordinates(block)).mean(axis=0))
        noise = np.abs(self._features(size[:, None])[0])
        noise[: len(self.sets)] *= relative[self.sets].sum(axis=1)
        if self.total:
            noise[-1] = 0.0
        return np.asarray(noise)

    def coordinates(self, block: Array) -> Array:
        variables = block if self.affine else block[:, 1:]
        if self.step is not None:  # the way the pass went: its map, then the final step, so that rounding is the same
            return linalg.mapped(variables if self.before is None else linalg.mapped(variables, self.before), self.step)
        return linalg.mapped(variables, self.basis.map) if self.mapped else variables

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        own = self._own_statistic(block, weights)
        return own if self.single is None else (*own, *self.single.statistic(block, weights))

    def _own_statistic(self, block: Array, weights: Array | None) -> Statistic:
        if self.degree == 2 and not self.mapped:
            gram = linalg.gram_with_ones(block, weights)
            return (gram if self.affine else gram[1:, 1:],)
        variables = self.coordinates(block)
        gram = linalg.gram(variables, weights)
        return (gram,) if self.degree == 2 else (gram, self.products(variables, weights))

    def settle(self, statistic: Statistic, total: float, last: bool = False) -> Settled:
        if self.single is None:
            return self._settle(statistic, total, last)
        settled, also = self._settle(statistic[:-2], total, last), self.single.settle(statistic[-2:], total, last)
        if also.again and not settled.again:  # a better shift, which the map takes along
            return replace(settled, kernel=self._shifted(also.kernel), again=True)
        assert settled.vanished is not None
        assert also.vanished is not None
        return replace(settled, also=also, vanished=settled.vanished | also.vanished)

    def _shifted(self, single: Kernel) -> Self:
        """The same coordinates of columns that are shifted otherwise."""
        move = np.concatenate([[0.0], single.shift - self.shift])
        basis = replace(self.basis, map=self.basis.map.copy())
        basis.map[0] += move @ self.basis.map
        other = self.within(basis, mapped=True)
        other.single, other.shift = single, single.shift  # type: ignore[assignment]
        return other

    def _settle(self, statistic: Statistic, total: float, last: bool) -> Settled:
        gram = statistic[0]
        step, basis, poor, kappa = refine(self.basis, gram / total, self.degree, self.affine)
        if poor and not last:
            vanished = self._vanished(gram)
            return Settled(self.within(basis), np.zeros(0), statistic, total, again=True, vanished=vanished)
        if self.degree == 2:
            before = self.basis.map if self.mapped else None
            kernel = self.within(basis, before=before, step=step)
            statistic = (step.T @ gram @ step,)
        else:
            kernel, statistic = self._kept(statistic, total)
        moments = kernel.read_moments(statistic[-1], total)
        return Settled(
            kernel, moments, statistic, total, rounding=4 * EPS * kappa**self.degree, excluded=basis.excluded,
            vanished=self._vanished(gram),
        )  # fmt: skip

    def _vanished(self, gram: Array) -> Flags:
        """Columns that wait in units of their own and have no second moment that a double can hold."""
        alone = np.zeros(self.columns, dtype=bool)
        lead = int(self.affine)
        small = np.diag(gram) <= TINY
        for k in np.flatnonzero(small):
            alone[np.flatnonzero(self.basis.map[lead:, k])] = True
        return alone

    def _kept(self, statistic: Statistic, total: float) -> tuple[Self, Statistic]:
        """Degrees above 2: the coordinates of the pass without those that vanish, and their part of the statistic."""
        gone, sizes = vanishing(self.basis, statistic[0] / total)
        if not gone.any():
            return self, statistic
        kernel = self.within(without(self.basis, gone, sizes))
        high = (self.degree + 1) // 2
        (rows, left), (columns, right) = (_places(gone, degree) for degree in (high, self.degree - high))
        products = np.empty((len(left), len(right)))
        products[np.ix_(left, right)] = statistic[1][np.ix_(rows, columns)]
        return kernel, (statistic[0][np.ix_(~gone, ~gone)], products)

    def dropped(self, sizes: Array) -> Array:
        """The directions that were dropped (v, e), without entries that are rounding of zero; ``sizes`` of the variables."""
        vectors = self.basis.excluded.vectors
        terms = sizes[:, None] * np.abs(vectors)
        vectors = np.where(terms >= NOTHING * terms.max(axis=0, initial=0.0), vectors, 0.0)
        return np.asarray(vectors / np.abs(vectors).max(axis=0))

    def look_again(self, rows: Rows) -> Self | None:
        """The kernel with those dropped directions again that a row shows; None if all of them vanish in every row."""
        vectors = self.dropped(np.concatenate([np.ones(int(self.affine)), column_sizes(rows, self.shift)]))

        def products(block: Array, weights: Array | None, _: int) -> Array:
            values = (block if self.affine else block[:, 1:]) @ vectors
            return self.coordinates(block).T @ (values if weights is None else values * weights[:, None])

        def visit(block: Array, weights: Array | None, _: int) -> Array:
            return evidence(block if self.affine else block[:, 1:], vectors, weights)

        # What rounding has left of other directions in them would hide that they vanish where these are small.
        vectors = vectors - self.basis.map @ (sweep(rows, self.shift, products, np.add, vectors.shape) / rows.total)
        found = sweep(rows, self.shift, visit, np.add, vectors.shape)
        shown = is_real(found)
        if not shown.any():
            return None
        basis = replace(self.basis, excluded=replace(self.basis.excluded, vectors=vectors))
        return self.within(restored(basis, shown, np.sqrt(found[2, shown] / rows.total)))

    def loose_evidence(self, rows: Rows) -> Array:
        """What rows say about the coordinates that may still be dropped (3, r)."""
        loose = self.basis.loose
        vectors = self.basis.map[:, loose]
        found = np.zeros((3, len(loose)))
        if loose.any():

            def visit(block: Array, weights: Array | None, _: int) -> Array:
                return evidence(block if self.affine else block[:, 1:], vectors, weights)

            found[:, loose] = sweep(rows, self.shift, visit, np.add, vectors.shape)
        return found

    def protecting(self, found: Array) -> Self:
        """The kernel that drops no direction but loose ones that no row shows."""
        other = self._copy()
        other.basis = replace(self.basis, real=~self.basis.loose | is_real(found))
        return other

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

    def unmixed(self) -> Kernel:
        return Polynomials(self.columns, self.degree, affine=self.affine, total=self.total)

    def feature_name(self, feature: int, columns: list[str]) -> str:
        return "a product of combined columns"

    def half_gram(self, coordinates: Array, weights: Array) -> Array:
        """``P_h' diag(weights) P_h`` of coordinates, h = degree / 2, in isometric monomials."""
        half = monomials(self.variables, self.degree // 2)
        values = half.values(np.ascontiguousarray(coordinates.T)) * np.sqrt(half.multinomials)[:, None]
        return np.asarray((values * weights) @ values.T)


def _places(gone: Flags, degree: int) -> tuple[Flags, Indices]:
    """Which monomials hold no variable that is gone, and their places among those of the variables that are left."""
    table, left = monomials(len(gone), degree), monomials(int((~gone).sum()), degree)
    stays = np.asarray(~gone[table.indices].any(axis=1))
    places = (np.cumsum(~gone) - 1)[table.indices[stays]]
    return stays, np.array([left.position[tuple(t)] for t in places.tolist()], dtype=np.intp)
