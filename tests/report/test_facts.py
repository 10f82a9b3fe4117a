"""The dictionary behind the report, against NumPy on the full data."""

import json
import re
from dataclasses import replace
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import karat
from karat import problems
from karat.report import facts


def test_headline_and_weights(core, table):
    found = facts(core, table)
    assert (found["rows"], found["kept"]) == (5000, len(core.indices))
    weights = found["weights"]
    assert weights["sum"] == pytest.approx(5000, rel=1e-12)
    assert [weights[name] for name in ("min", "median", "max")] == [
        f(core.weights) for f in (np.min, np.median, np.max)
    ]
    assert weights["effective"] == pytest.approx(core.weights.sum() ** 2 / (core.weights**2).sum())


def test_everything_is_json(core, table):
    assert json.loads(json.dumps(facts(core, table), allow_nan=False))["kept"] == len(core)


def test_without_data_nothing_is_compared(core):
    found = facts(core)
    assert [found[name] for name in ("verified", "moments", "columns")] == [None] * 3
    assert found["projection"]["background"] is None
    assert len(found["projection"]["kept"]) == len(core)


def test_columns_are_those_of_the_full_data(core, table):
    X, y = table
    full, columns = np.column_stack([X, y]), facts(core, table)["columns"]
    assert [c["name"] for c in columns] == ["x0", "x1", "x2", "x3", "y"]
    np.testing.assert_allclose([c["mean"] for c in columns], full.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose([c["deviation"] for c in columns], full.std(axis=0), rtol=1e-12)
    kept = np.column_stack([core.X, core.y])
    mean = np.average(kept, axis=0, weights=core.weights)
    np.testing.assert_allclose([c["kept_mean"] for c in columns], mean, rtol=1e-12)
    spread = np.sqrt(np.average((kept - mean) ** 2, axis=0, weights=core.weights))
    np.testing.assert_allclose([c["kept_deviation"] for c in columns], spread, rtol=1e-10)


def test_moments_match_for_the_data_and_not_for_other_data(core, table):
    X, y = table
    found = facts(core, table)
    assert found["moments"]["count"] == comb(4 + 1 + 2, 2)
    assert found["moments"]["worst"] < 1e-12
    assert found["verified"]["ok"]
    other = facts(core, (X, y + 0.01 * X[:, 0]))
    assert other["moments"]["worst"] > 1e-5
    assert not other["verified"]["ok"]


def test_a_heavier_row_shows_by_its_own_features(core, table):
    """Only the total weight is a moment that is known whatever the coordinates are."""
    heavier = core.weights * 1.001
    changed = replace(core, weights=heavier)
    moments = facts(changed, table)["moments"]
    largest = np.argmax(np.abs(moments["full"]))
    assert moments["difference"][largest] == pytest.approx(
        0.001 * moments["full"][largest], rel=1e-6
    )


@pytest.mark.parametrize(
    "problem",
    [
        problems.Mean(),
        problems.Moments(3),
        problems.TensorContraction(3),
        problems.LeastSquares(fit_intercept=False),
        problems.LpRegression(4),
        problems.Ridge(10.0, absorb="box"),
        problems.Kernel(lambda X: np.column_stack([X, X**2])),
    ],
    ids=lambda p: p.describe().split("(")[0] + str(getattr(p, "absorb", None)),
)
def test_every_problem_has_a_report(problem, table, tmp_path):
    X, y = table[0][:800] / [1, 10, 0.1, 1000], table[1][:800]
    given = (X, y) if problem.needs_target else X
    core = karat.coreset(X, y if problem.needs_target else None, problem)
    karat.report.write_report(core, tmp_path / "r.html", data=given)
    found = karat.report.facts(core, given)
    assert found["verified"]["ok"]
    assert (found["moments"] is None) == (getattr(problem, "absorb", None) is not None)
    assert found["moments"] is None or found["moments"]["worst"] < 1e-11
    affine = isinstance(problem, problems.Moments | problems.LpRegression)
    assert (found["columns"] is not None) == affine  # mean and deviation are kept by these alone
    assert "</html>" in (tmp_path / "r.html").read_text()


def _latent():
    rng = np.random.default_rng(5)
    means = 5 * rng.standard_normal((2, 5))
    X = means[rng.integers(2, size=3000)] + rng.standard_normal((3000, 5))
    words = rng.multinomial(30, np.full(12, 1 / 12), size=800)
    state = np.repeat(np.arange(600) % 2, 3)
    return {
        "mixture": (problems.GaussianMixture(2), X),
        "topics": (problems.SingleTopic(2), sparse.csr_array(words)),
        "markov": (
            problems.HiddenMarkov(2, emissions="gaussian"),
            means[state] + rng.standard_normal((1800, 5)),
        ),
        "views": (
            problems.MultiView(2),
            (X, X + rng.standard_normal(X.shape), 2 * X + rng.standard_normal(X.shape)),
        ),
    }


@pytest.mark.parametrize("name", ["mixture", "topics", "markov", "views"])
def test_latent_models_too(name, tmp_path):
    problem, X = _latent()[name]
    core = karat.coreset(X, problem=problem)
    karat.report.write_report(core, tmp_path / "r.html", data=X)
    found = karat.report.facts(core, X)
    assert found["verified"]["ok"]
    assert found["moments"]["worst"] < 1e-10
    assert len(found["projection"]["background"]) <= 2000
    assert len(found["projection"]["kept"]) == len(core)


def test_groups_and_weights(table):
    X, y = table
    rng = np.random.default_rng(0)
    weights, fold = rng.uniform(0, 2, len(y)), rng.integers(3, size=len(y))
    core = karat.coreset(X, y, sample_weight=weights, groups=fold)
    found = facts(core, table, sample_weight=weights, groups=fold)
    assert found["groups"] == 3
    assert found["verified"]["ok"]
    assert found["moments"]["worst"] < 1e-12
    assert found["columns"][0]["mean"] == pytest.approx(
        np.average(X[:, 0], weights=weights), rel=1e-12
    )
    assert found["table"]["columns"][2]["values"] == fold[core.indices].tolist()


@pytest.mark.parametrize("weight", [1e-200, 1e200])
def test_weights_of_any_size(weight, table):
    X, y = table
    weights = weight * np.random.default_rng(0).uniform(0.5, 2, len(y))
    found = facts(karat.coreset(X, y, sample_weight=weights), table, sample_weight=weights)
    assert found["moments"]["worst"] < 1e-12
    assert found["columns"][0]["mean"] == pytest.approx(
        np.average(X[:, 0], weights=weights / weight), rel=1e-12
    )


def _containers(X, y):
    import polars as pl
    import pyarrow as pa

    names = ["a", "b", "c", "d"]
    mixed = pd.DataFrame(
        {"a": X[:, 0], "hue": np.array(["<i>red</i>", "blue"])[(X[:, 1] > 5).astype(int)]}
    )
    indicator = problems.Transformed(
        problems.LeastSquares(),
        lambda f: np.column_stack([f["a"], f["hue"] == "blue"]).astype(float),
    )
    return {
        "sparse": (sparse.csr_array(X), y, None, ["x0", "x1", "x2", "x3", "y"]),
        "polars": (pl.DataFrame(X, schema=names), pl.Series("price", y), None, [*names, "price"]),
        "lazy": (pl.DataFrame(X, schema=names).lazy(), y, None, [*names, "y"]),
        "arrow": (pa.table(dict(zip(names, X.T, strict=True))), y, None, [*names, "y"]),
        "targets": (X, np.column_stack([y, y**2]), None, ["x0", "x1", "x2", "x3", "y0", "y1"]),
        "pipeline": (mixed, y, indicator, ["a", "hue", "y"]),
        "single precision": (X.astype("f4"), y.astype("f4"), None, ["x0", "x1", "x2", "x3", "y"]),
    }


@pytest.mark.parametrize(
    "name", ["sparse", "polars", "lazy", "arrow", "targets", "pipeline", "single precision"]
)
def test_any_container(name, table, tmp_path):
    X, y, problem, names = _containers(*table)[name]
    core = karat.coreset(X, y, problem)
    karat.report.write_report(core, tmp_path / "r.html", data=(X, y))
    found = karat.report.facts(core, (X, y))
    assert found["verified"]["ok"]
    assert found["moments"]["worst"] < 1e-12
    assert [c["name"] for c in found["table"]["columns"]] == ["row", "weight", *names]


@pytest.mark.parametrize("X", [np.ones((50, 2)), np.ones((1, 3))], ids=["constant", "one row"])
def test_degenerate_data(X, tmp_path):
    karat.report.write_report(karat.coreset(X), tmp_path / "r.html", data=X)
    found = karat.report.facts(karat.coreset(X), X)
    assert found["kept"] == 1
    assert not re.search(r"\b(nan|inf)\b", (tmp_path / "r.html").read_text())


def test_table_holds_the_rows_verbatim(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "<script>", "c", "d"])
    core = karat.coreset(frame, pd.Series(y, name="price"))
    columns = facts(core)["table"]["columns"]
    assert [c["name"] for c in columns] == ["row", "weight", "a", "<script>", "c", "d", "price"]
    assert [c["role"] for c in columns] == ["index", "weight", *["feature"] * 4, "target"]
    assert columns[3]["values"] == X[core.indices, 1].tolist()
    assert columns[6]["values"] == y[core.indices].tolist()


