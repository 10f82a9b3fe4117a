"""Several passes over one source, which must read the same rows.

A query may give other rows every time, and a table or file may change meanwhile.  So every pass
hashes its rows (:mod:`karat.io.row_hashes`), and the sums of the hashes, which do not depend on the
order of the rows, are compared with those of an earlier pass over the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from karat.engine.rows import Progress
from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.row_hashes import MODULUS, RowHashes
from karat.io.scan import Consumer, Hashes, Position, scan
from karat.io.source import Source

Columns = tuple[str, ...]
Seen = tuple[int, int, int]  # rows, and the two sums of their hashes
OTHER_ROWS = (
    "A later pass over the data read other rows than the first: a query gives other rows every"
    " time, or the data changed meanwhile. Write the rows to a file first, and read that."
)


def seen_rows(hashes: RowHashes) -> Seen:
    """What must be the same in every pass."""
    return hashes.rows, hashes.sums[0], hashes.sums[1]


def joined_seen(parts: Sequence[Seen]) -> Seen:
    """Of the rows of several parts of the data."""
    rows, first, second = (sum(numbers) for numbers in zip(*parts, strict=True))
    return rows, first % MODULUS, second % MODULUS


def require_same(first: Seen, later: Seen) -> None:
    """Raise if two passes did not read the same rows."""
    if first != later:
        raise InputError(OTHER_ROWS)


class SamePasses:
    """The hashes of the passes over a source, by the columns that were read."""

    def __init__(self) -> None:
        self.seen: dict[Columns, Seen] = {}

    def remembered(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``make`` returns."""
        return make()

    def hashed(self, layout: Layout) -> list[Columns]:
        """The columns to hash in a pass: all of them, and those of an earlier pass, if others."""
        columns = tuple(sorted(layout.columns))
        before = [known for known in self.seen if set(known) <= set(columns)]
        return sorted({columns, max(before, key=len, default=columns)})

    def compare(self, now: Mapping[Columns, Seen]) -> None:
        """Raise if a pass did not read the rows of the passes before."""
        for columns, seen in now.items():
            require_same(self.seen.setdefault(columns, seen), seen)

    def scan(
        self, source: Source, layout: Layout, consumers: Sequence[Consumer], rows: int,
        progress: Progress | None = None,
    ) -> Position:  # fmt: skip
        """:func:`karat.io.scan.scan`; an error if the rows are not those of the passes before."""
        if source.in_memory or source.once:
            return scan(source, layout, consumers, rows, progress=progress)
        hashes = {names: Hashes(RowHashes(names, gaps=True)) for names in self.hashed(layout)}
        position = scan(source, layout, [*hashes.values(), *consumers], rows, progress=progress)
        self.compare({names: seen_rows(each.rows) for names, each in hashes.items()})
        return position
