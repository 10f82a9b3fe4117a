"""What each problem promises: how many features, which loss at which query, and in words what is
kept.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from factory import data
from hypothesis import given, settings
from hypothesis import strategies as st

import karat
from karat import InputError, problems
from karat.problems import (
    Kernel,
    LeastSquares,
    LpRegression,
    Mean,
    Moments,
    Ridge,
    TensorContraction,
)


@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_width_formulas(d):
    assert LeastSquares().width(d) == comb(d + 3, 2)
    assert LeastSquares(fit_intercept=False).width(d) == comb(d + 2, 2) + 1
    assert LeastSquares(fit_intercept=False, total_weight=False).width(d) == comb(d + 2, 2)
    assert Ridge(1.0).width(d) == comb(d + 3, 2)
    assert Mean().width(d) == d + 2
    for p in (1, 2, 3, 4):
        assert Moments(p).width(d) == comb(d + p, p)
        assert TensorContraction(p).width(d) == comb(d + p - 1, p) + 1
        assert TensorContraction(p, total_weight=False).width(d) == comb(d + p - 1, p)
    for p in (2, 4):
        assert LpRegression(p).width(d) == comb(d + 1 + p, p)
        assert LpRegression(p, fit_intercept=False, total_weight=False).width(d) == comb(d + p, p)


def test_only_needed_products_of_several_targets():
    """X'X, X'Y and each y^2, not the products of different targets: 186 instead of 231 for 10
    inputs and 10 targets.
    """
    assert LeastSquares(fit_intercept=False, total_weight=False).width(10, 10) == 55 + 100 + 10
    assert LeastSquares().width(10, 10) == 66 + 110 + 10 == 186
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((3000, 10)), rng.standard_normal((3000, 10))
    core = karat.coreset(X, Y)
    assert len(core) == 186


CASES = [
    LeastSquares(), LeastSquares(fit_intercept=False), Ridge(2.5), Ridge(2.5, fit_intercept=False),
    LpRegression(4, 0.3), LpRegression(6, 0.3, fit_intercept=False),
]  # fmt: skip


@pytest.mark.parametrize("problem", CASES, ids=lambda p: p.describe())
def test_regression_losses(problem):
    """The loss of the coreset is that of the full data, written out here."""
    made = data("gaussian")
    X, y = made.X, made.y
    core = karat.coreset(X, y, problem)
    rng = np.random.default_rng(0)
    p, alpha = getattr(problem, "p", 2), getattr(problem, "alpha", 0.0)
    for _ in range(50):
        w, b = rng.standard_normal(3), rng.standard_normal() * problem.fit_intercept
        full = ((X @ w + b - y) ** p).sum() + alpha * (np.abs(w) ** p).sum()
        assert core.loss((w, b)) == pytest.approx(full, rel=1e-12)
        if problem.fit_intercept:
            assert core.loss(np.append(w, b)) == pytest.approx(full, rel=1e-12)
            assert core.loss(w) == pytest.approx(
                ((X @ w - y) ** p).sum() + alpha * (np.abs(w) ** p).sum(), rel=1e-12
            )
        else:
            assert core.loss(w) == pytest.approx(full, rel=1e-12)


@pytest.mark.parametrize(
    ("problem", "columns", "target", "weight"),
    [
        # the squares of coefficients are too small, and with alpha they are not
        (Ridge(1e128), 1e64, 1e-94, 1.0),
        (Ridge(1e-120), 1e-40, 1e120, 1e-50),
        (LeastSquares(), 1.0, 1e-170, 1e100),
        (LeastSquares(), 1.0, 1e170, 1e-100),
        (LpRegression(4, alpha=1e200), 1e50, 1e-90, 1e150),
    ],
)
def test_losses_are_doubles_though_powers_are_not(problem, columns, target, weight):
    rng = np.random.default_rng(0)
    X, y, u = (
        columns * rng.standard_normal((30, 2)),
        target * rng.standard_normal(30),
        weight * rng.uniform(0.5, 2, 30),
    )
    w, b = target / columns * rng.standard_normal(2), 0.3 * target
    # x w rounds
    residuals = [
        sum(map(Fraction, x * w)) + Fraction(b) - Fraction(t) for x, t in zip(X, y, strict=True)
    ]
    loss = sum(Fraction(v) * r**problem.power for v, r in zip(u, residuals, strict=True))
    loss += Fraction(problem.penalty) * sum(Fraction(v) ** problem.power for v in w)
    assert 1e-300 < loss < 1e300
    assert problem.loss(X, y, u, (w, b)) == pytest.approx(float(loss), rel=1e-13, abs=0.0)


def test_loss_of_several_targets():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((500, 3)), rng.standard_normal((500, 4))
    core = karat.coreset(X, Y)
    W, b = rng.standard_normal((3, 4)), rng.standard_normal(4)
    assert core.loss((W, b)) == pytest.approx(((X @ W + b - Y) ** 2).sum(), rel=1e-12)
    solution = LeastSquares().solve(core)
    full = np.linalg.lstsq(np.column_stack([X, np.ones(500)]), Y, rcond=None)[0]
    assert np.allclose(solution.coef, full[:3], rtol=1e-10, atol=1e-12)
    assert np.allclose(solution.intercept, full[3], rtol=1e-10, atol=1e-12)


def test_coefficients_of_the_wrong_number_of_targets():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((500, 3)), rng.standard_normal((500, 4))
    core = karat.coreset(X, Y)
    with pytest.raises(InputError):
        core.loss(rng.standard_normal((3, 2)))


def test_square_query_is_not_mistaken_for_an_intercept():
    """d + 1 rows of coefficients carry the intercepts last, d rows do not."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 2)), rng.standard_normal((300, 3))
    core = karat.coreset(X, Y)
    W = rng.standard_normal((3, 3))
    assert core.loss(W) == pytest.approx(((X @ W[:2] + W[2] - Y) ** 2).sum(), rel=1e-12)


