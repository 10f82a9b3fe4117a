"""Rows that were left out are never counted as used, and wherever rows are counted, it is said how
many were left out.
"""

import re

import numpy as np
import pandas as pd
import pytest

import karat
from karat.cli.app import run_command

ROWS, MISSING = 1200, 130
USED = ROWS - MISSING


def frame():
    rng = np.random.default_rng(8)
    table = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=["a", "b"])
    table["y"] = table["a"] + rng.normal(size=ROWS)
    table["g"] = np.arange(ROWS) % 5
    table.loc[rng.choice(ROWS, MISSING, replace=False), "a"] = np.nan
    return table


FRAME = frame()


def words(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


@pytest.fixture(params=["real", "synthetic"])
def rows(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    FRAME.to_parquet(tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


def check(core):
    """The numbers, and every text about them."""
    assert (core.n_rows, core.n_represented) == (ROWS, USED)
    assert core.certificate.left_out == MISSING
    assert core.weights.sum() == pytest.approx(USED, rel=1e-12)
    for text in (repr(core), str(core.certificate)):
        assert f"{USED:,}" in text
        assert f"(of {ROWS:,}, {MISSING} were left out)" in text
    for text in (str(core.summary()), words(core.summary()._repr_html_())):
        assert re.search(rf"1.200, of which {MISSING} were left out", text)
    assert f"1 200, of which {MISSING}" in words(core.certificate._repr_html_())
    assert [note for note in core.certificate.notes if "missing" in note] == [
        f"{MISSING} rows with missing values were left out."
    ]


def test_coresets(rows, path, tmp_path):
    data = FRAME.drop(columns="g")
    check(karat.coreset(data, "y", on_missing="drop", rows=rows))
    core = karat.coreset_files(path, "y", columns=["a", "b"], on_missing="drop", rows=rows)
    check(core)
    core.save(tmp_path / "core.npz")
    check(karat.load(tmp_path / "core.npz"))
    found = karat.verify_files(core, path)
    assert found.certificate.left_out == MISSING
    for text in (str(found), words(found._repr_html_())):
        assert f"{MISSING} were left out" in text


def test_parts_of_the_data(rows):
    parts = [FRAME.drop(columns="g")[:500], FRAME.drop(columns="g")[500:]]
    first, second = (karat.coreset(p, "y", on_missing="drop", rows=rows) for p in parts)
    merged = first.merge(second)
    assert (merged.n_rows, merged.n_represented) == (ROWS, USED)
    assert merged.certificate.left_out == MISSING
    assert f"(of {ROWS:,}, {MISSING} were left out)" in repr(merged)


def test_partitions():
    dd = pytest.importorskip("dask.dataframe")
    check(
        karat.dask.coreset(
            dd.from_pandas(FRAME.drop(columns="g"), npartitions=3), "y", on_missing="drop"
        )
    )


def test_complete_rows_say_nothing(rows):
    core = karat.coreset(FRAME.drop(columns="g").dropna(), "y", rows=rows)
    said = [repr(core), str(core.certificate), str(core.summary()), core._repr_html_()]
    assert not any("left out" in text for text in said)


def test_tables(path):
    data = FRAME.dropna()
    X = np.column_stack([np.ones(USED), data[["a", "b"]]])
    expected = np.linalg.lstsq(X, data["y"], rcond=None)[0]
    fit = karat.ols("y ~ a + b", path, on_missing="drop", cov_type="HC1")
    np.testing.assert_allclose(fit.params, expected, rtol=0, atol=1e-12)
    check(fit.coreset)
    effects = karat.ols("y ~ a + b | g", path, on_missing="drop")
    for table in (fit, effects):
        assert int(table.nobs) == USED
        assert f"Left out: {MISSING} rows with missing values." in str(table.summary())
        assert table.glance()["left_out"].item() == MISSING
    cells = karat.ols("y ~ C(g)", FRAME.assign(y=FRAME["a"]), on_missing="drop", cov_type="HC1")
    assert f"Left out: {MISSING} rows" in str(cells.summary())
    full = karat.ols("y ~ b", path)
    assert "Left out" not in str(full.summary())


@pytest.mark.filterwarnings("ignore:.*singletons")
def test_tables_with_effects_count_each_kind(tmp_path):
    alone = pd.DataFrame({"a": [1.0, 2.0], "b": 0.5, "y": 1.0, "g": [98, 99]})
    data = pd.concat([FRAME, alone], ignore_index=True)
    fit = karat.ols("y ~ a + b | g", data, on_missing="drop")
    assert f"Left out: {MISSING} rows with missing values, 2 singletons." in fit.notes
    dd = pytest.importorskip("dask.dataframe")
    parted = karat.ols("y ~ a + b | g", dd.from_pandas(data, npartitions=4), on_missing="drop")
    assert parted.notes[1] == fit.notes[1]
    resumed = [
        karat.ols("y ~ a + b | g", path, on_missing="drop", checkpoint=tmp_path / "c.npz")
        for path in [saved(data, tmp_path)] * 2
    ]
    assert [each.notes[1] for each in resumed] == [fit.notes[1]] * 2
    samples = karat.ols(
        "y ~ a | g", FRAME.assign(s=np.arange(ROWS) % 2), on_missing="drop", fsplit="s"
    )
    assert samples.full.model.missing == MISSING
    assert [samples[s].model.missing for s in (0, 1)] == [0, 0]  # not known for each


def saved(data, folder):
    (folder / "data").mkdir(exist_ok=True)
    path = folder / "data" / "rows.parquet"
    if not path.exists():
        data.to_parquet(path)
    return path


def test_cubes(path, rows, tmp_path):
    cube = karat.cube(path, "y", by="g", on_missing="drop", rows=rows, path=tmp_path / "c.parquet")
    assert f"({MISSING} were left out)" in repr(cube)
    assert karat.load(tmp_path / "c.parquet").left_out == MISSING
    found = cube.verify(path)
    assert (found.n_rows, found.left_out) == (ROWS, MISSING)
    assert f"{ROWS:,} rows, of which {MISSING} were left out" in str(found)


def test_the_command_line(path, tmp_path, capsys):
    core, cube = tmp_path / "core.npz", tmp_path / "cube.parquet"
    lines = [
        ["build", path, "-t", "y", "--columns", "a,b", "--on-missing", "drop", "-o", core],
        ["inspect", core],
        ["verify", core, path],
        ["report", core, "-o", tmp_path / "page.html"],
        ["regress", "y ~ a", path, "--on-missing", "drop"],
        ["cube", "build", path, "-t", "y", "--by", "g", "--on-missing", "drop", "-o", cube],
        ["cube", "show", cube],
        ["cube", "verify", cube, path],
    ]
    for line in lines:
        assert run_command([str(part) for part in line]) == 0
        said = capsys.readouterr().out
        assert re.search(rf"{MISSING} were left out|Left out: {MISSING} rows", said), line
    page = words((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert f"all 1 070 rows (of 1 200, {MISSING} were left out)" in page
