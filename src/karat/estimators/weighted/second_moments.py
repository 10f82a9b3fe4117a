"""Learners whose answer is a function of total weight, means and covariances, of all rows or of
each class.

scikit-learn's PCA, discriminants and GraphicalLasso take no weights, and its naive Bayes smooths by
an unweighted variance.  These do the same, with weights as frequencies: a weight of 3 is a row
written three times, so ``n - 1`` becomes ``sum(w) - 1``. On a coreset of ``Moments(2)`` (for
classifiers with ``groups=labels``) each gives the answer of scikit-learn's namesake on the full
data.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import linalg
from scipy.special import expit, logsumexp, softmax
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.covariance import graphical_lasso, shrunk_covariance
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from karat.compat.sklearn import DIVIDES_BY_ROWS
from karat.data.batch import weights_or_ones
from karat.engine.linalg import Array
from karat.engine.tolerances import EPS
from karat.errors import InputError, several


def weighted_rows(estimator: Any, X: Any, sample_weight: Any) -> tuple[Array, Array]:
    """Checked rows of positive weight, in float64, and their weights."""
    X = validate_data(estimator, X, dtype=np.float64, ensure_min_samples=2)
    weights = weights_or_ones(sample_weight, len(X))
    keep = weights > 0
    return (X, weights) if keep.all() else (X[keep], weights[keep])


def centred(X: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean, and rows ``sqrt(w) (x - mean)``, whose Gram matrix is the scatter."""
    mean = weights @ X / weights.sum()
    return mean, np.sqrt(weights)[:, None] * (X - mean)


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components of weighted rows, as :class:`sklearn.decomposition.PCA` on repeated
    ones.

    Parameters
    ----------
    n_components : int, optional
        How many to keep; by default as many as the rows span.

    Attributes
    ----------
    components_, explained_variance_, explained_variance_ratio_, singular_values_, mean_,
    n_components_
        As in scikit-learn.
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components."""
        X, weights = weighted_rows(self, X, sample_weight)
        self.mean_, rows = centred(X, weights)
        _, singular, axes = np.linalg.svd(rows, full_matrices=False)
        rank = max(1, int(np.count_nonzero(singular > max(X.shape) * EPS * singular[0])))
        count = rank if self.n_components is None else self.n_components
        if not isinstance(count, int | np.integer) or not 1 <= count <= len(singular):
            raise InputError(
                f"n_components must be an integer from 1 to {len(singular)}, not"
                f" {self.n_components!r}."
            )
        largest = np.abs(axes).argmax(axis=1)
        # scikit-learn's choice of signs
        axes *= np.sign(axes[np.arange(len(axes)), largest])[:, None]
        variance = singular**2 / (weights.sum() - 1)
        self.components_ = axes[:count]
        self.explained_variance_ = variance[:count]
        self.explained_variance_ratio_ = variance[:count] / variance.sum()
        self.singular_values_ = singular[:count]
        self.n_components_ = self._n_features_out = int(count)
        return self

    def transform(self, X: Any) -> Array:
        """Coordinates of rows along the components."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray((X - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Array:
        """Rows with given coordinates."""
        check_is_fitted(self)
        return np.asarray(X @ self.components_ + self.mean_)


