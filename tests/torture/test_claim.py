"""The judge of powers against answers that are known, rational arithmetic, and brute force."""

from __future__ import annotations

import decimal
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.torture.cases import alone
from tests.torture.claim import Claim
from tests.torture.data import GENERATORS
from tests.torture.exact import CONTEXT, Side, decimals, factor
from tests.torture.solved import fitted, lost, moved
from tests.torture.spoil import KINDS, judged, subject

EPS = 2.0**-52


def table(rng, n, kind):
    X = rng.standard_normal((n, 3))
    if kind == "collinear":
        X[:, 2] = X[:, 0] + 10.0 ** rng.uniform(-13, -3) * X[:, 2]
    if kind == "units":
        X *= [1e150, 1.0, 1e-150]
    if kind == "offset":
        X += 1e8
    return X, X[:, 1] / np.abs(X[:, 1]).max() + rng.standard_normal(n), rng.uniform(0.5, 2.0, n)


def test_second_moments_are_exact():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(40) * 10.0 ** rng.uniform(-300, 300, 40), np.arange(40) - 7
    u = rng.uniform(0.5, 2, 40) * 10.0 ** rng.uniform(-300, 300, 40)
    side = Side([a, b], u, 40)
    G = side.gram(side.lows, side.low, constant=True)
    unit = Fraction(2) ** side.low
    assert G[0, 0] * unit == sum(map(Fraction, u))
    assert G[1, 1] * unit * Fraction(4) ** side.lows[0] == sum(
        Fraction(w) * Fraction(x) ** 2 for w, x in zip(u, a, strict=True)
    )
    products = zip(u, a, b, strict=True)
    assert G[1, 2] * unit * Fraction(2) ** side.lows[0] == sum(
        Fraction(w) * Fraction(x) * int(k) for w, x, k in products
    )


def test_elimination():
    with decimal.localcontext(CONTEXT):
        A = np.random.default_rng(1).integers(-9, 10, (7, 5))
        G = decimals((A @ A.T).astype(object))  # of rank 5
        T, d = factor(G)
        left = T.T.dot(G).dot(T) - np.diag(d)
        assert max(abs(v) for v in left.ravel()) < Decimal("1e-140")
        assert sum(v > 0 for v in d) == 5


def loss(X, y, u, z, p, affine):
    """Rational."""
    total = Fraction(0)
    for row, target, w in zip(X, y, u, strict=True):
        d = [*([1] if affine else []), *map(Fraction, row), Fraction(target)]
        total += Fraction(w) * sum(a * b for a, b in zip(z, d, strict=True)) ** p
    return total


@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("affine", [True, False])
def test_the_claim_at_a_query_is_rational(p, affine):
    rng = np.random.default_rng(2)
    X, y, u = table(rng, 30, "collinear")
    w = u.copy()
    w[3] *= 1 + 1e-9
    claim = Claim(X, y, u, p, affine)
    pair = claim.pair(claim.kept(X, y, w))
    units = [Fraction(1)] * affine + [Fraction(2) ** low for low in pair.lows]
    for _ in range(3):
        z = [int(v) for v in rng.integers(-(10**9), 10**9, 4 + affine)]
        own = [a / b for a, b in zip(z, units, strict=True)]
        f, fc = loss(X, y, u, own, p, affine), loss(X, y, w, own, p, affine)
        value, error = pair.losses(z)
        unit = Fraction(2) ** pair.low
        assert (value * unit, error * unit) == (f, fc - f)
        total = sum(map(Fraction, u)) if affine else None
        first = [
            sum(Fraction(a) * Fraction(b) for a, b in zip(u, c, strict=True)) for c in (*X.T, y)
        ]
        mean = [m / total if affine else Fraction(0) for m in first]
        norms = [
            float(sum(Fraction(a) * abs(Fraction(b) - m) ** p for a, b in zip(u, c, strict=True)))
            ** (1 / p)
            for c, m in zip((*X.T, y), mean, strict=True)
        ]
        reach = sum(abs(float(a)) * s for a, s in zip(own[affine:], norms, strict=True))
        rho, delta = 1e-3, 1e-10
        allowed = delta * float(f) + (float(f) ** (1 / p) + rho * reach) ** p - float(f)
        seen = pair.ratio(z, Decimal(delta), Decimal(rho))
        assert seen.ratio == pytest.approx(abs(float(fc - f)) / allowed, rel=1e-9)


