"""Regressors that read the Gram matrix only: least angle lasso and orthogonal matching pursuit,
with weights.

scikit-learn's classes take no ``sample_weight``; its path functions take ``X'X`` and ``X'y``, and
those of weighted, centred rows are kept by every least-squares coreset.  Weights are frequencies,
so the number of samples is their sum.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.linear_model import lars_path_gram, orthogonal_mp_gram
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from karat.data.batch import weights_or_ones
from karat.engine.linalg import Array
from karat.engine.tolerances import EPS


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
        coef = orthogonal_mp_gram(
            gram.XX,
            gram.Xy,
            n_nonzero_coefs=count,
            tol=self.tol,
            norms_squared=None if self.tol is None else gram.yy,
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
        self.alpha, self.fit_intercept, self.max_iter, self.positive = (
            alpha,
            fit_intercept,
            max_iter,
            positive,
        )

    def _solve(self, gram: Gram) -> Array:
        return np.array(
            [self._path(gram, k, self.alpha)[1][:, -1] for k in range(gram.Xy.shape[1])]
        )

    def _path(self, gram: Gram, target: int, alpha_min: float) -> tuple[Array, Array]:
        """Alphas, falling, and coefficients (columns) of the path of one target."""
        # it takes integers only, so the moments are brought to one
        count = max(1, round(gram.total))
        scale = count / gram.total
        alphas, _, coefs, self.n_iter_ = lars_path_gram(
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
            # the path is linear between its knots, and ends where its last knots are
            coef = np.array([np.interp(alphas, knots[::-1], row[::-1]) for row in coefs]).T
            residual = X[test] @ coef.T + gram.intercept(coef) - y[test, None]
            errors[:, number] = weights[test] @ np.square(residual) / weights[test].sum()
        self.cv_alphas_, self.mse_path_ = alphas, errors
        self.alpha_ = float(alphas[errors.mean(axis=1).argmin()])
        whole = Gram(X, y[:, None], weights, self.fit_intercept)
        self.coef_ = self._path(whole, 0, self.alpha_)[1][:, -1]
        self.intercept_ = float(whole.intercept(self.coef_[None])[0])
        return self
