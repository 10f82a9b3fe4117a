"""Checks of everything that :func:`karat.coreset` is given; checked inputs become a :class:`Table`.

What can be checked without a pass over the data is checked here.  NaN and infinity show in the moments, after the pass; then
:func:`explain_non_finite` looks for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from karat._data import containers
from karat._data.advice import problem_correction
from karat._data.groups import Grouping, group_rows
from karat._data.indicators import Indicators
from karat._data.labels import check_groups
from karat._data.offsets import find_offsets
from karat._data.transformed import transformed
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Offsets, Rows, consecutive, is_long, sweep
from karat.engine.tolerances import TINY
from karat.errors import InputError, NotExactError
from karat.problems import LeastSquares, Moments, Problem

OTHER_ROWS = "The kept rows are not the rows of this data at the stored indices."
RESCALE = (
    "Multiply all weights by one number, so that they are about 1: every loss is multiplied by it, and nothing else changes."
)
NOT_TAKEN = {
    "y": "has no target; leave y out",
    "groups": "does not take groups, because its maps belong to one data set; build one coreset per group",
    "lengths": "does not look at sequences; lengths is for sequence models only",
}


def check_problem(problem: Any) -> Problem:
    """Raise unless ``problem`` is a problem, which is returned."""
    if not isinstance(problem, Problem):
        raise InputError(problem_correction(problem), argument="problem")
    return problem


def chosen_problem(problem: Any, with_target: bool) -> Problem:
    """The problem that was passed, or the default: least squares if there is a target, else second moments."""
    if problem is None:
        return LeastSquares() if with_target else Moments(2)
    return check_problem(problem)


def check_taken(problem: Problem, **arguments: Any) -> None:
    """Raise if an argument (``y``, ``groups``, ``lengths``) was passed that the problem does not take."""
    for name, value in arguments.items():
        if value is not None and name not in problem.takes:
            raise InputError(f"{problem.describe()} {NOT_TAKEN[name]}.", argument=name)


def check_absorbing(problem: Problem, groups: Any, targets: int) -> None:
    """Raise if the regulariser of a problem is to absorb a part of rows for which that has no meaning."""
    if problem.absorb is None:
        return
    if groups is not None:
        raise InputError("absorb and groups do not go together: an absorbed coreset serves one fit of one alpha.")
    if targets != 1:
        raise InputError(f"absorb needs exactly one target, y has {targets}.")


@dataclass(frozen=True)
class Table:
    """Checked inputs: columns, weights and groups of all rows."""

    notes: ClassVar[tuple[str, ...]] = ()
    maps: ClassVar[None] = None

    X: Any
    y: Any
    weights: Array | None
    groups: np.ndarray | None
    names: list[str]
    count: int
    unit: float = 1.0  # unit of the weights, a power of two: weights of 1e200 would overflow
    offsets: Offsets | None = None  # subtracted from columns of whole numbers before they become doubles

    @property
    def columns(self) -> int:
        return int(self.X.shape[1])

    @property
    def targets(self) -> int:
        return 0 if self.y is None else int(self.y.shape[1])

    @property
    def parts(self) -> list[Any]:
        """Blocks of columns, those of X and then those of y."""
        return containers.parts_of(self.X, self.y)

    @property
    def origin(self) -> Array:
        """The offsets of all columns."""
        return np.array([float((self.offsets or {}).get(i, 0)) for i in range(self.columns + self.targets)])

    @property
    def n_rows(self) -> int:
        """Rows of the input."""
        return self.count

    @property
    def shape(self) -> str:
        """The number of columns, for error messages."""
        return f"{self.columns} columns and {self.targets} targets"

    @property
    def total(self) -> float:
        return float(self.count) if self.weights is None else float(self.weights.sum())

    @cached_property
    def grouping(self) -> Grouping | None:
        """The rows of positive weight by their groups; None if there are no groups."""
        return None if self.groups is None else group_rows(self.groups, self.weights)

    @property
    def labels(self) -> list[Any]:
        """The groups in order; None alone if there are no groups."""
        return [None] if self.grouping is None else self.grouping.labels

    def index(self, label: Any = None) -> Indices | None:
        """The rows of one group, or all, without those of zero weight; None means every row."""
        if self.grouping is not None and label is not None:
            return self.grouping.rows(label)
        return None if self.weights is None or self.weights.all() else np.flatnonzero(self.weights)

    def grouped_rows(self) -> tuple[Rows, Indices]:
        """The rows of all groups, one group after the other, and where each begins (the last number is that of all rows)."""
        assert self.grouping is not None
        return Rows(self.parts, self.weights, self.grouping.order, self.offsets), self.grouping.starts

    def rows(self, label: Any = None) -> Rows:
        """The rows of one group, or all, to be read in blocks."""
        parts, index = self.parts, self.index(label)
        run = None if index is None else consecutive(index)
        if run is not None and all(isinstance(part, np.ndarray | Indicators) for part in parts):
            weights = None if self.weights is None else self.weights[run]  # a view is read faster than an index
            views = [part.run(run) if isinstance(part, Indicators) else part[run] for part in parts]
            return Rows(views, weights, offsets=self.offsets)
        return Rows(parts, self.weights, index, self.offsets)

    def take(self, X: Any, indices: Indices) -> Any:
        """Rows of the input, in a container of its type."""
        return containers.take_rows(X, indices)

    def kernel(self, problem: Problem) -> Kernel:
        """The kernelization of a problem for these columns."""
        return problem.kernel(self.columns, self.targets)

    def kept(self, core: Any) -> Table:
        """The rows that a coreset keeps, in the units of this table."""
        return read_input(core.X, core.y, core.problem, core.weights, core.groups, self.unit, self.offsets)

    def differences(self, core: Any, kept: Table) -> list[str]:
        """Differences to a coreset other than in moments: the number of rows, or ``kept`` rows not at their indices."""
        if core.n_rows != self.count:
            return [f"The coreset was made of {core.n_rows:,} rows, the data has {self.count:,}."]
        if len(core.indices) and core.indices[-1] < self.count and self._has(kept, core.indices):
            return []
        return [OTHER_ROWS]

    def _has(self, kept: Table, indices: Indices) -> bool:
        """Whether kept rows are the rows at ``indices``."""
        zeros = np.zeros(self.columns + self.targets)
        full, own = (Rows(t.parts, offsets=t.offsets) for t in (self, kept))
        return bool(np.array_equal(full.take(indices, zeros), own.take(np.arange(len(indices)), zeros)))

    def explain_non_finite(self) -> InputError:
        """The error that names the first column with NaN or infinity; if there is none, the one to rescale."""
        rows = Rows(self.parts)

        def visit(block: Array, _weights: Array | None, start: int) -> tuple[Any, ...]:
            values = block[:, 1:]
            bad = ~np.isfinite(values)
            first = np.where(bad.any(axis=0), start + bad.argmax(axis=0), len(rows))
            return bad.sum(axis=0), np.isnan(values).any(axis=0), first, values.max(axis=0), values.min(axis=0)

        def join(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
            return a[0] + b[0], a[1] | b[1], np.minimum(a[2], b[2]), np.maximum(a[3], b[3]), np.minimum(a[4], b[4])

        counts, nan, first, high, low = sweep(rows, np.zeros(rows.columns), visit, join, (rows.columns + 1, 1))
        if not counts.any():
            return self._explain_sizes(high, low)
        i = int(np.flatnonzero(counts)[0])
        name, row = self.names[i], int(first[i])
        many = f"{counts[i]} {'NaN' if nan[i] else 'infinite'} value{'s' if counts[i] > 1 else ''}"
        message = f"Column {name} has {many}, the first in row {row}; drop or impute those rows."
        return InputError(message, column=name, row=row)

    def _explain_sizes(self, high: Array, low: Array) -> InputError:
        """The error that names the column furthest from 1: the one to rescale, whether it is too large or too small.

        ``high`` and ``low`` are the largest and the smallest value of every column.
        """
        with np.errstate(over="ignore"):  # infinite if they are of either sign and as large as doubles can be
            sizes, spreads = np.maximum(np.abs(high), np.abs(low)), high - low
        smallest = np.where(spreads > 0, np.minimum(sizes, spreads), np.where(sizes > 0, sizes, 1.0))
        above, below = np.log2(sizes.clip(1.0)), -np.log2(smallest)
        i = int(np.argmax(np.maximum(above, below)))
        name = self.names[i]
        if above[i] >= below[i]:
            said = f"has values up to {sizes[i]:.1e}; its powers overflow double precision. Rescale the column."
        else:
            kind = "values up to" if smallest[i] == sizes[i] else "values that differ by at most"
            said = (
                f"has {kind} {smallest[i]:.1e}, so small that double precision loses their digits. Rescale the column, or "
                "drop it."
            )
        return InputError(f"Column {name} {said}", column=name)


def features_of(X: Any, problem: Problem, apart: bool = False) -> Any:
    """X as the problem reads it: the columns themselves, or what its transformation makes of them."""
    if problem.transform is not None:
        return transformed(X, problem.transform)
    return containers.as_table(X, "X", apart)


def read_input(
    X: Any, y: Any, problem: Problem, sample_weight: Any, groups: Any, unit: float | None = None,
    offsets: Offsets | None = None,
) -> Table:  # fmt: skip
    """Check inputs, without a pass over the data (except for large whole numbers), and make a Table of them.

    ``unit`` and ``offsets`` are those of other rows that these will be compared with.
    """
    if isinstance(y, Problem):
        raise InputError("The second argument is y; pass the problem by name: karat.coreset(X, problem=...).", argument="y")
    if isinstance(y, str):
        raise InputError(f"y={y!r} names a column, but X has no names; pass the values of the target.", argument="y")
    check_taken(problem, y=y)
    if X is None:
        raise InputError("X is None; pass a table of rows.")
    table = features_of(X, problem, bool(offsets))
    count, columns = table.shape
    if count == 0:
        raise InputError("X has no rows; a coreset needs at least one.")
    if columns == 0:
        raise InputError("X has no columns; a coreset needs at least one.")
    names = containers.column_names(X, columns)
    target = None
    if y is not None:
        target = containers.as_table(y, "y", bool(offsets))
        if sparse.issparse(target):
            raise InputError("y is sparse; pass it as a dense array.")
        if target.shape[1] == 0:
            raise InputError("y has no columns; leave it out, or pass at least one target.")
        if len(target) != count:
            raise InputError(f"X has {count} rows but y has {len(target)}; they must be equal.")
        named = containers.column_names(y, target.shape[1])
        names += ["y"] if named == ["0"] else [f"{name} of y" for name in named]
    elif problem.needs_target:
        raise InputError(f"{problem.describe()} needs a target: pass y.")
    weights = check_weights(sample_weight, count)
    own = unit is None
    if unit is None:
        unit = 1.0 if weights is None else _unit(float(weights.max()))
    if weights is not None and unit != 1.0:
        weights = _in_units(weights, unit, own)
    labels = None if groups is None else check_groups(groups, count)
    parts = containers.parts_of(table, target)
    if weights is not None and not weights.all():  # rows of weight zero do not count
        parts = [part[weights > 0] if is_long(part.dtype) else part for part in parts]
    whole_numbers = any(part.dtype.kind in "iu" for part in parts)  # they may be too large for doubles
    offsets = find_offsets(parts, names, problem, offsets) if whole_numbers else {}
    if not offsets:  # doubles hold everything
        table, target = (part[:] if isinstance(part, containers.Columns) else part for part in (table, target))
    return Table(table, target, weights, labels, names, count, unit, offsets)


def _in_units(weights: Array, unit: float, own: bool) -> Array:
    """Weights in other units; if these are their own, all must be numbers that keep their digits there."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = weights / unit
    lost = (weights > 0) & (scaled < TINY)
    if own and lost.any():
        row = int(lost.argmax())
        raise InputError(
            f"Weights range from {weights[row]:.1e} (in row {row}) to {weights.max():.1e}: doubles cannot add both. "
            "Leave out the rows whose weights are nothing beside the others, or give them weights in the same units.",
            argument="sample_weight", row=row,
        )  # fmt: skip
    return scaled


