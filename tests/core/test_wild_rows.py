"""Wild rows: kept apart when a coreset is made, and looked for when it is verified."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import karat


def spoilt(core, rows):
    """Two weights changed by a tenth, such that their sum stays."""
    weights = core.weights.copy()
    change = 0.1 * weights[rows].min()
    weights[rows] += [change, -change]
    return replace(core, weights=weights)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("share", [0.003, 0.06])  # kept as they are, and a level of their own
def test_verify_sees_the_other_rows_beside_wild_ones(affine, share, tmp_path):
    rng = np.random.default_rng(1)
    n = 5000
    X = rng.standard_normal((n, 2))
    y = X[:, 0] + rng.standard_normal(n)
    wild = rng.random(n) < share
    X[wild] *= 1e8
    y[wild] *= 1e8
    core = karat.coreset(X, y, karat.problems.LeastSquares(fit_intercept=affine))
    assert core.verify(X, y).ok
    assert core.certificate.levels == 1 + (share > 0.01)
    tame = np.flatnonzero(~wild[core.indices])[:2]
    assert not spoilt(core, tame).verify(X, y).ok
    core.save(tmp_path / "core.npz")
    assert karat.load(tmp_path / "core.npz").verify(X, y).ok
    assert not spoilt(karat.load(tmp_path / "core.npz"), tame).verify(X, y).ok


def test_verify_sees_the_other_rows_of_groups():
    rng = np.random.default_rng(2)
    n = 3000
    X, groups = rng.standard_normal((n, 2)), rng.integers(3, size=n)
    y = X[:, 0] + rng.standard_normal(n)
    wild = (rng.random(n) < 0.003) & (groups == 1)  # in one group only
    X[wild] *= 1e9
    core = karat.coreset(X, y, groups=groups)
    assert core.verify(X, y, groups=groups).ok
    for group in range(3):
        tame = np.flatnonzero(~wild[core.indices] & (core.groups == group))[:2]
        assert not spoilt(core, tame).verify(X, y, groups=groups).ok


@pytest.mark.parametrize("classes", [3, 4, 20])
def test_probabilities_near_0_and_1_are_not_wild(classes):
    """A saturated softmax beside its one-hot columns: most values are tiny, but every row has one
    of about 1.
    """
    rng = np.random.default_rng(classes)
    logits = 100 * rng.standard_normal((3000, classes))
    soft = np.exp(logits - logits.max(axis=1, keepdims=True))
    soft /= soft.sum(axis=1, keepdims=True)
    X, y = np.column_stack([soft, np.eye(classes)[soft.argmax(axis=1)]]), rng.standard_normal(3000)
    core = karat.coreset(X, y)
    assert core.certificate.levels == 1
    assert len(core) <= core.certificate.bound
    assert core.verify(X, y).ok


def slope(x, y, weights):
    """The slope of y on x and its variance times n - 2, over the rationals."""
    x, y, w = ([Fraction(float(v)) for v in values] for values in (x, y, weights))
    total = sum(w)
    mx, my = (sum(a * b for a, b in zip(w, values, strict=True)) / total for values in (x, y))
    xx = sum(c * (a - mx) ** 2 for a, c in zip(x, w, strict=True))
    xy = sum(c * (a - mx) * (b - my) for a, b, c in zip(x, y, w, strict=True))
    yy = sum(c * (b - my) ** 2 for b, c in zip(y, w, strict=True))
    return xy / xx, (yy - xy**2 / xx) / xx


@pytest.mark.parametrize("seed", range(6))
def test_no_standard_errors_where_the_residual_is_rounding(seed):
    rng = np.random.default_rng(seed)
    x = rng.gamma(2, 1, 500)
    x[rng.random(500) < 0.01] = 9999.0
    y = np.nextafter(x, np.inf)
    core = karat.coreset(x[:, None], y)
    full, variance = slope(x, y, np.ones(500))
    kept, _ = slope(core.X[:, 0], core.y, core.weights)
    moved = float(abs(full - kept)) / float(variance / 498) ** 0.5
    assert core.certificate.standard_errors is None or moved <= core.certificate.standard_errors


def test_no_standard_errors_of_columns_that_are_copies_up_to_a_bit():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000)
    X, y = np.column_stack([x, np.nextafter(x, np.inf)]), x + rng.standard_normal(1000)
    certificate = karat.coreset(X, y).certificate
    assert certificate.ok
    assert certificate.standard_errors is None
    assert "R2" in certificate.keeps  # there is a residual


@pytest.mark.parametrize("seed", range(40))
def test_all_levels_of_a_category_beside_an_intercept(seed):
    """A direction that vanishes exactly has a coordinate with factors of 1e16: it is the one to
    drop, not another.
    """
    rng = np.random.default_rng(seed + 260)
    n, levels = int(rng.integers(200, 8000)), int(rng.integers(2, 6))
    indicators = np.eye(levels)[rng.integers(0, levels, n)]
    X = np.column_stack([rng.standard_normal((n, int(rng.integers(0, 3)))), indicators])
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(n)
    core = karat.coreset(X, y)
    assert core.certificate.ok
    assert core.verify(X, y).ok


def test_a_large_row_that_has_its_own_weight_by_chance_was_not_left_out():
    """Nothing is verbatim here, so the claim is about all rows together, and verify must test
    that.
    """
    from tests.torture import ways
    from tests.torture.cases import draw

    case = draw("wild-row/29", 718281)
    core = ways.build(case)
    assert core.certificate.ok
    assert not core.verbatim.any()
    assert ways.verify(core, case).ok
