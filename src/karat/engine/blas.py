"""How many threads BLAS has: one while the engine works.

NumPy and SciPy each carry an OpenBLAS with threads of its own, which wait by spinning: beside each other, and beside other work
of the machine, they lose more than they gain.  So BLAS works on one thread (:func:`one_blas_thread`), and what is large is
shared among threads of ours (:mod:`karat.engine.blocked`).
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock

from karat.compat.numpy import LINKED as NUMPY_BLAS
from karat.engine.threads import cores

Counter = tuple[Callable[[], int], Callable[[int], None]]  # to ask for the number of threads of a BLAS, and to set it

SCIPY_BLAS = "scipy.linalg.cython_blas"
MANY_THREADS = (
    "karat cannot tell how many threads the BLAS of NumPy or SciPy has, so coresets may differ in their last digits where that "
    "number differs. Install threadpoolctl, or set OMP_NUM_THREADS=1 before Python starts."
)


@lru_cache(maxsize=1)
def blas_threads() -> list[Counter]:
    """The BLAS of NumPy and that of SciPy: OpenBLAS, found through modules that are linked to it, or what threadpoolctl knows.

    If neither finds them they keep their threads, and a warning says once what that means.
    """
    found = [counter for module in (NUMPY_BLAS, SCIPY_BLAS) if (counter := _openblas(module)) is not None]
    if len(found) == 2:
        return found
    if find_spec("threadpoolctl") is not None:  # it comes with scikit-learn
        from threadpoolctl import ThreadpoolController

        pools = ThreadpoolController().select(user_api="blas").lib_controllers
        if pools:
            return [(pool.get_num_threads, pool.set_num_threads) for pool in pools]
    if os.environ.get("OMP_NUM_THREADS") != "1":
        warnings.warn(MANY_THREADS, RuntimeWarning, stacklevel=2)
    return found


def _openblas(module: str) -> Counter | None:
    """The OpenBLAS that an extension module is linked to; None if it is linked to another BLAS."""
    try:
        library = ctypes.CDLL(str(import_module(module).__file__))
    except (ImportError, OSError):
        return None
    names = [f"{prefix}openblas_%s_num_threads{end}" for prefix in ("scipy_", "") for end in ("64_", "_64", "")]
    known = next((form for form in names if hasattr(library, form % "set")), None)
    if known is None:
        return None
    ask, give = getattr(library, known % "get"), getattr(library, known % "set")
    ask.restype, give.restype = ctypes.c_int, None
    return ask, give


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
