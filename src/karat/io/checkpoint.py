"""The checkpoint of a run over files, from which the run resumes after it was killed.

One process at a time writes it, and only a run of the same call reads it.  A pipeline, or the
function of a Kernel, cannot be stored, and a run that continued with another one would sum two
kinds of features.  So the checkpoint holds a digest of its output for the first rows.

A run of several passes (:class:`ResumablePasses`) has a file for each:

    c.npz            the pass that the run is in: its position, its hashes, and its consumer
    c.pass-1.npz     the consumer of a pass that is finished, and the hashes of the rows

A run that resumes gets the consumers of finished passes from their files, goes on with the pass
that it was in, and computes everything between passes again.  So it ends with the same bits.
Consumers are large, so one is saved at a pause only if saving takes a tenth of the time, at most.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from karat.engine.rows import Progress
from karat.engine.tolerances import PROOF_VERSION
from karat.errors import InputError, StorageError, reading, require
from karat.io.layout import Layout
from karat.io.row_hashes import Hashes, RowHashes, SamePasses, seen_rows
from karat.io.scan import Consumer, Position, changed_file, scan
from karat.io.source import ResumePoint, Source
from karat.problems import Kernel, Problem
from karat.storage.archive import LOCKS, Admit, Spec, Stored, read_archive, write_archive
from karat.stream.state import validate_schema

FIRST = 1024  # rows that are read for the digest
ROWS = 32  # of these, the rows whose output is compared
RARELY = 10  # times what the last save took pass between two saves
KINDS = "biufUM"  # of arrays in these files: numbers, text and dates


class Checkpoint:
    """A file from which a run that was killed resumes.

    Parameters
    ----------
    path : path
    call : dict
        What must be the same for a run to be resumed.
    files : list
        Names, sizes and times of the files that are read.
    schema : callable
        Raises if arrays are not those of a header.
    """

    def __init__(
        self, path: str | Path, call: dict[str, Any], files: list[list[Any]],
        schema: Admit = validate_schema,
    ) -> None:  # fmt: skip
        if not isinstance(path, str | os.PathLike) or Path(path).is_dir():  # "" is this folder
            raise InputError(
                f"checkpoint must be the path of a file, not {path!r}.", argument="checkpoint"
            )
        self.path, self.call, self.files, self.schema = Path(path), call, files, schema
        if not self.path.parent.is_dir():
            raise InputError(
                f"The folder {self.path.parent} of the checkpoint {self.path.name} does not exist;"
                " create it first."
            )

    def save(self, header: dict[str, Any], extra: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Write the state of a run; ``extra`` is what belongs to the run rather than to a
        sketch.
        """
        run_state = {"call": self.call, "files": self.files} | extra
        stamped = header | {"extra": run_state, "proof_version": PROOF_VERSION}
        write_archive(self.path, stamped, arrays, "a checkpoint", self.schema)

    def load(self) -> Stored | None:
        """What was saved, if it is of the same call and files; None if there is nothing."""
        if not self.path.exists():
            return None
        header, arrays = read_archive(self.path, "a checkpoint", self.schema)
        with reading(str(self.path), "a checkpoint"):
            saved = header.get("extra", {})
            if "call" not in saved:
                raise InputError(
                    f"{self.path} is a checkpoint of a sketch, not of a run over files; use another"
                    " path."
                )
            require(isinstance(saved["call"], dict), "it does not say of which call it is")
            differ = [name for name in self.call if saved["call"].get(name) != self.call[name]]
            require(
                all(isinstance(file, list) and len(file) == 3 for file in saved["files"]),
                "it does not name its files",
            )
        if differ:
            raise InputError(
                f"{self.path} is the checkpoint of another call: {', '.join(differ)} differ. Delete"
                " it to start afresh, or choose another path."
            )
        if saved["files"] != self.files:
            raise InputError(
                f"{changed_file(saved['files'], self.files)} changed since the checkpoint"
                f" {self.path} was written; delete the checkpoint to start afresh."
            )
        return header, arrays

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs from writing the checkpoint; the system releases the lock when the
        process ends.
        """
        if not LOCKS:  # Windows has no flock; writes are atomic in any case
            yield
            return
        lock = self.path.with_name(self.path.name + ".lock")
        with _locked(lock, self.path):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)


@contextmanager
def _locked(lock: Path, path: Path) -> Iterator[None]:
    """Hold the lock file, which is created again if another run has removed it meanwhile."""
    import fcntl

    while True:
        try:
            file = lock.open("w")
        except OSError as error:
            raise StorageError(f"{lock} could not be written ({error.strerror}).") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"Another process is writing the checkpoint {path}; wait for it or choose"
                    " another path."
                ) from None
            if not lock.exists() or not os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                continue
            yield
            return


def transform_digest(source: Source, layout: Layout, problem: Problem) -> str:
    """SHA-256 of the first rows after the pipeline and after the function of a Kernel."""
    chunks = source.chunks(
        layout.columns, layout.numeric, FIRST, ResumePoint(), strict=not layout.drop
    )
    for chunk in chunks:
        batch, _ = layout.batch(chunk.table.slice(0, FIRST), 0, chunk.where)
        if not len(batch):
            continue
        first_rows = batch.take(np.arange(min(ROWS, len(batch))))
        width, targets = sum(part.shape[1] for part in first_rows.parts), len(layout.roles.targets)
        blocks = [_doubles(first_rows.block(0, width - targets))]
        blocks += [_doubles(first_rows.block(width - targets, width))] if targets else []
        if isinstance(problem, Kernel):
            y = [blocks[1][:, 0] if targets == 1 else blocks[1]] if targets else []
            blocks = [problem.function(blocks[0], *y)]
        return hashlib.sha256(b"".join(_doubles(block).tobytes() for block in blocks)).hexdigest()
    raise InputError(
        "The source has no rows to use, so there is nothing to resume; omit checkpoint=."
    )


def _doubles(table: Any) -> np.ndarray:
    return np.ascontiguousarray(
        table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64
    )


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
