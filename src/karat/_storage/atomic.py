"""Atomic writes: a file is there whole or not at all, whatever happens on the way."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from karat.errors import StorageError


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a new file beside ``path``, then put it in its place in one step.

    Of two processes that write the same path the last one wins, and no reader ever sees a half-written file.  It may be read
    by whom the umask lets, or by those who could read the file that it replaces.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                if path.exists():
                    part.chmod(stat.S_IMODE(path.stat().st_mode))
                write(file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{path} could not be written ({reason}); what was there before is unchanged.") from error
