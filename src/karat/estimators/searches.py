"""Searches over parameters: their candidates, their scores, and running them on parts of the data.

A search of scikit-learn is run on tokens instead of rows: token 2k stands for the training part of
split k, token 2k + 1 for its test part, and all tokens together for all rows.  What it fits
(:class:`PartModel`) and scores by (:class:`PartScorer`) look up what a token stands for
(:class:`Parts`).  So its loop, its choice and its ``cv_results_`` are scikit-learn's own.

What a token stands for are few rows, made of the columns that the transformers of a candidate give:

    affine transformers   rows are made of the raw columns of every fold, in one pass over the data.
                          A training
    (scalers, selections) part is a union of folds, and scaled rows are rows of scaled columns
    encoders and the like rows are made in the same way, of the columns that transformers make alike
    for every part
                          (:mod:`karat.estimators.shared_columns`)
    any others            are fitted on all rows of a training part, once for all candidates that
                          differ in the last step, and rows are made of what they give, for training
                          and for testing

Scores that are functions of moments are computed on few test rows, any other on all of them.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import parallel_config
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state, get_tags

from karat.compat.sklearn import (
    check_parameters,
    is_scorer,
    same_score,
    score_function,
    weight_request,
)
from karat.core.coreset import Coreset
from karat.core.synthetic import SYNTHETIC
from karat.data import containers
from karat.errors import InputError, NotExactError
from karat.estimators import registry
from karat.estimators.fitting import (
    check_splitter,
    fit_weighted,
    is_balanced,
    join_pipeline,
    key_of,
    refuse,
    setting,
    split_pipeline,
    step_ids,
    with_parameters,
)
from karat.estimators.folds import Split, full_splits
from karat.estimators.shared_columns import (
    WHOLE,
    FittedFront,
    FoldRows,
    SharedColumns,
    split_shared,
)
from karat.estimators.training_rows import TrainingRows, WeightedRows
from karat.estimators.transformers import (
    fit_and_transform,
    fitted_by_moments,
    is_affine,
    nested_estimators,
    transform,
)
from karat.estimators.weighted.balanced_rows import GREEDY
from karat.problems import Problem

SEVERAL = (dict, list, tuple, set)  # of scorers: by their names, or with names of the user's
HELD = 8  # settings of transformers whose columns of all test rows are held


class Refusal(BaseException):
    """Carries a refusal through a search, which counts every exception as a failed fit."""

    def __init__(self, reason: NotExactError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Parts:
    """All parts of a search.

    Parameters
    ----------
    rows : TrainingRows
        All rows of the data.
    splits : list of (train, test)
        Positions of rows.
    candidates : list of estimators
        Everything that will be fitted; more may come, and cost more.
    fit : callable
        Fits an estimator on a TrainingRows of its own; returns it with its coreset.
    problem : Problem, optional
        What the user insists on.
    """

    def __init__(
        self,
        rows: TrainingRows,
        splits: Sequence[Split],
        candidates: list[Any],
        fit: Any,
        problem: Problem | None,
    ) -> None:
        self.settings: dict[tuple[int, ...], tuple[Any, Any]] = {}
        settings = {self.setting(split_pipeline(candidate)[0]) for candidate in candidates}
        self.rows = replace(rows, fits=max(1, len(candidates) // max(1, len(settings))))
        self.splits, self.fit_alone, self.problem = splits, fit, problem
        self.finite = get_config()["assume_finite"]  # as the user has set it
        self.whole: dict[tuple[int, bool], TrainingRows] = {(WHOLE, False): self.rows}
        self.preprocessors: dict[tuple[Any, int], FittedFront | None] = {}
        self.tested: dict[tuple[Any, int, bool], tuple[Any, WeightedRows]] = {}
        self.seen: OrderedDict[tuple[Any, int, bool], tuple[Any, Any]] = OrderedDict()
        self.last: Coreset | None = None
        served = sum(self._takes_folds(candidate) for candidate in candidates)
        self.folds = FoldRows.of(self.rows, splits, served, problem)
        self.settings_of = [self.setting(split_pipeline(one)[0]) for one in candidates]
        self.shared: dict[Any, SharedColumns | None] = {}

    def _takes_folds(self, candidate: Any) -> bool:
        """Whether rows made of the raw columns serve a candidate; a scaler may refuse sparse rows,
        and made ones are not.
        """
        front, leaf = split_pipeline(candidate)
        affine = front is None or (is_affine(front) and not containers.is_sparse(self.rows.table))
        return _is_plain(leaf) and affine

    def setting(self, front: Any) -> Any:
        """What tells transformers from others with other parameters; those that are the same
        objects are looked at once.
        """
        steps = step_ids(front)
        if steps not in self.settings:
            # held, so that no other object gets their numbers
            self.settings[steps] = setting(front), front
        return self.settings[steps][0]

    def fit(self, estimator: Any, number: int) -> tuple[Any, FittedFront | None]:
        """Fit an estimator for a part; returns it, and how rows of the folds become its columns, if
        it was fitted on them.
        """
        if self.problem is not None:
            assert self.folds is not None
            few, fitted = self.folds.kept(number), clone(estimator)
            fit_weighted(fitted, few.X, few.y, few.weights)
            self.last = few.core if number == WHOLE else self.last
            return fitted, None
        front, leaf = split_pipeline(estimator)
        own = self._front(front, number) if _is_plain(leaf) else None
        if own is None:
            with config_context(assume_finite=self.finite):
                fitted, core = self.fit_alone(clone(estimator), self.full(number))
            self.last = core if number == WHOLE else self.last
            return fitted, None
        own.few.fit(leaf)
        fitted = estimator if front is None else join_pipeline(estimator, own.front, leaf)
        self.last = own.few.core_of(leaf) if number == WHOLE else self.last
        return fitted, own

    def _front(self, front: Any, number: int) -> FittedFront | None:
        """Transformers, fitted on a training part, and few rows of folds behind them; None if there
        are none.
        """
        key = self.setting(front), number
        if key not in self.preprocessors:
            affine = front is None or (
                is_affine(front) and not containers.is_sparse(self.rows.table)
            )
            self.preprocessors[key] = (
                self._scaled(front, number) if affine else self._shared(front, number)
            )
        return self.preprocessors[key]

    def _scaled(self, front: Any, number: int) -> FittedFront | None:
        """The same of affine transformers, or without any."""
        if self.folds is None:
            return None
        few = self.folds.kept(number)
        if front is None:
            return FittedFront(None, few, self.folds, lambda X: X)
        rows: Any = few if fitted_by_moments(front) else self.full(number)
        weights, other = (few.weights, None) if rows is few else (rows.sample_weight, few.X)
        # both were checked
        with config_context(assume_finite=rows is few, skip_parameter_validation=True):
            fitted, X = fit_and_transform(front, rows.X, rows.y, weights, other)
        return FittedFront(
            fitted,
            replace(few, X=X, core=replace(few.core, X=X)),
            self.folds,
            partial(transform, fitted),
        )

    def _shared(self, front: Any, number: int) -> FittedFront | None:
        """The same of transformers that make the same columns for every part."""
        key, split = self.setting(front), split_shared(front)
        with config_context(assume_finite=self.finite):
            if key not in self.shared:
                served = self.settings_of.count(key)
                self.shared[key] = (
                    SharedColumns.of(self.rows, split, self.splits, served) if split else None
                )
            shared = self.shared[key]
            positions = None if number == WHOLE else self.splits[number][0]
            return None if shared is None else shared.part(number, positions)

    def full(self, number: int, test: bool = False) -> TrainingRows:
        """All rows of a training or test part."""
        if (number, test) not in self.whole:
            self.whole[number, test] = self.rows.part(self.splits[number][int(test)])
        return self.whole[number, test]

    def few_behind(
        self, front: Any, number: int, test: bool, own: FittedFront | None
    ) -> WeightedRows:
        """Few rows of a part, from the folds or by themselves, behind fitted transformers."""
        key = step_ids(front), number, test
        if key not in self.tested:
            if own is not None:
                few = own.source.kept(number, test)
                few = few if front is None else replace(few, X=own.apply(few.X))
            else:
                with config_context(assume_finite=self.finite):
                    few = self.full(number, test).through(front).few()
            if few.core.rows != SYNTHETIC and self.rows.fits == 1:
                return few
            # with the transformers, so that no other object gets their numbers
            self.tested[key] = front, few
        return self.tested[key][1]

    def full_behind(self, front: Any, number: int, test: bool) -> Any:
        """All rows of a part behind fitted transformers; those of some settings of the transformers
        are held.
        """
        if front is None:
            return self.full(number, test).X
        key = step_ids(front), number, test
        found = self.seen.pop(key, None) or (front, self.full(number, test).through(front).X)
        self.seen[key] = found
        while len(self.seen) > HELD * len(self.splits):
            self.seen.popitem(last=False)
        return found[1]


def _is_plain(leaf: Any) -> bool:
    """Whether a model can be fitted on the rows of several folds as they are."""
    alone = (
        registry.SELECTS
        | registry.TARGET_ONLY
        | GREEDY
        | {"TransformedTargetRegressor", *registry.SEVERAL_MODELS}
    )
    return key_of(leaf) not in alone and not is_balanced(leaf)


class PartModel(BaseEstimator):
    """An estimator that is fitted on what a token stands for; its parameters are those of the one
    inside.
    """

    def __init__(self, inside: Any, parts: Parts) -> None:
        # clones share what is inside until parameters are set
        self.inside, self.parts, self.own = inside, parts, False

    def __sklearn_clone__(self) -> PartModel:
        return PartModel(self.inside, self.parts)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(self.inside.get_params(deep))

    def set_params(self, **params: Any) -> Self:
        self.inside, self.own = with_parameters(self.inside, params), True
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on the part that the tokens X stand for."""
        if not self.own:
            self.set_params()
        try:
            self.fitted_, self.own_ = self.parts.fit(
                self.inside, int(X[0, 0]) // 2 if len(X) == 1 else WHOLE
            )
        except NotExactError as error:
            raise Refusal(error) from error
        return self

    def predict(self, X: Any) -> Any:
        """Predictions for rows, not tokens."""
        return self.fitted_.predict(X)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.inside)


