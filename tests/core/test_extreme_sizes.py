"""Data at the ends of the doubles: a coreset that holds, or an error that names the place; never a
warning of NumPy.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import karat
from karat import problems as P

rng = np.random.default_rng(0)
PLAIN, W = rng.standard_normal((400, 3)), rng.uniform(0.5, 2, 400)
Y = PLAIN @ [1.0, 2.0, 3.0] + rng.standard_normal(400)
SIZES = [
    1e150,
    1e160,
    1e200,
    1e300,
    1e305,
    1.5e308,
    1e-150,
    1e-160,
    1e-200,
    1e-300,
    1e-307,
    1e-310,
    1e-320,
]
PROBLEMS = [
    P.LeastSquares(), P.LeastSquares(fit_intercept=False), P.Moments(1), P.Moments(2), P.Moments(3),
    P.Moments(4), P.TensorContraction(3), P.Mean(), P.LpRegression(4), P.Ridge(1.0, absorb="box"),
    P.Kernel(lambda A: A),
]  # fmt: skip


def attempts(problem, X, y):
    """The public doors, one after the other."""
    yield lambda: karat.coreset(X, y, problem).verify(X, y)
    yield lambda: karat.coreset(PLAIN, y, problem).verify(X, y)
    yield lambda: karat.coreset(X, y, problem).loss(
        np.ones(4 if isinstance(problem, P.Moments) else 3)
    )
    if problem.absorb is None:
        yield lambda: karat.coreset(X, y, problem, groups=np.arange(400) % 2, sample_weight=W)

    def half(table, some):
        return karat.coreset(table[some], None if y is None else y[some], problem)

    yield lambda: half(X, slice(200)).merge(half(X, slice(200, None)))
    yield lambda: half(X, slice(200)).merge(half(PLAIN, slice(200, None)))

    def sketched():
        sketch = karat.Sketch(problem, buffer_rows=90)
        for start in range(0, 400, 100):
            sketch.update(X[start : start + 100], None if y is None else y[start : start + 100])
        return sketch.coreset()

    yield sketched


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.describe())
def test_no_warning_at_any_door(problem, size):
    with np.errstate(over="ignore", under="ignore"):
        tables = [
            PLAIN * size,
            PLAIN * [1.0, size, 1.0],
            np.where(np.arange(400)[:, None] == 17, size, 1.0) * PLAIN,
            PLAIN + size,
        ]
    y, said = Y if problem.needs_target else None, []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in tables:
            if not np.isfinite(X).all():
                continue
            for attempt in attempts(problem, X, y):
                try:
                    attempt()
                except (karat.InputError, karat.NotExactError) as refused:
                    said.append(str(refused))
    assert all(
        "Kernel" in problem.describe() or "olumn" in text or "query" in text for text in said
    ), said


@pytest.mark.parametrize("size", [1e305, 1e307, 1e-305])
def test_features_of_any_size_are_named(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = P.Kernel(lambda A: np.column_stack([A, size * np.abs(A[:, :1])]))
        if size < 1:
            assert karat.coreset(PLAIN, problem=problem).verify(PLAIN).ok
            return
        for door in (
            lambda: karat.coreset(PLAIN, problem=problem),
            lambda: karat.Sketch(problem).update(PLAIN).coreset(),
        ):
            with pytest.raises(karat.InputError, match="Feature 3"):
                door()
