"""RidgeCV without cv: the leave-one-out errors of all rows at every alpha, from one coreset and one
pass.

If row i is left out, its error is ``e_i / (1 - h_i)`` (its residual and its leverage).  With the
right singular vectors V and squared singular values s of the centred rows, which the coreset keeps,
and ``t_i = V'(x_i - mean)``,

    h_i = w_i (1 / W + sum_j t_ij^2 / (s_j + alpha))
    e_i = y_i - mean - sum_j t_ij (V'X'Wy)_j / (s_j + alpha)

so the leverages of a block of rows are one product of matrices, and so are the predictions.
"""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.linear_model import Ridge
from sklearn.metrics import check_scoring
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import check_scalar
from sklearn.utils.class_weight import compute_sample_weight

from karat.compat.sklearn import copy_fitted, set_classes, weight_request
from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.batch import weights_or_ones
from karat.data.transformed import dense
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.estimators.fitting import fit_weighted
from karat.estimators.training_rows import COLUMNS, EXPENSIVE, TrainingRows, WeightedRows

BLOCK = 1 << 14  # rows at a time
WIDE = (
    "There are no more rows than columns: residuals are rounding, and leave-one-out errors are"
    " computed from them."
)


class _Identity(RegressorMixin, BaseEstimator):
    """Predicts what it is given, so that a scorer can score predictions."""

    def predict(self, X: Any) -> Any:
        return X


def fit_by_leave_one_out(ridge: Any, rows: TrainingRows) -> tuple[Any, Coreset]:
    """Fit RidgeCV(cv=None), in place; returns it with its coreset."""
    alphas = checked_alphas(ridge)
    if len(rows) <= rows.X.shape[1] and rows.sample_weight is None and not is_classifier(ridge):
        few = rows.as_they_are(WIDE)  # the formula above would divide rounding by rounding
        return fit_weighted(ridge, few.X, few.y, None), few.core
    flat = containers.dimensions(rows.target) == 1
    X, few = rows.X, replace(rows, fits=EXPENSIVE * rows.fits).few()
    y = dense_target(rows.y)
    weights = weights_or_ones(rows.sample_weight, len(y))
    errors = _errors(X, y, weights, few, alphas, ridge.fit_intercept)
    scores = np.array(
        [_scores(ridge, errors[:, :, k], y, rows.sample_weight, flat) for k in range(len(alphas))]
    )
    best = scores.argmax(axis=0)  # one, or one per target
    ridge.alpha_ = alphas[best] if np.ndim(best) else float(alphas[best])
    ridge.best_score_ = scores.max(axis=0) if np.ndim(best) else float(scores.max())
    if ridge.store_cv_results:
        if ridge.scoring is None:
            results = np.square(errors) * weights[:, None, None]
        else:
            results = y[:, :, None] - errors
        ridge.cv_results_ = results[:, 0] if flat else results
    # On sparse rows the solver of Ridge would stop at its tolerance; on dense rows its default
    # squares the condition number.
    table = few.X.toarray() if containers.is_sparse(few.X) else few.X
    model = Ridge(ridge.alpha_, fit_intercept=ridge.fit_intercept, solver="svd")
    copy_fitted(fit_weighted(model, table, few.y, few.weights), ridge)
    return ridge, few.core


def checked_alphas(ridge: Any) -> Array:
    """The alphas of RidgeCV or RidgeClassifierCV as doubles, checked as in scikit-learn."""
    least = "neither" if ridge.cv is None else "left"  # leave-one-out does not work for 0
    for place, alpha in enumerate(np.atleast_1d(np.asarray(ridge.alphas, dtype=object))):
        try:
            check_scalar(
                alpha, f"alphas[{place}]", numbers.Real, min_val=0.0, include_boundaries=least
            )
        except ValueError as error:
            raise InputError(str(error), argument="alphas") from None
    return np.atleast_1d(np.asarray(ridge.alphas, dtype=float))


