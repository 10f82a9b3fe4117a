"""karat train: the coefficients are those of scikit-learn on all rows."""

import re

import numpy as np
import pytest
from cli.conftest import ROWS, command, refused
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge


@pytest.fixture(scope="module")
def xy(numbers):
    return np.column_stack([numbers[c].to_numpy() for c in "abc"]), numbers["y"].to_numpy()


MODELS = {
    "ols": ([], LinearRegression()),
    "ridge": (["--alpha", "100", "--no-intercept"], Ridge(100, fit_intercept=False)),
    "lasso": (["--alpha", "0.1"], Lasso(0.1, tol=1e-12, max_iter=10**5)),
    "elastic-net": (
        ["--alpha", "0.1", "--l1-ratio", "0.3"],
        ElasticNet(0.1, l1_ratio=0.3, tol=1e-12, max_iter=10**5),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_linear_models_are_those_of_all_rows(inside, name, core, xy):
    options, oracle = MODELS[name]
    found = inside("train", core, "--model", name, *options, "--json").json["parameters"]
    oracle.fit(*xy)
    np.testing.assert_allclose(
        list(found["coefficients"]["y"].values()), oracle.coef_, rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(found["intercept"]["y"], oracle.intercept_, rtol=1e-8, atol=1e-10)


def test_check_trains_on_all_rows_too(inside, core, data, xy):
    result = command(
        "train", core, "--model", "lasso", "--alpha", "0.1", "--check", data / "rows.csv", "--json"
    )
    assert result.code == 0, result.err
    check = result.json["check"]
    assert check["rows"] == ROWS
    assert check["difference"] < 1e-9
    oracle = Lasso(0.1, tol=1e-12, max_iter=10**5).fit(*xy)
    np.testing.assert_allclose(
        list(check["parameters"]["coefficients"]["y"].values()), oracle.coef_, rtol=1e-10
    )
    assert check["solver_tolerance"] == {"compared": 1e-12, "timed": Lasso().tol}
    shown = inside(
        "train", core, "--model", "lasso", "--alpha", "0.1", "--check", data / "rows.csv"
    ).out
    assert "the times are at scikit-learn's default, 1e-04" in " ".join(shown.split())
    people = inside("train", core, "--check", data / "rows.parquet").out
    for words in (
        "ols from 15 rows in place of 4,000",
        "too: the same",
        "largest difference",
        "all rows 1 ms, coreset",
    ):
        assert words.replace("1 ms", "") in re.sub(r"[\d.]+ ms", "", people)


def test_check_sees_other_data(inside, core, data, numbers, tmp_path):
    from pyarrow import parquet as pq

    pq.write_table(numbers.slice(0, 3000), tmp_path / "less.parquet")
    result = inside("train", core, "--check", tmp_path / "less.parquet", "--json")
    assert result.code == 1
    found = result.json["check"]
    assert found["difference"] > 1e-4
    assert (found["same"], found["rows"], found["rows_expected"]) == (False, 3000, ROWS)
    people = inside("train", core, "--check", tmp_path / "less.parquet")
    assert people.code == 1
    assert "NOT the same" in people.out
    assert "represents 4,000" in " ".join(people.out.split())


def test_lp_and_absorbed_ridge_solve_their_own_problem(inside, data, xy, tmp_path):
    X, y = xy
    assert (
        inside(
            "build",
            data / "rows.parquet",
            "-t",
            "y",
            "--problem",
            "lp",
            "--p",
            "4",
            "-o",
            tmp_path / "lp.npz",
        ).code
        == 0
    )
    found = inside("train", tmp_path / "lp.npz", "--json").json["parameters"]
    residual = X @ list(found["coefficients"]["y"].values()) + found["intercept"]["y"] - y
    # the gradient vanishes at the minimum
    slope = np.column_stack([X, np.ones(len(X))]).T @ residual**3
    scale = np.column_stack([X, np.ones(len(X))]).T @ np.abs(residual) ** 3
    assert (np.abs(slope) < 1e-8 * np.abs(scale)).all()
    options = ["--problem", "ridge", "--alpha", "3000", "--absorb", "box"]
    assert (
        inside(
            "build", data / "rows.parquet", "-t", "y", *options, "-o", tmp_path / "r.parquet"
        ).code
        == 0
    )
    found = inside("train", tmp_path / "r.parquet", "--json").json["parameters"]
    np.testing.assert_allclose(
        list(found["coefficients"]["y"].values()), Ridge(3000).fit(X, y).coef_, rtol=1e-8
    )
    refused(inside("train", tmp_path / "r.parquet", "--alpha", "1"), "alpha = 3000")
    refused(
        inside("train", tmp_path / "r.parquet", "--model", "lasso", "--alpha", "1"),
        "--problem least-squares",
    )
    refused(inside("train", tmp_path / "lp.npz", "--model", "ridge"), "--model ridge needs --alpha")


def test_what_would_not_be_exact_is_refused(inside, core, data, tmp_path):
    refused(
        inside("train", core, "--model", "lp", "--alpha", "0"), "LeastSquares()", "--problem lp"
    )
    refused(inside("train", core, "--model", "gaussian-mixture"), "cannot train")
    refused(inside("train", core, "--model", "ols", "--alpha", "1"), "--alpha does not apply")
    for alpha in ("-1", "nan", "inf"):
        refused(
            inside("train", core, "--model", "lasso", f"--alpha={alpha}"),
            f"--alpha must be a number of at least 0, not {alpha}",
        )
    assert (
        inside(
            "build", data / "rows.parquet", "--problem", "mean", "-o", tmp_path / "mean.npz"
        ).code
        == 0
    )
    refused(inside("train", tmp_path / "mean.npz"), "no default model")
    refused(inside("train", tmp_path / "mean.npz", "--model", "ols"), "needs a target")
