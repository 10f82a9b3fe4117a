"""Names of columns as they are typed: one at a time, or several with commas between; checked before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from karat.errors import InputError


def known_columns(source: Sequence[str]) -> list[str]:
    """The columns of the files."""
    from karat.io._source import open_source

    return list(open_source(list(source), 1).schema().names)


def named(option: str, typed: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The columns that were typed; a name with a comma in it is one column if there is such a column."""
    found = []
    for text in typed or ():
        found += [text] if text in known else [part.strip() for part in text.split(",")]
    for name in found:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
            raise InputError(f"{option} {name}: the data has no such column; {hint}")
    return found
