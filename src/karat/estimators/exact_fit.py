"""Fit any listed estimator to the answer of all rows: check first, then fit.

    a pipeline       its transformers are fitted on all rows; the model behind them sees the columns
                     that they make
    a search         every training part is fitted on few rows (:mod:`karat.estimators.searches`)
    LassoCV and kin  the same, in their own loop
    RidgeCV()        leave-one-out (:mod:`karat.estimators.leave_one_out`)
    a transformed target   the regressor inside, on the target that the transformation makes
    anything else    is fitted on few rows

These nest: a search may hold pipelines, and a pipeline may end in a search.

**All rows** are used where few gain nothing: if there are not many, or if a single fit costs no
more than making few rows.  An estimator that is refused on large data is refused on small data too,
so that the answer does not depend on the number of rows.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import has_fit_parameter

from karat.compat.sklearn import copy_fitted
from karat.core.coreset import Coreset
from karat.core.synthetic import REAL, SYNTHETIC
from karat.data import containers
from karat.errors import InputError
from karat.estimators import composites, registry, searches
from karat.estimators.fitting import (
    candidates,
    check_listed,
    check_scorers,
    check_splitter,
    fit_weighted,
    is_balanced,
    join_pipeline,
    key_of,
    nested_estimators,
    refuse,
    split_pipeline,
)
from karat.estimators.folds import (
    atoms_of,
    cores_of_atoms,
    few_of_folds,
    full_splits,
    made_of_splits,
)
from karat.estimators.leave_one_out import (
    checked_alphas,
    fit_by_leave_one_out,
    fit_classes_by_leave_one_out,
)
from karat.estimators.training_rows import EXPENSIVE, TrainingRows, WeightedRows, all_rows
from karat.estimators.transformers import (
    check_not_random,
    check_request,
    check_transformers,
    fit_and_transform,
    only_scales,
    watch_randomness,
)
from karat.estimators.weighted.regressors import GREEDY, READS, decided_by_rounding
from karat.problems import Problem

FEW = 5_000  # rows up to which nothing is gained, by default
# Coordinate descent on all rows takes a few sweeps at best.  With at most NARROW columns and at
# least MANY rows, making rows takes no longer.
NARROW, MANY = 128, 20_000


def selects(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline, selects by cross-validation."""
    return key_of(innermost(estimator)) in registry.SELECTS


def innermost(estimator: Any) -> Any:
    """The last step, also behind a transformed target."""
    leaf = split_pipeline(estimator)[1]
    if key_of(leaf) == "TransformedTargetRegressor" and leaf.regressor is not None:
        return innermost(leaf.regressor)
    return leaf


def check_exact(
    estimator: Any, classifies: bool, weighted: bool, rowwise: tuple[Any, ...] = ()
) -> None:
    """Refuse, before anything is computed, an estimator that would give another answer than on all
    rows.
    """
    if weighted:
        for part in nested_estimators(estimator):
            check_request(part)
    transformers, leaf = split_pipeline(estimator)
    if transformers is not None:
        check_transformers(transformers, rowwise)
    key = key_of(leaf)
    if key in registry.SEARCHES:
        _check_search(leaf, weighted)
        for candidate in candidates(leaf):
            check_exact(candidate, classifies, weighted, rowwise)
    elif key == "TransformedTargetRegressor" and not classifies:
        inside = leaf.regressor if leaf.regressor is not None else LinearRegression()
        check_exact(inside, False, weighted, rowwise)
    elif key in registry.SEVERAL_MODELS and not classifies:
        for part in composites.regressors_inside(leaf):
            check_exact(part, False, weighted, rowwise)
    else:
        _check_leaf(leaf, classifies, weighted)


def _check_search(search: Any, weighted: bool) -> None:
    """Refuse what is inexact in a search itself; its candidates are checked one by one."""
    if getattr(search, "resource", None) == "n_samples":
        raise refuse(
            search,
            "resource='n_samples' fits on random subsets of the rows; choose a parameter as the"
            " resource, such as 'max_iter'",
        )
    check_scorers(search.scoring, weighted)
    check_splitter(search.cv)


