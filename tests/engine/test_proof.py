"""The proof against oracles: a linear programme, adversarial queries, rational arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.optimize import linprog

import karat
from karat import problems
from karat.engine.kernel import fit_moments
from karat.engine.powers import Powers
from karat.engine.proof import measure
from karat.engine.rows import Rows
from karat.engine.small_kernels import FunctionKernel
from karat.engine.tolerances import COORDINATES, EPS, ROUNDING


def supremum(features: np.ndarray, rho: np.ndarray) -> float:
    """The smallest max |c| with sum_i c_i phi_i = rho, by a linear programme: the supremum over
    every linear query.
    """
    count, width = features.shape
    above = np.hstack([np.eye(count), -np.ones((count, 1))])
    below = np.hstack([-np.eye(count), -np.ones((count, 1))])
    solution = linprog(
        np.append(np.zeros(count), 1.0), A_ub=np.vstack([above, below]), b_ub=np.zeros(2 * count),
        A_eq=np.hstack([features.T, np.zeros((width, 1))]), b_eq=rho,
        bounds=[(None, None)] * count + [(0, None)],
    )  # fmt: skip
    return float(solution.fun)


@pytest.mark.parametrize("change", [1e-13, 1e-9, 1e-4])
@pytest.mark.parametrize("seed", range(5))
def test_linear_queries_are_bounded_by_their_supremum(change, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    kernel = FunctionKernel(lambda A: np.column_stack([A, A**2, np.abs(A)]), 3, 0, True)
    rows = Rows([X])
    fitted, _ = fit_moments(rows, kernel, np.arange(60))
    weights = 1.0 + change * rng.uniform(-1, 1, 60)
    proof = measure(rows, fitted, rows.take(np.arange(60), fitted.kernel.shift), weights)
    features = fitted.kernel.features(rows.take(np.arange(60), fitted.kernel.shift))
    worst = supremum(features, (weights - 1.0) @ features / change) * change
    assert worst * (1 - 1e-6) <= proof.loss_error <= 30 * worst + 64 * EPS


def test_a_direction_that_no_row_shows_is_not_proven():
    """Every feature agrees to 1e-12, but the difference of two features is lost."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(4000) + 3] * 2)
    X[[7, 2345], 1] += 1e-5
    rows = Rows([X])
    fitted, _ = fit_moments(rows, FunctionKernel(lambda A: A, 2, 0, True), np.arange(4000))
    kept = np.array([0, 1, 2, 3])
    F = np.vstack([np.ones(4), X[kept, 0]])
    weights = np.linalg.lstsq(F, np.array([4000.0, X[:, 0].sum()]), rcond=None)[0]
    proof = measure(
        None,
        fitted,
        rows.take(kept, fitted.kernel.shift),
        weights,
        rows.subset(np.arange(100, 2000)),
    )
    assert proof.moment_error < 1e-8
    assert proof.loss_error == np.inf


@pytest.mark.parametrize("p", [2, 4, 6])
@pytest.mark.parametrize("seed", range(4))
def test_powers_are_bounded_at_adversarial_queries(p, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (300, 3)) @ rng.standard_normal((3, 3))
    rows = Rows([X])
    fitted, _ = fit_moments(rows, Powers(3, p, affine=True), np.arange(300))
    weights = 1.0 + 1e-6 * rng.uniform(-1, 1, 300)
    proof = measure(rows, fitted, rows.take(np.arange(300), fitted.kernel.shift), weights)
    D = np.column_stack([np.ones(300), X])
    queries = (
        np.linalg.qr(rng.standard_normal((4, 4)))[0] if p == 2 else rng.standard_normal((4, 4000))
    )
    values = (D @ queries) ** p
    worst = np.max(np.abs((weights - 1.0) @ values) / values.sum(axis=0))
    assert worst <= proof.loss_error <= 1e-4


