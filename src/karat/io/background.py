"""Work beside: an iterator run by a thread one item ahead of its use, and work that may lag behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

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


class BackgroundCalls:
    """Calls made by a thread, in order."""

    def __init__(self, worker: ThreadPoolExecutor) -> None:
        self.worker = worker
        self.pending: list[Future[None]] = []

    def call(self, work: Callable[..., None], *items: Any) -> None:
        self.pending.append(self.worker.submit(work, *items))

    def wait(self) -> None:
        """Until all is done; raises what went wrong."""
        for call in self.pending:
            call.result()
        self.pending.clear()


@contextmanager
def background_calls() -> Iterator[BackgroundCalls]:
    """A thread for work whose result is needed only later; it ends with the context."""
    with ThreadPoolExecutor(1) as worker:
        calls = BackgroundCalls(worker)
        yield calls
        calls.wait()
