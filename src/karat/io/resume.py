"""Several passes over files, from which a run that was killed resumes.

    c.npz            the pass that the run is in: its position, its hashes, and its consumer
    c.pass-1.npz     the consumer of a pass that is finished, and the hashes of the rows

A run that resumes gets the consumers of finished passes from their files, goes on with the pass
that it was in, and computes everything between passes again.  So it ends with the same bits.
Consumers are large, so one is saved at a pause only if saving takes a tenth of the time, at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from karat.engine.rows import Progress
from karat.errors import InputError, reading, require
from karat.io.checkpoint import Checkpoint
from karat.io.layout import Layout
from karat.io.row_hashes import Hashes, RowHashes, SamePasses, seen_rows
from karat.io.scan import Consumer, Position, scan
from karat.io.source import Source
from karat.storage.archive import Spec, Stored

RARELY = 10  # times what the last save took pass between two saves
KINDS = "biufUM"  # of arrays in these files: numbers, text and dates


def validate_state(header: dict[str, Any], specs: Mapping[str, Spec]) -> None:
    """Raise unless the arrays are numbers, text or dates, and those that the header lists."""
    require(header.get("arrays") == sorted(specs), "its arrays are not those that it lists")
    require(all(spec.dtype.kind in KINDS for spec in specs.values()), "an array of another type")


class ResumableConsumer(Consumer):
    """A consumer whose :meth:`state` is all that a pass needs to go on."""

    def flush(self) -> None:
        """Called after the last row: nothing may wait any longer."""
        raise NotImplementedError


class ResumablePasses(SamePasses):
    """Passes over files with a checkpoint.

    Parameters
    ----------
    path : path
        An ``.npz`` file; files beside it hold finished passes.
    call : dict
        What must be the same for a run to be resumed.
    source : Source
    """

    def __init__(self, path: str | Path, call: dict[str, Any], source: Source) -> None:
        super().__init__()
        if not source.identity():
            raise InputError(
                "Only a run over files can be resumed; omit checkpoint=, or write the rows to"
                " files.",
                argument="checkpoint",
            )
        self.call, self.files, self.number = call, source.identity(), 0
        self.current = self._file(Path(path) if isinstance(path, str) else path, {})
        self.current.load()  # raises if it is of another call
        self.saved_at, self.seconds = time.monotonic(), 0.0

    def _file(self, path: Any, more: dict[str, Any]) -> Checkpoint:
        return Checkpoint(path, self.call | more, self.files, validate_state)

    def _finished(self, name: str) -> Checkpoint:
        path = self.current.path
        return self._file(path.with_name(f"{path.stem}.{name}{path.suffix}"), {"pass": name})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs from writing the checkpoint."""
        with self.current.locked():
            yield

    def remembered(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``make`` returns, for JSON; it is called if no run before has called it."""
        file = self._finished(name)
        saved = file.load()
        if saved is None:
            file.save({"made": make(), "arrays": []}, {}, {})
            saved = file.load()
            assert saved is not None
        made: dict[str, Any] = saved[0]["made"]
        return made

    def scan(
        self, source: Source, layout: Layout, consumers: Sequence[Consumer], rows: int,
        progress: Progress | None = None,
    ) -> Position:  # fmt: skip
        """A pass, or the rest of one that was interrupted; consumers without a state begin anew."""
        (consumer,) = consumers
        if not isinstance(consumer, ResumableConsumer):
            return super().scan(source, layout, consumers, rows, progress)
        self.number += 1
        finished = self._finished(f"pass-{self.number}")
        saved, position = finished.load(), Position()
        hashes = [Hashes(RowHashes(names, gaps=True)) for names in self.hashed(layout)]
        if saved is None:
            saved = self.current.load()
            if saved is not None and saved[0]["number"] != self.number:
                saved = None
        if saved is not None:
            header, arrays = saved
            with reading(f"{self.current.path}, or a file beside it,", "a checkpoint"):
                position = Position.restored(header["position"])
                hashes = [Hashes(RowHashes.from_dict(each, gaps=True)) for each in header["hashes"]]
                consumer.restore(header["consumer"], arrays)

        def state() -> Stored:
            header, arrays = consumer.state()
            contents = [each.state()[0]["content"] for each in hashes]
            return {
                "number": self.number, "position": position.state(len(self.files)),
                "hashes": contents, "consumer": header, "arrays": sorted(arrays),
            }, arrays  # fmt: skip

        def save(file: Checkpoint) -> None:
            began = time.monotonic()
            header, arrays = state()
            file.save(header, {}, arrays)
            self.saved_at = time.monotonic()
            self.seconds = self.saved_at - began

        def pause() -> None:
            if time.monotonic() - self.saved_at >= RARELY * self.seconds:
                save(self.current)

        if position.point.file < len(source.names):
            scan(
                source, layout, [*hashes, consumer], rows, position=position, progress=progress,
                save=pause,
            )  # fmt: skip
            consumer.flush()
            save(finished)
        self.compare({tuple(each.rows.columns): seen_rows(each.rows) for each in hashes})
        return position
