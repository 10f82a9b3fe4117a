"""NumPy cuts NUL characters off at the end of text: labels that differ in these only are refused,
never made one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import karat
from karat import InputError
from karat import problems as P
from karat.inference import ols

N = 300
# Old versions of pandas end text at its first NUL when they look for categories.
APART = len(pd.unique(np.array(["a", "a\0"], dtype=object))) == 2
needs_categories = pytest.mark.skipif(not APART, reason="this pandas merges these categories")


def rows(label="a\0"):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(N), "y": rng.standard_normal(N)})
    frame["g"] = ["a" if i % 3 else label for i in range(N)]
    frame["k"] = [f"{i}" for i in range(N - 1)] + ["7\0"]
    return frame


CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "objects": lambda values: np.array(list(values), dtype=object),
    "pandas": pd.Series,
    "category": lambda values: pd.Series(values).astype("category"),
    "pandas string": lambda values: pd.Series(list(values), dtype="string"),
    "polars": lambda values: pl.Series(list(values)),
    "arrow": lambda values: pa.chunked_array([list(values)]),
    "NumPy text": lambda values: np.array([np.str_(value) for value in values], dtype=object),
    "NumPy bytes": lambda values: np.array(
        [np.bytes_(value.encode()) for value in values], dtype=object
    ),
}

CATEGORY = {"category": needs_categories}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=CATEGORY.get(kind, ())) for kind in CONTAINERS]
)
def test_groups_in_memory(kind):
    frame = rows()
    with pytest.raises(InputError, match="NUL"):
        karat.coreset(frame[["x"]], frame.y, groups=CONTAINERS[kind](frame.g))
    with pytest.raises(InputError, match="NUL"):
        karat.Sketch(P.LeastSquares()).update(
            frame[["x"]], frame.y, groups=CONTAINERS[kind](frame.g)
        )
    inside = rows("a\0b")
    core = karat.coreset(inside[["x"]], inside.y, groups=CONTAINERS[kind](inside.g))
    assert len(np.unique(core.groups)) == 2


def dask_rows(frame):
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)


DOORS = {
    "names": lambda f: karat.coreset(f[["x", "y", "g"]], "y", groups="g"),
    "files": lambda f: karat.coreset_files(f, "y", columns=["x"], groups="g"),
    "keys of files": lambda f: karat.coreset_files(f.assign(g="a"), "y", columns=["x"], key="k"),
    "keys of a sketch": lambda f: karat.Sketch(P.LeastSquares(), "k").update(f[["x", "k"]], f.y),
    "keys in polars": (
        lambda f: karat.Sketch(P.LeastSquares(), "k").update(pl.from_pandas(f[["x", "k"]]), f.y)
    ),
    "keys of a cube": lambda f: karat.cube(f.assign(g="a"), "y", by="g", columns=["x"], key="k"),
    "cube": lambda f: karat.cube(f, "y", by="g", columns=["x"]),
    "Dask": lambda f: karat.dask.coreset(dask_rows(f), "y", columns=["x"], groups="g"),
    "clusters": lambda f: ols("y ~ x", f, cov_type="cluster", cluster="g"),
}


@pytest.mark.filterwarnings("ignore:.*clusters:UserWarning")  # two labels are few clusters
@pytest.mark.parametrize("door", DOORS)
def test_doors(door):
    with pytest.raises(InputError, match="NUL"):
        DOORS[door](rows())
    DOORS[door](rows("b").assign(k=np.arange(N).astype(str)))


@needs_categories
def test_categories_stay_apart():
    """Where labels never become NumPy text there is nothing to refuse."""
    frame = rows()
    table = ols("y ~ C(g)", frame)
    means = frame.groupby("g").y.mean()
    np.testing.assert_allclose(table.params, [means["a"], means["a\0"] - means["a"]], atol=1e-12)
    columns = {name: list(frame[name]) for name in ("y", "g")}
    np.testing.assert_allclose(ols("y ~ C(g)", columns).params, table.params, atol=1e-12)
    core = karat.coreset_files(frame, "y", columns=["x", "g"], one_hot=["g"])
    assert len(core.X.column_names) == 3


def test_a_key_that_is_asked_for():
    frame = rows("b")
    frame["k"] = np.arange(N).astype(str)
    core = karat.coreset_files(frame, "y", columns=["x"], key="k")
    key = str(core.keys[0])
    assert core.contains([key, "none"]).tolist() == [True, False]
    with pytest.raises(InputError, match="NUL"):
        core.contains([f"{key}\0"])
    with pytest.raises(InputError, match="NUL"):
        core.contains(f"{key}\0")


def test_the_index_of_a_frame_in_a_file(tmp_path):
    frame = rows("b").set_index(pd.Index([f"{i}\0" for i in range(N)]))
    core = karat.coreset(frame[["x"]], frame.y)
    for ending in ("npz", "parquet"):
        with pytest.raises(InputError, match="NUL"):
            core.save(tmp_path / f"core.{ending}")


@pytest.mark.parametrize("rows", ["real", "synthetic"])
@pytest.mark.parametrize(
    ("stored", "given", "same"),
    [
        (["7", "12"], [7, 12], True), (["7", "12"], [7.0, 12.0], True),
        (["1.5", "2"], [1.5, 2.0], True), ([7, 12], ["7", "12"], True),
        ([7.0, 1.5], ["7.0", "1.5"], True), (["007", "12"], [7, 12], False),
        ([7, 12], ["007", "12"], None), (["7", "12"], ["7", "12"], True),
        ([7, 12], ["7", "99999999999999999999"], None),
    ],
)  # fmt: skip
def test_a_number_is_the_text_that_it_is_written_as(stored, given, same, rows):
    """Labels of CSV files are text; who verifies with a table in memory has numbers."""
    rng = np.random.default_rng(0)
    X, y, place = rng.standard_normal((N, 2)), rng.standard_normal(N), rng.integers(2, size=N)
    core = karat.coreset(X, y, groups=np.array(stored)[place], rows=rows)
    groups = np.array(given)[place]
    if same is not None:
        assert core.verify(X, y, groups=groups).ok is same
    else:
        with pytest.raises(InputError, match="None of the groups"):
            core.verify(X, y, groups=groups)
