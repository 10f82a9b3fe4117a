"""Pipelines: which columns the regressor sees, and how a coreset of raw rows can be exact for them.

A pipeline's transformers come in three kinds.

    affine      StandardScaler: its means and variances are kept moments, so fitted with weights it comes out the same, in
                every fold.  An affine change of columns does not change the span of {1, columns}, so the coreset may be
                built without it.
    row-wise    PolynomialFeatures: nothing is fitted.  Polynomials of scaled columns span what those of the columns span.
    frozen      OneHotEncoder, SplineTransformer: fitted on the full data first, and what they learnt (categories, knots) is
                written into their parameters; from then on they are row-wise.

So the coreset is built on the columns that come out of the pipeline *without* its scalers, and keeps the raw rows.  Inside
cross-validation scikit-learn would fit every transformer on the training part.  Categories come out the same if every
training part has them all, which is checked; knots do not, so there they must be given as an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from karat.errors import NotExactError
from karat.estimators.fitting import key_of
from karat.estimators.registry import UNCHANGED


def without_scalers(transformer: Any) -> Any:
    """A copy in which every scaler passes its columns on unchanged."""
    transformer = clone(transformer, safe=False) if transformer not in UNCHANGED else transformer
    if key_of(transformer) == "StandardScaler":
        return "passthrough"
    if key_of(transformer) == "Pipeline":
        transformer.steps = [(name, without_scalers(step)) for name, step in transformer.steps]
    if key_of(transformer) == "ColumnTransformer":
        transformer.transformers = [(name, without_scalers(step), columns) for name, step, columns in transformer.transformers]
        transformer.remainder = without_scalers(transformer.remainder)
    return transformer


def fit_transformers(transformer: Any, X: Any) -> Any:
    """The transformers without scalers, fitted on rows."""
    with config_context(transform_output="default", enable_metadata_routing=False):
        return without_scalers(transformer).fit(X)


def fit_and_transform(transformer: Any, X: Any) -> tuple[Any, Any]:
    """The same, and what they make of the rows: a ColumnTransformer computes it in any case when it is fitted."""
    with config_context(transform_output="default", enable_metadata_routing=False):
        bare = without_scalers(transformer)
        table = bare.fit_transform(X)
    return bare, table


def freeze_fitted(transformer: Any, fitted: Any) -> None:
    """Copy what was fitted on the full data into the parameters of ``transformer``, in place."""
    for mine, learnt in _pairs(transformer, fitted):
        key = key_of(mine)
        if key == "OneHotEncoder":
            mine.set_params(categories=[np.asarray(c) for c in learnt.categories_])
        elif key == "SplineTransformer" and isinstance(mine.knots, str):
            degree = mine.degree
            mine.set_params(knots=np.column_stack([b.t[degree : len(b.t) - degree] for b in learnt.bsplines_]))
        elif key == "ColumnTransformer":
            mine.set_params(sparse_threshold=1.0 if learnt.sparse_output_ else 0.0)  # few rows may have another density


def _pairs(transformer: Any, fitted: Any) -> Iterator[tuple[Any, Any]]:
    """Every transformer with its fitted twin, depth first."""
    if transformer in UNCHANGED:
        return
    if isinstance(transformer, Pipeline):
        for (_, mine), (_, learnt) in zip(transformer.steps, fitted.steps, strict=True):
            yield from _pairs(mine, learnt)
        return
    if isinstance(transformer, ColumnTransformer):
        named = {name: learnt for name, learnt, _ in fitted.transformers_}
        for name, mine, _ in transformer.transformers:
            if name in named:  # branches without columns are left out
                yield from _pairs(mine, named[name])
        yield from _pairs(transformer.remainder, named.get("remainder", "drop"))
    yield transformer, fitted


def categories(transformer: Any, fitted: Any) -> list[tuple[Any, ...]]:
    """The categories of every encoder, for comparison."""
    found = [learnt.categories_ for mine, learnt in _pairs(transformer, fitted) if key_of(mine) == "OneHotEncoder"]
    return [tuple(values.tolist()) for columns in found for values in columns]


def check_categories(transformer: Any, whole: Any, parts: Iterator[Any]) -> None:
    """Refuse if a training part lacks a category of the whole: scikit-learn would fit other columns there."""
    known = categories(transformer, whole)
    if not known:
        return
    encoders = [mine for mine, _ in _pairs(transformer, whole) if key_of(mine) == "OneHotEncoder"]
    if not any(isinstance(encoder.categories, str) for encoder in encoders):
        return
    for number, rows in enumerate(parts):
        seen = categories(transformer, fit_transformers(transformer, rows))
        for column, (full, part) in enumerate(zip(known, seen, strict=True)):
            missing = [value for value in full if value not in part and not _is_nan(value)]
            if missing:
                raise NotExactError(
                    f"Category {missing[0]!r} of encoded column {column} is not in the training part of fold {number}, so "
                    "scikit-learn would fit other columns there. Give OneHotEncoder(categories=...) all of them, or stratify."
                )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and bool(np.isnan(value))


class FeatureMap:
    """The columns that fitted transformers make of a block of rows, side by side (a class, so that it pickles).

    Parameters
    ----------
    transformers : list of fitted transformers
    raw, tables : optional
        Rows, and what each of the transformers makes of them, to be used once.
    """

    def __init__(self, transformers: list[Any], raw: Any = None, tables: Sequence[Any] = ()) -> None:
        self.transformers, self.raw, self.tables = transformers, raw, list(tables)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"raw": None, "tables": []}

    def __call__(self, rows: Any) -> Any:
        with config_context(transform_output="default", enable_metadata_routing=False):
            return _side_by_side([transformer.transform(rows) for transformer in self.transformers])

    def remembered(self, raw: Any) -> Any:
        """What was made of all rows when the transformers were fitted; it is then forgotten.  None if it was another table."""
        known, self.raw, self.tables, tables = self.raw, None, [], self.tables
        return _side_by_side(tables) if known is raw and tables else None


def _side_by_side(blocks: list[Any]) -> Any:
    if any(sparse.issparse(block) for block in blocks):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr"))
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)


def highest_degrees(transformers: list[Any]) -> list[Any]:
    """The transformers without those that differ from another only in a lower degree of their polynomials."""
    best: dict[str, tuple[int, Any]] = {}
    for transformer in transformers:
        bare, degrees = clone(transformer), 0
        for step in _polynomials(bare):
            degrees, step.degree = degrees + int(step.degree), 1
        key = str(joblib.hash(bare))
        if key not in best or best[key][0] < degrees:
            best[key] = (degrees, transformer)
    return [transformer for _, transformer in best.values()]


def _polynomials(transformer: Any) -> list[Any]:
    """The one PolynomialFeatures of a transformer; with two, a higher sum of degrees need not cover a lower."""
    found = [step for step in _steps(transformer) if key_of(step) == "PolynomialFeatures"]
    return found if len(found) == 1 and isinstance(found[0].degree, int | np.integer) else []


def _steps(transformer: Any) -> Iterator[Any]:
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            yield from _steps(step)
    elif isinstance(transformer, ColumnTransformer):
        for step in [t for _, t, _ in transformer.transformers] + [transformer.remainder]:
            yield from _steps(step)
    elif transformer not in UNCHANGED:
        yield transformer
