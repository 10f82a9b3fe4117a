"""Linear regressors with sample weights, where scikit-learn's classes take none.

Weights are frequencies: the number of rows is their sum.

**karat's own** (:class:`LassoLars`, :class:`LassoLarsCV`, :class:`OrthogonalMatchingPursuit`) call
scikit-learn's path functions, which take ``X'X`` and ``X'y``.  Every least-squares coreset keeps
those of the weighted, centred rows.

**scikit-learn's** are fitted on rows that need no weights (:func:`fit_balanced`).  Rows with
weights w become the rows ``s sqrt(w / 2) (x - mean)`` and their negatives.  These have mean zero,
so that centring them does nothing, and the scatter of all rows times ``s^2``.  The factor ``s``
depends on how a regressor counts rows:

    sums       s^2 = 1                  it reads X'X as it is (a limit on the sum of squares)
    means      s^2 = m / n              it divides by the number of rows: m here, n in the data
    variances  s^2 = (m - 1) / (n - 1)  it divides by one less

Without an intercept nothing is centred, and the rows ``sqrt(w) x`` are enough.  The intercept is
then computed from the means of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import linear_model
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from karat.compat.sklearn import check_parameters, set_means_of_pls
from karat.data import containers
from karat.data.batch import weights_or_ones
from karat.engine.linalg import Array
from karat.engine.tolerances import EPS
from karat.errors import InputError, several

SUMS, MEANS, VARIANCES = "sums", "means", "variances"
# How a regressor counts rows.
READS = {
    "Lars": MEANS,
    "LassoLars": MEANS,
    "LassoLarsIC": MEANS,
    "OrthogonalMatchingPursuit": SUMS,
    "OrthogonalMatchingPursuitCV": SUMS,
    "PLSRegression": VARIANCES,
}
# Regressors that choose columns step by step.
GREEDY = READS.keys() | {"karat.LassoLars", "karat.LassoLarsCV", "karat.OrthogonalMatchingPursuit"}
# Made rows keep the directions of scaled columns well whose singular value is above this part of
# the largest one.
DEPENDENT = 1e-6
CONSTANT = 64 * EPS  # of its mean: a column that varies by no more is constant up to rounding


class Gram:
    """Second moments of weighted rows about their means (or about zero)."""

    def __init__(self, X: Array, y: Array, weights: Array, fit_intercept: bool) -> None:
        self.total = float(weights.sum())
        self.x_mean = weights @ X / self.total if fit_intercept else np.zeros(X.shape[1])
        self.y_mean = weights @ y / self.total if fit_intercept else np.zeros(y.shape[1])
        root = np.sqrt(weights)[:, None]
        X, y = root * (X - self.x_mean), root * (y - self.y_mean)
        self.XX, self.Xy, self.yy = X.T @ X, X.T @ y, np.square(y).sum(axis=0)

    def intercept(self, coef: Array) -> Array:
        """The intercept that goes with coefficients, one row per target."""
        return np.asarray(self.y_mean - coef @ self.x_mean)


class _GramRegressor(RegressorMixin, BaseEstimator):
    """A linear model fitted from a Gram matrix."""

    fit_intercept: bool
    coef_: Array
    intercept_: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to weighted rows."""
        X, y, weights = self._rows(X, y, sample_weight)
        flat = y.ndim == 1
        gram = Gram(X, y.reshape(len(y), -1), weights, self.fit_intercept)
        coef = self._solve(gram)
        intercept = gram.intercept(coef)
        self.coef_, self.intercept_ = (coef[0], float(intercept[0])) if flat else (coef, intercept)
        return self

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        return X, y, weights_or_ones(sample_weight, len(X))

    def _solve(self, gram: Gram) -> Array:
        raise NotImplementedError

    def predict(self, X: Any) -> Array:
        """Predictions of the linear model."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)


class OrthogonalMatchingPursuit(MultiOutputMixin, _GramRegressor):
    """Greedy choice of columns, as :class:`sklearn.linear_model.OrthogonalMatchingPursuit`.

    Parameters
    ----------
    n_nonzero_coefs : int, optional
        How many columns; by default a tenth of them, at least one.
    tol : float, optional
        Largest sum of squared residuals, instead of a number of columns.
    fit_intercept : bool, default True
    """

    def __init__(
        self,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.n_nonzero_coefs, self.tol, self.fit_intercept = n_nonzero_coefs, tol, fit_intercept

    def _solve(self, gram: Gram) -> Array:
        count = None if self.tol is not None else self.n_nonzero_coefs or max(1, len(gram.XX) // 10)
        squares = None if self.tol is None else gram.yy
        coef = linear_model.orthogonal_mp_gram(
            gram.XX, gram.Xy, n_nonzero_coefs=count, tol=self.tol, norms_squared=squares
        )
        return np.asarray(coef.reshape(len(gram.XX), -1).T)


class LassoLars(_GramRegressor):
    """The lasso by least angles, as :class:`sklearn.linear_model.LassoLars`.

    Parameters
    ----------
    alpha : float, default 1.0
    fit_intercept : bool, default True
    max_iter : int, default 500
    positive : bool, default False
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        max_iter: int = 500,
        positive: bool = False,
    ) -> None:
        self.alpha, self.fit_intercept = alpha, fit_intercept
        self.max_iter, self.positive = max_iter, positive

    def _solve(self, gram: Gram) -> Array:
        return np.array(
            [self._path(gram, k, self.alpha)[1][:, -1] for k in range(gram.Xy.shape[1])]
        )

    def _path(self, gram: Gram, target: int, alpha_min: float) -> tuple[Array, Array]:
        """Alphas, falling, and coefficients (columns) of the path of one target."""
        # The solver takes integers only: the moments are scaled to an integer number of rows.
        count = max(1, round(gram.total))
        scale = count / gram.total
        alphas, _, coefs, self.n_iter_ = linear_model.lars_path_gram(
            Xy=gram.Xy[:, target] * scale, Gram=gram.XX * scale, n_samples=count,
            alpha_min=alpha_min, method="lasso", max_iter=self.max_iter, eps=EPS,
            positive=self.positive, return_n_iter=True,
        )  # fmt: skip
        return alphas, coefs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = type(self) is LassoLars
        return tags


