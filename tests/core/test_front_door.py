"""What a newcomer tries first: categories, missing values, relations, plans, files, notebooks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import karat
from karat import InputError

N = 3000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.standard_normal(N), "town": rng.choice(["x", "y", "z"], N)})
    table["year"] = rng.integers(2020, 2023, N)
    table["price"] = table["a"] + (table["town"] == "y") + rng.standard_normal(N)
    table.loc[3, "a"] = np.nan
    return table


def test_categories_and_missing_values_in_one_call(frame):
    """The weighted rows have the same least-squares fit as pandas' own dummies of all rows."""
    frame = frame.drop(columns="year")
    core = karat.coreset(frame, "price", one_hot="auto", on_missing="drop")
    assert core.verify(frame, "price").ok
    whole = pd.get_dummies(frame.dropna(), columns=["town"], prefix_sep="=", dtype=float)
    names = core.X.column_names
    full = np.linalg.lstsq(whole[names].to_numpy(float), whole["price"].to_numpy(), rcond=None)[0]
    X, y = core.arrays()
    root = np.sqrt(core.weights)
    few = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
    np.testing.assert_allclose(few, full, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: karat.coreset(f, f["price"], one_hot="auto"), "put y into the frame"),
        (lambda f: karat.coreset(f.to_numpy(), "a", one_hot="auto"), "a frame with named columns"),
        (lambda f: karat.coreset_files(f, f["price"]), "target must be the name of a column"),
        (lambda f: karat.cube(f, f["price"], by="year"), "target must be the name of a column"),
        (lambda f: karat.plan(100, 3), r"karat\.plan\(n="),
        (lambda f: karat.plan(n=100), r"karat\.plan\(n="),
    ],
)
def test_messages_name_the_right_call(frame, call, message):
    with pytest.raises(InputError, match=message):
        call(frame)


def test_a_relation_points_to_coreset_files(frame):
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.from_df(frame[["a", "price"]].dropna())
    with pytest.raises(InputError, match=r"karat\.coreset_files\(X, 'price'\)"):
        karat.coreset(relation, "price")
    assert karat.coreset_files(relation, "price").certificate.ok


def test_plan_without_a_problem():
    assert karat.plan(n=10**6, d=10) == karat.plan(karat.problems.LeastSquares(), 10**6, 10)


def test_load_opens_cubes_and_coresets(frame, tmp_path):
    numbers = frame.drop(columns="town").dropna()
    karat.cube(numbers, "price", by="year", path=tmp_path / "cube.parquet")
    karat.coreset(numbers, "price").save(tmp_path / "core.parquet")
    assert isinstance(karat.load(tmp_path / "cube.parquet"), karat.Cube)
    assert isinstance(karat.load(tmp_path / "core.parquet"), karat.Coreset)
    with pytest.raises(InputError, match="is a cube"):
        karat.Coreset.load(tmp_path / "cube.parquet")


def test_a_notebook_shows_the_line_of_the_caller_and_the_message(frame):
    with pytest.raises(InputError) as caught:
        karat.coreset(frame, "prise")
    shown = "\n".join(caught.value._render_traceback_())
    assert "test_front_door.py" in shown
    assert str(caught.value) in shown
    assert "arguments.py" not in shown


def test_completion_hides_what_other_rooms_use(frame):
    core = karat.coreset(frame[["a", "price"]].dropna(), "price")
    assert not {"arrays", "tables", "minus_offsets", "strata", "absorbed"} & set(dir(core))
    assert {"X", "y", "weights", "fit", "verify", "certificate"} <= set(dir(core))


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "karat", "--version"], capture_output=True, text=True, check=True
    )
    assert karat.__version__ in done.stdout