class GraphicalLasso(BaseEstimator):
    """Sparse inverse covariance of weighted rows; the solver is
    :func:`sklearn.covariance.graphical_lasso`.

    Parameters
    ----------
    alpha : float, default 0.01
        The penalty on off-diagonal entries of the precision.
    max_iter, tol
        As in scikit-learn.
    """

    def __init__(self, alpha: float = 0.01, *, max_iter: int = 100, tol: float = 1e-4) -> None:
        self.alpha, self.max_iter, self.tol = alpha, max_iter, tol

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Estimate ``covariance_`` and ``precision_``; ``location_`` is the mean."""
        X, weights = weighted_rows(self, X, sample_weight)
        if X.shape[1] < 2:
            raise InputError(
                "GraphicalLasso looks for relations between columns, but X has 1 feature(s)."
            )
        self.location_, rows = centred(X, weights)
        covariance = rows.T @ rows / weights.sum()
        options = {"max_iter": self.max_iter, "tol": self.tol, "return_n_iter": True}
        try:
            solution = graphical_lasso(covariance, self.alpha, **options)
        except FloatingPointError:
            raise InputError(
                "The solver of GraphicalLasso, which is scikit-learn's, breaks down at"
                f" alpha={self.alpha:g}: the covariance is nearly singular, because columns are"
                " combinations of others or rows are fewer than columns. Choose a larger alpha.",
                argument="alpha",
            ) from None
        self.covariance_, self.precision_, self.n_iter_ = solution
        return self


class _GaussianClassifier(ClassifierMixin, BaseEstimator):
    """Base class of classifiers with one Gaussian per class."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows with class labels."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = weights_or_ones(sample_weight, len(X))
        keep = weights > 0
        X, y, weights = X[keep], y[keep], weights[keep]
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"{type(self).__name__} needs at least two classes, the data has"
                f" {len(self.classes_)} class."
            )
        counts = np.bincount(label, weights).astype(float)
        self.priors_ = _checked_priors(getattr(self, "priors", None), counts)
        parts = [centred(X[label == k], weights[label == k]) for k in range(len(counts))]
        self.means_ = np.array([mean for mean, _ in parts])
        self._fit_classes(X, weights, counts, [rows for _, rows in parts])
        return self

    def _fit_classes(self, X: Array, weights: Array, counts: Array, parts: list[Array]) -> None:
        raise NotImplementedError

    def _joint(self, X: Array) -> Array:
        """Log of prior times density, up to a constant per row."""
        raise NotImplementedError

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._joint(validate_data(self, X, dtype=np.float64, reset=False))

    def decision_function(self, X: Any) -> Array:
        """Log-density of each class, prior included; for two classes the difference."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row."""
        scores = self._scores(X)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            second = expit(scores[:, 1] - scores[:, 0])
            return np.column_stack([1 - second, second])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of the probability of each class."""
        scores = self._scores(X)
        return np.asarray(scores - logsumexp(scores, axis=1, keepdims=True))


def _checked_priors(setting: Any, counts: Array) -> Array:
    """The probabilities of the classes: those that were passed, or proportional to the weights."""
    if setting is None:
        return np.asarray(counts / counts.sum())
    priors = np.asarray(setting, dtype=float)
    if priors.shape != counts.shape or not (priors >= 0).all() or priors.sum() <= 0:
        raise InputError(
            f"priors={setting!r} must be {len(counts)} probabilities, one per class, none below 0.",
            argument="priors",
        )
    return np.asarray(priors / priors.sum())


class LinearDiscriminant(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _GaussianClassifier):
    """Gaussians of one covariance, as
    :class:`sklearn.discriminant_analysis.LinearDiscriminantAnalysis`.

    Parameters
    ----------
    tol : float, default 1e-4
        Directions in which the rows of the classes, with columns scaled to variance 1, vary less
        than this are left out; so are directions in which the means of the classes differ less than
        this part of the largest difference.  For the solver "svd".
    solver : "svd", "lsqr" or "eigen", default "svd"
    shrinkage : float, optional
        From 0 to 1, for "lsqr" and "eigen": covariances are moved this part of the way to a
        multiple of the identity.  "auto" needs fourth moments, and is refused.
    priors : array, optional
        The probability of each class; by default in proportion to their weights.
    n_components : int, optional
        How many columns ``transform`` gives; by default as many as there are, one less than classes
        at most.
    """

    def __init__(
        self,
        tol: float = 1e-4,
        *,
        solver: str = "svd",
        shrinkage: float | None = None,
        priors: Any = None,
        n_components: int | None = None,
    ) -> None:
        self.tol, self.solver, self.shrinkage = tol, solver, shrinkage
        self.priors, self.n_components = priors, n_components

    def _fit_classes(self, X: Array, weights: Array, counts: Array, parts: list[Array]) -> None:
        most = min(len(counts) - 1, X.shape[1])
        self._check(most)
        self._n_features_out = most if self.n_components is None else self.n_components
        if self.solver == "svd":
            coef, intercept = self._by_svd(counts, parts)
        else:
            coef, intercept = self._by_covariance(X, weights, counts, parts)
        two = len(counts) == 2
        self.coef_, self.intercept_ = (
            (coef[1:] - coef[:1], intercept[1:] - intercept[:1]) if two else (coef, intercept)
        )

    def _check(self, most: int) -> None:
        if self.solver not in ("svd", "lsqr", "eigen"):
            raise InputError(
                f"solver={self.solver!r} is none of 'svd', 'lsqr' and 'eigen'.", argument="solver"
            )
        shrinkage = self.shrinkage
        if isinstance(shrinkage, str):
            raise InputError(
                f"shrinkage={shrinkage!r} reads fourth moments of the rows, which are not kept;"
                " pass a number from 0 to 1.",
                argument="shrinkage",
            )
        if shrinkage is not None and (self.solver == "svd" or not 0 <= shrinkage <= 1):
            raise InputError(
                f"shrinkage={shrinkage!r} must be a number from 0 to 1, and needs solver='lsqr' or"
                f" 'eigen', not {self.solver!r}.",
                argument="shrinkage",
            )
        if self.n_components is not None and not 1 <= self.n_components <= most:
            raise InputError(
                f"n_components={self.n_components!r} must be from 1 to {most}: no more "
                "than columns, and one less than classes.",
                argument="n_components",
            )

    def _by_covariance(
        self, X: Array, weights: Array, counts: Array, parts: list[Array]
    ) -> tuple[Array, Array]:
        """Coefficients and intercepts by the mean covariance of the classes."""
        of_classes = [
            self._shrunk(rows.T @ rows / count) for rows, count in zip(parts, counts, strict=True)
        ]
        self.covariance_ = np.tensordot(self.priors_, np.array(of_classes), axes=1)
        if self.solver == "lsqr":
            coef = linalg.lstsq(self.covariance_, self.means_.T)[0].T
        else:
            rows = centred(X, weights)[1]
            between = self._shrunk(rows.T @ rows / weights.sum()) - self.covariance_
            values, vectors = linalg.eigh(between, self.covariance_)
            order = np.argsort(values)[::-1]
            self.explained_variance_ratio_ = (values / values.sum())[order][: self._n_features_out]
            self.scalings_ = vectors[:, order]
            coef = self.means_ @ self.scalings_ @ self.scalings_.T
        return coef, np.log(self.priors_) - 0.5 * np.sum(self.means_ * coef, axis=1)

    def _shrunk(self, covariance: Array) -> Array:
        if self.shrinkage is None:
            return covariance
        return np.asarray(shrunk_covariance(covariance, self.shrinkage))

    def _by_svd(self, counts: Array, parts: list[Array]) -> tuple[Array, Array]:
        """Coefficients and intercepts by directions in which the classes differ."""
        self.xbar_ = self.priors_ @ self.means_
        total = counts.sum()
        within = np.vstack(parts) / np.sqrt(total)
        spread = np.sqrt(np.square(within).sum(axis=0))
        within = within * np.sqrt(1.0 if DIVIDES_BY_ROWS else total / (total - len(counts)))
        spread[spread == 0] = 1.0
        _, singular, axes = np.linalg.svd(within / spread, full_matrices=False)
        rank = int(np.count_nonzero(singular > self.tol))
        whiten = (axes[:rank] / spread).T / singular[:rank]
        shifts = (
            np.sqrt(total * self.priors_ / (len(counts) - 1))[:, None]
            * (self.means_ - self.xbar_)
            @ whiten
        )
        _, singular, axes = np.linalg.svd(shifts, full_matrices=False)
        self.explained_variance_ratio_ = (singular**2 / np.sum(singular**2))[: self._n_features_out]
        self.scalings_ = whiten @ axes[: int(np.count_nonzero(singular > self.tol * singular[0]))].T
        turned = (self.means_ - self.xbar_) @ self.scalings_
        coef = turned @ self.scalings_.T
        return coef, -0.5 * np.square(turned).sum(axis=1) + np.log(self.priors_) - coef @ self.xbar_

    def transform(self, X: Any) -> Array:
        """Coordinates of rows in which the classes differ most, the largest first."""
        check_is_fitted(self)
        if self.solver == "lsqr":
            raise InputError(
                "solver='lsqr' finds no directions; choose 'svd' or 'eigen'.", argument="solver"
            )
        X = validate_data(self, X, dtype=np.float64, reset=False)
        X = X - self.xbar_ if self.solver == "svd" else X
        return np.asarray((X @ self.scalings_)[:, : self._n_features_out])

    def _joint(self, X: Array) -> Array:
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        return (
            scores if len(self.classes_) > 2 else np.column_stack([np.zeros(len(scores)), scores])
        )


class QuadraticDiscriminant(_GaussianClassifier):
    """Gaussians of their own covariances, as
    :class:`sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis`.

    Parameters
    ----------
    reg_param : float, default 0.0
        Covariances are moved this part of the way to the identity.
    priors : array, optional
        The probability of each class; by default in proportion to their weights.
    """

    def __init__(self, reg_param: float = 0.0, *, priors: Any = None) -> None:
        self.reg_param, self.priors = reg_param, priors

    def _fit_classes(self, X: Array, weights: Array, counts: Array, parts: list[Array]) -> None:
        self.covariance_, self._whiten, self._log_volume = [], [], []
        for name, count, rows in zip(self.classes_, counts, parts, strict=True):
            divisor = count if DIVIDES_BY_ROWS else max(count - 1.0, EPS)
            _, singular, axes = np.linalg.svd(rows / np.sqrt(divisor), full_matrices=False)
            singular = np.sqrt((1.0 - self.reg_param) * singular**2 + self.reg_param)
            if (
                count <= 1
                or len(singular) < X.shape[1]
                or singular[-1] <= max(X.shape) * EPS * singular[0]
            ):
                raise InputError(
                    f"Class {name} has a singular covariance ({several(len(rows), 'row')},"
                    f" {several(X.shape[1], 'column')}); drop dependent columns, or use"
                    " LinearDiscriminant."
                )
            self.covariance_.append(axes.T * singular**2 @ axes)
            self._whiten.append(axes.T / singular)
            self._log_volume.append(2 * np.log(singular).sum())

    def _joint(self, X: Array) -> Array:
        columns = [
            -0.5 * (np.square((X - mean) @ whiten).sum(axis=1) + volume) + np.log(prior)
            for mean, whiten, volume, prior in zip(
                self.means_, self._whiten, self._log_volume, self.priors_, strict=True
            )
        ]
        return np.column_stack(columns)


class GaussianNaiveBayes(_GaussianClassifier):
    """Gaussians with independent columns, as :class:`sklearn.naive_bayes.GaussianNB`, smoothed by
    the weighted variance.

    Parameters
    ----------
    var_smoothing : float, default 1e-9
        This part of the largest variance of a column is added to all variances.
    priors : array, optional
        The probability of each class; by default in proportion to their weights.
    """

    def __init__(self, var_smoothing: float = 1e-9, *, priors: Any = None) -> None:
        self.var_smoothing, self.priors = var_smoothing, priors

    def _fit_classes(self, X: Array, weights: Array, counts: Array, parts: list[Array]) -> None:
        _, rows = centred(X, weights)
        self.epsilon_ = self.var_smoothing * float(
            np.square(rows).sum(axis=0).max() / weights.sum()
        )
        self.var_ = (
            np.array([np.square(r).sum(axis=0) / c for r, c in zip(parts, counts, strict=True)])
            + self.epsilon_
        )

    def _joint(self, X: Array) -> Array:
        columns = [
            np.log(prior)
            - 0.5 * (np.log(2 * np.pi * var).sum() + (np.square(X - mean) / var).sum(axis=1))
            for mean, var, prior in zip(self.means_, self.var_, self.priors_, strict=True)
        ]
        return np.column_stack(columns)