class LassoLarsCV(LassoLars):
    """The lasso by least angles, alpha chosen by cross-validation, as
    :class:`sklearn.linear_model.LassoLarsCV`.

    Parameters
    ----------
    fit_intercept : bool, default True
    max_iter : int, default 500
    cv : int, splitter or iterable, optional
        Splits of the rows it is given; :class:`karat.CoresetRegressor` sets it to those of the full
        data.
    max_n_alphas : int, default 1000
    positive : bool, default False
    """

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        max_iter: int = 500,
        cv: Any = None,
        max_n_alphas: int = 1000,
        positive: bool = False,
    ) -> None:
        super().__init__(fit_intercept=fit_intercept, max_iter=max_iter, positive=positive)
        self.cv, self.max_n_alphas = cv, max_n_alphas
        del self.alpha  # chosen, not given

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose alpha and fit to weighted rows."""
        X, y, weights = self._rows(X, y, sample_weight)
        y = column_or_1d(y, warn=True)
        splits = list(check_cv(self.cv).split(X, y))
        grams = [
            Gram(X[train], y[train, None], weights[train], self.fit_intercept)
            for train, _ in splits
        ]
        paths = [self._path(gram, 0, 0.0) for gram in grams]
        alphas = np.unique(np.concatenate([path[0] for path in paths]))
        alphas = alphas[:: max(1, len(alphas) // self.max_n_alphas)]
        errors = np.empty((len(alphas), len(splits)))
        for number, (gram, (knots, coefs), (_, test)) in enumerate(
            zip(grams, paths, splits, strict=True)
        ):
            # The path is linear between its knots, and constant beyond the last one.
            coef = np.array([np.interp(alphas, knots[::-1], row[::-1]) for row in coefs]).T
            residual = X[test] @ coef.T + gram.intercept(coef) - y[test, None]
            errors[:, number] = weights[test] @ np.square(residual) / weights[test].sum()
        self.cv_alphas_, self.mse_path_ = alphas, errors
        self.alpha_ = float(alphas[errors.mean(axis=1).argmin()])
        gram = Gram(X, y[:, None], weights, self.fit_intercept)
        self.coef_ = self._path(gram, 0, self.alpha_)[1][:, -1]
        self.intercept_ = float(gram.intercept(self.coef_[None])[0])
        return self


@dataclass(frozen=True)
class BalancedRows:
    """Rows without weights that have the scatter of weighted ones, times ``scale``."""

    X: Array
    y: Array
    x_mean: Array
    y_mean: Any
    total: float
    scale: float

    @classmethod
    def of(
        cls, X: Array, y: Array, weights: Array, fit_intercept: bool, reads: str
    ) -> BalancedRows:
        """The rows of weighted ones."""
        total = float(weights.sum())
        if not fit_intercept:
            scale = len(X) / total if reads == MEANS else 1.0
            root = np.sqrt(scale * weights)
            nothing = np.zeros(X.shape[1]), np.zeros(y.shape[1:])
            return cls(_times(root, X), _times(root, y), *nothing, total, scale)
        if reads == VARIANCES and total <= 1:
            raise InputError(
                f"The weights sum to {total:g}: they are taken as numbers of rows, and variances"
                " are divided by one less; pass weights that sum to the number of rows.",
                argument="sample_weight",
            )
        count = 2 * len(X)
        scale = {SUMS: 1.0, MEANS: count / total, VARIANCES: (count - 1) / (total - 1)}[reads]
        root = np.sqrt(0.5 * scale * weights)
        (x_mean, x_part), (y_mean, y_part) = (_about_mean(part, weights, root) for part in (X, y))
        balanced = np.concatenate([x_part, -x_part]), np.concatenate([y_part, -y_part])
        return cls(*balanced, x_mean, y_mean, total, scale)

    def intercept(self, coef: Array) -> Any:
        """The intercept that goes with coefficients."""
        return self.y_mean - self.x_mean @ coef.T


def _times(root: Array, part: Array) -> Array:
    return root[:, None] * part if part.ndim == 2 else root * part


def _about_mean(part: Array, weights: Array, root: Array) -> tuple[Array, Array]:
    """The mean, and rows about it; columns that are constant up to rounding are constant."""
    mean = weights @ part / weights.sum()
    rest = part - mean
    spread = np.sqrt(weights @ np.square(rest) / weights.sum())
    rest = np.where(spread <= CONSTANT * np.abs(mean), 0.0, rest)
    return mean, _times(root, rest)


def decided_by_rounding(model: Any, name: str, X: Any, weights: Any) -> str:
    """Why made rows do not serve a model that chooses columns step by step; empty if they do.

    Among columns that are combinations of others, the last digits decide, and made rows have other
    last digits.
    """
    table = np.asarray(containers.as_table(X, "X"), dtype=float)
    weights = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=float)
    intercept = getattr(model, "fit_intercept", True)
    rows = BalancedRows.of(table, np.zeros(len(table)), weights, intercept, SUMS).X
    if getattr(model, "scale", True):
        norms = np.sqrt(np.square(rows).sum(axis=0))
        rows = rows / np.where(norms > 0, norms, 1.0)
    values = np.linalg.svd(rows, compute_uv=False)
    rank = int(np.count_nonzero(values > DEPENDENT * values.max(initial=0.0)))
    if rank >= (model.n_components if name == "PLSRegression" else table.shape[1]):
        return ""
    return (
        f"Columns are combinations of others, or constant, and {type(model).__name__} would choose"
        " between them by their last digits, which made rows do not keep."
    )


def fit_balanced(model: Any, name: str, X: Any, y: Any, weights: Any) -> Any:
    """Fit a model that takes no sample_weight, in place, as if every row were there so many
    times.
    """
    if weights is None:
        return model.fit(X, y)
    check_parameters(model)
    table = np.asarray(containers.as_table(X, "X"), dtype=float)
    target = np.asarray(y, dtype=float)
    intercept = getattr(model, "fit_intercept", True)
    if name == "OrthogonalMatchingPursuitCV":
        _fit_pursuit_cv(model, table, target, np.asarray(weights, dtype=float))
    else:
        rows = BalancedRows.of(
            table, target, np.asarray(weights, dtype=float), intercept, READS[name]
        )
        if name == "LassoLarsIC":
            _fit_by_criterion(model, rows)
        else:
            model.fit(rows.X, rows.y)
        if name == "PLSRegression":
            set_means_of_pls(model, rows.x_mean, rows.y_mean)
        elif intercept:
            model.intercept_ = rows.intercept(model.coef_)
    validate_data(model, X, skip_check_array=True)  # the names of the columns
    return model


def _fit_by_criterion(model: Any, rows: BalancedRows) -> None:
    """Fit LassoLarsIC: the path of few rows, the criterion of the true number of rows."""
    parameters = rows.X.shape[1] + model.fit_intercept
    if model.noise_variance is None and rows.total <= parameters:
        raise InputError(
            f"LassoLarsIC cannot estimate the variance of the noise from {rows.total:g} rows of"
            f" {several(rows.X.shape[1], 'column')}; pass noise_variance.",
            argument="noise_variance",
        )
    alphas, _, path, steps = linear_model.lars_path(
        rows.X, rows.y, Gram=model.precompute, alpha_min=0.0, method="lasso",
        max_iter=model.max_iter, eps=model.eps, positive=model.positive, return_n_iter=True,
    )  # fmt: skip
    squares = np.square(rows.y[:, None] - rows.X @ path).sum(axis=0) / rows.scale
    noise = model.noise_variance
    if noise is None:
        least = linear_model.LinearRegression(positive=model.positive, fit_intercept=False).fit(
            rows.X, rows.y
        )
        left = np.square(rows.y - least.predict(rows.X)).sum() / rows.scale
        noise = left / (rows.total - parameters)
    factor = 2.0 if model.criterion == "aic" else np.log(rows.total)
    freedom = np.count_nonzero(np.abs(path) > EPS, axis=0)
    model.alphas_, model.noise_variance_, model.n_iter_ = alphas, noise, steps
    model.criterion_ = rows.total * np.log(2 * np.pi * noise) + squares / noise + factor * freedom
    best = int(np.argmin(model.criterion_))
    model.alpha_, model.coef_ = alphas[best], path[:, best]
    model.intercept_ = 0.0


def _fit_pursuit_cv(model: Any, X: Array, y: Array, weights: Array) -> None:
    """Fit OrthogonalMatchingPursuitCV, whose ``cv`` is a list of splits of the weighted rows."""
    most = model.max_iter or min(max(int(0.1 * X.shape[1]), 5), X.shape[1])
    errors = []
    for train, test in model.cv:
        rows = BalancedRows.of(X[train], y[train], weights[train], model.fit_intercept, SUMS)
        path = linear_model.orthogonal_mp(
            rows.X, rows.y, n_nonzero_coefs=most, precompute=False, return_path=True
        )
        path = path.reshape(X.shape[1], -1)
        misses = (X[test] - rows.x_mean) @ path - (y[test] - rows.y_mean)[:, None]
        errors.append(weights[test] @ np.square(misses) / weights[test].sum())
    shortest = min(len(fold) for fold in errors)
    count = int(np.argmin(np.mean([fold[:shortest] for fold in errors], axis=0))) + 1
    final = linear_model.OrthogonalMatchingPursuit(
        n_nonzero_coefs=count, fit_intercept=model.fit_intercept
    )
    final = fit_balanced(final, "OrthogonalMatchingPursuit", X, y, weights)
    model.n_nonzero_coefs_, model.n_iter_ = count, final.n_iter_
    model.coef_, model.intercept_ = final.coef_, final.intercept_