@pytest.mark.parametrize("tail", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("degree", [2, 3, 4, 5])
def test_heavy_tails_are_exact_in_rational_arithmetic(tail, degree):
    X = np.random.default_rng(10).pareto(tail, (600, 2))
    core = karat.coreset(X, problem=problems.Moments(degree))
    assert core.certificate.ok
    assert len(core) <= core.certificate.bound + core.certificate.peeled
    exact = [[Fraction(x) for x in row] for row in X.tolist()]
    weights = [Fraction(w) for w in core.weights.tolist()]
    for t in combinations_with_replacement(range(3), degree):
        powers = [_monomial(x, t) for x in exact]
        full, size = sum(powers), sum(map(abs, powers))
        kept = sum(w * powers[i] for w, i in zip(weights, core.indices.tolist(), strict=True))
        assert abs(kept - full) <= (core.certificate.loss_error + core.certificate.rounding) * size


def _monomial(row: list[Fraction], t: tuple[int, ...]) -> Fraction:
    value = Fraction(1)
    for v in t:
        value *= row[v - 1] if v else 1
    return value


def test_certificates_print_both_terms_and_what_was_excluded():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    core = karat.coreset(
        np.column_stack([X, X[:, 0] + X[:, 1]]), X.sum(axis=1) + rng.standard_normal(2000)
    )
    proof = core.certificate
    assert proof.tolerance == 1e-10
    assert 0 < proof.rounding <= ROUNDING + 7 * COORDINATES
    assert proof.spent == proof.rounding / ROUNDING
    assert proof.excluded_directions
    text = str(proof)
    for words in (
        f"{proof.loss_error:.1e}",
        "1e-10",
        f"{proof.rounding / EPS:.2g} eps",
        "vanish",
        "standard errors",
    ):
        assert words in text


def test_a_certificate_of_an_older_proof_does_not_count():
    core = karat.coreset(np.random.default_rng(0).standard_normal((100, 2)))
    loaded = karat.Certificate.from_dict(
        core.certificate.to_dict() | {"spectrum": 1.0, "proof_version": 2}
    )
    assert loaded.proven
    assert not loaded.ok
    assert "proven by an older version: verify again" in str(loaded)


def test_merging_adds_both_terms():
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((300, 2)) for _ in range(30)]
    core = karat.coreset(parts[0], problem=problems.Moments(3))
    for part in parts[1:]:
        core = core.merge(karat.coreset(part, problem=problems.Moments(3)))
    assert core.certificate.spent > 29 * 8 / 64
    assert core.certificate.rounding == pytest.approx(ROUNDING * core.certificate.spent)
    assert core.verify(np.vstack(parts)).ok


