"""The rows of one part of the data, behind the transformers that were fitted on them, and the few that stand for them.

``TrainingRows`` is what a model is fitted on: all rows, or those of a training part.  Three questions are answered once
and remembered, because many candidates of a search ask them: what do these transformers learn here
(:meth:`TrainingRows.behind`), what does this transformation make of the target (:meth:`TrainingRows.with_target`), and
which few rows keep the squared losses, or the second moments of every class (:meth:`TrainingRows.core`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyRegressor

from karat._core.coreset import Coreset, coreset
from karat._data import containers
from karat.engine.linalg import Array
from karat.engine.rows import consecutive
from karat.estimators.covers import covered
from karat.estimators.features import FeatureMap
from karat.estimators.transformers import (
    fit_and_transform,
    fitted_by_moments,
    learns_from_kept,
    resolve_columns,
    transform,
)
from karat.problems import LeastSquares, Moments, Problem, Transformed

Made = TypeVar("Made")
MADE = "made"  # where a table is remembered that the last transformer made of all rows


@dataclass(frozen=True)
class WeightedRows:
    """Few rows with weights that stand for all rows of a part."""

    X: Any
    y: Any
    weights: Array


@dataclass(frozen=True)
class TrainingRows:
    """The rows of one part of the data.

    Parameters
    ----------
    table, target, sample_weight
        The data as it was given; ``sample_weight`` may be None.
    positions : array, optional
        The rows of this part; by default all.
    fronts : tuple of fitted transformers
        What was applied to the columns, in this order.
    classifies : bool
        Whether the target holds classes.
    random_state : int
    """

    table: Any
    target: Any
    sample_weight: Any = None
    positions: np.ndarray | None = None
    fronts: tuple[Any, ...] = ()
    classifies: bool = False
    random_state: int = 0
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def X(self) -> Any:  # noqa: N802 - as everywhere in scikit-learn
        """The columns as a model sees them: all rows, behind the transformers."""
        return self.seen(self._taken(self.table))

    @property
    def y(self) -> Any:
        """The target of these rows."""
        return containers.in_double(self._taken(self.target))

    @property
    def targets(self) -> int:
        """How many targets there are."""
        return int(self.target.shape[1]) if containers.dimensions(self.target) == 2 else 1

    @property
    def weights(self) -> Any:
        """The sample weights of these rows, or None."""
        return self._taken(self.sample_weight)

    def _taken(self, table: Any) -> Any:
        if self.positions is None or table is None:
            return table
        if isinstance(table, np.ndarray) and self._run is not None:
            return table[self._run]  # a view
        return containers.take_rows(table, self.positions)

    @cached_property
    def _run(self) -> slice | None:
        """The rows as a slice, if they follow one another."""
        return None if self.positions is None else consecutive(self.positions)

    def seen(self, raw: Any) -> Any:
        """Raw rows behind the transformers, in double precision."""
        raw = containers.in_double(raw)
        for front in self.fronts:
            raw = transform(front, raw)
        return raw

    def part(self, positions: np.ndarray) -> TrainingRows:
        """Some of these rows as a part of their own."""
        own = np.flatnonzero(positions) if np.asarray(positions).dtype == bool else positions
        return replace(self, positions=own if self.positions is None else self.positions[own], memo={})

    def alone(self) -> TrainingRows:
        """The same rows as if they were all rows of the data."""
        if self.positions is None:
            return self
        return replace(
            self,
            table=self._taken(self.table),
            target=self._taken(self.target),
            sample_weight=self.weights,
            positions=None,
            memo={},
        )

    def behind(self, transformers: Any) -> TrainingRows:
        """These rows behind transformers that are fitted on all of them."""

        def fitted() -> TrainingRows:
            return self._with_front(*fit_and_transform(self.resolved(transformers), self.X, self.y, self.weights))

        return self._once(("behind", hash_of(transformers)), fitted)

    def resolved(self, transformers: Any) -> Any:
        """A copy of transformers in which functions that choose columns have chosen."""
        transformers = clone(transformers)
        resolve_columns(transformers, self.X if self.fronts else self._taken(self.table))
        return transformers

    def teach(self, transformers: Any) -> bool:
        """Whether kept rows with weights teach transformers the same as all rows do."""
        return fitted_by_moments(transformers) or (self._tell_all and learns_from_kept(transformers))

    @cached_property
    def _tell_all(self) -> bool:
        """Rows without weight have categories too, and column transformers count the zeros of sparse tables."""
        weighted = self.sample_weight is None or bool((np.asarray(self.sample_weight) > 0).all())
        return weighted and not containers.is_sparse(self.table)

    def _with_front(self, fitted: Any, table: Any) -> TrainingRows:
        """These rows behind one more fitted transformer; what it makes of them, if known, waits for the coreset."""
        return replace(self, fronts=(*self.fronts, fitted), memo={} if table is None else {MADE: table})

    def covered_by(self, spanned: Any) -> TrainingRows:
        """These rows behind a cover of the transformers to come, which learns nothing that depends on weights."""
        return self._once(("cover", hash_of(spanned)), lambda: self._with_front(*covered(spanned, self.X, self.y)))

    def with_target(self, regressor: Any) -> tuple[Any, TrainingRows]:
        """A TransformedTargetRegressor with its transformer fitted, and these rows with the target that it makes."""
        bare = clone(regressor).set_params(regressor=None)
        return self._once(("target", hash_of(bare)), lambda: self._transformed(regressor))

    def _transformed(self, regressor: Any) -> tuple[Any, TrainingRows]:
        y = np.asarray(self.y)
        shell = clone(regressor).set_params(regressor=DummyRegressor())
        with config_context(enable_metadata_routing=False):
            shell.fit(np.zeros((len(y), 1)), y)
        made = np.asarray(shell.transformer_.transform(y[:, None] if y.ndim == 1 else y))
        made = made[:, 0] if made.ndim == 2 and made.shape[1] == 1 else made
        return shell, replace(self.alone(), target=made, memo={})

    def core(self, problem: Problem | None = None) -> Coreset:
        """The coreset of these rows; for classes with the labels as its groups."""
        return self._once(("core", problem), lambda: self._reduced(problem))

    def _reduced(self, problem: Problem | None) -> Coreset:
        X, options = self._taken(self.table), {"sample_weight": self.weights, "random_state": self.random_state}
        problem = self.problem(problem, raw=X)
        if self.classifies:
            return coreset(X, problem=problem, groups=of_positive_weight(np.asarray(self.y), self.weights), **options)
        return coreset(X, self._taken(self.target), problem, **options)

    def problem(self, problem: Problem | None = None, covers: Sequence[tuple[Any, Any]] = (), raw: Any = None) -> Problem:
        """What a coreset keeps of the columns behind the transformers, and behind covers side by side.

        ``covers`` are fitted, each with what it makes of these rows, if known; ``raw`` is the table of these rows.
        """
        kept = (Moments(2) if self.classifies else LeastSquares()) if problem is None else problem
        if not self.fronts and not covers:
            return kept
        made = self.memo.pop(MADE, None)
        tables = [table for _, table in covers] or [made]
        known = tables if all(table is not None for table in tables) else []
        raw = self.table if raw is None and self.positions is None else raw
        return Transformed(kept, FeatureMap([fitted for fitted, _ in covers], self.fronts, raw, known))

    def kept(self, problem: Problem | None = None) -> WeightedRows:
        """The rows of the coreset as a model sees them."""
        core = self.core(problem)
        return WeightedRows(self.seen(core.X), containers.in_double(core.groups if self.classifies else core.y), core.weights)

    def _once(self, key: Any, make: Callable[[], Made]) -> Made:
        if key not in self.memo:
            self.memo[key] = make()
        return cast(Made, self.memo[key])


def of_positive_weight(groups: np.ndarray, weights: Any) -> np.ndarray:
    """Groups in which rows without weight, which count for nothing, join another: a group of such rows alone would be empty."""
    if weights is None:
        return groups
    positive = np.asarray(weights) > 0
    return groups if positive.all() or not positive.any() else np.where(positive, groups, groups[positive.argmax()])


def hash_of(thing: Any) -> str:
    """A hash of an estimator's parameters; of its identity if they cannot be hashed (a lambda among them)."""
    try:
        return str(joblib.hash(thing))
    except Exception:  # joblib raises whatever pickling raises
        return f"{type(thing).__name__} {id(thing)}"