class PartScorer:
    """A scorer of a :class:`PartModel` on the part that a token stands for.

    Parameters
    ----------
    scorer : callable
    name : str, optional
        Its name, if it is a function of kept moments, so that few rows do.
    weighted : bool
        Whether it is given the weights of the rows, if there are weights.
    """

    def __init__(self, scorer: Any, name: str | None, weighted: bool) -> None:
        self.scorer, self.name, self.weighted = scorer, name, weighted

    def __call__(self, model: PartModel, X: Any, y: Any = None) -> Any:
        number, test = divmod(int(X[0, 0]), 2)
        parts = model.parts
        if parts.problem is not None and parts.folds is not None and self.name is not None:
            few = parts.folds.kept(number, bool(test))
            return self.scorer(model.fitted_, few.X, few.y, sample_weight=few.weights)
        front, leaf = split_pipeline(model.fitted_)
        if self.name is not None and key_of(leaf) in registry.SQUARED_LOSS:
            few = parts.few_behind(front, number, bool(test), model.own_)
            if few.target_varies:  # else scikit-learn divides by rounding, of its own
                found = linear_score(self.name, leaf, few.numbers, few.y, few.weights)
                return (
                    found
                    if found is not None
                    else self.scorer(leaf, few.X, few.y, **given(few.weights))
                )
        rows = parts.full(number, bool(test))
        weights = given(rows.sample_weight if self.weighted else None)
        with config_context(assume_finite=parts.finite):
            if is_scorer(self.scorer):
                return self.scorer(
                    leaf, parts.full_behind(front, number, bool(test)), rows.y, **weights
                )
            # a function of the user's, which may look at the whole pipeline
            return self.scorer(model.fitted_, containers.copied(rows.X), rows.y, **weights)


