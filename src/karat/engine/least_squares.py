"""Weighted least squares by a QR factorisation, which says which column depends on which others.

Columns and response are shifted by their weighted means where there is an intercept (x - m is exact
to the last digit of the result), and columns are scaled to length one; so the digits that are lost
depend on how the columns relate, and not on their units.

    rows r = (1, x - m);   sqrt(w) r = Q R;   params of r = R^-1 Q' sqrt(w) (y - c);
    whitening W = R^-1, so that sum w W'r r'W = 1
    in the columns of the data (1, x) = T r:   params T' ..., normalised covariance (T W)(T W)'

The intercept is the sum of c and of its part in these parameters, and is only added up to be shown:
where y is far from zero, the sum has no digits left for residuals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from karat.engine.linalg import Array, Flags, Indices
from karat.errors import InputError

EPS = float(np.finfo(float).eps)
# of its length: a column that is nearer to the others is a combination of them
COLLINEAR = 64 * EPS
NAMED = 1e-6  # coefficients of a combination that are named, of the largest


class DependentColumnError(ValueError):
    """A column is a linear combination of others.

    Attributes
    ----------
    column : int
    others : tuple of int
        Those with the largest coefficients; none if the column is zero, the first alone if it is
        constant like an intercept.
    """

    def __init__(self, column: int, others: tuple[int, ...]) -> None:
        super().__init__(f"Column {column} is a linear combination of the columns {others}.")
        self.column, self.others = column, others


@dataclass(frozen=True)
class LeastSquaresSolution:
    """The solution, in shifted columns and in those of the data.

    Attributes
    ----------
    shift : array of shape (k,)
        m, and 0 for the intercept.
    centre : float
        c, subtracted from the response; 0 without an intercept.
    shifted : array of shape (k,)
        The parameters of the shifted columns, for the response less c.
    whitening : array of shape (k, k)
        W, of the shifted columns.
    params : array of shape (k,)
        The parameters of the columns of the data.
    root : array of shape (k, k)
        T W: ``root @ root.T`` is the normalised covariance of ``params``.
    rss : float
        The weighted sum of squared residuals.
    rotated : array of shape (k,)
        The parameters of the whitened columns: ``root @ rotated`` is ``params``, less c.
    unwhitening : array of shape (k, k)
        The inverse of W.
    """

    shift: Array
    centre: float
    shifted: Array
    whitening: Array
    params: Array
    root: Array
    rss: float
    rotated: Array
    unwhitening: Array

    @property
    def condition(self) -> float:
        """Of the shifted columns, each scaled to length one."""
        sizes = np.linalg.norm(self.unwhitening, axis=0)
        return float(np.linalg.cond(self.unwhitening / sizes))

    @property
    def from_params(self) -> Array:
        """The inverse of T: parameters of the columns of the data to those of shifted ones."""
        turn = np.eye(len(self.params))
        turn[0] += self.shift  # the shift of an intercept is 0
        return turn

    def whitened(self, rows: Array) -> Array:
        """Rows (1, x) in whitened coordinates."""
        return np.asarray((rows - rows[:, :1] * self.shift) @ self.whitening)

    def means(self, rows: Array) -> Array:
        """Fitted means of rows (1, x), computed in the shifted columns."""
        return self.excess(rows, np.zeros(len(rows)))

    def residuals(self, rows: Array, y: Array) -> Array:
        """Of rows (1, x) with the response y."""
        return np.asarray((y - self.centre) - (rows - rows[:, :1] * self.shift) @ self.shifted)

    def excess(self, rows: Array, values: Array) -> Array:
        """``rows @ params - values``."""
        whole = (rows - rows[:, :1] * self.shift) @ self.shifted
        return np.asarray(whole - (values - rows[:, 0] * self.centre))

    @property
    def explained(self) -> float:
        """The sum of squares of the fitted means, about zero."""
        return float(np.square(self.rotated + self.centre * self.unwhitening[:, 0]).sum())

    def rounding(self, scale: float) -> float:
        """By how many standard errors rounding the rows may move orthogonal combinations of the
        parameters: eps times the length of the fitted means (less c) over the standard deviation
        of the residuals, whose square is given.
        """
        return EPS * float(np.linalg.norm(self.rotated)) / np.sqrt(scale) if scale else np.inf


def solve(X: Array, y: Array, weights: Array, intercept: bool) -> LeastSquaresSolution:
    """Solve; if there is an ``intercept``, the first column of X holds ones.

    A dependent column is an error.
    """
    width, root = X.shape[1], np.sqrt(weights)
    shift, rows, sizes, whole = _shifted(X, root, intercept)
    turn = np.eye(width)
    turn[0] -= shift  # the shift of an intercept is 0
    vanished = np.flatnonzero(_vanish(sizes, whole))
    if len(vanished):
        raise DependentColumnError(int(vanished[0]), (0,) if whole[vanished[0]] > 0 else ())
    if len(rows) < width:
        raise InputError(f"There are {len(rows)} rows for {width} columns; remove terms.")
    q, r, order = linalg.qr(rows * root[:, None] / sizes, mode="economic", pivoting=True)
    small = np.flatnonzero(np.abs(np.diag(r)) <= COLLINEAR * width)
    if len(small):
        place = int(small[0])
        raise DependentColumnError(
            int(order[place]), tuple(order[_combined_pivots(r, place)].tolist())
        )
    inverse = linalg.solve_triangular(r, np.eye(width))
    whitening = np.empty((width, width))
    whitening[order] = inverse
    whitening /= sizes[:, None]
    centre = float(weights @ y / weights.sum()) if intercept else 0.0
    unwhitening = np.empty((width, width))
    unwhitening[:, order] = r
    unwhitening *= sizes
    rotated = q.T @ (root * (y - centre))
    shifted = whitening @ rotated
    params = turn @ shifted
    params[0] += centre
    errors = (y - centre) - rows @ shifted
    return LeastSquaresSolution(
        shift, centre, shifted, whitening, params, turn @ whitening, float(weights @ errors**2),
        rotated, unwhitening,
    )  # fmt: skip


def dependent_columns(X: Array, weights: Array, intercept: bool) -> list[int]:
    """The columns that are linear combinations of columns before them, which R would leave out."""
    root = np.sqrt(weights)
    _, rows, sizes, whole = _shifted(X, root, intercept)
    vanished = _vanish(sizes, whole)
    basis, dependent = np.empty((len(X), 0)), []
    for column in range(X.shape[1]):
        if not vanished[column]:
            rest = rows[:, column] * root / sizes[column]
            for _ in range(2):  # once more restores the digits that the first projection loses
                rest = rest - basis @ (basis.T @ rest)
            length = float(np.linalg.norm(rest))
            if length > COLLINEAR * X.shape[1]:
                basis = np.column_stack([basis, rest / length])
                continue
        dependent.append(column)
    return dependent


def _shifted(X: Array, root: Array, intercept: bool) -> tuple[Array, Array, Array, Array]:
    """The shift, the shifted columns, and the weighted lengths of these and of the given ones."""
    shift = np.zeros(X.shape[1])
    if intercept:
        weights = np.square(root)
        shift[1:] = weights @ X[:, 1:] / weights.sum()
    rows = X - shift
    sizes, whole = (_column_norms(columns * root[:, None]) for columns in (rows, X))
    return shift, rows, sizes, whole


def _vanish(sizes: Array, whole: Array) -> Flags:
    """Which columns are zero, or constant beside an intercept."""
    return np.asarray(sizes <= COLLINEAR * np.maximum(whole, np.finfo(float).tiny))


def _column_norms(columns: Array) -> Array:
    """Norms of columns whose squares may overflow or underflow."""
    peaks = np.abs(columns).max(axis=0, initial=0.0)
    safe = np.where(peaks > 0, peaks, 1.0)
    return np.asarray(peaks * np.linalg.norm(columns / safe, axis=0))


def _combined_pivots(r: Array, place: int) -> Indices:
    """The pivots of which a column is a combination."""
    parts = linalg.solve_triangular(r[:place, :place], r[:place, place]) if place else np.empty(0)
    return np.flatnonzero(
        np.abs(parts) > NAMED * max(float(np.abs(parts).max(initial=0.0)), 1e-300)
    )