def fit_classes_by_leave_one_out(ridge: Any, rows: TrainingRows) -> tuple[Any, Coreset]:
    """Fit RidgeClassifierCV(cv=None), in place: squared errors of targets of -1 and 1, one per
    class.

    The weights of classes count as sample weights, as in scikit-learn.
    """
    labels = np.asarray(rows.target)
    binarizer = LabelBinarizer(pos_label=1, neg_label=-1)
    target = np.asarray(binarizer.fit_transform(labels), dtype=float)
    weights = rows.sample_weight
    if ridge.class_weight is not None:
        of_classes = compute_sample_weight(ridge.class_weight, labels)
        weights = of_classes if weights is None else of_classes * weights
    columns = {COLUMNS: rows.memo[COLUMNS]} if COLUMNS in rows.memo else {}
    signs = replace(rows, target=target, sample_weight=weights, classifies=False, memo=columns)
    ridge, core = fit_by_leave_one_out(ridge, signs)
    set_classes(ridge, binarizer)
    return ridge, core


def _errors(
    X: Any, y: Array, weights: Array, few: WeightedRows, alphas: Array, fit_intercept: bool
) -> Array:
    """The error of every row when it is left out (rows, targets, alphas)."""
    table, target = dense(few.numbers).astype(float, copy=False), dense_target(few.y)
    few_weights = weights_or_ones(few.weights, len(target))
    total = few_weights.sum()
    x_mean, y_mean = (
        few_weights @ part / total if fit_intercept else np.zeros(part.shape[1])
        for part in (table, target)
    )
    centred_rows = np.sqrt(few_weights)[:, None] * np.hstack([table - x_mean, target - y_mean])
    # R has the Gram matrix of the rows, but does not square their condition number.
    factor = np.asarray(np.linalg.qr(centred_rows, mode="r"))
    left, values, vectors = np.linalg.svd(factor[:, : len(x_mean)], full_matrices=False)
    shrunk = 1.0 / (np.square(values)[:, None] + alphas)
    slopes = (
        shrunk[:, None, :] * (values[:, None] * (left.T @ factor[:, len(x_mean) :]))[:, :, None]
    )
    errors = np.empty((len(y), y.shape[1], len(alphas)))
    for start in range(0, len(y), BLOCK):
        block = slice(start, start + BLOCK)
        rows = dense(containers.take_rows(X, np.arange(len(y))[block]))
        turned = (rows.astype(float, copy=False) - x_mean) @ vectors.T
        leverage = weights[block, None] * (
            (1.0 / total if fit_intercept else 0.0) + np.square(turned) @ shrunk
        )
        residual = (y[block] - y_mean)[:, :, None] - np.tensordot(turned, slopes, axes=1)
        errors[block] = residual / (1.0 - leverage)[:, None, :]
    return errors


def _scores(ridge: Any, errors: Array, y: Array, weights: Array | None, flat: bool) -> Any:
    """The score of one alpha: of all targets, or of each."""
    if ridge.scoring is None:
        squares = -np.square(errors) * (1.0 if weights is None else weights[:, None])
        per_target = getattr(ridge, "alpha_per_target", False) and not flat
        return squares.mean(axis=0) if per_target else squares.mean()
    scorer = check_scoring(ridge, ridge.scoring)
    unweighted = weights is None or weight_request(scorer, "score") is False
    options = {} if unweighted else {"sample_weight": weights}
    predicted, identity = y - errors, _Identity()
    if ridge.alpha_per_target and not flat:
        columns = zip(predicted.T, y.T, strict=True)
        return np.array([scorer(identity, *pair, **options) for pair in columns])
    if flat:
        predicted, y = predicted[:, 0], y[:, 0]
    return scorer(identity, predicted, y, **options)


def dense_target(y: Any) -> Array:
    """A target as a table of doubles."""
    return np.asarray(containers.as_table(y, "y"), dtype=float)
