"""Cells: for every label of a cube a few weighted rows, and the certificate that they are exact.

Cells are stored one after the other in the order of their labels; the rows of cell g are
``starts[g]:starts[g + 1]`` of every column.  Rows of a cell are numbered from 0 on in order of
arrival; rows of several cells are numbered one cell after the other.  Cells are immutable: every
operation returns new ones.

:mod:`karat.cubes.reduce` makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat.core.certify import Certificate
from karat.core.synthetic import REAL, SYNTHETIC
from karat.cubes.hashes import CellHashes
from karat.data.arguments import column_roles
from karat.engine.linalg import Array, Flags, Indices
from karat.errors import InputError
from karat.io.layout import Layout
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
    """

    by: tuple[str, ...] = ()
    rows: str = REAL

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
        return CellLayout(layout.roles, drop=layout.drop, by=names, rows=rows)

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
