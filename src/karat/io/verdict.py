"""The result of a verification: the certificate, and how the rows compare with the stored hashes.

The values of changed rows are read on request (:func:`read_changed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

from karat.core.certify import Certificate
from karat.core.wording import certificate_facts, data_verdict, notebook_box
from karat.errors import InputError, several
from karat.io.layout import Layout
from karat.io.row_hashes import BLOCK, RowHashes, changed_row, spans
from karat.io.source import ResumePoint, Source

Data = Literal["identical", "reordered", "changed", "unknown"]


@dataclass(frozen=True)
class Changed:
    """A block of rows that has changed: rows ``start`` up to ``stop`` of the source.

    Attributes
    ----------
    start, stop : int
    files : tuple of (name, start, stop)
        The same rows by file, and rows in it.
    row : int or None
        The row that has changed, if it is a single one and the hashes identify it.
    place : (name, row) or None
        Its file, and row in it.
    values : dict or None
        The values of the row now, on request (``locate``).
    """

    start: int
    stop: int
    files: tuple[tuple[str, int, int], ...]
    row: int | None = None
    place: tuple[str, int] | None = None
    values: dict[str, Any] | None = None

    def __str__(self) -> str:
        if self.row is not None:
            inside = "" if self.place is None else f" ({self.place[0]} row {self.place[1]:,})"
            holds = (
                ""
                if self.values is None
                else f", which now is {', '.join(f'{k} = {v}' for k, v in self.values.items())}"
            )
            return f"row {self.row:,}{inside}{holds}"
        inside = ", ".join(f"{name} rows {a:,} to {b - 1:,}" for name, a, b in self.files[:3])
        inside += f" and {len(self.files) - 3:,} more files" * (len(self.files) > 3)
        rows = (
            f"the block of {several(self.stop - self.start, 'row')} from {self.start:,} to"
            f" {self.stop - 1:,}"
        )
        return f"somewhere in {rows}" + (f" ({inside})" if inside else "")


@dataclass(frozen=True)
class FileVerification:
    """What :func:`karat.verify_files` found.

    Attributes
    ----------
    certificate : Certificate
        The coreset measured again on all rows.
    data : {"identical", "reordered", "changed", "unknown"}
        How the rows compare with the stored hashes; "unknown" if there are none, or if they are of
        other columns.
    changed : tuple of Changed
        The blocks of 32,768 rows that differ, if the data has changed, and the row, where a single
        row of a block has.
    moved : tuple of int
        The ``core.indices`` at which the data has another row than the coreset.
    columns : tuple of str
        The columns that were read; others are not verified.
    """

    certificate: Certificate
    data: Data
    changed: tuple[Changed, ...]
    moved: tuple[int, ...]
    columns: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the coreset is exact for this data, and the data has not changed (except for its
        order).
        """
        return self.certificate.ok and self.data != "changed"

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return {
            "ok": self.ok,
            "data": self.data,
            "changed": [asdict(block) for block in self.changed],
            "moved": list(self.moved),
            "columns": list(self.columns),
            "certificate": self.certificate.to_dict(),
        }

    def __str__(self) -> str:
        return f"Data: {self._data()}. {self.certificate}"

    def _repr_html_(self) -> str:
        facts = {"data": self._data()} | certificate_facts(self.certificate)
        return notebook_box("Verification", facts, ok=self.ok)

    def _data(self) -> str:
        more = f" and {len(self.changed) - 3:,} more blocks" if len(self.changed) > 3 else ""
        where = f" ({'; '.join(map(str, self.changed[:3]))}{more})" if self.changed else ""
        return data_verdict(self.data, len(self.columns)) + where


def compare(
    stored: dict[str, Any] | None, hashes: RowHashes, names: Sequence[str], counts: dict[int, int]
) -> tuple[Data, tuple[Changed, ...]]:
    """The rows read, from files of these names and numbers of rows, against the hashes stored."""
    if stored is None:
        return "unknown", ()
    fresh = hashes.to_dict()
    if all(fresh[name] == stored[name] for name in ("rows", "parts", "blocks")):
        return "identical", ()
    if all(fresh[name] == stored[name] for name in ("rows", "sums")):
        return "reordered", ()
    both = zip_longest(spans(fresh), spans(stored), fresh["blocks"], stored["blocks"])
    differ = [(i, now, then) for i, (now, then, a, b) in enumerate(both) if a != b or now != then]
    changed = []
    for i, now, then in differ:
        start, stop = now or then or (0, 0)
        block = Changed(start, stop, _places(start, stop, names, counts))
        row = changed_row(stored, fresh, i, alone=len(differ) == 1) if now == then else None
        if row is not None:
            place = _places(start + row, start + row + 1, names, counts)
            block = replace(block, row=start + row, place=place[0][:2] if place else None)
        changed.append(block)
    return "changed", tuple(changed)


def _places(
    start: int, stop: int, names: Sequence[str], counts: dict[int, int]
) -> tuple[tuple[str, int, int], ...]:
    """Rows of the source by file, and rows in it."""
    places, first = [], 0
    for file, name in enumerate(names):
        a, b = max(start - first, 0), min(stop - first, counts.get(file, 0))
        if a < b:
            places.append((name, a, b))
        first += counts.get(file, 0)
    return tuple(places)


def read_changed(
    source: Source, layout: Layout, changed: tuple[Changed, ...]
) -> tuple[Changed, ...]:
    """The blocks with the values of their changed rows; reading stops after the last of these
    rows.
    """
    wanted = {block.row for block in changed if block.row is not None}
    if not wanted:
        return changed
    if source.once:
        raise InputError(
            "A stream can be read only once, so changed rows cannot be located; omit locate=, or"
            " use files."
        )
    values: dict[int, dict[str, Any]] = {}
    first = 0
    layout = layout.among(source.schema())
    for chunk in source.chunks(
        layout.columns, layout.numeric, BLOCK, ResumePoint(), strict=not layout.drop
    ):
        rows = chunk.table.num_rows
        for row in sorted(row for row in wanted - values.keys() if first <= row < first + rows):
            row_table = chunk.table.slice(row - first, 1)
            values[row] = {name: row_table.column(name)[0].as_py() for name in layout.columns}
        first += rows
        if len(values) == len(wanted):
            break
    return tuple(
        replace(block, values=values.get(block.row)) if block.row is not None else block
        for block in changed
    )