def test_mean_loss():
    X = data("skewed").X
    core = karat.coreset(X, problem=Mean())
    rng = np.random.default_rng(0)
    for q in [X.mean(axis=0), *rng.standard_normal((20, 3)) * 10]:
        assert core.loss(q) == pytest.approx(((X - q) ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5])
def test_contractions(p):
    """Preserving T(q..q) preserves every mixed contraction (polarisation)."""
    X = data("gaussian").X
    core = karat.coreset(X, problem=TensorContraction(p))
    rng = np.random.default_rng(p)
    for _ in range(30):
        Q = rng.standard_normal((p, 3))
        terms = np.prod(X @ Q.T, axis=1)
        assert core.loss(Q) == pytest.approx(terms.sum(), abs=1e-11 * np.abs(terms).sum())
        q = rng.standard_normal(3)
        terms = (X @ q) ** p
        assert core.loss(q) == pytest.approx(terms.sum(), abs=1e-11 * np.abs(terms).sum())


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_moments_keep_every_polynomial(degree):
    X = data("skewed").X
    core = karat.coreset(X, problem=Moments(degree))
    rng = np.random.default_rng(degree)
    for _ in range(20):
        powers = rng.multinomial(rng.integers(0, degree + 1), [1 / 3] * 3)
        terms = np.prod(X**powers, axis=1)
        assert core.weights @ np.prod(core.X**powers, axis=1) == pytest.approx(
            terms.sum(), rel=1e-11
        )
        form = rng.standard_normal(4)
        values = (form[0] + X @ form[1:]) ** degree
        assert core.loss(form) == pytest.approx(values.sum(), abs=1e-11 * np.abs(values).sum())


def test_one_degree_four_coreset_serves_lower_degrees_and_subsets():
    made = data("gaussian")
    core = karat.coreset(made.X, made.y, LpRegression(4))
    D, C = np.column_stack([made.X, made.y]), np.column_stack([core.X, core.y])
    for power in (1, 2, 3, 4):
        terms = (D @ [1.0, 0.0, -2.0, 1.0] + 0.3) ** power
        assert core.weights @ (C @ [1.0, 0.0, -2.0, 1.0] + 0.3) ** power == pytest.approx(
            terms.sum(), abs=1e-11 * np.abs(terms).sum()
        )


def test_kernel_with_lift():
    X = data("gaussian").X

    def waves(X):
        return np.column_stack([np.sin(X), np.cos(X)])

    core = karat.coreset(X, problem=Kernel(waves, lambda q: np.repeat(q, 2)))
    assert len(core) == 7
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.standard_normal(3)
        terms = waves(X) @ np.repeat(q, 2)
        assert core.loss(q) == pytest.approx(terms.sum(), abs=1e-12 * np.abs(terms).sum())


def test_kernel_with_target():
    made = data("gaussian")
    core = karat.coreset(made.X, made.y, Kernel(lambda X, y: X * y[:, None], lambda q: q))
    terms = (made.X * made.y[:, None]) @ np.ones(3)
    assert core.loss(np.ones(3)) == pytest.approx(terms.sum(), abs=1e-12 * np.abs(terms).sum())


def test_kernel_may_not_change_our_rows():
    """A function that writes into its argument must not spoil anything."""
    X = data("gaussian").X.copy()
    before = X.copy()

    def rude(X):
        X *= 2.0
        return X

    core = karat.coreset(X, problem=Kernel(rude))
    assert np.array_equal(X, before)
    assert np.array_equal(core.X, X[core.indices])
    assert np.allclose(core.weights @ core.X, X.sum(axis=0), atol=1e-11 * np.abs(X).sum())


