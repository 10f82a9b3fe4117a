"""Several passes over one source, which must read the same rows.

A query may give other rows every time, and a table or file may change meanwhile.  So every pass
hashes its rows (:mod:`karat.io.row_hashes`), and the sums of the hashes, which do not depend on the
order of the rows, are compared with those of an earlier pass over the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from karat.engine.rows import Progress
from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.row_hashes import RowHashes
from karat.io.scan import Consumer, Hashes, Position, scan
from karat.io.source import Source

Seen = tuple[int, int, int]  # rows, and the two sums of their hashes
OTHER_ROWS = (
    "A later pass over the data read other rows than the first: a query gives other rows every"
    " time, or the data changed meanwhile. Write the rows to a file first, and read that."
)


def seen_rows(hashes: RowHashes) -> Seen:
    """What must be the same in every pass."""
    return hashes.rows, hashes.sums[0], hashes.sums[1]


def require_same(first: Seen, later: Seen) -> None:
    """Raise if two passes did not read the same rows."""
    if first != later:
        raise InputError(OTHER_ROWS)


class SamePasses:
    """The hashes of the passes over a source, by the columns that were read."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, ...], Seen] = {}

    def scan(
        self, source: Source, layout: Layout, consumers: Sequence[Consumer], rows: int,
        progress: Progress | None = None,
    ) -> Position:  # fmt: skip
        """:func:`karat.io.scan.scan`; an error if the rows are not those of the passes before."""
        if source.in_memory or source.once:
            return scan(source, layout, consumers, rows, progress=progress)
        columns = tuple(sorted(layout.columns))
        before = [known for known in self.seen if set(known) <= set(columns)]
        hashed = {columns, max(before, key=len, default=columns)}
        hashes = [Hashes(RowHashes(names, gaps=True)) for names in sorted(hashed)]
        position = scan(source, layout, [*hashes, *consumers], rows, progress=progress)
        for each in hashes:
            now = seen_rows(each.rows)
            require_same(self.seen.setdefault(tuple(each.rows.columns), now), now)
        return position
