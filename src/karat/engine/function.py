"""The kernel of a user's own features, checked at every call.

A row's features must not depend on the other rows of its block, because kept rows come in blocks of
their own.  So the function is called on a block and on two parts of it in another order.  A product
by BLAS may differ in its last bits with the shape of the block.  A difference of up to SAME of the
largest feature is ignored, one beyond APART is an error, and one in between must be explained, up
to FACTOR, by the smallest change of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array
from karat.engine.rows import Statistic
from karat.engine.tolerances import EPS
from karat.errors import InputError

LARGEST = 1e300  # sum of absolute values of a feature over a block
LOOKED_AT = 512  # rows of a pilot
SAME, APART = 1e-12, 1e-5  # differences beside the largest value of a feature
FACTOR = 1e3
DEPENDS = "The features that the kernel function gives a row depend on the other rows of its block."
REMEDY = (
    "It must treat each row separately and be deterministic: compute means, scales, ranks or"
    " running sums of all rows first, and use them as constants or as further columns."
)


class FunctionKernel(Kernel):
    """Features ``function(X)`` or ``function(X, y)``, and the constant if ``total``."""

    def __init__(
        self, function: Callable[..., Any], columns: int, targets: int, total: bool
    ) -> None:
        self.function, self.columns, self.targets, self.total = function, columns, targets, total
        self.shift = np.zeros(columns + targets)
        self.width = 0
        self.product_shape = (columns + targets + 1, 1)

    def prepare(self, pilot: Array, weights: Array | None) -> Self:
        other = self.__class__(self.function, self.columns, self.targets, self.total)
        features = other.features(pilot)
        other.width = features.shape[1]
        linalg.check_width(other.width)
        other._require_rows_apart(pilot, features)
        other.product_shape = (other.width, 1)
        return other

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        with np.errstate(over="ignore", invalid="ignore"):
            total, absolute = super().statistic(block, weights)
        if not (absolute < LARGEST).all():
            feature = int(np.flatnonzero(~(absolute < LARGEST))[0])
            raise InputError(
                f"Feature {feature} of the kernel function adds up to {absolute[feature]:.1e} over"
                f" {len(block)} rows, which is close to overflow. Divide the feature or the"
                " weights by a constant.",
                argument="function",
            )
        return total, absolute

    def _require_rows_apart(self, block: Array, features: Array) -> None:
        """Raise if the features of a row depend on the other rows of its block."""
        chosen = np.random.default_rng(0).permutation(len(block))[:LOOKED_AT]
        if len(chosen) < 2:
            return
        first, second = np.split(chosen, [(len(chosen) + 2) // 3])
        try:
            again = np.vstack([self.features(block[part]) for part in (first, second)])
        except InputError as error:
            if self.width != features.shape[1]:
                raise
            raise InputError(f"{error} {DEPENDS} {REMEDY}", argument="function") from None
        largest = np.abs(features).max(axis=0)
        with np.errstate(over="ignore"):
            difference = np.abs(again - features[chosen])
        far = difference > APART * largest
        if not far.any() and (difference > SAME * largest).any():
            far = difference > SAME * largest + FACTOR * self._sensitivity(block[chosen])
        if far.any():
            row, column = np.argwhere(far)[0]
            values = [features[chosen[row], column], again[row, column]]
            raise InputError(
                f"{DEPENDS} Feature {column} of one row is {values[0]:.6g} in a block of"
                f" {len(block)} rows and {values[1]:.6g} in one of"
                f" {len(first) if row < len(first) else len(second)}. {REMEDY}",
                argument="function",
            )

    def _sensitivity(self, block: Array) -> Array:
        """How much the smallest changes of the inputs change the features; infinite where the
        function fails.
        """
        moved = block * (1.0 + EPS * np.random.default_rng(1).choice([-1.0, 1.0], block.shape))
        try:
            with np.errstate(all="ignore"):
                change = np.abs(self.features(moved) - self.features(block))
        except Exception:  # a function of integers, or at the end of its range
            return np.full((len(block), self.width), np.inf)
        return np.asarray(change + np.quantile(change, 0.75, axis=0))

    def features(self, block: Array) -> Array:
        inputs = block[:, 1 : 1 + self.columns].copy()
        target = block[:, 1 + self.columns :].copy()
        values = (
            self.function(inputs, target[:, 0] if self.targets == 1 else target)
            if self.targets
            else self.function(inputs)
        )
        features = np.asarray(values)
        if features.ndim != 2 or len(features) != len(block) or not features.shape[1]:
            raise InputError(
                f"The kernel function returned an array of shape {features.shape} for a block of"
                f" {len(block)} rows; it must return one row of features per row:"
                f" ({len(block)}, m)."
            )
        expected = self.width - self.total if self.width else features.shape[1]
        if features.shape[1] != expected:
            raise InputError(
                f"The kernel function returned {features.shape[1]} features for one block and"
                f" {expected} for another; their number must not depend on the block."
            )
        if features.dtype.kind not in "fiub":
            raise InputError(
                f"The kernel function returned values of type {features.dtype}; they must be real"
                " numbers."
            )
        features = features.astype(float, copy=False)
        if not np.isfinite(features).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            raise InputError(
                f"The kernel function returned {features[row, column]} in feature {column} for the"
                f" row {inputs[row].tolist()}; features must be finite."
            )
        return np.column_stack([features, np.ones(len(block))]) if self.total else features