def test_kernel_of_dependent_and_zero_features():
    X = data("gaussian").X
    core = karat.coreset(
        X, problem=Kernel(lambda X: np.column_stack([X, X @ np.ones((3, 4)), np.zeros(len(X))]))
    )
    assert len(core) == 4


@pytest.mark.parametrize("power", [1e-8, 1e8])
def test_kernel_of_unevenly_scaled_features(power):
    X = data("gaussian").X
    core = karat.coreset(X, problem=Kernel(lambda X: np.column_stack([X, power * np.sin(X)])))
    features = np.column_stack([X, np.sin(X)])
    assert len(core) == 7
    assert (
        np.abs(core.weights @ features[core.indices] - features.sum(axis=0)).max()
        <= 1e-12 * np.abs(features).sum()
    )


def test_kept_and_not_kept_in_words():
    for problem in (
        LeastSquares(),
        Ridge(1.0),
        LpRegression(4),
        Mean(),
        Moments(3),
        TensorContraction(3),
        Kernel(np.sin),
    ):
        assert len(problem.keeps) > 10
        text = " ".join(problem.excludes).lower()
        for word in ("likelihood", "absolute", "leave-one-out", "privacy"):
            assert word in text
    assert "every alpha" in Ridge(1.0).keeps
    assert "every alpha" not in Ridge(1.0, absorb="box").keeps
    assert any("alpha" in e for e in Ridge(1.0, absorb="box").excludes)
    assert any("total weight" in e for e in Ridge(1.0, fit_intercept=False, absorb="box").excludes)


def test_default_problem():
    made = data("gaussian")
    assert karat.coreset(made.X, made.y).problem == LeastSquares()
    assert karat.coreset(made.X).problem == Moments(2)


def test_descriptions_name_what_differs_from_the_default():
    assert LeastSquares().describe() == "LeastSquares()"
    assert "fit_intercept=False" in LeastSquares(fit_intercept=False).describe()
    assert "4" in LpRegression(4).describe()


def test_problems_are_values():
    assert Ridge(1.0) == Ridge(1.0)
    assert Ridge(1.0) != Ridge(2.0)
    assert hash(LpRegression(4)) == hash(LpRegression(4))
    with pytest.raises(AttributeError):
        Ridge(1.0).alpha = 3.0


def test_numpy_numbers_as_parameters():
    """Parameters from numpy survive a file."""
    problem = problems.LpRegression(np.int64(4), np.float32(0.5))
    assert problem == LpRegression(4, 0.5)
    assert isinstance(problem.describe(), str)


def test_scaled_rows_for_solvers_without_weights():
    made = data("gaussian")
    core = karat.coreset(made.X, made.y, LpRegression(4, fit_intercept=False))
    X, y = core.scaled()
    w = np.array([0.3, -1.0, 0.5])
    assert ((X @ w - y) ** 4).sum() == pytest.approx(((made.X @ w - made.y) ** 4).sum(), rel=1e-12)
    squares = karat.coreset(made.X, made.y, LeastSquares(fit_intercept=False))
    X, y = squares.scaled(2)
    assert np.allclose(
        np.linalg.lstsq(X, y, rcond=None)[0],
        np.linalg.lstsq(made.X, made.y, rcond=None)[0],
        rtol=1e-11,
    )
    with pytest.raises(InputError, match="positive"):
        squares.scaled(-1)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    d=st.integers(1, 4),
    n=st.integers(1, 120),
    seed=st.integers(0, 1000),
    problem=st.sampled_from(CASES),
)
def test_loss_on_random_shapes(d, n, seed, problem):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    core = karat.coreset(X, y, problem, random_state=seed)
    p, alpha = getattr(problem, "p", 2), getattr(problem, "alpha", 0.0)
    w, b = rng.standard_normal(d), rng.standard_normal() * problem.fit_intercept
    full = ((X @ w + b - y) ** p).sum() + alpha * (np.abs(w) ** p).sum()
    assert core.loss((w, b)) == pytest.approx(full, rel=1e-11)
    assert len(core) <= min(n, problem.width(d))


@pytest.mark.parametrize("targets", [1, 2])
def test_the_mean_of_x_does_not_depend_on_y(targets):
    """A centre has no coordinate for y, which travels with the rows only."""
    X = np.random.default_rng(0).standard_normal((500, 3))
    y = X[:, :targets] ** 2
    core = karat.coreset(X, y, problems.Mean())
    sketch = karat.Sketch(problems.Mean(), buffer_rows=100)
    for part in range(0, 500, 50):
        sketch.update(X[part : part + 50], y[part : part + 50])
    for found in (core, sketch.coreset()):
        assert found.loss(np.ones(3)) == pytest.approx(np.square(X - 1).sum(), rel=1e-12)
        assert np.array_equal(found.y, y[found.indices])
        assert found.verify(X, y).ok
