"""NumPy's BLAS: no public module of NumPy tells which library it was linked to."""

from __future__ import annotations

# an extension module that calls LAPACK, so that its BLAS can be found through it
LINKED = "numpy.linalg._umath_linalg"
