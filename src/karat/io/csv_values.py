"""The values of a CSV file that pyarrow cannot read as the numbers they should be: one by one, by its own rules."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from karat.engine.offsets import WHOLE

WHOLE_NUMBER = re.compile(r"^[ \t]*[+-]?[0-9]{1,300}[ \t]*$")
# What pyarrow reads as a number: no underscores, no digits of other scripts, no words but infinity.
NUMBER = re.compile(r"[ \t]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|infinity)[ \t]*", re.IGNORECASE | re.ASCII)
SWITCH = {"true": True, "false": False, "1": True, "0": False}


def is_large(column: pa.ChunkedArray) -> bool:
    """Whether numbers are beyond 2^53; a double of 2^53 may have been 2^53 + 1 before it was rounded."""
    if not len(column) or column.null_count == len(column):
        return False
    if pa.types.is_float64(column.type) and not column.null_count:
        values = [chunk.to_numpy() for chunk in column.chunks if len(chunk)]
        top = np.max([(v.max(), -v.min()) for v in values])  # faster than pyarrow's, but NaN wins
        if not np.isnan(top):
            return bool(top >= WHOLE)
    low, high = pc.min_max(column).as_py().values()
    return bool(max(-low, high) >= WHOLE)


def is_long(column: pa.ChunkedArray) -> bool:
    """Whether a column holds whole numbers beyond 2^53."""
    return pa.types.is_integer(column.type) and is_large(column)


def number_of(text: str | None) -> float | None:
    """What a value says; None if that is no number to pyarrow."""
    return float(text) if text is not None and NUMBER.fullmatch(text) else None


def _switch(text: str | None) -> bool | None:
    """The same for a column of true and false."""
    return None if text is None else SWITCH.get(text.strip(" \t").lower())


def _whole_number(text: str | None) -> int | None:
    """The same for a column of whole numbers of 64 bits."""
    number = int(text) if text is not None and "+" not in text and WHOLE_NUMBER.match(text) else None
    return None if number is None or not -(2**63) <= number < 2**63 else number


def as_numbers(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """Text columns as numbers of the given types; what is not one becomes null."""
    for name, kind in types.items():
        values = pa.array([READ[kind](value) for value in table[name].to_pylist()], kind)
        table = table.set_column(table.column_names.index(name), name, values)
    return table


READ = {pa.float64(): number_of, pa.bool_(): _switch, pa.int64(): _whole_number}
