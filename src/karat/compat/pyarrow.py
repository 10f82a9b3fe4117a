"""pyarrow: the error messages of its CSV reader, and the column names that its scanner reserves."""

from __future__ import annotations

import re
from typing import NamedTuple

# column names that the scanner reserves
RESERVED = {"__filename", "__fragment_index", "__batch_index", "__last_in_fragment"}
INVALID = re.compile(
    r"column #(\d+): (?:Row #(\d+): )?.*?to (\w+).*invalid value '(.*)'", re.DOTALL
)


class InvalidValue(NamedTuple):
    """A value that is not of the type of its column; rows are numbered from 1, empty lines left
    out.
    """

    column: int
    row: int
    kind: str
    value: str


def invalid_value(message: str) -> InvalidValue | None:
    """The value that pyarrow's CSV reader could not convert; None for other errors."""
    match = INVALID.search(message)
    return InvalidValue(int(match[1]), int(match[2] or 1), match[3], match[4]) if match else None
