"""Absorbed coresets of unpleasant data: exact by an independent judge, or the exact rows with
nothing absorbed; never wrong.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cases import half
from hostile_regression import REFUTED, issue_drift, make, stalling
from oracles import solve_ridge
from regularised_oracle import absorbed_error

import karat
from karat.engine.claim import Claim
from karat.engine.reduce import build
from karat.engine.rows import Rows
from karat.errors import InputError
from karat.problems import LpRegression, Ridge
from karat.problems.absorb.absorb import absorb
from karat.problems.absorb.correction import Correction
from karat.problems.absorb.minimise import minimise_power
from karat.problems.absorb.programme import Budget

KINDS = [
    "plain", "collinear 1e-1", "collinear 1e-2", "collinear 1e-3", "collinear 1e-4",
    "collinear 1e-5", "collinear 1e-6", "collinear 1e-8", "drift 3", "drift 8", "student", "pareto",
    "cauchy", "offset 1e4", "units", "repeated", "constant", "fits 1e-4", "fits 0",
]  # fmt: skip
SHARES = [1e-14, 1e-11, 1e-6, 1e-2, 1.0, 1e3, 1e6]  # alpha / n
NOTHING = "Nothing could be absorbed"


def problem_of(p, alpha, absorb, intercept):
    if p == 2:
        return Ridge(alpha, fit_intercept=intercept, absorb=absorb)
    return LpRegression(p, alpha, fit_intercept=intercept, absorb=absorb)


def true_error(core, X, y, weights=None):
    problem = core.problem
    return absorbed_error(
        X, y, core, problem.penalty, problem.power, problem.fit_intercept, weights, queries=800
    )


def check(core, X, y, weights=None):
    """Whether something was absorbed; then it is as exact as it says, and says at most 1e-11 (and
    its rounding).
    """
    certificate, fresh = core.certificate, core.verify(X, y, sample_weight=weights)
    assert certificate.ok
    assert fresh.ok, (str(certificate), str(fresh))
    assert (core.weights > 0).all()
    assert np.array_equal(core.X, X[core.indices])
    if not core.absorbed.delta.any():
        assert NOTHING in str(certificate)
        assert len(core) <= certificate.bound + certificate.peeled
        return False
    assert NOTHING not in str(certificate)
    error = true_error(core, X, y, weights)
    assert error <= certificate.loss_error <= 2e-11
    assert error <= fresh.loss_error
    return True


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "absorb", "intercept"), half(KINDS, ["box", "diagonal"], [True, False])
)
def test_squares_at_every_alpha(kind, absorb, intercept):
    X, y = make(kind)
    found = [
        check(karat.coreset(X, y, problem_of(2, share * len(y), absorb, intercept)), X, y)
        for share in SHARES
    ]
    if kind in ("plain", "collinear 1e-1", "units", "student"):
        assert sum(found) >= 5, "benign data must still be absorbed"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "share", "absorb", "intercept"),
    half(
        ["plain", "collinear 1e-2", "collinear 1e-4", "drift 3", "student", "units", "repeated"],
        [1e-11, 1e-3, 1e3],
        ["box", "diagonal"],
        [True, False],
    ),
)
def test_fourth_powers(kind, share, absorb, intercept):
    X, y = make(kind, 300)
    found = check(karat.coreset(X, y, problem_of(4, share * len(y), absorb, intercept)), X, y)
    assert found or kind != "plain" or share < 1


@pytest.mark.parametrize("kind", ["plain", "collinear 1e-3", "units"])
@pytest.mark.parametrize("absorb", ["box", "diagonal"])
def test_sixth_powers(kind, absorb):
    X, y = make(kind, 300)
    X = X[:, 1:]
    found = check(karat.coreset(X, y, problem_of(6, float(len(y)), absorb, False)), X, y)
    assert found or kind == "collinear 1e-3"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("unit", [1e-300, 1e-120, 1e-99, 1e99, 1e120, 1e200])
@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("absorb", ["box", "diagonal"])
@pytest.mark.parametrize("intercept", [True, False])
def test_units_of_weights(unit, p, absorb, intercept):
    """alpha and the correction are in the units of the weights, whatever these are."""
    X, y = make("plain", 300)
    u = np.random.default_rng(1).random(len(y)) + 0.1
    plain = karat.coreset(X, y, problem_of(p, 50.0, absorb, intercept), sample_weight=u)
    scaled = karat.coreset(
        X, y, problem_of(p, 50.0 * unit, absorb, intercept), sample_weight=u * unit
    )
    assert check(plain, X, y, u)
    assert check(scaled, X, y, u * unit)
    # another vertex: units change the last digits of the programme
    assert len(scaled) <= len(plain) + 6
    w = np.array([0.3, -1.0, 2.0])
    assert scaled.loss((w, 0.0)) == pytest.approx(plain.loss((w, 0.0)) * unit, rel=1e-10)
    assert np.allclose(
        scaled.problem.solve(scaled).coef, plain.problem.solve(plain).coef, rtol=1e-8, atol=0
    )


def test_weights_far_from_alpha():
    """A regulariser of 1 is everything beside weights of 1e-120, and nothing beside 1e120."""
    X, y = make("plain", 300)
    for unit, coefficient in ((1e-120, 0.0), (1e120, 1.0)):
        u = np.full(len(y), unit)
        core = karat.coreset(X, y, Ridge(1.0, absorb="box"), sample_weight=u)
        assert core.certificate.ok
        assert core.verify(X, y, sample_weight=u).ok
        best = solve_ridge(X, y, np.ones(len(y)), 0.0, True)[0]
        assert core.problem.solve(core).coef == pytest.approx(
            coefficient * best, rel=1e-8, abs=1e-100
        )


def test_the_drift_of_the_issue():
    X, y = issue_drift()
    core = karat.coreset(X, y, Ridge(1.0, absorb="box"))
    assert not check(core, X, y)
    assert core.correction[0].any() == core.correction[1].any() == np.False_
    best = solve_ridge(X, y, np.ones(len(y)), 1.0, True)[0]
    assert np.abs(core.problem.solve(core).coef - best).max() <= 1e-5 * np.abs(best).max()


@pytest.mark.parametrize("size", ["1e-1", "1e-2", "1e-3", "1e-4", "1e-5", "1e-7"])
@pytest.mark.parametrize("absorb", ["box", "diagonal"])
def test_minimiser_of_collinear_columns(size, absorb):
    X, y = make(f"collinear {size}", 2000)
    for alpha in (1e-3, 1.0, 1e3):
        problem = Ridge(alpha, absorb=absorb)
        core = karat.coreset(X, y, problem)
        best = solve_ridge(X, y, np.ones(len(y)), alpha, True)[0]
        fit = (X - X.mean(axis=0)) @ (problem.solve(core).coef - best)
        assert np.sqrt(np.mean(fit**2)) <= 1e-8


@pytest.mark.parametrize("name", REFUTED)
def test_verify_refutes_what_the_first_release_called_exact(name):
    """Rows, weights and corrections that 0.1.0 made, all with ``ok``."""
    stored = np.load(Path(__file__).parents[1] / "golden" / "absorbed_0_1_0.npz")
    data, problem = REFUTED[name]
    X, y = data()
    now = karat.coreset(X, y, problem)
    rows = stored[f"{name}_indices"]
    correction = Correction(now.absorbed.sets, stored[f"{name}_delta"])
    old = replace(
        now,
        indices=rows,
        weights=stored[f"{name}_weights"].copy(),
        X=X[rows],
        y=y[rows],
        absorbed=correction,
    )
    fresh, error = old.verify(X, y), true_error(old, X, y)
    assert error > 5e-11
    assert fresh.loss_error >= error * (1 - 1e-6)
    assert not fresh.ok


@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("intercept", [True, False])
def test_judge_and_certificate_in_rational_arithmetic(p, intercept):
    """Loss of the coreset and of all rows at a few queries, without any rounding."""
    X, y = make("collinear 1e-2", 60)
    alpha = 30.0
    core = karat.coreset(X, y, problem_of(p, alpha, "box", intercept))
    assert core.absorbed.delta.any()
    table = [[Fraction(v) for v in row] for row in np.column_stack([X, y])]
    kept = [[Fraction(v) for v in row] for row in np.column_stack(core.arrays())]
    best = solve_ridge(X, y, np.ones(len(y)), alpha, intercept)
    rng = np.random.default_rng(0)
    orders = Correction(core.absorbed.sets, np.ones(len(core.absorbed.delta)))._terms(np.zeros(3))[
        0
    ]
    for step in (0.0, 1.0, 100.0):
        w = best[0] + step * np.array([rng.standard_normal(), 1.0, -1.0])
        z, b = [*(Fraction(v) for v in w), Fraction(-1)], Fraction(float(best[1]))
        full = sum((_dot(row, z) + b) ** p for row in table) + Fraction(alpha) * sum(
            v**p for v in z[:3]
        )
        ours = sum(
            Fraction(u) * (_dot(row, z) + b) ** p for u, row in zip(core.weights, kept, strict=True)
        )
        ours += Fraction(alpha) * sum(v**p for v in z[:3])
        for t, delta, order in zip(core.absorbed.sets, core.absorbed.delta, orders, strict=True):
            term = Fraction(delta) * Fraction(order)
            for j in t:
                term *= z[j]
            ours += term
        assert abs(float((ours - full) / full)) <= core.certificate.loss_error


def _dot(row, z):
    return sum(a * b for a, b in zip(row, z, strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "p", "absorb", "intercept"),
    half(
        ["plain", "collinear 1e-3", "collinear 1e-5", "drift 3", "repeated"],
        [2, 4],
        ["box", "diagonal"],
        [True, False],
    ),
)
def test_merge(kind, p, absorb, intercept):
    """Parts with and without something absorbed, merged in turn."""
    X, y = make(kind, 600)
    problem = problem_of(p, 60.0, absorb, intercept)
    parts = [karat.coreset(X[a : a + 200], y[a : a + 200], problem) for a in (0, 200, 400)]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    certificate, fresh = merged.certificate, merged.verify(X, y)
    assert certificate.ok
    assert fresh.ok, str(fresh)
    assert np.array_equal(merged.X, X[merged.indices])
    if merged.absorbed.delta.any():
        assert true_error(merged, X, y) <= min(certificate.loss_error, fresh.loss_error)


@pytest.mark.parametrize("unit", [1e-120, 1.0, 1e120])
@pytest.mark.parametrize("absorb", ["box", "diagonal"])
def test_merge_sketch_and_files_in_units(unit, absorb, tmp_path):
    X, y = make("plain", 600)
    u = (np.random.default_rng(1).random(600) + 0.1) * unit
    problem = Ridge(60.0 * unit, absorb=absorb)
    halves = [karat.coreset(X[i::2], y[i::2], problem, sample_weight=u[i::2]) for i in (0, 1)]
    merged = halves[0].merge(halves[1])
    order = np.concatenate([np.arange(0, 600, 2), np.arange(1, 600, 2)])
    assert check(merged, X[order], y[order], u[order])
    sketch = karat.Sketch(problem)
    for a in range(0, 600, 100):
        sketch.update(X[a : a + 100], y[a : a + 100], sample_weight=u[a : a + 100])
    core = sketch.coreset()
    assert check(core, X, y, u)
    core.save(tmp_path / "core.npz")
    assert check(karat.load(tmp_path / "core.npz"), X, y, u)


@pytest.mark.parametrize(
    "kind", ["plain", "collinear 1e-3", "collinear 1e-6", "drift 8", "constant"]
)
@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("absorb", ["box", "diagonal"])
def test_sketch(kind, p, absorb):
    X, y = make(kind, 600)
    sketch = karat.Sketch(problem_of(p, 60.0, absorb, True), buffer_rows=250)
    for a in range(0, 600, 100):
        sketch.update(X[a : a + 100], y[a : a + 100])
    try:
        core = sketch.coreset()
    except karat.NotExactError:
        assert kind == "drift 8"
        return
    check(core, X, y)


def test_a_sketch_adds_what_its_rows_are_off_by():
    X, y = make("plain", 600)
    sketch = karat.Sketch(Ridge(60.0, absorb="box"), buffer_rows=250)
    for a in range(0, 600, 100):
        sketch.update(X[a : a + 100], y[a : a + 100])
    sketch.coreset()
    sketch.summary.reductions[None] = replace(
        sketch.summary.reductions[None], inherited=Claim(1e-12)
    )
    assert sketch.coreset().certificate.loss_error >= 1e-12


def test_saved_and_loaded_without_anything_absorbed(tmp_path):
    X, y = make("collinear 1e-6")
    core = karat.coreset(X, y, Ridge(1e-6, absorb="box"))
    core.save(tmp_path / "core.npz")
    loaded = karat.load(tmp_path / "core.npz")
    assert not check(loaded, X, y)
    weights = loaded.weights.copy()
    weights[0] *= 1 + 1e-5
    assert not replace(loaded, weights=weights).verify(X, y).ok
    assert not replace(loaded, X=loaded.X + 1e-3).verify(X, y).ok


def test_regulariser_rows_are_the_coreset_of_the_paper():
    """Kept rows and weighted rows of the regulariser alone have the loss of the full data; no
    weight is negative.
    """
    X, y = make("plain")
    for share in SHARES:
        problem = Ridge(share * len(y), absorb="diagonal", fit_intercept=False)
        core = karat.coreset(X, y, problem)
        carried = problem.regulariser_weights(core)
        assert (carried >= 0).all()
        Xc, yc = core.arrays()
        for w in (
            np.random.default_rng(0).standard_normal((20, 3)) * 10.0 ** np.arange(-4, 16)[:, None]
        ):
            full = ((X @ w - y) ** 2).sum() + problem.alpha * (w**2).sum()
            ours = core.weights @ (Xc @ w - yc) ** 2 + problem.alpha * carried @ w**2
            assert ours == pytest.approx(full, rel=1e-10)


def test_negative_regulariser_weights_are_refused():
    X, y = make("plain")
    problem = Ridge(60.0, absorb="diagonal")
    core = karat.coreset(X, y, problem)
    wrong = replace(
        core, absorbed=Correction(core.absorbed.sets, np.full(len(core.absorbed.delta), -120.0))
    )
    with pytest.raises(InputError, match="negative weight"):
        problem.regulariser_weights(wrong)


@pytest.mark.nightly
def test_a_stalling_programme_ends_in_exact_rows():
    """0.1.0 takes minutes; a programme of its size usually takes a tenth of a second."""
    X, y = stalling()
    core = karat.coreset(X, y, LpRegression(4, 1e-3, absorb="box"))
    check(core, X, y)


def absorbed_rows(X, y, problem, seconds=20.0, patience=2.0, **limits):
    """What the absorbing step alone leaves of an exact coreset, within limits of its own; also that
    coreset.
    """
    rows = Rows([X, y[:, None]])
    exact = build(rows, problem.kernel(X.shape[1], 1), "auto", 0)
    options = {
        "box": problem.absorb == "box",
        "total": problem.keeps_total,
        "budget": Budget(seconds, patience),
    } | limits
    return (
        absorb(rows, exact, problem.power, problem.fit_intercept, problem.penalty, **options),
        exact,
    )


STALL = """
import sys; sys.path[:0] = [{tests!r}, {here!r}]
from hostile_regression import stalling
from test_absorb_hostile import absorbed_rows
from karat.problems import LpRegression
X, y = stalling()
print("ready", flush=True)
try:
    absorbed_rows(X, y, LpRegression(4, 1e-3, absorb="box"), seconds=100.0, patience=100.0)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_programme_can_be_interrupted():
    code = STALL.format(tests=str(Path(__file__).parents[1]), here=str(Path(__file__).parent))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(3)
        assert process.poll() is None, "the programme does not stall here"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        process.wait(30)


