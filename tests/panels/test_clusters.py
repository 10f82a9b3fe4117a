"""Covariances against sums over rows: several ways of clustering, leverages, conventions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import karat


def rows(weights: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    n = 600
    data = pd.DataFrame(
        {
            "firm": rng.integers(0, 30, n), "year": rng.integers(0, 12, n),
            "town": rng.integers(0, 25, n), "x1": rng.standard_normal(n),
            "x2": rng.standard_normal(n), "w": rng.integers(1, 9, n) / 4 if weights else 1.0,
        }
    )  # fmt: skip
    data["x1"] += 0.1 * data["firm"]
    data["y"] = data["x1"] + 0.3 * data["year"] + rng.standard_normal(n) * (1 + data["year"] / 5)
    return data


class Plain:
    """By indicators and least squares."""

    def __init__(self, data: pd.DataFrame, effects: list[str]) -> None:
        levels = [pd.factorize(data[name])[0] for name in effects]
        root = np.sqrt(data["w"].to_numpy())
        D = np.concatenate([np.eye(codes.max() + 1)[codes] for codes in levels], axis=1)
        D = D * root[:, None]
        z = data[["x1", "x2", "y"]].to_numpy() * root[:, None]
        z = z - D @ np.linalg.lstsq(D, z, rcond=None)[0]
        self.X, y = z[:, :2], z[:, 2]
        self.bread = np.linalg.inv(self.X.T @ self.X)
        self.b = self.bread @ self.X.T @ y
        self.e = y - self.X @ self.b
        self.leverage = np.diag(D @ np.linalg.pinv(D)) + np.einsum(
            "ij,jk,ik->i", self.X, self.bread, self.X
        )

    def sandwich(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        codes = pd.factorize(labels)[0]
        sums = np.eye(codes.max() + 1)[codes].T @ scores
        return self.bread @ sums.T @ sums @ self.bread


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("columns", [["firm"], ["firm", "town"], ["town", "year", "firm"]])
@pytest.mark.parametrize("ssc", [None, {"g_df": "conventional"}, "none"])
def test_ways_of_clustering(columns, weights, ssc):
    data = rows(weights)
    fit = karat.ols(
        "y ~ x1 + x2 | firm + year", data, cov_type="cluster", cluster=columns, ssc=ssc,
        weights="w" if weights else None,
    )  # fmt: skip
    plain, n = Plain(data, ["firm", "year"]), len(data)
    counts = [data[name].nunique() for name in columns]
    expected = np.zeros((2, 2))
    for size in range(1, len(columns) + 1):
        for chosen in combinations(columns, size):
            labels = data[list(chosen)].astype(str).agg("|".join, axis=1).to_numpy()
            G = len(set(labels)) if ssc is not None else min(counts)
            factor = 1.0 if ssc == "none" else G / (G - 1)
            scores = plain.X * plain.e[:, None]
            expected += (-1) ** (size + 1) * factor * plain.sandwich(scores, labels)
    K = 2 + 30 + 12 - 1 - 29 - 11 * ("year" in columns)
    expected *= 1.0 if ssc == "none" else (n - 1) / (n - K)
    errors = np.sqrt(np.diag(expected))
    assert np.abs((fit.cov_params() - expected) / np.outer(errors, errors)).to_numpy().max() < 1e-11
    assert fit.model.clusters.ways == counts
    assert fit.df_inference == min(counts) - 1


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(("kind", "power"), [("HC2", 0.5), ("HC3", 1.0)])
def test_leverages_with_one_effect(kind, power, weights):
    data = rows(weights)
    weight = "w" if weights else None
    fit = karat.ols("y ~ x1 + x2 | firm", data, cov_type=kind, weights=weight)
    plain = Plain(data, ["firm"])
    scores = plain.X * (plain.e / (1 - plain.leverage) ** power)[:, None]
    expected = plain.sandwich(scores, np.arange(len(data)))
    errors = np.sqrt(np.diag(expected))
    assert np.abs((fit.cov_params() - expected) / np.outer(errors, errors)).to_numpy().max() < 1e-11


@pytest.mark.parametrize(
    ("formula", "options", "said"),
    [
        ("y ~ x1 | firm + year", {"cov_type": "HC3"}, "leverage"),
        ("y ~ x1 | firm[x2]", {}, "slopes"),
        ("y ~ x1 | firm | town ~ x2", {}, "2 bars"),
        ("y ~ x1 | log(firm)", {}, "is no column"),
        ("y ~ x1 | firm + firm", {}, "twice"),
        ("y ~ 1 | firm", {}, "no regressor"),
        ("y ~ x1 | nowhere", {}, "nowhere"),
        ("y ~ x1 | firm", {"cov_type": "cluster"}, "Pass its name as cluster="),
        ("y ~ x1 | firm", {"frequencies": "w"}, "frequencies"),
        ("y ~ x1 + x2 | firm + year", {"memory": 10**3}, "take more than memory=1,000 bytes"),
        ("y ~ x1", {"memory": 10**9}, "memory= is for"),
    ],
)
@pytest.mark.filterwarnings("ignore:The pairs of levels of .* may take up to:UserWarning")
def test_refusals(formula, options, said):
    with pytest.raises((karat.InputError, karat.NotExactError), match=said):
        karat.ols(formula, rows(), **options)


@pytest.mark.parametrize("factor", [1e-155, 1e150, 1e155])
def test_units_that_leave_the_doubles(factor):
    frame = rows()
    with pytest.raises(karat.InputError, match="Change the units of the column 'x1'"):
        karat.ols("y ~ x1 | firm", frame.assign(x1=frame["x1"] * factor))
