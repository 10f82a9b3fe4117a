"""Measurements of the experiments: times, differences and losses."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from karat.engine.linalg import Array


def seconds(action: Callable[[], Any], enough: float = 0.2, runs: int = 200) -> float:
    """Median wall time of an action, repeated for ``enough`` seconds after a first call that is not counted."""
    action()
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < enough and len(taken) < runs):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def difference(found: Any, expected: Any) -> float:
    """Largest difference of two arrays, relative to the largest entry of ``expected``."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def kmeans_loss(X: Array, centres: Array) -> float:
    """Sum of the squared distances of the rows to their nearest centre."""
    squares = np.square(centres).sum(axis=1) - 2 * X @ centres.T
    return float(np.square(X).sum() + squares.min(axis=1).sum())


@contextmanager
def real_data() -> Iterator[None]:
    """Silence the warning of learners that real data does not fit their model; the page says so."""
    from karat.models import RecoveryWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        yield
