"""The rows of the folds as the last step of a pipeline sees them, computed once per fold.

The candidates of a search mostly differ in the last step only.  What comes before it (scaling, encoding) is then the same for
all candidates in a fold, and on few rows takes ten times as long as the fit.  So it is fitted by the first candidate of a fold,
and the others are given the columns that it made.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from karat._data import containers
from karat.estimators.fitting import fit_weighted, key_of


class FoldTables:
    """Rows of a coreset, by position, before and behind the transformers of a pipeline.

    Parameters
    ----------
    X
        The rows.
    folds : int
        Splits of them.
    last_only : bool
        Whether all candidates have the same transformers.
    """

    def __init__(self, X: Any, folds: int, last_only: bool) -> None:
        self.X, self.last_only = containers.in_double(X), last_only
        self.most = 4 * (folds + 1)
        self.known: OrderedDict[Any, Any] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"known": OrderedDict()}  # other processes compute their own

    def fit(self, estimator: Any, positions: np.ndarray, y: Any, weights: Any) -> Any:
        """Fit an estimator, in place, on the rows at ``positions``; returns the key of its transformers."""
        if key_of(estimator) != "Pipeline":
            fit_weighted(estimator, _copied(self._rows(positions)), y, weights)
            return None
        transformers = estimator.steps[:-1]
        key = positions.tobytes(), None if self.last_only else joblib.hash(transformers)
        if ("fitted", key) in self.known:
            estimator.steps[:-1] = self.known["fitted", key]
            fit_weighted(estimator.steps[-1][1], _copied(self._seen(estimator, key, positions)), y, weights)
        else:
            estimator.steps[:-1] = [(name, clone(step, safe=False)) for name, step in transformers]  # they may be shared
            fit_weighted(estimator, _copied(self._rows(positions)), y, weights)
            self._once(("fitted", key), lambda: estimator.steps[:-1])
        return key

    def last_step(self, estimator: Any, key: Any, positions: np.ndarray) -> tuple[Any, Any]:
        """The last step of an estimator that was fitted here, and the rows at ``positions`` as it sees them."""
        if key is None:
            return estimator, self._rows(positions)
        return estimator.steps[-1][1], self._seen(estimator, key, positions)

    def _rows(self, positions: np.ndarray) -> Any:
        return self._once(("rows", positions.tobytes()), lambda: containers.take_rows(self.X, positions))

    def _seen(self, estimator: Any, key: Any, positions: np.ndarray) -> Any:
        return self._once(("seen", key, positions.tobytes()), lambda: self._behind(estimator, positions))

    def _behind(self, estimator: Any, positions: np.ndarray) -> Any:
        with config_context(enable_metadata_routing=False):
            return Pipeline(estimator.steps[:-1]).transform(self._rows(positions))

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made before, or now; what has not been asked for lately is forgotten."""
        found = self.known.pop(key) if key in self.known else make()
        self.known[key] = found
        while len(self.known) > self.most:
            self.known.popitem(last=False)
        return found


def _copied(table: Any) -> Any:
    """A copy for estimators that overwrite what they are given; frames that nobody can overwrite as they are."""
    return table.copy() if hasattr(table, "copy") else table


def differs_in_last_step(search: Any) -> bool:
    """Whether the candidates of a search over a pipeline differ in parameters of its last step only."""
    if key_of(search.estimator) != "Pipeline":
        return False
    space = getattr(search, "param_grid", None) or getattr(search, "param_distributions", {})
    names = {name for part in ([space] if isinstance(space, dict) else space) for name in part}
    if getattr(search, "resource", "n_samples") != "n_samples":
        names.add(search.resource)
    return all(name.startswith(f"{search.estimator.steps[-1][0]}__") for name in names)


def clone_last_step(pipeline: Any) -> Any:
    """A copy of a pipeline with the same transformers and a clone of the last step."""
    other = copy.copy(pipeline)
    *steps, (name, last) = pipeline.steps
    other.steps = [*steps, (name, clone(last))]
    return other
