"""The report's items 1 to 4: coresets that say ok and are wrong.  See :mod:`.reported`."""

from __future__ import annotations

import numpy as np

from .cases import Case
from .registry import case


def regression(rng: np.random.Generator, X: np.ndarray, noise: float = 1.0) -> np.ndarray:
    return X @ np.linspace(1.0, -2.0, X.shape[1]) + noise * rng.standard_normal(len(X))


# 1. Heavy tails


@case
def item_1_pareto() -> Case:
    return Case(
        "", np.random.default_rng(10).pareto(0.5, (3000, 3)), None, {"name": "Moments", "degree": 4}
    )


@case
def item_1_cauchy() -> Case:
    return Case(
        "",
        np.random.default_rng(3).standard_cauchy((3000, 3)),
        None,
        {"name": "Moments", "degree": 5},
    )


@case
def item_1_lognormal() -> Case:
    return Case(
        "",
        np.random.default_rng(5).lognormal(0, 3, (2000, 3)),
        None,
        {"name": "Moments", "degree": 4},
    )


# 2. absorb=


@case
def item_2_offset_box() -> Case:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3)) + 10.0 ** (np.arange(4000) / 4000 * 8)[:, None]
    return Case("", X, regression(rng, X), {"name": "Ridge", "alpha": 1.0, "absorb": "box"})


def _twins(share: float, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 3))
    X[:, 2] = X[:, 1] + share * X[:, 2]
    return X, regression(rng, X)


@case
def item_2_collinear_3() -> Case:
    X, y = _twins(1e-3, 400)
    return Case(
        "", X[:, 1:], y, {"name": "LpRegression", "p": 4, "alpha": 1e-5, "absorb": "diagonal"}
    )


@case
def item_2_collinear_5() -> Case:
    X, y = _twins(1e-5, 400)
    return Case(
        "", X[:, 1:], y, {"name": "LpRegression", "p": 4, "alpha": 1e-5, "absorb": "diagonal"}
    )


@case
def item_2_collinear_ridge() -> Case:
    return Case("", *_twins(1e-5), {"name": "Ridge", "alpha": 1.0, "absorb": "box"})


@case
def item_2_small_alpha() -> Case:
    return Case("", *_twins(1e-7, 1000), {"name": "Ridge", "alpha": 1e-11, "absorb": "box"})


@case
def item_2_weight_units() -> Case:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((1000, 3))
    u = 1e-120 * rng.uniform(0.5, 2.0, 1000)
    return Case("", X, regression(rng, X), {"name": "Ridge", "alpha": 1e-118, "absorb": "box"}, u)


@case
def item_2_programme() -> Case:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 3))
    X[:, 1] = X[:, 0] + 1e-3 * rng.standard_normal(300)
    return Case(
        "", X, regression(rng, X), {"name": "LpRegression", "p": 4, "alpha": 1e-3, "absorb": "box"}
    )


# 3. A column that is constant in the pilot


@case
def item_3_rare_column() -> Case:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200_000, 3))
    X[:, 2] = 0.0
    rows = rng.choice(len(X), 20, replace=False)
    X[rows, 2] = 1e-9 * rng.uniform(1, 3, 20)
    return Case(
        "", X, X[:, 0] + 5e9 * X[:, 2] + 0.1 * rng.standard_normal(len(X)), {"name": "LeastSquares"}
    )


@case
def item_3_sketch_late_column() -> Case:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((4000, 2))
    X[:, 1] *= 1e-11
    X[:2000, 1] = 0.0
    way = {"kind": "sketch", "buffer_rows": 500, "batch": 500}
    return Case(
        "",
        X,
        X[:, 0] + 1e11 * X[:, 1] + 0.1 * rng.standard_normal(4000),
        {"name": "LeastSquares"},
        way=way,
    )


# 4. Features and directions that nobody saw


def _pair(rng: np.random.Generator, n: int, size: float) -> np.ndarray:
    b = np.zeros(n)
    b[rng.choice(n, 2, replace=False)] = size
    x = rng.standard_normal(n) + 3.0
    return np.column_stack([x, x + b])


@case
def item_4_hidden_feature() -> Case:
    X = np.random.default_rng(6).standard_normal((1_000_000, 2))
    X[X[:, 0] > 4.5, 0] = 4.0
    X[[1234, 777_777], 0] = 6.5
    return Case(
        "", X, None, {"name": "Kernel", "function": "threshold", "scale": 1e-4, "level": 6.0}
    )


@case
def item_4_hidden_column() -> Case:
    X = np.random.default_rng(6).standard_normal((1_000_000, 3))
    X[:, 2] = 0.0
    X[[1234, 777_777], 2] = 1e-4
    return Case("", X, None, {"name": "Moments", "degree": 1})


@case
def item_4_attack_a() -> Case:
    X = _pair(np.random.default_rng(7), 1_000_000, 1e-5)
    return Case("", X, None, {"name": "Kernel", "function": "identity"})


@case
def item_4_attack_b() -> Case:
    X = _pair(np.random.default_rng(8), 1_000_000, 1e-5)
    c, s = np.cos(0.7), np.sin(0.7)
    return Case(
        "", X @ np.array([[c, s], [-s, c]]), None, {"name": "Kernel", "function": "identity"}
    )
