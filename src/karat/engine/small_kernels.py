"""Three small kernels: of the 1-mean loss, of rows that share their inputs, and of a user's own
features.

**The 1-mean loss**: features 1, x, |x|^2.  ``sum_i u_i |x_i - q|^2 = U |q - m|^2 + V`` with U the
total weight, m the mean, V the scatter. With errors (dU, dx, dV) of the three kinds of moments
about m, the worst relative error over every q is the norm of a small symmetric matrix:

    | [[dU/U I, -dx/sqrt(U V)], [-dx'/sqrt(U V), dV/V]] |_2 .

V is a difference of sums, so the columns are shifted close to their mean first: if they are not,
the pass is repeated.

**Rows that share their inputs**: indicators of N points, and the target times the inputs.  With
points p_1, .., p_N (and a constant beside the inputs if there is an intercept) a row (x, y) has the
features

    [x = p_1], .., [x = p_N],   y x_1, .., y x_d (, y).

They decide every loss ``A(x . w) - y x . w`` of a generalised linear model with its canonical link,
at every w: the first part depends on how often each point occurs, the second is linear in y x.
Their rank is N plus the rank of the points at which y takes several values.  Points are compared
bit by bit: rows are hashed to 64 bits, looked up, and compared with the point that was found.

**A user's own features**, checked at every call.  A row's features must not depend on the other
rows of its block, because kept rows come in blocks of their own.  So the function is called on a
block and on two parts of it in another order.  A product by BLAS may differ in its last bits with
the shape of the block.  A difference of up to SAME of the largest feature is ignored, one beyond
APART is an error, and one in between must be explained, up to FACTOR, by the smallest change of the
inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from karat.engine import linalg
from karat.engine.kernel import FittedMoments, Kernel, check_width
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Statistic
from karat.engine.tolerances import EPS, TINY
from karat.errors import InputError

FAR = 64.0  # mean square over variance beyond which another shift is chosen and the pass repeated
MULTIPLIER = 0x9E3779B97F4A7C15  # odd: a bijection of 64-bit numbers
LABELS = (0.0, 1.0)
LARGEST = 1e300  # sum of absolute values of a feature over a block
LOOKED_AT = 512  # rows of a pilot
SAME, APART = 1e-12, 1e-5  # differences beside the largest value of a feature
FACTOR = 1e3
DEPENDS = "The features that the kernel function gives a row depend on the other rows of its block."
REMEDY = (
    "It must treat each row separately and be deterministic: compute means, scales, ranks or"
    " running sums of all rows first, and use them as constants or as further columns."
)


class MeanKernel(Kernel):
    """Features ``1, (x - c) / s, |x - c|^2 / s^2`` with c and s from a pilot; rows may carry
    further columns, such as y.
    """

    power = 2
    rounding = 2 * FAR * EPS  # relative error of V, a difference of sums

    def __init__(self, columns: int, carried: int = 0) -> None:
        check_width(columns + 2)
        self.columns, self.carried = columns, carried
        self.width = columns + 2
        self.shift = np.zeros(columns + carried)
        self.size = 1.0
        self.product_shape = (columns + 1, 2)

    def _at(self, shift: Array, size: float) -> Self:
        other = self.__class__(self.columns, self.carried)
        other.shift[: self.columns], other.size = shift[: self.columns], size
        return other

    def prepare(self, pilot: Array, weights: Array | None) -> Self:
        pilot = pilot[:, 1 : self.columns + 1]
        shift = np.average(pilot, axis=0, weights=weights)
        spread = float(linalg.column_norms((pilot - shift).reshape(-1, 1))[0] / np.sqrt(len(pilot)))
        return self._at(shift, spread if spread > 0 else 1.0)

    def rescaled(self, sizes: Array) -> Self:
        return self._at(self.shift, float(sizes.max()) or 1.0)

    def features(self, block: Array) -> Array:
        scaled = block[:, : self.columns + 1] / self.size
        scaled[:, 0] = 1.0
        return np.column_stack([scaled, np.einsum("ij,ij->i", scaled[:, 1:], scaled[:, 1:])])

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        features = np.ascontiguousarray(self.features(block).T)
        return ((features if weights is None else features * weights).sum(axis=1),)

    def fitted_moments(
        self, statistic: Statistic, total: float, last: bool = False
    ) -> FittedMoments:
        full = statistic[0]
        mean = full[1:-1] / total
        shift = self.shift[: self.columns]
        middle = shift + mean * self.size
        far = (
            not last and full[-1] > FAR * self._scatter(full) and not np.array_equal(middle, shift)
        )
        kernel = self._at(middle, self.size) if far else self
        vanished = np.full(len(self.shift), full[-1] <= TINY) & (
            np.arange(len(self.shift)) < self.columns
        )
        return FittedMoments(
            kernel, full, statistic, total, needs_pass=bool(far), vanished=vanished
        )

    @staticmethod
    def _scatter(full: Array) -> float:
        mean = full[1:-1] / full[0]
        return float(full[-1] - full[0] * mean @ mean)

    def loss_error(self, full: Array, core: Array) -> float:
        """The worst relative error over every q, from the moments of all rows and of the kept
        ones.
        """
        total, mean, scatter = full[0], full[1:-1] / full[0], self._scatter(full)
        d_total = core[0] - total
        d_first = (core[1:-1] - full[1:-1]) - d_total * mean
        d_scatter = (
            (core[-1] - full[-1]) - 2 * mean @ (core[1:-1] - full[1:-1]) + d_total * mean @ mean
        )
        # all rows are equal: only the total weight matters
        if scatter <= EPS * abs(full[-1]) or scatter <= 0:
            return float(abs(d_total) / total)
        # the product might overflow
        side = float(np.linalg.norm(d_first / np.sqrt(total))) / np.sqrt(scatter)
        return linalg.spectral_norm(
            np.array([[d_total / total, -side], [-side, d_scatter / scatter]])
        )


def row_keys(X: Array) -> npt.NDArray[np.uint64]:
    """64 bits per row, equal for rows of equal numbers (0 and -0 are equal)."""
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)
    key = np.zeros(len(X), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            key = (key ^ column) * np.uint64(MULTIPLIER)
            key ^= key >> np.uint64(32)
    return key


class GroupedKernel(Kernel):
    """Indicators of ``points`` (N x d, distinct rows) and y times the inputs; every linear
    combination is a query.
    """

    adapts = False

    def __init__(self, points: Array, intercept: bool) -> None:
        self.intercept = intercept
        keys = row_keys(points)
        order = np.argsort(keys)
        self.points, self._keys = points[order], keys[order]
        self._order = order
        self.columns = points.shape[1]
        self.width = len(points) + self.columns + int(intercept)
        check_width(self.width)
        self.shift = np.zeros(self.columns + 1)
        self.product_shape = (self.width, 1)

    def features(self, block: Array) -> Array:
        X, y = block[:, 1:-1], block[:, -1]
        if not np.isin(y, LABELS).all():
            if not np.isfinite(y).all():
                # the pass finds the place and says it
                return np.full((len(block), self.width), np.nan)
            raise InputError(
                "The target of GroupedLogistic must be 0 or 1, but it holds"
                f" {y[~np.isin(y, LABELS)][0]:g}; pass (y == one_of_the_classes).astype(float).",
                argument="y",
            )
        features = np.zeros((len(block), self.width))
        features[np.arange(len(block)), self._points_of(X)] = 1.0
        inputs = slice(len(self.points), len(self.points) + self.columns)
        np.multiply(X, y[:, None], out=features[:, inputs])
        if self.intercept:
            features[:, -1] = y
        return features

    def _points_of(self, X: Array) -> Indices:
        """The number of the point that each row equals."""
        places = np.minimum(np.searchsorted(self._keys, row_keys(X)), len(self._keys) - 1)
        missing = np.any(self.points[places] != X, axis=1)
        if missing.any():
            row = X[np.argmax(missing)]
            if not np.isfinite(row).all():
                return np.zeros(len(X), dtype=np.int64)  # NaN in the products shows where
            raise InputError(
                f"The row {row.tolist()} is not one of the {len(self.points):,} points of"
                " GroupedLogistic; make the problem from the inputs of all rows:"
                " GroupedLogistic.of(X).",
                argument="X",
            )
        return np.asarray(self._order[places])

    def feature_name(self, feature: int, columns: list[str]) -> str:
        if feature < len(self.points):
            point = self.points[np.argmax(self._order == feature)]
            return f"the number of rows at {point.tolist()}"
        named = [*columns[: self.columns], ""][feature - len(self.points)]
        return f"the target times {named}" if named else "the target"


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
        check_width(other.width)
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
