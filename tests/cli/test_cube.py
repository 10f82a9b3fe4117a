"""karat cube: build, fit, update, show, verify; the oracle is scikit-learn on all rows."""

import numpy as np
import pandas as pd
import pytest
from cli.conftest import command, refused
from cube.conftest import FEATURES, sales
from sklearn.linear_model import LinearRegression, Ridge

import karat


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    home = tmp_path_factory.mktemp("sales")
    sales(6000, 8).drop(columns=["units", "id"]).to_parquet(home / "rows.parquet")
    return home / "rows.parquet"


@pytest.fixture
def cube(rows, inside, tmp_path):
    path = tmp_path / "cube.parquet"
    built = inside("cube", "build", rows, "--by", "region,day", "-t", "y", "-o", path, "--json")
    assert built.code == 0, built.err
    assert built.json["cells"] == 24
    assert built.json["rows_in"] == 6000
    assert built.json["exact"]
    return path


def test_the_installed_command(rows, tmp_path):
    result = command(
        "cube",
        "build",
        rows,
        "--by",
        "region",
        "--by",
        "day",
        "--target",
        "y",
        "-o",
        tmp_path / "c.parquet",
    )
    assert result.code == 0, result.err
    assert "6,000 rows became 24 cells" in result.out
    assert "exact" in result.out
    found = command("cube", "--help")
    assert all(word in found.out for word in ("build", "fit", "update", "show", "verify"))


def test_sums_for_robust_errors(rows, cube, inside, tmp_path):
    ols = pytest.importorskip("karat.inference").ols
    path = tmp_path / "robust.parquet"
    options = ("--by", "region,day", "-t", "y", "--cov", "HC1", "-o", path, "--json")
    assert inside("cube", "build", rows, *options).json["cov"] == "HC1"
    formula = "y ~ size + price"
    fits = [ols(formula, data, cov_type="HC1") for data in (karat.Cube.load(path), rows)]
    np.testing.assert_allclose(fits[0].bse, fits[1].bse, rtol=1e-9)
    assert inside("cube", "show", cube, "--json").json["cov"] is None


def test_commands_for_coresets_name_those_for_cubes(cube, inside):
    for name in ("inspect", "verify", "train"):
        refused(inside(name, cube), "karat cube show")


def test_fit(cube, rows, inside):
    frame = pd.read_parquet(rows)
    found = inside(
        "cube", "fit", cube, "--by", "region", "--model", "ridge", "--alpha", "2", "--json"
    ).json
    for region in ("EU", "US"):
        own = frame[frame.region == region]
        full = Ridge(2.0).fit(own[FEATURES], own.y)
        mine = [line["coefficient"] for line in found["coefficients"] if line["region"] == region]
        np.testing.assert_allclose(mine, [full.intercept_, *full.coef_], rtol=1e-9)
    shown = inside("cube", "fit", cube, "--by", "region")
    assert "ols: 3 models of 6,000 rows" in shown.out
    assert "intercept" in shown.out
    some = inside(
        "cube",
        "fit",
        cube,
        "--where",
        "region=EU",
        "--where",
        "day=2026-01-21..2026-01-23",
        "--json",
    ).json
    own = frame[(frame.region == "EU") & (frame.day >= "2026-01-21") & (frame.day <= "2026-01-23")]
    full = LinearRegression().fit(own[FEATURES], own.y)
    np.testing.assert_allclose(
        [line["coefficient"] for line in some["coefficients"]][1:], full.coef_, rtol=1e-9
    )
    windows = inside("cube", "fit", cube, "--rolling", "day:3", "--by", "region", "--json").json
    assert len(windows["coefficients"]) == 3 * 6 * 4


def test_update_and_show(cube, rows, inside, tmp_path):
    more = tmp_path / "more.parquet"
    sales(500, 2, seed=3, start="2026-01-27").drop(columns=["units", "id"]).to_parquet(more)
    assert "500 rows added, 3 new cells" in inside("cube", "update", cube, more).out
    refused(inside("cube", "update", cube, more), "count twice")
    assert "rebuilt" in inside("cube", "update", cube, more, "--replace").out
    assert len(karat.Cube.load(cube)) == 27
    shown = inside("cube", "show", cube)
    assert "27 by region, day" in shown.out
    assert "(20 of 27 cells)" in shown.out
    found = inside("cube", "show", cube, "--where", "region=EU", "--json").json
    assert len(found["table"]) == 9
    assert found["changes"] == 3


def test_verify(cube, rows, inside, tmp_path):
    found = inside("cube", "verify", cube, rows)
    assert found.code == 0, found.err
    assert "proven" in found.out
    assert "6,000 read" in found.out
    fewer, output = tmp_path / "fewer.parquet", tmp_path / "verified.parquet"
    frame = pd.read_parquet(rows)
    day = frame.day[0]
    frame[(frame.day != day) & (frame.index != 7)].to_parquet(fewer)
    told = inside("cube", "verify", cube, fewer, "-o", output)
    assert told.code == 1
    assert "REFUTED" in told.out
    assert "3 cells of the cube without rows in the data" in told.out
    assert not output.exists()
    found = inside("cube", "verify", cube, fewer, "--json")
    assert found.code == 1
    assert len(found.json["extra"]) == 3
    assert [one["day"] for one in found.json["differ"]] == [str(frame.day[7].date())] * (
        frame.day[7] != day
    )
    assert inside("cube", "verify", cube, rows, "-o", output, "--memory", "100MB").code == 0
    assert karat.Cube.load(output).certificate().method == "verified on the full data"
    assert inside("cube", "verify", cube, rows, "-o", cube).code == 0  # in place
    assert karat.Cube.load(cube).certificate().ok
    refused(inside("cube", "verify", cube), "DATA")
    refused(inside("cube", "verify", cube, rows, "-o", rows), "is the data itself")


def test_what_is_refused(cube, rows, inside, tmp_path):
    output = tmp_path / "c.parquet"
    refused(
        inside("cube", "build", rows, "--by", "regoin", "-t", "y", "-o", output),
        "--by regoin",
        "did you mean region",
    )
    refused(
        inside("cube", "build", rows, "--by", "region", "-t", "y", "-o", rows), "is the data itself"
    )
    refused(inside("cube", "build", "--by", "region", "-t", "y", "-o", output), "DATA")
    refused(inside("cube", "build", rows, "-t", "y", "-o", output), "--by")
    refused(
        inside("cube", "build", rows, "--by", "region", "--groups", "day", "-t", "y", "-o", output),
        "--groups",
    )
    refused(inside("cube", "fit", cube, "--model", "ridge"), "needs --alpha")
    refused(inside("cube", "fit", cube, "--model", "ica"), "by label")
    refused(inside("cube", "fit", cube, "--where", "EU"), "LABEL=VALUE")
    refused(inside("cube", "fit", cube, "--rolling", "day"), "LABEL:STEPS")
    refused(inside("cube", "show", rows), "not a coreset")
    refused(inside("cube", "show", tmp_path / "none.parquet"), "no file")
