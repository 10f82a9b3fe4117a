"""Searches over parameters, run on parts of the data.

karat runs a search of scikit-learn on tokens instead of rows.  Token 2k stands for the training
part of split k, token 2k + 1 for its test part, and all tokens together for all rows.  The model
that the search fits (:class:`PartModel`) and the scorer (:class:`PartScorer`) look up the rows of a
token in :class:`Parts`.  So the loop, the choice and ``cv_results_`` are scikit-learn's own.

A token stands for few rows, made of the columns that the transformers of a candidate give:

    affine transformers    Rows are made of the raw columns of every fold, in one pass over the
    (scalers, selections)  data.  A training part is a union of folds, and scaled rows are rows of
                           scaled columns.
    encoders and the like  Rows are made in the same way, of the columns that the transformers make
                           alike for every part (:mod:`karat.estimators.shared_columns`).
    any others             are fitted on all rows of a training part, once for all candidates that
                           differ in the last step.  Rows are made of the columns that they give.

Scores that are functions of moments are computed on few test rows, all others on all test rows.
"""

from __future__ import annotations

import copy
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
from sklearn.utils import get_tags

from karat.compat.sklearn import is_scorer, same_score, weight_request
from karat.core.coreset import Coreset
from karat.core.synthetic import SYNTHETIC
from karat.data import containers
from karat.errors import NotExactError
from karat.estimators import registry
from karat.estimators.fitting import (
    SCORER_COLLECTIONS,
    candidates,
    fit_weighted,
    is_balanced,
    join_pipeline,
    key_of,
    random_source_of,
    refuse,
    scorers_by_name,
    setting,
    split_pipeline,
    step_ids,
    with_parameters,
)
from karat.estimators.folds import WHOLE, FoldRows, Split, full_splits
from karat.estimators.shared_columns import FittedTransformers, SharedColumns, split_shared
from karat.estimators.training_rows import TrainingRows, WeightedRows
from karat.estimators.transformers import (
    fit_and_transform,
    fitted_by_moments,
    is_affine,
    transform,
)
from karat.estimators.weighted.regressors import GREEDY
from karat.problems import Problem

HELD = 8  # settings of transformers whose columns of all test rows are held in memory
# Models that need more than the weighted rows of several folds: they split, count or choose.
FITTED_ALONE = {
    *registry.SELECTS,
    *registry.TARGET_ONLY,
    *registry.SEVERAL_MODELS,
    *GREEDY,
    "TransformedTargetRegressor",
}


