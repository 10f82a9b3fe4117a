"""More generators: columns that depend on each other, numbers that are no measurements, tables of
models, real tables.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from .data import Rng, generator, normal


@generator
def algebraic(rng: Rng, n: int, d: int) -> np.ndarray:
    """Columns bound by an equation, which holds to a few digits: xyz = 1, z = xy, y = x^2, or rows
    of unit length.
    """
    X, digits, kind = normal(rng, n, max(d, 3)), int(rng.integers(4, 14)), rng.integers(4)
    if kind == 0:
        X[:, :2] = np.round(rng.uniform(0.5, 2.0, (n, 2)), 4)
        X[:, 2] = np.round(1 / (X[:, 0] * X[:, 1]), digits)
    elif kind == 1:
        X[:, 2] = np.round(X[:, 0] * X[:, 1], digits)
    elif kind == 2:
        X[:, 1] = np.round(X[:, 0] ** 2, digits)
    else:
        X = np.round(X / np.linalg.norm(X, axis=1, keepdims=True), digits)
    return X


@generator
def clusters(rng: Rng, n: int, d: int) -> np.ndarray:
    """A mixture of Gaussians, sometimes with an offset or with a few rows far out."""
    X = 4.0 * normal(rng, 3, d)[rng.integers(0, 3, n)] + normal(rng, n, d)
    kind = rng.integers(3)
    if kind == 1:
        X += 10.0 ** rng.uniform(0, 4)
    if kind == 2:
        X[rng.choice(n, 2, replace=False)] *= 10.0 ** rng.uniform(1, 4)
    return X


@generator
def sources(rng: Rng, n: int, d: int) -> np.ndarray:
    """Independent sources, mixed."""
    return rng.laplace(size=(n, d)) @ normal(rng, d, d) + 10.0 ** rng.uniform(-1, 3)


@generator
def documents(rng: Rng, n: int, d: int) -> np.ndarray:
    """Word counts of documents of one topic each; topics overlap."""
    topics = rng.dirichlet(np.full(d, 0.5), 2)
    return np.array(
        [rng.multinomial(int(rng.integers(3, 40)), topics[t]) for t in rng.integers(0, 2, n)]
    )


@generator
def real(rng: Rng, n: int, d: int) -> np.ndarray:
    """Some columns of a table that comes with scikit-learn or statsmodels, as they are."""
    table = _real_table(str(rng.choice(REAL)))
    return np.ascontiguousarray(
        table[:, rng.choice(table.shape[1], min(d, table.shape[1]), replace=False)]
    )


REAL = (
    "iris", "wine", "breast_cancer", "diabetes", "longley", "macrodata", "star98", "stackloss",
    "anes96", "ccard", "fair", "randhie", "grunfeld", "statecrime", "cpunish", "copper", "spector",
    "scotland", "engel",
)  # fmt: skip


@cache
def _real_table(name: str) -> np.ndarray:
    from sklearn import datasets
    from statsmodels import datasets as older

    if name in ("iris", "wine", "breast_cancer", "diabetes"):
        bunch = getattr(datasets, f"load_{name}")()
        return np.column_stack([bunch.data, bunch.target]).astype(float)
    table = (
        getattr(older, name)
        .load_pandas()
        .data.select_dtypes("number")
        .dropna()
        .to_numpy(dtype=float)
    )
    return table[:3000]


@generator
def collinear(rng: Rng, n: int, d: int) -> np.ndarray:
    X = normal(rng, n, d)
    X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-14, -1) * X[:, -1]
    return X


@generator
def dependent(rng: Rng, n: int, d: int) -> np.ndarray:
    X = normal(rng, n, d)
    X[:, -1] = X[:, :-1] @ rng.integers(-2, 3, d - 1) + rng.choice([0.0, 1.0]) if d > 1 else 2.0
    return X


@generator
def duplicates(rng: Rng, n: int, d: int) -> np.ndarray:
    X = normal(rng, n, d)
    if rng.random() < 0.5:
        X = X[rng.integers(0, max(1, n // int(rng.integers(2, 30))), n)]
    if d > 1 and rng.random() < 0.7:
        X[:, -1] = X[:, 0]
    return X


@generator
def constant(rng: Rng, n: int, d: int) -> np.ndarray:
    X = normal(rng, n, d)
    kind = rng.integers(4)
    X[:, -1] = [7.3, 0.0, 7.3, 1e8][kind]
    if kind == 2:
        X[:, -1] += rng.integers(-1, 2, n) * np.spacing(7.3)
    if d > 2 and rng.random() < 0.3:
        X[:, -2] = 0.1
    return X


@generator
def sparse_table(rng: Rng, n: int, d: int) -> Any:
    values = normal(rng, n, d) if rng.random() < 0.5 else rng.integers(1, 5, (n, d)).astype(float)
    return sparse.csr_matrix(values * (rng.random((n, d)) < rng.choice([0.02, 0.1, 0.3])))


@generator
def integers(rng: Rng, n: int, d: int) -> np.ndarray:
    return rng.integers(0, 10 ** rng.integers(1, 7), (n, d))


@generator
def long_integers(rng: Rng, n: int, d: int) -> np.ndarray:
    """Beyond 2^53: identifiers and nanoseconds, which no double holds."""
    X = rng.integers(-1000, 1000, (n, d))
    if rng.random() < 0.5:
        X[:, 0] += 2**53 + 2 ** int(rng.integers(54, 62))
    else:
        X[:, 0] = 1_700_000_000_000_000_000 + rng.integers(0, 10 ** int(rng.integers(3, 15)), n)
    return X


@generator
def onehot(rng: Rng, n: int, d: int) -> np.ndarray:
    return np.eye(d)[rng.choice(d, n, p=rng.dirichlet(np.full(d, 0.5)))]


@generator
def zero_inflated(rng: Rng, n: int, d: int) -> np.ndarray:
    X = rng.lognormal(0, 1, (n, d)) if rng.random() < 0.5 else normal(rng, n, d)
    return X * (rng.random((n, d)) < rng.choice([0.3, 0.1, 0.02, 5.0 / n]))


@generator
def binary(rng: Rng, n: int, d: int) -> np.ndarray:
    return (rng.random((n, d)) < rng.uniform(0.02, 0.98, d)).astype(float)
