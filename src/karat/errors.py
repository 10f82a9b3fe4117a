"""Errors are sentences: what is wrong, where, and what to do."""

from __future__ import annotations


class InputError(ValueError):
    """The data or an argument cannot be used; the message names the place and the remedy."""


class NotExactError(RuntimeError):
    """An exact result could not be reached, or the request is for something a coreset does not keep."""


class StorageError(OSError):
    """A file could not be written; what was there before is unchanged."""


class MissingExtraError(ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs an optional dependency: install it with  pip install 'karat[{extra}]'  (in a copy of the project, "
            f"pip install '.[{extra}]')."
        )
