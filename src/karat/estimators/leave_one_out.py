"""RidgeCV without cv: the leave-one-out errors of all rows at every alpha, from one coreset and one
pass.

If row i is left out, its error is ``e_i / (1 - h_i)`` (its residual and its leverage).  With the
eigenvectors V and eigenvalues s of the centred Gram matrix, which the coreset keeps, and ``t_i =
V'(x_i - mean)``,

    h_i = w_i (1 / W + sum_j t_ij^2 / (s_j + alpha))  e_i = y_i - mean - sum_j t_ij (V'X'Wy)_j /
    (s_j + alpha)

so all leverages and all predictions are one product of matrices each per block of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.metrics import check_scoring
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.class_weight import compute_sample_weight

from karat.compat.sklearn import copy_fitted, set_classes, weight_request
from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.batch import weights_or_ones
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.estimators.fitting import fit_weighted
from karat.estimators.training_rows import COLUMNS, EXPENSIVE, TrainingRows, WeightedRows
from karat.estimators.weighted.from_gram import Gram

BLOCK = 1 << 14


class _Identity(RegressorMixin, BaseEstimator):
    """Predicts what it is given, so that a scorer can score predictions."""

    def predict(self, X: Any) -> Any:
        return X


def fit_by_leave_one_out(ridge: Any, rows: TrainingRows) -> tuple[Any, Coreset]:
    """Fit RidgeCV(cv=None), in place; returns it with its coreset."""
    alphas = np.atleast_1d(np.asarray(ridge.alphas, dtype=float))
    if (alphas <= 0).any():
        raise InputError("RidgeCV without cv needs alphas above 0.", argument="alphas")
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
        kept = (
            np.square(errors) * weights[:, None, None]
            if ridge.scoring is None
            else y[:, :, None] - errors
        )
        ridge.cv_results_ = kept[:, 0] if flat else kept
    # Of sparse rows the solver of Ridge would stop at its tolerance.
    dense = few.X.toarray() if containers.is_sparse(few.X) else few.X
    model = fit_weighted(
        Ridge(ridge.alpha_, fit_intercept=ridge.fit_intercept), dense, few.y, few.weights
    )
    copy_fitted(model, ridge)
    return ridge, few.core


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
        own = compute_sample_weight(ridge.class_weight, labels)
        weights = own if weights is None else own * weights
    columns = {COLUMNS: rows.memo[COLUMNS]} if COLUMNS in rows.memo else {}
    signs = replace(rows, target=target, sample_weight=weights, classifies=False, memo=columns)
    ridge, core = fit_by_leave_one_out(ridge, signs)
    set_classes(ridge, binarizer)
    return ridge, core


def _errors(
    X: Any, y: Array, weights: Array, few: WeightedRows, alphas: Array, fit_intercept: bool
) -> Array:
    """Errors of every row that is left out (rows, targets, alphas)."""
    own = weights_or_ones(few.weights, len(few.y))
    gram = Gram(dense_doubles(few.numbers), dense_target(few.y), own, fit_intercept)
    values, vectors = linalg.eigh(gram.XX)
    shrunk = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    slopes = shrunk[:, None, :] * (vectors.T @ gram.Xy)[:, :, None]
    errors = np.empty((len(y), y.shape[1], len(alphas)))
    for start in range(0, len(y), BLOCK):
        block = slice(start, start + BLOCK)
        taken = containers.take_rows(X, np.arange(len(y))[block])
        turned = (dense_doubles(taken) - gram.x_mean) @ vectors
        leverage = weights[block, None] * (
            (1.0 / gram.total if fit_intercept else 0.0) + np.square(turned) @ shrunk
        )
        residual = (y[block] - gram.y_mean)[:, :, None] - np.tensordot(turned, slopes, axes=1)
        errors[block] = residual / (1.0 - leverage)[:, None, :]
    return errors


def _scores(ridge: Any, errors: Array, y: Array, weights: Array | None, flat: bool) -> Any:
    """The score of one alpha: of all targets, or of each."""
    if ridge.scoring is None:
        squares = -np.square(errors) * (1.0 if weights is None else weights[:, None])
        return (
            squares.mean(axis=0)
            if getattr(ridge, "alpha_per_target", False) and not flat
            else squares.mean()
        )
    scorer = check_scoring(ridge, ridge.scoring)
    unweighted = weights is None or weight_request(scorer, "score") is False
    options = {} if unweighted else {"sample_weight": weights}
    found, identity = y - errors, _Identity()
    if ridge.alpha_per_target and not flat:
        return np.array(
            [scorer(identity, found[:, j], y[:, j], **options) for j in range(y.shape[1])]
        )
    return scorer(identity, found[:, 0] if flat else found, y[:, 0] if flat else y, **options)


def dense_doubles(table: Any) -> Array:
    """A table as an array of doubles."""
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table, dtype=float)


def dense_target(y: Any) -> Array:
    """A target as a table of doubles."""
    return np.asarray(containers.as_table(y, "y"), dtype=float)
