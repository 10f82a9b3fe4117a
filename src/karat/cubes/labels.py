"""The labels of cells, as their rows come.

A label is text, a number, a boolean, a date or a time; all labels of a column are of one kind.
Labels of different kinds are never converted silently: in double precision 2**53 and 2**53 + 1
would be one label.  Arrow's dictionary encoding finds the labels of a batch, so that Python handles
each of them once per batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from karat.cubes.cells import KINDS, CellLayout, as_integers, check_type, label_keys
from karat.data.labels import encode_sorted
from karat.engine.linalg import Indices
from karat.errors import InputError
from karat.io.layout import require_values

DAY = 86_400 * 10**6  # microseconds


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
