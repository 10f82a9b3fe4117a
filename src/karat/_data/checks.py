"""The door: inputs become rows with weights, or an error message that names the place and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from karat._data import containers
from karat.engine.linalg import Array, Indices
from karat.engine.offsets import WHOLE, all_exact, all_small, nearby_offset
from karat.engine.rows import Offsets, Rows, is_long
from karat.errors import InputError
from karat.problems.base import Problem

PLAIN = "use numbers or strings throughout, one per row"


@dataclass(frozen=True)
class Table:
    """Checked inputs."""

    X: Any
    y: Any
    weights: Array | None
    groups: np.ndarray | None
    names: list[str]
    count: int
    unit: float = 1.0  # in which the weights are measured, a power of two: those of 1e200 would overflow
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
    def total(self) -> float:
        return float(self.count) if self.weights is None else float(self.weights.sum())

    def index(self, label: Any = None) -> Indices | None:
        """The rows of one group, or all, without those of zero weight; None means every row."""
        chosen = None if self.groups is None or label is None else self.groups == label
        if self.weights is not None and not self.weights.all():
            chosen = self.weights > 0 if chosen is None else chosen & (self.weights > 0)
        return None if chosen is None else np.flatnonzero(chosen)

    def rows(self, label: Any = None) -> Rows:
        """Those rows, to be read in blocks."""
        parts, index = self.parts, self.index(label)
        if index is not None and _is_run(index) and all(isinstance(part, np.ndarray) for part in parts):
            run = slice(index[0], index[-1] + 1)  # a run of rows, such as a fold: a view is read faster than an index
            weights = None if self.weights is None else self.weights[run]
            return Rows([part[run] for part in parts], weights, offsets=self.offsets)
        return Rows(parts, self.weights, index, self.offsets)


def _is_run(index: Indices) -> bool:
    return len(index) > 0 and bool(index[-1] - index[0] + 1 == len(index))


def features_of(X: Any, problem: Problem, apart: bool = False) -> Any:
    """The numbers that the problem looks at: the columns themselves, or a transformation of them, made block by block."""
    transform = getattr(problem, "transform", None)
    return containers.as_table(X, "X", apart) if transform is None else containers.Mapped(X, transform)


def read_input(
    X: Any, y: Any, problem: Problem, sample_weight: Any, groups: Any, unit: float | None = None,
    offsets: Offsets | None = None,
) -> Table:  # fmt: skip
    """Check everything that can be checked without a pass over the data (whole numbers of 64 bits are looked at).

    ``unit`` and ``offsets`` are those of other rows, which these are to be compared with.
    """
    if isinstance(y, Problem):
        raise InputError("The second argument is y; pass the problem by name: karat.coreset(X, problem=...).")
    if isinstance(y, str):
        raise InputError(f"y must hold the values of the target, not its name: pass y=X[{y!r}], and X without that column.")
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
    weights = _weights(sample_weight, count)
    if unit is None:
        unit = 1.0 if weights is None else _unit(float(weights.max()))
    if weights is not None and unit != 1.0:
        weights = weights / unit
    labels = _groups(groups, count)
    parts = containers.parts_of(table, target)
    if weights is not None and not weights.all():  # a row of weight zero does not exist
        parts = [part[weights > 0] if is_long(part.dtype) else part for part in parts]
    offsets = find_offsets(parts, names, problem, offsets)
    if not offsets:  # doubles hold everything
        table, target = (part[:] if isinstance(part, containers.Columns) else part for part in (table, target))
    return Table(table, target, weights, labels, names, count, unit, offsets)


def find_offsets(parts: Sequence[Any], names: Sequence[str], problem: Problem, known: Offsets | None = None) -> dict[int, int]:
    """What to subtract from columns of whole numbers, so that doubles hold the differences; or why there is no such number.

    Parameters
    ----------
    parts : sequence of 2-D arrays or CSR matrices
        Column blocks.
    names : sequence of str
    problem : Problem
        Says whether its columns may be shifted.
    known : mapping of column to int, optional
        Offsets that were chosen for other rows of the same columns; the same must do for these.
    """
    found = dict(known or {})
    edges = np.cumsum([0, *(int(part.shape[1]) for part in parts)]).tolist()
    for part, left, right in zip(parts, edges, edges[1:], strict=False):
        if not is_long(part.dtype) or isinstance(part, containers.Mapped):  # which looks at its own blocks
            continue
        for column in sorted({left + own for own in _long_columns(part)} | {c for c in found if left <= c < right}):
            values = part.data[part.indices == column - left] if sparse.issparse(part) else part[:, column - left]
            offset = found.get(column, 0)
            if known is None and problem.shifts and not sparse.issparse(part):
                offset = nearby_offset(values)
            if not all_exact(values, offset):
                if column in found or not all_exact(values):
                    raise InputError(_too_long(names[column], values, problem, found.get(column, 0)))
                offset = 0
            if offset:
                found[column] = offset
    return found


def _long_columns(part: Any) -> list[int]:
    """The columns of a block that hold whole numbers beyond 2^53."""
    values = part.data if sparse.issparse(part) else part
    if all_small(values):
        return []
    if sparse.issparse(part):
        return np.unique(part.indices[(values < -WHOLE) | (values > WHOLE)]).tolist()  # type: ignore[no-any-return]
    return np.flatnonzero((part.min(axis=0) < -WHOLE) | (part.max(axis=0) > WHOLE)).tolist()


def _too_long(name: str, values: np.ndarray, problem: Problem, known: int) -> str:
    """Why doubles do not hold a column of whole numbers, and what to do."""
    low, high = int(values.min()), int(values.max())
    size = f"Column {name} holds whole numbers up to {max(-low, high):.1e}, which double precision cannot tell apart"
    otherwise = "or convert it with astype(float) if rounding does no harm."
    if known:
        return (
            f"{size}: they are more than 2^53 away from those of other rows, about {known:.1e}. Use a coarser unit, {otherwise}"
        )
    if problem.shifts and high - low > 2**53:
        return f"{size}: they range over {high - low:.1e}, more than 2^53. Use a coarser unit, {otherwise}"
    return f"{size}; subtract an offset, for example its minimum {low}, {otherwise}"


def _weights(sample_weight: Any, count: int) -> Array | None:
    if sample_weight is None:
        return None
    weights = containers.as_table(sample_weight, "sample_weight")
    if weights.shape[1] != 1:
        raise InputError(f"sample_weight has shape {np.shape(sample_weight)}; it must be one number per row.")
    weights = np.ascontiguousarray(weights[:, 0], dtype=float)
    if len(weights) != count:
        raise InputError(f"X has {count} rows but sample_weight has {len(weights)}; they must be equal.")
    if not np.isfinite(weights).all():
        bad = np.flatnonzero(~np.isfinite(weights))
        raise InputError(
            f"sample_weight has {len(bad)} values that are not finite, the first in row {bad[0]}; drop or mend them."
        )
    if (weights < 0).any():
        bad = np.flatnonzero(weights < 0)
        raise InputError(
            f"sample_weight has {len(bad)} negative values, the first in row {bad[0]}; weights must be at least 0."
        )
    if not weights.any():
        raise InputError("sample_weight is zero in every row; at least one row must have a positive weight.")
    return weights


def _unit(heaviest: float) -> float:
    return 1.0 if 1e-100 < heaviest < 1e100 else 2.0 ** np.floor(np.log2(heaviest))


def _groups(groups: Any, count: int) -> np.ndarray | None:
    if groups is None:
        return None
    try:
        labels = np.asarray(groups)
    except (ValueError, TypeError) as error:
        raise InputError(f"groups cannot be read as labels: {error}. It must be one label per row.") from error
    if isinstance(groups, list | tuple) and labels.dtype.kind in "US":
        labels = np.array(groups, dtype=object)  # NumPy makes text of what is not
    if labels.shape != (count,):
        raise InputError(f"X has {count} rows but groups has shape {labels.shape}; it must be one label per row.")
    missing = np.array([_is_missing(label) for label in labels]) if labels.dtype.kind == "O" else _absent(labels)
    missing |= np.ma.getmaskarray(groups) if np.ma.isMaskedArray(groups) else False
    if missing.any():
        where = int(missing.argmax())
        raise InputError(f"groups has {int(missing.sum())} missing labels, the first in row {where}; every row needs one.")
    return _plain_labels(labels)


def _absent(labels: np.ndarray) -> np.ndarray:
    """Which labels are NaN or NaT: they differ from themselves."""
    return np.asarray(labels != labels) if labels.dtype.kind in "fcMm" else np.zeros(len(labels), dtype=bool)  # noqa: PLR0124


def _is_missing(label: Any) -> bool:
    """None, NaN, NaT or NA, the last of which cannot be compared."""
    try:
        return label is None or bool(label != label)  # noqa: PLR0124
    except (TypeError, ValueError):
        return type(label).__name__ == "NAType"


def _plain_labels(labels: np.ndarray) -> np.ndarray:
    """Text, numbers or dates; objects only if they are of one type that has an order."""
    if labels.dtype.kind not in "biufMmUSO":
        raise InputError(f"groups has type {labels.dtype}; {PLAIN}.")
    if labels.dtype.kind != "O":
        return labels
    kind = next(kind for kind in (bool, int, float, str, type(labels[0])) if isinstance(labels[0], kind))
    for row, label in enumerate(labels):
        if not isinstance(label, kind) or isinstance(label, tuple | list | set | frozenset | dict | np.ndarray):
            raise InputError(f"groups has a label of type {type(label).__name__} in row {row} ({_short(label)}); {PLAIN}.")
    if issubclass(kind, bool | int | float | str | np.generic):
        return labels.astype(kind)
    try:
        sorted(labels[:2])
    except TypeError:
        raise InputError(f"groups has labels of type {kind.__name__}, from row 0 on, which have no order; {PLAIN}.") from None
    return labels


def same_kind(first: np.ndarray, second: np.ndarray) -> None:
    """Refuse to join labels of which some are text and others are not: NumPy would make text of all."""
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        raise InputError(f"Some groups are text and others are not ({first[0]!r} and {second[0]!r}); {PLAIN}.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def group_labels(table: Table) -> list[Any]:
    """The labels in order; every group must have a row of positive weight."""
    if table.groups is None:
        return [None]
    try:
        labels = list(_distinct(table.groups))
    except TypeError as error:
        raise InputError(f"groups mixes types that cannot be ordered; {PLAIN}.") from error
    if table.weights is not None:
        for label in labels:
            if not table.weights[table.groups == label].any():
                raise InputError(f"Group {label!r} has no row of positive weight; leave the group out or mend its weights.")
    return labels


def _distinct(groups: np.ndarray) -> np.ndarray:
    """The labels in order; small numbers, such as folds, are counted rather than sorted."""
    if groups.dtype.kind in "iu" and groups.min() >= 0 and groups.max() < 1000:
        return np.flatnonzero(np.bincount(groups)).astype(groups.dtype)
    return np.unique(groups)


def explain_non_finite(table: Table, degree_text: str) -> InputError:
    """Say where the values that spoiled a pass are; if the data is finite, its powers overflow."""
    for part, first in ((table.X, 0), (table.y, table.columns)):
        if part is None:
            continue
        for column in range(part.shape[1]):
            values = part[:, [column]].toarray()[:, 0] if sparse.issparse(part) else part[:, column]
            bad = np.flatnonzero(~np.isfinite(np.asarray(values, dtype=float)))
            if len(bad):
                kind = "NaN" if np.isnan(np.asarray(values, dtype=float)[bad]).any() else "infinite"
                return InputError(
                    f"Column {table.names[first + column]} has {len(bad)} {kind} value{'s' if len(bad) > 1 else ''}, the first "
                    f"in row {bad[0]}; drop or impute those rows."
                )
    return _explain_sizes(table, degree_text)


def _explain_sizes(table: Table, degree_text: str) -> InputError:
    """Which column is furthest from 1: the one to rescale, whether it is too large or too small."""
    extents = [_extent(part[:]) for part in (table.X, table.y) if part is not None]
    sizes, spreads = (np.concatenate(found) for found in zip(*extents, strict=True))
    smallest = np.where(spreads > 0, np.minimum(sizes, spreads), np.where(sizes > 0, sizes, 1.0))
    above, below = np.log2(sizes.clip(1.0)), -np.log2(smallest)
    column = int(np.argmax(np.maximum(above, below)))
    name = f"Column {table.names[column]}"
    if above[column] >= below[column]:
        return InputError(
            f"{name} has values up to {sizes[column]:.1e}; {degree_text} overflow double precision. Rescale the column."
        )
    kind = "values up to" if smallest[column] == sizes[column] else "values that differ by at most"
    return InputError(
        f"{name} has {kind} {smallest[column]:.1e}, so small that double precision loses their digits. Rescale the column, or "
        "drop it."
    )


def _extent(part: Any) -> tuple[Array, Array]:
    """Of every column, the largest absolute value and the distance between the largest and the smallest value."""
    ends = (part.max(axis=0), part.min(axis=0))
    high, low = (np.ravel(end.toarray() if sparse.issparse(end) else end).astype(float) for end in ends)
    with np.errstate(over="ignore"):  # infinite if they are of either sign and as large as doubles can be
        return np.maximum(np.abs(high), np.abs(low)), high - low
