"""Latent-variable models from files: built in two passes, trained, checked against all rows,
verified.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.conftest import refused

import karat

ROWS = 6000


def mixture(rng):
    hidden = rng.integers(3, size=ROWS)
    return 4 * np.eye(3, 5)[hidden] + rng.standard_normal((ROWS, 5))


def words(rng):
    topics = rng.dirichlet(np.full(8, 0.3), size=2)
    return np.array([rng.multinomial(12, topics[t]) for t in rng.integers(2, size=ROWS)])


def sources(rng):
    return rng.laplace(size=(ROWS, 2)) @ rng.standard_normal((2, 4))


def chain(rng):
    state, found = 0, []
    emit = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    for _ in range(ROWS):
        state = state if rng.random() < 0.8 else 1 - state
        found.append(rng.choice(3, p=emit[state]))
    return np.array(found)[:, None]


def views(rng):
    hidden = rng.integers(2, size=ROWS)
    return np.hstack([3 * np.eye(2, 3)[hidden] + rng.standard_normal((ROWS, 3)) for _ in range(3)])


PROBLEMS = {
    "gaussian-mixture": (mixture, ["--k", "3"]),
    "single-topic": (words, ["--k", "2"]),
    "latent-dirichlet": (words, ["--k", "2", "--alpha0", "0.5"]),
    "ica": (sources, ["--k", "2"]),
    "hidden-markov": (chain, ["--k", "2", "--sequence", "run"]),
    "multi-view": (
        views,
        ["--k", "2", "--view", "x0,x1,x2", "--view", "x3,x4,x5", "--view", "x6,x7,x8"],
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
def test_a_latent_model_from_files_is_that_of_all_rows(name, inside, tmp_path):
    make, options = PROBLEMS[name]
    X = make(np.random.default_rng(1))
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    if name == "hidden-markov":
        columns["run"] = np.repeat(np.arange(ROWS // 500), 500)
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=1000)
    built = inside(
        "build",
        tmp_path / "rows.parquet",
        "--problem",
        name,
        *options,
        "-o",
        tmp_path / "core.parquet",
        "--json",
    )
    assert built.code == 0, built.err
    assert built.json["rows_kept"] < 20
    proof = inside("verify", tmp_path / "core.parquet", tmp_path / "rows.parquet", "--json")
    assert (proof.code, proof.json["data"]) == (0, "identical"), proof.out
    trained = inside(
        "train", tmp_path / "core.parquet", "--check", tmp_path / "rows.parquet", "--json"
    )
    assert trained.code == 0, trained.err
    assert trained.json["check"]["rows"] == ROWS
    assert trained.json["check"]["relative"] < 1e-6
    assert inside("train", tmp_path / "core.parquet").code == 0
    given = tuple(np.hsplit(X.astype(float), 3)) if name == "multi-view" else X
    oracle = getattr(karat.models, type(karat.load(tmp_path / "core.parquet").problem).__name__)(
        2 + (name == "gaussian-mixture")
    )
    if name == "latent-dirichlet":
        oracle.set_params(alpha0=0.5)
    oracle.fit(given, **({"lengths": np.full(ROWS // 500, 500)} if name == "hidden-markov" else {}))
    for parameter, value in trained.json["parameters"].items():
        if hasattr(oracle, parameter):
            np.testing.assert_allclose(value, getattr(oracle, parameter), rtol=1e-6, atol=1e-8)


def test_latent_options_where_they_belong(inside, data, tmp_path):
    line = ["build", data / "rows.parquet", "-o", tmp_path / "core.npz", "--problem"]
    refused(inside(*line, "gaussian-mixture"), "--problem gaussian-mixture needs --k")
    refused(inside(*line, "latent-dirichlet", "--k", "2"), "needs --alpha0")
    refused(inside(*line, "multi-view", "--k", "2"), "needs --view three times")
    refused(
        inside(*line, "ica", "--k", "2", "--view", "a", "--view", "b", "--view", "c"),
        "--view is only for multi-view",
    )
    refused(
        inside(*line, "ica", "--k", "2", "--sequence", "a"), "--sequence is for hidden-markov only"
    )
    refused(inside(*line, "mean", "--sequence", "a"), "--sequence is for hidden-markov only")
    refused(inside(*line, "gaussian-mixture", "--k", "9"), "cannot be told apart")
