"""verify must prove what a certificate claims: exact coresets that it once did not, and why."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import karat
from karat import problems
from karat.engine.kernel import fit_moments
from karat.engine.proof import measure
from karat.engine.rows import Rows, pass_over
from karat.engine.small_kernels import FunctionKernel
from karat.engine.tolerances import CONTENT, COORDINATES, EPS, MEASURED

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.torture.arithmetic import extended
from tests.torture.cases import draw
from tests.torture.judge import judge
from tests.torture.twins import uneven_groups

MEANS = ("lognormal/86", "lognormal/152", "pareto/186", "pareto/318", "pareto/414", "pareto/468")
TERMS = ("pareto/410", "student/107", "kernel/222")  # and either would do for lognormal/162
CUTS = ("large-rare/91",)


@pytest.mark.skipif(not extended(), reason="the oracles need a long double of 64 bits")
@pytest.mark.parametrize("name", [*MEANS, "lognormal/162", *TERMS, *CUTS])
def test_an_exact_coreset_is_verified_and_a_changed_one_refuted(name):
    found = judge(draw(name))
    assert found.verdict == "exact", found.detail


@pytest.mark.skipif(not extended(), reason="the oracles need a long double of 64 bits")
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("pareto/378", 880022),
        ("large-rare/14", 880022),
        ("pareto/100", 31),
        ("light-rows/12", 4242),
        ("light-rows/54", 4242),
    ],
)
def test_merged_parts_are_verified(name, seed):
    """Coordinates, bounds of powers and of sums, and changes of weights are no worse than they were
    for the parts.
    """
    found = judge(draw(name, seed))
    assert found.verdict == "exact", found.detail


@pytest.mark.skipif(not extended(), reason="the oracles need a long double of 64 bits")
@pytest.mark.parametrize(("name", "seed"), [("light-rows/32", 770011), ("light-rows/47", 880022)])
def test_rows_of_hardly_any_weight_are_kept_where_nothing_else_is_proven(name, seed):
    """Fourth powers of a direction that only they have."""
    found = judge(draw(name, seed))
    assert found.verdict == "exact", found.detail


@pytest.mark.parametrize("seed", [2, 9, 14, 21])
def test_rows_that_a_sample_has_missed_do_not_spoil_the_coordinates_of_the_others(seed):
    """They make columns large and parallel that are neither elsewhere; a small direction must not
    count as a large one.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal((40_000, 2)), np.zeros((40_000, 2))])
    rare = rng.choice(40_000, 3, replace=False)
    X[rare, [2, 2, 3]] = 1.0
    y = X @ [0.5, 0.2, -220.0, 410.0] + 1e-5 * rng.standard_normal(40_000)
    rows, left = Rows([X, y[:, None]]), np.setdiff1d(np.arange(40_000), rare)
    for start in range(0, 30_000, 3000):
        frame = fit_moments(rows, problems.LeastSquares().kernel(4, 1), left[start : start + 2000])[
            0
        ].frame
        assert frame.share(frame.rounded(frame.sizes))[0] <= COORDINATES


@pytest.mark.parametrize("seed", [71, 352, 670, 941])
def test_higher_powers_leave_room_for_the_bound_of_another_sample(seed):
    """A bound just below what counts as exact is above it in other coordinates: better weights are
    sought.
    """
    rng = np.random.default_rng(seed)
    count = int(rng.integers(20, 40))
    X = rng.pareto(rng.choice([0.7, 1.0, 1.5]), (count, 1))
    y = X[:, 0] / X.std() + rng.standard_t(1.5, count)
    core = karat.coreset(X, y, problems.LpRegression(6, fit_intercept=False))
    assert core.certificate.ok
    assert core.certificate.loss_error <= CONTENT
    z = np.concatenate([sign * 10.0 ** np.linspace(-9, 9, 4001) for sign in (-1, 1)]).astype(
        np.longdouble
    )
    full, kept = ((np.outer(A[:, 0], z) - b[:, None]) ** 6 for A, b in ((X, y), (core.X, core.y)))
    assert (
        np.max(np.abs(core.weights @ kept / full.sum(axis=0) - 1))
        <= core.certificate.loss_error + 64 * EPS
    )


def test_heavy_tails_are_measured_about_their_means():
    """Moments about the mean, in which the claim is given, agree; about zero the small rows of a
    column hardly count.
    """
    X = np.random.default_rng(0).lognormal(0, 3, (200, 2))
    rows = Rows([X], np.random.default_rng(1).uniform(0.5, 2, 200))
    fitted, _ = fit_moments(rows, problems.Moments(3).kernel(2, 0), np.arange(200))
    kernel = fitted.linear.kernel.centred(fitted.linear)
    centred = kernel.fitted_moments(pass_over(rows, kernel), rows.total, last=True)
    means = np.average(X, axis=0, weights=rows.weights)
    np.testing.assert_allclose(centred.kernel.shift, means, rtol=1e-14)
    columns = [t for t, sets in enumerate(centred.kernel.sets) if np.count_nonzero(sets) == 1]
    assert np.all(np.abs(centred.target[columns]) <= 1e-13 * centred.absolute[columns])
    raw, _ = fit_moments(rows, problems.TensorContraction(3).kernel(2, 0), np.arange(200))
    assert raw.linear.kernel.centred(raw.linear) is None  # its columns have no shift