@pytest.mark.parametrize("p", [2, 4, 6])
@pytest.mark.parametrize("kind", ["plain", "collinear", "units", "offset"])
def test_all_weights_too_large(p, kind):
    """Then the error is the same share of every loss, and the constant is the query at which
    nothing else is allowed.
    """
    X, y, _ = table(np.random.default_rng(3), 200, kind)
    claim = Claim(X, y, None, p, True)
    w = np.full(200, 1 + 2.0**-30)
    worst = claim.worst(claim.kept(X, y, w), 1e-10, 64 * EPS)
    assert worst.ratio == pytest.approx(2.0**-30 / 1e-10, rel=1e-12)


@pytest.mark.parametrize("p", [2, 4])
def test_one_column_too_large_is_the_bound_itself(p):
    """A column that grows by rho: the bound is met, at that column alone, and never passed."""
    rng = np.random.default_rng(4)
    X, y, rho = (
        rng.integers(-50, 51, (100, 3)).astype(float),
        rng.integers(-50, 51, 100).astype(float),
        2.0**-40,
    )
    claim = Claim(X, y, None, p, affine=False)
    larger = X.copy()
    larger[:, 1] *= 1 + rho
    worst = claim.worst(claim.kept(larger, y, np.ones(100)), 0.0, rho)
    assert worst.ratio == pytest.approx(1.0, rel=1e-9)
    assert max(abs(v) for v in np.delete(np.array(worst.query, dtype=object), 1)) < 1e-2 * abs(
        worst.query[1]
    )


@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_columns_that_move_by_rho_keep_the_claim(p, affine, seed):
    """Minkowski: whatever the move, if every column moves by at most rho of its norm."""
    rng = np.random.default_rng(seed)
    X, y, u = table(rng, 150, ["plain", "collinear"][seed % 2])
    D, rho = np.column_stack([X, y]), 2.0**-35
    centred = D - (u @ D / u.sum()) * affine
    norms = (u @ np.abs(centred) ** p) ** (1 / p)
    move = rng.standard_normal(D.shape) * (rng.random(D.shape) < rng.choice([0.02, 1.0]))
    move *= 0.99 * rho * norms / np.maximum((u @ np.abs(move) ** p) ** (1 / p), 1e-300)
    kept = D + move
    claim = Claim(X, y, u, p, affine)
    worst = claim.worst(claim.kept(kept[:, :3], kept[:, 3], u), 1e-30, rho)
    assert 1e-3 < worst.ratio <= 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["plain", "collinear", "units", "offset"])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("p", [2, 4])
def test_no_random_query_is_worse(p, affine, kind):
    """Spoilt weights, a row left out, a row replaced: thousands of exact ratios are all below the
    one that was found.
    """
    rng = np.random.default_rng([p, affine])
    X, y, u = table(rng, 80, kind)
    claim, count = Claim(X, y, u, p, affine), 300 if p == 2 else 15
    for spoilt in range(3):
        rows, w = np.arange(80), u.copy()
        if spoilt == 0:
            w[rng.integers(80)] *= 1 + 10.0 ** rng.uniform(-13, -8)
        if spoilt == 1:
            rows, w = rows[1:], w[1:]
        if spoilt == 2:
            rows[5] = 6
        pair = claim.pair(claim.kept(X[rows], y[rows], w))
        for delta, rho in ((1e-10, 64 * EPS), (1e-13, 1e-6)):
            worst = pair.worst(delta, rho)
            with decimal.localcontext(CONTEXT):
                for i in range(count):
                    a = rng.standard_normal(len(pair.used))
                    a = a * 10.0 ** rng.uniform(-12, 12, len(a)) if i % 3 == 0 else a
                    a = a / np.sqrt(np.maximum(pair.d, 1e-40)) if i % 3 == 1 else a
                    assert pair.ratio(
                        pair.query(a, 60), Decimal(delta), Decimal(rho)
                    ).ratio <= worst.ratio * (1 + 1e-4)


def test_one_case_against_ten_thousand_queries():
    rng = np.random.default_rng(9)
    X, y, u = table(rng, 60, "collinear")
    w = u.copy()
    w[7] *= 1 + 1e-9
    pair = Claim(X, y, u, 2, True).pair(Claim(X, y, u, 2, True).kept(X, y, w))
    worst = pair.worst(1e-10, 64 * EPS)
    A = rng.standard_normal((len(pair.used), 10_000))
    A[:, ::2] /= np.sqrt(np.maximum(pair.d, 1e-40))[:, None]
    assert pair._values(A, 1e-10, 64 * EPS).max() <= worst.ratio * (1 + 1e-6)
    assert worst.ratio > 0.8 * pair._values(A, 1e-10, 64 * EPS).max()


