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
from karat.estimators.fold_tables import FoldTables, clone_last_step, differs_in_last_step


class WeightInTarget(BaseEstimator):
    """An estimator that is fitted with the last column of y as weights; else it behaves like the one inside.

    X holds positions of rows in ``tables``.
    """

    def __init__(self, inside: Any, flat: bool, tables: FoldTables) -> None:
        self.inside, self.flat, self.tables = inside, flat, tables

    def __sklearn_clone__(self) -> WeightInTarget:
        copied = clone_last_step if self.tables.last_only else clone
        return WeightInTarget(copied(self.inside), self.flat, self.tables)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(self.inside.get_params(deep))

    def set_params(self, **params: Any) -> Self:
        if self.tables.last_only:  # without a list of all parameters of all steps
            self.inside.steps[-1][1].set_params(**{name.split("__", 1)[1]: value for name, value in params.items()})
        else:
            self.inside.set_params(**params)
        return self

    def split_target(self, y: Array) -> tuple[Array, Array]:
        """The target as it was, and the weights."""
        return (y[:, 0] if self.flat else y[:, :-1]), y[:, -1]

    def fit(self, X: Any, y: Array) -> Self:
        self.key = self.tables.fit(self.inside, X, *self.split_target(y))
        return self

    def predict(self, X: Any) -> Any:
        last, rows = self.tables.last_step(self.inside, self.key, X)
        return last.predict(rows)

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
        last, rows = estimator.tables.last_step(estimator.inside, estimator.key, X)
        return float(self.scorer(last, rows, target, sample_weight=weights))


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
    tables = FoldTables(X, len(splits), differs_in_last_step(search))
    inside = WeightInTarget(search.estimator, flat, tables)
    search.set_params(estimator=inside, cv=splits, scoring=weighted_scorer(search.scoring))
    # The rows were checked when the coreset was built, and the candidates' parameters when they were listed.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        search.fit(np.arange(len(weights)), loaded)
    search.set_params(**own)  # the user's settings
    if hasattr(search, "best_estimator_"):
        search.best_estimator_ = search.best_estimator_.inside
        if hasattr(search.best_estimator_, "feature_names_in_"):
            search.feature_names_in_ = search.best_estimator_.feature_names_in_
    return search