class Refusal(BaseException):
    """Carries a refusal through a search, which counts every Exception as a failed fit."""

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
        The problem that the user passed.
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
        self.settings_of = [self.setting(split_pipeline(each)[0]) for each in candidates]
        settings = max(1, len(set(self.settings_of)))
        self.rows = replace(rows, fits=max(1, len(candidates) // settings))
        self.splits, self.fit_alone, self.problem = splits, fit, problem
        self.finite = get_config()["assume_finite"]  # as the user has set it
        self.all_rows: dict[tuple[int, bool], TrainingRows] = {(WHOLE, False): self.rows}
        self.prepared: dict[tuple[Any, int], FittedTransformers | None] = {}
        self.few_rows: dict[tuple[Any, int, bool], tuple[Any, WeightedRows]] = {}
        self.all_columns: OrderedDict[tuple[Any, int, bool], tuple[Any, Any]] = OrderedDict()
        self.refit_core: Coreset | None = None
        served = sum(
            _is_plain(leaf) and self._is_affine(transformers)
            for transformers, leaf in map(split_pipeline, candidates)
        )
        self.folds = FoldRows.of(self.rows, splits, served, problem)
        self.shared: dict[Any, SharedColumns | None] = {}

    def _is_affine(self, transformers: Any) -> bool:
        """Whether the transformers may be applied to rows made of the raw columns.

        A scaler may refuse sparse rows, and made rows are dense.
        """
        return transformers is None or (
            is_affine(transformers) and not containers.is_sparse(self.rows.table)
        )

    def setting(self, transformers: Any) -> Any:
        """The parameters of transformers, as a key; computed once for the same objects."""
        steps = step_ids(transformers)
        if steps not in self.settings:
            # The objects are held, so that no other object gets their ids.
            self.settings[steps] = setting(transformers), transformers
        return self.settings[steps][0]

    def fit(self, estimator: Any, number: int) -> tuple[Any, FittedTransformers | None]:
        """Fit an estimator on a part; returns it, and its transformers if it was fitted on rows of
        the folds.
        """
        if self.problem is not None:
            assert self.folds is not None
            few, fitted = self.folds.kept(number), clone(estimator)
            fit_weighted(fitted, few.X, few.y, few.weights)
            self._note_core(few.core, number)
            return fitted, None
        transformers, leaf = split_pipeline(estimator)
        prepared = self._prepare(transformers, number) if _is_plain(leaf) else None
        if prepared is None:
            with config_context(assume_finite=self.finite):
                fitted, core = self.fit_alone(clone(estimator), self.full(number))
            self._note_core(core, number)
            return fitted, None
        prepared.few.fit(leaf)
        self._note_core(prepared.few.core_of(leaf), number)
        if transformers is None:
            return estimator, prepared
        return join_pipeline(estimator, prepared.transformers, leaf), prepared

    def _note_core(self, core: Coreset, number: int) -> None:
        if number == WHOLE:  # only the refit on all rows is reported
            self.refit_core = core

    def _prepare(self, transformers: Any, number: int) -> FittedTransformers | None:
        """Transformers fitted on a training part, and few rows of the folds behind them; None if
        there are no such rows.
        """
        key = self.setting(transformers), number
        if key not in self.prepared:
            prepare = self._scaled if self._is_affine(transformers) else self._shared
            self.prepared[key] = prepare(transformers, number)
        return self.prepared[key]

    def _scaled(self, transformers: Any, number: int) -> FittedTransformers | None:
        """The same for affine transformers, or for none."""
        if self.folds is None:
            return None
        few = self.folds.kept(number)
        if transformers is None:
            return FittedTransformers(None, few, self.folds, lambda X: X)
        rows: Any = few if fitted_by_moments(transformers) else self.full(number)
        weights, other = (few.weights, None) if rows is few else (rows.sample_weight, few.X)
        # Made rows are finite, and the parameters were checked with the candidates.
        with config_context(assume_finite=rows is few, skip_parameter_validation=True):
            fitted, X = fit_and_transform(transformers, rows.X, rows.y, weights, other)
        return FittedTransformers(
            fitted, few.with_columns(X), self.folds, partial(transform, fitted)
        )

    def _shared(self, transformers: Any, number: int) -> FittedTransformers | None:
        """The same for transformers that make the same columns for every part."""
        key, split = self.setting(transformers), split_shared(transformers)
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
        if (number, test) not in self.all_rows:
            self.all_rows[number, test] = self.rows.part(self.splits[number][int(test)])
        return self.all_rows[number, test]

    def few_behind(
        self, transformers: Any, number: int, test: bool, prepared: FittedTransformers | None
    ) -> WeightedRows:
        """Few rows of a part behind fitted transformers, from the folds or made for this part."""
        key = step_ids(transformers), number, test
        if key not in self.few_rows:
            if prepared is not None:
                few = prepared.source.kept(number, test)
                few = few if transformers is None else replace(few, X=prepared.apply(few.X))
            else:
                with config_context(assume_finite=self.finite):
                    few = self.full(number, test).through(transformers).few()
            if few.core.rows != SYNTHETIC and self.rows.fits == 1:
                return few  # all rows, which no other candidate needs
            # The transformers are held too, so that no other object gets their ids.
            self.few_rows[key] = transformers, few
        return self.few_rows[key][1]

    def full_behind(self, transformers: Any, number: int, test: bool) -> Any:
        """All rows of a part behind fitted transformers; the latest HELD settings are held."""
        if transformers is None:
            return self.full(number, test).X
        key = step_ids(transformers), number, test
        columns = self.all_columns.pop(key, None) or (
            transformers,
            self.full(number, test).through(transformers).X,
        )
        self.all_columns[key] = columns  # the last place: it was used last
        while len(self.all_columns) > HELD * len(self.splits):
            self.all_columns.popitem(last=False)
        return columns[1]


def _is_plain(leaf: Any) -> bool:
    """Whether a model can be fitted on the rows of several folds as they are."""
    return key_of(leaf) not in FITTED_ALONE and not is_balanced(leaf)


class PartModel(BaseEstimator):
    """An estimator that is fitted on the rows of a token; its parameters are those of the estimator
    inside.
    """

    def __init__(self, inside: Any, parts: Parts) -> None:
        # Clones share the estimator inside until parameters are set.
        self.inside, self.parts, self.shares = inside, parts, True

    def __sklearn_clone__(self) -> PartModel:
        return PartModel(self.inside, self.parts)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(self.inside.get_params(deep))

    def set_params(self, **params: Any) -> Self:
        self.inside, self.shares = with_parameters(self.inside, params), False
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on the part that the tokens X stand for."""
        if self.shares:
            self.set_params()
        number = int(X[0, 0]) // 2 if len(X) == 1 else WHOLE
        try:
            self.fitted_, self.prepared_ = self.parts.fit(self.inside, number)
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
        Its name, if it is a function of kept moments, so that few rows are enough.
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
        transformers, leaf = split_pipeline(model.fitted_)
        if self.name is not None and key_of(leaf) in registry.SQUARED_LOSS:
            few = parts.few_behind(transformers, number, bool(test), model.prepared_)
            if few.target_varies:  # else scikit-learn divides by its own rounding, of all rows
                score = few.linear_score(self.name, leaf)
                if score is not None:
                    return score
                return self.scorer(leaf, few.X, few.y, **_as_argument(few.weights))
        rows = parts.full(number, bool(test))
        weights = _as_argument(rows.sample_weight if self.weighted else None)
        with config_context(assume_finite=parts.finite):
            if is_scorer(self.scorer):
                columns = parts.full_behind(transformers, number, bool(test))
                return self.scorer(leaf, columns, rows.y, **weights)
            # A function of the user's may look at the whole pipeline.
            return self.scorer(model.fitted_, containers.copied(rows.X), rows.y, **weights)


def _as_argument(weights: Any) -> dict[str, Any]:
    return {} if weights is None else {"sample_weight": weights}


def part_scorers(scoring: Any, estimator: Any, rows: TrainingRows) -> Any:
    """The scorer of a search, or several by name, for parts.

    ``scoring=None`` is the score of the estimator: R2 or accuracy.
    """
    request = weight_request(split_pipeline(estimator)[1], "score") if scoring is None else True
    if scoring is None:
        scoring = "accuracy" if rows.classifies else "r2"
    scorers = {
        name: _part_scorer(scorer, request, rows)
        for name, scorer in scorers_by_name(scoring).items()
    }
    return scorers if isinstance(scoring, SCORER_COLLECTIONS) else scorers["score"]


def _part_scorer(scorer: Any, request: Any, rows: TrainingRows) -> PartScorer:
    """Few rows have the moments of the weighted rows, so they serve no score without weights of
    rows that have weights.
    """
    weighted = request is not False and weight_request(scorer, "score") is not False
    name = None
    if not rows.classifies and is_scorer(scorer) and (weighted or rows.sample_weight is None):
        same = (name for name in registry.SCORERS if same_score(scorer, get_scorer(name)))
        name = next(same, None)
    if name is None and rows.on_device:
        raise refuse(
            scorer,
            "it needs all test rows, which are on an accelerator; score by R2 or squared errors,"
            " or copy X and y to the host",
        )
    return PartScorer(scorer, name, weighted)


def check_made_columns(estimators: Sequence[Any]) -> None:
    """Refuse transformers that need rows on the host: made rows serve scalers only."""
    for estimator in estimators:
        transformers, _ = split_pipeline(estimator)
        if transformers is not None and not fitted_by_moments(transformers):
            raise refuse(
                transformers,
                "it has steps that need all rows, which are on an accelerator; only scalers do"
                " without them. Copy X and y to the host",
            )


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
        The problem that the user passed.
    """
    names = ("estimator", "cv", "scoring", "random_state")
    settings = {name: getattr(search, name) for name in names if hasattr(search, name)}
    scoring = settings["scoring"]
    source = random_source_of(search) if hasattr(search, "param_distributions") else None
    if source is not None:
        search.random_state = copy.deepcopy(source)
    rows = rows.alone()
    drawn = candidates(search, source)  # before the splits are drawn, as in scikit-learn
    if rows.on_device:
        check_made_columns(drawn)
    splits = full_splits(settings["cv"], rows, groups)
    parts = Parts(rows, splits, drawn, fit, problem)
    tokens = np.arange(2 * len(splits))[:, None]
    places = [(np.array([2 * k]), np.array([2 * k + 1])) for k in range(len(splits))]
    scorers = part_scorers(scoring, search.estimator, rows)
    search.set_params(estimator=PartModel(search.estimator, parts), cv=places, scoring=scorers)
    checked = {"assume_finite": True, "skip_parameter_validation": True}
    # Each fit takes a few rows, and another process would be sent all rows for it.  With a problem
    # of the user's, an estimator may take long: threads share the rows.
    backend = "sequential" if problem is None else "threading"
    try:
        with (
            config_context(**checked, enable_metadata_routing=False),
            parallel_config(backend=backend),
        ):
            search.fit(tokens)
    except Refusal as refusal:
        raise refusal.reason from None
    search.set_params(**settings)
    if hasattr(search, "best_estimator_"):
        search.best_estimator_ = search.best_estimator_.fitted_
        if hasattr(search.best_estimator_, "feature_names_in_"):
            search.feature_names_in_ = search.best_estimator_.feature_names_in_
    else:
        vars(search).pop("feature_names_in_", None)
    several = isinstance(scoring, SCORER_COLLECTIONS)
    search.scorer_ = (
        scorers_by_name(scoring) if several else check_scoring(search.estimator, scoring)
    )
    if parts.refit_core is not None:
        return search, parts.refit_core
    # No model was refitted.
    return search, rows.few().core if parts.folds is None else parts.folds.folds.refit
