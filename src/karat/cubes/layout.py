"""How rows are read for a cube: the columns of a coreset, and those that label its cells.

A label is text, a number, a boolean, a date or a time; all labels of a column are of one kind.
Labels of different kinds are never converted silently: as numbers of double precision 2**53 and
2**53 + 1 would be one label.  Labels of a batch are found by Arrow's dictionary encoding, so that
Python sees each of them once a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from karat.data.arguments import column_roles
from karat.data.labels import encode_sorted
from karat.engine.linalg import Indices
from karat.errors import InputError
from karat.io.layout import Layout, pandas_index, require_values
from karat.problems import Problem

KINDS = {
    "b": "booleans",
    "i": "integers",
    "u": "integers",
    "f": "numbers with a fraction",
    "M": "dates",
    "U": "text",
}
UTC_NAMES = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
DATE = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?)?")
LARGEST = np.iinfo(np.int64).max
DAY = 86_400 * 10**6  # microseconds


def check_type(kind: Any, name: str) -> None:
    """Refuse a column whose Arrow type cannot label cells."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.tz not in UTC_NAMES:
        raise InputError(
            f"Column {name!r} holds times of the time zone {kind.tz}, whose days are not those of"
            " UTC. Convert it to dates of that zone (in pandas"
            f" frame[{name!r}].dt.tz_localize(None)), or to UTC, before it labels cells.",
            column=name,
        )
    if (
        pa.types.is_nested(kind)
        or isinstance(kind, pa.BaseExtensionType)
        or pa.types.is_duration(kind)
    ):
        raise InputError(
            f"Column {name!r} has type {kind}, which cannot label cells; convert it to text,"
            " numbers or dates.",
            column=name,
        )


def label_keys(values: np.ndarray) -> list[Any]:
    """Labels as a dict knows them: dates are integers of their unit."""
    return values.astype(np.int64).tolist() if values.dtype.kind == "M" else values.tolist()  # type: ignore[no-any-return]


def as_integers(values: Sequence[int], name: str) -> np.ndarray:
    """Integers, exactly."""
    if not values or max(values) <= LARGEST:
        return np.array(values, dtype=np.int64)
    if min(values) < 0:
        raise InputError(
            f"Column {name!r} has labels below 0 and above 2**63 - 1, which have no common type;"
            " use text."
        )
    return np.array(values, dtype=np.uint64)


