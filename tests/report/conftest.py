from __future__ import annotations

import numpy as np
import pytest

import karat


@pytest.fixture(autouse=True, scope="session")
def _no_window():
    import matplotlib

    matplotlib.use("Agg")


@pytest.fixture
def pyplot():
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture(scope="session")
def table():
    """Correlated, skewed columns on different scales, and a target."""
    rng = np.random.default_rng(3)
    X = (
        np.exp(0.4 * rng.standard_normal((5000, 4)))
        @ rng.standard_normal((4, 4))
        * [1.0, 10.0, 0.1, 1000.0]
        + 5.0
    )
    return X, X @ [1.0, -0.2, 3.0, 0.001] + rng.standard_normal(5000)


@pytest.fixture(scope="session")
def core(table):
    return karat.coreset(*table)
