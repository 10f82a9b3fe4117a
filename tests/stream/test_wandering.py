"""Streams whose means and scales wander: the claim is about the means of all rows, wherever the
sums are.

Judged by the oracle of the campaign, in extended precision and over every query that it finds.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from torture.arithmetic import EPS, extended, wide
from torture.linear import Linear, Monomials

import karat
from karat import problems as P
from karat.engine.polynomial import Polynomials

pytestmark = pytest.mark.skipif(not extended(), reason="no long double")
DEGREES = {"Moments": (2, 3, 4, 5, 6), "TensorContraction": (3, 4)}


def wandering(rng: np.random.Generator, n: int) -> np.ndarray:
    """Two columns that jump, drift, or begin to depend on each other; often rotated."""
    X, t, kind = rng.standard_normal((n, 2)), np.arange(n) / n, rng.integers(4)
    if kind == 0:
        X[: n // 2, 1] = 5.0
        X[n // 2 :, 1] *= 10.0 ** rng.uniform(-12, 0)
    elif kind == 1:
        X += 10.0 ** (rng.uniform(0, 2) * t[:, None])
    elif kind == 2:
        X[n // 2 :] = X[n // 2 :] * 10.0 ** rng.uniform(-2, 2) + 10.0 ** rng.uniform(0, 3)
    else:
        X = X * 0.3 + np.sin(7 * t)[:, None] * rng.uniform(1, 5)
    if rng.random() < 0.5:
        X = X @ np.linalg.qr(rng.standard_normal((2, 2)))[0]
    return X


def sketched(problem, X, w, buffer: int, seed: int):
    sketch = karat.Sketch(problem, buffer_rows=buffer, random_state=seed)
    for start in range(0, len(X), 64):
        some = slice(start, start + 64)
        sketch.update(X[some], sample_weight=None if w is None else w[some])
    return sketch


@pytest.mark.parametrize("seed", range(60))
def test_sketches_of_streams_that_wander_claim_no_more_than_they_keep(seed, tmp_path):
    rng = np.random.default_rng([7, seed])
    name = "TensorContraction" if seed % 6 == 5 else "Moments"
    degree = int(rng.choice(DEGREES[name]))
    n = int(rng.integers(60, 900))
    X, w = wandering(rng, n), rng.uniform(0.5, 2, n) if rng.random() < 0.4 else None
    problem, buffer = getattr(P, name)(degree), int(rng.choice([9, 40, 150]))
    if seed % 3 == 0:
        sketch = sketched(problem, X, w, buffer, seed)
    elif seed % 3 == 1:
        cuts = np.linspace(0, n, int(rng.integers(2, 6)) + 1).astype(int)
        parts = [
            sketched(problem, X[a:b], None if w is None else w[a:b], buffer, seed)
            for a, b in pairwise(cuts)
        ]
        sketch = parts[0].merge(*parts[1:])
    else:
        half = sketched(problem, X[: n // 2], None if w is None else w[: n // 2], buffer, seed)
        half.save(tmp_path / "half.npz")
        sketch = karat.Sketch.load(tmp_path / "half.npz").update(
            X[n // 2 :], sample_weight=None if w is None else w[n // 2 :]
        )
    core = sketch.coreset()
    u = np.ones(n, dtype=wide) if w is None else w.astype(wide)
    oracle = Linear(Monomials(X, u, degree, affine=name == "Moments"), X, u)
    certificate = core.certificate
    error, where = oracle.error(
        oracle.kept(X[core.indices]), core.weights.astype(wide), certificate.rounding
    )
    assert error <= certificate.loss_error * (1 + 1e-6), where
    assert certificate.rounding <= 256 * EPS
    assert core.verify(X, sample_weight=w).ok


@pytest.mark.parametrize("way", ["memory", "sketch"])
@pytest.mark.parametrize("seed", range(12))
def test_large_values_where_another_column_is_at_its_mean(seed, way):
    """Their products with the distance from the mean are nothing about the mean, and nearly all
    about a shift that is only close to it.
    """
    rng = np.random.default_rng([8, seed])
    n, degree = 2000, int(rng.choice([2, 3, 4, 5]))
    X = rng.standard_normal((n, 2))
    X[:, 0] += 0.07 * rng.choice([0, 1])
    heavy = rng.choice(n, 30, replace=False)
    X[heavy, 1] *= 10.0 ** rng.uniform(2, 6)
    for _ in range(50):
        X[heavy, 0] = X[:, 0].mean()
    problem = P.Moments(degree)
    try:
        core = (
            karat.coreset(X, problem=problem)
            if way == "memory"
            else sketched(problem, X, None, 200, seed).coreset()
        )
    except karat.NotExactError:  # earlier sums were about other means
        assert way == "sketch"
        return
    u = np.ones(n, dtype=wide)
    oracle, certificate = Linear(Monomials(X, u, degree, affine=True), X, u), core.certificate
    error, where = oracle.error(
        oracle.kept(X[core.indices]), core.weights.astype(wide), certificate.rounding
    )
    assert error <= certificate.loss_error * (1 + 1e-6), where
    assert certificate.rounding <= 1e-10


@pytest.mark.parametrize("degree", [1, 2, 3, 5, 6])
def test_sums_are_carried_to_another_shift(degree):
    rng = np.random.default_rng(degree)
    X, u = rng.normal([3.0, -1.0], 1.0, (50, 2)), rng.uniform(0.5, 2, 50)
    plain = Polynomials(2, degree, affine=True)
    here, there = plain.at(np.array([2.0, -1.5])), plain.at(np.array([3.3, -0.7]))
    features = [k.features(np.column_stack([np.ones(50), X - k.shift])) for k in (here, there)]
    raw = here.extended(np.column_stack([np.ones(50), X]), u)
    target = (raw * here.root).astype(float)
    low = (raw * here.root - target).astype(float)
    found, sizes = here.carried(target, low, u @ np.abs(features[0]), there.shift)
    assert np.abs(found - u @ features[1]).max() <= 1e-13 * sizes.max()
    assert (sizes >= (u @ np.abs(features[1])) * (1 - 1e-12)).all()
