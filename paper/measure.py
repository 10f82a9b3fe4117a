"""Measurements of the experiments: times, differences and losses."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import karat
from karat.engine.linalg import Array


def seconds(action: Callable[[], Any], enough: float = 0.2, runs: int = 200) -> float:
    """Median wall time of an action, repeated for ``enough`` seconds after a first call that is not
    counted.
    """
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
    """A coreset, the models learned from all rows and from it, seconds to learn each and to build
    it, and warnings.
    """

    core: Any
    full: Any
    small: Any
    full_seconds: float
    small_seconds: float
    build_seconds: float
    doubts: tuple[str, ...]


def learn_twice(X: Any, problem: Any, learner: Callable[[], Any]) -> Learned:
    """Learn a latent-variable model from all rows and from the coreset of its problem, and time
    both.
    """
    with real_data() as doubts:
        core = karat.coreset(X, problem=problem)
        full = learner().fit(X)
    with real_data():
        small = learner().fit_coreset(core)
        times = seconds(lambda: learner().fit(X)), seconds(lambda: learner().fit_coreset(core))
        return Learned(
            core,
            full,
            small,
            *times,
            seconds(lambda: karat.coreset(X, problem=problem)),
            tuple(doubts),
        )


@contextmanager
def real_data() -> Iterator[list[str]]:
    """Collect what learners say about data that does not fit their model; the page shows it."""
    from karat.models import RecoveryWarning

    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RecoveryWarning)
        yield said
    for one in caught:
        if issubclass(one.category, RecoveryWarning):
            said.append(str(one.message).partition(" [")[0])
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
