"""karat regress with fixed effects: the table and its JSON against indicators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cli.conftest import refused
from panels.dummies import Dummies
from panels.made import panel

pytest.importorskip("statsmodels")
pytest.importorskip("formulaic")

MADE = panel(2)  # unbalanced, two effects


@pytest.fixture
def path(tmp_path):
    pd.DataFrame(MADE.columns()).to_parquet(tmp_path / "panel.parquet")
    return tmp_path / "panel.parquet"


def codes(name):
    return np.unique(MADE.columns()[name], return_inverse=True)[1]


def test_table_and_json(inside, path):
    oracle = Dummies(MADE.x, MADE.y, MADE.factors)
    arguments = ("regress", path, MADE.formula, "--cov", "cluster:f0,f1")
    shown = inside(*arguments)
    assert shown.code == 0, shown.err
    for words in (f"Observations: {oracle.n}", "within R2", "x1", "cluster: f0"):
        assert words in shown.out
    found = inside(*arguments, "--json").json
    errors = np.sqrt(np.diag(oracle.clustered(codes("f0"), codes("f1"))).astype(float))
    assert [row["estimate"] for row in found["coefficients"]] == pytest.approx(
        list(oracle.params.astype(float)), rel=1e-10
    )
    assert [row["std_error"] for row in found["coefficients"]] == pytest.approx(
        list(errors), rel=1e-10
    )
    levels = [len(np.unique(factor[oracle.kept])) for factor in MADE.factors]
    assert found["fixed_effects"] == dict(zip(("f0", "f1"), levels, strict=True))
    assert found["clusters"] == found["fixed_effects"]
    assert found["model"]["r_squared_within"] == pytest.approx(oracle.r2_within(), rel=1e-10)
    assert found["largest_level_mean"] < 1e-8


def test_csv_files_give_the_same(inside, path, tmp_path):
    frame = pd.read_parquet(path)
    frame.to_csv(tmp_path / "panel.csv", index=False)
    arguments = (MADE.formula, "--cov", "HC1", "--json")
    first = inside("regress", path, *arguments).json["coefficients"]
    other = inside("regress", tmp_path / "panel.csv", *arguments).json["coefficients"]
    for one, two in zip(first, other, strict=True):
        assert two["std_error"] == pytest.approx(one["std_error"], rel=1e-11)


def test_corrections_are_chosen_by_name(inside, path):
    arguments = ("regress", path, MADE.formula, "--cov", "HC1", "--json")
    oracle = Dummies(MADE.x, MADE.y, MADE.factors)
    with_k, without = (
        inside(*arguments, *more).json["coefficients"][0]["std_error"]
        for more in ((), ("--ssc", "none"))
    )
    k = len(oracle.params)
    factor = oracle.n / (oracle.n - k - oracle.counted())
    assert (with_k / without) ** 2 == pytest.approx(factor, rel=1e-10)
    refused(inside(*arguments[:-1], "--ssc", "stata"), "ssc must be")


def test_what_a_panel_has_not_is_refused(inside, path, tmp_path):
    arguments = ("regress", path, MADE.formula)
    refused(inside(*arguments, "-o", tmp_path / "core.parquet"), "--output", "fixed effects")
    refused(inside(*arguments, "--residuals"), "fixed effects")
    refused(inside(*arguments[:2], "y ~ x1 | nothing"), "nothing")


def test_samples(inside, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(400), "firm": rng.integers(0, 20, 400)})
    frame["y"], frame["region"] = frame["x"] + rng.standard_normal(400), np.arange(400) % 3
    frame.to_parquet(tmp_path / "panel.parquet")
    arguments = ("regress", tmp_path / "panel.parquet", "y ~ x | firm", "--cov", "CR3:firm")
    shown = inside(*arguments, "--split", "region")
    assert shown.code == 0, shown.err
    assert shown.out.count("Sample: region = ") == 3
    found = inside(*arguments, "--fsplit", "region", "--json").json
    assert list(found["samples"]) == ["Full sample", "0", "1", "2"]
    assert found["errors"] == []
    part = frame[frame["region"] == 1]
    oracle = Dummies(part[["x"]].to_numpy(), part["y"].to_numpy(), [part["firm"].to_numpy()])
    row = found["samples"]["1"]["coefficients"][0]
    assert row["estimate"] == pytest.approx(float(oracle.params[0]), rel=1e-10)


def test_a_checkpoint(inside, path, tmp_path):
    arguments = ("regress", path, MADE.formula, "--checkpoint", tmp_path / "c.npz", "--json")
    first, again = inside(*arguments), inside(*arguments)
    assert first.code == again.code == 0, first.err
    assert first.json == again.json
    assert {file.name for file in tmp_path.glob("c.*")} == {
        "c.design.npz", "c.pass-1.npz", "c.pass-2.npz",
    }  # fmt: skip
    refused(inside("regress", path, "y ~ x1", "--checkpoint", tmp_path / "c.npz"), "checkpoint")
