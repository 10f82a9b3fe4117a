"""Rows that travel: batches, and tables of checked input.

A :class:`Batch` holds rows of a source as column blocks, with their numbers, weights, groups and
keys.  A :class:`Table` is a batch with names of columns and a problem: the checked input of
:func:`karat.coreset`, or the rows that a coreset keeps of it.  This module checks what it can
without a pass over the data.  NaN and infinity show up in the moments, after the pass
(:mod:`karat.data.advice`).  Integers that double precision cannot tell apart get offsets
(:func:`find_offsets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from karat.data import containers
from karat.data.advice import explain_non_finite, too_long_integers
from karat.data.arguments import check_taken
from karat.data.device_arrays import check_one_device
from karat.data.labels import Grouping, check_groups, group_rows
from karat.data.stacking import in_one_array, stack_rows
from karat.data.transformed import transformed
from karat.engine.device import DevicePart
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Indices, is_long
from karat.engine.parts import Chunked, Offsets, SideBySide, all_exact, long_columns, nearby_offset
from karat.engine.rows import Rows
from karat.engine.tolerances import TINY
from karat.errors import InputError, NotExactError, several
from karat.problems import Problem

RESCALE = (
    "Multiply all weights by one number, so that they are about 1: every loss is multiplied by it,"
    " and nothing else changes."
)


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a source, or the rows held of it."""

    parts: list[Any]  # column blocks side by side: those of X, then those of y
    numbers: Any  # row numbers in the source; a stacked batch has them, and its keys, in chunks
    weights: Array | None = None
    groups: np.ndarray | None = None
    keys: Any = None
    # subtracted from columns when they are read; the column blocks hold the original numbers
    offsets: Offsets | None = None

    def __len__(self) -> int:
        return len(self.numbers)

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

    @property
    def nbytes(self) -> int:
        """Memory of the column blocks."""
        return sum(
            p.data.nbytes + p.indices.nbytes if sparse.issparse(p) else p.nbytes for p in self.parts
        )

    def take(self, where: Any, weights: Array | None = None) -> Batch:
        """The rows at ``where`` (a slice, mask or positions), with new weights or their own."""
        if weights is None and self.weights is not None:
            weights = self.weights[where]
        groups = None if self.groups is None else self.groups[where]
        keys = None if self.keys is None else self.keys[where]
        parts = [part[where] for part in self.parts]
        return Batch(parts, self.numbers[where], weights, groups, keys, self.offsets)

    def stored_rows(self, index: Indices | None = None) -> Rows:
        """All rows, or those of ``index``, before the problem's view of them is taken."""
        return Rows(self.parts, self.weights, index, self.offsets)

    def block(self, left: int, right: int) -> Any:
        """Columns ``left:right`` as one array or CSR matrix, or side by side if one array would
        round them.
        """
        edges = np.cumsum([0, *(p.shape[1] for p in self.parts)])
        inside = [
            p
            for p, a, b in zip(self.parts, edges, edges[1:], strict=False)
            if left <= a and b <= right
        ]
        if any(sparse.issparse(p) for p in inside):
            return sparse.csr_array(sparse.hstack(inside, format="csr"))
        if self.offsets and len(inside) > 1:
            return SideBySide([column[:, None] for p in inside for column in p.T])
        return inside[0] if len(inside) == 1 else np.hstack(inside)


def stack(batches: Sequence[Batch]) -> Batch:
    """Batches of equal columns, one after the other; dense column blocks are not copied."""
    first = batches[0]
    if len(batches) == 1:
        return first
    return Batch(
        _stacked_parts(batches),
        Chunked([p.numbers for p in batches]),
        joined_weights(batches),
        None if first.groups is None else np.concatenate([p.groups for p in batches]),
        None if first.keys is None else Chunked([p.keys for p in batches]),
        first.offsets,
    )


def joined(batches: Sequence[Batch], doubles: bool = False) -> Batch:
    """Batches of equal columns, one after the other, in new arrays.

    With ``doubles`` all columns are one array.
    """
    first = batches[0]
    return Batch(
        [in_one_array([p.parts for p in batches])]
        if doubles
        else [stack_rows(*blocks) for blocks in zip(*(p.parts for p in batches), strict=True)],
        np.concatenate([p.numbers for p in batches]),
        joined_weights(batches),
        None if first.groups is None else np.concatenate([p.groups for p in batches]),
        None if first.keys is None else np.concatenate([p.keys for p in batches]),
        first.offsets,
    )


def stacked_rows(batches: Sequence[Batch], index: Indices | None) -> Rows:
    """Rows of several batches for the engine, without numbers, groups and keys."""
    return Rows(_stacked_parts(batches), joined_weights(batches), index, batches[0].offsets)


def _stacked_parts(batches: Sequence[Batch]) -> list[Any]:
    """Column blocks of several batches."""
    if len(batches) == 1:
        return batches[0].parts
    columns = zip(*(p.parts for p in batches), strict=True)
    return [
        stack_rows(*blocks) if sparse.issparse(blocks[0]) else Chunked(blocks) for blocks in columns
    ]


