"""karat regress: the table, its JSON, a saved coreset, and messages in the options of the
command.
"""

from __future__ import annotations

import pytest
from cli.conftest import command, refused

pytest.importorskip("statsmodels")
pytest.importorskip("formulaic")


def test_table_and_json(inside, data, table):
    import statsmodels.formula.api as smf

    frame = table.to_pandas()
    full = smf.ols("y ~ a + C(hue)", frame).fit(
        cov_type="cluster", cov_kwds={"groups": frame["fold"]}
    )
    shown = inside("regress", data / "all.parquet", "y ~ a + C(hue)", "--cov", "cluster:fold")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[0].strip().startswith(f"Observations: {len(frame):,} (")
    assert "C(hue)[T.red]" in shown.out
    assert "Warning: There are 3 clusters of 'fold'" in shown.out
    found = inside(
        "regress", data / "all.parquet", "y ~ a + C(hue)", "--cov", "cluster:fold", "--json"
    ).json
    assert found["clusters"] == 3
    assert [row["std_error"] for row in found["coefficients"]] == pytest.approx(
        list(full.bse), rel=1e-9
    )
    assert found["model"]["aic"] == pytest.approx(full.aic, rel=1e-9)


def test_a_saved_coreset_answers_again(inside, data, tmp_path):
    core = tmp_path / "core.parquet"
    options = ("--cov", "HC1", "--weight", "w", "-o", core, "--json")
    first = inside("regress", data / "all.parquet", "y ~ a + C(hue)", *options).json
    again = inside("regress", core, "--cov", "HC1", "--json").json
    assert again["coefficients"] == first["coefficients"]
    assert inside("regress", core, "y ~ a", "--json").json["model"]["df"] == 1
    refused(inside("regress", core, "--cov", "HC3"), "HC3", "not stored")
    shown = inside("inspect", core).out
    assert "y ~ a + C(hue)" in shown
    assert "nonrobust, HC0, HC1" in shown
    assert inside("inspect", core, "--json").json["regression"]["tables"] == [
        "nonrobust",
        "HC0",
        "HC1",
    ]


def test_the_installed_command(data):
    found = command("regress", data / "rows.csv", "y ~ a + b + c")
    assert found.code == 0, found.err
    assert "Observations: 4,000" in found.out


def test_the_formula_may_come_first(inside, data):
    last = inside("regress", data / "all.parquet", "y ~ a + C(hue)", "--json").json
    first = inside("regress", "y ~ a + C(hue)", data / "all.parquet", "--json").json
    assert first == last


def test_means_for_missing_values_are_not_offered(inside, data):
    refused(
        inside("regress", data / "all.parquet", "y ~ a", "--on-missing", "mean"), "'error', 'drop'"
    )
    assert "mean" not in inside("regress", "--help").out.split("on-missing")[1].splitlines()[0]


def test_clusters_in_two_ways(inside, data):
    arguments = ("regress", data / "all.parquet", "y ~ a")
    shown = inside(*arguments, "--cov", "cluster:fold,hue").out
    assert "Clusters:" in shown
    refused(inside(*arguments, "--cov", "cluster:fold", "--cov", "cluster:hue"), "cluster:A,B")


def test_columns_that_others_determine(inside, data):
    arguments = ("regress", data / "all.parquet", "y ~ a + I(2 * a)")
    refused(inside(*arguments), "linear combination")
    assert "Dropped" in inside(*arguments, "--on-collinear", "drop").out


def test_a_saved_table_is_verified(inside, data, table, tmp_path):
    core, changed = tmp_path / "core.parquet", table.to_pandas()
    assert inside("regress", data / "all.parquet", "y ~ a * C(hue)", "-o", core).code == 0
    assert inside("verify", core, data / "all.parquet").code == 0
    assert inside("verify", core).code == 0  # the files of the table
    changed.loc[3, "y"] += 1e-3
    changed.to_parquet(tmp_path / "changed.parquet")
    assert "REFUTED" in inside("verify", core, tmp_path / "changed.parquet").out
    refused(inside("verify", core, data / "all.parquet", "--locate"), "--locate is not for")


def test_advice_is_that_of_the_command(inside, table, tmp_path):
    """Neither table nor cube fills missing values; a cube does not encode text."""
    frame = table.to_pandas()[["a", "hue", "fold", "y"]]
    frame.to_csv(tmp_path / "text.csv", index=False)
    frame.assign(a=frame["a"].where(frame.index != 9)).drop(columns="hue").to_csv(
        tmp_path / "gap.csv", index=False
    )
    cube = ("--by", "fold", "-t", "y", "-o", tmp_path / "cube.parquet")
    for found in (
        inside("regress", tmp_path / "gap.csv", "y ~ a"),
        inside("cube", "build", tmp_path / "gap.csv", *cube),
    ):
        refused(found, "--on-missing drop")
        assert "mean" not in found.err
    refused(inside("cube", "build", tmp_path / "text.csv", *cube), "--by")
    built = inside("build", tmp_path / "text.csv", "--one-hot", "auto", *cube[2:])
    assert built.code == 0, built.err
    refused(inside("cube", "fit", tmp_path / "cube.parquet"), "karat inspect")


def test_messages(inside, data):
    rows = data / "all.parquet"
    refused(inside("regress", rows), "formula is missing")
    refused(inside("regress", rows, "y a"), "'y a' is no file and no formula")
    refused(inside("regress", "y ~ a"), "Name the data")
    refused(inside("regress", rows, "y ~ a +"), "cannot be read")
    refused(inside("regress", rows, "y ~ q"), "no column 'q'")
    refused(inside("regress", rows, "y ~ a", "--cov", "cluster"), "--cov cluster:COLUMN")
    refused(inside("regress", rows, "y ~ a", "--cov", "HC1:fold"), "only cluster")
    refused(inside("regress", rows, "y ~ a", "--cov", "HC7"), "HC7")
    refused(inside("regress", data / "none.parquet", "y ~ a"), "none.parquet")


def test_residuals(inside, data, tmp_path):
    core, rows = tmp_path / "core.parquet", data / "all.parquet"
    found = inside("regress", rows, "y ~ a", "--residuals", "-o", core, "--json").json[
        "residual_quantiles"
    ]
    assert list(found.values()) == sorted(found.values())
    assert inside("regress", core, "--residuals", "--json").json["residual_quantiles"] == found
    assert "Residuals: min" in inside("regress", core).out
    assert "quartiles and extremes" in inside("inspect", core).out
    refused(inside("regress", core, "y ~ 1", "--residuals"), "quantiles of residuals")
