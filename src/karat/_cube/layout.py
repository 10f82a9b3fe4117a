"""How rows are read for a cube: the columns of a coreset, and those that label its cells.

A label is text, a number, a truth value, a date or a time.  Labels of a batch are found by Arrow's dictionary encoding, so that
Python sees each of them once a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat._cube.kinds import KINDS, check_type, label_keys, whole_numbers
from karat._data.labels import encode_sorted
from karat._data.roles import column_roles
from karat.engine.linalg import Indices
from karat.errors import InputError
from karat.io.layout import Layout, pandas_index, require_values
from karat.problems import Problem

DAY = 86_400 * 10**6  # microseconds


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
        problem: Problem, target: Any, by: Any, columns: Any, weight: str | None, key: str | None, on_missing: str
    ) -> CellLayout:
        """From the arguments of :func:`karat.cube`."""
        names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Iterable) else ()
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise InputError(f"by must name one column or several that label the cells, each once, not {by!r}.", argument="by")
        layout = Layout.of(problem, column_roles(problem, target, columns, weight, None, key, None), None, on_missing)
        taken = {*layout.roles.targets, *(name for name in (weight, key) if name is not None)}
        if taken & set(names):
            raise InputError(f"Column {min(taken & set(names))!r} labels cells, so it cannot be the target, a weight or a key.")
        return CellLayout(layout.roles, drop=layout.drop, by=names)

    @property
    def columns(self) -> list[str]:
        """All that must be read, each once."""
        return list(dict.fromkeys([*self.roles.columns, *self.by]))

    def named(self, names: Sequence[str], apart: Sequence[str] = ()) -> CellLayout:
        """The same among columns of these names; labels, and columns that are ``apart``, are features only if named as such."""
        for name in self.by:
            if name not in names:
                raise InputError(f"The data has no column {name!r} to label cells by; it has {', '.join(names)}.")
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
        places, labels = np.zeros(table.num_rows, dtype=np.int64), [()]  # of every row, its place among the labels so far
        for name in self.layout.by:
            column = table.column(name)
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            check_type(column.type, name)
            require_values(column, name, where)
            encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            own, count = self._plain(name, encoded.dictionary, where), len(labels)
            pairs = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64) * count + places
            present, places = encode_sorted(pairs)
            labels = [(*labels[pair % count], own[pair // count]) for pair in present.tolist()]
        found = [self.numbers.setdefault(label, len(self.numbers)) for label in labels]
        return np.array(found, dtype=np.intp)[places]

    def _plain(self, name: str, dictionary: Any, where: Callable[[int], str]) -> list[Any]:
        """The values of a dictionary as Python's numbers and texts; times in microseconds."""
        values = self.layout.labels(pa.table({name: dictionary}), name, where)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise InputError(
                f"Column {name!r} has NaN among its labels; every row needs a value, to find its cell.", column=name
            )
        if values.dtype.kind == "M":
            fine = values.astype("datetime64[us]")
            if (fine.astype(values.dtype) != values).any():
                raise InputError(
                    f"Column {name!r} holds times finer than a microsecond; label cells by coarser ones.", column=name
                )
            values = fine
        elif values.dtype.kind not in "biufU":
            raise InputError(f"Column {name!r} has type {dictionary.type}, which cannot label cells.", column=name)
        self._one_kind(name, values.dtype)
        return label_keys(values)

    def _one_kind(self, name: str, found: np.dtype[Any]) -> None:
        """Refuse labels of another kind than those before."""
        known = self.kinds.setdefault(name, found)
        if KINDS[known.kind] != KINDS[found.kind] or (known.kind == "f" and known != found):
            one, two = (f"{KINDS[kind.kind]} ({kind})" if kind.kind == "f" else KINDS[kind.kind] for kind in (known, found))
            raise InputError(f"Column {name!r} holds {one} in some rows and {two} in others; convert one of them.", column=name)

    def arrays(self, which: Indices) -> tuple[np.ndarray, ...]:
        """The labels of some cells, an array for each column."""
        known, found = list(self.numbers), []
        for i, name in enumerate(self.layout.by):
            values = [known[place][i] for place in which.tolist()]
            kind = self.kinds[name]
            if kind.kind in "bfU":
                found.append(np.array(values, dtype=None if kind.kind == "U" else kind))
            else:
                found.append(as_times(np.array(values, np.int64)) if kind.kind == "M" else whole_numbers(values, name))
        return tuple(found)


def as_times(microseconds: np.ndarray) -> np.ndarray:
    """Dates, if all are midnight; else times."""
    times = microseconds.astype("datetime64[us]")
    return times.astype("datetime64[D]") if not (microseconds % DAY).any() else times
