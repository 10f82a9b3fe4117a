"""Logistic regression on rows that share their inputs.

The logistic loss of a row (x, y), y = 0 or 1, is ``log(1 + exp(x . w + b)) - y (x . w + b)``.
Losses of rows with different x are linearly independent (without an intercept: different up to
sign; docs/theorems.md, A), so a coreset has a row at each x that occurs.  But where n rows have
only N different x, the first term depends on how often each occurs and the second is linear in y
(x, 1): N + rank X rows are enough, X with a column of ones if there is an intercept.  Merging only
equal rows would leave up to 2 N.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import numpy as np

from karat.engine.kernel import Kernel
from karat.engine.linalg import Array
from karat.engine.small_kernels import GroupedKernel
from karat.errors import InputError, several
from karat.problems.base import LIKELIHOODS, NEVER_KEPT, Problem, query_matrix


@final
@dataclass(frozen=True)
class GroupedLogistic(Problem):
    """The logistic loss of every linear model, for rows that share their inputs:

    N points, many rows at each.

    The loss is ``sum_i u_i log(1 + exp(-s_i (x_i . w + b)))``, s = 1 where y = 1 and -1 where y =
    0.

    Parameters
    ----------
    points : array (N, d)
        The different inputs that occur; repeated ones count once.  ``GroupedLogistic.of(X)`` reads
        them off a table.
    fit_intercept : bool, default True
        Whether the models have an intercept.
    total_weight : bool, default True
        Always kept, because the rows at each point are counted.

    Notes
    -----
    A row whose inputs are not among the points is an error.  The target is 0 or 1.

    Examples
    --------
    >>> import numpy as np, karat
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 4, (20_000, 2)).astype(float)
    >>> y = (rng.random(20_000) < 0.5).astype(float)
    >>> core = karat.coreset(X, y, karat.problems.GroupedLogistic.of(X))
    >>> len(core)  # 16 points, and 3 for the rank of (x, 1)
    19
    """

    points: Any = field(repr=False)
    fit_intercept: bool = True
    total_weight: bool = True
    needs_target: ClassVar[bool] = True
    keeps: ClassVar[str] = (
        "the logistic loss of every linear model, at every penalty, for rows at the given points"
    )
    excludes: ClassVar[tuple[str, ...]] = ("rows at other points", LIKELIHOODS, *NEVER_KEPT)

    def __post_init__(self) -> None:
        try:
            points = np.asarray(self.points, dtype=float)
        except (TypeError, ValueError):
            points = np.zeros(0)
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise InputError(
                "GroupedLogistic needs its points as a table of finite numbers, one row each:"
                " GroupedLogistic.of(X)."
            )
        if not self.total_weight:
            raise InputError(
                "GroupedLogistic always keeps the total weight, because it counts the rows at every"
                " point; remove total_weight=False."
            )
        distinct = np.unique(points + 0.0, axis=0)
        object.__setattr__(self, "points", tuple(map(tuple, distinct.tolist())))

    @classmethod
    def of(cls, X: Any, *, fit_intercept: bool = True) -> Self:
        """The problem whose points are the different rows of a table of numbers."""
        return cls(X, fit_intercept)

    def kernel(self, columns: int, targets: int) -> Kernel:
        if columns != len(self.points[0]):
            raise InputError(
                f"X has {several(columns, 'column')}, but the points of GroupedLogistic have"
                f" {len(self.points[0])}."
            )
        if targets != 1:
            raise InputError(f"GroupedLogistic takes one target, but y has {targets}.")
        return GroupedKernel(np.array(self.points), self.fit_intercept)

    def width(self, columns: int, targets: int = 1) -> int:
        return len(self.points) + len(self.points[0]) + int(self.fit_intercept)

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        """The loss at coefficients (d,), (d + 1,) with the intercept last, or a pair (coefficients,
        intercept).
        """
        assert y is not None
        coefficients, offset = query_matrix(query, X.shape[1], self.fit_intercept, 1)
        signed = (2.0 * y.reshape(-1) - 1.0) * (X @ coefficients + offset)[:, 0]
        return float(weights @ np.logaddexp(0.0, -signed))

    def describe(self) -> str:
        intercept = "" if self.fit_intercept else ", fit_intercept=False"
        return f"GroupedLogistic({len(self.points):,} points{intercept})"
