"""Scores of linear models that are functions of moments, without the checks of scikit-learn.

A search scores every candidate on every test part.  On few rows the checks of scikit-learn take ten times as long as the
score.  The rows here were checked when the coreset was built.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.estimators import registry
from karat.estimators.fitting import key_of


def linear_score(name: str, model: Any, X: Any, y: Any, weights: Any) -> float | None:
    """A score of :data:`karat.estimators.registry.SCORERS`; None where scikit-learn has to decide: other models, a constant y.

    Parameters
    ----------
    name : str
        The score.
    model : fitted regressor
    X, y, weights
        Rows of a test part.
    """
    if key_of(model) not in registry.SQUARED_LOSS or np.ndim(model.coef_) != 1 or np.ndim(y) != 1 or len(y) < 2:
        return None
    y = np.asarray(y, dtype=float)
    total, squares = float(weights.sum()), float(weights @ np.square(y - (X @ model.coef_ + model.intercept_)))
    if name == "neg_mean_squared_error":
        return -squares / total
    if name == "neg_root_mean_squared_error":
        return -float(np.sqrt(squares / total))
    spread = float(weights @ np.square(y - weights @ y / total))
    return 1.0 - squares / spread if name == "r2" and spread > 0 else None
