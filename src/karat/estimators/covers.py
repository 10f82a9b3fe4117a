"""Covers: columns that span whatever a pipeline makes of a row, on whichever rows it was fitted.

Inside cross-validation every training part fits its own transformers, and so makes its own columns.  Squared losses of
columns z are kept by a coreset of columns b if each z is a linear combination of 1 and b.  If one such b does for all
parts, the *cover*, one coreset per fold serves all of them:

    affine steps   scalers, PCA, selections        b: their input
    encoders       one-hot                         b: the indicators of all categories of the full data
    imputers                                       b: the known values (0 if missing), and the indicators of missing ones
    polynomials    of columns, or of scaled ones   b: all monomials up to the degree
    fixed steps    nothing is fitted               b: what they make

A chain of steps has a cover as long as no step but an affine one follows a step that was fitted.  Other pipelines have
none (None): then every training part gets a coreset of the columns that its own transformers make.
"""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

from karat.estimators.category_codes import coded, with_codes
from karat.estimators.fitting import key_of
from karat.estimators.registry import AFFINE, BY_COLUMN, COMPOSITES, ENCODERS, FIXED, IMPUTERS, UNCHANGED
from karat.estimators.transformers import branches, fit_and_transform, single_steps


def cover(transformer: Any) -> Any:
    """A transformer, to be fitted on the full data, whose columns span those of ``transformer``; None if there is none."""
    key = key_of(transformer)
    if transformer in UNCHANGED:
        return transformer
    if key == "Pipeline":
        return _cover_of_chain([step for step in branches(transformer) if step not in ("passthrough", None)])
    if key == "ColumnTransformer":
        covers = [(name, cover(step), columns) for name, step, columns in transformer.transformers]
        rest = cover(transformer.remainder)
        if any(step is None for _, step, _ in covers) or rest is None:
            return None
        return ColumnTransformer(covers, remainder=rest)
    if key == "FeatureUnion":
        pairs = [(name, cover(step)) for name, step in transformer.transformer_list]
        return None if any(step is None for _, step in pairs) else FeatureUnion(pairs)
    return _cover_of_chain([transformer])


def _cover_of_chain(steps: list[Any]) -> Any:
    """The cover of steps that follow one another."""
    exact: list[Any] = []  # the steps so far, as long as nothing is fitted
    spanned: Any = None  # the cover, as soon as something is
    by_column = True
    for position, step in enumerate(steps):
        key = key_of(step)
        if _is_affine(step):
            spanned = _chained(exact) if spanned is None else spanned
            by_column = by_column and key in BY_COLUMN
        elif spanned is None and key in FIXED:
            exact.append(clone(step))
        elif spanned is None and not exact:
            spanned, by_column = _cover_of_fitted(step), False
            if spanned is None:
                return None
        elif key == "PolynomialFeatures" and isinstance(spanned, str):  # so far only affine steps
            spanned = _all_monomials(step, step.interaction_only and by_column)
        elif key in ENCODERS and position == 1 and key_of(steps[0]) in IMPUTERS:
            spanned = _cover_of_fitted(step)  # a missing value is a category
        else:
            return None
    return _chained(exact) if spanned is None else spanned


def _chained(exact: list[Any]) -> Any:
    """Steps that fit nothing as one transformer."""
    if not exact:
        return "passthrough"
    if key_of(exact[-1]) == "PolynomialFeatures":
        exact = [*exact[:-1], _all_monomials(exact[-1], exact[-1].interaction_only)]
    return exact[0] if len(exact) == 1 else Pipeline([(str(number), step) for number, step in enumerate(exact)])


def _cover_of_fitted(step: Any) -> Any:
    """The cover of one step that learns something which is not affine."""
    key = key_of(step)
    if key in COMPOSITES:
        return cover(step)
    if key in ENCODERS:
        return OneHotEncoder()
    if key in IMPUTERS:
        return SimpleImputer(
            missing_values=step.missing_values, strategy="constant", fill_value=0, add_indicator=True, keep_empty_features=True
        )
    return None


def _is_affine(step: Any) -> bool:
    """Whether the step is an affine function of its columns, whatever it was fitted on."""
    if key_of(step) in COMPOSITES:
        return all(branch in UNCHANGED or _is_affine(branch) for branch in branches(step))
    if key_of(step) == "FeatureAgglomeration":
        return step.pooling_func is np.mean
    return key_of(step) in AFFINE and not getattr(step, "clip", False)


def _all_monomials(polynomials: Any, interaction_only: bool) -> PolynomialFeatures:
    """All monomials up to the highest degree."""
    highest = int(np.max(polynomials.degree))
    return PolynomialFeatures(highest, interaction_only=interaction_only, include_bias=False)


def covered(spanned: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """A cover, fitted, and its columns of all rows if they are known (else None)."""
    codes = with_codes(spanned, int(X.shape[1]))
    return fit_and_transform(spanned, X, y) if codes is None else coded(codes, X)


def widest(covers: list[Any]) -> list[Any]:
    """Covers without repetition, and without those that another covers by a higher degree of its last polynomials."""
    best: dict[str, tuple[int, Any]] = {}
    for one in covers:
        bare = clone(one, safe=False)
        polynomials = [step for step in single_steps(bare) if key_of(step) == "PolynomialFeatures"]
        degree = 0
        if len(polynomials) == 1 and _is_last(bare, polynomials[0]):
            degree, polynomials[0].degree = int(polynomials[0].degree), 1
        key = str(joblib.hash(bare))
        if key not in best or best[key][0] < degree:
            best[key] = (degree, one)
    return [one for _, one in best.values()]


def _is_last(transformer: Any, step: Any) -> bool:
    """Whether nothing follows a step on its way out of a transformer."""
    if transformer is step:
        return True
    parts = branches(transformer)
    return any(_is_last(part, step) for part in (parts[-1:] if key_of(transformer) == "Pipeline" else parts))