def _check_leaf(leaf: Any, classifies: bool, weighted: bool) -> None:
    """Refuse a single estimator that is not listed, or whose parameters break a rule."""
    key = key_of(leaf)
    if key in registry.OF_COVARIANCE:
        raise refuse(
            leaf,
            "it predicts nothing; use"
            f" karat.coreset(X).fit(karat.models.{type(leaf).__name__}(...))",
        )
    by_class = (
        registry.BY_CLASS,
        registry.CLASSIFIES_AND_SELECTS,
        registry.TARGET_ONLY_CLASSIFIERS,
    )
    by_row = (registry.SQUARED_LOSS, registry.SELECTS_ITSELF, registry.TARGET_ONLY_REGRESSORS)
    listed, wrong_kind, kind = (
        (by_class, by_row, "regressor") if classifies else (by_row, by_class, "classifier")
    )
    if any(key in table for table in wrong_kind):
        raise refuse(leaf, f"it is a {kind}; use karat.Coreset{kind.capitalize()}")
    check_listed(leaf, *listed)
    if key == "RidgeClassifierCV":
        _check_ridge_classifier(leaf)
    if key not in READS and not has_fit_parameter(leaf, "sample_weight"):
        raise refuse(
            leaf,
            "this version of scikit-learn gives it no sample_weight; update scikit-learn to 1.9 or"
            " later",
        )
    check_splitter(getattr(leaf, "cv", None))
    check_scorers(getattr(leaf, "scoring", None), weighted)


def _check_ridge_classifier(ridge: Any) -> None:
    """Refuse the combinations of RidgeClassifierCV for which there is no rule."""
    if ridge.cv is None and ridge.scoring is not None:
        raise refuse(
            ridge,
            "without cv it scores decisions on single rows that are left out; leave scoring=None,"
            " or pass an integer cv, such as cv=5",
        )
    if ridge.cv is not None and ridge.class_weight is not None:
        raise refuse(
            ridge,
            "with cv it weighs classes by their rows in all folds, and scores without these"
            " weights; leave cv=None, or use GridSearchCV(RidgeClassifier(class_weight=...),"
            " {'alpha': [...]})",
        )


def fit_few(
    estimator: Any, rows: TrainingRows, groups: Any, few_rows: int, vouched: bool = False
) -> tuple[Any, Coreset]:
    """Fit an estimator, in place, on few rows, or on all where that is as good; returns it with its
    coreset.

    Transformers that the user vouched for (``rowwise``) are tested in either case, which
    scikit-learn by itself would not do.
    """
    reason = why_all_rows(estimator, rows, few_rows)
    if not reason or rows.on_device:
        rows = replace(rows, reduces=True if few_rows == 0 else None)
        return fit_exactly(estimator, rows, groups)
    target = None if rows.classifies else rows.target
    core = all_rows(rows.table, target, rows.problem, rows.sample_weight, reason)
    if rows.classifies:
        core = replace(core, groups=rows.target[core.indices])
    if vouched or not _same_alone(estimator, rows, groups):
        return fit_exactly(estimator, replace(rows, reduces=False), groups)[0], core
    X, y = (containers.copied(containers.in_double(table)) for table in (rows.table, rows.target))
    transformers, _ = split_pipeline(estimator)
    probes = [] if transformers is None else watch_randomness(transformers)
    with config_context(enable_metadata_routing=False):
        estimator.fit(X, y, **({} if groups is None else {"groups": groups}))
    check_not_random(probes)
    return estimator, core


def why_all_rows(estimator: Any, rows: TrainingRows, few_rows: int) -> str:
    """Why few rows would gain nothing; empty if they may.

    ``few_rows=0`` makes few rows in any case.
    """
    count, leaf = len(rows), innermost(estimator)
    if few_rows == 0:
        return ""
    if count <= few_rows:
        return (
            f"Reducing {count:,} rows would gain nothing; all rows are used up to {few_rows:,}"
            " (few_rows)."
        )
    no_gain = f"Reducing the rows for one fit of {type(leaf).__name__} would gain nothing"
    if key_of(leaf) in registry.TARGET_ONLY:
        return f"{no_gain}: it reads the target only."
    if key_of(leaf) in registry.ONE_PASS:
        return f"{no_gain}: both take one pass over them."
    if key_of(leaf) in registry.SWEEPS:
        shape = count >= MANY and int(rows.table.shape[1]) <= NARROW
        if not (shape and only_scales(split_pipeline(estimator)[0])):
            return f"{no_gain}: it may take a few passes over them, and so does reducing them."
    return ""


