"""The frame of a proof: coordinates in which moments were summed, and the sizes of the columns
behind them.

Rows are ``b_i = (1, d_i - c)`` (without the 1 where there is no intercept), queries ``z``, the loss
is ``f(z) = sum_i u_i (b_i.z)^p``, and ``|a| = (sum_i u_i |a_i|^p / U)^(1/p)`` is the p-mean of a
column.  The sums were made in coordinates ``w_i = b_i T``.  With N the directions that were dropped
and ``[V; W] = [T N]^-1``,

    b_i.z  =  w_i . alpha  +  (b_i N) . beta,          alpha = V z,   beta = W z.

Whatever is not in the computed coordinates is an error of at most ``sum_j k_j |z_j|`` in the
p-mean, with numbers k_j:

    dropped directions       k = sum_e |N_e| |W_e|            (:meth:`Frame.dropped`)
    rounding of coordinates  k = (v + 1) eps tau |[V; W]|,    (:meth:`Frame.rounded`)
                             tau = sizes |[T N]|,  v the nonzero entries of a column of [T N]

The claim speaks of the sizes sigma_j of the columns about their means, and has no term for the
constant, j = 0.  By Jensen's inequality ``|z_0 + sum_j z_j (m_j - c_j)| <= (f / U)^(1/p)``, m the
means, so that

    sum_j k_j |z_j|  <=  k_0 (f / U)^(1/p)  +  max_j (k_j + k_0 |m_j - c_j|) / sigma_j  S(z),
    S = sum_(j > 0) |z_j| sigma_j:

the first is a relative change of f, the second a change of the columns by a fraction of their sizes
(:func:`karat.engine.coordinates.moved_columns`).  Upper bounds of sizes and lower bounds of sigma
are taken from the moments themselves: ``b_j = w . V_j + (b N) . W_j``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import comb

import numpy as np

from karat.engine import linalg
from karat.engine.coordinates import Basis, moved_columns
from karat.engine.kernel import monomials
from karat.engine.linalg import Array
from karat.engine.rows import power_means
from karat.engine.sums import (
    FINE,
    FINE_BLOCK,
    MOST_ROWS,
    SHORTEST,
    STACKED,
    TOGETHER,
    WIDE,
    exact_squares,
    mirrored,
    piece_rows,
    squares_rounding,
    sum_rounding,
    summed_product,
    sums_in_extended,
    upper_squares,
)
from karat.engine.tolerances import EPS, TINY

KEPT = 2**15  # rows that may be kept
SEVERAL = 8  # dropped directions from which on their sizes are not added up
NEGLIGIBLE = 5e-12  # error up to which a simple bound on it will do
# coordinates from which on the smallest eigenvalue of their correlations bounds the rounding of
# sums
MANY = 200


@dataclass(frozen=True)
class Frame:
    """Sums over all rows of the powers of coordinates."""

    basis: Basis  # from the variables b to the coordinates w, and what was dropped
    plain: bool  # whether the coordinates are variables themselves
    second: Array  # (r, r): sum_i u_i w_i w_i'
    # (K, K): the same of the isometric monomials of degree p / 2, in the precision in which they
    # were summed; for p = 2 equal
    summed: Array
    total: float  # U
    degree: int  # p
    affine: bool  # whether b has the constant, which then is the first coordinate too
    count: int = MOST_ROWS  # rows, if they have been counted
    # means and mean squares of the variables b, where they were summed
    plain_moments: tuple[Array, Array] | None = None
    exact: bool = False  # whether the sums were made by :func:`karat.engine.sums.exact_squares`
    # (r, e): orthonormal null directions of redundant coordinates, in units of their sizes
    null: Array | None = None
    # (k, r - 1): a square root of the covariance, up to rounding, where one is known
    root: Array | None = None

    def over(self, rows: int) -> Frame:
        """The same frame for another number of rows, on which the bounds on rounding depend."""
        return replace(self, count=rows)

    @cached_property
    def half(self) -> Array:
        """``summed``, in double precision."""
        return np.asarray(self.summed, dtype=float)

    def coordinates(self, variables: Array) -> Array:
        """The coordinates w of rows b, computed as in the pass."""
        if self.plain:
            there = self.basis.map.any(axis=1)
            return variables if there.all() else variables[:, there]
        return (
            linalg.product_with_units(variables, self.basis.map)
            if self.many
            else variables @ self.basis.map
        )

    def difference(self, coordinates: Array, weights: Array) -> Array:
        """``half`` of the given rows minus that of all rows."""
        if self.wide:
            if self.exact:
                return mirrored(exact_squares(coordinates, weights)) - self.half
            return mirrored(upper_squares(coordinates, weights, FINE, FINE_BLOCK)) - self.half
        table = monomials(self.basis.map.shape[1], self.degree // 2)
        rows = np.ascontiguousarray(coordinates.T)
        values = table.values(
            rows if not self._extended(len(weights)) else rows.astype(np.longdouble)
        )
        values = (values * np.sqrt(table.multinomials)[:, None]).T
        kept = summed_product(values, values * weights[:, None], SHORTEST)
        return np.asarray(kept - self.summed, dtype=float)

    def _extended(self, rows: int) -> bool:
        return self.degree > 2 and sums_in_extended(rows, len(self.half), len(self.half))

    @property
    def wide(self) -> bool:
        """Whether there are so many coordinates that sums and norms are those of large matrices."""
        return self.degree == 2 and len(self.half) > STACKED

    @property
    def many(self) -> bool:
        """Whether the smallest eigenvalue of the correlations bounds the rounding of sums."""
        return self.wide and len(self.half) > MANY and len(self.targets) == 1

    @cached_property
    def sum_error(self) -> float:
        """Bound on the errors of entries of ``half``, for all rows and kept rows together, per
        roots of its diagonal.
        """
        return self.sum_error_of(KEPT)

    def sum_error_of(self, kept: int) -> float:
        """The same for a given number of kept rows."""
        return sum(self.sum_errors(kept))

    def sum_errors(self, kept: int) -> tuple[float, float]:
        """The same, separately for all rows and for a given number of kept rows."""
        half = self.degree // 2
        # columns of the products, with those that were dropped
        summed = comb(len(self.basis.map) + half - 1, half)
        # products, a weight or twice its root, and roots of multinomial coefficients
        roundings = self.degree + 2
        if self.degree == 2:
            # a sample may have dropped some before the pass, and pieces depend on how many are left
            full = max(
                squares_rounding(self.count, columns, roundings, self.exact)
                for columns in (summed, len(self.second))
            )
        else:
            full = sum_rounding(self.count, roundings, piece_rows(summed, self.degree))
        if self.wide and self.exact:
            return full, squares_rounding(kept, summed, roundings, exact=True)
        if self.wide:
            return full, 0.5 * EPS * (roundings + FINE + FINE_BLOCK // FINE + TOGETHER)
        rest = sum_rounding(min(self.count, kept), roundings, SHORTEST)
        finer = WIDE / EPS
        return full * (1.0 if self.summed.dtype == float else finer), rest * (
            finer if self._extended(kept) else 1.0
        )

    def rounding_of_sums(
        self, base: Array, error: float, among: list[int] | slice = slice(None)
    ) -> float:
        """What rounding of the sums may add to an error relative to ``base``, a matrix like
        ``half`` or a part of it.

        Entries are off by ``error`` times the roots d of the diagonal: ``|v'E v| <= error
        (d.|v|)^2``, which is at most ``error d'|B^-1|d`` times ``v'B v``.
        """
        root = np.sqrt(np.maximum(np.diag(self.half)[among], TINY))
        scaled = base / root / root[:, None]
        # |v'E v| <= error (sum |v|)^2 <= error r |v|^2 as well (Proposition 18)
        if len(scaled) > MANY:
            return error * len(scaled) / self.least if self.least > 0 else np.inf
        try:
            return error * float(np.abs(np.linalg.inv(scaled)).sum())
        except np.linalg.LinAlgError:
            return np.inf

    @cached_property
    def sums(self) -> float:
        """The same relative to the loss itself, for p = 2."""
        if self.null is not None or len(self.targets) == 1:
            return self.rounding_of_sums(self.base, self.sum_error)
        return max(
            self.rounding_of_sums(self.half[np.ix_(among, among)], self.sum_error, among)
            for among in self.targets
        )

    @cached_property
    def _factored(self) -> tuple[Array | None, float, float]:
        """For :attr:`base`, scaled to a unit diagonal: its Cholesky factor (None if there is none),
        a lower bound of its eigenvalues, its norm.
        """
        size = np.sqrt(np.maximum(np.diag(self.base), TINY))
        scaled = self.base / size
        scaled /= size[:, None]
        norm = float(np.linalg.norm(scaled))
        factor = linalg.cholesky(scaled, linalg.lost_by_factoring(len(scaled)))
        return factor, 0.0 if factor is None else linalg.least_eigenvalue(scaled, factor), norm

    @property
    def factor(self) -> Array | None:
        """Cholesky's factor of :attr:`base`, scaled to a unit diagonal; None if it has none."""
        return self._factored[0]

    @property
    def covariance_root(self) -> Array | None:
        """A square root of the covariance of all coordinates but the constant; None if unknown."""
        if self.root is not None or not self.many or self.null is not None or not self.affine:
            return self.root
        # Cholesky's first step subtracts the means; digits are lost where they exceed the spreads.
        if self.factor is None or np.abs(self.factor[0, 1:]).max() > 0.7:
            return None
        return np.asarray(self.factor[1:, 1:] * np.sqrt(np.diag(self.half)[1:] / self.total))

    @property
    def least(self) -> float:
        """A lower bound of the smallest eigenvalue of the same matrix; 0 if there is none."""
        return self._factored[1]

    @property
    def correlation_norm(self) -> float:
        """The Frobenius norm of the same matrix."""
        return self._factored[2]

    def relative_norm(self, difference: Array) -> float:
        """The norm of an error of ``half`` relative to the loss."""
        if len(difference) <= MANY:
            return linalg.relative_norm(difference, self.base)
        if not self.least > 0 or not np.isfinite(difference).all():
            return np.inf
        size = np.sqrt(np.maximum(np.diag(self.base), TINY))
        scaled = difference / size
        scaled /= size[:, None]
        norm = float(np.linalg.norm(scaled)) / self.least
        if norm <= NEGLIGIBLE:  # sharper norms cost more than the rest of the proof
            return norm
        assert self.factor is not None
        return min(norm, linalg.whitened_norm(scaled, self.factor))

    @cached_property
    def base(self) -> Array:
        """The loss as a matrix: ``half``, made definite along null directions, which no query
        needs.
        """
        if self.null is None:
            return self.half
        scaled = self.null * np.sqrt(np.diag(self.half))[:, None]
        base = scaled @ scaled.T
        base += self.half
        return np.asarray(base)

    @cached_property
    def targets(self) -> list[list[int]]:
        """The coordinates that queries combine: all, or those of one target at a time."""
        count, separate = self.basis.map.shape[1], self.basis.separate_targets
        inner = list(range(count - separate))
        return [[*inner, t] for t in range(count - separate, count)] or [inner]

    @cached_property
    def inverse(self) -> Array:
        """``[T N]^-1`` (v, v): coordinates first, then dropped directions; infinite if it does not
        exist.
        """
        if self.basis.inverse is not None:
            return self.basis.inverse
        if self.plain:  # an order of the variables
            return np.hstack([self.basis.map, self.basis.excluded.vectors]).T
        return self.basis.joint_inverse()

    @cached_property
    def means(self) -> Array:
        """Means of the variables b, up to what was dropped."""
        if not self.affine:
            return np.zeros(len(self.inverse))
        if self.plain_moments is not None:
            return self.plain_moments[0]
        return np.asarray(self.second[0] / self.total @ self.inverse[: len(self.second)])

    @cached_property
    def sizes(self) -> Array:
        """Upper bounds of the p-means of the variables b."""
        if self.plain_moments is not None:
            return np.asarray(np.sqrt(self.plain_moments[1] * (1 + self.sum_error)))
        return (
            self._power_means(self.inverse[: len(self.second)], self.half, self.degree)[1]
            + self._unseen
        )

    @cached_property
    def spreads(self) -> Array:
        """Lower bounds of the p-means of the variables b about their means, or about 0 where there
        is no constant.
        """
        if self.plain_moments is not None:
            mean, square = self.plain_moments
            error = (self.sum_error + 4 * EPS) * np.square(np.sqrt(square) + np.abs(mean))
            return np.asarray(np.sqrt(np.maximum(square - np.square(mean) - error, 0.0)))
        queries = self.inverse[: len(self.second)].copy()
        if self.affine:
            queries[0] -= self.means
        lower = self._power_means(queries, self.second, 2)[0]
        if self.degree > 2:  # the root mean square is smaller, and more accurate
            lower = np.maximum(lower, self._power_means(queries, self.half, self.degree)[0])
        return np.maximum(lower - self._unseen, 0.0)

    @cached_property
    def _unseen(self) -> Array:
        """The p-means of what the variables b have along dropped directions."""
        return np.asarray(self.basis.excluded.norms @ np.abs(self.inverse[len(self.second) :]))

    def _power_means(self, queries: Array, half: Array, degree: int) -> tuple[Array, Array]:
        """Lower and upper bounds of the p-means of ``w . q`` for columns q."""
        largest = np.abs(queries).max(axis=0, initial=0.0)
        queries = queries / np.where(largest > 0, largest, 1.0)
        table = monomials(len(queries), degree // 2)
        values = table.values(queries) * np.sqrt(table.multinomials)[:, None]
        power = np.einsum("kj,kj->j", values, half @ values) / self.total
        terms = np.sqrt(np.maximum(np.diag(half), 0.0) / self.total) @ np.abs(values)
        error = (self.sum_error + 4 * len(values) * EPS) * terms**2
        return tuple(
            largest * np.maximum(power + sign * error, 0.0) ** (1 / degree) for sign in (-1, 1)
        )

    def dropped(self, kept: Array, weights: Array) -> Array:
        """k for the dropped directions, over all rows and over the kept rows b."""
        if not len(lost := self.basis.excluded):
            return np.zeros(len(self.inverse))
        along = self.inverse[len(self.second) :]
        values = kept @ lost.vectors
        norms = lost.norms + power_means(values, weights, self.total, self.degree)
        there = norms > 0  # columns that are zero, on all rows and on kept ones, take no part
        if lost.products is not None and there.sum() > SEVERAL and self.degree == 2:
            # Of column j that is |R W_j|, by the products R'R of the directions, rounding of these
            # included.
            present, along = values[:, there], along[there]
            mean_products = (
                lost.products[np.ix_(there, there)],
                present.T @ (present * weights[:, None]) / self.total,
            )
            return np.asarray(sum(self._combined(products, along) for products in mean_products))
        return np.asarray(norms @ np.abs(along))

    def _combined(self, products: Array, queries: Array) -> Array:
        """Upper bounds of the root mean squares of combinations of directions with these mean
        products.
        """
        terms = np.sqrt(np.maximum(np.diag(products), 0.0)) @ np.abs(queries)
        error = (self.sum_error + 4 * len(queries) * EPS) * np.square(terms)
        return np.asarray(
            np.sqrt(np.maximum(np.einsum("ej,ej->j", queries, products @ queries), 0.0) + error)
        )

    def rounded(self, sizes: Array) -> Array:
        """k for the rounding of coordinates, over all rows and kept rows; ``sizes`` bounds the
        p-means of both.
        """
        # variables in some order: nothing but the shift
        if self.plain and self.basis.inverse is None:
            return np.asarray(EPS * int(self.affine) * sizes)
        joint = np.hstack([self.basis.map, self.basis.excluded.vectors])
        np.abs(joint, out=joint)
        # the shift, and products that are not 0; those by powers of two are not rounded
        entries = np.count_nonzero(joint, axis=0)
        powers = (entries == 1) & (np.frexp(joint.sum(axis=0))[0] == 0.5)
        steps = int(self.affine) + np.where(powers, 0, entries)
        return np.asarray(EPS * (steps * (sizes @ joint)) @ np.abs(self.inverse))

    def share(self, k: Array) -> tuple[float, float, int]:
        """An error ``sum_j k_j |z_j|`` as a change of columns and of the loss; and the column in
        which it is largest.
        """
        ratio = moved_columns(k, self.means, self.spreads, self.affine)
        worst = int(ratio.argmax()) if len(ratio) else 0
        loss = self.degree * float(k[0]) if self.affine else 0.0
        return float(ratio.max(initial=0.0)), loss, worst

    @cached_property
    def reach(self) -> Array:
        """Bounds ``|alpha_k| <= reach_k S(z)`` of the coordinates; infinite for the constant, which
        has none.
        """
        first = int(self.affine)
        dual = np.abs(self.inverse[: len(self.second), first:])
        reach = np.max(
            np.where(dual > 0, dual / np.maximum(self.spreads[first:], TINY), 0.0),
            axis=1,
            initial=0.0,
        )
        reach[:first] = np.inf
        return np.asarray(reach)

    def floors(self, shares: tuple[float, ...]) -> list[Array]:
        """Lower bounds of the loss as matrices: M, mixed with a multiple of the identity in given
        shares.
        """
        floor = self.total * self.lowest * np.eye(len(self.half))
        return [(1 - share) * self.half + share * floor for share in shares]

    @cached_property
    def lowest(self) -> float:
        """A lower bound of f / U over the queries of length 1: by Jensen's inequality, and by M."""
        # powers of coordinates overflow: nothing is proven in them
        if not len(self.half) or not np.isfinite(self.half).all():
            return 0.0
        jensen = max(linalg.eigenvalues(self.second / self.total).min(), 0.0) ** (self.degree // 2)
        spectral = (
            linalg.eigenvalues(self.half / self.total).min()
            - (self.sum_error + len(self.half) * EPS) * float(np.trace(self.half)) / self.total
        )
        return max(float(jensen), float(spectral), 0.0)

    @cached_property
    def condition(self) -> float:
        """The largest ratio of the terms of a coordinate to the coordinate itself."""
        rms = np.sqrt(np.maximum(np.diag(self.second), 0.0) / self.total)
        terms = self.sizes @ np.abs(self.basis.map)
        return float(np.max(terms / np.where(rms > 0, rms, 1.0), initial=1.0))

    def column_of(self, monomial: int) -> int:
        """The column that has the largest part in a coordinate of a monomial."""
        coordinate = monomials(len(self.second), self.degree // 2).indices[monomial][-1]
        terms = (self.sizes * np.abs(self.basis.map[:, coordinate]))[int(self.affine) :]
        return int(terms.argmax()) if len(terms) else 0
