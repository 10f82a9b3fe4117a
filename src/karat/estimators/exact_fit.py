"""Fitting any listed estimator to the answer of all rows: check first, then fit.

    a pipeline       its transformers are fitted on all rows; what follows sees the columns that they make
    a search         every training part is fitted on few rows (:mod:`karat.estimators.parts`)
    LassoCV and kin  the same, in their own loop
    RidgeCV()        leave-one-out (:mod:`karat.estimators.leave_one_out`)
    a transformed target   the regressor inside, on the target that the transformation makes
    anything else    is fitted on a coreset

These nest: a search may hold pipelines, and a pipeline may end in a search."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import has_fit_parameter

from karat._core.coreset import Coreset
from karat._data import containers
from karat.compat.sklearn import copy_fitted
from karat.errors import InputError
from karat.estimators import registry, searches
from karat.estimators.covers import cover
from karat.estimators.fitting import check_listed, check_splitter, fit_weighted, join_pipeline, key_of, refuse, split_pipeline
from karat.estimators.folds import cores_of_splits, full_splits
from karat.estimators.leave_one_out import fit_by_leave_one_out
from karat.estimators.monomials import monomial_problem
from karat.estimators.training_rows import TrainingRows
from karat.estimators.transformers import (
    check_request,
    check_transformers,
    fit_and_transform,
    fitted_by_moments,
    nested_estimators,
    transform,
)
from karat.problems import Problem


def selects(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline, selects by cross-validation."""
    return key_of(innermost(estimator)) in registry.SELECTS


def innermost(estimator: Any) -> Any:
    """The last step, also behind a transformed target."""
    leaf = split_pipeline(estimator)[1]
    return leaf if key_of(leaf) != "TransformedTargetRegressor" or leaf.regressor is None else innermost(leaf.regressor)


def check_exact(estimator: Any, classifies: bool, weighted: bool) -> None:
    """Refuse, before anything is computed, whatever would not give the answer of the full data."""
    if weighted:
        for part in nested_estimators(estimator):
            check_request(part)
    transformers, leaf = split_pipeline(estimator)
    if transformers is not None:
        check_transformers(transformers)
    key = key_of(leaf)
    if key in registry.SEARCHES:
        searches.check_search(leaf, weighted)
        for candidate in searches.candidates(leaf):
            check_exact(candidate, classifies, weighted)
    elif key == "TransformedTargetRegressor" and not classifies:
        check_exact(leaf.regressor if leaf.regressor is not None else LinearRegression(), False, weighted)
    elif key == "MultiOutputRegressor" and not classifies:
        check_listed(leaf.estimator, registry.SQUARED_LOSS)
    else:
        _check_leaf(leaf, classifies, weighted)


def _check_leaf(leaf: Any, classifies: bool, weighted: bool) -> None:
    """Refuse a single estimator that is not listed, or whose parameters break a rule."""
    key = key_of(leaf)
    if key in registry.OF_COVARIANCE:
        raise refuse(leaf, f"it predicts nothing; use karat.coreset(X).fit(karat.models.{type(leaf).__name__}(...))")
    by_class, by_row = (registry.BY_CLASS, registry.CLASSIFIES_AND_SELECTS), (registry.SQUARED_LOSS, registry.SELECTS_ITSELF)
    own, others, kind = (by_class, by_row, "regressor") if classifies else (by_row, by_class, "classifier")
    if any(key in table for table in others):
        raise refuse(leaf, f"it is a {kind}; use karat.Coreset{kind.capitalize()}")
    check_listed(leaf, *own)
    if not has_fit_parameter(leaf, "sample_weight"):
        raise refuse(leaf, "this version of scikit-learn gives it no sample_weight; update scikit-learn")
    check_splitter(getattr(leaf, "cv", None))
    searches.check_weighing(getattr(leaf, "scoring", None), weighted)


def fit_exactly(estimator: Any, rows: TrainingRows, groups: Any = None) -> tuple[Any, Coreset]:
    """Fit an estimator, in place, to the answer of all rows; returns it with its coreset."""
    transformers, leaf = split_pipeline(estimator)
    key = key_of(leaf)
    if transformers is not None:
        if not selects(leaf) and key != "TransformedTargetRegressor" and rows.teach(transformers):
            spanned = cover(rows.resolved(transformers))
            if spanned is not None:
                return _fit_on_kept(estimator, rows, spanned)
        behind = rows.behind(transformers)
        fitted, core = fit_exactly(leaf, behind, groups)
        return join_pipeline(estimator, behind.fronts[-1], fitted), core
    if key in registry.SEARCHES:
        return searches.run_search(leaf, rows, groups, fit_exactly)
    if key == "TransformedTargetRegressor":
        shell, inside = rows.with_target(leaf)
        regressor = clone(leaf.regressor) if leaf.regressor is not None else LinearRegression()
        fitted = copy.copy(shell).set_params(regressor=leaf.regressor)
        fitted.regressor_, core = fit_exactly(regressor, inside, groups)
        return fitted, core
    if key == "RidgeCV" and leaf.cv is None:
        return fit_by_leave_one_out(leaf, rows)
    if key in ("RidgeCV", "RidgeClassifierCV"):
        return _fit_ridge_cv(leaf, rows, groups)
    if key in registry.SELECTS_ITSELF:
        return _fit_own_loop(leaf, rows, groups)
    return _fit_on_core(leaf, rows)