def _same_alone(estimator: Any, rows: TrainingRows, groups: Any) -> bool:
    """Whether scikit-learn by itself gives the same answer.

    It must pass groups to the splitter, draw no random numbers, see the types of the columns and
    need no weights, because scikit-learn gives weights to few of its steps and scores.
    """
    if rows.sample_weight is not None or (
        groups is not None and key_of(estimator) not in registry.SEARCHES
    ):
        return False
    if containers.is_frame(rows.table) and containers.in_double(rows.table) is not rows.table:
        return False
    listed = [
        part for part in nested_estimators(estimator) if key_of(part) in registry.TRANSFORMERS
    ]
    random = any(getattr(part, "random_state", 0) is None for part in listed)
    return not random or (split_pipeline(estimator)[0] is not None and not selects(estimator))


def fit_exactly(estimator: Any, rows: TrainingRows, groups: Any = None) -> tuple[Any, Coreset]:
    """Fit an estimator, in place, to the answer of all rows; returns it with its coreset."""
    transformers, leaf = split_pipeline(estimator)
    key = key_of(leaf)
    if transformers is not None and rows.on_device:
        return _fit_scaled(estimator, rows)
    if transformers is not None:
        behind = rows.behind(transformers)
        fitted, core = fit_exactly(leaf, behind, groups)
        return join_pipeline(estimator, behind.preprocessors[-1], fitted), core
    if key in registry.SEARCHES:
        return searches.run_search(leaf, rows, groups, fit_exactly)
    if key == "TransformedTargetRegressor":
        return _fit_transformed(leaf, rows, groups)
    if key in registry.TARGET_ONLY:
        return composites.fit_to_target(leaf, rows)
    if key in registry.SEVERAL_MODELS:
        each = {
            "VotingRegressor": composites.fit_voting,
            "MultiOutputRegressor": composites.fit_targets,
            "RegressorChain": composites.fit_chain,
        }
        if key != "MultiOutputRegressor" or not _takes_weights(leaf.estimator):
            return each[str(key)](leaf, rows, fit_exactly)
    if key == "RidgeClassifierCV" and leaf.cv is None:
        return fit_classes_by_leave_one_out(leaf, rows)
    if is_balanced(leaf):
        return composites.fit_with_balanced_classes(leaf, rows, fit_exactly)
    if key == "RidgeCV" and leaf.cv is None:
        return fit_by_leave_one_out(leaf, rows)
    if key in ("RidgeCV", "RidgeClassifierCV"):
        return _fit_ridge_cv(leaf, rows, groups)
    if key in registry.SELECTS_ITSELF:
        return _fit_own_loop(leaf, rows, groups)
    if key not in registry.ONE_PASS + registry.SWEEPS:
        rows = replace(rows, fits=EXPENSIVE * rows.fits)
    few = _independent(leaf, rows.few(), rows)
    return few.fit(leaf), few.core_of(leaf)


def _fit_scaled(pipeline: Any, rows: TrainingRows) -> tuple[Any, Coreset]:
    """Fit scalers and a model on few rows, made where the rows are."""
    transformers, leaf = split_pipeline(pipeline)
    if selects(leaf):
        raise refuse(
            leaf,
            "behind transformers it needs all rows, which are on an accelerator; search over the"
            " pipeline (GridSearchCV), or copy X and y to the host",
        )
    searches.check_made_columns([pipeline])
    few = rows.few()
    fitted, X = fit_and_transform(transformers, few.X, few.y, few.weights)
    few = _independent(leaf, few.with_columns(X), rows)
    return join_pipeline(pipeline, fitted, few.fit(leaf)), few.core_of(leaf)


def _independent(leaf: Any, few: WeightedRows, rows: TrainingRows) -> WeightedRows:
    """Few rows, or all where rounding would decide what the estimator chooses."""
    if key_of(leaf) not in GREEDY or few.core.rows != SYNTHETIC:
        return few
    reason = decided_by_rounding(leaf, str(key_of(leaf)), few.X, few.weights)
    return rows.as_they_are(reason) if reason else few


