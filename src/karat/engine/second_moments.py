"""Second moments of all columns with the constant, at any width: what synthetic rows are made of.

    G = sum_i u_i w_i w_i',      w_i = (1, d_i - shift) T

Up to PILOTED columns the coordinates T are those of :mod:`karat.engine.powers`, chosen by a sample.
More columns are summed as they are.  A worst-case bound on the rounding of these sums is ``r g /
lambda`` relative to the loss (:mod:`karat.engine.frame`), with r coordinates, g the rounding of one
entry and lambda the smallest eigenvalue of their correlations C (docs/mathematics.md, Proposition
18). Where that is too much, some columns are nearly combinations of others.  Cholesky's
factorisation of C with pivoting finds them,

    P'C P = R'R,      w_K = w_J A + rest,      A = R_JJ^-1 R_JK,

and the columns K are replaced by their rests in another pass, in which these are as accurate as any
other column.  What is left of A in them shows in that pass, and is removed by the next.  If K would
be many columns (all depend on one factor, say), every column is replaced by what those before leave
of it, and lambda is about 1.

**Null directions.**  A rest that vanishes on every row is a direction N that the data does not
have: a factor whose levels add up to the constant.  Its column is a coordinate again, beside the
others, since to leave one level out makes lambda as small as 1 / levels.  Coordinates then are
redundant: every query z has the same loss as z + N beta, and one of these is orthogonal to all N in
units of the columns. So lambda is the smallest eigenvalue on the rest of the space, that of C + Q
Q', Q orthonormal null directions (Proposition 19).
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np
from scipy import sparse

from karat.engine.combinations import (
    Combinations,
    nearly_combined,
    null_directions,
    successive_rests,
)
from karat.engine.coordinates import Basis, Directions
from karat.engine.device import squares
from karat.engine.frame import Frame
from karat.engine.kernel import COMPLETE, FittedMoments
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.powers import Powers
from karat.engine.rows import Progress, Rows, Statistic, sparse_constants, useful_shift
from karat.engine.sparse_sums import sparse_squares
from karat.engine.sums import (
    MOST_ROWS,
    SHORT,
    RunningSum,
    exact_squares,
    gram_matrix,
    mirrored,
    squares_rounding,
    summed_product,
)
from karat.engine.tolerances import EPS, EXACT, EXTREME, NULL, TINY
from karat.engine.wide_proof import expected_rounding

MOSTLY_ZERO = 0.2  # share of numbers up to which sums of those that are not zero take less time
PILOTED = 64  # variables up to which a sample of the rows chooses coordinates,
PILOTED_AGAIN = 256  # or may do so where rows made in other coordinates are not exact
ENOUGH = 0.95 * EXACT  # rounding of sums, as a loss error, up to which no further pass is needed
# the same as NULL, for combinations of so many columns that their rounding is more
NULL_OF_MANY = 32 * EPS
# rows of a sample per variable from which on it shows combinations; and how much larger than a
# column the terms of a combination may be
SEVERAL = 4
CLEARLY = 8.0  # how many times more rounding than there can be a sample must show
MOST_REPLACED = 0.125  # share of the variables that a sample may replace
SMALL = 1e-6  # parts of a column that are not left to a sample
# distance of a mean from the shift, in spreads, from which on the pass is made again with another
# shift
FAR = 32.0


class SecondMoments(Powers):
    """Squares of affine forms of the columns.  Their moments are a matrix; no features are
    computed.
    """

    makes_features = False
    # below this share of the weight a mean serves as well, and a checkpoint then holds no record
    alone = 1 - 2.0**-40

    def __init__(self, columns: int, rows: int = MOST_ROWS, sparse: Flags | None = None) -> None:
        super().__init__(columns, 2, affine=True)
        # columns that are not shifted
        self.sparse = np.zeros(columns, dtype=bool) if sparse is None else sparse
        # values of those among them that are the same in every row
        self.constant = np.zeros(columns)
        self.null = NULL_OF_MANY if columns >= PILOTED_AGAIN else NULL
        # whether columns are summed as they are; fewer rows than columns are a complete sample
        self.wide = columns >= PILOTED and rows > columns + 1
        # whether a sample chooses coordinates, before the sums of all rows can do so
        self.sampled = True
        # whether sums are made with hardly any rounding, which takes three times as long
        self.exact = False
        self.back: Array | None = None  # (v, v): the inverse of the map, where that is known
        self.replaced: Indices = np.zeros(0, dtype=np.intp)  # coordinates that are rests of columns
        self.scale = np.ones(columns + 1)  # units of the columns, powers of two
        # means and mean squares of the variables
        self.plain_moments: tuple[Array, Array] | None = None
        # a square root of their covariance, if others than the replaced are independent
        self.known_root: Array | None = None
        # of the same rows, in coordinates of which none was replaced
        self.plain_gram: Array | None = None

    def _variables_are(self, count: int, separate_targets: int) -> None:
        self.variables, self.separate_targets, self.width = count, 0, 0
        self.product_shape = (count, count)

    def sharper(self) -> Self:
        other = super().sharper()
        other.exact = self.wide
        return other

    def for_other_rows(self) -> Self:
        """The same coordinates, without the sums of particular rows."""
        other = copy(self)
        other.plain_gram, other.known_root = None, None
        return other

    def no_moments(self, total: float) -> FittedMoments:
        """Empty moments, for rows whose sums are not known."""
        return FittedMoments(self, np.zeros(0), (), total)

    @staticmethod
    def of(rows: Rows) -> SecondMoments:
        """The kernel for some rows."""
        kinds = [np.full(part.shape[1], sparse.issparse(part)) for part in rows.parts]
        kernel = SecondMoments(rows.columns, len(rows), np.concatenate(kinds))
        kernel.constant = sparse_constants(rows)
        full = sum(
            part.nnz if sparse.issparse(part) else part.shape[0] * part.shape[1]
            for part in rows.parts
        )
        if full <= MOSTLY_ZERO * sum(part.shape[0] * part.shape[1] for part in rows.parts):
            kernel.wide = len(rows) > rows.columns + 1
            kernel.null = NULL_OF_MANY
        kernel.exact = kernel.wide and bool(kernel.sparse.any())  # as sums of sparse rows are
        if rows.on_device and len(rows) > COMPLETE:  # where a pass takes less time than a sample
            kernel.wide, kernel.sampled = True, False
        return kernel

    def prepare(self, pilot: Array, weights: Array | None) -> Self:
        if not self.wide:
            return super().prepare(pilot, weights)
        prepared = self.within(Basis.of(np.eye(self.columns + 1)), maps=())
        prepared.shift = np.where(
            self.sparse, self.constant, useful_shift(pilot[:, 1:], weights, alone=self.alone)
        )
        largest = np.abs(pilot - np.concatenate([[0.0], prepared.shift])).max(axis=0)
        extreme = (largest > 0) & ((largest >= EXTREME) | (largest <= 1 / EXTREME))
        if extreme.any():  # in units that are powers of two
            scale = np.where(
                extreme, np.exp2(-np.round(np.log2(np.where(largest > 0, largest, 1.0)))), 1.0
            )
            prepared = prepared.mapped(np.diag(scale), np.diag(1 / scale), np.flatnonzero(extreme))
            prepared.scale = scale
            return prepared
        return prepared._by_pilot(pilot, weights) if self.sampled else prepared

    def piloted(self) -> SecondMoments | None:
        """The kernel that chooses coordinates by a sample, if this one could have done so but did
        not; else None.
        """
        if not self.wide or self.columns >= PILOTED_AGAIN:
            return None
        other = SecondMoments(self.columns, sparse=self.sparse)
        other.wide, other.sharp = False, self.sharp
        return other

    def _by_pilot(self, pilot: Array, weights: Array | None) -> Self:
        """The same kernel, with columns replaced that are nearly combinations of others according
        to a sample.

        A target is usually such a column, and a pass is saved.  What the sample does not show
        clearly is left to the passes.
        """
        if len(pilot) < SEVERAL * self.variables or self.sparse.any():
            return self
        thinned = slice(None, None, len(pilot) // (SEVERAL * self.variables))
        gram = gram_matrix(
            pilot[thinned] - np.concatenate([[0.0], self.shift]),
            None if weights is None else weights[thinned],
        )
        size = np.sqrt(np.diag(gram) / gram[0, 0])
        if not (np.isfinite(size).all() and (size > 0).all()):
            return self
        error = 2 * squares_rounding(self.count, self.variables, self.degree + 2)
        combined = nearly_combined(
            gram, size, size > 0, 2 * CLEARLY * error / ENOUGH, self.replaced
        )
        if combined is None or len(combined.last) > MOST_REPLACED * self.variables:
            return self
        better = self._without(combined)
        assert better.back is not None
        left = np.diag(better.basis.map.T @ gram @ better.basis.map) / gram[0, 0]
        rest = np.sqrt(np.maximum(left, 0.0))
        terms = np.abs(better.back[:, better.replaced]) * rest[:, None] / size[better.replaced]
        # Neither null directions, nor combinations of terms that cancel: their moments follow from
        # those of the rests.
        return better if (rest > SMALL * size).all() and (terms <= SEVERAL).all() else self

    def mapped(self, map_: Array, back: Array, replaced: Indices) -> Self:
        """Coordinates that are variables except for those ``replaced``."""
        other = self.within(Basis.of(map_))
        other.back, other.replaced = back, replaced
        return other

    def coordinates(self, block: Array) -> Array:
        if not self.wide:
            return super().coordinates(block)
        if not len(self.replaced):
            return block
        values = block.copy()
        values[:, self.replaced] = block @ self.basis.map[:, self.replaced]
        return values

    def _power_statistic(self, block: Array, weights: Array | None) -> Statistic:
        if self.exact:
            return (exact_squares(self.coordinates(block), weights),)
        if not self._only_rests:
            return super()._power_statistic(block, weights)
        values = self.coordinates(block)
        rests = values[:, self.replaced]
        return (
            summed_product(values, rests if weights is None else rests * weights[:, None], SHORT),
        )

    def add_statistic(self, sums: RunningSum, block: Array, weights: Array | None) -> None:
        if self.exact or self._only_rests:
            sums.add(self.statistic(block, weights))
        else:
            super().add_statistic(sums, block, weights)

    @property
    def _only_rests(self) -> bool:
        """Whether a pass only needs products with the rests of columns, because all others are
        known.
        """
        return (
            self.plain_gram is not None
            and not self.exact
            and 2 * len(self.replaced) <= len(self.plain_gram)
        )

    def _whole_gram(self, statistic: Statistic) -> Array:
        if not self.wide:
            return super()._whole_gram(statistic)
        if len(statistic[0]) == statistic[0].shape[1]:
            return mirrored(statistic[0])
        assert self.plain_gram is not None
        gram, products = self.plain_gram.copy(), statistic[0].copy()
        products[self.replaced] = (products[self.replaced] + products[self.replaced].T) / 2
        gram[:, self.replaced], gram[self.replaced] = products, products.T
        return gram

    def sparse_statistic(self, rows: Rows) -> Statistic | None:
        if not self.wide:
            return None
        return (sparse_squares(rows, self.shift, self.basis.map, self.replaced, self.plain_gram),)

    def device_statistic(self, rows: Rows, progress: Progress | None = None) -> Statistic | None:
        if not self.wide or not len(self.replaced):
            return super().device_statistic(rows, progress)
        return (squares(rows, self.shift, True, (self.basis.map,), self.replaced, progress),)

    def fitted_moments(
        self, statistic: Statistic, total: float, last: bool = False
    ) -> FittedMoments:
        if self.wide:
            fitted = self._wide_moments(self._whole_gram(statistic), total, last)
        else:
            fitted = super().fitted_moments(statistic, total, last)
        frame = fitted.frame
        if (
            last
            or fitted.needs_pass
            or frame is None
            or self.plain_moments is not None
            or (self.scale != 1).any()
        ):
            return fitted
        # A sample may have missed the rows that have most of the weight.
        if not (np.abs(frame.means[1:]) > FAR * frame.spreads[1:]).any():
            return fitted
        return replace(fitted, kernel=self._moved(frame.means[1:]), needs_pass=True)

    def _moved(self, means: Array) -> Self:
        """The same coordinates about the means of the columns."""
        other = self
        if self.wide:
            other = self.within(Basis.of(np.eye(self.columns + 1)), maps=())
            other.back, other.replaced = None, self.replaced[:0]
        elif self.maps:
            basis = replace(self.basis, map=self.basis.map.copy())
            basis.map[0] += means @ basis.map[1:]
            other = self.within(basis)
        other = copy(other)
        other.shift = self.shift + means
        return other

    def _wide_moments(self, gram: Array, total: float, last: bool) -> FittedMoments:
        """The sums in these coordinates; or better coordinates, if some of these nearly depend on
        others.
        """
        size = np.sqrt(np.maximum(np.diag(gram), 0.0) / total)
        vanished = self._vanished(gram)
        moments = self.plain_moments
        if moments is None:  # of the first pass, in which most coordinates are variables
            moments = gram[0] / total / self.scale, np.square(size / self.scale)
            if self.back is not None and len(self.replaced) and (self.scale == 1).all():
                along = self.back[:, self.replaced]
                moments[0][self.replaced] = gram[0] @ along / total
                moments[1][self.replaced] = np.einsum("ij,ij->j", along, gram @ along) / total
        zero = size == 0
        null = np.zeros(len(size), dtype=bool)
        if self.plain_moments is not None:
            null[self.replaced] = (
                size[self.replaced] <= self.null * (self.scale * np.sqrt(moments[1]))[self.replaced]
            )
            null &= moments[1] > 0
        frame = self._wide_frame(gram, total, zero & ~null, null, moments)
        done = self.for_other_rows()
        if last or (expected_rounding(frame) if frame.many else frame.sums) <= ENOUGH:
            return FittedMoments(done, np.zeros(0), (gram,), total, frame=frame, vanished=vanished)
        better = self._better(gram, size, zero | null, frame.sum_error)
        if better is None and self.exact:
            return FittedMoments(done, np.zeros(0), (gram,), total, frame=frame, vanished=vanished)
        if better is None:
            better = copy(self)
            better.exact = True
        else:
            better.plain_moments = moments
            better.plain_gram = gram if self.plain_gram is None else self.plain_gram
        return FittedMoments(
            better, np.zeros(0), (gram,), total, needs_pass=True, vanished=vanished
        )

    def _wide_frame(
        self, gram: Array, total: float, zero: Flags, null: Flags, moments: tuple[Array, Array]
    ) -> Frame:
        """The frame of the proof: without coordinates that are zero; null directions are replaced
        by their columns.
        """
        map_, back = self.basis.map, self.back
        redundant, excluded = None, Directions.none(len(map_))
        if null.any():
            assert back is not None
            products, directions = gram[np.ix_(null, null)] / total, map_[:, null]
            # In place of w_k, which is zero, comes s_k e_k = T M_k; the inverse of that map is M^-1
            # V.
            units = np.diag(self.scale[null])
            combined = back[:, null] @ units
            map_, back, gram = map_.copy(), back.copy(), gram.copy()
            map_[:, null] = 0.0
            map_[np.ix_(null, null)] = units
            back[null] = np.linalg.solve(combined[null], back[null])
            combined[null] = 0.0
            back -= combined @ back[null]
            products_with = gram @ combined
            gram[:, null], gram[null] = products_with, products_with.T
            gram[np.ix_(null, null)] = combined.T @ products_with
            redundant, excluded, back = null_directions(map_, back, gram, directions, products)
        if zero.any():
            count, none = len(map_), np.zeros((int(zero.sum()), int(zero.sum())))
            excluded = excluded.plus(np.eye(count)[:, zero], np.diag(none), np.diag(none), none)
            whole = np.eye(count) if back is None else back.copy()
            whole[:, zero] = 0.0  # no coordinate has a part of them, not even of rounding
            back = np.vstack([whole[:count][~zero], whole[count:], np.eye(count)[zero]])
            map_, gram = map_[:, ~zero], gram[np.ix_(~zero, ~zero)]
            redundant = None if redundant is None else redundant[~zero]
        plain = bool(null[self.replaced].all()) and (self.scale == 1).all()
        basis = Basis(map_, np.zeros(map_.shape[1], dtype=bool), 0, excluded, back)
        root = self.known_root if plain and null.any() and not zero.any() else None
        return Frame(
            basis, plain, gram, gram, total, 2, True, self.count, moments, self.exact, redundant,
            root,
        )  # fmt: skip

    def _vanished(self, gram: Array) -> Flags:
        if not self.wide:
            return super()._vanished(gram)
        if self.plain_moments is not None:
            return np.zeros(self.columns, dtype=bool)
        vanished = np.diag(gram) <= TINY
        if (self.scale == 1).all():
            vanished[self.replaced] = False  # rests, of columns that are not zero
        return np.asarray(vanished[1:] & (self.constant == 0))

    def rescaled(self, sizes: Array) -> Self:
        if not self.wide:
            return super().rescaled(sizes)
        units = np.concatenate([[1.0], sizes])
        scale = np.where(
            units > 0, np.exp2(-np.round(np.log2(np.where(units > 0, units, 1.0)))), self.scale
        )
        scale[0] = 1.0
        other = self.mapped(np.diag(scale), np.diag(1 / scale), np.flatnonzero(scale != 1))
        other.scale = scale
        return other

    def _better(self, gram: Array, size: Array, out: Flags, error: float) -> Self | None:
        """Coordinates for the next pass, in which fewer columns nearly depend on each other.

        Rests of a few columns cost a fraction of a pass.  If more are needed, every column is
        replaced by what those before leave of it.
        """
        combined = nearly_combined(gram, size, ~out, 2 * error / ENOUGH, self.replaced)
        few = MOST_REPLACED * self.variables
        if combined is not None and combined.enough and len(combined.last) <= few:
            return self._without(combined)
        if not self.exact and len(self.replaced) < self.columns:
            maps = successive_rests(gram, size, ~out)
            if maps is not None:
                back = maps[1] if self.back is None else maps[1] @ self.back
                return self.mapped(self.basis.map @ maps[0], back, np.arange(1, len(gram)))
        return None if combined is None else self._without(combined)

    def _without(self, combined: Combinations) -> Self:
        """Coordinates in which columns that are combinations of others are replaced by their
        rests.
        """
        first, last, coefficients, _, root = combined
        map_, along = self.basis.map.copy(), np.zeros((self.variables, len(last)))
        along[first] = coefficients
        map_[:, last] -= self.basis.map @ along
        if self.back is None:
            back = np.eye(len(map_))
            back[:, last] += along
        else:
            back = self.back + along @ self.back[last]
        better = self.mapped(map_, back, np.union1d(self.replaced, last))
        if self.back is None:
            better.known_root = root
        return better
