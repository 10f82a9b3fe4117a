"""CoresetRegressor: a scikit-learn regressor, pipeline or search, fitted on a few rows, with the answer of all of them."""

from __future__ import annotations

from typing import Any

import joblib
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from karat._core.construct import coreset
from karat._data import containers
from karat.errors import InputError
from karat.estimators import searches
from karat.estimators.features import (
    FeatureMap,
    check_categories,
    fit_and_transform,
    fit_transformers,
    freeze_fitted,
    highest_degrees,
)
from karat.estimators.fitting import check_listed, check_transformers, fit_weighted, key_of, only_scales, refuse, split_pipeline
from karat.estimators.folds import exact_cv
from karat.estimators.monomials import monomial_problem
from karat.estimators.registry import SEARCHES, SELECTS_ITSELF, SQUARED_LOSS
from karat.estimators.small_data import fit_on_all_rows, passes_through
from karat.estimators.weight_in_target import fit_search
from karat.problems import LeastSquares, Problem, Transformed


def _delegates(name: str) -> Any:
    """Whether the inner estimator, fitted or not, has a method."""

    def check(self: Any) -> bool:
        inner = getattr(self, "estimator_", self.estimator)
        return inner is not None and hasattr(inner, name)

    return check


class CoresetRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """A scikit-learn regressor, fitted on an exact coreset: the same answer from a few rows.

    If the estimator selects by cross-validation (``GridSearchCV``, ``RandomizedSearchCV``, the halving searches over a
    parameter, ``LassoCV``, ``ElasticNetCV``, ``RidgeCV(cv=5)``, ...), the folds of the *full* data get one coreset
    each.  Every score, the chosen parameters and the refitted coefficients then equal those on the full data.
    Pipelines may hold ``StandardScaler``, ``PolynomialFeatures``, ``SplineTransformer``, ``OneHotEncoder`` and
    ``ColumnTransformer``.

    Parameters
    ----------
    estimator : estimator
        What is not known to be exact is refused; the error names an alternative.
    problem : Problem, optional
        What the coreset keeps.  By default the squared loss of the columns that the regressor sees.  Passing a problem
        switches the check of the estimator off: the coreset then keeps the problem *of the raw columns*, and whether
        that is enough is yours to know.
    random_state : int, default 0
        Which rows are kept depends on it; the answer does not.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    core_ : Coreset
        The rows that it was fitted on.
    n_features_in_ : int
    feature_names_in_ : array of str
        If X has column names.

    Notes
    -----
    One least-squares or ridge fit gains nothing: solving it costs one pass over the data, and so does the coreset.  It
    pays when many fits follow: cross-validation, grids, paths, refits.

    ``sample_weight`` counts in every step: scaling, fitting and scoring, as scikit-learn does where metadata routing is
    on and everything asks for it.

    Examples
    --------
    >>> import numpy as np, karat
    >>> from sklearn.linear_model import LassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20_000, 5)); y = X @ [3.0, 0, 0, 1, 0] + rng.standard_normal(20_000)
    >>> few = karat.CoresetRegressor(LassoCV(cv=5)).fit(X, y)
    >>> all_ = LassoCV(cv=5).fit(X, y)
    >>> bool(abs(few.estimator_.alpha_ / all_.alpha_ - 1) < 1e-9), len(few.core_)
    (True, 140)
    """

    def __init__(self, estimator: Any, problem: Problem | None = None, *, random_state: int = 0) -> None:
        self.estimator = estimator
        self.problem = problem
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> CoresetRegressor:
        """Build the coreset (or one per fold) and fit the estimator on it.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array or frame of shape (n,) or (n, T)
        sample_weight : array of shape (n,), optional
        groups : array of shape (n,), optional
            For splitters such as ``GroupKFold``.

        Returns
        -------
        CoresetRegressor
        """
        X, y = self._checked(X, y)
        estimator = clone(self.estimator)
        selects = searches.selecting_step(estimator)
        if groups is not None and selects is None:
            raise InputError("groups are for cross-validation, but the estimator does not select by it.")
        if self.problem is None:
            found = self._transformers(estimator, selects)
            if passes_through(X, y, selects, sample_weight, groups):
                self.estimator_, self.core_ = fit_on_all_rows(estimator, X, y, sample_weight, groups)
                return self
            problem, pairs = self._deduced(estimator, selects, found, X, y)
        else:
            problem, pairs = self.problem, []
            if key_of(selects) in SEARCHES:
                list(searches.candidates(selects))  # their parameters are checked in any case
        if selects is None:
            if not searches.has_weights(estimator):
                raise refuse(estimator, "it takes no sample_weight")
            self.core_ = coreset(X, y, problem, sample_weight=sample_weight, random_state=self.random_state)
            self.estimator_ = fit_weighted(estimator, self.core_.X, self.core_.y, self.core_.weights)
            return self
        folds = exact_cv(X, y, problem, selects.cv, groups=groups, sample_weight=sample_weight, random_state=self.random_state)
        rows, self.core_ = folds.core, folds.refit
        if key_of(selects) in SEARCHES:
            for own, fitted in pairs:
                check_categories(own, fitted, (containers.take_rows(rows.X, train) for train, _ in folds.cv))
        self.estimator_ = self._selected(estimator, selects, rows, folds.cv)
        if rows is not folds.refit:
            self._refit(folds.refit)
        return self

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Arrays checked as in scikit-learn; frames left as they are, with their names noted."""
        X, y = containers.collected(X), containers.collected(y)
        if y is None:
            raise InputError("This CoresetRegressor requires y to be passed, but the target y is None.")
        if containers.is_frame(X):
            validate_data(self, X, skip_check_array=True)
            return X, y
        checks = {"accept_sparse": "csr", "dtype": self._dtype()}
        if containers.is_frame(y):
            return validate_data(self, X, ensure_min_samples=2, **checks), y
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2, **checks)
        return X, y

    def _dtype(self) -> str | None:
        """The dtype to check for: numeric, unless a pipeline may encode other columns."""
        transformers, _ = split_pipeline(searches.without_search(self.estimator))
        return "numeric" if transformers is None or only_scales(transformers) else None

    def _transformers(self, estimator: Any, selects: Any) -> list[Any]:
        """Check every candidate; returns the transformers that do more than scale."""
        inside = searches.searched_estimator(selects) if selects is not None and key_of(selects) in SEARCHES else None
        if inside is not None:
            searches.check_search(selects)
        else:
            searches.check_scorer(getattr(selects, "scoring", None))
        pipelines = list(searches.candidates(selects)) if inside is not None else [estimator]
        found = []
        for pipeline in pipelines:
            transformers, leaf = split_pipeline(pipeline)
            tables = (SQUARED_LOSS,) if inside is not None else (SQUARED_LOSS, SELECTS_ITSELF)
            check_listed(leaf, *tables)
            if not searches.has_weights(leaf):
                raise refuse(leaf, "this version of scikit-learn gives it no sample_weight; update scikit-learn")
            if transformers is not None:
                check_transformers(transformers, in_folds=inside is not None)
                if not only_scales(transformers):
                    found.append(transformers)
        return found

    def _deduced(self, estimator: Any, selects: Any, found: list[Any], X: Any, y: Any) -> tuple[Problem, list[tuple[Any, Any]]]:
        """The problem that keeps what every candidate needs; transformers are fitted on the full data and frozen, in place."""
        if not found:
            return LeastSquares(), []
        monomials = monomial_problem(found, X, y)
        if monomials is not None:
            return monomials, []
        inside = searches.searched_estimator(selects) if selects is not None and key_of(selects) in SEARCHES else None
        distinct = {joblib.hash(transformers): transformers for transformers in found}
        fits = [(one, *fit_and_transform(one, X)) for one in highest_degrees(list(distinct.values()))]
        pairs = [(one, fitted) for one, fitted, _ in fits]
        own, _ = split_pipeline(inside if inside is not None else estimator)
        if own is not None:
            freeze_fitted(
                own, next((f for o, f in pairs if joblib.hash(o) == joblib.hash(own)), None) or fit_transformers(own, X)
            )
        columns = FeatureMap([fitted for _, fitted in pairs], X, [table for *_, table in fits])
        return Transformed(LeastSquares(), columns), pairs

    @staticmethod
    def _selected(estimator: Any, selects: Any, rows: Any, splits: list[Any]) -> Any:
        """Fitted on the folds' rows; ``selects`` is the estimator or the last step of a pipeline."""
        if key_of(selects) in SEARCHES:
            if estimator is not selects:
                raise refuse(selects, "it is the last step of a pipeline; put the pipeline into the search")
            return fit_search(estimator, rows.X, rows.y, rows.weights, splits)
        own = selects.cv
        selects.cv = splits
        if key_of(estimator) == "RidgeCV":
            searches.fit_ridge_cv(estimator, rows.X, rows.y, rows.weights)
        elif key_of(selects) == "RidgeCV":
            raise refuse(selects, "it is the last step of a pipeline; use GridSearchCV over the pipeline with Ridge")
        else:
            fit_weighted(estimator, rows.X, rows.y, rows.weights)
        selects.cv = own  # the user's setting
        return estimator

    def _refit(self, refit: Any) -> None:
        """Fit the chosen model once more, on one repeat: the search saw the data once per repeat."""
        fitted = self.estimator_
        if hasattr(fitted, "best_estimator_"):
            model = clone(fitted.best_estimator_)
            fitted.best_estimator_ = fit_weighted(model, refit.X, refit.y, refit.weights)
        elif key_of(fitted) == "RidgeCV":
            from sklearn.linear_model import Ridge

            model = Ridge(fitted.alpha_, fit_intercept=fitted.fit_intercept)
            fit_weighted(model, refit.X, refit.y, refit.weights)
            fitted.coef_, fitted.intercept_ = model.coef_, model.intercept_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score of the inner estimator: R2, or what a search was told to score by."""
        check_is_fitted(self)
        scorer = getattr(self.estimator_, "scorer_", None)
        if callable(scorer):
            return float(scorer(self.estimator_.best_estimator_, X, y, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight=sample_weight))

    @available_if(_delegates("predict"))
    def predict(self, X: Any) -> Any:
        """Predictions of the fitted estimator.

        Parameters
        ----------
        X : array, sparse matrix or data frame

        Returns
        -------
        array
        """
        check_is_fitted(self)
        if containers.is_frame(X):
            X = containers.collected(X)
            validate_data(self, X, skip_check_array=True, reset=False)
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=self._dtype(), reset=False)
        return self.estimator_.predict(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        inside = searches.without_search(self.estimator)
        leaf = get_tags(split_pipeline(inside)[1])
        tags.target_tags = leaf.target_tags
        tags.regressor_tags = leaf.regressor_tags or tags.regressor_tags
        tags.input_tags.sparse = get_tags(inside).input_tags.sparse
        return tags
