"""The same panel from memory, files and DuckDB, whatever its labels are, against indicators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat

LABELS = {
    "numbers": lambda codes: codes * 3 - 50,
    "wide": lambda codes: codes * 2**45 - 2**50,
    "text": lambda codes: np.array([f"firm {code:03}" for code in codes]),
    "doubles": lambda codes: codes / 4 - 1,
    "dates": lambda codes: np.datetime64("2000-01-01") + codes.astype("timedelta64[D]"),
}


def frame(label: str = "numbers") -> pd.DataFrame:
    rng = np.random.default_rng(3)
    firm, year = rng.integers(0, 60, 900), rng.integers(0, 9, 900)
    x = rng.standard_normal((900, 2)) + 0.1 * firm[:, None] + 0.3 * year[:, None]
    y = x @ [1.0, -0.5] + 0.2 * firm + year + rng.standard_normal(900) * (1 + year / 9)
    columns = {"firm": LABELS[label](firm), "year": year, "x1": x[:, 0], "x2": x[:, 1], "y": y}
    return pd.DataFrame(columns)


def indicators(data: pd.DataFrame, effects: list[str], cov_type: str):
    """Coefficients and their covariance, clustered by firm, in which firms are nested."""
    n = len(data)
    levels = [pd.factorize(data[name])[0] for name in effects]
    D = np.concatenate([np.eye(codes.max() + 1)[codes] for codes in levels], axis=1)
    z = data[["x1", "x2", "y"]].to_numpy()
    z = z - D @ np.linalg.lstsq(D, z, rcond=None)[0]
    X, y = z[:, :2], z[:, 2]
    bread = np.linalg.inv(X.T @ X)
    b = bread @ X.T @ y
    e = y - X @ b
    K = 2 + D.shape[1] - (len(effects) - 1)
    if cov_type == "nonrobust":
        return b, bread * (e @ e) / (n - K)
    scores = X * e[:, None]
    if cov_type == "HC1":
        return b, n / (n - K) * bread @ scores.T @ scores @ bread
    sums = np.eye(levels[0].max() + 1)[levels[0]].T @ scores
    G = len(sums)
    K += 1 - G
    return b, G / (G - 1) * (n - 1) / (n - K) * bread @ sums.T @ sums @ bread


def check(fit, data: pd.DataFrame, effects: list[str], cov_type: str) -> None:
    b, V = indicators(data, effects, cov_type)
    assert list(fit.params.index) == ["x1", "x2"]
    errors = np.sqrt(np.diag(V))
    assert np.abs((fit.params - b) / errors).max() < 1e-11
    assert np.abs((fit.cov_params() - V) / np.outer(errors, errors)).to_numpy().max() < 1e-11
    assert np.abs(fit.bse / errors - 1).max() < 1e-11


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1", "cluster"])
@pytest.mark.parametrize("effects", [["firm"], ["firm", "year"]])
def test_one_and_two_effects(effects, cov_type):
    data = frame()
    cluster = "firm" if cov_type == "cluster" else None
    fit = karat.ols(
        f"y ~ x1 + x2 | {' + '.join(effects)}", data, cov_type=cov_type, cluster=cluster
    )
    check(fit, data, effects, cov_type)


@pytest.mark.parametrize("label", LABELS)
def test_labels_of_any_kind(label):
    data = frame(label)
    fit = karat.ols("y ~ x1 + x2 | firm + year", data, cov_type="cluster", cluster="firm")
    check(fit, data, ["firm", "year"], "cluster")
    assert fit.model.levels[0].labels() == pd.unique(data["firm"]).tolist()


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_files(ending, tmp_path):
    data = frame("text")
    for part in range(3):
        rows, path = data.iloc[part::3], tmp_path / f"part{part}.{ending}"
        if ending == "csv":
            rows.to_csv(path, index=False)
        elif ending == "arrow":
            rows.reset_index(drop=True).to_feather(path)
        else:
            rows.to_parquet(path, row_group_size=100)
    fit = karat.ols("y ~ x1 + x2 | firm + year", tmp_path, cov_type="cluster", cluster="firm")
    check(fit, data, ["firm", "year"], "cluster")


def test_a_relation_of_duckdb():
    duckdb = pytest.importorskip("duckdb")
    data = frame("text")
    relation = duckdb.sql("SELECT * FROM data WHERE x1 > -100")
    fit = karat.ols("y ~ x1 + x2 | firm + year", relation, cov_type="HC1")
    check(fit, data, ["firm", "year"], "HC1")


def test_a_query_that_gives_other_rows_every_time_is_refused():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql(
        "SELECT random() AS y, random() AS x, (range % 7)::INT AS firm FROM range(500)"
    )
    with pytest.raises(karat.InputError, match="other rows"):
        karat.ols("y ~ x | firm", relation)
