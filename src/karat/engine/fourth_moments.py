"""Fourth moments of columns in groups of rows, from which robust covariances follow.

A group has coordinates of its own, v = m + z R with R triangular, in which its columns v are
uncorrelated with mean 0 and variance 1, and keeps with z_0 = 1 and weights u

    S_abcd = sum u z_a z_b z_c z_d,   a <= b <= c <= d

The regressors x and the residual e of a regression are affine forms of v in each group (with
coefficients that may depend on the group), at whatever parameters.  Their products are linear in
the products of two coordinates, x_i e = F_i'(z_a z_b), so with Q the matrix of S by pairs

    sum u e^2 x x' = sum over groups F'QF

Groups are added up in the coordinates of their union, in which z is affine, too: S becomes P Q P'.

The forms of a group are those of the rows m + z R, which are the rows of the data up to the last
digit, whether z is well determined or not.  A column that is constant in a group, or a combination
of columns before it, up to rounding, has no coordinate: R is 0 there, and so is z.  So the
condition of a group does not matter, only how far the terms of a form and those of F'QF cancel,
which is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np
from scipy import linalg

from karat.engine.linalg import Array, Flags, Indices
from karat.engine.tolerances import EPS

MOST = 40  # columns: a group then has a megabyte
BLOCK = 2**22  # numbers of the matrices that are made at a time
ROWS = 2**12  # rows that are summed at a time
SMALLEST = 8 * EPS  # of the size of a column: what is left of it is rounding
COARSE = 1e-5  # the same for a comparison, in which rounding of the rows is not to matter
AGREE = 1e-9  # by which sums in such coordinates may differ


class Places(NamedTuple):
    """Where the sums of pairs of q coordinates are.

    Attributes
    ----------
    first, second : array of shape (p,)
        The coordinates of every pair, p = q (q + 1) / 2.
    whole : array of shape (p, p)
        The place in S of a product of two pairs.
    distinct : array
        For each entry of S, a place in the flat matrix of pairs.
    """

    first: Indices
    second: Indices
    whole: Indices
    distinct: Indices


@lru_cache(maxsize=8)
def pair_places(q: int) -> Places:
    """The places for q coordinates."""
    first, second = np.triu_indices(q)
    pairs = np.column_stack([first, second])
    four = np.empty((len(pairs), len(pairs), 4), dtype=np.int64)
    four[..., :2], four[..., 2:] = pairs[:, None], pairs[None]
    four.sort(axis=2)
    keys = four @ (q ** np.arange(4)[::-1])
    _, distinct, whole = np.unique(keys, return_index=True, return_inverse=True)
    return Places(first, second, whole.reshape(len(pairs), len(pairs)), distinct)


def moment_count(columns: int) -> int:
    """The number of sums of a group of so many columns: C(columns + 4, 4)."""
    return comb(columns + 4, 4)


def number_count(columns: int) -> int:
    """All numbers of a group: its sums and its coordinates."""
    return moment_count(columns) + columns * (columns + 3) // 2


def column_count(numbers: int) -> int:
    """The columns of which a group has so many numbers; 0 if there are none."""
    return next((c for c in range(1, MOST + 1) if number_count(c) == numbers), 0)


def pair_forms(left: Array, right: Array) -> Array:
    """F: products of two affine forms each, by those of pairs of coordinates.

    Both arguments have the shape (groups, q, k), the result (groups, p, k).
    """
    a, b, *_ = pair_places(left.shape[1])
    twice = np.where(a == b, 0.0, 1.0)[:, None]
    return np.asarray(left[:, a] * right[:, b] + twice * left[:, b] * right[:, a])


def triangle(rows: Array, sizes: Array) -> Array:
    """R of centred and scaled rows; its row of a column that others before it determine is zero.

    ``sizes`` are those of the numbers that the columns are sums of.
    """
    factor = np.zeros((rows.shape[1],) * 2)
    used = np.arange(rows.shape[1])
    while True:
        r: Array = np.asarray(np.linalg.qr(rows[:, used], mode="r"), dtype=float)
        diagonal = np.zeros(len(used))
        diagonal[: len(r)] = np.abs(np.diagonal(r))
        determined = np.flatnonzero(diagonal <= SMALLEST * sizes[used])
        if not len(determined):
            factor[np.ix_(used, used)] = r
            return factor
        place = int(determined[0])
        factor[used[:place], used[place]] = r[:place, place]
        used = np.delete(used, place)


def by_factor(columns: Array, factor: Array) -> Array:
    """z with z R = ``columns``, and 0 where a column determines nothing."""
    used = np.flatnonzero(np.diagonal(factor))
    z = np.zeros_like(columns)
    z[:, used] = linalg.solve_triangular(
        factor[np.ix_(used, used)], columns[:, used].T, trans="T", check_finite=False
    ).T
    return z


def row_coordinates(rows: Array, weights: Array) -> tuple[Array, Array]:
    """m and R of some rows of positive weight."""
    shares = weights / weights.sum()
    shift = rows[0] + shares @ (rows - rows[0])
    scaled = (rows - shift) * np.sqrt(shares)[:, None]
    return shift, triangle(scaled, np.linalg.norm(scaled, axis=0))


def sums_of(rows: Array, weights: Array, shift: Array, factor: Array) -> Array:
    """S of some rows in given coordinates."""
    first, second, _, distinct = pair_places(rows.shape[1] + 1)
    squares = np.zeros((len(first), len(first)))
    for start in range(0, len(rows), ROWS):
        some = slice(start, start + ROWS)
        z = np.ones((rows.shape[1] + 1, len(rows[some])))
        z[1:] = by_factor(rows[some] - shift, factor).T
        pairs = z[first] * z[second]
        squares += pairs @ (pairs * weights[some]).T
    return squares.ravel()[distinct]


@dataclass(frozen=True, eq=False)
class FourthSums:
    """Fourth moments of the columns of some groups of rows.

    Attributes
    ----------
    shift : array of shape (groups, columns)
        m.
    factor : array of shape (groups, columns, columns)
        R, upper triangular, with rows that are zero.
    sums : array of shape (groups, C(columns + 4, 4))
        S.
    """

    shift: Array
    factor: Array
    sums: Array

    @staticmethod
    def none(groups: int, columns: int) -> FourthSums:
        """Of groups without rows."""
        return FourthSums(
            np.zeros((groups, columns)), np.tile(np.eye(columns), (groups, 1, 1)),
            np.zeros((groups, moment_count(columns))),
        )  # fmt: skip

    @staticmethod
    def joined(parts: Sequence[FourthSums]) -> FourthSums:
        """Those of several parts, one part after the other."""
        return FourthSums(
            np.concatenate([part.shift for part in parts]),
            np.concatenate([part.factor for part in parts]),
            np.concatenate([part.sums for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.shift)

    @property
    def columns(self) -> int:
        """The number of columns."""
        return int(self.shift.shape[1])

    @property
    def totals(self) -> Array:
        """The total weight of each group."""
        return self.sums[:, 0]

    def chosen(self, groups: Indices) -> FourthSums:
        """Those of some groups, in a given order."""
        return FourthSums(self.shift[groups], self.factor[groups], self.sums[groups])

    def united(self, members: Sequence[Indices]) -> FourthSums:
        """One group from each list of groups."""
        together = self.chosen(np.concatenate(members))
        sizes = [len(group) for group in members]
        starts = np.cumsum([0, *sizes[:-1]])
        found = [
            together.chosen(np.arange(start, start + size)).common()
            for start, size in zip(starts.tolist(), sizes, strict=True)
        ]
        shift, factor = (np.stack(part) for part in zip(*found, strict=True))
        turned = together.turned(np.repeat(shift, sizes, axis=0), np.repeat(factor, sizes, axis=0))
        return FourthSums(shift, factor, np.add.reduceat(turned.sums, starts))

    def common(self) -> tuple[Array, Array]:
        """m and R of all groups together."""
        q, total = self.columns + 1, float(self.totals.sum())
        if not total:
            return self.shift[0], self.factor[0]
        products = self.sums[:, pair_places(q).whole[:q]]  # of z_0 z_a and all pairs
        first, second = pair_places(q)[:2]
        gram = np.empty((len(self), q, q))
        gram[:, first, second] = gram[:, second, first] = products[:, 0]
        means = gram[:, 0, 1:] / total
        origin = self.shift[0]
        shift = origin + np.einsum("ga,gab->b", means, self.factor) + (
            self.totals / total
        ) @ (self.shift - origin)  # fmt: skip
        eigenvalues, vectors = np.linalg.eigh(gram / total)
        roots = np.sqrt(np.maximum(eigenvalues, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
        moved = np.concatenate([(self.shift - shift)[:, None], self.factor], axis=1)
        sizes = np.sqrt(self.totals / total @ np.square(moved).sum(axis=1))
        return shift, triangle((roots @ moved).reshape(-1, self.columns), sizes)

    def turned(self, shift: Array, factor: Array) -> FourthSums:
        """The same sums of every group in other coordinates."""
        q = self.columns + 1
        first, second, _, distinct = pair_places(q)
        turn = np.zeros((len(self), q, q))
        turn[:, 0, 0] = 1.0
        moved = np.concatenate([(self.shift - shift)[:, None], self.factor], axis=1)
        for group in range(len(self)):
            turn[group, :, 1:] = by_factor(moved[group], factor[group])
        sums = np.empty_like(self.sums)
        for some, squares in self._pairs(len(first)):
            forms = pair_forms(turn[some][:, :, first], turn[some][:, :, second])
            whole = forms.transpose(0, 2, 1) @ squares @ forms
            sums[some] = whole.reshape(len(whole), -1)[:, distinct]
        return FourthSums(shift, factor, sums)

    def _pairs(self, width: int) -> Iterator[tuple[slice, Array]]:
        """Q of some groups after the other, so many that matrices of ``width`` columns fit."""
        whole = pair_places(self.columns + 1).whole
        step = max(1, BLOCK // (len(whole) * max(len(whole), width)))
        for start in range(0, len(self), step):
            some = slice(start, start + step)
            yield some, self.sums[some][:, whole]

    def squares(
        self, forms: Array, turn: Array, first: Indices, second: Indices
    ) -> tuple[Array, Array, Array]:
        """The sums of products of pairs of forms, and of products of two such products.

        Parameters
        ----------
        forms : array of shape (groups, columns + 1, m)
            For every group the value at m of some affine forms of the columns, and their slopes.
        turn : array of shape (m, f)
            The linear combinations of these that pairs are made of.
        first, second : array of shape (k,)
            The combinations of every pair.

        Returns
        -------
        totals : array of shape (k,)
        squares : array of shape (k, k)
        errors : array of shape (k,)
            By how much of itself rounding may move each diagonal entry of ``squares``.
        """
        totals, squares = np.zeros(len(first)), np.zeros((len(first), len(first)))
        within, between = np.zeros(len(first)), np.zeros(len(first))
        for some, sums in self._pairs(len(first)):
            base, size = forms[some].copy(), np.abs(forms[some])
            base[:, 1:] = self.factor[some] @ base[:, 1:]
            size[:, 1:] = np.abs(self.factor[some]) @ size[:, 1:]
            form, size = base @ turn, size @ np.abs(turn)
            functional = pair_forms(form[:, :, first], form[:, :, second])
            totals += np.einsum("gpk,gp->k", functional, sums[:, 0])
            squares += (functional.transpose(0, 2, 1) @ sums @ functional).sum(axis=0)
            roots, form = np.sqrt(np.maximum(np.einsum("gpp->gp", sums), 0.0)), np.abs(form)
            moved = pair_forms(size[:, :, first], form[:, :, second])
            moved += pair_forms(form[:, :, first], size[:, :, second])
            within += np.square(np.einsum("gpk,gp->gk", np.abs(functional), roots)).sum(axis=0)
            between += np.square(np.einsum("gpk,gp->gk", moved, roots)).sum(axis=0)
        diagonal = np.diag(squares)
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = EPS * (within / diagonal + 2 * np.sqrt(between / diagonal))
        errors[~(diagonal > 0)] = np.inf
        return totals, (squares + squares.T) / 2, errors

    def differ(self, others: FourthSums) -> Flags:
        """Which groups are not those of the same rows."""
        sizes = COARSE * (np.linalg.norm(others.factor, axis=1) + np.abs(others.shift))
        factor, i = others.factor.copy(), np.arange(self.columns)
        least = np.maximum(np.abs(factor[:, i, i]), sizes)
        factor[:, i, i] = np.where(least > 0, least, 1.0)
        mine, theirs = (side.turned(others.shift, factor) for side in (self, others))
        apart = np.zeros(len(self), dtype=bool)
        for some, squares in mine._pairs(0):
            wanted = theirs.sums[some][:, pair_places(self.columns + 1).whole]
            total = others.totals[some, None]
            roots = np.sqrt(np.maximum(np.einsum("gpp->gp", wanted), total))
            allowed = AGREE * roots[:, :, None] * roots[:, None]
            apart[some] = ~(np.abs(squares - wanted) <= allowed).all(axis=(1, 2))
        return apart

    def packed(self) -> Array:
        """All numbers of a group in a line: m, R, S."""
        triangle = np.triu_indices(self.columns)
        return np.concatenate([self.shift, self.factor[:, *triangle], self.sums], axis=1)

    @staticmethod
    def unpacked(lines: Array) -> FourthSums:
        """From :meth:`packed`."""
        columns = column_count(lines.shape[1])
        triangle = np.triu_indices(columns)
        ends = [columns, columns + len(triangle[0])]
        shift, entries, sums = np.split(lines, ends, axis=1)
        factor = np.zeros((len(lines), columns, columns))
        factor[:, *triangle] = entries
        return FourthSums(shift, factor, sums)
