"""Regression data that spoiled absorbed coresets, each from a fixed seed; ``REFUTED`` are those
that 0.1.0 called exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from karat.problems import LpRegression, Ridge


def make(kind: str, n: int = 600, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """X of three columns and y; ``collinear 1e-3`` has two columns that differ by so much."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    noise = rng.standard_normal(n)
    kind, _, size = kind.partition(" ")
    if kind == "collinear":
        X[:, 2] = X[:, 1] + float(size) * rng.standard_normal(n)
    elif kind == "drift":
        X = X + 10.0 ** (np.arange(n) / n * float(size))[:, None]
    elif kind == "student":
        X = rng.standard_t(2, (n, 3))
    elif kind == "pareto":
        X = rng.pareto(1.5, (n, 3))
    elif kind == "cauchy":
        X = rng.standard_cauchy((n, 3))
    elif kind == "offset":
        X = X + float(size)
    elif kind == "units":
        return X * [1e-6, 1.0, 1e6], X @ [1.0, 2.0, 3.0] + noise
    elif kind == "repeated":
        X[:, 2] = X[:, 1]
    elif kind == "constant":
        X[:, 2] = 0.1
    elif kind == "fits":
        noise = noise * float(size)
    return X, X @ [1.0, 2.0, 3.0] + noise


def issue_drift() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3)) + 10.0 ** (np.arange(4000) / 4000 * 8)[:, None]
    return X, X @ [1.0, 2.0, 3.0] + rng.standard_normal(4000)


def stalling(columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """With an intercept, p = 4 and alpha = 1e-3 the dual simplex runs for minutes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, columns))
    X[:, -1] = X[:, -2] + 1e-3 * rng.standard_normal(300)
    return X, X.sum(axis=1) + rng.standard_normal(300)


Case = tuple[Callable[[], tuple[np.ndarray, np.ndarray]], Ridge | LpRegression]

REFUTED: dict[str, Case] = {
    "drift": (issue_drift, Ridge(1.0, absorb="box")),
    "collinear4": (lambda: make("collinear 1e-4", 2000), Ridge(1e-9, absorb="box")),
    "collinear5": (lambda: make("collinear 1e-5", 2000), Ridge(1e-9, absorb="box")),
    "collinear6": (lambda: make("collinear 1e-6", 2000), Ridge(1e-9, absorb="diagonal")),
    "quartic": (lambda: stalling(2), LpRegression(4, 1e-3, fit_intercept=False, absorb="box")),
    "quartic_intercept": (lambda: stalling(2), LpRegression(4, 1e-3, absorb="box")),
}