@pytest.mark.parametrize(
    ("seed", "shape", "degree"), [(0, (446, 4), 4), (0, (250, 3), 5), (28, (250, 3), 5)]
)
def test_heavy_tails_in_files(seed, shape, degree, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = np.random.default_rng(seed).lognormal(0, 3, shape)
    pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(shape[1])}), tmp_path / "d.parquet")
    core = karat.coreset_files(
        tmp_path / "d.parquet", problem=problems.Moments(degree), batch_rows=64
    )
    assert karat.verify_files(core).ok
    weights = core.weights.copy()
    weights[weights.argmax()] *= 1 + 1e-6
    assert not karat.verify_files(replace(core, weights=weights)).ok


def test_what_is_verified_is_never_more_than_what_was_claimed():
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((60, 2)) for _ in range(12)]
    core = karat.coreset(parts[0], problem=problems.Moments(3))
    for part in parts[1:]:
        core = core.merge(karat.coreset(part, problem=problems.Moments(3)))
    seen = core.verify(np.vstack(parts))
    assert seen.ok
    assert seen.rounding <= core.certificate.rounding


def test_rounding_along_a_rare_direction_is_left_to_the_second_term():
    """Two columns differ by 1e-2 in a few rows: rounding of their sums, carried by these rows
    alone, looks like 1e-10.
    """
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(4000) + 3] * 2)
    X[[7, 234, 2345], 1] += 1e-2
    rows = Rows([X])
    fitted, _ = fit_moments(rows, FunctionKernel(lambda A: A, 2, 0, True), np.arange(4000))
    weights = 1.0 + 1e-13 * rng.uniform(0, 1, 4000)
    proof = measure(rows, fitted, rows.take(np.arange(4000), fitted.kernel.shift), weights)
    assert proof.moment_error > MEASURED
    assert 50 * EPS < proof.loss_error <= 1e-12
    assert proof.remainder <= 1.0


@pytest.mark.parametrize("seed", [10, 16, 42, 72, 104])
def test_a_spoilt_group_of_tiny_or_huge_columns_is_refuted(seed):
    """A column has another size in one group, and its fourth powers leave the doubles once rows
    that are kept as they are are left out: that proves nothing, and is no fault of the data.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 200))
    X, extra = uneven_groups(rng, n, 4)
    y, weights = rng.standard_normal(n), 10 ** rng.uniform(-3, 3, n)
    data = {"sample_weight": weights, "groups": extra["groups"]}
    core = karat.coreset(X, y, problem=problems.LpRegression(4, fit_intercept=False), **data)
    assert core.verify(X, y, **data).ok
    for place, change in ((int(np.argmax(core.weights)), 1e-6), (0, 1e-2)):
        spoilt = np.array(core.weights)
        spoilt[place] *= 1 + change
        assert not replace(core, weights=spoilt).verify(X, y, **data).ok


@pytest.mark.parametrize("seed", [12, 58, 3, 27])
def test_a_twin_that_differs_below_the_rounding_of_a_sample(seed):
    """A factorisation of the sample makes a direction of its rounding, with factors of 1e14 and
    more; beside these the other coordinates must not seem to vanish.
    """
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(300, 6000)), int(rng.integers(2, 6))
    size = 10.0 ** rng.choice([-80, -155, -160, -200, -300])
    a = np.zeros(n)
    rare = rng.choice(n, max(2, n // int(rng.choice([10, 100]))), replace=False)
    a[rare] = rng.uniform(0.5, 2)
    twin, other = a.copy(), np.setdiff1d(np.arange(n), rare)
    twin[other] = size * rng.integers(1, 9, len(other))
    X = np.column_stack([rng.standard_normal((n, d - 2)), a, twin])[:, rng.permutation(d)]
    y = 5 * X @ rng.standard_normal(d) + 10 + rng.standard_normal(n)
    half = n // 2
    core = karat.coreset(X[:half], y[:half]).merge(karat.coreset(X[half:], y[half:]))
    seen = core.verify(X, y)
    assert seen.ok
    assert seen.passes <= 2


@pytest.mark.skipif(not extended(), reason="the judge needs a long double of 64 bits")
@pytest.mark.parametrize(("name", "seed"), [("drift/249", 19112601), ("large-rare/105", 19112602)])
def test_rounding_of_coordinates_does_not_hide_an_exact_coreset(name, seed):
    """Several targets beside columns that are nearly combinations of others: no coordinates in
    doubles prove what sums in twice the precision do; the judge also spoils the coreset.
    """
    assert judge(draw(name, seed)).verdict == "exact"
