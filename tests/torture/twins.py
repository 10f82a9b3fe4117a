"""Generators that came with the claim by columns: columns that are others but for a few bits or
rows, and ends of the range.

A generator may return a table alone, or with what goes with it: weights, the noise of the target,
the target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .data import Rng, generator, normal

EPS = 2.0**-52
Made = np.ndarray | tuple[np.ndarray, dict[str, Any]]


def beside(rng: Rng, n: int, d: int, *columns: np.ndarray) -> np.ndarray:
    """Some columns among plain ones, in any order."""
    rest = max(0, d - len(columns))
    X = np.column_stack([*columns, normal(rng, n, rest)])
    return np.ascontiguousarray(X[:, rng.permutation(X.shape[1])])


def amounts(rng: Rng, n: int, share: float) -> np.ndarray:
    """Positive numbers, some of which are 0."""
    kind = rng.integers(3)
    a = [rng.lognormal(3, 1, n), rng.uniform(0.5, 2.0, n), rng.lognormal(10, 1, n)][kind]
    return a * (rng.random(n) >= share)


@generator
def floored(rng: Rng, n: int, d: int) -> np.ndarray:
    """A column with zeros beside its floored copy."""
    a = amounts(rng, n, rng.choice([0.01, 0.05, 0.3, 0.7]))
    return beside(rng, n, d, a, np.maximum(a, 2.0 ** -float(rng.integers(20, 61))))


@generator
def floored_amounts(rng: Rng, n: int, d: int) -> np.ndarray:
    a = amounts(rng, n, 0.7)
    return beside(rng, n, d, a, np.maximum(a, rng.choice([1e-9, 1e-12, 1e-15, 1e-300])))


@generator
def softmax(rng: Rng, n: int, d: int) -> np.ndarray:
    """One-hot columns beside a saturated softmax of them."""
    classes = int(rng.integers(2, 5))
    hot = np.eye(classes)[rng.integers(0, classes, n)]
    raw = rng.uniform(25, 60) * hot + rng.choice([0.0, 1.0]) * normal(rng, n, classes)
    soft = np.exp(raw - raw.max(axis=1, keepdims=True))
    return beside(rng, n, d, hot, soft / soft.sum(axis=1, keepdims=True))


@generator
def complement(rng: Rng, n: int, d: int) -> np.ndarray:
    """p beside 1 - p, or beside its powers."""
    p = 10.0 ** -rng.uniform(0, rng.choice([3, 20, 40]), n)
    return beside(rng, n, d, p, 1 - p) if rng.random() < 0.6 else beside(rng, n, d, p, p**2, p**3)


@generator
def cosines(rng: Rng, n: int, d: int) -> np.ndarray:
    """Cosines of quarter turns beside their rounded values."""
    turn = np.pi / 2 * rng.integers(0, 4, n) + rng.choice([0.0, 2 * np.pi * 1000])
    own = [np.cos(turn), np.rint(np.cos(turn))]
    return beside(
        rng, n, d, *own, *([np.sin(turn), np.rint(np.sin(turn))] if rng.random() < 0.5 else [])
    )


@generator
def sigmoids(rng: Rng, n: int, d: int) -> np.ndarray:
    """A step beside a steep sigmoid, or a ramp beside a steep softplus."""
    v = rng.uniform(20, 60) * normal(rng, n, 1)[:, 0]
    if rng.random() < 0.5:
        return beside(rng, n, d, (v > 0).astype(float), 1 / (1 + np.exp(-np.clip(v, -700, 700))))
    return beside(rng, n, d, np.maximum(v, 0), np.logaddexp(0, v))


@generator
def underflow(rng: Rng, n: int, d: int) -> np.ndarray:
    """Columns that are equal but for rows whose squares (or fourth powers) are below the range of
    doubles.
    """
    size = 10.0 ** rng.choice([-80, -100, -155, -160, -200, -300])
    a = np.zeros(n)
    rare = rng.choice(n, max(2, n // int(rng.choice([10, 100]))), replace=False)
    a[rare] = rng.choice([1.0, rng.uniform(0.5, 2)])
    b = a.copy()
    other = np.setdiff1d(np.arange(n), rare)
    b[other] = size * rng.integers(1, 9, len(other))
    return beside(rng, n, d, a, b)


@generator
def rare_twins(rng: Rng, n: int, d: int) -> np.ndarray:
    """Columns that differ by some eps in one to three rows."""
    x = rng.uniform(1, 2, n)
    twin, rows = x.copy(), rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False)
    twin[rows] *= 1 + np.rint(10.0 ** rng.uniform(np.log10(20), 3)) * EPS
    return beside(rng, n, d, x, twin)


@generator
def equal_products(rng: Rng, n: int, d: int) -> tuple[np.ndarray, dict[str, Any]]:
    """A constant column, whose products all round the same way, beside columns near it: condition 1
    to 50.
    """
    c = rng.choice(
        [0.1, 1 / 3, 0.7, np.nextafter(np.sqrt(1 + 2.0 ** -float(rng.integers(36, 53))), 0)]
    )
    c *= 1 + int(rng.integers(0, 64)) * EPS
    near = 1 / rng.uniform(1, 50)
    rest = rng.choice([-1.0, 1.0], (n, d)) if rng.random() < 0.3 else normal(rng, n, d)
    X = np.column_stack([np.full(n, c), c * (1 + near * rest[:, 1:])])
    return X, {"y": c * (1 + near * rest[:, 0]) if rng.random() < 0.5 else normal(rng, n, 1)[:, 0]}


@generator
def good_fit(rng: Rng, n: int, d: int) -> tuple[np.ndarray, dict[str, Any]]:
    """R2 from 1 - 1e-6 to 1 - 1e-16 and beyond."""
    X = normal(rng, n, d) + rng.choice([0.0, 3.0, 1000.0])
    if d > 1 and rng.random() < 0.4:
        X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-6, 0) * X[:, -1]
    return X, {
        "noise": 10.0 ** (rng.uniform(-8, -3) if rng.random() < 0.75 else rng.uniform(-13, -8))
    }


@generator
def late_noise(rng: Rng, n: int, d: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Targets that the first rows, or all but a few, explain up to rounding."""
    X = normal(rng, n, d)
    if d > 1 and rng.random() < 0.3:
        X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-15, -6) * X[:, -1]
    noise, first = np.full((n, 1), 10.0 ** rng.uniform(-16, -11)), int(rng.integers(2, n // 2 + 2))
    where = np.arange(n) >= first if rng.random() < 0.7 else rng.random(n) < 20 / n
    noise[where] = 10.0 ** rng.uniform(-6, 0)
    return X, {"noise": noise}


@generator
def ends(rng: Rng, n: int, d: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Weights at both ends of the range."""
    size = rng.choice([1e-318, 1e-310, 1e-307, 1e-300, 1e-290, 1e290, 1e300, 1e304, 1e307])
    u = np.full(n, size)
    kind = rng.integers(3)
    if kind == 1:
        u = size * rng.uniform(0.5, 2.0, n)
    if kind == 2:
        u[rng.random(n) < 0.3] = rng.choice([1e-300, 1e-100, 1.0, 1e100, 1e300])
    return normal(rng, n, d) + rng.choice([0.0, 5.0]), {"weights": u}


@generator
def light_rows(rng: Rng, n: int, d: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Rows of hardly any weight in which alone a column differs from another."""
    X, u = normal(rng, n, max(2, d)), rng.choice([np.ones(n), rng.uniform(0.5, 2.0, n)])
    rows = rng.choice(n, max(1, int(n * rng.choice([0.002, 0.02, 0.2]))), replace=False)
    weight = 10.0 ** rng.uniform(-25, -3)
    u[rows] = weight * rng.uniform(0.5, 2.0, len(rows))
    X[:, -1] = X[:, 0]
    X[rows, -1] += 10.0 ** rng.uniform(-8, 6) * rng.standard_normal(len(rows))
    return X, {"weights": u}


@generator
def wild_row(rng: Rng, n: int, d: int) -> np.ndarray:
    """One row of 1e20, whole or in one column."""
    X, row = normal(rng, n, d), int(rng.integers(n))
    X[row, slice(None) if rng.random() < 0.5 else int(rng.integers(d))] = rng.choice(
        [1e20, -1e20, 1e15, 1e30]
    )
    return X


@generator
def sentinels(rng: Rng, n: int, d: int) -> np.ndarray:
    """A missing value written as -999e9, in 0.03 % of the rows and in at least one."""
    X = normal(rng, n, d) * 10.0 ** rng.uniform(-1, 3) + rng.choice([0.0, 50.0])
    rows = rng.choice(n, max(1, int(np.rint(0.0003 * n))), replace=False)
    X[rows, int(rng.integers(d))] = rng.choice([-999e9, -9999.0, 1e12])
    return X


@generator
def all_levels(rng: Rng, n: int, d: int) -> np.ndarray:
    """The indicators of every level of one or two factors: each factor adds up to the constant."""
    sizes, even = rng.integers(2, 8, rng.integers(1, 3)), rng.choice([0.5, 5.0])
    factors = [rng.choice(k, n, p=rng.dirichlet(np.full(k, even))) for k in sizes]
    hot = [(codes[:, None] == np.unique(codes)).astype(float) for codes in factors]
    return beside(rng, n, sum(h.shape[1] for h in hot) + max(0, d - 2), *hot)


@generator
def uneven_groups(rng: Rng, n: int, d: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Groups in which a column has other sizes: its squares underflow in one of them."""
    groups = rng.integers(0, int(rng.integers(2, 5)), n)
    X = normal(rng, n, d) + rng.choice([0.0, 5.0])
    size = np.array(
        [10.0 ** rng.choice([-300, -200, -160, -80, 0, 80]) for _ in range(groups.max() + 1)]
    )
    X[:, int(rng.integers(d))] *= size[groups]
    return X, {"groups": groups}
