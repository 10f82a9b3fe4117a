"""Generators of tables: one function per way in which data is unpleasant.  Each draws its own parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
    X[rows, -1] = 10.0 ** rng.uniform(-9, -4) * rng.choice([np.ones(len(rows)), rng.uniform(1, 3, len(rows))])
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
    """Equal columns, each of which has one row of its own, larger by a factor than that of the column before."""
    X = np.repeat(normal(rng, n, 1), d, axis=1)
    rows = rng.choice(n, min(n, d), replace=False)
    X[rows, np.arange(len(rows))] += 10.0 ** (rng.uniform(1, 6) * np.arange(len(rows)))
    return X


@generator
def algebraic(rng: Rng, n: int, d: int) -> np.ndarray:
    """Columns bound by an equation, which holds to a few digits: xyz = 1, z = xy, y = x^2, or rows of unit length."""
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
    return np.array([rng.multinomial(int(rng.integers(3, 40)), topics[t]) for t in rng.integers(0, 2, n)])


@generator
def real(rng: Rng, n: int, d: int) -> np.ndarray:
    """Some columns of a table that comes with scikit-learn or statsmodels, as they are."""
    table = _real_table(str(rng.choice(REAL)))
    return np.ascontiguousarray(table[:, rng.choice(table.shape[1], min(d, table.shape[1]), replace=False)])


REAL = (
    "iris", "wine", "breast_cancer", "diabetes", "longley", "macrodata", "star98", "stackloss", "anes96", "ccard", "fair",
    "randhie", "grunfeld", "statecrime", "cpunish", "copper", "spector", "scotland", "engel",
)  # fmt: skip


@cache
def _real_table(name: str) -> np.ndarray:
    from sklearn import datasets
    from statsmodels import datasets as older

    if name in ("iris", "wine", "breast_cancer", "diabetes"):
        bunch = getattr(datasets, f"load_{name}")()
        return np.column_stack([bunch.data, bunch.target]).astype(float)
    table = getattr(older, name).load_pandas().data.select_dtypes("number").dropna().to_numpy(dtype=float)
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


@generator
def outlier(rng: Rng, n: int, d: int) -> np.ndarray:
    X = normal(rng, n, d)
    X[rng.integers(n), rng.integers(d)] = 10.0 ** rng.uniform(2, 6)
    return X
