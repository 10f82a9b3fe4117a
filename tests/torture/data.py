"""Generators of tables: one function per way in which data is unpleasant.

Each draws its own parameters.

Here: tails, units, rare rows and streams.  Tables with structure are in :mod:`.structure`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

Rng = np.random.Generator
GENERATORS: dict[str, Callable[[Rng, int, int], Any]] = {}


def generator(function: Callable[[Rng, int, int], Any]) -> Callable[[Rng, int, int], Any]:
    GENERATORS[function.__name__] = function
    return function


def rotated(rng: Rng, X: Any) -> np.ndarray:
    """The columns under a random orthogonal matrix."""
    X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
    Q, R = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))
    return sum(X[:, [j]] * (Q * np.sign(np.diag(R)))[j] for j in range(X.shape[1]))


def normal(rng: Rng, n: int, d: int) -> np.ndarray:
    return rng.standard_normal((n, d))


@generator
def benign(rng: Rng, n: int, d: int) -> np.ndarray:
    kind = rng.integers(4)
    if kind == 0:
        return normal(rng, n, d)
    if kind == 1:
        return rng.uniform(-1, 2, (n, d))
    if kind == 2:
        return normal(rng, n, d) + 3.0 * rng.integers(0, 3, (n, 1))
    return normal(rng, n, d) @ (np.eye(d) + 0.3 * normal(rng, d, d))


def _some(rng: Rng, heavy: np.ndarray) -> np.ndarray:
    """Heavy columns, sometimes among plain ones, sometimes of either sign."""
    if rng.random() < 0.3:
        heavy = heavy * rng.choice([-1.0, 1.0], heavy.shape)
    if heavy.shape[1] > 1 and rng.random() < 0.3:
        heavy[:, 1:] = rng.standard_normal(heavy[:, 1:].shape)
    return heavy


@generator
def pareto(rng: Rng, n: int, d: int) -> np.ndarray:
    return _some(rng, rng.pareto(rng.choice([0.3, 0.4, 0.5, 0.7, 1.0]), (n, d)))


@generator
def cauchy(rng: Rng, n: int, d: int) -> np.ndarray:
    return _some(rng, rng.standard_cauchy((n, d)))


@generator
def lognormal(rng: Rng, n: int, d: int) -> np.ndarray:
    return _some(rng, rng.lognormal(0.0, rng.choice([2.0, 3.0]), (n, d)))


@generator
def student(rng: Rng, n: int, d: int) -> np.ndarray:
    return _some(rng, rng.standard_t(rng.choice([1.5, 2.0, 3.0]), (n, d)))


@generator
def units(rng: Rng, n: int, d: int) -> np.ndarray:
    """Columns in other units; the case bounds them further where powers would overflow."""
    return (normal(rng, n, d) + rng.choice([0.0, 2.0])) * 10.0 ** rng.uniform(-1, 1, d)


@generator
def offset(rng: Rng, n: int, d: int) -> np.ndarray:
    X, size = normal(rng, n, d), 10.0 ** rng.uniform(0, 8)
    if rng.random() < 0.4:
        X[:, 0] += size
        return X
    return X + size * rng.uniform(0.3, 1.0, d)


@generator
def rare_rows(rng: Rng, n: int, d: int) -> np.ndarray:
    X = normal(rng, n, d)
    rows = rng.choice(n, min(n, int(rng.integers(1, 6))), replace=False)
    X[rows] *= 10.0 ** rng.uniform(2, 8)
    return X


@generator
def rare_category(rng: Rng, n: int, d: int) -> np.ndarray:
    """Numbers beside indicators of one or two rows each."""
    X = normal(rng, n, d)
    for j in range(1, d):
        if j == d - 1 or rng.random() < 0.6:
            X[:, j] = 0.0
            X[rng.choice(n, min(n, int(rng.integers(1, 3))), replace=False), j] = 1.0
    return X


@generator
def rare_column(rng: Rng, n: int, d: int) -> np.ndarray:
    """A column that is 0 except in a few rows, where it is small."""
    X = normal(rng, n, d)
    rows = rng.choice(n, min(n, int(rng.integers(2, 21))), replace=False)
    X[:, -1] = 0.0
    X[rows, -1] = 10.0 ** rng.uniform(-9, -4) * rng.choice(
        [np.ones(len(rows)), rng.uniform(1, 3, len(rows))]
    )
    return X


@generator
def two_rows(rng: Rng, n: int, d: int) -> np.ndarray:
    """Columns that differ in two rows only (attack (a) of the design; rotated, attack (b))."""
    X = normal(rng, n, d)
    X[:, 0] += rng.choice([0.0, 3.0])
    X[:, -1] = X[:, 0]
    X[rng.choice(n, min(n, 2), replace=False), -1] += 10.0 ** rng.uniform(-6, -3)
    return X


@generator
def cascade(rng: Rng, n: int, d: int) -> np.ndarray:
    """Equal columns, each of which has one row of its own, larger by a factor than that of the
    column before.
    """
    X = np.repeat(normal(rng, n, 1), d, axis=1)
    rows = rng.choice(n, min(n, d), replace=False)
    X[rows, np.arange(len(rows))] += 10.0 ** (rng.uniform(1, 6) * np.arange(len(rows)))
    return X


@generator
def drift(rng: Rng, n: int, d: int) -> np.ndarray:
    """A stream that wanders: in scale, in mean, suddenly, or in a column that begins late."""
    t = np.arange(n) / n
    kind = rng.integers(4)
    X = normal(rng, n, d)
    if kind == 0:
        X *= 10.0 ** (rng.uniform(1, 6) * t[:, None])
    elif kind == 1:
        X += 10.0 ** (rng.uniform(1, 8) * t[:, None])
    elif kind == 2:
        X[n // 2 :] = X[n // 2 :] * 10.0 ** rng.uniform(-4, 4) + 10.0 ** rng.uniform(0, 6)
    else:
        X[:, -1] *= 10.0 ** rng.uniform(-12, 0)
        X[: n // 2, -1] = rng.choice([0.0, 5.0])
    return X


@generator
def late_twin(rng: Rng, n: int, d: int) -> np.ndarray:
    """Two columns that are equal in the first rows of a stream, and differ later."""
    X = normal(rng, n, max(d, 2))
    begin = int(n * rng.uniform(0.1, 0.9))
    X[:begin, -1] = X[:begin, 0]
    X[begin:, -1] = X[begin:, 0] + 10.0 ** rng.uniform(-8, 0) * X[begin:, -1]
    return X


@generator
def outlier(rng: Rng, n: int, d: int) -> np.ndarray:
    X = normal(rng, n, d)
    X[rng.integers(n), rng.integers(d)] = 10.0 ** rng.uniform(2, 6)
    return X
