"""The BLAS of NumPy and SciPy: how many threads it has, and SciPy's routines by address.

No public module of NumPy or SciPy tells which library it was linked to, so it is found through a
module that is linked to it.

SciPy publishes the addresses of the routines for Cython.  The functions of ``scipy.linalg.blas``
hold the interpreter while they work, so that threads wait for each other, and NumPy's products
cannot be added to a matrix in place.  The addresses serve Cython and Numba, but the table of them
is not documented."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from scipy.linalg import cython_blas

Routine = Callable[..., None]  # takes the addresses of its arguments
# modules that call BLAS or LAPACK
NUMPY_BLAS = "numpy.linalg._umath_linalg"
SCIPY_BLAS = "scipy.linalg.cython_blas"
MANY_THREADS = (
    "karat cannot tell how many threads the BLAS of NumPy or SciPy has, so coresets may differ in"
    " their last digits where that number differs. Install threadpoolctl, or set OMP_NUM_THREADS=1"
    " before Python starts."
)
# to ask for the number of threads of a BLAS, and to set it
Counter = tuple[Callable[[], int], Callable[[int], None]]


@lru_cache
def blas_routine(name: str, arguments: int) -> Routine | None:
    """A BLAS routine; None if SciPy does not export it with this number of arguments."""
    capsule = getattr(cython_blas, "__pyx_capi__", {}).get(name)
    if capsule is None:
        return None
    signature, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    declared: Any = signature(capsule)
    if declared is None or declared.count(b"*") != arguments or b"int *" not in declared:
        return None
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(pointer(capsule, declared))


@lru_cache(maxsize=1)
def blas_threads() -> list[Counter]:
    """The BLAS of NumPy and that of SciPy:

    OpenBLAS, found through modules that are linked to it, or what threadpoolctl knows.

    If neither finds them they keep their threads, and a warning says once what that means.
    """
    counters = [
        counter for module in (NUMPY_BLAS, SCIPY_BLAS) if (counter := _openblas(module)) is not None
    ]
    if len(counters) == 2:
        return counters
    if find_spec("threadpoolctl") is not None:  # it comes with scikit-learn
        from threadpoolctl import ThreadpoolController

        pools = ThreadpoolController().select(user_api="blas").lib_controllers
        if pools:
            return [(pool.get_num_threads, pool.set_num_threads) for pool in pools]
    if os.environ.get("OMP_NUM_THREADS") != "1":
        warnings.warn(MANY_THREADS, RuntimeWarning, stacklevel=2)
    return counters


def _openblas(module: str) -> Counter | None:
    """The OpenBLAS that an extension module is linked to; None if it is linked to another BLAS."""
    try:
        library = ctypes.CDLL(str(import_module(module).__file__))
    except (ImportError, OSError):
        return None
    names = [
        f"{prefix}openblas_%s_num_threads{end}"
        for prefix in ("scipy_", "")
        for end in ("64_", "_64", "")
    ]
    name = next((form for form in names if hasattr(library, form % "set")), None)
    if name is None:
        return None
    ask, give = getattr(library, name % "get"), getattr(library, name % "set")
    ask.restype, give.restype = ctypes.c_int, None
    return ask, give
