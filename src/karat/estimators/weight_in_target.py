"""Searches with weights, which are passed as a column of y.

scikit-learn's searches hand ``sample_weight`` to fits and scores only under metadata routing, which costs more than
fitting a few rows.  So y gets one more column, the weights; a search splits it along with y, and what it fits (a
:class:`WeightInTarget`) and scores by (a :class:`WeightedScorer`) takes it off again.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import get_scorer
from sklearn.utils import get_tags

from karat._data import containers
from karat.engine.linalg import Array
from karat.estimators.fitting import fit_weighted


class WeightInTarget(BaseEstimator):
    """An estimator that is fitted with the last column of y as weights; else it behaves like the one inside."""

    def __init__(self, inside: Any, flat: bool) -> None:
        self.inside, self.flat = inside, flat

    def __sklearn_clone__(self) -> WeightInTarget:
        return WeightInTarget(clone(self.inside), self.flat)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(self.inside.get_params(deep))

    def set_params(self, **params: Any) -> Self:
        self.inside.set_params(**params)
        return self

    def split_target(self, y: Array) -> tuple[Array, Array]:
        """The target as it was, and the weights."""
        return (y[:, 0] if self.flat else y[:, :-1]), y[:, -1]

    def fit(self, X: Any, y: Array) -> Self:
        fit_weighted(self.inside, X, *self.split_target(y))
        return self

    def predict(self, X: Any) -> Any:
        return self.inside.predict(X)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.inside)


class WeightedScorer:
    """A scorer that weighs the test rows of a :class:`WeightInTarget`; for other estimators it is the scorer inside."""

    def __init__(self, scorer: Any) -> None:
        self.scorer = scorer

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        if not isinstance(estimator, WeightInTarget):
            return float(self.scorer(estimator, X, y, sample_weight=sample_weight))
        target, weights = estimator.split_target(y)
        return float(self.scorer(estimator.inside, X, target, sample_weight=weights))


def weighted_scorer(scoring: Any) -> Any:
    """A scorer, or several, that weigh the test rows; None means R2, as in ``estimator.score``."""
    if isinstance(scoring, dict):
        return {name: weighted_scorer(one) for name, one in scoring.items()}
    if isinstance(scoring, list | tuple | set):
        return {name: weighted_scorer(name) for name in scoring}
    return WeightedScorer(get_scorer("r2" if scoring is None else scoring))


def fit_search(search: Any, X: Any, y: Any, weights: Array, splits: list[Any]) -> Any:
    """Fit a search over candidates, in place, on given splits and with weights."""
    own = {name: getattr(search, name) for name in ("estimator", "cv", "scoring")}
    flat = containers.dimensions(y) == 1
    loaded = np.column_stack([np.asarray(containers.as_table(y, "y"), dtype=float), weights])
    search.set_params(estimator=WeightInTarget(search.estimator, flat), cv=splits, scoring=weighted_scorer(search.scoring))
    # The rows were checked when the coreset was built, and the candidates' parameters when they were listed.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        search.fit(X, loaded)
    search.set_params(**own)  # the user's settings
    if hasattr(search, "best_estimator_"):
        search.best_estimator_ = search.best_estimator_.inside
        if hasattr(search.best_estimator_, "feature_names_in_"):
            search.feature_names_in_ = search.best_estimator_.feature_names_in_
    return search
