"""Threads of our own: pieces of work that every core takes from one list.

BLAS runs on one thread (:func:`karat.engine.linalg.one_blas_thread`).  A thread that is held up
delays its own piece only; the others take the rest.

**What is guaranteed.**  Which pieces there are, and in which order their results are added, depends
on the data alone.  The result is therefore the same, to the last bit, for any number of threads,
any affinity and any timing (on one machine, with one version of BLAS, if its threads can be
limited).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from threading import Lock
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _workers() -> ThreadPoolExecutor:
    """Threads besides the calling one, created when first needed; they sleep while there is nothing
    to do.
    """
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="karat")


if hasattr(os, "register_at_fork"):
    # a forked process has none of the threads of its parent
    os.register_at_fork(after_in_child=_workers.cache_clear)


def share(work: Callable[[Piece], Result], pieces: Iterable[Piece], threads: int) -> list[Result]:
    """``[work(piece) for piece in pieces]``, by the calling thread and up to ``threads - 1``
    others.

    The calling thread never waits for a thread that has not started, so pieces may themselves share
    work.
    """
    listed = list(pieces)
    if threads <= 1 or len(listed) <= 1:
        return [work(piece) for piece in listed]
    results: dict[int, Result] = {}
    left, lock = iter(range(len(listed))), Lock()

    def take(numbers: Iterator[int]) -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            results[number] = work(listed[number])

    helpers: list[Future[None]] = [
        _workers().submit(take, left) for _ in range(min(threads, len(listed)) - 1)
    ]
    try:
        take(left)
    finally:
        began = [helper for helper in helpers if not helper.cancel()]
        errors = [error for helper in began if (error := helper.exception()) is not None]
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(listed))]
