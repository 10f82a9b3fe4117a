"""Several responses, ``y1 + y2 ~ x``: a table for each, from the same passes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

import karat  # noqa: E402
from karat import InputError  # noqa: E402
from karat.cli.app import run_command  # noqa: E402
from karat.inference import ols  # noqa: E402

KINDS = ["nonrobust", "HC1", "HC3", "cluster"]


def sample(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, n))
    frame = pd.DataFrame({"x": x, "z": z, "f": rng.choice(["a", "b", "c"], n)})
    frame["g"], frame["w"] = rng.integers(0, 40, n), rng.uniform(0.5, 2, n)
    noise = rng.standard_normal((3, n)) * (1 + z**2)
    frame["y1"], frame["y2"] = x + noise[0], 3 * z + 1e6 + noise[1]
    return frame.assign(y3=np.exp((x + noise[2]) / 4))


def check(tables, frame, right, names, cluster="g", weights=None):
    """Every table is that of statsmodels for the response alone."""
    assert list(tables) == names
    for name in names:
        model = smf.wls(f"{name} ~ {right}", frame, weights=1.0 if weights is None else weights)
        for kind in KINDS:
            groups = {"cov_kwds": {"groups": frame[cluster]}} if kind == "cluster" else {}
            full = model.fit(cov_type=kind, **groups)
            mine = tables[name].get_robustcov_results(kind)
            np.testing.assert_allclose(mine.bse, full.bse, rtol=1e-9)
            assert (np.abs(mine.params - full.params) < 1e-8 * full.bse).all()
            assert mine.fvalue == pytest.approx(full.fvalue, rel=1e-8)
            assert mine.rsquared == pytest.approx(full.rsquared, rel=1e-8)


@pytest.mark.parametrize("formula", ["y1 + y2 + np.log(y3) ~ ", "c(y1, y2, np.log(y3)) ~ "])
@pytest.mark.parametrize("weights", [None, "w"])
def test_tables_of_a_frame(formula, weights):
    frame, right = sample(), "x + z + C(f) + x:z"
    tables = ols(f"{formula}{right}", frame, cov_type=KINDS, cluster="g", weights=weights)
    given = None if weights is None else frame[weights]
    check(tables, frame, right, ["y1", "y2", "np.log(y3)"], weights=given)


def test_files_are_read_as_often_as_for_one_response(tmp_path):
    frame, passes = sample(), []
    for part in range(3):
        frame.iloc[part::3].to_parquet(tmp_path / f"{part}.parquet")

    def counted(done, total):
        passes.append(done == total)

    options = {"cov_type": KINDS, "cluster": "g", "progress": counted}
    ols("y1 ~ x + C(f)", f"{tmp_path}/*.parquet", **options)
    one = sum(passes)
    passes.clear()
    tables = ols("y1 + y2 ~ x + C(f)", f"{tmp_path}/*.parquet", **options)
    assert sum(passes) == one
    check(tables, frame, "x + C(f)", ["y1", "y2"])


def test_discrete_regressors_are_joined_in_one_pass():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.integers(0, 4, 40_000), "g": rng.integers(0, 30, 40_000)})
    frame["y1"], frame["y2"] = (
        frame["a"] + rng.standard_normal(40_000),
        rng.exponential(size=40_000),
    )
    tables = ols("y1 + y2 ~ C(a)", frame, cov_type=KINDS, cluster="g")
    check(tables, frame, "C(a)", ["y1", "y2"])
    for table in tables.values():
        assert any("joined in one pass" in note for note in table.coreset.certificate.notes)


def test_partitions_of_a_dask_frame():
    dask = pytest.importorskip("dask.dataframe")
    frame = sample(600)
    tables = ols(
        "y1 + y2 ~ x + f", dask.from_pandas(frame, npartitions=3), cov_type=KINDS, cluster="g"
    )
    check(tables, frame, "x + f", ["y1", "y2"])


def test_kept_rows():
    """Of a cube, whose columns are responses, too."""
    frame = sample()
    cube = karat.cube(frame[["x", "z", "f", "y1", "y2"]], ["y1", "y2"], by="f")
    tables = ols("y1 + y2 ~ x + C(f)", cube)
    for name in ("y1", "y2"):
        full = smf.ols(f"{name} ~ x + C(f)", frame).fit()
        np.testing.assert_allclose(tables[name].bse, full.bse, rtol=1e-9)


def test_every_table_is_whole(tmp_path):
    """Its coreset is read as that of one response; submodels and quantiles are its own."""
    frame = sample()
    options = {"cov_type": ["HC1"], "submodels": True, "residual_quantiles": True}
    tables = ols("y1 + y2 ~ x + z + C(f)", frame, **options)
    for name, table in tables.items():
        table.coreset.save(tmp_path / "table.parquet")
        again = ols(karat.load(tmp_path / "table.parquet"), cov_type="HC1")
        full = smf.ols(f"{name} ~ x + z + C(f)", frame).fit(cov_type="HC1")
        np.testing.assert_allclose(again.bse, full.bse, rtol=1e-9)
        small = smf.ols(f"{name} ~ x", frame).fit(cov_type="HC1")
        np.testing.assert_allclose(again.submodel(f"{name} ~ x", "HC1").bse, small.bse, rtol=1e-9)
        quantiles = np.quantile(full.resid, [0, 0.25, 0.5, 0.75, 1])
        np.testing.assert_allclose(again.residual_quantiles, quantiles, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(again.predict(frame[:4]), full.predict(frame[:4]), rtol=1e-9)
    whole = tables.tidy()
    assert list(whole["response"].unique()) == ["y1", "y2"]
    assert len(whole) == 10
    assert list(tables.glance()["response"]) == ["y1", "y2"]
    assert tables.summary().count("Dep. Variable") == 2
    assert "y2" in tables._repr_html_()
    with pytest.raises(KeyError, match="responses are y1, y2"):
        tables["y3"]


def test_on_collinear_drop():
    frame = sample()
    tables = ols("y1 + y2 ~ x + I(2 * x)", frame, on_collinear="drop", cov_type="HC1")
    for name, table in tables.items():
        assert table.model.dropped == ("I(2 * x)",)
        full = smf.ols(f"{name} ~ x", frame).fit(cov_type="HC1")
        np.testing.assert_allclose(table.bse, full.bse, rtol=1e-9)


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("y1 + y2 ~ x | f", {}, "2 responses, where one is possible"),
        ("y1 + y2 ~ x + [z ~ w]", {}, "2 responses, where one is possible"),
        ("y1 + y2 ~ x", {"on_missing": "drop"}, "Call ols for each response"),
        ("y1 + x ~ x", {}, "'x' is also a term"),
        ("y1 + f ~ x", {}, "'f' is text"),
        ("y1 + C(f) ~ x", {}, "must be a number"),
        ("y1 + y2:y3 ~ x", {}, "must have one response, or several with '\\+'"),
        ("c(y1, y2 ~ x", {}, "was never closed"),
        ("c() ~ x", {}, r"write c\(y1, y2\) ~ x"),
    ],
)
def test_what_is_not_possible(formula, options, message):
    with pytest.raises(InputError, match=message):
        ols(formula, sample(200), **options)


def test_command_line(tmp_path, capsys):
    frame = sample(300)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    run = ["regress", str(tmp_path / "rows.csv"), "y1 + y2 ~ x", "--cov", "HC1"]
    assert run_command([*run, "--json"]) == 0
    for table, name in zip(
        json.loads(capsys.readouterr().out)["tables"], ["y1", "y2"], strict=True
    ):
        assert table["response"] == name
        full = smf.ols(f"{name} ~ x", frame).fit(cov_type="HC1")
        errors = [line["std_error"] for line in table["coefficients"]]
        np.testing.assert_allclose(errors, full.bse, rtol=1e-9)
    assert run_command(run) == 0
    assert capsys.readouterr().out.count("Dep. Variable") == 2
    assert run_command([*run, "-o", str(tmp_path / "table.parquet")])
    assert "several responses" in capsys.readouterr().err
    assert not (tmp_path / "table.parquet").exists()
