"""What a problem is: the thing that must not change.

A problem names a loss ``f(row, query)`` with a kernelization, ``f = <phi(row), h(query)>`` for every row and query (the paper's
Algorithm 1).  It hands the engine its kernel, evaluates its loss, and says in words what a coreset for it keeps and what not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from karat.engine.kernel import Kernel
from karat.engine.linalg import Array
from karat.engine.rows import Rows
from karat.errors import InputError

NEVER_KEPT = ("likelihoods", "medians and absolute errors", "leave-one-out scores", "privacy (kept rows are real records)")


class Problem(ABC):
    """Base class of all problems; subclasses are frozen dataclasses of their parameters."""

    keeps: ClassVar[str]
    excludes: ClassVar[tuple[str, ...]] = NEVER_KEPT
    needs_target: ClassVar[bool] = False
    mergeable: ClassVar[bool] = True
    storable: ClassVar[bool] = True
    needs_sums: ClassVar[bool] = False  # of a first pass over all rows, before it can be lowered
    total_weight: bool | None

    @property
    def shifts(self) -> bool:
        """Whether a shift of the columns leads to the same losses at other queries (see :meth:`shifted`)."""
        return False

    def shifted(self, query: Any, X: Sequence[int], y: Sequence[int]) -> Any:
        """The query that has the loss of ``query`` on columns from which whole numbers were subtracted."""
        raise NotImplementedError

    @property
    def keeps_total(self) -> bool:
        """Whether the total weight is kept even where the loss does not ask for it."""
        return self.total_weight is not False

    @abstractmethod
    def kernel(self, columns: int, targets: int) -> Kernel:
        """The kernelization for rows of ``columns`` inputs and ``targets`` targets."""

    @abstractmethod
    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        """``sum_i weights_i f(row_i, query)`` on any weighted rows."""

    def view(self, rows: Rows) -> Rows:
        """What the kernel reads of rows as they are stored: by default all of it."""
        return rows

    def lower(self, sums: Any, widths: tuple[int, ...] | None = None) -> Problem:
        """The problem with a kernel: this one, unless it needs the ``sums`` of a first pass over all rows.

        ``widths`` are the columns of each table, where a row has several.
        """
        return self

    def width(self, columns: int, targets: int = 1) -> int:
        """Number of kernel features, which bounds the number of rows a coreset needs."""
        return self.kernel(columns, targets if self.needs_target else 0).width

    def params(self) -> dict[str, Any]:
        """The parameters, for files and reports."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    def describe(self) -> str:
        """The problem and those of its parameters that differ from the defaults, in one word."""
        changed = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)  # type: ignore[arg-type]
            if getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def query_matrix(query: Any, columns: int, intercept: bool, targets: int | None = None) -> tuple[Array, Array]:
    """Coefficients (d, T) and intercepts (T,) of a linear query.

    A query is a coefficient array, with the intercept as its last entry if the problem has one and the array is that long, or
    a pair ``(coefficients, intercept)``.
    """
    offset: npt.ArrayLike = 0.0
    if isinstance(query, tuple):
        if len(query) != 2:
            raise InputError(
                f"A query is a coefficient array or a pair (coefficients, intercept), not a tuple of {len(query)}."
            )
        query, offset = query
    coefficients = np.asarray(query, dtype=float)
    if intercept and coefficients.shape[0] == columns + 1:
        coefficients, offset = coefficients[:-1], coefficients[-1]
    if coefficients.ndim > 2 or coefficients.shape[0] != columns:
        longer = f" (or {columns + 1}, the intercept last)" if intercept else ""
        raise InputError(f"The query has {coefficients.shape[0]} coefficients, but the data has {columns} columns{longer}.")
    if not intercept and np.any(offset):
        raise InputError("The query has an intercept, but the problem was made with fit_intercept=False.")
    coefficients = coefficients.reshape(columns, -1)
    if targets is not None and coefficients.shape[1] not in (1, targets):
        raise InputError(f"The query has {coefficients.shape[1]} columns of coefficients, but there are {targets} targets.")
    return coefficients, np.broadcast_to(np.asarray(offset, dtype=float), (coefficients.shape[1],))
