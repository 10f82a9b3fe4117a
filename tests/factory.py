"""Data sets by tag.

Every data set is made from a fixed seed, and each tag is one way in which real data is unpleasant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Data:
    """A table, a target and, for some tags, weights."""

    X: Any
    y: np.ndarray
    weights: np.ndarray | None = None

    @property
    def dense(self) -> np.ndarray:
        return np.asarray(self.X.toarray() if sparse.issparse(self.X) else self.X, dtype=float)

    @property
    def mass(self) -> np.ndarray:
        """The weights, ones if there are none."""
        return np.ones(len(self.y)) if self.weights is None else self.weights


TAGS: dict[str, Callable[[np.random.Generator], Data]] = {}


def tag(function: Callable[[np.random.Generator], Data]) -> Callable[[np.random.Generator], Data]:
    TAGS[function.__name__] = function
    return function


@cache
def data(name: str) -> Data:
    """The data set of a tag; always the same, and read-only."""
    made = TAGS[name](np.random.default_rng(sorted(TAGS).index(name) + 1))
    for part in (made.X, made.y, made.weights):
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return made


def correlated(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.standard_normal((n, d)) @ (np.eye(d) + 0.5 * rng.standard_normal((d, d)))


def target(rng: np.random.Generator, X: np.ndarray, noise: float = 1.0) -> np.ndarray:
    return X @ rng.standard_normal(X.shape[1]) + noise * rng.standard_normal(len(X))


def plain(rng: np.random.Generator, n: int, d: int) -> Data:
    X = correlated(rng, n, d)
    return Data(X, target(rng, X))


@tag
def gaussian(rng):
    return plain(rng, 900, 3)


@tag
def rank_deficient(rng):
    X = correlated(rng, 700, 2) @ rng.standard_normal((2, 4))
    return Data(X, target(rng, X))


@tag
def duplicated_rows(rng):
    few = plain(rng, 13, 3)
    pick = rng.integers(0, 13, 800)
    return Data(few.X[pick], few.y[pick])


@tag
def duplicated_columns(rng):
    X = correlated(rng, 600, 2)
    return Data(np.column_stack([X, X[:, 0]]), target(rng, X))


@tag
def constant_column(rng):
    X = correlated(rng, 700, 3)
    X[:, 1] = 7.3
    return Data(X, target(rng, X))


@tag
def zero_column(rng):
    X = correlated(rng, 500, 3)
    X[:, 2] = 0.0
    return Data(X, target(rng, X))


@tag
def zero_target(rng):
    return Data(correlated(rng, 500, 3), np.zeros(500))


@tag
def constant_target(rng):
    return Data(correlated(rng, 500, 3), np.full(500, -3.7))


@tag
def linear_target(rng):
    """No noise at all: the best fit has loss zero, up to rounding."""
    X = correlated(rng, 500, 3)
    return Data(X, X @ np.array([1.0, -2.0, 0.5]))


@tag
def huge_offset(rng):
    X = rng.standard_normal((800, 3)) + np.array([1e6, -1e6, 2e6])
    return Data(X, 1e6 + rng.standard_normal(800) + (X - X.mean(axis=0)) @ np.ones(3))


@tag
def wide_scales(rng):
    X = rng.standard_normal((800, 4)) * np.array([1e-8, 1e-3, 1e3, 1e8])
    return Data(X, 1e-4 * rng.standard_normal(800) + X @ np.array([1e4, 0, 0, 1e-12]))


@tag
def one_hot_binary(rng):
    kind = rng.integers(0, 4, 900)
    X = np.column_stack([np.eye(4)[kind], rng.integers(0, 2, 900), rng.standard_normal(900)])
    return Data(X, target(rng, X))


@tag
def single_one(rng):
    """A one-hot column with a single 1: that row cannot be replaced."""
    X = np.column_stack([np.zeros(900), rng.integers(0, 2, 900), rng.standard_normal(900)])
    X[417, 0] = 1.0
    return Data(X, target(rng, X))


@tag
def one_row(rng):
    return plain(rng, 1, 3)


@tag
def two_rows(rng):
    return plain(rng, 2, 3)


@tag
def five_rows(rng):
    return plain(rng, 5, 2)


@tag
def fewer_rows_than_features(rng):
    return plain(rng, 12, 4)


@tag
def as_many_rows_as_features(rng):
    return plain(rng, 15, 3)


@tag
def one_column(rng):
    return plain(rng, 300, 1)


@tag
def heavy_tails(rng):
    X = rng.standard_t(2.5, (900, 3))
    return Data(X, X @ np.ones(3) + rng.standard_t(2.5, 900))


@tag
def skewed(rng):
    X = np.exp(rng.standard_normal((900, 3)))
    return Data(X, X @ np.ones(3) + np.exp(rng.standard_normal(900)))


@tag
def outlier(rng):
    made = plain(rng, 700, 3)
    made.X[350] *= 1e3
    return made


@tag
def sparse_rows(rng):
    X = sparse.random_array((900, 4), density=0.25, random_state=rng, format="csr")
    return Data(sparse.csr_array(X), X @ np.ones(4) + rng.standard_normal(900))


@tag
def zero_weights(rng):
    made = plain(rng, 1000, 3)
    return Data(made.X, made.y, np.where(rng.random(1000) < 0.7, 0.0, rng.random(1000)))


@tag
def uneven_weights(rng):
    made = plain(rng, 800, 3)
    return Data(made.X, made.y, 10.0 ** rng.uniform(-5, 5, 800))


@tag
def near_collinear(rng):
    X = correlated(rng, 900, 3)
    X[:, 2] = X[:, 0] + 1e-6 * rng.standard_normal(900)
    return Data(X, target(rng, X))


@tag
def sorted_rows(rng):
    """Neighbouring rows are alike, so contiguous groups are not random samples."""
    made = plain(rng, 900, 3)
    order = np.argsort(made.X[:, 0])
    return Data(made.X[order], made.y[order])


@tag
def integers(rng):
    X = rng.integers(-3, 4, (700, 3))
    return Data(X, X @ np.array([1, 2, -1]) + rng.integers(-2, 3, 700))


@tag
def binary_only(rng):
    X = rng.integers(0, 2, (600, 4))
    return Data(X, (X.sum(axis=1) + rng.integers(0, 2, 600)) % 2)


# Larger than any pilot sample, so that the engine meets rows it has not looked at.


@tag
def many_gaussian(rng):
    return plain(rng, 20_011, 3)


@tag
def many_skewed(rng):
    X = np.exp(1.5 * rng.standard_normal((20_011, 3)))
    return Data(X, X @ np.ones(3) + np.exp(rng.standard_normal(20_011)))


@tag
def many_rare(rng):
    """A category of one row, one of three, and a column that is constant but for two rows."""
    X = np.zeros((20_011, 4))
    X[:, 0] = rng.standard_normal(20_011)
    X[9_999, 1] = 1.0
    X[[5, 777, 15_000], 2] = 1.0
    X[:, 3] = 5.0
    X[[123, 19_000], 3] = [6.0, 7.5]
    return Data(X, target(rng, X))


@tag
def many_offset_sorted(rng):
    X = rng.standard_normal((20_011, 3))
    X = X[np.argsort(X[:, 0])] + 1e6
    return Data(X, X[:, 1] + rng.standard_normal(20_011))


@tag
def many_zero_weights(rng):
    made = plain(rng, 30_000, 3)
    return Data(made.X, made.y, np.where(rng.random(30_000) < 0.7, 0.0, rng.random(30_000)))


SMALL = [name for name in TAGS if not name.startswith("many_")]
LARGE = [name for name in TAGS if name.startswith("many_")]
