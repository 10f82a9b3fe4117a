"""A table for each level of a column, from as many readings as one: those of its rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*are singletons, each alone:UserWarning", "ignore:.*their predictions are NaN"
)
FORMULA = "y ~ x1 + C(kind) | firm + year"


def frame(n: int = 3000, seed: int = 0, spread: float = 1e5) -> pd.DataFrame:
    """Regions of different sizes; in one x1 varies far more between firms than within."""
    rng = np.random.default_rng(seed)
    region = np.minimum(rng.integers(0, 9, n), 4)
    firm, year, kind = (rng.integers(0, levels, n) for levels in (80, 9, 3))
    x = rng.standard_normal(n) + firm / 9 * np.where(region == 2, spread, 1.0)
    y = (region - 1.5) * x + kind + year + rng.standard_normal(n) * (1 + year / 5)
    columns = {"firm": firm, "year": year, "kind": kind, "region": region, "x1": x, "y": y}
    return pd.DataFrame(columns).assign(w=rng.integers(1, 5, n) / 2, odd=1.0 * (region == 3))


def check(fit, alone, kinds) -> None:
    assert list(fit.params.index) == list(alone.params.index)
    assert (fit.nobs, fit.df_k, fit.singletons) == (alone.nobs, alone.df_k, alone.singletons)
    assert np.abs((fit.params - alone.params) / alone.bse).max() < 1e-11
    for kind in kinds:
        V, W = fit.with_covariance(kind).cov_params(), alone.with_covariance(kind).cov_params()
        errors = np.sqrt(np.diag(W))
        assert np.abs((V - W) / np.outer(errors, errors)).to_numpy().max() < 1e-10
    new = frame(50, 1).drop(columns="y").query("year in [1, 2, 3]")
    np.testing.assert_allclose(fit.predict(new), alone.predict(new), rtol=1e-9, atol=1e-9)
    assert abs(fit.rsquared_within - alone.rsquared_within) < 1e-11


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("option", ["split", "fsplit"])
def test_every_sample_is_fitted_by_itself(option, weight):
    data = frame()
    kinds = ["cluster", "HC1", "nonrobust"]
    options = {"cov_type": kinds, "cluster": ["firm", "year"], "weights": weight}
    fits = karat.ols(FORMULA, data, **{option: "region"}, **options)
    assert list(fits) == [0, 1, 2, 3, 4]
    assert len(fits) == 5
    for region, fit in fits.items():
        check(fit, karat.ols(FORMULA, data[data["region"] == region], **options), kinds)
    if option == "fsplit":
        check(fits.full, karat.ols(FORMULA, data, **options), kinds)
    else:
        with pytest.raises(karat.InputError, match="part of fsplit="):
            fits.full  # noqa: B018
    table = fits.with_covariance("HC1").tidy()
    names = ["Full sample"] * (option == "fsplit") + [str(region) for region in range(5)]
    assert table["sample"].tolist() == [name for name in names for _ in range(3)]
    row = table[(table["sample"] == "3") & (table["term"] == "x1")].iloc[0]
    assert row["estimate"] == fits[3].params["x1"]
    assert row["std_error"] == fits[3].with_covariance("HC1").bse["x1"]
    assert fits.glance()["observations"].tolist()[-1] == fits[4].nobs
    assert "Sample: region = 3\ny ~ x1" in str(fits)


@pytest.mark.parametrize("option", ["split", "fsplit"])
def test_the_data_is_read_as_often_as_for_one_table(option, tmp_path):
    """Here three times: the levels of C(kind), sums, and scores; once more for region 2."""
    data = frame().astype({"region": str})
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    passes = []
    for rows, given in ((data[data["region"] == "2"], {}), (data, {option: "region"})):
        rows.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
        read = []
        fits = karat.ols(
            FORMULA, tmp_path, **given,
            progress=lambda done, total, read=read: read.append(done == total),
        )  # fmt: skip
        passes.append(sum(read))
    assert passes == [4, 4]
    check(fits["2"], karat.ols(FORMULA, data[data["region"] == "2"]), ["nonrobust"])


def test_text_samples_of_partitions():
    dask = pytest.importorskip("dask.dataframe")
    data = frame(spread=10.0).assign(region=lambda rows: "r" + rows["region"].astype(str))
    parts = dask.from_pandas(data.sort_values("region"), npartitions=11)
    there = karat.ols(FORMULA, parts, cov_type="HC1", fsplit="region")
    assert list(there) == [f"r{number}" for number in range(5)]
    for region, fit in there.items():
        alone = karat.ols(FORMULA, data[data["region"] == region], cov_type="HC1")
        check(fit, alone, ["HC1"])
    check(there.full, karat.ols(FORMULA, data, cov_type="HC1"), ["HC1"])


def test_samples_without_a_table_are_named():
    """In region 3 a column is constant, and region 9 has too few rows."""
    data = frame()
    data["odd"] = np.where(data["region"] == 3, 1.0, np.arange(len(data)) % 4)
    data.loc[:4, "region"] = 9
    said = r"2 of 7 samples have no table\. region = 9: All 5 rows are singl.* region = 3: The col"
    with pytest.warns(UserWarning, match=said):
        fits = karat.ols("y ~ x1 + odd | firm + year", data, fsplit="region")
    assert list(fits) == [0, 1, 2, 4]
    with pytest.raises(karat.InputError, match="region = 3: The column 'odd' is a combination"):
        fits[3]
    assert "No table: region = 9" in str(fits)
    check(
        fits[4], karat.ols("y ~ x1 + odd | firm + year", data[data["region"] == 4]), ["nonrobust"]
    )


def test_a_column_that_varies_in_no_sample():
    with pytest.raises(karat.InputError, match="region = 0: The column 'odd' is a combination"):
        karat.ols("y ~ x1 + odd | firm + year", frame(), split="region")
    fits = karat.ols("y ~ x1 + odd | firm + year", frame(), fsplit="region", on_collinear="drop")
    assert all(list(fit.params.index) == ["x1"] for fit in fits.values())
    assert list(fits.full.params.index) == ["x1", "odd"]


def test_missing_labels():
    data = frame().assign(region=lambda rows: rows["region"].where(rows["region"] != 1))
    with pytest.raises(karat.InputError, match="'region'"):
        karat.ols(FORMULA, data, split="region")
    fits = karat.ols(FORMULA, data, fsplit="region", on_missing="drop")
    assert list(fits) == [0, 2, 3, 4]
    check(fits.full, karat.ols(FORMULA, data[data["region"].notna()]), ["nonrobust"])


@pytest.mark.parametrize(
    ("formula", "options", "said"),
    [
        (FORMULA, {"split": "nowhere"}, "nowhere"),
        (FORMULA, {"split": "region", "fsplit": "region"}, "not both"),
        (FORMULA, {"split": ["region"]}, "take the name of a column"),
        (FORMULA, {"split": "region", "checkpoint": "c.npz"}, "cannot be resumed"),
        ("y ~ scale(x1) | firm", {"split": "region"}, "depends on all rows of a sample"),
        ("y ~ x1", {"split": "region"}, "split= is for tables with fixed effects.*karat.cube"),
        ("y ~ x1", {"fsplit": "region"}, "fsplit= is for tables with fixed effects"),
        (FORMULA, {"split": "x1"}, "more than 1,000 levels"),
        (FORMULA, {"split": "region", "memory": 60_000}, "take more than memory=60,000 bytes"),
    ],
)
@pytest.mark.filterwarnings("ignore:The pairs of levels of .* may take up to:UserWarning")
def test_refusals(formula, options, said):
    with pytest.raises(karat.InputError, match=said):
        karat.ols(formula, frame(), **options)


def test_labels_that_are_not_there():
    fits = karat.ols(FORMULA, frame(), split="region")
    for label in (7, None, "2"):
        with pytest.raises(KeyError, match="has no level"):
            fits[label]
