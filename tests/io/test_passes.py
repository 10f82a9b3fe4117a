"""Passes over one source that read other rows are noticed."""

import os

import numpy as np
import pandas as pd
import pytest

import karat
from karat import InputError

OTHER = "A later pass over the data read other rows"
RANDOM = """SELECT CASE WHEN i % 9 = 0 THEN NULL ELSE random() END AS a, i % 3 AS g, i * 1.0 AS y
            FROM range(2000) t(i)"""
FIXED = RANDOM.replace("random()", "(i * 37 % 101) * 1.0")


@pytest.mark.parametrize(
    "options",
    [{"on_missing": "mean", "columns": ["a"]}, {"one_hot": ["g"], "on_missing": "drop"}],
)
@pytest.mark.parametrize("content", [True, False])
def test_a_random_query(options, content):
    pytest.importorskip("duckdb")
    with pytest.raises(InputError, match=OTHER):
        karat.coreset_files(karat.io.query(RANDOM), "y", content=content, **options)
    core = karat.coreset_files(karat.io.query(FIXED), "y", content=content, **options)
    assert core.certificate.ok


def test_the_order_of_a_query_does_not_matter():
    pytest.importorskip("duckdb")
    query = karat.io.query(f"SELECT * FROM ({FIXED}) ORDER BY random()")
    assert karat.coreset_files(query, "y", on_missing="mean", columns=["a"]).certificate.ok


def test_a_regression_table_of_a_random_query():
    pytest.importorskip("duckdb")
    inference = pytest.importorskip("karat.inference")
    query = RANDOM.replace("CASE WHEN i % 9 = 0 THEN NULL ELSE random() END", "random()")
    with pytest.raises(InputError, match=OTHER):
        inference.ols("y ~ a", karat.io.query(query), cov_type="HC1")
    fixed = FIXED.replace("CASE WHEN i % 9 = 0 THEN NULL ELSE", "(").replace("END AS a", ") AS a")
    frame = pd.DataFrame({"i": range(2000)})
    frame = frame.assign(a=frame.i * 37 % 101 * 1.0, y=frame.i * 1.0)
    smf = pytest.importorskip("statsmodels.formula.api")
    expected = smf.ols("y ~ a", frame).fit(cov_type="HC1")
    table = inference.ols("y ~ a", karat.io.query(fixed), cov_type="HC1")
    np.testing.assert_allclose(table.bse, expected.bse, rtol=1e-7)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_that_is_replaced_between_the_passes(tmp_path, suffix):
    """With the same size and time, so that only its rows tell."""
    path = tmp_path / f"d.{suffix}"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(10, 99, 500) / 10, "y": rng.integers(10, 99, 500) / 10})
    frame.loc[::9, "a"] = np.nan

    def write(rows):
        if suffix == "csv":
            rows.to_csv(path, index=False)
        else:
            rows.to_parquet(path, use_dictionary=False, compression=None)
        os.utime(path, (10**9, 10**9))
        return path.stat().st_size

    size, calls = write(frame), []
    changed = frame.assign(a=frame.a.where(frame.index != 4, 1.1))

    def replaced(done, total):
        if not calls:
            assert write(changed) == size
        calls.append(done)

    with pytest.raises(InputError, match=OTHER):
        karat.coreset_files(path, "y", on_missing="mean", progress=replaced)
    assert karat.coreset_files(path, "y", on_missing="mean").certificate.ok


def test_a_resumed_run_compares_with_the_rows_it_learned_from(tmp_path):
    path, saved = tmp_path / "d.csv", tmp_path / "run.npz"
    frame = pd.DataFrame({"a": np.arange(3000) % 83 / 8, "y": np.arange(3000) % 71 / 8})
    frame.loc[::9, "a"] = np.nan
    frame.to_csv(path, index=False)
    os.utime(path, (10**9, 10**9))
    core = karat.coreset_files(path, "y", on_missing="mean", checkpoint=saved)
    again = karat.coreset_files(path, "y", on_missing="mean", checkpoint=saved)
    np.testing.assert_array_equal(core.weights, again.weights)
