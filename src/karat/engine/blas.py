"""How many threads BLAS has: one while the engine works.

NumPy and SciPy each carry an OpenBLAS with threads of its own, which wait by spinning: beside each other, and beside other work
of the machine, they lose more than they gain.  So BLAS works on one thread (:func:`one_blas_thread`), and what is large is
shared among threads of ours (:mod:`karat.engine.blocked`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import lru_cache
from importlib import import_module
from threading import Lock

from karat.engine.threads import cores

Counter = tuple[Callable[[], int], Callable[[int], None]]  # to ask for the number of threads of a BLAS, and to set it


@lru_cache(maxsize=1)
def blas_threads() -> list[Counter]:
    """The OpenBLAS of NumPy and that of SciPy, found through the modules that were linked to them; else by threadpoolctl."""
    found: list[Counter] = []
    for name in ("numpy.linalg._umath_linalg", "scipy.linalg._fblas"):
        try:
            library = ctypes.CDLL(str(import_module(name).__file__))
        except (ImportError, OSError):  # of another kind than those of today
            continue
        names = [f"{prefix}openblas_%s_num_threads{end}" for prefix in ("scipy_", "") for end in ("64_", "_64", "")]
        known = next((form for form in names if hasattr(library, form % "set")), None)
        if known is not None:
            ask, give = getattr(library, known % "get"), getattr(library, known % "set")
            ask.restype, give.restype = ctypes.c_int, None
            found.append((ask, give))
    if found:
        return found
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # comes with scikit-learn; without it such a BLAS keeps its threads
        return []
    pools = [pool for pool in ThreadpoolController().lib_controllers if pool.user_api == "blas"]
    return [(pool.get_num_threads, pool.set_num_threads) for pool in pools]


class _OneThread(ContextDecorator):
    """A context in which BLAS has one thread; it ends, in the whole process, when the last thread that entered it leaves."""

    def __init__(self) -> None:
        self.entered, self.before, self.lock = 0, list[int](), Lock()

    def __enter__(self) -> None:
        with self.lock:
            self.entered += 1
            if self.entered == 1:
                self.before = [ask() for ask, _ in blas_threads()]
                for _, give in blas_threads():
                    give(1)

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.entered -= 1
            if not self.entered:
                for (_, restore), count in zip(blas_threads(), self.before, strict=True):
                    restore(count)


_ONE_THREAD = _OneThread()


def one_blas_thread() -> _OneThread:
    """Keep BLAS on one thread: a context, or a decorator of a function."""
    return _ONE_THREAD


def threads() -> int:
    """How many threads large work is shared among: as many as BLAS would use, so that one setting is enough for both."""
    counts = _ONE_THREAD.before if _ONE_THREAD.entered else [ask() for ask, _ in blas_threads()]
    return min([cores(), *counts[-1:]])