def joined_weights(batches: Sequence[Batch]) -> Array | None:
    """The weights of several batches, one after the other; None if they are all 1."""
    if all(p.weights is None for p in batches):
        return None
    return np.concatenate([np.ones(len(p)) if p.weights is None else p.weights for p in batches])


@dataclass(frozen=True, kw_only=True)
class Table(Batch):
    """Checked rows of one data set: a batch, the names of its columns, and the problem that reads
    them.

    Attributes
    ----------
    numbers : array or None
        None if rows are numbered from 0 on.
    names : list of str
        Of the columns, those of X and then those of y.
    targets : int
        Columns of y.
    n_rows : int
        Rows of the input: more than those here where some, or their sequences, cannot be used.
    problem : Problem
        Lowered, if it needs sums of all rows.
    shape : str
        The numbers of columns, for error messages.
    unit : float
        Of the weights, a power of two: weights of 1e200 would overflow.
    notes : tuple of str
        For the certificate.
    maps : dict of arrays or None
        Those of these rows, if the problem has maps.
    """

    names: list[str]
    targets: int = 0
    n_rows: int
    problem: Problem
    shape: str
    unit: float = 1.0
    notes: tuple[str, ...] = ()
    maps: dict[str, Array] | None = None

    def __len__(self) -> int:
        return int(self.parts[0].shape[0])

    @property
    def columns(self) -> int:
        return sum(int(part.shape[1]) for part in self.parts) - self.targets

    @property
    def origin(self) -> Array:
        """The offsets of all columns."""
        return np.array(
            [float((self.offsets or {}).get(i, 0)) for i in range(self.columns + self.targets)]
        )

    @property
    def total(self) -> float:
        return float(len(self)) if self.weights is None else float(self.weights.sum())

    @property
    def kernel(self) -> Kernel:
        """The kernelization of the problem for these columns."""
        return self.problem.kernel(self.columns, self.targets)

    def numbers_of(self, label: Any = None) -> Indices | None:
        """Row numbers, in the input, of one group or of all rows; None for 0, 1, 2, ..."""
        index = self.index(label)
        if self.numbers is None:
            return index
        return np.asarray(self.numbers if index is None else self.numbers[index])

    def grouped_rows(self) -> tuple[Rows, Indices]:
        """The rows of all groups, group by group, and where each group begins, with the end."""
        assert self.grouping is not None
        return self.problem.view(self.stored_rows(self.grouping.order)), self.grouping.starts

    def rows(self, label: Any = None) -> Rows:
        """The rows of one group, or all, as the problem reads them."""
        index = self.index(label)
        rows = self.stored_rows(index)
        # rows that lie side by side are read faster without an index
        rows = rows if index is None else rows.run(0, len(rows))
        return self.problem.view(rows) if self.problem.has_view else rows

    def explain_non_finite(self) -> InputError:
        """The error for rows whose moments are not finite."""
        return explain_non_finite(self.parts, self.names)


def features_of(X: Any, problem: Problem, apart: bool = False) -> Any:
    """X as the problem reads it: its columns, or those that its transformation makes."""
    if problem.transform is not None:
        return transformed(X, problem.transform)
    return containers.as_table(X, "X", apart)


def read_input(
    X: Any, y: Any, problem: Problem, sample_weight: Any, groups: Any, unit: float | None = None,
    offsets: Offsets | None = None,
) -> Table:  # fmt: skip
    """Check the inputs, without a pass over the data (except for large integers).

    ``unit`` and ``offsets`` are those of other rows that these will be compared with.
    """
    if isinstance(y, Problem):
        raise InputError(
            "The second argument is y; pass the problem by name: karat.coreset(X, problem=...).",
            argument="y",
        )
    if isinstance(y, str):
        raise InputError(
            f"y={y!r} names a column, but X has no names; pass the values of the target.",
            argument="y",
        )
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
            raise InputError(
                f"X has {several(count, 'row')} but y has {len(target)}; they must be equal."
            )
        if isinstance(table, DevicePart) or isinstance(target, DevicePart):
            check_one_device(table, target)
        target_names = containers.column_names(y, target.shape[1])
        names += ["y"] if target_names == ["0"] else [f"{name} of y" for name in target_names]
    elif problem.needs_target:
        raise InputError(f"{problem.describe()} needs a target: pass y.")
    weights = check_weights(sample_weight, count)
    own_unit = unit is None
    if unit is None:
        unit = 1.0 if weights is None else _unit(float(weights.max()))
    if weights is not None and unit != 1.0:
        weights = _in_units(weights, unit, own_unit)
    labels = None if groups is None else check_groups(groups, count)
    parts = containers.parts_of(table, target)
    if weights is not None and not weights.all():  # rows of weight zero do not count
        parts = [part[weights > 0] if is_long(part.dtype) else part for part in parts]
    has_integers = any(part.dtype.kind in "iu" for part in parts)  # perhaps too large for doubles
    offsets = find_offsets(parts, names, problem, offsets) if has_integers else dict(offsets or {})
    if not offsets:  # doubles hold everything
        table, target = (
            part[:] if isinstance(part, SideBySide) else part for part in (table, target)
        )
    targets = 0 if target is None else int(target.shape[1])
    return Table(
        containers.parts_of(table, target), None, weights, labels, None, offsets, names=names,
        targets=targets, n_rows=count, problem=problem,
        shape=f"{columns} column{'s' * (columns != 1)} and {targets} target{'s' * (targets != 1)}",
        unit=unit,
    )  # fmt: skip