def test_rows_kept_verbatim_are_left_out():
    """With a row of 1e20 nearly everything is within rounding; without it, on both sides, nothing
    is.
    """
    rng = np.random.default_rng(5)
    X, y, u = table(rng, 100, "plain")
    X[13] = 1e20
    claim, rows = Claim(X, y, u, 2, True), np.array([13, *range(20)])
    w = np.r_[u[13], np.full(20, 5.0)]
    side = claim.kept(X[rows], y[rows], w)
    inside = claim.worst(side, 1e-10, 64 * EPS, None, None)
    apart = claim.worst(side, 1e-10, 64 * EPS, np.arange(21) == 0, np.array([13]))
    assert apart.ratio > 1e8
    assert inside.ratio > 1  # the target still shows it
    rest = np.delete(np.arange(100), 13)
    alike = Claim(X[rest], y[rest], u[rest], 2, True)
    same = alike.worst(alike.kept(X[rows[1:]], y[rows[1:]], w[1:]), 1e-10, 64 * EPS)
    assert same.ratio == pytest.approx(apart.ratio, rel=1e-6)


def test_a_constant_column_must_stay_constant():
    X, y = np.column_stack([np.full(20, 7.3), np.arange(20.0)]), np.arange(20.0) ** 2
    claim = Claim(X, y, None, 2, True)
    assert claim.worst(claim.kept(X, y, np.ones(20)), 1e-14, EPS).ratio == 0
    other = X.copy()
    other[3, 0] = np.nextafter(7.3, 8)
    assert claim.worst(claim.kept(other, y, np.ones(20)), 1e-14, EPS).ratio == np.inf


TABLES = sorted(set(GENERATORS) - {"documents", "real", "sparse_table"})


@pytest.mark.parametrize(
    ("name", "p"), [*((name, 2) for name in TABLES), *((name, 4) for name in TABLES[::4])]
)
def test_no_false_alarm(name, p):
    """All rows, some of them in two parts: exact by definition, so the error is 0 whatever is
    allowed.
    """
    rng = np.random.default_rng(6)
    X = np.asarray(alone(GENERATORS[name](rng, 50, 3))[0])
    order = np.r_[np.arange(50), np.arange(25)]
    w = np.r_[np.full(25, 0.25), np.ones(25), np.full(25, 0.75)]
    y = rng.standard_normal(50)
    for affine in (True, False):
        claim = Claim(X, y, None, p, affine)
        assert claim.worst(claim.kept(X[order], y[order], w), 1e-16, 1e-30).ratio == 0


def test_many_rows():
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((100_000, 3)), rng.standard_normal(100_000)
    claim, w = Claim(X, y, None, 2, True), np.ones(100_000)
    w[77] += 1e-4
    assert 0.1 < claim.worst(claim.kept(X, y, w), 1e-10, 64 * EPS).ratio < 1e3


def test_fitted_values_and_coefficients():
    rng = np.random.default_rng(8)
    X, y, u = table(rng, 60, "plain")
    A = np.column_stack([np.ones(60), X])
    plain = A @ np.linalg.lstsq(np.sqrt(u)[:, None] * A, np.sqrt(u) * y, rcond=None)[0]
    np.testing.assert_allclose(fitted(X, y, u, True), plain, atol=1e-12)
    assert lost(X, y, u, True) < 1e-14
    twins = np.column_stack([X, X[:, 0] * (1 + EPS * (np.arange(60) == 3))])
    assert lost(twins, y, u, True) > 1e-4
    w = u.copy()
    w[4] *= 1.5
    claim = Claim(X, y, u, 2, True)
    b, bc = (
        np.linalg.lstsq(np.sqrt(v)[:, None] * A, np.sqrt(v) * y, rcond=None)[0] for v in (u, w)
    )
    inverse, rss = np.linalg.inv(A.T * u @ A), u @ (y - A @ b) ** 2
    expected = (np.abs(bc - b) / np.sqrt(rss / 56 * np.diag(inverse)))[1:].max()
    assert moved(claim.pair(claim.kept(X, y, w)), 60) >= expected * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_verify_refuses_what_is_spoilt(number):
    """A few of ``python -m tests.torture.spoil``."""
    own = subject(np.random.default_rng([0, number]))
    assert own is not None
    for kind in KINDS:
        verdict, said = judged(kind, own, np.random.default_rng([0, number, KINDS.index(kind)]))
        assert verdict != "bad", f"{kind}: {said} [{own.about}]"
