"""Polynomial features of degree 2: equal monomials are counted once.

``PolynomialFeatures(2)`` makes D = d (d + 3) / 2 columns of d.  Least squares of these has about D^2 / 2 features, the
products of two of them, and most of them are equal: x1 x2 times x3 x4 is x1 x3 times x2 x4.  The different ones are monomials
of degree up to 4 in the columns and the target.  ``Moments(4)`` of the raw columns lists each of them once.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from karat.estimators.fitting import key_of
from karat.estimators.training_rows import TrainingRows
from karat.problems import Moments

MOST = 3000  # features up to which degree 4 is worth its time


def monomial_problem(covers: list[Any], rows: TrainingRows) -> Moments | None:
    """The moments that keep squared losses of degree-2 features; None if other features are made, or if it has no fewer.

    Parameters
    ----------
    covers : list of transformers
        What makes the columns; "passthrough" and FunctionTransformer() stand for the columns themselves.
    rows : TrainingRows
    """
    X = rows.table
    squares = [one for one in covers if not changes_nothing(one)]
    if not squares or not all(key_of(one) == "PolynomialFeatures" and one.degree == 2 for one in squares):
        return None
    if rows.fronts or rows.classifies or not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu":
        return None
    columns, targets = X.shape[1], rows.targets
    made = max(columns * (columns + (1 if one.interaction_only else 3)) // 2 for one in squares)
    width = comb(columns + targets + 4, 4)
    return Moments(4) if width < min(comb(made + targets + 2, 2), MOST) else None


def changes_nothing(cover: Any) -> bool:
    """Whether a cover is the columns themselves."""
    return isinstance(cover, str) or (key_of(cover) == "FunctionTransformer" and cover.func is None)
