"""SciPy's BLAS by the addresses that it publishes for Cython.

The functions of ``scipy.linalg.blas`` hold the interpreter while they work, so that threads wait
for each other, and NumPy's products cannot be added to a matrix in place.  The addresses serve
Cython and Numba, but the table of them is not documented.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from scipy.linalg import cython_blas

Routine = Callable[..., None]  # takes the addresses of its arguments


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
