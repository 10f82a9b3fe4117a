"""Small data passes through: where a coreset would not pay, an estimator is fitted on all rows, as without karat.

A coreset of least squares has about d^2 / 2 rows, and one of each fold as many again.  If that is most of the data
(:mod:`karat.estimators.width`), or if the data is so small that a fit takes milliseconds, building coresets costs more than it
saves.  What is refused on large data is
refused here as well, so that an answer does not depend on the number of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn import config_context
from sklearn.model_selection import ParameterGrid, check_cv

from karat._core.all_rows import all_rows
from karat._core.coreset import Coreset
from karat._data import containers
from karat.estimators import registry
from karat.estimators.exact_fit import innermost, selects
from karat.estimators.fitting import fit_weighted, key_of, split_pipeline
from karat.estimators.training_rows import TrainingRows
from karat.estimators.transformers import check_not_random, fitted_by_moments, nested_estimators, watch_randomness
from karat.estimators.width import made_columns, pays

FEW = 5_000  # rows up to which nothing is gained, by default
NOTE = "A coreset of so few rows would gain nothing: all are kept, with their own weights, and their rank was not measured."


def passes_through(estimator: Any, rows: TrainingRows, groups: Any, few: int) -> bool:
    """Whether to fit on all rows: if nothing is gained otherwise, and scikit-learn by itself gives the same answer.

    ``few`` rows pass through in any case; with 0, none do.
    """
    return few > 0 and _is_small(estimator, rows, few) and _same_alone(estimator, rows, groups)


def _is_small(estimator: Any, rows: TrainingRows, few: int) -> bool:
    """Whether there are few rows, or coresets would not pay."""
    leaf, count = innermost(estimator), containers.row_count(rows.table)
    if count <= few:
        return True
    alone = not selects(leaf) or (key_of(leaf) == "RidgeCV" and leaf.cv is None)
    parts = 1 if alone or not isinstance(leaf.cv, int | None) else check_cv(leaf.cv).get_n_splits()
    searched = split_pipeline(leaf.estimator)[0] if key_of(leaf) in registry.SEARCHES else None
    columns = made_columns(rows, split_pipeline(estimator)[0], searched)
    return not pays(count, columns, rows.targets, parts, _candidates(leaf))


def _candidates(leaf: Any) -> int:
    """How many candidates a search has, as far as that is known before it is run."""
    if key_of(leaf) not in registry.SEARCHES:
        return 1
    if hasattr(leaf, "param_grid"):
        return len(ParameterGrid(leaf.param_grid))
    count = getattr(leaf, "n_iter", getattr(leaf, "n_candidates", 1))
    return 1 if isinstance(count, str) else int(count)


def _same_alone(estimator: Any, rows: TrainingRows, groups: Any) -> bool:
    """Whether scikit-learn weighs every step and score, hands groups on, draws nothing and sees the types of the columns."""
    transformers, leaf = split_pipeline(estimator)
    if rows.sample_weight is not None:
        plain = key_of(leaf) in registry.SQUARED_LOSS or key_of(leaf) in registry.BY_CLASS
        return plain and fitted_by_moments(transformers)
    if groups is not None and key_of(estimator) not in registry.SEARCHES:
        return False
    if containers.is_frame(rows.table) and containers.in_double(rows.table) is not rows.table:
        return False
    listed = [part for part in nested_estimators(estimator) if key_of(part) in registry.TRANSFORMERS]
    random = any(getattr(part, "random_state", 0) is None for part in listed)
    return not random or (transformers is not None and not selects(estimator))


def fit_on_all_rows(estimator: Any, rows: TrainingRows, groups: Any) -> tuple[Any, Coreset]:
    """Fit an estimator, in place, as without karat; and the coreset of all rows."""
    problem = rows.problem()
    core = all_rows(rows.table, None if rows.classifies else rows.target, problem, rows.sample_weight, NOTE)
    if rows.classifies:
        core = replace(core, groups=rows.target[core.indices])
    if rows.sample_weight is not None:
        return fit_weighted(estimator, rows.table, rows.target, rows.sample_weight), core
    X, y = (containers.copied(containers.in_double(table)) for table in (rows.table, rows.target))
    transformers, _ = split_pipeline(estimator)
    probes = [] if transformers is None else watch_randomness(transformers)
    with config_context(enable_metadata_routing=False):
        estimator.fit(X, y, **({} if groups is None else {"groups": groups}))
    check_not_random(probes)
    return estimator, core
