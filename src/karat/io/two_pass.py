"""coreset_files for latent-variable problems: the files are read twice, and a killed run resumes in either pass.

for batch in source:   sums += what the maps are made of          # checkpoint: the sums and the place
maps
for batch in source:   sketch.take(batch)                         # checkpoint: the maps, the sketch and the place
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from karat._core.construct import Progress
from karat._core.coreset import Coreset
from karat._core.files import problem_header
from karat._core.plan import FOLD
from karat._stream import state as sketch_state
from karat._storage.archive import flat, prefixed, read_archive, unflat, without_prefix, write_archive
from karat._stream.latent import FirstPass, SecondPass, finished
from karat._stream.sketch import Sketch
from karat.errors import InputError
from karat.io.build import Run, fold_rows
from karat.io.latent_roles import LatentRoles
from karat.io.row_hashes import Content
from karat.io.source import Place, open_source
from karat.problems import Moments
from karat.problems.latent import KnownMaps, Latent


class TwoPass(Run):
    """A run that reads its source twice."""

    def __init__(
        self, source: Any, problem: Latent, roles: LatentRoles, batch_rows: int | None, memory: int,
        checkpoint: str | Path | None, progress: Progress | None, random_state: int, content: bool,
    ) -> None:  # fmt: skip
        if isinstance(source, pa.RecordBatchReader):
            raise InputError(
                f"A stream comes only once, and {problem.describe()} takes two passes (maps, then tensor); write it to files."
            )
        self.given, self.batch_rows = source, batch_rows or FOLD
        opened = open_source(source, self.batch_rows)
        schema = opened.schema()
        self.roles = roles.among(schema.names)
        self.roles.layout.check(schema)
        self.problem, self.memory = problem, memory
        self.first = FirstPass(problem, self.roles.widths)
        self.second: SecondPass | None = None
        # No rows are kept before the maps are known; until then this one only holds the settings.
        idle = Sketch(Moments(1), self.roles.layout.key, random_state=random_state)
        idle.buffer_rows = fold_rows(problem, self.roles.layout, memory, batch_rows)
        layout = self.roles.layout
        hashes = Content(layout.columns, layout.gaps) if content else None
        super().__init__(opened, layout, idle, None if checkpoint is None else Path(checkpoint), progress, hashes)

    def _passes(self) -> Coreset:
        if self.second is None:
            self.scan()
            self._begin(KnownMaps(self.problem, self.first.maps(), self.roles.widths))
            self.source = open_source(self.given, self.batch_rows)
            self.place, self.dropped, self.bad, self.counts = Place(), 0, 0, {}
            self._save()
        self.scan()
        assert self.second is not None
        seen = self.first.samples
        notes = self.problem.notes(seen.inputs, seen.dropped)
        return finished(self.sketch.coreset(), self.second.known, seen.rows, notes)

    def _begin(self, known: KnownMaps, sketch: Sketch | None = None) -> None:
        """The second pass, from its beginning or with the sketch of a checkpoint."""
        before = self.sketch
        if sketch is None:
            sketch = Sketch(known, before.key, random_state=before.random_state, buffer_rows=before.buffer_rows)
            sketch._seconds = before._seconds
        self.sketch, self.second = sketch, SecondPass(known, sketch)

    @property
    def _hashed(self) -> Content | None:
        return self.content if self.second is None else None

    def _provenance(self, given: Any) -> dict[str, Any]:
        """Features of views in lists of their own; what the layout calls the group is the sequence."""
        found = super()._provenance(given)
        features, views = iter(found["columns"]), self.roles.widths or ()
        roles = found["roles"] | {"group": None, "sequence": found["roles"]["group"]}
        split = [list(islice(features, width)) for width in views] or found["columns"]
        return found | {"problem": self.problem.describe(), "columns": split, "roles": roles}

    def _feed(self, table: Any, where: Callable[[int], str]) -> int:
        dropped = self.roles.feed(self.second or self.first, table, where)
        self._check_size(where)
        return dropped

    def _check_size(self, where: Callable[[int], str]) -> None:
        pairs = (self.first.sums or {}).get("pairs")
        size = 0 if pairs is None else pairs.data.nbytes
        if size > self.memory // 4:
            raise InputError(
                f"Up to {where(0)} the words that occur together take {size:,} bytes, more than a quarter of "
                f"memory={self.memory:,}; give more, or leave rare words out."
            )

    def _share(self, place: Place) -> tuple[int, int]:
        done, total = self.source.share(place)
        return done + total * (self.second is not None), 2 * total

    def _call(self) -> dict[str, Any]:
        return super()._call() | {"problem": repr(self.problem), "widths": self.roles.widths and list(self.roles.widths)}

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        numbers, open_rows = self.first.samples.state()
        extra = self._state() | {"first": numbers, "seconds": self.sketch._seconds}
        arrays = prefixed("first", open_rows)
        if self.second is None:
            header = problem_header(self.problem) | {"extra": extra, "pass": 1}
            arrays |= prefixed("sums", flat(self.first.sums or {}))
        else:
            numbers, open_rows = self.second.samples.state()
            header, held = sketch_state.state(self.sketch, extra | {"second": numbers})
            header |= {"pass": 2}
            arrays |= held | prefixed("maps", self.second.known.maps) | prefixed("second", open_rows)
        write_archive(self.checkpoint, header, arrays)

    def _resume(self, path: Path) -> None:
        header, arrays = read_archive(path, "a checkpoint")
        extra = header.get("extra", {})
        if "pass" not in header:
            raise InputError(f"{path} is not a checkpoint of {self.problem.describe()}; choose another path.")
        self._go_on(path, extra)
        self.first.samples.restore(extra["first"], without_prefix("first", arrays))
        self.sketch._seconds = extra["seconds"]
        if header["pass"] == 1:
            self.first.sums = unflat(without_prefix("sums", arrays)) or None
            return
        known = KnownMaps(self.problem, without_prefix("maps", arrays), self.roles.widths)
        own = {name: value for name, value in arrays.items() if ":" not in name}
        self._begin(known, sketch_state.restored(header, own, str(path), known)[0])
        assert self.second is not None
        self.second.samples.restore(extra["second"], without_prefix("second", arrays))
