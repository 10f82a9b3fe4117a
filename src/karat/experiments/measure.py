"""Measurements of the experiments: times, differences and losses."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

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


class Learned(NamedTuple):
    """A model learned from all rows and from a coreset, with the seconds of each step."""

    core: Any
    full: Any
    small: Any
    full_seconds: float
    small_seconds: float
    build_seconds: float


def learn_twice(X: Any, problem: Any, learner: Callable[[], Any]) -> Learned:
    """Learn a latent-variable model from all rows and from the coreset of its problem, and time both."""
    import karat

    with real_data():
        core = karat.coreset(X, problem=problem)
        full, small = learner().fit(X), learner().fit_coreset(core)
        times = seconds(lambda: learner().fit(X)), seconds(lambda: learner().fit_coreset(core))
        return Learned(core, full, small, *times, seconds(lambda: karat.coreset(X, problem=problem)))


@contextmanager
def real_data() -> Iterator[None]:
    """Silence the warning of learners that real data does not fit their model; the page says so."""
    from karat.models import RecoveryWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        yield
