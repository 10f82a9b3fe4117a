"""The base class of problems: a problem says what must not change.

A problem names a loss ``f(row, query)`` with a kernelization, ``f = <phi(row), h(query)>`` for
every row and query (the paper's Algorithm 1).  It gives the engine its kernel, evaluates its loss,
and describes in words what a coreset for it keeps and what it does not keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from karat.engine.claim import Claim, Reduction
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array
from karat.engine.rows import Progress, Rows
from karat.errors import InputError, several
from karat.problems.absorb.correction import Correction

NEVER_KEPT = (
    "medians and absolute errors",
    "leave-one-out scores",
    "privacy (kept rows are real records)",
)
LIKELIHOODS = "likelihoods, unless their sufficient statistics are kept"


class CoresetLike(Protocol):
    """The part of a coreset that a problem reads."""

    @property
    def weights(self) -> Array: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def maps(self) -> dict[str, Array] | None: ...

    @property
    def absorbed(self) -> Correction | None: ...

    def arrays(self) -> tuple[Array, Array | None]: ...

    def minus_offsets(self) -> tuple[Array, Array | None, list[int]]: ...

    def tables(self) -> tuple[Any, ...]: ...


class Problem(ABC):
    """Base class of all problems; subclasses are frozen dataclasses of their parameters."""

    keeps: ClassVar[str]  # what a coreset keeps, in words
    excludes: ClassVar[tuple[str, ...]] = (LIKELIHOODS, *NEVER_KEPT)
    # arguments of karat.coreset; "lengths" is the third
    takes: ClassVar[frozenset[str]] = frozenset({"y", "groups"})
    needs_target: ClassVar[bool] = False
    # the features of a row depend on that row alone, so coresets of parts can be merged
    mergeable: ClassVar[bool] = True
    needs_sums: ClassVar[bool] = False  # a first pass over all rows comes before :meth:`with_maps`
    rows_per_sample: ClassVar[int] = 1  # rows of the input that are side by side in a kept row
    input_tables: ClassVar[int] = 1  # number of tables in X
    tables: ClassVar[int] = 1  # number of tables, of equal width, that are stored for a sample
    storable: ClassVar[bool] = True  # the parameters can be written to a file
    # the kernel does not read the stored rows themselves (:meth:`view`)
    has_view: ClassVar[bool] = False
    stored_maps: dict[str, Array] | None = None  # what a coreset stores of the sums of a first pass
    # row-wise map to the columns that the kernel reads
    transform: Callable[[Any], Any] | None = None
    absorb: str | None = None  # how a regulariser carries a part of the data, if it does
    total_weight: bool | None  # whether the user wants the total weight kept

    @property
    def power(self) -> int | None:
        """Degree of the loss in the row, if it is homogeneous."""
        return None

    @property
    def shifts(self) -> bool:
        """Whether shifted columns have the same losses at other queries (:meth:`shifted`), which
        needs first moments.
        """
        return False

    def shifted(self, query: Any, X: Sequence[int], y: Sequence[int]) -> Any:
        """The query that has the loss of ``query`` on columns from which integers were
        subtracted.
        """
        raise NotImplementedError

    @property
    def keeps_total(self) -> bool:
        """Whether the total weight is kept even if the loss does not need it."""
        return self.total_weight is not False

    @property
    def keeps_squares(self) -> bool:
        """Whether all second moments of columns and target are kept."""
        return False

    @property
    def needs_real_rows(self) -> str:
        """Why synthetic rows, which keep second moments, are not enough, and what to do; empty if
        they are.
        """
        return (
            f"{self.describe()} needs more than the second moments of the columns: use rows='real'."
        )

    @abstractmethod
    def kernel(self, columns: int, targets: int) -> Kernel:
        """The kernelization for rows of ``columns`` inputs and ``targets`` targets."""

    @abstractmethod
    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        """``sum_i weights_i f(row_i, query)`` on any weighted rows."""

    def loss_on(self, core: CoresetLike, query: Any) -> float:
        """The loss of all rows at a query, from a coreset."""
        X, y, away = core.minus_offsets()
        if any(away):
            query = self.shifted(query, away[: X.shape[1]], away[X.shape[1] :])
        return self.loss(X, y, core.weights, query)

    def absorb_rows(
        self, rows: Rows, exact: Reduction, seed: int, progress: Progress | None,
        missing: Correction | None = None, unit: float = 1.0, inherited: Claim | None = None,
    ) -> tuple[Reduction, Correction]:  # fmt: skip
        """Replace an exact reduction by fewer rows and a correction, if ``absorb`` is not None."""
        raise NotImplementedError

    def absorbed_error(
        self, rows: Rows, fitted: FittedMoments, kept: Rows, correction: Correction, unit: float
    ) -> float:
        """Worst relative loss error of kept rows and a correction against all rows; if ``absorb``
        is not None.
        """
        raise NotImplementedError

    def view(self, rows: Rows) -> Rows:
        """The rows that the kernel reads, from the stored rows; by default the rows themselves."""
        return rows

    def with_maps(self, sums: Any, widths: tuple[int, ...] | None = None) -> Problem:
        """The problem with a kernel: this one, unless it needs the ``sums`` of a first pass over
        all rows.

        ``widths`` are the columns of each table, where a row has several.
        """
        return self

    def kept_parts(self, core: CoresetLike) -> list[Any] | None:
        """The column blocks of a coreset; None if they are those of X and y."""
        return None

    def changed_maps(
        self, stored: dict[str, Array] | None, fresh: dict[str, Array] | None
    ) -> list[str]:
        """How the stored maps of a coreset differ from those of the data; empty if they do not, or
        there are none.
        """
        return []

    def sums_size(self, columns: int) -> int:
        """Approximate number of entries of the sums of a first pass."""
        return 0

    def fold_memory(self, columns: int, targets: int) -> tuple[int, int]:
        """Bytes of a fold that do not depend on its rows, and bytes per row: rows read ahead,
        waiting, and summed.
        """
        return int(8 * 24 * self.kernel(columns, targets).width ** 2), 8 * (
            8 * (columns + targets) + 4
        )

    def width(self, columns: int, targets: int = 1) -> int:
        """Number of kernel features, which bounds the number of rows a coreset needs."""
        return self.kernel(columns, targets if self.needs_target else 0).width

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> Problem:
        """The problem with the parameters that are stored in a file."""
        return cls(**params)

    def params(self) -> dict[str, Any]:
        """The parameters, for files and reports."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    def describe(self) -> str:
        """The name of the problem, with the parameters that differ from their defaults."""
        changed = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)  # type: ignore[arg-type]
            if f.repr and getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def query_matrix(
    query: Any, columns: int, intercept: bool, targets: int | None = None
) -> tuple[Array, Array]:
    """Coefficients (d, T) and intercepts (T,) of a linear query.

    A query is a coefficient array, with the intercept as its last entry if the problem has one and
    the array is that long, or a pair ``(coefficients, intercept)``.
    """
    offset: npt.ArrayLike = 0.0
    if isinstance(query, tuple):
        if len(query) != 2:
            raise InputError(
                "A query is a coefficient array or a pair (coefficients, intercept), not a tuple"
                f" of {len(query)}."
            )
        query, offset = query
    coefficients = np.asarray(query, dtype=float)
    if intercept and coefficients.shape[0] == columns + 1:
        coefficients, offset = coefficients[:-1], coefficients[-1]
    if coefficients.ndim > 2 or coefficients.shape[0] != columns:
        longer = f" (or {columns + 1}, the intercept last)" if intercept else ""
        raise InputError(
            f"The query has {several(coefficients.shape[0], 'coefficient')}, but the data has"
            f" {several(columns, 'column')}{longer}."
        )
    if not intercept and np.any(offset):
        raise InputError(
            "The query has an intercept, but the problem was made with fit_intercept=False."
        )
    coefficients = coefficients.reshape(columns, -1)
    if targets is not None and coefficients.shape[1] not in (1, targets):
        raise InputError(
            f"The query has {several(coefficients.shape[1], 'column')} of coefficients, for"
            f" {several(targets, 'target')}."
        )
    return coefficients, np.broadcast_to(np.asarray(offset, dtype=float), (coefficients.shape[1],))