def _in_units(weights: Array, unit: float, own_unit: bool) -> Array:
    """Weights in other units; raise if they lose digits in a unit chosen for them."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = weights / unit
    lost = (weights > 0) & (scaled < TINY)
    if own_unit and lost.any():
        row = int(lost.argmax())
        raise InputError(
            f"Weights range from {weights[row]:.1e} (in row {row}) to {weights.max():.1e}. Drop the"
            " rows of negligible weight, or give all weights in the same units: doubles cannot add"
            " numbers so far apart.",
            argument="sample_weight",
            row=row,
        )
    return scaled


def check_weights(sample_weight: Any, count: int) -> Array | None:
    """Weights as numbers, one per row, finite and not negative; None means that all are 1."""
    if sample_weight is None:
        return None
    weights = containers.as_numpy(containers.as_table(sample_weight, "sample_weight"))
    if weights.shape[1] != 1:
        raise InputError(
            f"sample_weight has shape {np.shape(sample_weight)}; it must be one number per row.",
            argument="sample_weight",
        )
    weights = np.ascontiguousarray(weights[:, 0], dtype=float)
    if len(weights) != count:
        raise InputError(
            f"X has {several(count, 'row')} but sample_weight has {len(weights)}; they must be"
            " equal."
        )
    for wrong, fault, remedy in (
        (~np.isfinite(weights), "values that are not finite", "drop or correct them"),
        (weights < 0, "negative values", "weights must be at least 0"),
    ):
        if wrong.any():
            count, row = int(wrong.sum()), int(wrong.argmax())
            message = f"sample_weight has {count} {fault}, the first in row {row}; {remedy}."
            raise InputError(message, argument="sample_weight", row=row)
    if not weights.any():
        raise InputError(
            "sample_weight is zero in every row; at least one row must have a positive weight."
        )
    tiny = (weights > 0) & (weights < TINY)
    if tiny.any():
        row = int(tiny.argmax())
        raise InputError(
            f"sample_weight is {weights[row]:.1e} in row {row}, where doubles lose their digits."
            f" {RESCALE}",
            argument="sample_weight",
            row=row,
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):
            raise InputError(
                f"The sum of sample_weight is beyond the largest double. {RESCALE}",
                argument="sample_weight",
            )
    return weights


def weights_or_ones(sample_weight: Any, count: int) -> Array:
    """Checked weights as an array; ones if no weights are given."""
    weights = check_weights(sample_weight, count)
    return np.ones(count) if weights is None else weights


def stored_weights(weights: Array, unit: float = 1.0) -> Array:
    """Weights in units of 1, as they are stored; raise if that changes a digit of them."""
    with np.errstate(over="ignore", under="ignore"):
        # exact, since the unit is a power of two, if the result is a normal number
        stored = weights * unit
    if not (np.isfinite(stored) & (stored >= TINY)).all():
        raise NotExactError(
            f"Weights of kept rows, from {stored.min():.1e} to {stored.max():.1e}, leave the"
            f" doubles. {RESCALE}"
        )
    return stored


def _unit(heaviest: float) -> float:
    """The unit of weights: a power of two near the largest, if its square might overflow."""
    return 1.0 if 1e-100 < heaviest < 1e100 else 2.0 ** np.floor(np.log2(heaviest))


def find_offsets(
    parts: Sequence[Any], names: Sequence[str], problem: Problem, chosen: Offsets | None = None
) -> dict[int, int]:
    """Numbers to subtract from columns of integers, so that doubles hold the differences; raise if
    there are none.

    ``chosen`` are the offsets of earlier rows of the same columns, which these must share.
    """
    offsets = dict(chosen or {})
    edges = np.cumsum([0, *(int(part.shape[1]) for part in parts)]).tolist()
    for part, left, right in zip(parts, edges, edges[1:], strict=False):
        if not is_long(part.dtype):
            continue
        for column in sorted(
            {left + i for i in long_columns(part)} | {c for c in offsets if left <= c < right}
        ):
            values = (
                part.data[part.indices == column - left]
                if sparse.issparse(part)
                else part[:, column - left]
            )
            offset = offsets.get(column, 0)
            if chosen is None and problem.shifts and not sparse.issparse(part):
                offset = nearby_offset(values)
            if not all_exact(values, offset):
                if column in offsets or not all_exact(values):
                    raise InputError(
                        too_long_integers(names[column], values, problem, offsets.get(column, 0))
                    )
                offset = 0
            if offset:
                offsets[column] = offset
    return offsets
