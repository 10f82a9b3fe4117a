"""Atomic writes: a file is complete or unchanged, whatever happens while it is written.

A file is written in the same folder under another name, ``.name.<16 digits>.part``, and then
renamed.  What karat stores is read back before (header and sizes), so that a file which it could
not read never replaces one that it can.  A process that is killed while it writes leaves that
part, but its lock on the part ends.  The next process that writes the same path removes all parts
that nobody has locked.
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

from karat.errors import InputError, StorageError

try:
    import fcntl
except ImportError:
    LOCKS = False  # not on this system: leftovers stay
else:
    LOCKS = True


def write_atomically(
    path: Path,
    write: Callable[[BinaryIO], object],
    read_back: Callable[[bytes], object] | None = None,
) -> None:
    """Let ``write`` fill a new file beside ``path``, then put it in its place in one step.

    ``read_back`` is called with the bytes of the new file first; if it raises, nothing is replaced.

    If two processes write the same path, the last one wins; no reader sees a half-written file.
    The file has the permissions of the file that it replaces, or those of the umask.
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
                if read_back is not None:
                    _read_back(part, path, read_back)
                if LOCKS:  # while it is locked; without locks a file is closed before it is renamed
                    part.replace(path)
            if not LOCKS:
                part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except StorageError:  # it says what is wrong already
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"{path} could not be written ({reason}); an older file there is unchanged."
        ) from error


def remove_leftovers(path: Path) -> None:
    """Remove the parts left by processes that were killed while they wrote ``path``."""
    if not LOCKS:
        return
    for part in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        # an error means that the part is locked by its writer, already gone, or not ours
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _read_back(part: Path, path: Path, read_back: Callable[[bytes], object]) -> None:
    try:
        read_back(part.read_bytes())
    except InputError as error:
        raise StorageError(
            f"{path} was not written, because it could not be read afterwards"
            f" ({error.__cause__ or error}); an older file there is unchanged."
        ) from error


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
        os.close(handle)  # before the lock, another process took it for a leftover and removed it
