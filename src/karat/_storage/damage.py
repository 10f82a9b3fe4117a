"""Damaged and hostile files: one place that turns every failure of reading into one kind of error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from karat.errors import DamagedFileError, InputError, MissingExtraError, NotExactError


@contextmanager
def reading(name: str, what: str) -> Iterator[None]:
    """Whatever goes wrong inside is said to be the file's fault.

    Parameters
    ----------
    name : str
        The file, or what else an error message calls it.
    what : str
        What it should be: "a coreset file", "a checkpoint".
    """
    try:
        yield
    except (InputError, NotExactError, MissingExtraError):  # they say what is wrong already
        raise
    except Exception as error:
        raise DamagedFileError(f"{name} is not {what}, or it is damaged ({_brief(error)}).") from error


def require(condition: bool, complaint: str) -> None:
    """Raise, inside :func:`reading`, unless the content of a file is as it must be."""
    if not condition:
        raise ValueError(complaint)


def _brief(error: Exception) -> str:
    """The first line of an error, or its kind where it has no text."""
    lines = str(error).strip().splitlines()
    text = lines[0].rstrip(". ") if lines else type(error).__name__
    return f"it holds no {text}" if isinstance(error, KeyError) else text[:200]