def given(weights: Any) -> dict[str, Any]:
    """Weights as an argument, if there are any."""
    return {} if weights is None else {"sample_weight": weights}


def linear_score(name: str, model: Any, X: Any, y: Any, weights: Any) -> float | None:
    """A score of :data:`karat.estimators.registry.SCORERS`, in a tenth of the time that the checks
    of scikit-learn take.

    None where scikit-learn has to decide: several targets, a single row, another score.  The rows
    were checked before.
    """
    if np.ndim(model.coef_) != 1 or np.ndim(y) != 1 or len(y) < 2 or weights is None:
        return None
    y = np.asarray(y, dtype=float)
    total, squares = (
        float(weights.sum()),
        float(weights @ np.square(y - (X @ model.coef_ + model.intercept_))),
    )
    if name == "neg_mean_squared_error":
        return -squares / total
    if name == "neg_root_mean_squared_error":
        return -float(np.sqrt(squares / total))
    return (
        1.0 - squares / float(weights @ np.square(y - weights @ y / total))
        if name == "r2"
        else None
    )


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
            # a halving search looks at its candidates once before it lists them
            drawn = list(sampler)
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
            f"max_resources must be an integer if the resource is {search.resource!r}.",
            argument="max_resources",
        )
    return int(search.max_resources) // int(least)


