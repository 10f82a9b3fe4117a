"""The result of an experiment: text, tables and figures, from which the page and the files are
written.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karat.core.wording import grouped_digits, number

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows of cells with column names; ``name`` is the name of the CSV file."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"Table {self.name}: a row has {len(row)} cells for {len(self.columns)}"
                    " columns."
                )

    def shown(self) -> list[list[str]]:
        """Format the cells for the page; the CSV file has all digits."""
        return [[readable(cell) for cell in row] for row in self.rows]

    def numeric(self, column: int) -> bool:
        """Whether all cells of a column are numbers, which are aligned to the right."""
        return all(not isinstance(row[column], str) for row in self.rows)

    def write(self, path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(["" if cell is None else cell for cell in row] for row in self.rows)


@dataclass(frozen=True)
class Figure:
    """A matplotlib figure; ``name`` is the name of the PNG file."""

    name: str
    title: str
    drawing: Any

    def write(self, path: Path) -> None:
        self.drawing.savefig(path, dpi=120, metadata={"Title": self.title})


@dataclass(frozen=True)
class Experiment:
    """One section of the page."""

    title: str
    prose: Sequence[str]  # paragraphs about the method and the result
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()  # differences to the paper, and the reasons
    missing: Sequence[str] = ()  # messages about parts that were left out, and how to run them
    headline: str = ""  # the main result in a sentence, for the terminal


def readable(cell: Cell) -> str:
    """Format a cell for the page: four digits, seven for large numbers, two for small ones."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or cell == round(cell):
        return grouped_digits(int(cell)) if abs(cell) < 1e7 else number(cell)
    return number(cell, 7 if 1e3 <= abs(cell) < 1e7 else 4 if abs(cell) >= 1e-3 else 2)
