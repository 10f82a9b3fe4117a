"""The kernel of rows that share their inputs: indicators of N points, and the target times the
inputs.

With points p_1, .., p_N (and a constant beside the inputs if there is an intercept) a row (x, y)
has the features

    [x = p_1], .., [x = p_N],   y x_1, .., y x_d (, y).

They decide every loss ``A(x . w) - y x . w`` of a generalised linear model with its canonical link,
at every w: the first part depends on how often each point occurs, the second is linear in y x.
Their rank is N plus the rank of the points at which y takes several values.

Points are compared bit by bit: rows are hashed to 64 bits, looked up, and compared with the point
that was found.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from karat.engine import linalg
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Indices
from karat.errors import InputError

MULTIPLIER = 0x9E3779B97F4A7C15  # odd: a bijection of 64-bit numbers
LABELS = (0.0, 1.0)


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
        linalg.check_width(self.width)
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
