"""The Chow test: whether two sets of rows follow the same linear model.

With A = Xa'Xa and B = Xb'Xb, coefficients a and b and sums of squared residuals Sa and Sb of k
terms and na and nb rows,

    F = (a - b)' (A^-1 + B^-1)^-1 (a - b) / k  /  ((Sa + Sb) / (na + nb - 2 k))

is distributed as F(k, na + nb - 2 k) where the models are equal and errors are normal, of one
variance.  The numerator is the increase of the sum of squares when both share one model; in this
form nothing cancels.  Everything is a function of second moments, which the kept rows carry
exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, stats

from karat.core.coreset import Coreset
from karat.core.wording import notebook_box
from karat.cubes.select import matching, merge_selections
from karat.data import containers
from karat.data.containers import native_frame
from karat.engine.least_squares import DependentColumnError, LeastSquaresSolution, solve
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError, several

if TYPE_CHECKING:
    from karat.cubes.base import Cube


@dataclass(frozen=True)
class Comparison:
    """The Chow test of two slices.

    Attributes
    ----------
    statistic, pvalue : float
        F, and the probability of so large a value where the models are equal.
    df : (int, int)
        Degrees of freedom.
    terms : tuple of str
    first, second : array
        The coefficients of both, by ordinary least squares.
    errors : array
        Standard errors of their differences, from the pooled variance.
    n_rows : (int, int)
    """

    statistic: float
    pvalue: float
    df: tuple[int, int]
    terms: tuple[str, ...]
    first: Array
    second: Array
    errors: Array
    n_rows: tuple[int, int]

    @property
    def coefficients(self) -> Any:
        """One line per term: both coefficients, their difference, and its standard error."""
        return native_frame(self._columns())

    def _columns(self) -> dict[str, Array]:
        columns = {"term": np.array(self.terms), "first": self.first, "second": self.second}
        return columns | {"difference": self.second - self.first, "standard_error": self.errors}

    def __str__(self) -> str:
        return (
            f"Chow test of {self.n_rows[0]:,} and {self.n_rows[1]:,} rows: F({self.df[0]},"
            f" {self.df[1]:,}) = {self.statistic:.6g}, p = {self.pvalue:.3g}"
        )

    def _repr_html_(self) -> str:
        return notebook_box(str(self), columns=self._columns())


def compare_slices(cube: Cube, first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    """See :meth:`karat.Cube.compare`."""
    first_cells, second_cells = (
        matching(cube.cells, cube.by, merge_selections(selection, {}))
        for selection in (first, second)
    )
    shared = np.intersect1d(first_cells, second_cells)
    if len(shared):
        raise InputError(
            f"The slices share {several(len(shared), 'cell')}; compare slices that have no rows in"
            " common, such as one region against the others."
        )
    return chow(cube.coreset_of(cube.cells, first_cells), cube.coreset_of(cube.cells, second_cells))


def chow(first: Coreset, second: Coreset) -> Comparison:
    """Compare the linear models of two coresets."""
    names = _check(first)
    model_a, model_b = _model(first, names), _model(second, names)
    k, n = len(names), first.n_rows + second.n_rows
    if n <= 2 * k:
        raise InputError(
            f"To compare two models of {several(k, 'term')} takes more than {several(n, 'row')}."
        )
    difference, root_a, root_b = _in_shifted_columns(model_a, model_b)
    # A^-1 + B^-1 = U'U for U stacked of the roots of both, so that the form is |U^-T d|^2.
    joint_root = linalg.qr(np.vstack([root_a.T, root_b.T]), mode="economic")[1]
    increase = float(np.square(linalg.solve_triangular(joint_root, difference, trans="T")).sum())
    variance = (model_a.rss + model_b.rss) / (n - 2 * k)
    statistic = increase / k / variance if variance > 0 else np.inf if increase > 0 else np.nan
    errors = np.sqrt(variance * (np.square(model_a.root) + np.square(model_b.root)).sum(axis=1))
    pvalue = float(stats.f.sf(statistic, k, n - 2 * k))
    return Comparison(
        float(statistic),
        pvalue,
        (k, n - 2 * k),
        names,
        model_a.params,
        model_b.params,
        errors,
        (first.n_rows, second.n_rows),
    )


def _in_shifted_columns(
    first: LeastSquaresSolution, second: LeastSquaresSolution
) -> tuple[Array, Array, Array]:
    """The difference of the parameters and the roots of both covariances, in columns less the means
    of the first slice: intercepts far from the rows would have few digits in common.
    """
    move = np.eye(len(first.shift))
    move[0] += first.shift - second.shift
    difference = move @ second.shifted - first.shifted
    difference[0] += second.centre - first.centre
    return difference, first.whitening, move @ second.whitening


def _check(core: Coreset) -> tuple[str, ...]:
    """The terms of the model; an error if the coreset does not keep what is needed."""
    if core.y is None:
        raise InputError("A comparison needs a target; build the cube with target=.")
    if not core.problem.keeps_squares:
        raise NotExactError(
            f"A comparison needs second moments, which {core.problem.describe()} does not keep."
        )
    if containers.dimensions(core.y) != 1:
        raise InputError("A comparison is of one target; build a cube for each.")
    features = tuple(map(str, core.X.column_names))
    return ("intercept", *features) if core.problem.shifts else features


def _model(core: Coreset, names: tuple[str, ...]) -> LeastSquaresSolution:
    """Least squares of the weighted rows."""
    X, y = core.arrays()
    assert y is not None
    if core.n_rows <= len(names):
        raise InputError(
            f"A slice of {several(core.n_rows, 'row')} is too small for"
            f" {several(len(names), 'term')}."
        )
    intercept = core.problem.shifts
    try:
        return solve(
            np.column_stack([np.ones(len(X)), X]) if intercept else X, y, core.weights, intercept
        )
    except DependentColumnError as error:
        name = names[error.column]
        raise InputError(
            f"The term {name!r} is constant in a slice, or depends on others there; leave it out."
        ) from error
