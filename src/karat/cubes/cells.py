"""Cells: for every label of a cube a few weighted rows, and the certificate that they are exact.

Cells are stored one after the other in the order of their labels; the rows of cell g are
``starts[g]:starts[g + 1]`` of every column.  Rows of a cell are numbered from 0 on in order of
arrival; rows of several cells are numbered one cell after the other.  Cells are immutable: every
operation returns new ones.

A label is text, a number, a boolean, a date or a time; all labels of a column are of one kind.
Labels of different kinds are never converted silently: in double precision 2**53 and 2**53 + 1
would be one label.  Arrow's dictionary encoding finds those of a batch, so that Python handles each
of them once per batch.

:mod:`karat.cubes.reduce` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat.core.certify import Certificate
from karat.core.synthetic import REAL, SYNTHETIC
from karat.cubes.hashes import CellHashes
from karat.data.arguments import column_roles
from karat.data.labels import encode_sorted
from karat.engine.fourth_moments import FourthSums
from karat.engine.linalg import Array, Flags, Indices
from karat.errors import InputError
from karat.io.layout import Layout, require_values
from karat.io.source import pandas_index
from karat.problems import Problem

MADE = -1  # the number of a row that was made


KINDS = {
    "b": "booleans",
    "i": "integers",
    "u": "integers",
    "f": "numbers with a fraction",
    "M": "dates",
    "U": "text",
}


UTC_NAMES = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")


LARGEST = np.iinfo(np.int64).max
DAY = 86_400 * 10**6  # microseconds


def check_type(kind: Any, name: str) -> None:
    """Raise if the Arrow type of a column cannot label cells."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.tz not in UTC_NAMES:
        raise InputError(
            f"Column {name!r} has times in the time zone {kind.tz}, whose days differ from those of"
            " UTC. Convert it to dates of that zone (in pandas"
            f" frame[{name!r}].dt.tz_localize(None)), or to UTC, before it labels cells.",
            column=name,
        )
    if (
        pa.types.is_nested(kind)
        or isinstance(kind, pa.BaseExtensionType)
        or pa.types.is_duration(kind)
        or pa.types.is_interval(kind)
    ):
        raise InputError(
            f"Column {name!r} has type {kind}, which cannot label cells; convert it to text,"
            " numbers or dates.",
            column=name,
        )


def label_keys(values: np.ndarray) -> list[Any]:
    """Labels as dict keys: dates are integers of their unit."""
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


