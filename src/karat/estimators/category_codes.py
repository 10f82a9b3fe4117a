"""Covers with encoders: the categories of all rows become codes, which are read as indicators.

A cover (:mod:`karat.estimators.covers`) needs the indicators of all categories.  scikit-learn's encoder takes longer to make
them than a coreset takes, because it looks every value up several times.  Here every value is looked up once, and the
table stays narrow (:class:`~karat.engine.parts.Indicators`).  The most frequent category has no indicator: with the
constant, those of the others span it, and no direction of the columns vanishes.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer

from karat._data import containers
from karat._data.labels import MISSING, comparable, encode, encode_sorted
from karat.engine.parts import Indicators
from karat.errors import InputError
from karat.estimators.fitting import key_of
from karat.estimators.registry import ENCODERS


class CategoryCodes(TransformerMixin, BaseEstimator):
    """The number of each value among the categories of its column; 0 for the most frequent."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the categories."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Learn the categories; the codes of the rows."""
        found = [_factorized(column) for column in _column_list(X)]
        codes = np.empty((containers.row_count(X), len(found)))
        self.numbers_: list[dict[Any, int]] = []
        for number, (own, categories) in enumerate(found):
            order = np.argsort(-np.bincount(own, minlength=len(categories)), kind="stable")
            place = np.empty(len(order))
            place[order] = np.arange(len(order))
            if len(order) == 1:
                place += 1  # a constant keeps its indicator, so that there is a column
            codes[:, number] = place[own]
            self.numbers_.append({comparable(category): int(p) for category, p in zip(categories, place, strict=True)})
        return codes

    def transform(self, X: Any) -> np.ndarray:
        """The codes of rows, all of whose categories are known."""
        codes = np.empty((containers.row_count(X), len(self.numbers_)))
        for number, (column, known) in enumerate(zip(_column_list(X), self.numbers_, strict=True)):
            try:
                codes[:, number] = [known[comparable(value)] for value in np.asarray(column, dtype=object).tolist()]
            except KeyError as error:
                raise InputError(f"The category {error} is not among those of the full data.") from None
        return codes

    @property
    def counts_(self) -> list[int]:
        """How many indicators every column has."""
        return [max(1, len(known) - 1) for known in self.numbers_]


class CodedCover:
    """A fitted cover that makes indicators of codes.

    Parameters
    ----------
    columns : ColumnTransformer
        Fitted, with :class:`CategoryCodes` among its steps.
    """

    def __init__(self, columns: ColumnTransformer) -> None:
        self.columns = columns

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """No parameter of its own: it is fitted."""
        return {}

    def transform(self, X: Any) -> np.ndarray:
        """The columns of the cover, written out."""
        return np.asarray(self.of_codes(self.columns.transform(X)))

    def of_codes(self, table: Any) -> Indicators:
        """The columns of the cover, of a table of numbers and codes."""
        counts: dict[int, int] = {}
        for name, where in self.columns.output_indices_.items():
            step = self.columns.named_transformers_.get(name)
            if isinstance(step, CategoryCodes) and where.stop > where.start:
                counts.update(zip(range(where.start, where.stop), step.counts_, strict=True))
        return Indicators.of_codes(np.asarray(table, dtype=float), counts)


def with_codes(cover: Any, columns: int) -> ColumnTransformer | None:
    """A cover of so many columns with codes in place of indicators; None if it has no encoder that is the last step."""
    if key_of(cover) in ENCODERS:
        return ColumnTransformer([("categories", CategoryCodes(), list(range(columns)))])
    if key_of(cover) != "ColumnTransformer":
        return None
    steps = [(name, _in_codes(step), chosen) for name, step, chosen in cover.transformers]
    remainder = _in_codes(cover.remainder)
    if not any(isinstance(step, CategoryCodes) for step in (remainder, *(step for _, step, _ in steps))):
        return None
    steps.sort(key=lambda named: isinstance(named[1], CategoryCodes))  # codes last, so that numbers lie together
    return ColumnTransformer(steps, remainder=remainder, sparse_threshold=0)


def _in_codes(step: Any) -> Any:
    return CategoryCodes() if key_of(step) in ENCODERS else step


def coded(cover: ColumnTransformer, X: Any) -> tuple[CodedCover, Indicators]:
    """A cover with codes, fitted; and its columns of all rows."""
    with config_context(transform_output="default", enable_metadata_routing=False):
        table = cover.fit_transform(containers.in_double(X))
    fitted = CodedCover(cover)
    return fitted, fitted.of_codes(table)


def _column_list(X: Any) -> list[Any]:
    """The columns of a frame or array, one by one."""
    if containers.is_frame(X):
        frame = containers.as_narwhals(X)
        return [frame[name].to_native() for name in frame.columns]
    return list(np.asarray(X).T)


def _factorized(column: Any) -> tuple[np.ndarray, list[Any]]:
    """The number of every value among the categories, and the categories."""
    if containers.frame_library(column) == "pandas" and column.dtype != object:
        codes, found = column.factorize()
        categories = found.tolist()
        missing = codes < 0
        if missing.any():
            return np.where(missing, len(categories), codes), [*categories, MISSING]
        return codes, categories
    values = np.asarray(column)
    distinct, codes = encode_sorted(values) if values.dtype.kind in "fiubUS" else encode(values)
    return codes, distinct.tolist()
