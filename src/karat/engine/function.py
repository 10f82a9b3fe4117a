"""The kernel of a user's own features, checked at every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array
from karat.errors import InputError


class FunctionKernel(Kernel):
    """Features ``function(X)`` or ``function(X, y)``, and the constant if ``total``."""

    def __init__(self, function: Callable[..., Any], columns: int, targets: int, total: bool) -> None:
        self.function, self.columns, self.targets, self.total = function, columns, targets, total
        self.shift = np.zeros(columns + targets)
        self.width = 0
        self.product_shape = (columns + targets + 1, 1)

    def prepare(self, pilot: Array, weights: Array | None) -> Self:
        other = self.__class__(self.function, self.columns, self.targets, self.total)
        other.width = other.features(pilot).shape[1]
        linalg.check_width(other.width)
        other.product_shape = (other.width, 1)
        return other

    def features(self, block: Array) -> Array:
        inputs = block[:, 1 : 1 + self.columns].copy()
        target = block[:, 1 + self.columns :].copy()
        values = self.function(inputs, target[:, 0] if self.targets == 1 else target) if self.targets else self.function(inputs)
        features = np.asarray(values)
        if features.ndim != 2 or len(features) != len(block) or not features.shape[1]:
            raise InputError(
                f"The kernel function returned an array of shape {features.shape} for a block of {len(block)} rows; it must "
                f"return one row of features per row: ({len(block)}, m)."
            )
        expected = self.width - self.total if self.width else features.shape[1]
        if features.shape[1] != expected:
            raise InputError(
                f"The kernel function returned {features.shape[1]} features for one block and {expected} for another; "
                "their number must not depend on the block."
            )
        if features.dtype.kind not in "fiub":
            raise InputError(f"The kernel function returned values of type {features.dtype}; they must be real numbers.")
        features = features.astype(float, copy=False)
        if not np.isfinite(features).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            raise InputError(
                f"The kernel function returned {features[row, column]} in feature {column} for the row {inputs[row].tolist()}; "
                "features must be finite."
            )
        return np.column_stack([features, np.ones(len(block))]) if self.total else features
