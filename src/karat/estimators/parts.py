"""The parts of a search: what each training part is fitted on, and what each test part is scored on.

A search of scikit-learn is run on tokens instead of rows: token 2k stands for the training part of split k, token 2k +
1 for its test part, and all tokens together for all rows.  What it fits (:class:`PartModel`) and scores by
(:class:`PartScorer`) look up what a token stands for.  So its loop, its choice and its ``cv_results_`` are
scikit-learn's own.

A candidate is *covered* if one set of columns spans whatever its transformers make in any part
(:mod:`karat.estimators.covers`).  Then one coreset per fold serves all parts.  Any other candidate is fitted on a coreset
of each training part by itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from karat._core.coreset import Coreset
from karat._data import containers
from karat.errors import NotExactError
from karat.estimators import registry
from karat.estimators.atoms import Split
from karat.estimators.covers import cover, covered, widest
from karat.estimators.fitting import fit_weighted, join_pipeline, key_of, split_pipeline, with_parameters
from karat.estimators.folds import ExactCV, cores_of_splits
from karat.estimators.moment_scores import linear_score
from karat.estimators.monomials import changes_nothing, monomial_problem
from karat.estimators.training_rows import TrainingRows, WeightedRows, hash_of
from karat.estimators.transformers import fit_and_transform, narrows, transform
from karat.estimators.width import made_columns, moments_of
from karat.problems import Problem

HELD = 8  # settings of transformers whose columns are held, for every part
WIDE = 500  # moments up to which coresets of a cover take milliseconds
WIDER = 2  # times as many moments as the columns of a candidate have
ALL = -1  # the number of the part that is all rows


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
        self, rows: TrainingRows, splits: Sequence[Split], candidates: list[Any], fit: Any, problem: Problem | None
    ) -> None:
        self.rows, self.splits, self.fit_alone, self.problem = rows, splits, fit, problem
        self.keys: dict[tuple[int, ...], tuple[str, Any]] = {}
        self.covered: set[str] = set()
        self.settled: dict[str, Any] = {}
        self.fronts: dict[tuple[str, int], Any] = {}
        self.few: dict[tuple[int, bool], WeightedRows] = {}
        self.made: OrderedDict[tuple[str, int, bool], Any] = OrderedDict()
        self.whole: dict[tuple[int, bool], TrainingRows] = {(ALL, False): rows}
        self.seen: OrderedDict[tuple[tuple[int, ...], int, bool], tuple[Any, Any]] = OrderedDict()
        self.folds: ExactCV | None = None
        self.last: Coreset | None = None
        self._build_folds(candidates)
        for candidate in candidates:  # now, so that a refusal is raised, and not counted by the search as a failed fit
            self._prepare(candidate)

    def _build_folds(self, candidates: list[Any]) -> None:
        """One coreset per fold that serves every covered candidate."""
        pipelines = [split_pipeline(candidate) for candidate in candidates]
        known = {self.key(front): front for front, leaf in pipelines if _is_plain(leaf)}
        covers = {}
        for key, front in known.items():
            found = "passthrough" if front is None or self.problem is not None else cover(self._resolved(front, key))
            if found is not None and not self._is_too_wide(found, front):
                covers[key] = found
        if not covers:
            return
        self.covered = set(covers)
        distinct = widest([FunctionTransformer() if one == "passthrough" else one for one in covers.values()])
        alone = len(distinct) == 1 and changes_nothing(distinct[0])
        self.folds = cores_of_splits(self.rows, self.splits, self._kept_problem([] if alone else distinct))

    def _is_too_wide(self, spanned: Any, front: Any) -> bool:
        """Whether columns of a cover are so many more than those of the transformers that coresets of each part cost less."""
        if self.problem is not None or front is None or not narrows(front):
            return False
        needed = moments_of(made_columns(self.rows, None if isinstance(spanned, str) else spanned), self.rows.targets)
        return needed > WIDE and needed >= WIDER * moments_of(made_columns(self.rows, front), self.rows.targets)

    def _kept_problem(self, covers: list[Any]) -> Problem:
        """What every fold keeps: of the columns themselves, or of those that covers make."""
        rows = self.rows
        monomials = monomial_problem(covers, rows) if self.problem is None else None
        if monomials is not None:
            return monomials
        return rows.problem(self.problem, [covered(one, rows.X, rows.y) for one in covers])

    def _resolved(self, front: Any, key: str) -> Any:
        """Transformers, known by their key, in which functions that choose columns have chosen."""
        if key not in self.settled:
            self.settled[key] = self.rows.resolved(front)
        return self.settled[key]

    def core(self) -> Coreset:
        """The rows that the chosen model was fitted on."""
        found = self.last if self.last is not None or self.folds is None else self.folds.refit
        return self.rows.core() if found is None else found

    def fit(self, estimator: Any, number: int) -> tuple[Any, str | None]:
        """Fit an estimator for a part; returns it with the key of its transformers if it is covered, else None."""
        front, leaf = split_pipeline(estimator)
        key = self.key(front) if _is_plain(leaf) else ""
        if key not in self.covered:
            fitted, core = self.fit_alone(clone(estimator), self.full(number))
            self.last = core if number == ALL else self.last
            return fitted, None
        self.last = self.folds.refit if number == ALL and self.folds is not None else self.last
        kept = self.kept(number)
        if self.problem is not None:
            return fit_weighted(clone(estimator), kept.X, kept.y, kept.weights), key
        fit_weighted(leaf, self.behind(front, key, number, False), kept.y, kept.weights)
        return (estimator if front is None else join_pipeline(estimator, self._front(front, key, number), leaf)), key

    def key(self, front: Any) -> str:
        """What tells transformers from others with other parameters; those that are the same objects are hashed once."""
        steps = () if front is None else tuple(id(step) for _, step in front.steps)
        if steps not in self.keys:
            self.keys[steps] = hash_of(front), front  # held, so that no other object gets their numbers
        return self.keys[steps][0]

    def behind(self, front: Any, key: str, number: int, test: bool) -> Any:
        """The few rows of a part as the model behind the transformers of its training part sees them.

        Candidates that differ in the last step share them; what was not asked for lately is forgotten.
        """
        if front is None:
            return self.kept(number, test).X
        fitted = self._front(front, key, number)
        found = self.made.pop((key, number, test), None)
        return self._held(key, number, test, transform(fitted, self.kept(number, test).X) if found is None else found)

    def _held(self, key: str, number: int, test: bool, table: Any) -> Any:
        self.made[key, number, test] = table
        while len(self.made) > HELD * 2 * (len(self.splits) + 1):
            self.made.popitem(last=False)
        return table

    def _prepare(self, estimator: Any) -> None:
        """Do what takes long and may be refused; other errors are left to the search, which counts them as failed fits."""
        front, leaf = split_pipeline(estimator)
        if not _is_plain(leaf):
            return
        key = self.key(front)
        for number in range(ALL, len(self.splits)):
            try:
                if key not in self.covered:
                    self.last = (self.full(number) if front is None else self.full(number).behind(front)).core()
                elif front is not None and self.problem is None:
                    self._front(front, key, number)
            except NotExactError:
                raise
            except Exception:
                pass

    def _front(self, front: Any, key: str, number: int) -> Any:
        """The transformers, known by their key, fitted to all rows of a part; on few rows, if these teach them the same."""
        if (key, number) not in self.fronts:
            by_few = self.rows.teach(front)
            rows = self.kept(number) if by_few else self.full(number)
            with config_context(
                assume_finite=by_few, skip_parameter_validation=True
            ):  # few rows were read, and candidates checked
                fitted, table = fit_and_transform(self._resolved(front, key), rows.X, rows.y, rows.weights, keep=by_few)
            self.fronts[key, number] = fitted
            if table is not None:
                self._held(key, number, False, table)
        return self.fronts[key, number]

    def kept(self, number: int, test: bool = False) -> WeightedRows:
        """The few rows that stand for a training or test part."""
        if (number, test) not in self.few:
            self.few[number, test] = self._taken(number, test)
        return self.few[number, test]

    def _taken(self, number: int, test: bool) -> WeightedRows:
        assert self.folds is not None
        if number == ALL:
            core = self.folds.refit
            return WeightedRows(self.rows.seen(core.X), containers.in_double(core.y), core.weights)
        core, positions = self.folds.core, self.folds.cv[number][int(test)]
        X, y = (containers.take_rows(table, positions) for table in (core.X, core.y))
        return WeightedRows(self.rows.seen(X), containers.in_double(y), core.weights[positions])

    def full(self, number: int, test: bool = False) -> TrainingRows:
        """All rows of a training or test part."""
        if (number, test) not in self.whole:
            self.whole[number, test] = self.rows.part(self.splits[number][int(test)])
        return self.whole[number, test]

    def full_behind(self, front: Any, number: int, test: bool) -> Any:
        """All rows of a part behind fitted transformers; those of one setting of the transformers are held."""
        if front is None:
            return self.full(number, test).X
        key = (tuple(id(step) for _, step in front.steps), number, test)
        found = self.seen.pop(key, None) or (front, transform(front, self.full(number, test).X))
        self.seen[key] = found  # with the transformers, so that no other object gets their numbers
        while len(self.seen) > 2 * len(self.splits):
            self.seen.popitem(last=False)
        return found[1]


def _is_plain(leaf: Any) -> bool:
    """Whether a model is fitted on rows as they are: it selects nothing and does not transform the target."""
    return key_of(leaf) not in registry.SELECTS | {"TransformedTargetRegressor"}


class PartModel(BaseEstimator):
    """An estimator that is fitted on what a token stands for; its parameters are those of the one inside."""

    def __init__(self, inside: Any, parts: Parts) -> None:
        self.inside, self.parts, self.own = inside, parts, False  # clones share what is inside until parameters are set

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
        self.front_ = split_pipeline(self.inside)[0]  # as it is before it is fitted
        self.fitted_, self.key_ = self.parts.fit(self.inside, int(X[0, 0]) // 2 if len(X) == 1 else ALL)
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
    of_predictions : bool
        Whether it looks at predictions only, and not at the model.
    """

    def __init__(self, scorer: Any, name: str | None, of_predictions: bool) -> None:
        self.scorer, self.name, self.of_predictions = scorer, name, of_predictions

    def __call__(self, model: PartModel, X: Any, y: Any = None) -> Any:
        number, test = divmod(int(X[0, 0]), 2)
        if self.name is not None and model.key_ is not None:
            return self._on_few(self.name, model, model.key_, number, bool(test))
        rows = model.parts.full(number, bool(test))
        weights = {} if rows.weights is None else {"sample_weight": rows.weights}
        if not self.of_predictions:  # a function of the user's, which may look at the whole pipeline
            return self.scorer(model.fitted_, containers.copied(rows.X), rows.y, **weights)
        front, leaf = split_pipeline(model.fitted_)
        return self.scorer(leaf, model.parts.full_behind(front, number, bool(test)), rows.y, **weights)

    def _on_few(self, name: str, model: PartModel, key: str, number: int, test: bool) -> Any:
        """The score on the few rows of a part, behind transformers that are not run again."""
        parts = model.parts
        rows = parts.kept(number, test)
        if parts.problem is not None:
            return self.scorer(model.fitted_, rows.X, rows.y, sample_weight=rows.weights)
        leaf, X = split_pipeline(model.fitted_)[1], parts.behind(model.front_, key, number, test)
        found = linear_score(name, leaf, X, rows.y, rows.weights)
        return self.scorer(leaf, X, rows.y, sample_weight=rows.weights) if found is None else found


def tokens(splits: Sequence[Split]) -> tuple[np.ndarray, list[Split]]:
    """The tokens of all parts, and the splits among them."""
    places = [(np.array([2 * k]), np.array([2 * k + 1])) for k in range(len(splits))]
    return np.arange(2 * len(splits))[:, None], places
