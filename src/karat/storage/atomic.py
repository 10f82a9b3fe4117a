"""Atomic writes: a file is there whole or not at all, whatever happens on the way.

A file is written beside its place under another name, ``.name.<16 digits>.part``, and then renamed.
A process that is killed as it writes leaves that part.  The lock on it goes with the process, so
the next one that writes the same path tells leftovers, which nobody has locked, from parts that are
still being written, and removes them.
"""

from __future__ import annotations

import glob
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from karat.errors import StorageError

try:
    import fcntl
except ImportError:
    LOCKS = False  # not on this system: leftovers stay
else:
    LOCKS = True


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a new file beside ``path``, then put it in its place in one step.

    Of two processes that write the same path the last one wins, and no reader ever sees a
    half-written file.  It may be read by whom the umask lets, or by those who could read the file
    that it replaces.
    """
    remove_leftovers(path)
    try:
        part, handle = _new_part(path)
        try:
            with os.fdopen(handle, "wb") as file:
                if path.exists():
                    part.chmod(stat.S_IMODE(path.stat().st_mode))
                write(file)
                file.flush()
                os.fsync(file.fileno())
                if LOCKS:  # while it is locked; without locks a file is closed before it is renamed
                    part.replace(path)
            if not LOCKS:
                part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"{path} could not be written ({reason}); what was there before is unchanged."
        ) from error


def remove_leftovers(path: Path) -> None:
    """Remove what processes that were killed as they wrote ``path`` have left."""
    if not LOCKS:
        return
    for part in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        # locked by its writer, gone meanwhile, or not ours
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _new_part(path: Path) -> tuple[Path, int]:
    """A new file beside ``path``, open and locked."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        handle = os.open(
            part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
        )
        if not LOCKS:
            return part, handle
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if part.exists():
            return part, handle
        os.close(handle)  # another process took it for a leftover before it was locked
