"""Small data passes through: where a coreset would not pay, an estimator is fitted on all rows, as without karat.

A coreset of least squares has about d^2 / 2 rows, and one of each fold as many again.  If that is most of the data, or if the
data is so small that a fit takes milliseconds, building coresets costs more than it saves.  What is refused on large data is
refused here as well, so that an answer does not depend on the number of rows.
"""

from __future__ import annotations

from math import comb
from typing import Any

from sklearn.model_selection import check_cv

from karat._core.all_rows import all_rows
from karat._core.coreset import Coreset
from karat._data import containers
from karat.estimators.fitting import fit_weighted, key_of
from karat.estimators.registry import SEARCHES
from karat.problems import LeastSquares

FEW = 5_000  # rows up to which nothing is gained
SHARE = 0.5  # of the rows in coresets from which on nothing is gained
NOTE = "A coreset of so few rows would gain nothing: all are kept, with their own weights, and their rank was not measured."


def passes_through(X: Any, y: Any, selects: Any, sample_weight: Any, groups: Any) -> bool:
    """Whether to fit on all rows.  Searches over weighted rows do not: scikit-learn would not weigh their scores."""
    if selects is not None and (sample_weight is not None or (groups is not None and key_of(selects) not in SEARCHES)):
        return False
    count, columns = (int(size) for size in X.shape) if hasattr(X, "shape") else (containers.row_count(X), 1)
    if count <= FEW:
        return True
    targets = int(y.shape[1]) if containers.dimensions(y) == 2 else 1
    folds = 1 if selects is None or not isinstance(selects.cv, int | None) else check_cv(selects.cv).get_n_splits()
    return folds * comb(columns + targets + 2, 2) >= SHARE * count


def fit_on_all_rows(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[Any, Coreset]:
    """Fit an estimator, in place, as without karat; and the coreset of all rows."""
    core = all_rows(X, y, LeastSquares(), sample_weight, NOTE)
    X, y = (_copied(containers.in_double(table)) for table in (X, y))
    if sample_weight is not None:
        return fit_weighted(estimator, X, y, sample_weight), core
    estimator.fit(X, y, **({} if groups is None else {"groups": groups}))
    return estimator, core


def _copied(table: Any) -> Any:
    """A copy for estimators that overwrite what they are given; the coreset keeps the original."""
    return table.copy() if hasattr(table, "copy") else table
