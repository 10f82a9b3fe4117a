"""Searches over parameters: their candidates, their scores, and running them on parts of the data."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn import config_context
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state

from karat._core.coreset import Coreset
from karat.compat.sklearn import check_parameters, is_scorer, same_score, score_function
from karat.errors import InputError
from karat.estimators.fitting import check_splitter, refuse, with_parameters
from karat.estimators.folds import full_splits
from karat.estimators.parts import PartModel, Parts, PartScorer, tokens
from karat.estimators.registry import SCORERS
from karat.estimators.training_rows import TrainingRows
from karat.estimators.transformers import nested_estimators
from karat.problems import Problem

SEVERAL = (dict, list, tuple, set)  # of scorers: by their names, or with names of the user's


def candidates(search: Any, draws: Any = None) -> list[Any]:
    """Every estimator that a search will fit, with valid parameters.

    Parameters
    ----------
    search : search
    draws : int or RandomState, optional
        Where a random search draws from, which changes it; by default a copy of the search's own.
    """
    if hasattr(search, "param_grid"):
        drawn = list(ParameterGrid(search.param_grid))
    else:
        own = copy.deepcopy(_source(search)) if draws is None else draws
        sampler = ParameterSampler(search.param_distributions, _count(search), random_state=own)
        drawn = list(sampler)
        if hasattr(search, "n_candidates"):
            drawn = list(sampler)  # a halving search looks at its candidates once before it lists them
    found, valid = [], set()
    for parameters in drawn:
        candidate = with_parameters(search.estimator, parameters)
        for part in nested_estimators(candidate):
            if id(part) not in valid:
                check_parameters(part)  # once per candidate, here, rather than in each of its fits
                valid.add(id(part))
        found.append(candidate)
    return found


def _source(search: Any) -> Any:
    """Where a random search draws from: an integer seed, or a RandomState."""
    given = search.random_state
    return given if isinstance(given, int | np.integer) else check_random_state(given)


def _count(search: Any) -> int:
    """How many candidates a random search draws."""
    count = search.n_iter if hasattr(search, "n_iter") else search.n_candidates
    if count != "exhaust":
        return int(count)
    least = 1 if isinstance(search.min_resources, str) else search.min_resources
    if isinstance(search.max_resources, str):
        raise InputError(
            f"max_resources must be a whole number if the resource is {search.resource!r}.", argument="max_resources"
        )
    return int(search.max_resources) // int(least)


def check_search(search: Any, weighted: bool) -> None:
    """Refuse what is inexact in a search itself; its candidates are checked one by one."""
    if getattr(search, "resource", None) == "n_samples":
        raise refuse(
            search,
            "resource='n_samples' fits on random subsets of the rows; choose a parameter as the resource, such as 'max_iter'",
        )
    check_weighing(search.scoring, weighted)
    check_splitter(search.cv)


def check_weighing(scoring: Any, weighted: bool) -> None:
    """Refuse a scorer that takes no sample_weight if there are sample weights."""
    if not weighted or scoring is None:
        return
    for scorer in _several(scoring).values():
        function = score_function(scorer)
        names = inspect.signature(function).parameters
        if "sample_weight" not in names and not any(p.kind is p.VAR_KEYWORD for p in names.values()):
            name = getattr(function, "__name__", str(function))
            raise refuse(scorer, f"the score {name} takes no sample_weight, but the data has weights; choose another scoring")


def _several(scoring: Any) -> dict[str, Any]:
    """Scorers by name."""
    if isinstance(scoring, dict):
        return {name: get_scorer(one) for name, one in scoring.items()}
    if isinstance(scoring, SEVERAL):
        return {name: get_scorer(name) for name in scoring}
    return {"score": get_scorer(scoring)}


def by_moments(scorer: Any, rows: TrainingRows) -> str | None:
    """The name of a score that is a function of moments that the test parts keep; None for any other."""
    if rows.classifies or not is_scorer(scorer):
        return None
    return next((name for name in SCORERS if same_score(scorer, get_scorer(name))), None)


def part_scorers(scoring: Any, rows: TrainingRows) -> Any:
    """The scorer of a search, or several, for parts; None means the score of the estimator: R2 or accuracy."""
    if scoring is None:
        scoring = "accuracy" if rows.classifies else "r2"
    found = {
        name: PartScorer(scorer, by_moments(scorer, rows), is_scorer(scorer)) for name, scorer in _several(scoring).items()
    }
    return found if isinstance(scoring, SEVERAL) else found["score"]


def run_search(search: Any, rows: TrainingRows, groups: Any, fit: Any, problem: Problem | None = None) -> tuple[Any, Coreset]:
    """Fit a search over candidates, in place; returns it with the coreset of the chosen model.

    Parameters
    ----------
    search, rows, groups
    fit : callable
        Fits an estimator on rows of its own.
    problem : Problem, optional
        What the user insists on.
    """
    own = {name: getattr(search, name) for name in ("estimator", "cv", "scoring", "random_state") if hasattr(search, name)}
    draws = _source(search) if hasattr(search, "param_distributions") else None
    if draws is not None:
        search.random_state = copy.deepcopy(draws)
    found = candidates(search, draws)  # drawn before the splits are, as in scikit-learn
    splits = full_splits(own["cv"], rows.X, rows.y, groups, rows.classifies)
    parts = Parts(rows, splits, found, fit, problem)
    numbers, places = tokens(splits)
    search.set_params(estimator=PartModel(search.estimator, parts), cv=places, scoring=part_scorers(own["scoring"], rows))
    # The rows were checked when the coreset was built, and the candidates' parameters when they were listed.  What is left
    # of each fit is a few rows: another process would be sent all rows for it.  An estimator of the user's may take long.
    with (
        config_context(assume_finite=True, skip_parameter_validation=True, enable_metadata_routing=False),
        parallel_config(backend="sequential" if problem is None else "threading"),
    ):
        search.fit(numbers)
    search.set_params(**own)  # the user's settings
    core = parts.core()
    if hasattr(search, "best_estimator_"):
        search.best_estimator_ = search.best_estimator_.fitted_
        if hasattr(search.best_estimator_, "feature_names_in_"):
            search.feature_names_in_ = search.best_estimator_.feature_names_in_
    else:
        vars(search).pop("feature_names_in_", None)
    scoring = own["scoring"]
    search.scorer_ = _several(scoring) if isinstance(scoring, SEVERAL) else check_scoring(search.estimator, scoring)
    return search, core