def joined_labels(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Labels of several parts, one after the other; an error if they are of different kinds."""
    first = parts[0]
    for part in parts[1:]:
        if KINDS.get(first.dtype.kind) != KINDS.get(part.dtype.kind):
            one, two = (
                f"{KINDS.get(v.dtype.kind, v.dtype)} (such as {shown(v[0])})" for v in (first, part)
            )
            raise InputError(
                f"Some labels are {one} and others are {two}; convert the column to the type of the"
                " cube's labels."
            )
    if first.dtype.kind in "iu":
        return as_integers([value for part in parts for value in part.tolist()], "of labels")
    if first.dtype.kind == "f":
        _check_precision(parts)
    return np.concatenate(parts)


def _check_precision(parts: Sequence[np.ndarray]) -> None:
    """Refuse labels of single precision that are those of double precision rounded: they would be
    other cells.
    """
    for short in {part.dtype for part in parts if part.dtype.itemsize < 8}:
        rounded = {float(v) for part in parts if part.dtype == short for v in part}
        for part in parts:
            if part.dtype.itemsize <= short.itemsize:
                continue
            with np.errstate(over="ignore"):
                low = part.astype(short).astype(float)
            twins = [
                v
                for v, r in zip(part.tolist(), low.tolist(), strict=True)
                if r != v and r in rounded
            ]
            if twins:
                raise InputError(
                    f"Labels are {short} in some rows and {part.dtype} in others, and {twins[0]!r}"
                    " is not the same number in both; convert the column to the type of the cube's"
                    " labels."
                )


def as_date(label: Any, name: str) -> np.datetime64:
    """A date or time as NumPy has it; text must be a date of ISO 8601 or the beginning of one."""
    if isinstance(label, datetime) and label.tzinfo is not None:
        if str(label.tzinfo) not in UTC_NAMES:
            raise InputError(
                f"{name}={label} has a time zone, labels have none; use a date or time without"
                " one.",
                argument=name,
            )
        label = label.replace(tzinfo=None)
    if hasattr(label, "to_datetime64"):  # pandas: to the nanosecond
        label = label.to_datetime64()
    if isinstance(label, np.datetime64 | date) or (
        isinstance(label, str) and DATE.fullmatch(label)
    ):
        try:
            found = np.datetime64(label)
        except ValueError:
            found = np.datetime64("NaT")
        if not np.isnat(found):
            return _in_microseconds(found, name)
    raise InputError(
        f"{name}={shown(label)} is not a date without a time zone, such as '2026-01-31'.",
        argument=name,
    )


def _in_microseconds(label: np.datetime64, name: str) -> np.datetime64:
    """A time that is no finer than labels are; NumPy compares nanoseconds with dates of three
    centuries only.
    """
    if np.datetime_data(label.dtype)[0] not in ("ns", "ps", "fs", "as"):
        return label
    found = label.astype("datetime64[us]")
    if found.astype(label.dtype) != label:
        raise InputError(
            f"{name}={label} is finer than a microsecond, which labels are not.", argument=name
        )
    return np.datetime64(found)


def shown(label: Any) -> str:
    """A label, in an error message."""
    if isinstance(label, slice):
        return f"slice({label.start!r}, {label.stop!r})"
    return str(label) if isinstance(label, np.generic) else repr(label)


@dataclass(frozen=True)
class CellLayout(Layout):
    """A layout with columns that label cells.

    Attributes
    ----------
    by : tuple of str
    """

    by: tuple[str, ...] = ()

    @staticmethod
    def for_cells(
        problem: Problem,
        target: Any,
        by: Any,
        columns: Any,
        weight: str | None,
        key: str | None,
        on_missing: str,
    ) -> CellLayout:
        """From the arguments of :func:`karat.cube`."""
        names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Iterable) else ()
        if (
            not names
            or not all(isinstance(name, str) for name in names)
            or len(set(names)) < len(names)
        ):
            raise InputError(
                f"by must name one column or several that label the cells, each once, not {by!r}.",
                argument="by",
            )
        layout = Layout.of(
            problem,
            column_roles(problem, target, columns, weight, None, key, None),
            None,
            on_missing,
        )
        taken = {*layout.roles.targets, *(name for name in (weight, key) if name is not None)}
        if taken & set(names):
            raise InputError(
                f"Column {min(taken & set(names))!r} labels cells, so it cannot be the target, a"
                " weight or a key."
            )
        return CellLayout(layout.roles, drop=layout.drop, by=names)

    @property
    def columns(self) -> list[str]:
        """All that must be read, each once."""
        return list(dict.fromkeys([*self.roles.columns, *self.by]))

    def named(self, names: Sequence[str], apart: Sequence[str] = ()) -> CellLayout:
        """The same among columns of these names; labels, and columns that are ``apart``, are
        features only if named as such.
        """
        for name in self.by:
            if name not in names:
                raise InputError(
                    f"The data has no column {name!r} to label cells by; it has {', '.join(names)}."
                )
        others = [name for name in names if name not in (*self.by, *apart)]
        return replace(self, roles=self.roles.among(names if self.roles.features else others))

    def among(self, schema: pa.Schema) -> CellLayout:
        """The same for columns that are there, of types that fit."""
        layout = self.named(schema.names, pandas_index(schema))
        for name in self.by:
            check_type(schema.field(name).type, name)
        layout.check_numbers(schema)
        return layout


class Labels:
    """The labels of cells as they come, numbered from 0 on.

    Attributes
    ----------
    numbers : dict
        The number of each label, a tuple of plain values.
    """

    def __init__(self, layout: CellLayout) -> None:
        self.layout = layout
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.kinds: dict[str, np.dtype[Any]] = {}  # of each column

    def __len__(self) -> int:
        return len(self.numbers)

    def codes(self, table: Any, where: Callable[[int], str]) -> Indices:
        """The number of the cell of every row."""
        # of every row, its place among the labels so far
        places, labels = np.zeros(table.num_rows, dtype=np.int64), [()]
        for name in self.layout.by:
            column = table.column(name)
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            check_type(column.type, name)
            require_values(column, name, where)
            encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            own, count = self._plain(name, encoded.dictionary, where), len(labels)
            pairs = (
                np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64) * count
                + places
            )
            present, places = encode_sorted(pairs)
            labels = [(*labels[pair % count], own[pair // count]) for pair in present.tolist()]
        found = [self.numbers.setdefault(label, len(self.numbers)) for label in labels]
        return np.array(found, dtype=np.intp)[places]

    def _plain(self, name: str, dictionary: Any, where: Callable[[int], str]) -> list[Any]:
        """The values of a dictionary as Python's numbers and texts; times in microseconds."""
        values = self.layout.labels(pa.table({name: dictionary}), name, where)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise InputError(
                f"Column {name!r} has NaN among its labels; every row needs a value, to find its"
                " cell.",
                column=name,
            )
        if values.dtype.kind == "M":
            fine = values.astype("datetime64[us]")
            if (fine.astype(values.dtype) != values).any():
                raise InputError(
                    f"Column {name!r} holds times finer than a microsecond; label cells by coarser"
                    " ones.",
                    column=name,
                )
            values = fine
        elif values.dtype.kind not in "biufU":
            raise InputError(
                f"Column {name!r} has type {dictionary.type}, which cannot label cells.",
                column=name,
            )
        self._one_kind(name, values.dtype)
        return label_keys(values)

    def _one_kind(self, name: str, found: np.dtype[Any]) -> None:
        """Refuse labels of another kind than those before."""
        known = self.kinds.setdefault(name, found)
        if KINDS[known.kind] != KINDS[found.kind] or (known.kind == "f" and known != found):
            one, two = (
                f"{KINDS[kind.kind]} ({kind})" if kind.kind == "f" else KINDS[kind.kind]
                for kind in (known, found)
            )
            raise InputError(
                f"Column {name!r} holds {one} in some rows and {two} in others; convert one of"
                " them.",
                column=name,
            )

    def arrays(self, which: Indices) -> tuple[np.ndarray, ...]:
        """The labels of some cells, an array for each column."""
        known, found = list(self.numbers), []
        for i, name in enumerate(self.layout.by):
            values = [known[place][i] for place in which.tolist()]
            kind = self.kinds[name]
            if kind.kind in "bfU":
                found.append(np.array(values, dtype=None if kind.kind == "U" else kind))
            else:
                found.append(
                    as_times(np.array(values, np.int64))
                    if kind.kind == "M"
                    else as_integers(values, name)
                )
        return tuple(found)


def as_times(microseconds: np.ndarray) -> np.ndarray:
    """Dates, if all are midnight; else times."""
    times = microseconds.astype("datetime64[us]")
    return times.astype("datetime64[D]") if not (microseconds % DAY).any() else times
