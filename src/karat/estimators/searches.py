"""Searches over parameters: what selects by cross-validation, its candidates, and what is exact in its scores and splits."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from karat.errors import NotExactError
from karat.estimators.fitting import key_of, refuse, split_pipeline
from karat.estimators.registry import SCORERS, SEARCHES, SELECTS_ITSELF, WHY_NOT


def selecting_step(estimator: Any) -> Any:
    """The part that selects by cross-validation: the estimator, the last step of a pipeline, or None."""
    _, leaf = split_pipeline(estimator)
    return leaf if key_of(leaf) in SEARCHES or key_of(leaf) in SELECTS_ITSELF else None


def without_search(estimator: Any) -> Any:
    """The estimator itself, or what a search fits."""
    return estimator.estimator if key_of(estimator) in SEARCHES else estimator


def searched_estimator(search: Any) -> Any:
    """What a search fits."""
    if selecting_step(search.estimator) is not None:
        raise refuse(search, "a search inside a search has folds of folds; let one of them select")
    return search.estimator


def candidates(search: Any) -> Iterable[Any]:
    """Every estimator that a search will fit; a random search gets a fixed seed, so that these are the ones."""
    if hasattr(search, "param_grid"):
        grid: Iterable[Any] = ParameterGrid(search.param_grid)
    else:
        if not isinstance(search.random_state, int | np.integer):
            search.random_state = int(check_random_state(search.random_state).randint(2**31 - 1))
        count = getattr(search, "n_iter", getattr(search, "n_candidates", 10))
        grid = ParameterSampler(
            search.param_distributions, count if isinstance(count, int) else 1, random_state=search.random_state
        )
    for parameters in grid:
        candidate = clone(search.estimator).set_params(**parameters)
        for part in [candidate, *candidate.get_params(deep=True).values()]:
            if hasattr(part, "_parameter_constraints"):
                part._validate_params()  # once per candidate, here, rather than in each of its fits
        yield candidate


def has_weights(estimator: Any) -> bool:
    """Whether the last step can be fitted with weights."""
    _, leaf = split_pipeline(estimator)
    return key_of(leaf) in SEARCHES or bool(has_fit_parameter(leaf, "sample_weight"))


def check_search(search: Any) -> None:
    """Refuse what is inexact in a search itself; its candidates are checked one by one."""
    if getattr(search, "resource", None) == "n_samples":
        raise refuse(
            search,
            "resource='n_samples' fits on random subsets of the rows; choose a parameter as the resource, such as 'max_iter'",
        )
    check_scorer(search.scoring)
    if not isinstance(search.cv, int | type(None) | np.integer):
        check_splitter(search.cv)


def check_scorer(scoring: Any) -> None:
    """Refuse a scorer (a name, a scorer object, or several) that is not a function of kept moments."""
    if scoring is None:
        return
    if isinstance(scoring, dict):
        for one in scoring.values():
            check_scorer(one)
    elif isinstance(scoring, list | tuple | set):
        for one in scoring:
            check_scorer(one)
    else:
        function = getattr(getattr(scoring, "_score_func", None), "__name__", None)
        plain = getattr(scoring, "_response_method", "predict") == "predict"
        if not ((isinstance(scoring, str) and scoring in SCORERS) or (function in SCORERS.values() and plain)):
            name = repr(scoring) if isinstance(scoring, str) else str(scoring)
            raise NotExactError(
                f"The score {name} is not a function of kept moments, so it would not be that of the full data; "
                f"choose one of {', '.join(SCORERS)}."
            )


def check_splitter(cv: Any) -> None:
    """Refuse leave-one-out and leave-p-out."""
    name = type(cv).__name__
    if name in ("LeaveOneOut", "LeavePOut"):
        raise refuse(cv, f"{WHY_NOT[name]}; use KFold")


def fit_ridge_cv(ridge: Any, X: Any, y: Any, weights: Any) -> Any:
    """Fit RidgeCV, in place, with weights in fits and scores, which it does under metadata routing only."""
    own = ridge.scoring
    with config_context(enable_metadata_routing=True):
        scorer = get_scorer("r2" if own is None else own)
        ridge.scoring = copy.deepcopy(scorer).set_score_request(sample_weight=True)
        ridge.fit(X, y, sample_weight=weights)
    ridge.scoring = own
    return ridge
