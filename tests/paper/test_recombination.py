"""Other exact reducers, written from their papers: few points, positive weights, the same
moments.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
tchakaloff, cones = (
    SimpleNamespace(**runpy.run_path(str(FOLDER / f"{name}.py")))
    for name in ("tchakaloff", "random_cones")
)


def features(n, d, seed=0):
    """Products of (1, x), the constant first, and weights."""
    rng = np.random.default_rng(seed)
    D = np.column_stack([np.ones(n), rng.standard_normal((n, d))])
    a, b = np.triu_indices(d + 1)
    return D[:, a] * D[:, b], rng.uniform(0.5, 2.0, n)


def check(F, u, index, weights, most):
    assert len(np.unique(index)) == len(index) <= most
    assert (weights > 0).all()
    assert np.abs(weights @ F[index] - u @ F).max() <= 1e-11 * (u @ np.abs(F)).max()


@pytest.mark.parametrize(("n", "d"), [(30, 2), (500, 3), (5000, 4)])
def test_dcatch(n, d):
    F, u = features(n, d)
    check(F, u, *tchakaloff.dcatch(F, u), F.shape[1])


def test_dcatch_stops_at_the_rank():
    F, u = features(800, 3)
    check(F, u, *tchakaloff.dcatch(np.column_stack([F, F @ np.ones((10, 4))]), u), 10)


def test_lawson_hanson_is_the_solution_of_scipy():
    from scipy.optimize import nnls

    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((8, 6)), rng.standard_normal(8)
    assert np.allclose(tchakaloff.lawson_hanson(A, b), nnls(A, b)[0], atol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(30, 2), (500, 3), (5000, 4)])
def test_random_cones_and_tree(n, d):
    F, u = features(n, d)
    index, weights, found = cones.recombine_randomly(F[:, 1:], u)
    check(F, u, index, weights, F.shape[1])
    assert found > 0
    mass = cones.recombine(F[:, 1:], u)
    check(F, u, np.flatnonzero(mass), mass[mass > 0], F.shape[1])


def test_the_tree_takes_over_where_no_cone_is_found():
    """Points of dependent coordinates span no cone."""
    F, u = features(400, 2)
    points = np.column_stack([F[:, 1:], F[:, 1:] @ np.ones((5, 2))])
    assert cones.random_cone(points - u @ points / u.sum(), np.random.default_rng(0)) is None
    index, weights, found = cones.recombine_randomly(points, u)
    assert found == 0
    check(F, u, index, weights, 8)


def test_elimination_stops_at_the_rank():
    F, u = features(60, 2)
    mass = cones.eliminate(F[:, 1:], u)
    check(F, u, np.flatnonzero(mass), mass[mass > 0], 6)
