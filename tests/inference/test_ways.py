"""Errors that are clustered in several ways, against statsmodels and long double."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

from inference.panels_of_ways import panel  # noqa: E402

import karat  # noqa: E402
from karat import InputError, NotExactError  # noqa: E402
from karat.inference import ols  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There are .* clusters:UserWarning")


def by_hand(frame, columns):
    """The covariance of y ~ x + z in long double, with statsmodels' factors for each part."""
    X = np.column_stack([np.ones(len(frame)), frame[["x", "z"]]]).astype(np.longdouble)
    y = frame["y"].to_numpy().astype(np.longdouble)
    bread = np.linalg.inv((X.T @ X).astype(float)).astype(np.longdouble)
    for _ in range(3):  # Newton's iteration restores the digits of long double
        bread = 2 * bread - bread @ (X.T @ X) @ bread
    scores, (n, k) = X * (y - X @ (bread @ (X.T @ y)))[:, None], X.shape
    total = np.zeros((k, k), dtype=np.longdouble)
    for size in range(1, len(columns) + 1):
        for subset in combinations(columns, size):
            groups = frame.groupby(list(subset)).ngroup().to_numpy()
            sums = np.stack([scores[groups == g].sum(axis=0) for g in np.unique(groups)])
            factor = np.longdouble(len(sums)) / (len(sums) - 1) * (n - 1) / (n - k)
            total += (-1) ** (size + 1) * factor * sums.T @ sums
    return (bread @ total @ bread).astype(float)


