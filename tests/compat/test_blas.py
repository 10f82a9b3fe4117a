"""The BLAS of NumPy and SciPy is found through modules that are linked to it; where it is not,
karat says so once.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import scipy

from karat.compat import blas


@pytest.mark.parametrize(("library", "module"), [(np, blas.NUMPY_BLAS), (scipy, blas.SCIPY_BLAS)])
def test_the_number_of_threads_is_found(library, module):
    built = library.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    if "openblas" not in built:
        pytest.skip(f"{library.__name__} was built with {built}")
    assert blas._openblas(module) is not None, (
        f"{library.__name__} {library.__version__} is linked to OpenBLAS, but not by {module}, or"
        " its names have changed: BLAS would keep its threads"
    )


@pytest.fixture
def without_openblas(monkeypatch):
    monkeypatch.setattr(blas, "_openblas", lambda module: None)
    blas.blas_threads.cache_clear()
    yield monkeypatch
    blas.blas_threads.cache_clear()


def test_threadpoolctl_finds_other_libraries(without_openblas):
    pytest.importorskip("threadpoolctl")
    assert [ask() >= 1 for ask, _ in blas.blas_threads()] != []


def test_a_blas_that_keeps_its_threads_is_named_once(without_openblas):
    without_openblas.setitem(sys.modules, "threadpoolctl", None)
    without_openblas.delenv("OMP_NUM_THREADS", raising=False)
    with pytest.warns(RuntimeWarning, match="last digits"):
        assert blas.blas_threads() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blas.blas_threads()


def test_the_remedy_of_the_warning_helps(without_openblas):
    without_openblas.setitem(sys.modules, "threadpoolctl", None)
    without_openblas.setenv("OMP_NUM_THREADS", "1")
    assert blas.blas_threads() == []
