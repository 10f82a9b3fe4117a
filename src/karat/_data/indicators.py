"""Indicators of categories, kept as codes: a table that is narrow in memory and wide where it is read.

One-hot columns hold one number per row, its category.  They are written out block by block, where a block is in the cache of a
processor; a pass over codes reads a tenth of the memory that a pass over the written-out table does.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Indicators:
    """Columns of numbers, followed by indicators.

    Parameters
    ----------
    numbers : array of shape (n, c)
        Columns that are read as they are.
    places : array of int, of shape (n, k)
        The indicators that are 1 in a row, counted from the first; ``width`` for none.
    width : int
        How many indicators there are.
    """

    ndim = 2
    dtype = np.dtype(float)

    def __init__(self, numbers: np.ndarray, places: np.ndarray, width: int) -> None:
        self.numbers, self.places, self.width = numbers, places, width
        self.shape = (len(numbers), numbers.shape[1] + width)

    @classmethod
    def of_codes(cls, table: np.ndarray, categories: dict[int, int]) -> Indicators:
        """A table in which some columns (the keys) hold codes of categories, from 0 to a number (the values).

        Category 0 has no indicator: with the constant, those of the others span it.
        """
        plain = [column for column in range(table.shape[1]) if column not in categories]
        places, width = np.empty((len(table), len(categories)), dtype=np.int32), sum(categories.values())
        first = 0
        for number, (column, count) in enumerate(categories.items()):
            codes = table[:, column].astype(np.int32)
            places[:, number] = np.where(codes > 0, codes + (first - 1), width)
            first += count
        together = plain == list(range(len(plain)))
        return cls(table[:, : len(plain)] if together else table[:, plain], places, width)

    def __len__(self) -> int:
        return self.shape[0]

    def run(self, rows: slice) -> Indicators:
        """Consecutive rows, as a view."""
        return Indicators(self.numbers[rows], self.places[rows], self.width)

    def __getitem__(self, where: Any) -> np.ndarray:
        places = self.places[where]
        count = self.numbers.shape[1]
        block = np.zeros((len(places), self.shape[1] + 1))  # the last column is for rows without an indicator
        block[:, :count] = self.numbers[where]
        flat = places + (np.arange(len(places)) * block.shape[1] + count)[:, None]
        block.reshape(-1)[flat] = 1.0
        return block[:, :-1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(float if dtype is None else dtype, copy=False)
