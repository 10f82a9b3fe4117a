"""scikit-learn's own regressors that take no sample_weight, fitted on rows that need none.

Rows with weights w become the rows ``s sqrt(w / 2) (x - mean)`` and the same with the sign turned:
they have no mean, so that centring them does nothing, and the scatter of all rows times ``s^2``.
What ``s`` has to be depends on how a regressor counts rows:

    sums       s^2 = 1                  it reads X'X as it is (a limit on the sum of squares)
    means      s^2 = m / n              it divides by the number of rows: m here, n in truth
    variances  s^2 = (m - 1) / (n - 1)  it divides by one less

Without an intercept nothing is centred, and ``sqrt(w) x`` will do.  Weights are frequencies: n is
their sum.  Afterwards the intercept is that of the true means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import (
    LinearRegression,
    OrthogonalMatchingPursuit,
    lars_path,
    orthogonal_mp,
)
from sklearn.utils.validation import validate_data

from karat.compat.sklearn import check_parameters, set_means_of_pls
from karat.data import containers
from karat.engine.linalg import Array
from karat.engine.tolerances import EPS
from karat.errors import InputError

SUMS, MEANS, VARIANCES = "sums", "means", "variances"
READS = {
    "Lars": MEANS,
    "LassoLars": MEANS,
    "LassoLarsIC": MEANS,
    "OrthogonalMatchingPursuit": SUMS,
    "OrthogonalMatchingPursuitCV": SUMS,
    "PLSRegression": VARIANCES,
}
GREEDY = READS.keys() | {"karat.LassoLars", "karat.LassoLarsCV", "karat.OrthogonalMatchingPursuit"}
DEPENDENT = 1e-6  # of the largest: directions of scaled columns that made rows do not keep well
CONSTANT = 64 * EPS  # of its mean: a column that varies by no more is constant up to rounding


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
        both = np.concatenate([x_part, -x_part]), np.concatenate([y_part, -y_part])
        return cls(*both, x_mean, y_mean, total, scale)

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

    Of columns that are combinations of others, the steps are decided by their last digits, which
    made rows do not have.
    """
    table = np.asarray(containers.as_table(X, "X"), dtype=float)
    own = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=float)
    intercept = getattr(model, "fit_intercept", True)
    rows = BalancedRows.of(table, np.zeros(len(table)), own, intercept, SUMS).X
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
            f"LassoLarsIC estimates the variance of the noise, which {rows.total:g} rows of "
            f"{rows.X.shape[1]} columns do not tell; pass noise_variance.",
            argument="noise_variance",
        )
    alphas, _, path, steps = lars_path(
        rows.X, rows.y, Gram=model.precompute, alpha_min=0.0, method="lasso",
        max_iter=model.max_iter, eps=model.eps, positive=model.positive, return_n_iter=True,
    )  # fmt: skip
    squares = np.square(rows.y[:, None] - rows.X @ path).sum(axis=0) / rows.scale
    noise = model.noise_variance
    if noise is None:
        least = LinearRegression(positive=model.positive, fit_intercept=False).fit(rows.X, rows.y)
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
        path = orthogonal_mp(
            rows.X, rows.y, n_nonzero_coefs=most, precompute=False, return_path=True
        )
        path = path.reshape(X.shape[1], -1)
        misses = (X[test] - rows.x_mean) @ path - (y[test] - rows.y_mean)[:, None]
        errors.append(weights[test] @ np.square(misses) / weights[test].sum())
    shortest = min(len(fold) for fold in errors)
    count = int(np.argmin(np.mean([fold[:shortest] for fold in errors], axis=0))) + 1
    final = OrthogonalMatchingPursuit(n_nonzero_coefs=count, fit_intercept=model.fit_intercept)
    final = fit_balanced(final, "OrthogonalMatchingPursuit", X, y, weights)
    model.n_nonzero_coefs_, model.n_iter_ = count, final.n_iter_
    model.coef_, model.intercept_ = final.coef_, final.intercept_
