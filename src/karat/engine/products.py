"""Sums of products of columns by cluster, squared: the covariances of any choice of columns.

Let Z = ((x, y) - m) T be rows in coordinates in which the columns are orthonormal, and e, the last
coordinate, the residual of y.  A cluster g has the p = k (k + 3) / 2 sums (k columns)

    v_g = sum over its rows of u (z_i z_j, i <= j;  z_i e),    Q = sum over clusters v_g v_g'

The score of a regression on some of the columns, w'z with residual r'(z, e), is linear in v_g:

    s_g = sum u (w'z) (r'(z, e)) = f'v_g,   f_ij = w_i r_j + w_j r_i (i < j),  w_i r_i,  w_i r_e

so sum s_g s_g' = F'QF.  With one row per cluster this is HC0.  A change of coordinates is linear in
v_g, too, so Q of different rows adds up.

In these coordinates Q has errors of eps kappa, in those of the data of eps kappa^3.  What a result
loses is estimated by kappa of the coordinates and of the chosen columns, and by how far the terms
of F'QF cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from karat.engine.linalg import Array

EPS = float(np.finfo(float).eps)


def product_count(width: int) -> int:
    """The number of sums of a cluster."""
    return width * (width + 3) // 2


def products(z: Array, weights: Array | None, weighted: Array, out: Array) -> Array:
    """v of every row: of its coordinates, a column of ``z``, and u e."""
    heavy = z if weights is None else z * weights
    place = 0
    for i in range(len(z)):
        np.multiply(heavy[i], z[i:], out=out[place : place + len(z) - i])
        place += len(z) - i
    np.multiply(z, weighted, out=out[place : place + len(z)])
    return out


def matrices(sums: Array, width: int) -> Array:
    """Columns v as matrices of the products of z with (z, e)."""
    i, j = np.triu_indices(width)
    whole = np.empty((sums.shape[1], width, width + 1))
    whole[:, i, j] = whole[:, j, i] = sums[: len(i)].T
    whole[:, :, width] = sums[len(i) :].T
    return whole


@dataclass(frozen=True)
class Choice:
    """A regression on some of the columns, in the coordinates of :class:`Products`.

    Attributes
    ----------
    columns : array of shape (k, s)
        w of every column, orthonormal.
    residual : array of shape (k + 1,)
        r.
    turn : array of shape (s, s)
        From parameters of these columns to those of the whitened ones; the identity up to rounding.
    condition : float
        Of the coordinates, plus that of the chosen columns with the response.
    """

    columns: Array
    residual: Array
    turn: Array
    condition: float

    @property
    def functional(self) -> Array:
        """F."""
        w, r = self.columns, self.residual
        i, j = np.triu_indices(len(w))
        mixed = w[i] * r[j, None] + np.where(i == j, 0.0, r[i])[:, None] * w[j]
        return np.concatenate([mixed, w * r[-1]])


@dataclass(frozen=True, eq=False)
class Products:
    """Sums over clusters, or over single rows.

    Attributes
    ----------
    shift : array of shape (k + 1,)
        m of the columns and of the response; 0 for the intercept, and without one.
    basis : array of shape (k + 1, k + 1)
        T.
    totals : array of shape (p,)
        The sum of all v_g.
    squares : array of shape (p, p)
        Q.
    clusters : array of shape (p, G)
        Every v_g, or G = 0.
    """

    shift: Array
    basis: Array
    totals: Array
    squares: Array
    clusters: Array

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.shift) - 1

    def fits(self, width: int) -> bool:
        """Whether the arrays are those of so many columns."""
        p, k = product_count(width), width + 1
        return (
            self.shift.shape == (k,)
            and self.basis.shape == (k, k)
            and self.totals.shape == (p,)
            and self.squares.shape == (p, p)
            and self.clusters.ndim == 2
            and len(self.clusters) == p
        )

    @cached_property
    def _inverse(self) -> Array:
        """The coordinates of the columns of the data, and of the response."""
        return np.linalg.inv(self.basis)

    @cached_property
    def _condition(self) -> float:
        return _condition(self._inverse)

    @cached_property
    def _gram(self) -> Array:
        """The products of z with (z, e), of all rows."""
        return matrices(self.totals[:, None], self.width)[0]

    def choice(self, places: Sequence[int], shift: Array, whitening: Array) -> Choice:
        """The regression on the columns at ``places``, shifted and then whitened."""
        k, inverse, gram = self.width, self._inverse, self._gram
        chosen = inverse[:k, list(places)]
        response = inverse[:, k].copy()
        moved = self.shift[list(places)] - shift
        if np.any(moved):  # by a multiple of the intercept, the first column
            chosen = chosen + inverse[:k, :1] * moved
        if 0 not in places and self.shift[k]:
            response += self.shift[k] * inverse[:, 0]
        both = np.zeros((k + 1, len(places) + 1))
        both[:k, :-1], both[:, -1] = chosen, response
        condition = self._condition + _condition(both)
        columns = chosen @ whitening
        turn = np.linalg.cholesky(np.linalg.inv(columns.T @ gram[:, :k] @ columns))
        columns = columns @ turn
        for _ in range(2):  # once more restores the digits that the first projection loses
            response[:k] -= columns @ (columns.T @ (gram @ response))
        return Choice(columns, response, turn, condition)

    def middle(self, choice: Choice) -> tuple[Array, float]:
        """The sum over clusters s_g s_g' for the whitened columns, and the relative error of a
        variance that rounding may cause.
        """
        functional = choice.functional @ choice.turn.T
        whole = functional.T @ self.squares @ functional
        sizes = np.abs(functional).T @ np.sqrt(np.maximum(np.diag(self.squares), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            cancelled = float(np.max(np.square(sizes) / np.diag(whole)))
        error = EPS * (choice.condition + cancelled)
        return (whole + whole.T) / 2, error if np.isfinite(error) else np.inf

    def scores(self, choice: Choice, some: slice) -> tuple[Array, Array]:
        """Of some clusters: the products of the orthonormal columns, and s_g of these."""
        whole = matrices(self.clusters[:, some], self.width)
        squares = choice.columns.T @ whole[:, :, : self.width] @ choice.columns
        return squares, whole @ choice.residual @ choice.columns

    def turned(self, shift: Array, basis: Array) -> Products:
        """The same sums in other coordinates of the same columns."""
        k, moved = self.width, np.eye(self.width + 1)
        moved[0] += self.shift - shift  # the intercept; without one both are 0
        turn = np.linalg.solve(self.basis, moved @ basis)
        i, j = np.triu_indices(k)
        # the rows of P are those functionals whose w and r are columns of the turn
        rows = [
            Choice(turn[:k, [a]], turn[:, b], np.eye(1), 1.0).functional[:, 0]
            for a, b in [*zip(i, j, strict=True), *((a, k) for a in range(k))]
        ]
        P = np.array(rows)
        return Products(shift, basis, P @ self.totals, P @ self.squares @ P.T, P @ self.clusters)

    def without_clusters(self) -> Products:
        """The squares alone."""
        return replace(self, clusters=self.clusters[:, :0])

    def plus(self, other: Products) -> Products:
        """The sums of both, whose clusters have no rows in common."""
        other = other.turned(self.shift, self.basis)
        return replace(
            self,
            totals=self.totals + other.totals,
            squares=self.squares + other.squares,
            clusters=self.clusters[:, :0],
        )


def _condition(columns: Array) -> float:
    """Of columns scaled to length one."""
    return float(np.linalg.cond(columns / np.linalg.norm(columns, axis=0)))