@pytest.mark.parametrize("seed", range(20))
def test_two_ways(seed):
    frame = panel(seed)
    weights = {"weights": "w"} if seed % 2 else {}
    firm = "name" if seed % 3 else "firm"
    fit = ols("y ~ x + z", frame, cov_type="cluster", cluster=[firm, "year"], **weights)
    full = smf.wls("y ~ x + z", frame, weights=frame["w"] if seed % 2 else 1.0).fit(
        cov_type="cluster", cov_kwds={"groups": frame[["firm", "year"]].to_numpy()}
    )
    if (np.diag(full.cov_params()) < 0).any():  # see test_negative_variances
        assert "a variance was negative" in fit.cov_kwds["description"]
        return
    np.testing.assert_allclose(fit.cov_params(), full.cov_params(), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(fit.bse, full.bse, rtol=1e-9)
    np.testing.assert_allclose(fit.pvalues, full.pvalues, rtol=1e-7, atol=1e-300)
    if np.linalg.eigvalsh(full.cov_params().iloc[1:, 1:])[0] > 0:
        assert fit.fvalue == pytest.approx(full.fvalue, rel=1e-8)
    else:  # statsmodels gives the number of an indefinite form
        with pytest.warns(UserWarning, match="not positive definite"):
            assert np.isnan(fit.fvalue)
    assert fit.n_groups == (30, 12)
    mine = ols(
        "y ~ x + z", frame, cov_type="cluster", cluster=[firm, "year"], use_t=True, **weights
    )
    with_t = smf.wls("y ~ x + z", frame, weights=frame["w"] if seed % 2 else 1.0).fit(
        cov_type="cluster", cov_kwds={"groups": frame[["firm", "year"]].to_numpy()}, use_t=True
    )
    np.testing.assert_allclose(mine.conf_int(), with_t.conf_int(), rtol=1e-8)


@pytest.mark.parametrize("columns", [["firm", "year", "region"], ["firm", "year"], ["year"]])
def test_any_number_of_ways_in_long_double(columns):
    frame = panel(3)
    fit = ols("y ~ x + z", frame, cov_type="cluster", cluster=columns)
    np.testing.assert_allclose(fit.cov_params(), by_hand(frame, columns), rtol=1e-9, atol=1e-15)


def test_negative_variances():
    """Of 200 small panels some have one: there negative eigenvalues become zero, and the table says
    so; the others are those of statsmodels.
    """
    negative = 0
    for seed in range(200):
        frame = panel(seed, firms=6, years=5, n=40)
        V = by_hand(frame, ["firm", "year"])
        fit = ols("y ~ x + z", frame, cov_type="cluster", cluster=["firm", "year"])
        if (np.diag(V) < 0).any():
            negative += 1
            values, vectors = np.linalg.eigh(V)
            V = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
            assert "a variance was negative" in fit.cov_kwds["description"]
        else:
            assert "negative" not in fit.cov_kwds["description"]
        np.testing.assert_allclose(fit.cov_params(), V, rtol=1e-8, atol=1e-9 * np.abs(V).max())
    assert 5 < negative < 195


REFERENCES = json.loads((Path(__file__).parent / "pyfixest_references.json").read_text("utf-8"))


def check_pyfixest(seeds):
    """Its covariances, except that negative eigenvalues become zero if a variance is negative."""
    negative = 0
    for seed in seeds:
        expected = REFERENCES["covariances"][str(seed)]
        frame = panel(seed, firms=6, years=5, n=40) if seed % 2 else panel(seed)
        options = {"ssc": "pyfixest"} | ({"weights": "w"} if seed % 3 == 2 else {})
        fit = ols("y ~ x + z", frame, cov_type="cluster", cluster=["firm", "year"], **options)
        V = whole(expected["two_ways"])
        assert ("negative" in fit.cov_kwds["description"]) == bool((np.diag(V) < 0).any())
        if (np.diag(V) < 0).any():
            values, vectors = np.linalg.eigh(V)
            V = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
            negative += 1
        np.testing.assert_allclose(fit.cov_params(), V, rtol=1e-9, atol=1e-9 * np.abs(V).max())
        if "jackknife" in expected:
            fit = ols("y ~ x + z", frame, cov_type="CR3", cluster="firm", **options)
            V = whole(expected["jackknife"])
            np.testing.assert_allclose(fit.cov_params(), V, rtol=1e-9, atol=1e-9 * np.abs(V).max())
    return negative


def whole(half):
    V = np.zeros((3, 3))
    V[np.triu_indices(3)] = half
    return V + np.triu(V, 1).T


def test_pyfixest():
    check_pyfixest(range(16))


@pytest.mark.nightly
def test_pyfixest_with_negative_variances():
    assert check_pyfixest(range(16, 200)) > 5


def test_stored_and_merged_by_workers(tmp_path):
    frame = panel(1)
    fit = ols("y ~ x + z", frame, cov_type="cluster", cluster=["firm", "year"])
    fit.coreset.save(tmp_path / "fit.parquet")
    core = karat.load(tmp_path / "fit.parquet")
    np.testing.assert_allclose(ols(core, cov_type="cluster").bse, fit.bse, rtol=1e-10)
    with pytest.raises(NotExactError, match=r"'firm \+ year', not 'firm'"):
        ols(core, cov_type="cluster", cluster="firm")
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"part {number}.parquet")
    again = ols(
        "y ~ x + z", f"{tmp_path}/part*.parquet", cov_type="cluster", cluster=["firm", "year"]
    )
    np.testing.assert_allclose(again.bse, fit.bse, rtol=1e-9)
    assert "30 x 12" in str(fit.summary())
    dask = pytest.importorskip("dask.dataframe")
    parts = ols(
        "y ~ x + z", dask.from_pandas(frame, npartitions=3), cov_type="cluster",
        cluster=["name", "year"],
    )  # fmt: skip
    np.testing.assert_allclose(parts.bse, fit.bse, rtol=1e-9)


def test_arguments():
    frame = panel(1)
    for cluster in (3, [3], ["firm", "firm"], {"firm"}, list("abcde")):
        with pytest.raises(InputError, match="cluster must be the name"):
            ols("y ~ x", frame, cov_type="cluster", cluster=cluster)
    with pytest.raises(InputError, match="'region' has a single cluster"):
        ols("y ~ x", frame.assign(region=1), cov_type="cluster", cluster=["firm", "region"])
    rows = frame.astype({"year": "Int64"})
    rows.loc[3, "year"] = None
    fit = ols("y ~ x", rows, cov_type="cluster", cluster=["firm", "year"], on_missing="drop")
    assert fit.nobs == len(frame) - 1
