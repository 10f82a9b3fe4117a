"""Work ahead: an iterator run by a thread, one item ahead of the one in use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
END = object()


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items; each is made while the one before it is in use.  Errors appear where their item would."""
    with ThreadPoolExecutor(1) as worker:
        coming = worker.submit(next, items, END)
        while True:
            item = coming.result()
            if item is END:
                return
            coming = worker.submit(next, items, END)
            yield item  # type: ignore[misc]
