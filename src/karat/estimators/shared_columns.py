"""Columns that transformers make alike, whatever part of the data they are fitted on.

In a search every training part has transformers of its own.  Often they make the same columns:
an encoder learns the categories that occur, which are those of all rows, or some of them; squares
and logarithms learn nothing; scalers inside a ``ColumnTransformer`` map their columns affinely.
Then the columns are made once, of all rows, with the scalers left out, and few rows of every fold
stand for every part (:class:`FoldRows`).  What is left for a part is an affine map of these rows:

    columns of categories that do not occur in the part are dropped; a row that has one of them
    is a row of zeros without it, as ``handle_unknown="ignore"`` has it
    the columns of scalers are scaled, by scalers that are fitted on this part

The transformers of the part are fitted by scikit-learn, on rows of the part that have all of its
categories; the scalers among them then get what was learned from all rows of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.pipeline import Pipeline

from karat.data import containers
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError
from karat.estimators import registry
from karat.estimators.fitting import key_of
from karat.estimators.folds import FoldRows, Split
from karat.estimators.training_rows import TrainingRows, WeightedRows
from karat.estimators.transformers import (
    fit_and_transform,
    fitted_by_moments,
    is_affine,
    resolve_columns,
    scales,
)

IGNORES = ("ignore", "infrequent_if_exist")  # unknown categories: their rows have zeros


class FittedTransformers(NamedTuple):
    """Transformers fitted on a part, its few rows behind them, and the map of rows of the folds to
    their columns.
    """

    transformers: Any
    few: WeightedRows
    source: FoldRows
    apply: Callable[[Any], Any]


def split_shared(front: Any) -> tuple[Pipeline, Pipeline | None] | None:
    """Transformers that make the same columns for every part, and affine ones behind them; None if
    there are others.
    """
    if front is None or key_of(front) != "Pipeline":
        return None
    steps = front.steps
    shared = (
        steps[:1]
        if _learns_categories(steps[0][1])
        else takewhile(lambda step: _learns_nothing(step[1]), steps)
    )
    first = len(list(shared))
    if not first:
        return None
    rest = Pipeline(steps[first:]) if first < len(steps) else None
    return (Pipeline(steps[:first]), rest) if is_affine(rest) else None


def _learns_nothing(step: Any) -> bool:
    return key_of(step) in ("PolynomialFeatures", "Normalizer", "Binarizer") or (
        key_of(step) == "FunctionTransformer" and isinstance(step.func, np.ufunc)
    )


def _learns_categories(step: Any) -> bool:
    """Whether an encoder, or a ColumnTransformer of encoders, scalers and what learns nothing, can
    be shared.
    """
    if key_of(step) == "OneHotEncoder":
        return (
            isinstance(step.categories, str)
            and step.drop is step.min_frequency is step.max_categories is None
            and step.dtype is np.float64
        )
    if (
        key_of(step) != "ColumnTransformer"
        or step.transformer_weights is not None
        or step.remainder not in ("drop", "passthrough")
    ):
        return False
    return all(
        (
            inner in registry.UNCHANGED
            or scales(inner)
            or _learns_nothing(inner)
            or (key_of(inner) == "OneHotEncoder" and _learns_categories(inner))
        )
        and (not callable(columns) or isinstance(columns, make_column_selector))
        for _, inner, columns in step.transformers
    )


class SharedColumns:
    """The columns that transformers make of all rows, and how those of a part follow from them.

    Parameters
    ----------
    rows : TrainingRows
        All rows, as they were given.
    front, rest : Pipeline
        From :func:`split_shared`.
    """

    def __init__(self, rows: TrainingRows, front: Pipeline, rest: Pipeline | None) -> None:
        self.raw, self.rest = rows, rest
        self.front = clone(front)
        resolve_columns(self.front, lambda: rows.raw)
        self.scalers = {}
        plain = clone(self.front)
        self.columns = plain.steps[0][1]
        if key_of(self.columns) == "ColumnTransformer":
            self.scalers = {
                name: step for name, step, _ in self.columns.transformers if scales(step)
            }
            self.columns.transformers = [
                (name, "passthrough" if name in self.scalers else step, columns)
                for name, step, columns in self.columns.transformers
            ]
        fitted, table = fit_and_transform(plain, rows.X, rows.y)
        self.fitted = fitted.steps[0][1]
        self.rows = replace(rows, table=table, positions=None, preprocessors=(), memo={})
        self.folds: FoldRows | None = None
        self._find_categories()

    @classmethod
    def of(
        cls,
        rows: TrainingRows,
        shared: tuple[Pipeline, Pipeline | None],
        splits: Sequence[Split],
        served: int,
    ) -> Any:
        """Few rows for so many candidates; None where every part has to be transformed by
        itself.
        """
        if containers.is_sparse(rows.table) or rows.preprocessors:
            return None
        try:
            own = cls(rows, *shared)
            table = own.rows.table
            if (
                containers.is_frame(table)
                or table.dtype != float
                or (shared[1] is not None and containers.is_sparse(table))
            ):
                return None
            own.rows = replace(
                own.rows, table=table.tocsr() if containers.is_sparse(table) else table
            )
            own.folds = FoldRows.of(own.rows, splits, served)
            if own.folds is not None and not own._reads_all_rows():
                # all may be large
                own.rows = own.folds.rows = replace(own.rows, table=own.rows.table[:1])
        except (InputError, NotExactError, ValueError, TypeError):
            return None  # the ordinary way says why, if that is an error
        return own if own.folds is not None else None

    def _reads_all_rows(self) -> bool:
        """Whether something is fitted on all rows of a part, behind the shared columns."""
        learns = any(
            key_of(scaler) not in registry.MOMENT_FITTED for scaler in self.scalers.values()
        )
        return learns or not fitted_by_moments(self.rest)

    def _slices(self) -> list[tuple[Any, slice]]:
        """The encoders, and which columns they make."""
        if key_of(self.fitted) == "OneHotEncoder":
            return [(self.fitted, slice(0, int(self.rows.table.shape[1])))]
        if key_of(self.fitted) != "ColumnTransformer":
            return []
        steps = {name: step for name, step, _ in self.columns.transformers}
        found = [
            (steps[name], at) for name, at in self.fitted.output_indices_.items() if name in steps
        ]
        return [(step, at) for step, at in found if key_of(step) == "OneHotEncoder"]

    def _find_categories(self) -> None:
        """Where there is an indicator that is not zero, row by row."""
        table = self.rows.table
        self.hot = np.zeros(int(table.shape[1]), dtype=bool)
        # columns of encoders that raise, or warn, if a category is not known
        self.strict = self.hot.copy()
        for encoder, at in self._slices():
            self.hot[at] = True
            self.strict[at] = encoder.handle_unknown not in IGNORES
        if containers.is_sparse(table):
            table = table.tocsr()
            rows, places = (
                np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)),
                table.indices,
            )
            chosen = self.hot[places]
            self.found = rows[chosen], places[chosen]
        else:
            columns = np.flatnonzero(self.hot)
            rows, places = (
                np.nonzero(np.asarray(table)[:, columns]) if len(columns) else (columns, columns)
            )
            self.found = rows, columns[places]

    def part(self, number: int, positions: np.ndarray | None) -> FittedTransformers | None:
        """The transformers of a training part; None if it has to be transformed by itself."""
        assert self.folds is not None
        few = self.folds.kept(number)
        own = None if positions is None else np.asarray(positions)
        own = np.flatnonzero(own) if own is not None and own.dtype == bool else own
        keep, some = self._known(own)
        if (self.strict & ~keep).any():
            return None
        sample = self.raw.part(some)
        front, made = fit_and_transform(self.front, sample.X, sample.y)
        if made.shape[1] != keep.sum() or containers.is_sparse(made) != containers.is_sparse(
            self.rows.table
        ):
            return None
        scalers = self._scalers(front, few, own)

        def columns(X: Any) -> Array:
            made = np.asarray(X, dtype=float)[:, keep]
            for scaler, at in scalers:
                made[:, at] = scaler.transform(made[:, at])
            return made

        if self.rest is None:
            few = few.with_columns(columns(few.X))
            return FittedTransformers(front, few, self.folds, columns)
        if fitted_by_moments(self.rest):
            rest, X = fit_and_transform(self.rest, columns(few.X), few.y, few.weights)
        else:
            whole = self.rows if own is None else self.rows.part(own)
            rest, X = fit_and_transform(
                self.rest, columns(whole.X), whole.y, whole.sample_weight, columns(few.X)
            )
        both = Pipeline([*front.steps, *rest.steps])
        return FittedTransformers(
            both, few.with_columns(X), self.folds, lambda X: rest.transform(columns(X))
        )

    def _known(self, own: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Which columns a part has, and rows of it that have all of its categories."""
        rows, places = self.found
        count = len(self.raw)
        if own is not None:
            inside = np.zeros(count, dtype=bool)
            inside[own] = True
            chosen = inside[rows]
            rows, places = rows[chosen], places[chosen]
        somewhere = np.full(len(self.hot), -1)
        somewhere[places] = rows
        known = somewhere >= 0
        first = np.arange(min(2, count)) if own is None else own[:2]
        return known | ~self.hot, np.union1d(first, somewhere[known])

    def _scalers(
        self, front: Any, few: WeightedRows, own: np.ndarray | None
    ) -> list[tuple[Any, slice]]:
        """The scalers of a part with the columns that they scale; those in the front get what they
        learned.
        """
        if not self.scalers:
            return []
        columns, found = front.steps[0][1], []
        for name, scaler in self.scalers.items():
            at = self.fitted.output_indices_[name]
            if key_of(scaler) in registry.MOMENT_FITTED:
                X, weights = np.asarray(few.X)[:, at], few.weights
            else:
                whole = self.rows if own is None else self.rows.part(own)
                X, weights = whole.raw[:, at], whole.sample_weight
                X = X.toarray() if containers.is_sparse(X) else X
            if X.shape[1]:
                learned, _ = fit_and_transform(scaler, X, None, weights)
                state = {
                    key: value
                    for key, value in vars(learned).items()
                    if key.endswith("_") and key != "n_features_in_"
                }
                vars(columns.named_transformers_[name]).update(state)
                found.append((learned, columns.output_indices_[name]))
        return found
