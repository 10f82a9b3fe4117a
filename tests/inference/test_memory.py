"""Predictions for a frame: what is held beside the frame, in bytes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from karat.inference import ols

N, NAMES = 120_000, [f"x{i}" for i in range(10)]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.standard_normal(N) for name in NAMES})
    return frame.assign(y=frame.x0 - frame.x1 + rng.standard_normal(N))


@pytest.mark.parametrize("kind", ["frame", "wider", "array"])
def test_predictions_hold_no_copy_of_the_rows(frame, kind):
    """Before, there were four: converted, side by side, in the order of the coefficients, and
    shifted.
    """
    fit = ols("y ~ " + " + ".join(NAMES), frame)
    rows = frame[NAMES]
    if kind == "wider":
        rows = rows.assign(**{f"z{i}": "text" for i in range(5)})
    elif kind == "array":
        rows = np.column_stack([np.ones(N), rows])
    expected = fit.params.iloc[0] + frame[NAMES].to_numpy() @ fit.params.to_numpy()[1:]
    fit.predict(rows[:10])
    tracemalloc.start()
    found = fit.predict(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.8 * 8 * N * len(NAMES)  # a third of it are the predictions and blocks
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_no_rows(frame):
    fit = ols("y ~ x0", frame)
    assert fit.predict(frame.head(0)).shape == (0,)
    assert fit.predict(np.ones((0, 2))).shape == (0,)