@pytest.mark.parametrize("limits", [{"seconds": 0.0}, {"widest": 10}])
def test_without_time_or_too_wide_nothing_is_absorbed(limits):
    """Without a linear programme the exact rows are returned, and a correction of zero."""
    X, y = make("plain")
    problem = Ridge(1e3, absorb="box")
    plenty, exact = absorbed_rows(X, y, problem)
    assert plenty.correction
    assert len(plenty.positions) < len(exact.positions)
    found, exact = absorbed_rows(X, y, problem, **limits)
    assert not found.correction
    assert np.array_equal(found.positions, exact.positions)
    assert np.array_equal(found.weights, exact.weights)


@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("away", [1e3, 1e6, 3e8])
@pytest.mark.parametrize("alpha", [1e-9, 1.0])
def test_intercept_far_from_the_origin(p, away, alpha):
    """Means times coefficients are large and cancel: the intercept is the best for its
    coefficients, rounded once.
    """
    rng = np.random.default_rng(7)
    X = rng.standard_normal((400, 2)) @ [[1.0, 0.9], [0.0, 0.1]] + away * np.array([1.0, -0.7])
    y = (X - X.mean(axis=0)) @ [0.7, 1.0] + 0.1 * rng.standard_normal(400)
    core = karat.coreset(X, y, problem_of(p, alpha, "box", True))
    found = core.problem.solve(core)
    residuals = [
        Fraction(found.intercept)
        + sum(Fraction(w) * Fraction(x) for w, x in zip(found.coef, row, strict=True))
        - Fraction(t)
        for row, t in zip(X, y, strict=True)
    ]
    slope = float(sum(r ** (p - 1) for r in residuals))
    bend = float((p - 1) * sum(r ** (p - 2) for r in residuals))
    # the step to the best intercept over all rows
    assert abs(slope / bend) <= 0.6 * np.spacing(abs(found.intercept)) + 1e-10


@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-6, 1.0])
@pytest.mark.parametrize("p", [2, 4])
def test_a_constant_column_takes_nothing_from_the_others(alpha, p):
    """What rounding leaves of it after centring must not become a column, nor its penalty drown the
    others.
    """
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.standard_normal((300, 2)), np.full(300, 7.3)])
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(300)
    weights = rng.uniform(10, 200, 300)
    found = minimise_power(X, y, weights, p, alpha, True)
    bare = minimise_power(X[:, :2], y, weights, p, alpha, True)
    assert np.abs(found.coef - [*bare.coef, 0.0]).max() <= 1e-9
