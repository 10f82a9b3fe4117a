"""Pipelines: which columns the regressor sees, and how a coreset of raw rows can be exact for them.

A pipeline's transformers come in three kinds.

    affine      StandardScaler: its means and variances are kept moments, so fitted with weights it comes out the same, in
                every fold.  An affine change of columns does not change the span of {1, columns}, so the coreset may be
                built without it.
    row-wise    PolynomialFeatures: nothing is fitted.  Polynomials of scaled columns span what those of the columns span.
    settled     OneHotEncoder, SplineTransformer: fitted on the full data first, and what they learnt (categories, knots) is
                written into their parameters; from then on they are row-wise.

So the coreset is built on the columns that come out of the pipeline *without* its scalers, and keeps the raw rows.  Inside
cross-validation scikit-learn would fit every transformer on the training part.  Categories come out the same if every
training part has them all, which is checked; knots do not, so there they must be given as an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from karat.errors import NotExactError
from karat.estimators.registry import key_of, refuse, unknown

STEADY = ("passthrough", "drop", None)


def split_pipeline(estimator: Any) -> tuple[Pipeline | None, Any]:
    """The transformers of a pipeline (or None) and the estimator behind them."""
    if key_of(estimator) == "Pipeline":
        front = [step for step in estimator.steps[:-1] if step[1] not in STEADY]
        return (Pipeline(front) if front else None), estimator.steps[-1][1]
    return None, estimator


def check_transformers(front: Any, in_folds: bool, scaled: bool = False) -> bool:
    """Refuse transformers that are not of the three kinds; returns whether columns have been scaled on the way.

    Parameters
    ----------
    front : transformer
    in_folds : bool
        Whether it would be fitted on parts of the data.
    scaled : bool
        Whether its input has been scaled.
    """
    key = key_of(front)
    if front in STEADY:
        return scaled
    if key == "Pipeline":
        for _, step in front.steps:
            scaled = check_transformers(step, in_folds, scaled)
        return scaled
    if key == "ColumnTransformer":
        branches = [t for _, t, _ in front.transformers] + [front.remainder]
        return max([check_transformers(branch, in_folds, scaled) for branch in branches])
    if key == "StandardScaler":
        return True
    if key == "PolynomialFeatures":
        lowest = 0 if isinstance(front.degree, int | np.integer) else front.degree[0]
        if scaled and lowest > 1:
            raise refuse(
                front, f"without the degrees below {lowest}, polynomials of scaled columns are not polynomials of the columns"
            )
        return scaled
    if key not in ("OneHotEncoder", "SplineTransformer"):
        raise unknown(front)
    if scaled:
        raise refuse(front, "it follows a scaler, whose means differ from fold to fold; put the scaler after it")
    if key == "OneHotEncoder" and (front.min_frequency is not None or front.max_categories is not None):
        raise refuse(front, "min_frequency and max_categories count rows; merge rare categories before building")
    if key == "SplineTransformer" and in_folds and isinstance(front.knots, str):
        raise refuse(
            front,
            f"inside cross-validation knots={front.knots!r} differ from fold to fold; pass knots as an array, from all rows",
        )
    return scaled


def without_scalers(front: Any) -> Any:
    """A copy in which every scaler lets its columns pass."""
    front = clone(front, safe=False) if front not in STEADY else front
    if key_of(front) == "StandardScaler":
        return "passthrough"
    if key_of(front) == "Pipeline":
        front.steps = [(name, without_scalers(step)) for name, step in front.steps]
    if key_of(front) == "ColumnTransformer":
        front.transformers = [(name, without_scalers(step), columns) for name, step, columns in front.transformers]
        front.remainder = without_scalers(front.remainder)
    return front


def fit_front(front: Any, X: Any) -> Any:
    """The transformers without scalers, fitted on rows."""
    with config_context(transform_output="default", enable_metadata_routing=False):
        return without_scalers(front).fit(X)


def settle(front: Any, fitted: Any) -> None:
    """Write what was learnt from the full data into the parameters of ``front``, in place."""
    for mine, learnt in _pairs(front, fitted):
        key = key_of(mine)
        if key == "OneHotEncoder":
            mine.set_params(categories=[np.asarray(c) for c in learnt.categories_])
        elif key == "SplineTransformer" and isinstance(mine.knots, str):
            degree = mine.degree
            mine.set_params(knots=np.column_stack([b.t[degree : len(b.t) - degree] for b in learnt.bsplines_]))
        elif key == "ColumnTransformer":
            mine.set_params(sparse_threshold=1.0 if learnt.sparse_output_ else 0.0)  # the density of a few rows is another


def _pairs(front: Any, fitted: Any) -> Iterator[tuple[Any, Any]]:
    """Every transformer with its fitted twin, depth first."""
    if front in STEADY:
        return
    if isinstance(front, Pipeline):
        for (_, mine), (_, learnt) in zip(front.steps, fitted.steps, strict=True):
            yield from _pairs(mine, learnt)
        return
    if isinstance(front, ColumnTransformer):
        named = {name: learnt for name, learnt, _ in fitted.transformers_}
        for name, mine, _ in front.transformers:
            if name in named:  # branches without columns are left out
                yield from _pairs(mine, named[name])
        yield from _pairs(front.remainder, named.get("remainder", "drop"))
    yield front, fitted


def categories(front: Any, fitted: Any) -> list[tuple[Any, ...]]:
    """The categories of every encoder, for comparison."""
    found = [learnt.categories_ for mine, learnt in _pairs(front, fitted) if key_of(mine) == "OneHotEncoder"]
    return [tuple(values.tolist()) for columns in found for values in columns]


def check_categories(front: Any, whole: Any, parts: Iterator[Any]) -> None:
    """Refuse if a training part lacks a category of the whole: scikit-learn would fit other columns there."""
    known = categories(front, whole)
    if not known:
        return
    encoders = [mine for mine, _ in _pairs(front, whole) if key_of(mine) == "OneHotEncoder"]
    if not any(isinstance(encoder.categories, str) for encoder in encoders):
        return
    for number, rows in enumerate(parts):
        seen = categories(front, fit_front(front, rows))
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
    """The columns that fitted transformers make of a block of rows, side by side (a class, so that it pickles)."""

    def __init__(self, fronts: list[Any]) -> None:
        self.fronts = fronts

    def __call__(self, rows: Any) -> Any:
        with config_context(transform_output="default", enable_metadata_routing=False):
            blocks = [front.transform(rows) for front in self.fronts]
        blocks = [block.toarray() if hasattr(block, "toarray") else np.asarray(block) for block in blocks]
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)


def covering(fronts: list[Any]) -> list[Any]:
    """Those of several fronts that are needed: of polynomials that differ in degree only, the highest."""
    best: dict[str, tuple[int, Any]] = {}
    for front in fronts:
        bare, degrees = clone(front), 0
        for step in _polynomials(bare):
            degrees, step.degree = degrees + int(step.degree), 1
        key = str(joblib.hash(bare))
        if key not in best or best[key][0] < degrees:
            best[key] = (degrees, front)
    return [front for _, front in best.values()]


def _polynomials(front: Any) -> list[Any]:
    """The one PolynomialFeatures of a front; with two, a higher sum of degrees need not cover a lower."""
    found = [step for step in _steps(front) if key_of(step) == "PolynomialFeatures"]
    return found if len(found) == 1 and isinstance(found[0].degree, int | np.integer) else []


def _steps(front: Any) -> Iterator[Any]:
    if isinstance(front, Pipeline):
        for _, step in front.steps:
            yield from _steps(step)
    elif isinstance(front, ColumnTransformer):
        for step in [t for _, t, _ in front.transformers] + [front.remainder]:
            yield from _steps(step)
    elif front not in STEADY:
        yield front
