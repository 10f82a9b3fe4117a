"""pyarrow: the error messages of its CSV reader, and the column names that its scanner reserves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

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


def without_broken_lines(
    read: Callable[[Any], Any], error: ValueError, data: Any
) -> tuple[Any, list[Any]]:
    """What the CSV reader makes of text after this error, and the lines that it skips, which have
    too many or too few values; raise the error if it is another one.

    ``read`` gets the handler of such lines.  Where a line is not UTF-8, pyarrow prints a traceback
    instead of calling it.
    """
    if invalid_value(str(error)) is not None or not _is_utf8(data):
        raise error
    broken: list[Any] = []

    def skip(line: Any) -> str:
        broken.append(line)
        return "skip"

    return read(skip), broken


def _is_utf8(data: Any) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
