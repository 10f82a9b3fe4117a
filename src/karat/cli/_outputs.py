"""Checks of ``--output`` before the work begins: it must not overwrite the data or a file of another kind."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import karat
from karat.errors import InputError, StorageError


@dataclass(frozen=True)
class Kind:
    """A kind of output: its name, its suffixes, and a test whether a file is one."""

    name: str
    suffixes: tuple[str, ...]
    is_one: Callable[[Path], bool]


def loads(load: Callable[[Path], object], path: Path) -> bool:
    """Whether a file is what ``load`` reads."""
    try:
        load(path)
    except InputError as error:
        # One that holds a user's function loads with problem=... only, but it is one.
        return error.argument == "problem"
    return True


CORESET = Kind("a coreset", (".parquet", ".npz"), lambda path: loads(karat.load, path))


def check_output(output: Path, sources: Sequence[str], force: bool, kind: Kind = CORESET) -> None:
    """Refuse an output that could not be written or would overwrite other data; an older result may be replaced."""
    if output.suffix not in kind.suffixes:
        raise InputError(f"--output must end in {' or '.join(kind.suffixes)}, not {output.name!r}.")
    if not output.parent.is_dir():
        raise StorageError(f"There is no folder {output.parent}; make it, or choose another --output.")
    if not os.access(output.parent, os.W_OK):
        raise StorageError(f"The folder {output.parent} is not writable; choose another --output.")
    place = output.resolve()
    for source in map(_local, sources):
        for path in map(Path, [source, *glob.glob(source, recursive=True)]):  # a file name may contain * or ?
            if place == path.resolve():
                raise InputError(f"--output {output} is the data itself; choose another name.")
            if path.is_dir() and place.is_relative_to(path.resolve()):
                raise InputError(f"--output {output} is in the folder {path}, whose files are all read; choose another folder.")
    if output.exists() and not force and not kind.is_one(output):
        raise InputError(f"{output} exists and is not {kind.name}; choose another name, or replace it with --force.")


def _local(source: str) -> str:
    """The path of a file: URL."""
    return unquote(urlparse(source).path) if source.startswith("file:") else source
