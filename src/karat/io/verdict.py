"""The verdict on data that was read again: the moments, and the rows themselves against the hashes that were stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Literal

from karat._core.certify import Certificate
from karat._core.wording import data_verdict
from karat.io.row_hashes import RowHashes, spans

Data = Literal["identical", "reordered", "changed", "unknown"]


@dataclass(frozen=True)
class Changed:
    """A block of rows whose content is not what it was: rows ``start`` up to ``stop`` of the source, by file and row in it."""

    start: int
    stop: int
    files: tuple[tuple[str, int, int], ...]

    def __str__(self) -> str:
        inside = ", ".join(f"{name} rows {a:,} to {b - 1:,}" for name, a, b in self.files[:3])
        inside += f" and {len(self.files) - 3:,} more files" * (len(self.files) > 3)
        return f"rows {self.start:,} to {self.stop - 1:,}" + (f" ({inside})" if inside else "")


@dataclass(frozen=True)
class FileVerification:
    """What :func:`karat.verify_files` found.

    Attributes
    ----------
    certificate : Certificate
        The coreset measured afresh against all rows.
    data : {"identical", "reordered", "changed", "unknown"}
        The rows against the hashes that were stored; "unknown" if there are none, or if they are of other columns.
    changed : tuple of Changed
        The blocks that differ, if the data has changed.
    moved : tuple of int
        Those of ``core.indices`` at which the data has another row than the coreset.
    columns : tuple of str
        The columns that were read; nothing is said of others.
    """

    certificate: Certificate
    data: Data
    changed: tuple[Changed, ...]
    moved: tuple[int, ...]
    columns: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the coreset is exact for this data, and the data is what it was made from (in any order)."""
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
        more = f" and {len(self.changed) - 3:,} more blocks" if len(self.changed) > 3 else ""
        where = f" ({'; '.join(map(str, self.changed[:3]))}{more})" if self.changed else ""
        return f"Data: {data_verdict(self.data, len(self.columns))}{where}. {self.certificate}"


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
    differ = [
        now or then
        for now, then, a, b in zip_longest(spans(fresh), spans(stored), fresh["blocks"], stored["blocks"])
        if a != b or now != then
    ]
    return "changed", tuple(Changed(a, b, _places(a, b, names, counts)) for a, b in differ)


def _places(start: int, stop: int, names: Sequence[str], counts: dict[int, int]) -> tuple[tuple[str, int, int], ...]:
    """Rows of the source by file, and rows in it."""
    found, first = [], 0
    for file, name in enumerate(names):
        a, b = max(start - first, 0), min(stop - first, counts.get(file, 0))
        if a < b:
            found.append((name, a, b))
        first += counts.get(file, 0)
    return tuple(found)
