"""How many values the columns of a Parquet file claim to have, from its footer.

pyarrow looks at a damaged column of the footer where no exception is caught, and ends the process.
So the footer, a structure in Thrift's compact protocol, is read here; whatever is wrong with it is
an exception.
"""

from __future__ import annotations

import struct
from typing import Any

LENGTH = 8  # bytes after the footer: its own length, and PAR1
DEEPEST = 16  # structures inside one another
# types of fields
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCTURE = 1, 2, 3, 7, 8, 9, 10, 11, 12
INTEGERS = (4, 5, 6)
# fields: of the file, of a row group, of a column, of the metadata of a column
ROW_GROUPS, COLUMNS, METADATA, VALUES = 4, 1, 3, 5


def values_of_columns(data: bytes) -> list[list[int]]:
    """The number of values of every column, for each row group."""
    (length,) = struct.unpack("<I", data[-LENGTH:-4])
    if length > len(data) - LENGTH:
        raise ValueError("the footer is longer than the file")
    footer = _Reader(data[-LENGTH - length : -LENGTH]).structure(0)
    return [
        [int(column[METADATA][VALUES]) for column in group[COLUMNS]] for group in footer[ROW_GROUPS]
    ]


class _Reader:
    """Reads structures as dicts by the number of the field."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) < count:
            raise ValueError("the footer ends too early")
        self.at += count
        return taken

    def unsigned(self) -> int:
        """A number of seven bits per byte, the lowest first."""
        number = shift = 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError("a number in the footer has more than 64 bits")

    def integer(self) -> int:
        """A signed number: 0, -1, 1, -2, ..."""
        number = self.unsigned()
        return (number >> 1) ^ -(number & 1)

    def structure(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self.take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.integer()
            kind = head & 15
            fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("the footer is nested too deeply")
        if kind in (TRUE, FALSE, BYTE):  # in a list, booleans take a byte each
            return self.take(1)[0]
        if kind in INTEGERS:
            return self.integer()
        if kind == DOUBLE:
            return self.take(8)
        if kind == BINARY:
            return self.take(self.unsigned())
        if kind in (LIST, SET):
            head = self.take(1)[0]
            count = head >> 4 if head >> 4 < 15 else self.unsigned()
            return [self.value(head & 15, depth + 1) for _ in range(count)]
        if kind == MAP and (count := self.unsigned()):
            kinds = self.take(1)[0]
            return [
                (self.value(kinds >> 4, depth + 1), self.value(kinds & 15, depth + 1))
                for _ in range(count)
            ]
        if kind == STRUCTURE:
            return self.structure(depth + 1)
        if kind == MAP:
            return []
        raise ValueError(f"the footer has a field of type {kind}")