def test_missing_values_and_long_texts_in_cells():
    from karat.report.page import LETTERS, _cells

    assert _cells(np.array([1.5, np.nan, np.inf])) == [1.5, None, None]
    assert _cells(np.array(["a" * 1000, None, pd.NaT, pd.NA, 3, True], dtype=object)) == [
        "a" * LETTERS + "…", None, None, None, 3, True,
    ]  # fmt: skip
    assert _cells(np.array(["2024-01-31"], dtype="datetime64[D]")) == ["2024-01-31"]


def test_too_many_rows_leave_the_heaviest(core):
    from karat.report.page import table_of_kept_rows

    table = table_of_kept_rows(core, cells=7 * 10)
    assert (table["shown"], table["rows"]) == (10, len(core))
    heaviest = np.sort(core.weights)[-10:]
    assert sorted(table["columns"][1]["values"]) == heaviest.tolist()


def test_histogram_counts_every_weight(core):
    histogram = facts(core)["histogram"]
    assert sum(histogram["counts"]) == len(core)
    counts, _ = np.histogram(core.weights, histogram["edges"])
    assert counts.tolist() == histogram["counts"]


def test_options_without_data_are_refused(core):
    with pytest.raises(karat.InputError, match="Pass the data"):
        facts(core, sample_weight=np.ones(5000))


def test_reports_are_html_files(core, tmp_path):
    with pytest.raises(karat.InputError, match=r"must end in \.html"):
        karat.report.write_report(core, tmp_path / "report.pdf")
    with pytest.raises(karat.StorageError, match="could not be written"):
        karat.report.write_report(core, tmp_path / "missing" / "report.html")


def test_the_call_makes_the_same_coreset(core, table):
    found = {}
    exec(facts(core)["reproduce"]["python"], {"karat": karat, "X": table[0], "y": table[1]}, found)
    assert np.array_equal(found["core"].indices, core.indices)