def check_search(search: Any, weighted: bool) -> None:
    """Refuse what is inexact in a search itself; its candidates are checked one by one."""
    if getattr(search, "resource", None) == "n_samples":
        raise refuse(
            search,
            "resource='n_samples' fits on random subsets of the rows; choose a parameter as the"
            " resource, such as 'max_iter'",
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
        takes = "sample_weight" in names or any(p.kind is p.VAR_KEYWORD for p in names.values())
        if not takes and weight_request(scorer, "score") is not False:
            name = getattr(function, "__name__", str(function))
            raise refuse(
                scorer,
                f"the score {name} takes no sample_weight, but the data has weights; choose another"
                " scoring",
            )


def _several(scoring: Any) -> dict[str, Any]:
    """Scorers by name."""
    if isinstance(scoring, dict):
        return {name: get_scorer(one) for name, one in scoring.items()}
    if isinstance(scoring, SEVERAL):
        return {name: get_scorer(name) for name in scoring}
    return {"score": get_scorer(scoring)}


def part_scorers(scoring: Any, estimator: Any, rows: TrainingRows) -> Any:
    """The scorer of a search, or several, for parts; None means the score of the estimator:

    R2 or accuracy.
    """
    asked = weight_request(split_pipeline(estimator)[1], "score") if scoring is None else True
    if scoring is None:
        scoring = "accuracy" if rows.classifies else "r2"
    found = {name: _part_scorer(scorer, asked, rows) for name, scorer in _several(scoring).items()}
    return found if isinstance(scoring, SEVERAL) else found["score"]


def _part_scorer(scorer: Any, asked: Any, rows: TrainingRows) -> PartScorer:
    """Few rows have the moments of the weighted rows: a score without weights, of weighted rows, is
    not theirs.
    """
    weighted = asked is not False and weight_request(scorer, "score") is not False
    name = None
    if not rows.classifies and is_scorer(scorer) and (weighted or rows.sample_weight is None):
        name = next(
            (name for name in registry.SCORERS if same_score(scorer, get_scorer(name))), None
        )
    return PartScorer(scorer, name, weighted)


def run_search(
    search: Any, rows: TrainingRows, groups: Any, fit: Any, problem: Problem | None = None
) -> tuple[Any, Coreset]:
    """Fit a search over candidates, in place; returns it with the coreset of the chosen model.

    Parameters
    ----------
    search, rows, groups
    fit : callable
        Fits an estimator on rows of its own.
    problem : Problem, optional
        What the user insists on.
    """
    own = {
        name: getattr(search, name)
        for name in ("estimator", "cv", "scoring", "random_state")
        if hasattr(search, name)
    }
    draws = _source(search) if hasattr(search, "param_distributions") else None
    if draws is not None:
        search.random_state = copy.deepcopy(draws)
    rows = rows.alone()
    found = candidates(search, draws)  # drawn before the splits are, as in scikit-learn
    splits = full_splits(own["cv"], rows, groups)
    parts = Parts(rows, splits, found, fit, problem)
    tokens = np.arange(2 * len(splits))[:, None]
    places = [(np.array([2 * k]), np.array([2 * k + 1])) for k in range(len(splits))]
    scorers = part_scorers(own["scoring"], search.estimator, rows)
    search.set_params(estimator=PartModel(search.estimator, parts), cv=places, scoring=scorers)
    # The rows were checked when the coreset was built, and the candidates' parameters when they
    # were listed.  What is left of each fit is a few rows: another process would be sent all rows
    # for it.  An estimator of the user's may take long.
    try:
        with (
            config_context(
                assume_finite=True, skip_parameter_validation=True, enable_metadata_routing=False
            ),
            parallel_config(backend="sequential" if problem is None else "threading"),
        ):
            search.fit(tokens)
    except Refusal as refusal:
        raise refusal.reason from None
    search.set_params(**own)  # the user's settings
    core = parts.last
    if hasattr(search, "best_estimator_"):
        search.best_estimator_ = search.best_estimator_.fitted_
        if hasattr(search.best_estimator_, "feature_names_in_"):
            search.feature_names_in_ = search.best_estimator_.feature_names_in_
    else:
        vars(search).pop("feature_names_in_", None)
    scoring = own["scoring"]
    search.scorer_ = (
        _several(scoring)
        if isinstance(scoring, SEVERAL)
        else check_scoring(search.estimator, scoring)
    )
    if core is None:  # no model was chosen
        core = rows.few().core if parts.folds is None else parts.folds.folds.refit
    return search, core
