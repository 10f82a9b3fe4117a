"""Provenance: what a coreset was made from and how, so that you can make and check it again.

``core.provenance`` is its JSON.  Equal calls on equal data give equal JSON, except for ``created``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from karat.data.arguments import ColumnRoles
from karat.errors import several

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

# fields of a union, where all parts agree on them
SHARED = (
    "karat", "target", "columns", "roles", "pipeline", "on_missing", "encoding", "problem",
    "text_labels",
)  # fmt: skip

PART, COLUMNS = 16, 4  # characters of the name of a part of a cell; older versions had others
LEFT_OUT = {"missing": ("row", " with missing values"), "broken": ("broken row", "")}


@dataclass(frozen=True)
class Provenance:
    """What a coreset was made from; a field is None if that is not known."""

    karat: str | None = None  # the version
    created: str | None = None  # the time (UTC)
    command: str | None = None  # the line that was typed (set by the command line)
    # {"given": the paths passed, "files": [{"name" below their common folder, "size", "rows"}]};
    # both empty where rows did not come from files; a query of a database is in "query": {"sql",
    # "database"}
    source: Mapping[str, Any] = field(default_factory=dict)
    target: str | Sequence[str] | None = None
    columns: Sequence[Any] = ()  # the features; of MultiView a list per view
    # {"weight", "group", "key"}, of latent problems also "sequence"
    roles: Mapping[str, Any] = field(default_factory=dict)
    pipeline: str | None = None  # the class of the transformer
    on_missing: str | None = None  # "error", "drop" or "mean"
    # levels of one-hot columns, and means (:mod:`karat.io.layout`)
    encoding: Mapping[str, Any] | None = None
    # {"missing": rows, "broken": rows} that were left out
    dropped: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
    seed: int | None = None
    content: dict[str, Any] | None = None  # hashes of the rows (:mod:`karat.io.row_hashes`)
    # of the used columns, if it was asked for (:mod:`karat.io.content_digest`)
    digest: dict[str, Any] | None = None
    # columns of labels (groups, keys, categories) that are text; None in files of 0.2.0
    text_labels: Sequence[str] | None = None
    # the parts that the cells of a cube were put together from (:mod:`karat.cubes.hashes`), and the
    # batches that their rows came in: hashes of all rows of a batch, then of those of each file
    cells: Sequence[str] | None = None
    batches: Sequence[Sequence[str]] | None = None
    # the provenance of each part that was merged, None where a part has none
    merged: tuple[Provenance | None, ...] = ()

    @staticmethod
    def read(stored: Mapping[str, Any] | None) -> Provenance:
        """From JSON, which may lack fields."""
        if stored is None:
            return Provenance()
        names = {f.name for f in fields(Provenance)} - {"merged"}
        stored_fields = {
            name: value for name, value in stored.items() if name in names and value is not None
        }
        parts = tuple(
            None if part is None else Provenance.read(part) for part in stored.get("merged", ())
        )
        return Provenance(**stored_fields, merged=parts)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "merged"}
        return {
            name: value
            for name, value in values.items()
            if value is not None or name not in ("cells", "batches")
        }

    @property
    def parts(self) -> tuple[Provenance, ...]:
        """The provenance of each source: one, or those that were merged."""
        return tuple(part or Provenance() for part in self.merged) or (self,)

    @property
    def given(self) -> list[str]:
        """The paths that were passed, of all parts."""
        return [path for part in self.parts for path in part.source.get("given", [])]

    @property
    def query(self) -> Mapping[str, Any] | None:
        """The database query that returned the rows; None for other and for merged sources."""
        return self.source.get("query")

    @property
    def left_out(self) -> int:
        """Rows that did not count because a value was missing."""
        return sum(int(part.dropped.get("missing", 0)) for part in self.parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a certificate says about rows that were left out, for each source that had some."""
        notes = []
        for part in self.parts:
            counts = [part.dropped.get(kind, 0) for kind in LEFT_OUT]
            pairs = zip(counts, LEFT_OUT.values(), strict=True)
            phrases = [several(count, noun) + more for count, (noun, more) in pairs if count]
            if phrases:
                was = "was" if sum(counts) == 1 else "were"
                notes.append(f"{' and '.join(phrases)} {was} left out.")
        return tuple(notes)

    @property
    def targets(self) -> list[str] | None:
        """The names of the targets; None if there are none."""
        if self.target is None:
            return None
        return [self.target] if isinstance(self.target, str) else list(self.target)

    @property
    def features(self) -> list[str]:
        """The names of the features, those of views one after the other."""
        views = ([view] if isinstance(view, str) else view for view in self.columns)
        return [name for view in views for name in view]

    @property
    def widths(self) -> tuple[int, ...] | None:
        """Features of each view, where there are several."""
        return tuple(len(view) for view in self.columns if not isinstance(view, str)) or None

    @property
    def column_roles(self) -> ColumnRoles:
        """The roles of the columns."""
        roles = self.roles
        return ColumnRoles(
            tuple(self.features), tuple(self.targets or ()), roles.get("weight"),
            roles.get("group"), roles.get("key"), roles.get("sequence"), self.widths,
        )  # fmt: skip


def same_source(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> bool:
    """Whether two coresets share a source (by the hashes of its rows) or a cell of a cube."""
    mine, theirs = (Provenance.read(stored).parts for stored in (first, second))
    return any(_same_rows(one, other) for one in mine for other in theirs)


def _same_rows(one: Provenance, other: Provenance) -> bool:
    """Whether two sources have rows in common, by cells of cubes, batches and files."""
    mine, theirs = one.cells or (), other.cells or ()
    if not set(mine).isdisjoint(theirs):
        return True
    # The first characters of the name of a part say by which columns the cells are.  Cells by the
    # same columns have all rows of a batch with their labels, or none.
    columns = {name[:COLUMNS] if len(name) == PART else name for name in (*mine, *theirs)}
    comparable = bool(mine) and bool(theirs) and len(columns) == 1
    return any(
        not comparable if first[0] == second[0] else not set(first).isdisjoint(second)
        for first in _batches(one)
        for second in _batches(other)
    )


def _batches(source: Provenance) -> list[Sequence[str]]:
    """The batches that a source is, or that it was taken from, as :attr:`Provenance.batches`."""
    own = [[" ".join(source.content["sums"])]] if source.content else []
    return [*own, *(source.batches or ())]


def merged_provenance(
    first: dict[str, Any] | None, second: dict[str, Any] | None
) -> dict[str, Any] | None:
    """The JSON of a union: what each part says of its own rows, one after the other."""
    if first is None and second is None:
        return None
    parts = [part for stored in (first, second) for part in (stored or {}).get("merged", [stored])]
    records = [part or {} for part in parts]
    same = {
        name: records[0].get(name)
        for name in SHARED
        if all(part.get(name) == records[0].get(name) for part in records)
    }
    return same | {"merged": parts}


def with_provenance(
    core: Coreset, provenance: dict[str, Any] | None, notes: Sequence[str] = ()
) -> Coreset:
    """The coreset with what it was made from; its certificate says how many rows were left out."""
    known, before = Provenance.read(provenance), core.certificate.notes
    certificate = replace(
        core.certificate,
        left_out=known.left_out,
        notes=tuple(dict.fromkeys([*before, *notes, *known.notes])),
    )
    return replace(core, certificate=certificate, provenance=provenance)
