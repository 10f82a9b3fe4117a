"""A user's own kernelization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from karat.engine.function import FunctionKernel
from karat.engine.linalg import Array
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
