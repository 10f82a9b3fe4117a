"""Arrays of PyTorch, CuPy and JAX: rows that stay on their device."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from device_libraries import LIBRARIES, STRICT, TORCH, Travels, maker

import karat
from karat.compat import array_api
from karat.problems import LeastSquares, Moments
from tests.torture.claim import Claim

ROWS = ["real", "synthetic"]


@pytest.fixture(params=LIBRARIES)
def make(request, monkeypatch):
    return maker(request.param, monkeypatch)


def table(n: int = 60_000, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 5
    return X, X.sum(axis=1) + rng.standard_normal(n)


def extended_loss(X, y, weights, coef, intercept) -> float:
    X, y, coef = (np.asarray(a, dtype=np.longdouble) for a in (X, y, coef))
    return float(weights.astype(np.longdouble) @ (X @ coef + intercept - y) ** 2)


def check_losses(core, X, y, weights=None) -> None:
    """The loss of the coreset against that of all rows, in extended precision, at many queries."""
    weights = np.ones(len(X)) if weights is None else weights
    X_core, y_core = core.arrays()
    best = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    rng = np.random.default_rng(5)
    for size in (0.0, 1e-3, 1.0, 100.0):
        query = best + size * rng.standard_normal(len(best))
        full = extended_loss(X, y, weights, query[:-1], query[-1])
        few = extended_loss(X_core, y_core, core.weights, query[:-1], query[-1])
        assert few == pytest.approx(full, rel=1e-10)


@pytest.mark.parametrize("rows", ROWS)
def test_rows_come_back_in_the_library_and_on_the_device(make, rows):
    X, y = table()
    core = karat.coreset(make(X), make(y), rows=rows)
    assert core.certificate.ok
    assert len(core) == (21 if rows == "real" else 6)
    assert type(core.X) is type(core.y) is type(make(X))
    assert core.X.device == make(X).device
    assert tuple(core.y.shape) == (len(core),)
    check_losses(core, X, y)
    if rows == "real":
        np.testing.assert_array_equal(core.arrays()[0], X[core.indices])
    assert core.verify(make(X), make(y)).ok
    assert core.verify(X, y).ok
    assert not core.verify(make(X), make(np.where(np.arange(len(y)) == 7, y + 1, y))).ok


@pytest.mark.parametrize("rows", ROWS)
def test_single_precision_weights_and_groups(make, rows):
    X, y = (values.astype(np.float32) for values in table(20_000, 3))
    rng = np.random.default_rng(1)
    weights, groups = rng.random(len(X)), rng.integers(0, 2, len(X))
    weights[:100] = 0.0
    core = karat.coreset(make(X), make(y), rows=rows, sample_weight=make(weights))
    assert core.certificate.ok
    check_losses(core, X.astype(float), y.astype(float), weights)
    core = karat.coreset(make(X), make(y), rows=rows, groups=make(groups))
    assert core.certificate.ok
    assert core.verify(make(X), make(y), groups=groups).ok
    assert set(core.groups.tolist()) == {0, 1}


@pytest.mark.parametrize("rows", ROWS)
def test_only_a_few_rows_travel(make, rows, monkeypatch):
    X, y = table(200_000, 9)
    arrays = make(X), make(y)
    travels = Travels(monkeypatch)
    core = karat.coreset(*arrays, rows=rows)
    assert travels.numbers < 0.03 * X.size
    travels.numbers = 0
    assert core.verify(*arrays).ok
    assert travels.numbers < 0.15 * X.size  # a sample of 16,384 rows
    travels.numbers = 0
    sketch = karat.Sketch(rows=rows).update(*arrays)
    assert sketch.coreset().certificate.ok
    assert travels.numbers < 0.1 * X.size


@pytest.mark.parametrize("rows", ROWS)
def test_many_columns(make, rows):
    X, y = table(20_000, 90 if rows == "synthetic" else 12)
    core = karat.coreset(make(X), make(y), rows=rows)
    assert core.certificate.ok
    check_losses(core, X, y)


@pytest.mark.parametrize("rows", ROWS)
def test_wild_rows_are_found_on_the_device(make, rows):
    X, y = table(30_000)
    X[[17, 29_000], 1] = 1e20
    core = karat.coreset(make(X), make(y), rows=rows)
    assert core.certificate.ok
    assert (core.arrays()[0][core.verbatim, 1] == 1e20).sum() == 2
    others = np.setdiff1d(np.arange(len(X)), [17, 29_000])
    kept = ~core.verbatim
    few = karat.coreset(X[others], y[others], rows=rows)
    first, second = core.arrays()[0][kept], few.arrays()[0]
    for power in (1, 2):
        mine, theirs = core.weights[kept] @ first**power, few.weights @ second**power
        np.testing.assert_allclose(mine, theirs, rtol=1e-11)
    assert core.verify(make(X), make(y)).ok


@pytest.mark.parametrize("rows", ROWS)
def test_a_sketch_takes_batches_on_the_device(make, rows, monkeypatch):
    monkeypatch.setattr("karat.stream.sketch.AT_ONCE", 2**18)
    X, y = table(50_000)
    sketch = karat.Sketch(rows=rows)
    for some in (slice(0, 20_000), slice(20_000, 20_100), slice(20_100, 50_000)):
        sketch.update(make(X[some]), make(y[some]))
    core = sketch.coreset()
    assert core.certificate.ok
    assert core.n_rows == 50_000
    check_losses(core, X, y)
    assert core.verify(make(X), make(y)).ok


def test_a_batch_that_changes_later_does_not_change_the_sketch(make):
    array = make(table(2000)[0])
    sketch = karat.Sketch().update(array)
    if hasattr(array, "zero_"):
        array.zero_()
    assert sketch.coreset().verify(table(2000)[0]).ok


@pytest.mark.parametrize("problem", [Moments(2), Moments(3), LeastSquares(fit_intercept=False)])
def test_other_problems(make, problem):
    X, y = table(30_000, 3)
    arrays = (X, y) if problem.needs_target else (X,)
    core = karat.coreset(*map(make, arrays), problem=problem)
    assert core.certificate.ok
    assert core.verify(*arrays).ok
    np.testing.assert_allclose(core.weights @ core.arrays()[0] ** 2, (X**2).sum(axis=0), rtol=1e-11)


def test_files_merges_and_frames(make, tmp_path):
    X, y = table(30_000)
    first, second = (
        karat.coreset(make(X[some]), make(y[some]), rows="synthetic")
        for some in (slice(0, 10_000), slice(10_000, None))
    )
    merged = first.merge(second)
    assert type(merged.X) is type(first.X)
    check_losses(merged, X, y)
    merged.save(tmp_path / "core.npz")
    check_losses(karat.load(tmp_path / "core.npz"), X, y)
    pytest.importorskip("pandas")
    assert len(merged.to_pandas()) == len(merged)


def test_models_are_fitted_on_the_kept_rows(make):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = table(30_000)
    fitted = karat.coreset(make(X), make(y)).fit(linear_model.Ridge())
    np.testing.assert_allclose(fitted.coef_, linear_model.Ridge().fit(X, y).coef_, rtol=1e-9)


def test_nan_is_named(make):
    X, y = table(30_000)
    X[12_345, 2] = np.nan
    with pytest.raises(karat.InputError, match="Column 2 has 1 NaN value, the first in row 12345"):
        karat.coreset(make(X), make(y))


def test_columns_that_lie_apart_and_integers(make):
    X, y = table(30_000)
    core = karat.coreset(make(X.repeat(2, axis=1))[:, ::2], make(y), rows="synthetic")
    check_losses(core, X, y)
    core = karat.coreset(make(np.rint(X).astype(np.int64)), make(y), rows="synthetic")
    check_losses(core, np.rint(X), y)
    long = np.rint(X).astype(np.int64) + 2**60
    with pytest.raises(karat.InputError, match="X holds integers beyond 2"):
        karat.coreset(make(long), make(y))


@pytest.mark.parametrize(
    ("shape", "message"),
    [((0, 3), "X has no rows"), ((3, 0), "X has no columns"), ((2, 2, 2), "X has 3 dimensions")],
)
def test_shapes_that_are_no_table(make, shape, message):
    with pytest.raises(karat.InputError, match=message):
        karat.coreset(make(np.zeros(shape)))


def test_complex_numbers(make):
    with pytest.raises(karat.InputError, match="complex"):
        karat.coreset(make(np.ones((5, 2)) * 1j))


def test_mixed_devices(make):
    X, y = table(100)
    with pytest.raises(karat.InputError, match=r"X is on .*, y is on the host; move one of them"):
        karat.coreset(make(X), y)
    with pytest.raises(karat.InputError, match="X is on the host, y is on"):
        karat.coreset(X, make(y))


def test_tensors_that_require_gradients(monkeypatch):
    make = maker(TORCH, monkeypatch)
    X = make(table(100)[0]).requires_grad_()
    with pytest.raises(karat.InputError, match=r"requires gradients.* pass X\.detach\(\)"):
        karat.coreset(X)
    assert karat.coreset(X.detach()).certificate.ok


def test_devices_without_double_precision(monkeypatch):
    make = maker(TORCH, monkeypatch)
    monkeypatch.setattr(array_api, "has_doubles", lambda array: False)
    with pytest.raises(karat.InputError, match=r"no double precision; pass X\.cpu\(\)"):
        karat.coreset(make(table(100)[0]))


def test_host_tensors_need_no_extra(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    X, y = table(20_000)
    for rows in ROWS:
        core = karat.coreset(torch.tensor(X), torch.tensor(y), rows=rows)
        assert isinstance(core.X, torch.Tensor)
        check_losses(core, X, y)


def test_the_extra_is_named(monkeypatch):
    strict = maker(STRICT, monkeypatch)
    array = strict(table(100)[0])
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(ImportError, match=r"karat\[arrays\]"):
        karat.coreset(array)


def test_jax_in_single_precision():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.config.jax_enable_x64:
        pytest.skip("JAX computes in double precision already")
    X = jax.numpy.asarray(table(100)[0].astype(np.float32))
    with pytest.raises(karat.InputError, match="jax_enable_x64"):
        karat.coreset(X)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        core = karat.coreset(jax.numpy.asarray(table(3000)[0]), rows="synthetic")
        assert core.certificate.ok
        assert core.X.dtype == np.float64


@pytest.mark.parametrize("rows", ROWS)
def test_the_claim_holds_at_the_worst_query(make, rows):
    """The certificate against all queries, in exact arithmetic."""
    X, y = table(3000, 3)
    core = karat.coreset(make(X), make(y), rows=rows)
    claim = Claim(X, y, None, 2, affine=True)
    kept = claim.kept(*core.arrays(), core.weights)
    worst = claim.worst(kept, core.certificate.loss_error, core.certificate.rounding)
    assert worst.ratio <= 1
