"""Categories as columns of 0 and 1, and missing numbers as means.

    carrier   AA, UA, AA         ->  carrier=AA 1, 0, 1;  carrier=UA 0, 1, 0
    distance  3, missing, 5      ->  3, 4, 5

A pass of its own learns the levels and means of all used rows (:mod:`karat.io.learn`).  They
are stored with the coreset, so that the data is encoded in the same way when it is read again.
Levels are text (numbers in order of size).  Where missing numbers become the mean, a missing
category is a level of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from karat.data.arguments import ColumnRoles
from karat.errors import InputError
from karat.io.source import decoded, is_number, places, sort_of

MISSING = "(missing)"


@dataclass(frozen=True)
class Encoding:
    """How columns are encoded.

    Attributes
    ----------
    columns : tuple of str
        Categories, each of which becomes a column per level.
    fill : bool
        Missing numbers become the mean of their column.
    levels : mapping of column to levels, or None
        None before they are learned; the level None is that of missing values.
    means : mapping of column to float
    lenient : bool
        An unknown level is 0 in every column instead of an error; the data may have changed.
    """

    columns: tuple[str, ...] = ()
    fill: bool = False
    levels: Mapping[str, tuple[str | None, ...]] | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    lenient: bool = False

    @staticmethod
    def read(stored: Mapping[str, Any] | None) -> Encoding | None:
        """From the JSON of a provenance, to read the data of a coreset again."""
        if stored is None:
            return None
        levels = {name: tuple(values) for name, values in stored["levels"].items()}
        return Encoding(
            tuple(levels), bool(stored["fill"]), levels, dict(stored["means"]), lenient=True
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON, and for :meth:`read`."""
        levels = {name: list(values) for name, values in (self.levels or {}).items()}
        return {"levels": levels, "fill": self.fill, "means": dict(self.means)}

    def names(self, features: Sequence[str]) -> list[str]:
        """The names of the encoded features."""
        names: list[str] = []
        for name in features:
            several = (self.levels or {}).get(name, ())
            names += (
                [f"{name}={MISSING if level is None else level}" for level in several]
                if name in self.columns
                else [name]
            )
        counted = Counter(names)
        twice = next((name for name in names if counted[name] > 1), None)
        if twice is not None:
            raise InputError(
                f"Two encoded columns would be called {twice!r}; rename the column {twice!r} of the"
                " data."
            )
        return names

    def most_levels(self) -> str:
        """What to do about too many columns: the category that makes most of them, if one does."""
        if not self.levels:
            return ""
        name, levels = max(self.levels.items(), key=lambda item: len(item[1]))
        return (
            f"Column {name!r} becomes {len(levels):,} of the columns, one for each of its"
            " levels; leave it out if it only numbers the rows."
        )

    def indicators(self, name: str, text: Any) -> np.ndarray:
        """A column of 0 and 1 per level (n, levels) of values :func:`level_text`; no columns before
        levels are learned.
        """
        if self.levels is None:
            return np.zeros((len(text), 0), dtype=np.int8)
        levels = self.levels[name]
        return np.asarray(places(text, levels)[:, None] == np.arange(len(levels)), dtype=np.int8)

    def check_known(
        self, blocks: Mapping[str, np.ndarray], keep: np.ndarray, where: Callable[[int], str]
    ) -> None:
        """Raise if a used row has a level that the first pass did not see."""
        for name in () if self.lenient or self.levels is None else self.columns:
            unknown = keep & ~blocks[name].any(axis=1)
            if unknown.any():
                raise InputError(
                    f"{where(int(unknown.argmax()))}: column {name!r} has a level that the first"
                    " pass did not see; the data has changed. Run again.",
                    column=name,
                )


def categories(schema: pa.Schema, roles: ColumnRoles) -> tuple[str, ...]:
    """The features that are text: what one_hot="auto" encodes."""
    text = {f.name for f in schema if sort_of(f.type) == "text" and not is_number(f)}
    return tuple(name for name in roles.among(schema.names).features if name in text)


def level_text(column: Any) -> Any:
    """The levels of a column, as text; missing ones and NaN are null."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = decoded(column)
    if pa.types.is_nested(column.type):
        raise InputError(
            f"A column of type {column.type} has no categories; leave it out, or make text or"
            " numbers of it."
        )
    if pa.types.is_floating(column.type):
        # -0.0 and 0.0 are one level
        column = pc.if_else(pc.is_nan(column), None, pc.add(column, pa.scalar(0.0, column.type)))
    return column.cast(pa.large_string())
