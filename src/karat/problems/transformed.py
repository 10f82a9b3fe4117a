"""A problem about transformed columns, whose coreset keeps raw rows.

If every row is mapped by itself, ``z_i = t(x_i)``, then weights that keep the moments of the z_i
keep them however the rows are stored.  So the engine reads the z_i, and the coreset keeps the x_i,
which may contain strings and dates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from karat.engine.kernel import Kernel
from karat.engine.linalg import Array
from karat.problems.base import Problem


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

    def kernel(self, columns: int, targets: int) -> Kernel:
        return self.problem.kernel(columns, targets)

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        """The loss of the inner problem; X holds transformed columns."""
        return self.problem.loss(X, y, weights, query)

    def describe(self) -> str:
        return f"{self.problem.describe()} of transformed columns"
