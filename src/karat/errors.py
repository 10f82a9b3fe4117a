"""The errors that karat raises: each says what is wrong, where, and what to do.

Programs read the fields of an error, people its text.  Damaged and hostile files raise one kind of
error, whatever fails while they are read (:func:`reading`).
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

# NumPy's integers are registered; NumPy itself is not needed here
from numbers import Integral
from pathlib import Path

PACKAGE = str(Path(__file__).parent)


class BriefError(Exception):
    """An error whose message says enough: a notebook shows it without the frames inside karat."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        """The line of the caller and the message."""
        frames = traceback.extract_tb(self.__traceback__)
        inside = [frame.filename.startswith(PACKAGE) for frame in frames]
        caller = frames[max(inside.index(True) - 1, 0) :][:1] if any(inside) else frames[-1:]
        lines = traceback.format_list(caller)
        return [*"".join(lines).splitlines(), f"{type(self).__name__}: {self}"]


class InputError(BriefError, ValueError):
    """The data or an argument cannot be used; the message says where and what to do.

    Parameters
    ----------
    message, remedy : str
        What is wrong, and what to do; the command line replaces the remedy by its own words.
    argument, column, row : optional
        The argument that is wrong or would help; the column and the first row of the data that
        cannot be used.
    """

    def __init__(
        self,
        message: str,
        remedy: str = "",
        *,
        argument: str | None = None,
        column: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(f"{message} {remedy}" if remedy else message)
        self.message, self.remedy = message, remedy
        self.argument, self.column, self.row = argument, column, row


class UnknownLabelError(InputError, KeyError):
    """A mapping has no such label; also a :class:`KeyError`."""

    __str__ = ValueError.__str__  # KeyError would put the message in quotes


class NotExactError(BriefError, RuntimeError):
    """No exact result was found, or a coreset does not keep what was asked for."""


class StorageError(BriefError, OSError):
    """A file could not be written (an older file is unchanged), or its content is not valid."""


class DamagedFileError(InputError, StorageError):
    """A file is damaged, was changed by another tool, or is no coreset or checkpoint."""


class MissingExtraError(BriefError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs an optional dependency: install it with  pip install 'karat[{extra}]' "
            f" (in a copy of the project, pip install '.[{extra}]')."
        )


def plural(noun: str) -> str:
    """The plural of a noun: rows, passes, batches, entries."""
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"


def several(number: int, noun: str) -> str:
    """Write a number with its noun: 1 column, 2,000 columns."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def check_memory(memory: object) -> None:
    """Raise unless an argument is a sensible number of bytes."""
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 10**6:
        raise InputError(
            f"memory must be an integer of at least 10**6 bytes, not {memory!r}.",
            argument="memory",
        )


def check_integer(name: str, value: object, least: int = 1) -> None:
    """Raise unless an argument is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(
            f"{name} must be an integer of at least {least}, not {value!r}.", argument=name
        )


def check_choice(name: str, value: object, *choices: str) -> None:
    """Raise unless an argument is one of some names."""
    if not (isinstance(value, str) and value in choices):
        listed = ", ".join(map(repr, choices[:-1]))
        raise InputError(
            f"{name} must be {listed} or {choices[-1]!r}, not {value!r}.", argument=name
        )


@contextmanager
def reading(name: str, what: str) -> Iterator[None]:
    """Turn every error inside the block into one that blames the file.

    Parameters
    ----------
    name : str
        The file, as an error message calls it.
    what : str
        What it should be: "a coreset file", "a checkpoint".
    """
    try:
        yield
    except (InputError, NotExactError, MissingExtraError):  # they say what is wrong already
        raise
    except Exception as error:
        raise DamagedFileError(
            f"{name} is not {what}, or it is damaged ({_brief(error)})."
        ) from error


def require(condition: bool, complaint: str) -> None:
    """Raise, inside :func:`reading`, unless the content of a file is valid."""
    if not condition:
        raise ValueError(complaint)


def _brief(error: Exception) -> str:
    """The first line of an error, or its kind where it has no text."""
    lines = str(error).strip().splitlines()
    text = lines[0].rstrip(". ") if lines else type(error).__name__
    return f"it holds no {text}" if isinstance(error, KeyError) else text[:200]
