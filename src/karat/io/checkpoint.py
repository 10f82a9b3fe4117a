"""The checkpoint of a run over files: written by one process at a time, and read only by a run of the same call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from karat._storage.archive import Stored, read_archive, write_archive
from karat.errors import InputError
from karat.io.scan import changed_file


class Checkpoint:
    """A file from which a run that was killed resumes.

    Parameters
    ----------
    path : path or None
        None: there is no checkpoint.
    call : dict
        What must be the same for a run to be resumed.
    files : list
        Names, sizes and times of the files that are read.
    """

    def __init__(self, path: str | Path | None, call: dict[str, Any], files: list[list[Any]]) -> None:
        self.path = None if path is None else Path(path)
        self.call, self.files = call, files
        if path is not None and not files:
            raise InputError("A stream comes only once, so it cannot be resumed; leave checkpoint out or write it to files.")

    def save(self, header: dict[str, Any], extra: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Write the state of a run; ``extra`` is what belongs to the run rather than to a sketch."""
        if self.path is not None:
            known = {"call": self.call, "files": self.files} | extra
            write_archive(self.path, header | {"extra": known}, arrays)

    def load(self) -> Stored | None:
        """What was saved, if it is of the same call and files; None if there is nothing."""
        if self.path is None or not self.path.exists():
            return None
        header, arrays = read_archive(self.path, "a checkpoint")
        saved = header.get("extra", {})
        if "call" not in saved:
            raise InputError(f"{self.path} is a checkpoint of a sketch, not of coreset_files; choose another path.")
        differ = [name for name, value in self.call.items() if saved["call"].get(name) != value]
        if differ:
            raise InputError(
                f"{self.path} is the checkpoint of another call: {', '.join(differ)} differ. Delete it to start afresh, or "
                "choose another path."
            )
        if saved["files"] != self.files:
            raise InputError(
                f"{changed_file(saved['files'], self.files)} changed since the checkpoint {self.path} was written; delete the "
                "checkpoint to start afresh."
            )
        return header, arrays

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Two runs must not write one checkpoint; the lock goes with the process, however it ends."""
        try:
            import fcntl
        except ImportError:  # not on this system: writes are atomic in any case
            yield
            return
        if self.path is None:
            yield
            return
        with self.path.with_name(self.path.name + ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"Another process is writing the checkpoint {self.path}; wait for it or choose another path."
                ) from None
            for left in self.path.parent.glob(f".{self.path.name}.*.part"):  # by a run that was killed while it wrote
                left.unlink()
            yield
