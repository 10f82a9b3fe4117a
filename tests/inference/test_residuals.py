"""Quantiles of all residuals equal those of every row in memory, however many passes they take."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

sm = pytest.importorskip("statsmodels.api")
formulaic = pytest.importorskip("formulaic")

from inference.data_sets import simulated  # noqa: E402

import karat  # noqa: E402
from karat import NotExactError  # noqa: E402
from karat.inference import ols, residuals  # noqa: E402

SHARES = [0, 0.25, 0.5, 0.75, 1]


def expected(formula, frame, weights=None):
    """By statsmodels and NumPy, with every residual in memory; R shows weighted residuals."""
    matrices = formulaic.model_matrix(formula, frame)
    y, X = np.asarray(matrices.lhs).ravel(), np.asarray(matrices.rhs, dtype=float)
    full = sm.OLS(y, X).fit() if weights is None else sm.WLS(y, X, weights=frame[weights]).fit()
    return np.quantile(full.wresid, SHARES)


@pytest.fixture
def few_are_held(monkeypatch):
    """Passes that count, and several of them, with few rows."""
    monkeypatch.setattr(residuals, "HELD", 20)


@pytest.mark.parametrize("n", [100, 101, 102, 103, 3000])
@pytest.mark.parametrize(
    ("formula", "weights"),
    [
        ("y ~ a + g", None),
        ("y ~ 0 + a", None),
        ("y ~ a * b", "w"),
        ("np.log(y + 300) ~ C(h) + b", None),
    ],
)
@pytest.mark.parametrize("held", [20, 2**22])
def test_quantiles(formula, weights, n, held, monkeypatch):
    monkeypatch.setattr(residuals, "HELD", held)
    frame = simulated(n, n)()
    found = ols(formula, frame, weights=weights, residual_quantiles=True).residual_quantiles
    assert list(found.index) == ["min", "1Q", "median", "3Q", "max"]
    theirs = expected(formula, frame, weights)
    np.testing.assert_allclose(found, theirs, rtol=1e-9, atol=1e-11 * np.abs(theirs).max())


@pytest.mark.usefixtures("few_are_held")
def test_ties_take_every_bit():
    """Many equal residuals: no bracket is ever small, and the last pass knows the number itself."""
    frame = pd.DataFrame({"g": list("ab") * 500, "y": np.tile([1.0, 4.0, 2.0, 4.0], 250)})
    found = ols("y ~ g", frame, residual_quantiles=True).residual_quantiles
    np.testing.assert_allclose(found, [-0.5, -0.125, 0.0, 0.125, 0.5], atol=1e-12)


@pytest.mark.usefixtures("few_are_held")
@pytest.mark.parametrize("kind", ["cauchy", "tiny", "skewed"])
def test_shapes(kind):
    rng = np.random.default_rng(0)
    noise = {
        "cauchy": rng.standard_cauchy(5000),
        "tiny": 1e-100 * rng.standard_normal(5000),
        "skewed": rng.lognormal(0, 4, 5000),
    }
    frame = pd.DataFrame({"x": rng.standard_normal(5000), "y": noise[kind]})
    found = ols("y ~ x", frame, residual_quantiles=True).residual_quantiles
    theirs = expected("y ~ x", frame)
    np.testing.assert_allclose(found, theirs, rtol=1e-9, atol=1e-13 * np.abs(theirs).max())


@pytest.mark.parametrize("held", [50, 2**22])
def test_files_and_partitions(held, tmp_path, monkeypatch):
    monkeypatch.setattr(residuals, "HELD", held)
    frame = simulated(1, 4000)()
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=300)
    theirs = expected("y ~ a + b", frame)
    found = ols("y ~ a + b", tmp_path / "rows.parquet", residual_quantiles=True, cov_type="HC1")
    np.testing.assert_allclose(found.residual_quantiles, theirs, rtol=1e-9)
    dd = pytest.importorskip("dask.dataframe")
    spread = ols("y ~ a + b", dd.from_pandas(frame, npartitions=3), residual_quantiles=True)
    np.testing.assert_allclose(spread.residual_quantiles, theirs, rtol=1e-9)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int8])
def test_narrow_responses(kind):
    """A response in few bits has residuals in double precision, also where there is no intercept to
    widen it.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.standard_normal(500), "y": (10 * rng.standard_normal(500)).astype(kind)}
    )
    fit = ols("y ~ 0 + x", frame, residual_quantiles=True, cov_type="HC3")
    np.testing.assert_allclose(
        fit.residual_quantiles, expected("y ~ 0 + x", frame.astype(float)), rtol=1e-12
    )
    full = sm.OLS(frame["y"].astype(float), frame[["x"]]).fit(cov_type="HC3")
    np.testing.assert_allclose(fit.bse, full.bse, rtol=1e-12)


def test_bits_keep_the_order_of_doubles():
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.standard_normal(1000) * 10.0 ** rng.integers(-300, 300, 1000),
            [0.0, -0.0, 5e-324, -5e-324],
        ]
    )
    bits = residuals.ordered_bits(values)
    np.testing.assert_array_equal(values[np.argsort(bits, kind="stable")], np.sort(values))
    assert [residuals.double_of(int(one)) for one in bits] == list(values)


def test_stored_and_refused(tmp_path):
    frame = simulated(2, 900)()
    fit = ols("y ~ a + b", frame, residual_quantiles=True)
    assert "Residuals: min" in str(fit.summary())
    fit.coreset.save(tmp_path / "core.parquet")
    again = ols(karat.load(tmp_path / "core.parquet"), residual_quantiles=True)
    pd.testing.assert_series_equal(again.residual_quantiles, fit.residual_quantiles)
    plain = ols("y ~ a + b", frame)
    for refused in (
        lambda: plain.residual_quantiles,
        lambda: fit.submodel("y ~ a").residual_quantiles,
        lambda: ols(plain.coreset, residual_quantiles=True),
        lambda: ols("y ~ a", fit.coreset, residual_quantiles=True),
        lambda: ols(fit.coreset.merge(plain.coreset)).residual_quantiles,
    ):
        with pytest.raises(NotExactError, match="residual"):
            refused()
    assert "Residuals: min" not in str(plain.summary())
    later = ols(plain.coreset, frame, residual_quantiles=True)
    pd.testing.assert_series_equal(later.residual_quantiles, fit.residual_quantiles)
