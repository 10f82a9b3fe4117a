"""Work beside: an iterator run by a thread one item ahead of its use, items worked on ahead, and work that may lag behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")
END = object()
AHEAD = 6  # items more than there are threads, so that these go on while others are reduced


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


def in_order(work: Callable[[T], U], items: Iterator[T], threads: int) -> Iterator[tuple[T, U]]:
    """Each item with what ``work`` makes of it, in their order; threads work ahead.  Errors appear where their item would."""
    with ThreadPoolExecutor(threads) as workers:

        def started() -> Iterator[tuple[Any, Future[U]]]:
            try:
                for item in items:
                    yield item, workers.submit(work, item)
            except Exception as error:
                failed: Future[U] = Future()
                failed.set_exception(error)
                yield None, failed

        coming: deque[tuple[T, Future[U]]] = deque()
        for one in started():
            coming.append(one)
            if len(coming) > threads + AHEAD:
                item, made = coming.popleft()
                yield item, made.result()
        for item, made in coming:
            yield item, made.result()


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
