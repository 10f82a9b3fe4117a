"""The certificate never flatters, verify refutes what was tampered with, and plan tells what will
happen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases import CASES, judge, whitened
from factory import data
from oracles import EPS, square_error

import karat
from karat import InputError
from karat.problems import (
    Kernel,
    LeastSquares,
    LpRegression,
    Mean,
    Moments,
    Ridge,
    TensorContraction,
)


@pytest.mark.parametrize(
    "case",
    [
        "least_squares",
        "least_squares_no_intercept",
        "moments_3",
        "contraction_3",
        "l4_no_intercept",
    ],
)
@pytest.mark.parametrize(
    "tag",
    [
        "gaussian",
        "skewed",
        "one_hot_binary",
        "near_collinear",
        "huge_offset",
        "uneven_weights",
        "outlier",
    ],
)
def test_loss_error_is_never_smaller_than_the_measured_error(tag, case):
    made, spec, white = data(tag), CASES[case], whitened(tag, case)
    core = karat.coreset(
        made.X, made.y if spec.target else None, spec.problem, sample_weight=made.weights
    )
    if spec.degree == 2:
        measured = square_error(white, spec.kept(core), core.weights)
    else:
        measured = judge(tag, case).error(spec.kept(core), core.weights)
    rounding = 20 * EPS * max(1.0, white.condition)
    assert measured <= core.certificate.loss_error + rounding


@pytest.mark.parametrize("spoil", [1e-9, 1e-6, 1e-3, 0.5])
@pytest.mark.parametrize(
    "case",
    ["least_squares", "least_squares_conic", "moments_3", "contraction_3", "l4", "l6_no_intercept"],
)
def test_verify_measures_a_spoilt_coreset(case, spoil):
    """Errors of every size are seen: exactly for degree 2, bounded from above otherwise, and not by
    orders of magnitude.
    """
    made, spec, white = data("gaussian"), CASES[case], whitened("gaussian", case)
    y = made.y if spec.target else None
    core = karat.coreset(made.X, y, spec.problem)
    rng = np.random.default_rng(0)
    bad = replace(
        core, weights=core.weights * (1 + spoil * rng.standard_normal(len(core)).clip(-1.5, 1.5))
    )
    certificate = bad.verify(made.X, y)
    assert not certificate.ok
    if spec.degree == 2:
        measured = square_error(white, spec.kept(bad), bad.weights)
        if spec.affine or not spec.total:
            assert certificate.loss_error == pytest.approx(measured, rel=1e-4)
        assert certificate.loss_error >= measured * (1 - 1e-4)
    else:
        measured = judge("gaussian", case).error(spec.kept(bad), bad.weights)
        assert measured * (1 - 1e-6) <= certificate.loss_error <= 1e4 * measured


def built(problem=None, n=800):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 3))
    y = X.sum(axis=1) + rng.standard_normal(n)
    return X, y, karat.coreset(X, y, problem or LeastSquares())


def test_verify_accepts_the_truth():
    X, y, core = built()
    certificate = core.verify(X, y)
    assert certificate.ok
    assert certificate.loss_error <= 1e-12
    assert certificate.size == len(core)


def test_verify_refutes_changed_weights():
    X, y, core = built()
    for i in range(len(core)):
        weights = core.weights.copy()
        weights[i] *= 1 + 1e-7
        assert not replace(core, weights=weights).verify(X, y).ok


def test_verify_refutes_changed_rows():
    X, y, core = built()
    rows = core.X.copy()
    rows[0, 0] = np.nextafter(rows[0, 0], 9)
    assert not replace(core, X=rows).verify(X, y).ok
    target = core.y.copy()
    target[2] += 1e-14
    assert not replace(core, y=target).verify(X, y).ok
    assert not replace(core, indices=core.indices + 1).verify(X, y).ok
    assert not replace(core, indices=core.indices[::-1]).verify(X, y).ok


def test_verify_refutes_other_data():
    X, y, core = built()
    for i in (0, 400, 799):
        other = y.copy()
        other[i] += 1e-4
        assert not core.verify(X, other).ok
    assert not core.verify(X[:-1], y[:-1]).ok
    assert not core.verify(np.vstack([X, X[:1]]), np.append(y, y[0])).ok
    assert not core.verify(X * (1 + 1e-9), y).ok
    assert not core.verify(X, y, sample_weight=np.full(800, 1.0001)).ok
    with pytest.raises(InputError, match="columns"):
        core.verify(X[:, :2], y)
    with pytest.raises(InputError, match="groups"):
        core.verify(X, y, groups=np.zeros(800))


def test_verify_refutes_a_shuffled_copy():
    """The moments are the same, the rows are not where they were."""
    X, y, core = built()
    order = np.random.default_rng(0).permutation(800)
    assert not core.verify(X[order], y[order]).ok


def test_verify_refutes_swapped_groups():
    X, y, _ = built()
    groups = np.arange(800) % 2
    core = karat.coreset(X, y, groups=groups)
    assert core.verify(X, y, groups=groups).ok
    assert not core.verify(X, y, groups=1 - groups).ok
    assert not core.verify(X, y, groups=np.arange(800) % 3).ok


def test_verify_refutes_negative_weights():
    """Moments can be met with negative weights too; that is no coreset."""
    X, y, core = built()
    weights = core.weights.copy()
    weights[0] = -weights[0]
    bad = replace(core, weights=weights)
    with pytest.raises(InputError, match="negative"):
        bad.verify(X, y)


@pytest.mark.parametrize(
    "problem",
    [
        LeastSquares(),
        LpRegression(4),
        Moments(3),
        TensorContraction(3),
        Mean(),
        Ridge(1.0, absorb="box"),
        Kernel(np.sin),
    ],
)
def test_certificate_text(problem):
    X, y, _ = built()
    core = karat.coreset(X, y if problem.needs_target else None, problem)
    text = str(core.certificate)
    for part in (
        f"{len(core)} of 800 rows",
        "exact",
        "Kept:",
        "Not kept:",
        "leave-one-out",
        "privacy",
    ):
        assert part in text
    assert "NOT exact" not in text
    assert f"{core.certificate.loss_error:.1e}" in text
    assert "800" in repr(core)
    assert str(len(core)) in repr(core)
    html = core._repr_html_()
    assert html.count("<tr>") == html.count("</tr>") > 4
    assert "exact" in html


def test_text_says_not_exact():
    X, y, core = built()
    bad = replace(core, weights=core.weights * 1.01).verify(X, y)
    assert "NOT exact" in str(bad)
    assert "NOT exact" in replace(core, certificate=bad)._repr_html_()


def test_html_is_escaped():
    X, _, _ = built()

    def features(X):
        return X

    features.__name__ = "<script>alert(1)</script>"
    assert "<script>" not in karat.coreset(X, problem=Kernel(features))._repr_html_()


def test_certificate_numbers():
    X, _, core = built()
    certificate = core.certificate
    assert certificate.rank == 15
    assert certificate.size == len(core) <= 15
    assert certificate.bound == 15
    assert certificate.passes >= 1
    assert certificate.seconds > 0
    assert certificate.condition >= 1
    assert certificate.excluded_directions == ()
    assert certificate.moment_error <= 1e-12
    assert certificate.total_error <= 1e-12
    assert core.n_rows == len(X)


def test_excluded_directions_are_reported():
    """A direction that is not exactly zero but below rounding is cut, and said so."""
    made = data("rank_deficient")
    core = karat.coreset(made.X, made.y)
    assert core.certificate.ok
    assert len(core.certificate.excluded_directions) <= 2
    assert all(x <= 1e-10 for x in core.certificate.excluded_directions)
    if core.certificate.excluded_directions:
        assert "vanish" in str(core.certificate)


@pytest.mark.parametrize(
    "tag",
    ["gaussian", "one_hot_binary", "rank_deficient", "many_rare", "duplicated_rows", "single_one"],
)
def test_rank_is_the_true_rank(tag):
    from cases import independent_rank

    made = data(tag)
    assert karat.coreset(made.X, made.y).certificate.rank == independent_rank(tag, "least_squares")


def test_progress_is_called():
    seen = []
    made = data("many_gaussian")
    karat.coreset(made.X, made.y, progress=lambda done, of: seen.append((done, of)))
    assert seen
    assert all(0 < done <= of == 20_011 for done, of in seen)
    assert max(done for done, _ in seen) == 20_011


class TestPlan:
    def test_rows_are_an_upper_bound(self):
        for problem, d in ((LeastSquares(), 3), (LpRegression(4), 3), (Moments(3), 3), (Mean(), 3)):
            made = data("gaussian")
            core = karat.coreset(made.X, made.y if problem.needs_target else None, problem)
            plan = karat.plan(problem, 900, d)
            assert len(core) <= plan.rows
            assert plan.rows == problem.width(d)

    def test_known_numbers(self):
        assert karat.plan(LeastSquares(), 1_000_000, 10).rows == 78
        assert karat.plan(LeastSquares(), 1_000_000, 10, groups=5).rows == 390
        assert karat.plan(LeastSquares(), 1_000_000, 10, targets=10).rows == 186
        assert karat.plan(LeastSquares(), 20, 10).rows == 20

    def test_grows_with_the_work(self):
        small, large = karat.plan(LeastSquares(), 10**5, 10), karat.plan(LeastSquares(), 10**8, 10)
        assert large.operations > 100 * small.operations
        assert large.memory < 20 * small.memory, "memory must not grow with the rows"
        assert karat.plan(LpRegression(4), 10**5, 10).memory > small.memory

    def test_text(self):
        plan = karat.plan(LeastSquares(), 10**6, 10)
        assert "78 rows" in str(plan)
        assert plan.method in ("onepass", "tree", "caratheodory")
        assert len(plan.why) > 20

    @pytest.mark.parametrize(
        "bad",
        [
            {"n": 0},
            {"d": 0},
            {"n": -1},
            {"n": 1.5},
            {"groups": 0},
            {"targets": 0},
            {"n": "many"},
            {"n": True},
        ],
    )
    def test_bad_arguments(self, bad):
        with pytest.raises(InputError, match=next(iter(bad))):
            karat.plan(LeastSquares(), **({"n": 100, "d": 2} | bad))

    def test_not_a_problem(self):
        with pytest.raises(InputError):
            karat.plan("least squares", 100, 3)

    def test_kernel_needs_data(self):
        with pytest.raises(InputError):
            karat.plan(Kernel(np.sin), 100, 3)

    def test_method_is_what_auto_does(self):
        made = data("many_gaussian")
        plan = karat.plan(LeastSquares(), 20_011, 3)
        core = karat.coreset(made.X, made.y)
        assert core.certificate.method.startswith(plan.method)
        assert core.certificate.passes == plan.passes
