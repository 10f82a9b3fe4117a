"""Which kept rows are rows of the data: they are looked for among the rows of their cells, wherever
these come.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from karat.cubes.cells import Cells, label_list
from karat.cubes.layout import Labels
from karat.engine.linalg import Flags, Indices


class Present:
    """Looks for the kept rows of some cells: equal numbers (and key) under the same label.

    Attributes
    ----------
    found : array of bool
        For each kept row, whether it has come.
    """

    def __init__(self, cells: Cells) -> None:
        self.columns = cells.columns
        self.found: Flags = np.zeros(len(cells.weights), dtype=bool)
        self._places: dict[tuple[Any, ...], list[int]] = {}
        labels, cell_of = label_list(cells), np.repeat(np.arange(len(cells)), cells.sizes).tolist()
        for place, (cell, *row) in enumerate(
            zip(cell_of, *_values(cells.columns, cells.keys), strict=True)
        ):
            self._places.setdefault((labels[cell], *row), []).append(place)

    def look(
        self, labels: Labels, codes: Indices, columns: Sequence[np.ndarray], keys: Any
    ) -> None:
        """Look among some rows; ``codes`` are the numbers of their labels."""
        left = np.flatnonzero(~self.found)
        if not len(left):
            return
        near = np.arange(len(codes))
        # few rows share every number with some kept row
        for mine, theirs in zip(self.columns, columns, strict=True):
            near = near[np.isin(theirs[near], mine[left])]
        known = list(labels.numbers)
        rows = _values(
            [codes[near], *(column[near] for column in columns)],
            None if keys is None else np.asarray(keys)[near],
        )
        for code, *row in zip(*rows, strict=True):
            self.found[self._places.get((known[code], *row), [])] = True

    def emptied(self) -> Present:
        """The same before anything has come."""
        other = copy(self)
        other.found = np.zeros_like(self.found)
        return other


def _values(columns: Sequence[np.ndarray], keys: np.ndarray | None) -> list[list[Any]]:
    """Columns as Python's numbers, of which whole ones and others compare exactly."""
    return [column.tolist() for column in (*columns, *(() if keys is None else (keys,)))]
