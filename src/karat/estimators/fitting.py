"""Fitting with weights everywhere: the regressor, the scaler before it, and the scorer after it.

scikit-learn hands ``sample_weight`` through pipelines and searches only where every consumer asked for it (metadata routing).  Here everything that can use
weights is made to ask, on a copy, inside a configuration of our own; the user's settings stay as they are.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.utils.validation import has_fit_parameter

from karat import frames
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
    from karat._coreset import Coreset

IGNORES_WEIGHTS = ("SplineTransformer", "KBinsDiscretizer")  # settled or refused: weights must not move their knots


def asking(estimator: Any) -> Any:
    """Make an estimator and all inside it ask for sample_weight, in place (within metadata routing)."""
    inside = estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ()
    for part in [estimator, *inside]:
        if hasattr(part, "set_fit_request") and has_fit_parameter(part, "sample_weight"):
            try:
                part.set_fit_request(sample_weight=type(part).__name__ not in IGNORES_WEIGHTS)
            except ValueError as error:  # MultiTaskLasso in scikit-learn 1.9
                raise refuse(
                    part, "this version of scikit-learn cannot route weights to it inside a search or pipeline"
                ) from error
    return estimator


def asking_scorer(scoring: Any) -> Any:
    """A scorer, or several, that weigh the test rows; none means R2, as in ``estimator.score``."""
    if isinstance(scoring, dict):
        return {name: asking_scorer(one) for name, one in scoring.items()}
    if isinstance(scoring, list | tuple | set):
        return {name: asking_scorer(name) for name in scoring}
    scorer = get_scorer("r2" if scoring is None else scoring)
    return copy.deepcopy(scorer).set_score_request(sample_weight=True)


def fit_weighted(estimator: Any, X: Any, y: Any, weights: Any) -> Any:
    """Fit a plain estimator, a pipeline or a search, in place, with weights in every step that takes them."""
    X, y = frames.in_double(X), frames.in_double(y)
    if key_of(estimator) not in ("Pipeline", "RidgeCV", *SEARCHES):  # nothing to route
        with config_context(enable_metadata_routing=False):
            return estimator.fit(X, y, sample_weight=weights)
    with config_context(enable_metadata_routing=True, assume_finite=True):
        asking(estimator)
        return estimator.fit(X, y, sample_weight=weights)


def fit_search(search: Any, X: Any, y: Any, weights: Any, splits: list[Any]) -> Any:
    """Fit anything that selects by cross-validation, in place, on given splits and with weights."""
    final = search.steps[-1][1] if key_of(search) == "Pipeline" else search
    own = {
        name: getattr(final, name) for name in ("cv", "scoring", "param_grid", "param_distributions") if hasattr(final, name)
    }
    with config_context(enable_metadata_routing=True, assume_finite=True):
        final.set_params(cv=splits)
        if "scoring" in own:
            final.set_params(scoring=asking_scorer(own["scoring"]))
        for name in ("param_grid", "param_distributions"):
            if name in own:
                final.set_params(**{name: _asking_grid(own[name])})
        fitted = fit_weighted(search, X, y, weights)
    final.set_params(**own)  # what the user wrote, in place of positions in the coreset
    return fitted


def _asking_grid(grid: Any) -> Any:
    """Candidates that are estimators must ask, too."""
    if isinstance(grid, list | tuple):
        return [_asking_grid(one) for one in grid]

    def ask(value: Any) -> Any:
        return asking(clone(value)) if hasattr(value, "get_params") and not isinstance(value, type) else value

    return {name: [ask(v) for v in values] if isinstance(values, list | tuple) else values for name, values in grid.items()}


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
            f"{name} needs second moments, which a coreset of {problem.describe()} does not keep; use LeastSquares() or Moments(2)."
        )
    if core._correction is not None:
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