def check_weights(sample_weight: Any, count: int) -> Array | None:
    """Weights as numbers, one per row, finite and not negative; None means that all are 1."""
    if sample_weight is None:
        return None
    weights = containers.as_table(sample_weight, "sample_weight")
    if weights.shape[1] != 1:
        raise InputError(
            f"sample_weight has shape {np.shape(sample_weight)}; it must be one number per row.", argument="sample_weight"
        )
    weights = np.ascontiguousarray(weights[:, 0], dtype=float)
    if len(weights) != count:
        raise InputError(f"X has {count} rows but sample_weight has {len(weights)}; they must be equal.")
    for wrong, what, remedy in (
        (~np.isfinite(weights), "values that are not finite", "drop or correct them"),
        (weights < 0, "negative values", "weights must be at least 0"),
    ):
        if wrong.any():
            count, row = int(wrong.sum()), int(wrong.argmax())
            message = f"sample_weight has {count} {what}, the first in row {row}; {remedy}."
            raise InputError(message, argument="sample_weight", row=row)
    if not weights.any():
        raise InputError("sample_weight is zero in every row; at least one row must have a positive weight.")
    tiny = (weights > 0) & (weights < TINY)
    if tiny.any():
        row = int(tiny.argmax())
        raise InputError(
            f"sample_weight is {weights[row]:.1e} in row {row}, where doubles lose their digits. {RESCALE}",
            argument="sample_weight", row=row,
        )  # fmt: skip
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):
            raise InputError(f"The sum of sample_weight is beyond the largest double. {RESCALE}", argument="sample_weight")
    return weights


def stored_weights(weights: Array, unit: float = 1.0) -> Array:
    """Weights as they are stored, in units of 1; raise unless they are the numbers that were proven."""
    with np.errstate(over="ignore", under="ignore"):
        stored = weights * unit  # exact, since the unit is a power of two, if the result is a normal number
    if not (np.isfinite(stored) & (stored >= TINY)).all():
        raise NotExactError(
            f"Weights of kept rows, from {stored.min():.1e} to {stored.max():.1e}, leave the doubles. {RESCALE}"
        )
    return stored


def _unit(heaviest: float) -> float:
    return 1.0 if 1e-100 < heaviest < 1e100 else 2.0 ** np.floor(np.log2(heaviest))