def _takes_weights(model: Any) -> bool:
    """Whether a regressor is a single one that takes weights, and can be fitted on rows of all
    targets.
    """
    return key_of(model) in registry.SQUARED_LOSS and key_of(model) not in READS


def _fit_transformed(regressor: Any, rows: TrainingRows, groups: Any) -> tuple[Any, Coreset]:
    """Fit a TransformedTargetRegressor: the regressor inside, on the target that its transformer
    makes.
    """
    shell, inside = rows.with_target(regressor)
    inner = clone(regressor.regressor) if regressor.regressor is not None else LinearRegression()
    fitted = copy.copy(shell).set_params(regressor=regressor.regressor)
    fitted.regressor_, core = fit_exactly(inner, inside, groups)
    if hasattr(fitted.regressor_, "feature_names_in_"):
        fitted.feature_names_in_ = fitted.regressor_.feature_names_in_
    return fitted, core


def _fit_own_loop(leaf: Any, rows: TrainingRows, groups: Any) -> tuple[Any, Coreset]:
    """Fit an estimator that runs its own cross-validation over the few rows of the folds."""
    rows = rows.alone()
    splits = full_splits(leaf.cv, rows, groups)
    path = np.size(getattr(leaf, "l1_ratio", 1.0)) * EXPENSIVE  # each takes many fits
    folds, reason = made_of_splits(replace(rows, fits=path * rows.fits), splits)
    if folds is None:
        few = rows.as_they_are(reason)
    else:
        few = _independent(leaf, few_of_folds(rows, folds), rows)
    made_cv = folds.cv if folds is not None and few.core.rows == SYNTHETIC else None
    setting, leaf.cv = leaf.cv, list(splits) if made_cv is None else made_cv
    with config_context(assume_finite=None if made_cv is None else True):  # made rows are finite
        few.fit(leaf)
    leaf.cv = setting
    return leaf, few.core


def _fit_ridge_cv(ridge: Any, rows: TrainingRows, groups: Any) -> tuple[Any, Coreset]:
    """Fit RidgeCV or RidgeClassifierCV with cv: a search over alpha."""
    if ridge.store_cv_results or getattr(ridge, "alpha_per_target", False):
        name = "store_cv_results" if ridge.store_cv_results else "alpha_per_target"
        # scikit-learn's message
        raise InputError(f"cv!=None and {name}=True are incompatible.", argument=name)
    if rows.classifies:
        model: Any = RidgeClassifier(
            fit_intercept=ridge.fit_intercept, class_weight=ridge.class_weight
        )
    else:
        model = Ridge(fit_intercept=ridge.fit_intercept)
    grid = GridSearchCV(model, {"alpha": checked_alphas(ridge)}, cv=ridge.cv, scoring=ridge.scoring)
    search, core = searches.run_search(grid, rows, groups, fit_exactly)
    ridge.alpha_, ridge.best_score_ = search.best_estimator_.alpha, search.best_score_
    copy_fitted(search.best_estimator_, ridge)
    return ridge, core


def fit_for_problem(
    estimator: Any, rows: TrainingRows, groups: Any, problem: Problem
) -> tuple[Any, Coreset]:
    """Fit any estimator with weights on a coreset of a problem that the user chose, in place."""
    _, leaf = split_pipeline(estimator)
    if key_of(leaf) in registry.SEARCHES:
        if leaf is not estimator:
            raise refuse(
                leaf,
                "with problem=..., a search cannot be the last step; put the pipeline into the"
                " search",
            )
        return searches.run_search(leaf, rows, groups, fit_exactly, problem)
    if not has_fit_parameter(leaf, "sample_weight"):
        raise refuse(estimator, "it takes no sample_weight")
    if not selects(estimator):
        core = rows.reduced(rows.raw, REAL, problem)
        target = core.groups if rows.classifies else core.y
        return fit_weighted(estimator, core.X, target, core.weights), core
    repeats = atoms_of(full_splits(leaf.cv, rows, groups), len(rows))
    folds = cores_of_atoms(rows, repeats, REAL, problem)
    setting, leaf.cv = leaf.cv, folds.cv
    fit_weighted(estimator, folds.core.X, folds.core.y, folds.core.weights)
    leaf.cv = setting
    return estimator, folds.refit
