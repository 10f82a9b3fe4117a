"""Polynomial features of degree 2: equal monomials are counted once.

``PolynomialFeatures(2)`` makes D = d (d + 3) / 2 columns of d.  Least squares of these has about D^2 / 2 features, the
products of two of them, and most of them are equal: x1 x2 times x3 x4 is x1 x3 times x2 x4.  The different ones are monomials
of degree up to 4 in the columns and the target.  ``Moments(4)`` of the raw columns lists each of them once.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from scipy import sparse

from karat._data import containers
from karat.estimators.fitting import key_of
from karat.problems import Moments

MOST = 3000  # features up to which degree 4 is worth its time


def monomial_problem(pipelines: list[Any], X: Any, y: Any) -> Moments | None:
    """The moments that keep squared losses of degree-2 features; None if other features are made, or if it has no fewer."""
    if not all(_is_square(transformers) for transformers in pipelines):
        return None
    if not isinstance(X, np.ndarray) or sparse.issparse(X) or X.dtype.kind not in "fiu":
        return None
    columns, targets = X.shape[1], int(y.shape[1]) if containers.dimensions(y) == 2 else 1
    made = columns * (columns + 3) // 2
    width = comb(columns + targets + 4, 4)
    return Moments(4) if width < min(comb(made + targets + 2, 2), MOST) else None


def _is_square(transformers: Any) -> bool:
    """Whether a pipeline makes polynomial features of degree 2, once, beside scaling."""
    steps = [step for _, step in transformers.steps]
    polynomials = [step for step in steps if key_of(step) == "PolynomialFeatures"]
    if len(polynomials) != 1 or any(key_of(step) not in ("PolynomialFeatures", "StandardScaler") for step in steps):
        return False
    degree = polynomials[0].degree
    return (degree if isinstance(degree, int | np.integer) else degree[1]) == 2