def _fit_on_core(estimator: Any, rows: TrainingRows, problem: Problem | None = None) -> tuple[Any, Coreset]:
    """Fit on the rows of one coreset."""
    few = rows.kept(problem)
    return fit_weighted(estimator, few.X, few.y, few.weights), rows.core(problem)


def _fit_on_kept(estimator: Any, rows: TrainingRows, spanned: Any) -> tuple[Any, Coreset]:
    """Fit a pipeline on kept rows alone, where they teach its transformers the same as all rows."""
    monomials = monomial_problem([spanned], rows)
    as_they_are = monomials is not None or isinstance(spanned, str)
    core = rows.core(monomials) if as_they_are else rows.covered_by(spanned).core()
    X, y = rows.seen(core.X), core.groups if rows.classifies else core.y
    transformers, leaf = split_pipeline(estimator)
    if fitted_by_moments(transformers):
        return fit_weighted(estimator, X, y, core.weights), core
    front, made = fit_and_transform(rows.resolved(transformers), X, y, core.weights)
    fit_weighted(leaf, transform(front, X) if made is None else made, y, core.weights)
    return join_pipeline(estimator, front, leaf), core


def _fit_own_loop(estimator: Any, rows: TrainingRows, groups: Any, problem: Problem | None = None) -> tuple[Any, Coreset]:
    """Fit an estimator that runs its own cross-validation, or a pipeline that ends in one, over the folds' rows."""
    leaf = split_pipeline(estimator)[1]
    splits = full_splits(leaf.cv, rows.X, rows.y, groups, rows.classifies)
    folds = cores_of_splits(rows, splits, rows.problem(problem))
    own, leaf.cv = leaf.cv, folds.cv
    # The rows were read when the coresets were built; what a pipeline makes of them was not, if the user chose the problem.
    with config_context(assume_finite=True if problem is None else None):
        fit_weighted(estimator, rows.seen(folds.core.X), folds.core.y, folds.core.weights)
    leaf.cv = own  # the user's setting
    return estimator, folds.refit


def _fit_ridge_cv(ridge: Any, rows: TrainingRows, groups: Any) -> tuple[Any, Coreset]:
    """Fit RidgeCV or RidgeClassifierCV with cv: a search over alpha."""
    if ridge.store_cv_results or getattr(ridge, "alpha_per_target", False):
        raise InputError("store_cv_results and alpha_per_target are for cv=None only.")  # as scikit-learn says
    if rows.classifies:
        model: Any = RidgeClassifier(fit_intercept=ridge.fit_intercept, class_weight=ridge.class_weight)
    else:
        solver = "sparse_cg" if containers.is_sparse(rows.table) and not rows.fronts else "auto"
        model = Ridge(fit_intercept=ridge.fit_intercept, solver=solver)
    alphas = np.atleast_1d(np.asarray(ridge.alphas, dtype=float))
    grid = GridSearchCV(model, {"alpha": alphas}, cv=ridge.cv, scoring=ridge.scoring)
    search, core = searches.run_search(grid, rows, groups, fit_exactly)
    ridge.alpha_, ridge.best_score_ = search.best_estimator_.alpha, search.best_score_
    copy_fitted(search.best_estimator_, ridge)
    return ridge, core


def fit_insisting(estimator: Any, rows: TrainingRows, groups: Any, problem: Problem) -> tuple[Any, Coreset]:
    """Fit any estimator with weights on a coreset of a problem that the user chose, in place."""
    _, leaf = split_pipeline(estimator)
    if key_of(leaf) in registry.SEARCHES:
        if leaf is not estimator:
            raise refuse(leaf, "with problem=..., a search cannot be the last step; put the pipeline into the search")
        return searches.run_search(leaf, rows, groups, fit_exactly, problem)
    if not has_fit_parameter(leaf, "sample_weight"):
        raise refuse(estimator, "it takes no sample_weight")
    if selects(estimator):
        return _fit_own_loop(estimator, rows, groups, problem)
    return _fit_on_core(estimator, rows, problem)
