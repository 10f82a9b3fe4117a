"""Problems made of a user's functions: a kernelization (:class:`Kernel`), or a transformation of
the columns before another problem (:class:`Transformed`).

A transformation works on each row separately, ``z_i = t(x_i)``, so weights that keep the moments
of the z_i keep them however the rows are stored.  The engine reads the z_i, and the coreset keeps
the raw x_i, which may contain strings and dates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from karat.engine import kernel as engine_kernel
from karat.engine.linalg import Array
from karat.engine.small_kernels import FunctionKernel
from karat.errors import InputError
from karat.problems.base import Problem


@final
@dataclass(frozen=True)
class Kernel(Problem):
    """Any loss that is linear in given features of a row: ``f(row, q) = <function(row), lift(q)>``.

    Parameters
    ----------
    function : callable
        ``function(X)``, or ``function(X, y)`` if the coreset is built with y, for a block of rows:
        an array with one row each and a fixed number of columns, the features.
    lift : callable, optional
        ``lift(query)``: as many numbers, the same for every row.  Needed only by ``core.loss``.
    total_weight : bool, default True
        Also keep the total weight.

    Examples
    --------
    >>> import numpy as np, karat
    >>> waves = karat.problems.Kernel(lambda X: np.column_stack([np.sin(X), np.cos(X)]))
    >>> core = karat.coreset(np.linspace(0, 9, 5000)[:, None], problem=waves)
    >>> len(core), bool(core.certificate.ok)
    (3, True)
    """

    function: Callable[..., Any]
    lift: Callable[[Any], Any] | None = None
    total_weight: bool = True
    storable: ClassVar[bool] = False
    keeps: ClassVar[str] = "the sum of every linear combination of the given features"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError("Kernel needs a function that maps a block of rows to features.")

    def kernel(self, columns: int, targets: int) -> FunctionKernel:
        return FunctionKernel(self.function, columns, targets, self.total_weight)

    def width(self, columns: int, targets: int = 1) -> int:
        raise InputError(
            "Build a coreset and read certificate.bound: the width of a Kernel is known only after"
            " it has seen data."
        )

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        if self.lift is None:
            raise InputError(
                "core.loss needs Kernel(function, lift): lift(query) gives the coefficients of the"
                " features."
            )
        features = np.asarray(self.function(X) if y is None else self.function(X, y), dtype=float)
        return float(weights @ features @ np.asarray(self.lift(query), dtype=float))

    def describe(self) -> str:
        return f"Kernel({getattr(self.function, '__name__', 'function')})"


@final
@dataclass(frozen=True)
class Transformed(Problem):
    """Another problem, for a row-wise transformation of the columns of X.

    Parameters
    ----------
    problem : Problem
        What must be kept of the transformed columns.
    transform : callable
        Maps a block of raw rows to a numeric array (or CSR matrix), one row each; a row's image
        must not depend on other rows.
    """

    problem: Problem
    transform: Callable[[Any], Any] = field()
    storable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        inherited = ("excludes", "mergeable", "needs_target", "total_weight")
        vars(self).update({name: getattr(self.problem, name) for name in inherited})
        vars(self)["keeps"] = f"{self.problem.keeps}, of the transformed columns"

    @property
    def needs_real_rows(self) -> str:
        return (
            "A transformation cannot be applied to synthetic rows: transform all rows first, and"
            " pass the transformed columns; or use rows='real'."
        )

    @property
    def keeps_total(self) -> bool:
        return self.problem.keeps_total

    @property
    def shifts(self) -> bool:
        return self.problem.shifts

    def shifted(self, query: Any, X: Sequence[int], y: Sequence[int]) -> Any:
        return self.problem.shifted(query, X, y)

    def kernel(self, columns: int, targets: int) -> engine_kernel.Kernel:
        return self.problem.kernel(columns, targets)

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        """The loss of the inner problem; X holds transformed columns."""
        return self.problem.loss(X, y, weights, query)

    def describe(self) -> str:
        return f"{self.problem.describe()} of transformed columns"
