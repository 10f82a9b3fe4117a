"""Fitting with weights everywhere: the regressor and the scalers before it.

In a flat pipeline every step is given its weights by name; steps inside a ColumnTransformer are reached by metadata
routing, for which they are made to ask, inside a configuration of our own.  The user's settings stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from functools import cache
from typing import TYPE_CHECKING, Any

from sklearn import config_context
from sklearn.metrics import get_scorer
from sklearn.utils.validation import has_fit_parameter

from karat._data import containers
from karat.errors import NotExactError
from karat.estimators.features import check_transformers, split_pipeline
from karat.estimators.registry import (
    BY_CLASS,
    OF_COVARIANCE,
    SEARCHES,
    SELECTS_ITSELF,
    SQUARED_LOSS,
    check_listed,
    key_of,
    refuse,
)
from karat.problems import LeastSquares, LpRegression, Moments, Problem, Ridge, Transformed

if TYPE_CHECKING:
    from karat._core.coreset import Coreset

IGNORES_WEIGHTS = ("SplineTransformer", "KBinsDiscretizer")  # settled or refused: weights must not move their knots


def fit_weighted(estimator: Any, X: Any, y: Any, weights: Any) -> Any:
    """Fit a plain estimator or a pipeline, in place, with weights in every step that takes them."""
    X, y = containers.in_double(X), containers.in_double(y)
    if key_of(estimator) != "Pipeline":
        with config_context(enable_metadata_routing=False):
            return estimator.fit(X, y, sample_weight=weights)
    if all(not hasattr(step, "transformers") and key_of(step) != "Pipeline" for _, step in estimator.steps):
        takers = [name for name, step in estimator.steps if _takes_weights(step)]
        with config_context(enable_metadata_routing=False):
            return estimator.fit(X, y, **{f"{name}__sample_weight": weights for name in takers})
    with config_context(enable_metadata_routing=True):  # nested steps are reached by routing only
        for part in [estimator, *estimator.get_params(deep=True).values()]:
            if hasattr(part, "set_fit_request") and has_fit_parameter(part, "sample_weight"):
                part.set_fit_request(sample_weight=_takes_weights(part))
        return estimator.fit(X, y, sample_weight=weights)


def _takes_weights(step: Any) -> bool:
    return _has_weights(step.__class__) and key_of(step) not in IGNORES_WEIGHTS


@cache
def _has_weights(kind: Hashable) -> bool:
    return hasattr(kind, "fit") and bool(has_fit_parameter(kind, "sample_weight"))


def fit_ridge_cv(ridge: Any, X: Any, y: Any, weights: Any) -> Any:
    """Fit RidgeCV, in place, with weights in fits and scores, which it does under metadata routing only."""
    own = ridge.scoring
    with config_context(enable_metadata_routing=True):
        scorer = get_scorer("r2" if own is None else own)
        ridge.scoring = copy.deepcopy(scorer).set_score_request(sample_weight=True)
        ridge.fit(X, y, sample_weight=weights)
    ridge.scoring = own
    return ridge


def fit_on_core(core: Coreset, estimator: Any) -> Any:
    """See :meth:`karat.Coreset.fit`."""
    front, leaf = split_pipeline(estimator)
    if key_of(leaf) in SEARCHES or key_of(leaf) in SELECTS_ITSELF:
        raise refuse(leaf, "its folds are parts of the full data; use karat.CoresetRegressor, which makes one coreset per fold")
    check_listed(leaf, SQUARED_LOSS, BY_CLASS, OF_COVARIANCE)
    if front is not None:
        check_transformers(front, in_folds=False)
        if not only_scales(front):
            raise refuse(
                estimator,
                "this coreset was built on the columns as they are; give the whole pipeline to karat.CoresetRegressor",
            )
    y = core.y
    if key_of(leaf) in BY_CLASS:
        if core.groups is None or core.y is not None:
            raise refuse(
                leaf, "it needs the moments of every class; build with karat.coreset(X, problem=Moments(2), groups=labels)"
            )
        y = core.groups
    check_kept(core, leaf, centred=front is not None)
    return fit_weighted(estimator, core.X, y, core.weights)


def only_scales(front: Any) -> bool:
    """Whether a front of transformers is scalers only."""
    return all(key_of(step) == "StandardScaler" for _, step in front.steps)


def check_kept(core: Coreset, leaf: Any, centred: bool) -> None:
    """Refuse a coreset that lacks a moment which the estimator reads."""
    name, problem = type(leaf).__name__, core.problem
    if isinstance(problem, Transformed):
        raise refuse(leaf, "this coreset was built on transformed columns; give the pipeline to karat.CoresetRegressor")
    if key_of(leaf) in SQUARED_LOSS and core.y is None:
        raise NotExactError(f"{name} needs a target, but the coreset was built without y.")
    if not keeps_squares(problem):
        raise NotExactError(
            f"{name} needs second moments (the squared loss), which a coreset of {problem.describe()} does not keep; "
            "use LeastSquares() or Moments(2)."
        )
    if core.absorbed is not None:
        raise NotExactError(f"A part of the data was absorbed into the regulariser; use problem.solve(core) instead of {name}.")
    if (centred or getattr(leaf, "fit_intercept", True)) and not getattr(problem, "fit_intercept", True):
        raise NotExactError(
            f"{name} centres the columns, but {problem.describe()} kept no first moments; build with fit_intercept=True."
        )
    if not problem.keeps_total and key_of(leaf) not in ("LinearRegression", "Ridge"):
        raise NotExactError(
            f"{name} divides by the total weight, which this coreset does not keep; build with total_weight=True."
        )


def keeps_squares(problem: Problem) -> bool:
    """Whether all second moments of columns and target are kept."""
    if isinstance(problem, LpRegression):
        return problem.p == 2 or problem.fit_intercept  # degree <= p in (x, y) includes the squares
    return isinstance(problem, LeastSquares | Ridge) or (isinstance(problem, Moments) and problem.degree >= 2)
