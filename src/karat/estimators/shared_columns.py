"""Columns that transformers make alike, whatever part of the data they are fitted on.

In a search every training part has its own fitted transformers.  Often they make the same columns:
an encoder learns the categories that occur, which are those of all rows or some of them; squares
and logarithms learn nothing; scalers inside a ``ColumnTransformer`` map their columns affinely.
karat then makes the columns once, of all rows and without the scalers, and few rows of every fold
(:class:`karat.estimators.folds.FoldRows`).  An affine map turns these rows into those of a part:

    It drops the columns of categories that do not occur in the part.  A row of such a category is
    then a row of zeros, as with ``handle_unknown="ignore"``.
    It scales the columns of scalers, which are fitted on this part.

scikit-learn fits the transformers of the part on a few of its rows that have all of its categories.
The scalers among them then get the state that was learned from all rows of the part.
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

IGNORES = ("ignore", "infrequent_if_exist")  # handle_unknown: rows of zeros, without a warning


class FittedTransformers(NamedTuple):
    """Transformers fitted on a part, its few rows behind them, and the map of rows of the folds to
    their columns.
    """

    transformers: Any
    few: WeightedRows
    source: FoldRows
    apply: Callable[[Any], Any]


def split_shared(transformers: Any) -> tuple[Pipeline, Pipeline | None] | None:
    """Transformers that make the same columns for every part, and affine ones behind them; None if
    there are others.
    """
    if transformers is None or key_of(transformers) != "Pipeline":
        return None
    steps = transformers.steps
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
    shared, rest : Pipeline
        From :func:`split_shared`.
    """

    def __init__(self, rows: TrainingRows, shared: Pipeline, rest: Pipeline | None) -> None:
        self.raw, self.rest = rows, rest
        self.shared = clone(shared)
        resolve_columns(self.shared, lambda: rows.raw)
        self.scalers = {}
        plain = clone(self.shared)
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
        """Few rows for so many candidates; None if every part has to be transformed by itself."""
        if containers.is_sparse(rows.table) or rows.preprocessors:
            return None
        try:
            columns = cls(rows, *shared)
            table = columns.rows.table
            if (
                containers.is_frame(table)
                or table.dtype != float
                or (shared[1] is not None and containers.is_sparse(table))
            ):
                return None
            table = table.tocsr() if containers.is_sparse(table) else table
            columns.rows = replace(columns.rows, table=table)
            columns.folds = FoldRows.of(columns.rows, splits, served)
            if columns.folds is not None and not columns._reads_all_rows():
                # The table may be large; only its type and width are still needed.
                columns.rows = columns.folds.rows = replace(columns.rows, table=table[:1])
        except (InputError, NotExactError, ValueError, TypeError):
            return None  # if it is an error, fitting the transformers on a part raises it
        return columns if columns.folds is not None else None

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
        return [
            (steps[name], at)
            for name, at in self.fitted.output_indices_.items()
            if key_of(steps.get(name)) == "OneHotEncoder"
        ]

    def _find_categories(self) -> None:
        """Find the indicators that are not zero: their rows and columns."""
        table = self.rows.table
        self.is_indicator = np.zeros(int(table.shape[1]), dtype=bool)
        # Columns of encoders that raise or warn if a category is unknown.
        self.strict = self.is_indicator.copy()
        for encoder, at in self._slices():
            self.is_indicator[at] = True
            self.strict[at] = encoder.handle_unknown not in IGNORES
        if containers.is_sparse(table):
            table = table.tocsr()
            rows, columns = (
                np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)),
                table.indices,
            )
            chosen = self.is_indicator[columns]
            self.indicators = rows[chosen], columns[chosen]
            return
        columns = np.flatnonzero(self.is_indicator)
        rows, places = (
            np.nonzero(np.asarray(table)[:, columns]) if len(columns) else (columns, columns)
        )
        self.indicators = rows, columns[places]

    def part(self, number: int, positions: np.ndarray | None) -> FittedTransformers | None:
        """The transformers of a training part; None if it has to be transformed by itself."""
        assert self.folds is not None
        few = self.folds.kept(number)
        if positions is not None:
            positions = np.asarray(positions)
            positions = np.flatnonzero(positions) if positions.dtype == bool else positions
        keep, sampled = self._categories_of(positions)
        if (self.strict & ~keep).any():
            return None
        sample = self.raw.part(sampled)
        fitted, table = fit_and_transform(self.shared, sample.X, sample.y)
        sparse = containers.is_sparse(self.rows.table)
        if table.shape[1] != keep.sum() or containers.is_sparse(table) != sparse:
            return None
        all_rows = self.rows if positions is None else self.rows.part(positions)
        scalers = self._scalers(fitted, few, all_rows)

        def columns(X: Any) -> Array:
            scaled = np.asarray(X, dtype=float)[:, keep]
            for scaler, at in scalers:
                scaled[:, at] = scaler.transform(scaled[:, at])
            return scaled

        if self.rest is None:
            few = few.with_columns(columns(few.X))
            return FittedTransformers(fitted, few, self.folds, columns)
        if fitted_by_moments(self.rest):
            rest, X = fit_and_transform(self.rest, columns(few.X), few.y, few.weights)
        else:
            rest, X = fit_and_transform(
                self.rest, columns(all_rows.X), all_rows.y, all_rows.sample_weight, columns(few.X)
            )
        pipeline = Pipeline([*fitted.steps, *rest.steps])
        return FittedTransformers(
            pipeline, few.with_columns(X), self.folds, lambda X: rest.transform(columns(X))
        )

    def _categories_of(self, positions: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """A mask of the columns that a part has, and rows of it that have all of its categories."""
        rows, columns = self.indicators
        count = len(self.raw)
        if positions is not None:
            in_part = np.zeros(count, dtype=bool)
            in_part[positions] = True
            chosen = in_part[rows]
            rows, columns = rows[chosen], columns[chosen]
        row_with = np.full(len(self.is_indicator), -1)  # a row that has the category of a column
        row_with[columns] = rows
        occurs = row_with >= 0
        first = np.arange(min(2, count)) if positions is None else positions[:2]
        return occurs | ~self.is_indicator, np.union1d(first, row_with[occurs])

    def _scalers(
        self, fitted: Any, few: WeightedRows, all_rows: TrainingRows
    ) -> list[tuple[Any, slice]]:
        """The scalers of a part with the columns that they scale; those inside the fitted
        transformers get the same state.
        """
        scalers = []
        for name, scaler in self.scalers.items():
            at = self.fitted.output_indices_[name]
            if key_of(scaler) in registry.MOMENT_FITTED:
                X, weights = np.asarray(few.X)[:, at], few.weights
            else:
                X, weights = all_rows.raw[:, at], all_rows.sample_weight
                X = X.toarray() if containers.is_sparse(X) else X
            if X.shape[1]:
                learned, _ = fit_and_transform(scaler, X, None, weights)
                state = {
                    key: value
                    for key, value in vars(learned).items()
                    if key.endswith("_") and key != "n_features_in_"
                }
                columns = fitted.steps[0][1]
                vars(columns.named_transformers_[name]).update(state)
                scalers.append((learned, columns.output_indices_[name]))
        return scalers