def test_a_changed_weight_is_refuted_however_small_its_row():
    """A row that is 1e-9 of the others still has its own share of its own column."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.standard_normal((5000, 2)), np.zeros(5000)])
    X[[17, 4711], 2] = 1e-9
    core = karat.coreset(X, problem=problems.Moments(2))
    assert core.verify(X).ok
    rare = np.flatnonzero(core.X[:, 2])
    assert len(rare)
    weights = core.weights.copy()
    weights[rare[0]] *= 1 + 1e-6
    assert not replace(core, weights=weights).verify(X).ok


@pytest.mark.slow
def test_peeled_rows_have_their_own_weights(tmp_path):
    X = np.random.default_rng(5).standard_normal((100_000, 2))
    y = np.random.default_rng(6).standard_normal(100_000)
    X[:3] *= [[1e6], [3e7], [2e12]]
    core = karat.coreset(X, y, problems.LpRegression(4))
    assert core.certificate.ok
    assert core.certificate.peeled == 3
    assert len(core) <= core.certificate.bound + core.certificate.peeled
    assert core.verify(X, y).ok
    largest = np.argsort(-np.abs(X).max(axis=1))[:3]
    assert np.isin(largest, core.indices).all()
    assert (core.weights[np.isin(core.indices, largest)] == 1.0).all()
    for change in (1.0, 1 + 1e-7):
        weights = core.weights.copy()
        weights[weights != 1.0] *= change
        assert replace(core, weights=weights).verify(X, y).ok == (change == 1.0)


@pytest.mark.slow
def test_peeled_rows_of_files(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = np.random.default_rng(5).pareto(0.5, (100_000, 2))
    y = np.random.default_rng(6).pareto(0.5, 100_000)
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), tmp_path / "d.parquet")
    core = karat.coreset_files(
        tmp_path / "d.parquet", "y", problem=problems.LpRegression(4), memory=10**8
    )
    assert core.certificate.ok
    assert len(core) <= core.certificate.bound + core.certificate.peeled
    assert core.verify(X, y).ok
    assert karat.verify_files(core).ok


# What an adversary broke during development: each was `ok` and wrong.


def along(core, X: np.ndarray, a: int, b: int) -> float:
    """Relative error of the sum of squares of a difference of two columns."""
    full, kept = (np.square((A[:, a] - A[:, b]).astype(np.longdouble)) for A in (X, core.X))
    return float(abs((core.weights * kept).sum() / full.sum() - 1))


@pytest.mark.parametrize("place", [0, 57, 99])
@pytest.mark.parametrize(("large", "apart"), [(1e10, 1e-6), (1e14, 1e-4), (1e16, 1.0)])
@pytest.mark.parametrize("method", ["direct", "merged", "sketch"])
def test_a_direction_is_not_dropped_because_one_row_is_large(method, large, apart, place):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    X[:, 1] = X[:, 0] + apart * rng.standard_normal(200)
    X[100 + place] = large
    y = rng.standard_normal(200)
    problem = problems.LeastSquares(fit_intercept=False)
    if method == "direct":
        core = karat.coreset(X, y, problem)
    elif method == "merged":
        core = karat.coreset(X[:100], y[:100], problem).merge(
            karat.coreset(X[100:], y[100:], problem)
        )
    else:
        sketch = karat.Sketch(problem, buffer_rows=20)
        for a in range(0, 200, 20):
            sketch.update(X[a : a + 20], y[a : a + 20])
        core = sketch.coreset()
    assert core.certificate.ok
    assert along(core, X, 0, 1) <= 1e-7


def test_rare_rows_of_a_direction_that_vanishes_elsewhere():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 8))
    rare = np.where(rng.random(2000) < 0.004, 0.004**-0.5, 0)
    X[:, -1] = X[:, 0] + 60 * 2.0**-52 * rare * rng.standard_normal(2000)
    core = karat.coreset(X, rng.standard_normal(2000))
    assert core.certificate.ok
    change = (
        core.certificate.rounding
        * X[:, [0, 7]].std(axis=0).sum()
        / np.sqrt(np.mean((X[:, 7] - X[:, 0]) ** 2))
    )
    assert along(core, X, 0, 7) <= core.certificate.loss_error + 2 * change + change**2


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("constant", [8, 9, 20])
def test_many_columns_that_are_zero_in_every_row(constant, intercept):
    """With an intercept, so are constant ones after the shift."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 3 + constant)), rng.standard_normal(500)
    X[:, 3:] = 7.3 if intercept else 0.0
    core = karat.coreset(X, y, problems.LeastSquares(fit_intercept=intercept))
    assert core.certificate.ok
    lead = np.ones((500, int(intercept)))
    full, kept = (
        np.hstack([ones, A[:, :3], b[:, None]])
        for ones, A, b in ((lead, X, y), (lead[: len(core)], core.X, core.y))
    )
    np.testing.assert_allclose(
        (kept.T * core.weights) @ kept, full.T @ full, rtol=1e-12, atol=1e-10
    )


@pytest.mark.parametrize("values", [(0.1,), (0.1, 0.7, 1.3)])
def test_equal_values_do_not_round_the_same_way(values):
    Z = np.random.default_rng(0).choice(values, (100_000, 2))
    for problem in (
        problems.Kernel(lambda A: A),
        problems.Moments(1),
        problems.Moments(2),
        problems.TensorContraction(2),
    ):
        core = karat.coreset(Z, problem=problem)
        full = sum(map(Fraction, Z[:, 0].tolist()))
        kept = sum(
            Fraction(w) * Fraction(x)
            for w, x in zip(core.weights.tolist(), core.X[:, 0].tolist(), strict=True)
        )
        if not isinstance(problem, problems.TensorContraction):
            assert (
                abs(kept - full) <= (core.certificate.loss_error + core.certificate.rounding) * full
            )