@dataclass(frozen=True)
class CellLayout(Layout):
    """A layout with columns that label cells.

    Attributes
    ----------
    by : tuple of str
    rows : str
        What cells keep: "synthetic" rows, where these are exact, or "real" ones.
    cov : str or None
        The robust covariances that cells keep the sums of.
    """

    by: tuple[str, ...] = ()
    rows: str = REAL
    cov: str | None = None

    @staticmethod
    def for_cells(
        problem: Problem,
        target: Any,
        by: Any,
        columns: Any,
        weight: str | None,
        key: str | None,
        on_missing: str,
        rows: str,
        cov: str | None,
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
        return CellLayout(layout.roles, drop=layout.drop, by=names, rows=rows, cov=cov)

    @property
    def makes_rows(self) -> bool:
        """Whether cells keep synthetic rows, where these are exact."""
        return self.rows == SYNTHETIC

    @property
    def columns(self) -> list[str]:
        """All columns to read, each once."""
        return list(dict.fromkeys([*self.roles.columns, *self.by]))

    def named(self, names: Sequence[str], apart: Sequence[str] = ()) -> CellLayout:
        """The layout with its columns found among ``names``; label columns, and those in ``apart``,
        are features only if listed.
        """
        for name in self.by:
            if name not in names:
                raise InputError(
                    f"The data has no column {name!r} to label cells by; it has {', '.join(names)}."
                )
        others = [name for name in names if name not in (*self.by, *apart)]
        return replace(self, roles=self.roles.among(names if self.roles.features else others))

    def among(self, schema: pa.Schema) -> CellLayout:
        """The layout with its columns found in a schema; an error if a type does not fit."""
        layout = self.named(schema.names, pandas_index(schema))
        for name in self.by:
            check_type(schema.field(name).type, name)
        layout.check_numbers(schema)
        return layout


@dataclass(frozen=True)
class Cells:
    """Weighted rows of cells.

    Attributes
    ----------
    labels : tuple of arrays
        For each column that labels cells, its value in every cell.
    starts : array of shape (cells + 1,)
    columns : tuple of arrays
        The features of the kept rows, then the targets, each of its own type.
    weights : array
    numbers : int64 array
        Of each kept row, within its cell; -1 for rows that were made.
    keys : array or None
        Values of a key column, of real rows.
    certificates : tuple of Certificate
        One for each cell; ``n_rows`` says how many rows the cell has.
    origins : tuple of tuple of int
        For each cell, the changes of the cube that added its rows.
    parts : tuple of tuple of str
        For each cell, names of what it was put together from
        (:func:`karat.cubes.hashes.part_names`).
    hashes : CellHashes
        Of all rows of the data.
    fourth : FourthSums or None
        Of all rows of the data, from which HC0 and HC1 follow.
    """

    labels: tuple[np.ndarray, ...]
    starts: Indices
    columns: tuple[np.ndarray, ...]
    weights: Array
    numbers: np.ndarray
    keys: np.ndarray | None
    certificates: tuple[Certificate, ...]
    origins: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[str, ...], ...]
    hashes: CellHashes
    fourth: FourthSums | None = None

    def __len__(self) -> int:
        return len(self.certificates)

    @property
    def sizes(self) -> Indices:
        """Kept rows of each cell."""
        return np.diff(self.starts)

    @property
    def counts(self) -> np.ndarray:
        """The number of rows of the data in each cell."""
        return np.array([certificate.n_rows for certificate in self.certificates], dtype=np.int64)

    @property
    def made(self) -> Flags:
        """Which cells have rows that were made."""
        return np.isin(np.arange(len(self)), self.cell_of_rows[self.numbers == MADE])

    @property
    def cell_of_rows(self) -> Indices:
        """The cell of every kept row."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def totals(self) -> Array:
        """The total weight of each cell."""
        return np.add.reduceat(self.weights, self.starts[:-1]) if len(self) else np.zeros(0)

    def rows_of(self, chosen: Indices) -> Indices:
        """The places of the kept rows of some cells, one cell after the other."""
        return ranges(self.starts[:-1][chosen], self.sizes[chosen])

    def parts_of(self, places: Iterable[int]) -> list[str]:
        """What some cells were put together from."""
        return list(dict.fromkeys(part for i in places for part in self.parts[i]))

    def unhashed(self) -> Cells:
        """The same without hashes, for what is no cube of its own."""
        return replace(self, hashes=CellHashes.none(len(self)))

    def chosen(self, places: Indices) -> Cells:
        """Some of the cells, in a given order."""
        rows = self.rows_of(places)
        return Cells(
            tuple(values[places] for values in self.labels),
            starts_of(self.sizes[places]),
            tuple(column[rows] for column in self.columns),
            self.weights[rows],
            self.numbers[rows],
            None if self.keys is None else self.keys[rows],
            tuple(self.certificates[i] for i in places),
            tuple(self.origins[i] for i in places),
            tuple(self.parts[i] for i in places),
            self.hashes.chosen(places),
            None if self.fourth is None else self.fourth.chosen(places),
        )


def starts_of(sizes: Indices) -> Indices:
    """Where the rows of cells of these sizes begin, and where the last of them ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def ranges(starts: Indices, sizes: Indices) -> Indices:
    """The numbers ``start, start + 1, ..., start + size - 1`` for every start, one after the
    other.
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - sizes), sizes))


def in_order(labels: Sequence[np.ndarray], count: int) -> tuple[Indices, Indices]:
    """The order of labels, and where a new one begins in that order (with the end)."""
    if not labels:
        return np.arange(count), np.array([0, count] if count else [0])
    order = np.lexsort(tuple(reversed(labels)))
    new = np.zeros(count, dtype=bool)
    for values in labels:
        sorted_values = values[order]
        new[1:] |= sorted_values[1:] != sorted_values[:-1]
    new[:1] = True
    return order, np.append(np.flatnonzero(new), count)


def label_list(cells: Cells) -> list[tuple[Any, ...]]:
    """The label of every cell; dates are integers of microseconds."""
    if not cells.labels:
        return [()] * len(cells)
    values = (v.astype("datetime64[us]") if v.dtype.kind == "M" else v for v in cells.labels)
    return list(zip(*map(label_keys, values), strict=True))


def cell_name(cells: Cells, by: Sequence[str], cell: int) -> str:
    """The label of a cell, for error messages."""
    labels = zip(by, cells.labels, strict=True)
    return ", ".join(f"{name}={values[cell]}" for name, values in labels)


class Labels:
    """The labels of cells in order of appearance, numbered from 0 on.

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
            values, count = self._plain(name, encoded.dictionary, where), len(labels)
            pairs = (
                np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64) * count
                + places
            )
            present, places = encode_sorted(pairs)
            labels = [(*labels[pair % count], values[pair // count]) for pair in present.tolist()]
        numbers = [self.numbers.setdefault(label, len(self.numbers)) for label in labels]
        return np.array(numbers, dtype=np.intp)[places]

    def _plain(self, name: str, dictionary: Any, where: Callable[[int], str]) -> list[Any]:
        """The values of a dictionary as numbers and strings; times in microseconds."""
        values = self.layout.labels(pa.table({name: dictionary}), name, where)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise InputError(
                f"Column {name!r} has NaN among its labels; every row needs a label.",
                column=name,
            )
        if values.dtype.kind == "M":
            fine = values.astype("datetime64[us]")
            if (fine.astype(values.dtype) != values).any():
                raise InputError(
                    f"Column {name!r} holds times finer than a microsecond; round them before they"
                    " label cells.",
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

    def _one_kind(self, name: str, kind: np.dtype[Any]) -> None:
        """Raise if labels are of another kind than those before."""
        before = self.kinds.setdefault(name, kind)
        if KINDS[before.kind] != KINDS[kind.kind] or (before.kind == "f" and before != kind):
            first, second = (
                f"{KINDS[dtype.kind]} ({dtype})" if dtype.kind == "f" else KINDS[dtype.kind]
                for dtype in (before, kind)
            )
            raise InputError(
                f"Column {name!r} holds {first} in some rows and {second} in others; convert one of"
                " them.",
                column=name,
            )

    def arrays(self, cells: Indices) -> tuple[np.ndarray, ...]:
        """The labels of some cells, an array for each column."""
        labels, columns = list(self.numbers), []
        for i, name in enumerate(self.layout.by):
            values = [labels[place][i] for place in cells.tolist()]
            kind = self.kinds[name]
            if kind.kind in "bfU":
                columns.append(np.array(values, dtype=None if kind.kind == "U" else kind))
            else:
                columns.append(
                    as_times(np.array(values, np.int64))
                    if kind.kind == "M"
                    else as_integers(values, name)
                )
        return tuple(columns)


def as_times(microseconds: np.ndarray) -> np.ndarray:
    """Dates, if all are midnight; else times."""
    times = microseconds.astype("datetime64[us]")
    return times.astype("datetime64[D]") if not (microseconds % DAY).any() else times
