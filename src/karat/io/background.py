"""Work beside: an iterator run by a thread one item ahead of its use, and work that may lag behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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


class Behind:
    """Calls made by a thread, in order."""

    def __init__(self, worker: ThreadPoolExecutor) -> None:
        self.worker = worker
        self.pending: list[Future[None]] = []

    def call(self, work: Callable[[T], None], item: T) -> None:
        self.pending.append(self.worker.submit(work, item))

    def wait(self) -> None:
        """Until all is done; raises what went wrong."""
        for call in self.pending:
            call.result()
        self.pending.clear()


@contextmanager
def behind() -> Iterator[Behind]:
    """A thread for work whose result is needed only later; it ends with the context."""
    with ThreadPoolExecutor(1) as worker:
        calls = Behind(worker)
        yield calls
        calls.wait()