def twins(
    rng: np.random.Generator, small: float, explained: float
) -> tuple[np.ndarray, np.ndarray]:
    """Columns that differ by little, and two targets, of which the first follows that
    difference.
    """
    X = rng.standard_normal((400, 4))
    difference = rng.standard_normal(400)
    X[:, 3] = X[:, 0] + small * difference
    noise = rng.standard_normal((400, 2))
    return X, np.column_stack([explained * difference + noise[:, 0], X.sum(axis=1) + noise[:, 1]])


@pytest.mark.parametrize("small", [3e-5, 1e-6, 2e-7])
def test_targets_do_not_take_the_rounding_of_a_small_direction(small):
    """What a small direction explains of them by chance is left in them: the factors of its
    coordinate are huge.
    """
    rows = Rows([np.hstack(twins(np.random.default_rng(0), small, 0.0))])
    fitted, _ = fit_moments(rows, Powers(6, 2, affine=True, separate_targets=2), np.arange(400))
    block = rows.take(np.arange(400), fitted.kernel.shift)
    sizes = fitted.kernel.basis.sizes(block)
    assert sizes[-3] < 2 * small
    assert sizes[-2:].min() > 0.1


def test_a_long_chain_of_merges_keeps_more_rows_rather_than_too_large_an_error():
    rng = np.random.default_rng(0)
    merged = karat.coreset(*twins(rng, 1e-6, 3.0), problem=problems.LeastSquares())
    for _ in range(8):
        merged = merged.merge(
            karat.coreset(*twins(rng, 1e-6, 3.0), problem=problems.LeastSquares())
        )
    assert merged.certificate.ok
    assert merged.n_rows == 3600


@pytest.mark.parametrize("p", [2, 3, 5])
def test_no_witness_of_a_sum_of_features_counts_twice(p):
    """Rows with large features are witnesses beside a sample, which may hold them already.

    Only row 0 has the second column, so the error is that of its weight.
    """
    X = np.random.default_rng(5).pareto(1.5, (200, 2)) + 0.1
    X[1:, 1] = 0.0
    core = karat.coreset(X, problem=problems.TensorContraction(p=p))
    weights = np.where(core.indices == 0, 1 + 1.5e-10, 1.0) * core.weights
    seen = replace(core, weights=weights).verify(X)
    assert seen.loss_error >= 1.49e-10 - seen.rounding
    assert not seen.ok


@pytest.mark.parametrize("p", [2, 4, 6])
@pytest.mark.parametrize("seed", range(6))
def test_what_two_light_rows_show_is_kept(p, seed):
    """Two columns differ in two rows of hardly any weight: by so little that their squares may be
    dropped, but not their p-th powers.
    """
    rng, n = np.random.default_rng(seed), 200
    X, u = rng.standard_normal((n, 2)), np.ones(n)
    y = X[:, 0] + 0.1 * rng.standard_normal(n)
    light = rng.choice(n, 2, replace=False)
    u[light], X[:, 1] = 10.0 ** rng.uniform(-24, -20), X[:, 0]
    X[light, 1] += 10.0 ** rng.uniform(-5, -3) * rng.standard_normal(2)
    core = karat.coreset(
        X, y, sample_weight=u, problem=problems.LpRegression(p, fit_intercept=bool(seed % 2))
    )
    everything, kept = (
        sum(
            Fraction(weight) * (Fraction(b) - Fraction(a)) ** p
            for (a, b), weight in zip(rows.tolist(), weights.tolist(), strict=True)
        )
        for rows, weights in ((X, u), (np.asarray(core.X), core.weights))
    )
    claim = core.certificate
    size = 2 * float(n * np.mean(np.abs(X[:, 0]) ** p)) ** (1 / p)
    root = float(everything) ** (1 / p)
    room = (root + claim.rounding * size) ** p - root**p
    assert abs(kept - everything) <= claim.loss_error * float(everything) + room
