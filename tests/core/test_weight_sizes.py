"""Weights are proven as they are stored: normal doubles, whatever their unit; else the error says
what to do.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import karat
from karat import problems as P

rng = np.random.default_rng(0)
X = rng.standard_normal((3000, 3))
y = X.sum(axis=1) + rng.standard_normal(3000)
TINY = np.finfo(float).tiny
PROBLEMS = [
    P.LeastSquares(),
    P.Moments(3),
    P.Mean(),
    P.Ridge(1.0, absorb="box"),
    P.Kernel(lambda A, b: np.column_stack([A, b])),
]
UNITS = [
    1e-318,
    1e-310,
    1e-307,
    1e-300,
    1e-200,
    1e-100,
    1e100,
    1e200,
    1e300,
    1e303,
    1e304,
    1e305,
    1e307,
    1.7e308,
]


def sketched(problem, w):
    sketch = karat.Sketch(problem, buffer_rows=700)
    for start in range(0, 3000, 500):
        some = slice(start, start + 500)
        sketch.update(X[some], y[some], sample_weight=w[some])
    return sketch.coreset()


def error(core, w) -> float:
    """The largest difference of a first or second moment, in extended precision."""
    Z = np.column_stack([np.ones(3000), X, y]).astype(np.longdouble)
    u, kept = w.astype(np.longdouble)[:, None], Z[core.indices]
    full, size = (Z * u).T @ Z, (np.abs(Z) * u).T @ np.abs(Z)
    return float(
        (np.abs((kept * core.weights.astype(np.longdouble)[:, None]).T @ kept - full) / size).max()
    )


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("way", ["memory", "sketch", "groups"])
def test_weights_are_normal_numbers_or_refused(problem, unit, way):
    if way == "groups" and problem.absorb is not None:
        pytest.skip("no groups")
    w = np.full(3000, unit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if way == "sketch":
                core = sketched(problem, w)
            else:
                groups = np.arange(3000) % 3 if way == "groups" else None
                core = karat.coreset(X, y, problem, sample_weight=w, groups=groups)
        except (karat.InputError, karat.NotExactError) as refused:
            core, said = None, str(refused)
    if core is None:
        assert "Multiply all weights" in said
        assert not 1e-200 < unit < 1e200
        return
    assert np.isfinite(core.weights).all()
    assert (core.weights >= TINY).all()
    if isinstance(problem, P.LeastSquares | P.Moments):
        assert error(core, w) <= 1e-12
    if way == "memory":
        assert core.verify(X, y, sample_weight=w).ok


@pytest.mark.parametrize(
    ("first", "second"),
    [(1e300, 1e-300), (1e-300, 1e300), (1.0, 1e-200), (1e200, 1e-200), (1e307, 1e307)],
)
def test_parts_in_other_units_merge_or_are_refused(first, second):
    half = 1500
    w = np.repeat([first, second], half)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for merge in (_coresets, _sketches):
            try:
                core = merge(w, half)
            except (karat.InputError, karat.NotExactError) as refused:
                core, said = None, str(refused)
            if core is None:
                assert "weights" in said.lower()
                continue
            assert np.isfinite(core.weights).all()
            assert (core.weights >= TINY).all()
            assert error(core, w) <= 1e-12


def _coresets(w, half):
    parts = [
        karat.coreset(X[s], y[s], sample_weight=w[s]) for s in (slice(half), slice(half, None))
    ]
    return parts[0].merge(parts[1])


def _sketches(w, half):
    parts = [
        karat.Sketch(P.LeastSquares()).update(X[s], y[s], sample_weight=w[s])
        for s in (slice(half), slice(half, None))
    ]
    return parts[0].merge(parts[1]).coreset()


def test_rows_of_next_to_no_weight_beside_others_do_not_matter():
    """Their share of the total was a difference, and negative."""
    w = np.repeat([1.0, 1e-17], 1500)
    assert error(sketched(P.LeastSquares(), w), w) <= 1e-12
