"""Conveniences of the API: names of columns, tables of other libraries, corrections in error
messages, progress bars.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import linear_model

import karat
from karat import InputError

N = 3000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    columns = {
        "rooms": rng.integers(1, 9, N),
        "size": rng.lognormal(4, 0.3, N),
        "garden": rng.random(N) < 0.3,
    }
    columns["price"] = 3.0 * columns["rooms"] + columns["size"] + rng.standard_normal(N)
    columns["copies"] = rng.integers(1, 4, N)
    columns["year"] = 2020 + np.arange(N) % 3
    return pd.DataFrame(columns, index=10 * np.arange(N))


KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_named(frame, kind):
    """A name stands for the values of the column, and for X without it."""
    table = KINDS[kind](frame)
    core = karat.coreset(table, "price", sample_weight="copies", groups="year")
    plain = karat.coreset(
        frame[["rooms", "size", "garden"]],
        frame["price"],
        sample_weight=frame["copies"],
        groups=frame["year"],
    )
    np.testing.assert_array_equal(core.indices, plain.indices)
    np.testing.assert_array_equal(core.weights, plain.weights)
    assert core.verify(table, "price", sample_weight="copies", groups="year").ok
    assert core.to_arrow().column_names == [
        "row",
        "rooms",
        "size",
        "garden",
        "price",
        "weight",
        "group",
    ]


def test_several_targets_are_named(frame):
    core = karat.coreset(frame[["rooms", "size", "price"]], ["size", "price"])
    assert list(core.y.columns) == ["size", "price"]
    assert list(core.X.columns) == ["rooms"]


def test_a_list_of_labels_is_not_a_list_of_names(frame):
    with pytest.raises(InputError, match="target y is text"):
        karat.coreset(frame[["rooms"]], ["a"] * N)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: karat.coreset(f, "prise"), "no column 'prise'; did you mean 'price'"),
        (lambda f: karat.coreset(f, "PRICE"), "no column 'PRICE'; did you mean 'price'"),
        (
            lambda f: karat.coreset(pd.DataFrame(np.eye(30)).add_prefix("x"), "price"),
            r"it has x0, .*, x19 and 10 more\.",
        ),
        (
            lambda f: karat.coreset("sales.csv", "price"),
            r"path; .* karat\.coreset_files\('sales\.csv', 'price'\)",
        ),
        (
            lambda f: karat.coreset(Path("sales.csv")),
            r"path; .* karat\.coreset_files\('sales\.csv'\)",
        ),
        (
            lambda f: karat.coreset(f.assign(town="Bonn"), "price"),
            r"one_hot=\['town'\] or one_hot='auto'",
        ),
        (
            lambda f: karat.Sketch().update(np.zeros(3), 1.0),
            r"y is a single number.*One row alone is X = \[\[\.\.\.\]\]",
        ),
        (
            lambda f: karat.Sketch().update(f.to_numpy(float)).update(f),
            "The batch is a pandas frame with columns rooms",
        ),
        (
            lambda f: karat.Sketch(key="Id").update(f.assign(id=f.index), "price"),
            "'Id' to use as the key; did you mean 'id'",
        ),
        (lambda f: karat.models.GaussianMixture(2).fit(karat.coreset(f)), r"fit_coreset\(core\)"),
        (lambda f: karat.coreset(f, "price", groups="price"), "named twice"),
        (lambda f: karat.coreset(f.to_numpy(), "price"), "type ndarray, without names"),
        (
            lambda f: karat.coreset(f.to_numpy(), f["price"], sample_weight="copies"),
            "type ndarray, without names",
        ),
        (lambda f: karat.coreset(pd.concat([f, f], axis=1), "price"), "rename"),
        (
            lambda f: karat.coreset(f, "price", problem="ridge"),
            r"problem=karat\.problems\.Ridge\(\)\.",
        ),
        (
            lambda f: karat.coreset(f, "price", problem="OLS"),
            r"problem=karat\.problems\.LeastSquares\(\)\.",
        ),
        (
            lambda f: karat.coreset(f, "price", problem="gaussian-mixture"),
            r"GaussianMixture\(n_components=3\)",
        ),
        (
            lambda f: karat.coreset(f, "price", karat.problems.LpRegression),
            r"problem=karat\.problems\.LpRegression\(p=4\)",
        ),
        (
            lambda f: karat.coreset(f, "price", linear_model.Ridge()),
            r"problem=karat\.problems\.Ridge\(\), and then core\.fit",
        ),
        (lambda f: karat.Sketch("moments"), r"karat\.problems\.Moments\(\)"),
        (lambda f: karat.plan("ridge", 100, 3), r"karat\.problems\.Ridge\(\)"),
        (
            lambda f: karat.coreset(f.assign(day=pd.Timestamp("2020-01-01")), "price"),
            "'day'.*days since a start",
        ),
        (
            lambda f: karat.coreset(f.assign(took=pd.Timedelta("1h")), "price"),
            "'took'.*unit of a duration",
        ),
        (
            lambda f: karat.coreset(np.full((40, 1), "2020-01-01", dtype="datetime64[s]")),
            "days since a start",
        ),
        (
            lambda f: karat.coreset(np.full((40, 1), 3, dtype="timedelta64[s]")),
            "unit of a duration",
        ),
        (
            lambda f: karat.coreset(f, "price", on_missing="dropp"),
            "'error', 'drop' or 'mean', not 'dropp'",
        ),
        (
            lambda f: karat.coreset(
                pd.concat([f] * 50).assign(town=[f"t{i % 400}" for i in range(50 * len(f))]),
                "price",
                one_hot="auto",
            ),
            r"products of them.*Column 'town' becomes 400 of the columns",
        ),
    ],
)
def test_corrections(frame, call, message):
    with pytest.raises(InputError, match=message):
        call(frame)


def test_every_example_of_a_problem_runs():
    """What an error message proposes can be typed."""
    from karat.data.advice import example_call

    for name in karat.problems.__all__:
        if name != "Problem":
            eval(
                example_call(getattr(karat.problems, name)),
                {"karat": karat, "function": abs, "transform": abs, "X": np.eye(3)},
            )


@pytest.mark.parametrize(
    "call",
    [
        lambda X: karat.coreset(X, weights=1),
        lambda X: karat.coreset(X).verify(X, weights=1),
        lambda X: karat.Sketch().update(X, weight=1),
        lambda X: karat.coreset_files("x.csv", weights="w"),
    ],
)
def test_weights_are_called_sample_weight(call):
    with pytest.raises(
        TypeError, match=r"has no argument 'weights?'; did you mean sample_weight=\?"
    ):
        call(np.random.default_rng(0).standard_normal((50, 2)))


def test_arguments_of_files_are_for_frames_too(frame):
    towns = frame.assign(town=np.where(frame["year"] == 2020, "Bonn", "Ulm"))
    with pytest.raises(
        TypeError, match=r"no argument 'memory'; karat\.coreset_files has it, for frames too"
    ):
        karat.coreset(towns, "price", memory=10**9)
    assert "town=Bonn" in karat.coreset_files(towns, "price", one_hot=["town"]).X.column_names


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_a_sketch_are_a_column_of_any_frame(frame, kind):
    table = frame.assign(id=[f"h{i}" for i in range(N)])
    core = karat.Sketch(key="id").update(KINDS[kind](table), "price").coreset()
    assert core.keys.tolist() == [f"h{i}" for i in core.indices]
    holes = table.assign(id=pd.array(range(N), dtype="Int64"))
    holes.loc[20, "id"] = pd.NA
    with pytest.raises(InputError, match="key column has missing values"):
        karat.Sketch(key="id").update(KINDS[kind](holes), "price")


def test_an_unknown_argument_lists_the_known_ones():
    with pytest.raises(TypeError, match=r"no argument 'colour'; it takes X, y, problem"):
        karat.coreset(np.eye(3), colour="red")


def test_tables_of_other_libraries(frame):
    """Rows, target and weight; the types and, in pandas, the index are those of the data."""
    X = frame[["rooms", "size", "garden", "price"]]
    core = karat.coreset(X, "price")
    table = core.to_pandas()
    pd.testing.assert_frame_equal(table.drop(columns="weight"), X.iloc[core.indices])
    np.testing.assert_array_equal(table["weight"], core.weights)
    polars = core.to_polars()
    assert polars.columns == ["row", "rooms", "size", "garden", "price", "weight"]
    assert polars["garden"].dtype == pl.Boolean
    assert polars["row"].to_list() == core.indices.tolist()
    assert core.to_arrow().schema.field("rooms").type == pa.int64()


def test_tables_without_names():
    X = np.random.default_rng(0).standard_normal((200, 2))
    core = karat.coreset(X, X.sum(axis=1), groups=np.arange(200) % 2)
    table = core.to_pandas()
    assert list(table.columns) == ["x0", "x1", "y", "weight", "group"]
    assert table.index.name == "row"
    np.testing.assert_array_equal(table.index, core.indices)


def test_names_that_are_taken(frame):
    X = frame[["rooms", "size"]].set_axis(["weight", "row"], axis=1)
    core = karat.coreset(X, pd.Series(frame["price"], name="weight"))
    assert core.to_polars().columns == ["row_", "weight", "row", "weight_", "weight__"]
    np.testing.assert_array_equal(core.to_polars()["weight__"], core.weights)


def test_a_table_needs_its_library(frame, monkeypatch):
    core = karat.coreset(frame, "price")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(karat.MissingExtraError, match="pip install polars"):
        core.to_polars()


def test_the_summary_prints_and_is_a_table_in_notebooks(frame):
    core = karat.coreset(frame, "price")
    text = str(core.summary())
    assert "rows kept" in text
    assert "exact" in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 88
    # all values begin in one column
    assert len({len(line) - len(line[11:].lstrip()) for line in lines}) == 1
    assert core.summary()._repr_html_() == core._repr_html_()


def test_the_plot_is_the_display(frame):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    core = karat.coreset(frame, "price")
    assert len(core.plot(frame, "price").ax_.collections) == 2
    assert len(core.plot().ax_.collections) == 1


class Bar:
    """What karat uses of tqdm."""

    def __init__(self, **options):
        self.options, self.n, self.total, self.places = options, 0, None, []

    def __enter__(self):
        bars.append(self)
        return self

    def __exit__(self, *_):
        self.places.append("closed")

    def update(self, step):
        self.n += step
        self.places.append((self.n, self.total))

    def reset(self, total):
        self.n = 0


bars: list[Bar] = []


def test_progress_by_tqdm(frame, tmp_path, monkeypatch):
    tqdm = types.ModuleType("tqdm")
    tqdm.tqdm = Bar
    tqdm.__spec__ = types.SimpleNamespace(name="tqdm")
    monkeypatch.setitem(sys.modules, "tqdm", tqdm)
    bars.clear()
    karat.coreset(frame, "price", progress=True)
    frame.to_parquet(tmp_path / "data.parquet")
    core = karat.coreset_files(tmp_path / "data.parquet", "price", progress=True)
    karat.verify_files(core, progress=True)
    assert len(bars) == 3
    assert bars[0].places[-2:] == [(N, N), "closed"]
    assert all(
        bar.places[-1] == "closed" and bar.places[-2][0] == bar.places[-2][1] for bar in bars
    )


@pytest.mark.parametrize("wrong", [3, "yes"])
def test_progress_that_is_no_function(frame, wrong):
    for function in (karat.coreset, karat.coreset_files):
        with pytest.raises(InputError, match=r"progress is .* True, False or a function"):
            function(frame, "price", progress=wrong)


def test_progress_counts_the_rows_of_all_threads():
    """Rows done grow from call to call in a pass and end with all of them, however many threads
    read.
    """
    X = np.random.default_rng(0).standard_normal((200_000, 5))
    calls = []
    karat.coreset(X, progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1] == (200_000, 200_000)


def test_a_bar_needs_tqdm(frame, capsys, monkeypatch):
    """It writes to standard error, whose last state a saved notebook shows."""
    pytest.importorskip("tqdm")
    karat.coreset(frame, "price", progress=True)
    assert f"{N / 1000:.2f}k" in capsys.readouterr().err
    karat.coreset(frame, "price", progress=False)
    assert not capsys.readouterr().err
    from karat.data import arguments

    monkeypatch.setattr(arguments, "find_spec", lambda name: None)
    with pytest.raises(karat.MissingExtraError, match=r"karat\[progress\]"):
        karat.coreset(frame, "price", progress=True)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_whole_numbers_stay_whole_in_a_sketch(frame, kind):
    """Types of a sketch are those of the rows that were put in, also after a checkpoint."""
    X = frame[["rooms", "size", "garden", "price"]]
    sketch = karat.Sketch(buffer_rows=700)
    for start in range(0, N, 500):
        sketch.update(KINDS[kind](X.iloc[start : start + 500]), "price")
    core = sketch.coreset()
    assert core.certificate.ok
    table = core.to_arrow()
    assert [str(table.schema.field(c).type) for c in ("rooms", "size", "garden")] == [
        "int64",
        "double",
        "bool",
    ]
    np.testing.assert_array_equal(table["rooms"], X["rooms"].to_numpy()[core.indices])


def test_whole_numbers_beside_fractions_become_doubles(frame):
    """A later batch with fractions in a column of integers: no digit is lost, whichever comes
    first.
    """
    rooms = frame[["rooms", "size"]]
    for first, second in ((rooms, rooms + 0.5), (rooms + 0.5, rooms)):
        core = karat.Sketch().update(first).update(second).coreset()
        both = np.concatenate([first["rooms"], second["rooms"]])
        np.testing.assert_array_equal(core.X["rooms"], both[core.indices])
        assert core.X["rooms"].dtype == float


def test_a_sketch_without_a_problem(frame, tmp_path):
    """The first rows choose: least squares with a target, second moments without; rows that are
    refused choose nothing.
    """
    X, y = frame[["rooms", "size"]].to_numpy(float), frame["price"].to_numpy()
    sketch = karat.Sketch()
    assert "no problem yet" in repr(sketch)
    sketch.save(tmp_path / "empty.npz")
    sketch = karat.Sketch.load(tmp_path / "empty.npz")
    with pytest.raises(InputError, match="NaN"):
        sketch.update(np.full((3, 2), np.nan), np.ones(3))
    assert karat.Sketch.load(tmp_path / "empty.npz").update(X).problem == karat.problems.Moments(2)
    sketch.update(X, y).save(tmp_path / "some.npz")
    assert karat.Sketch.load(tmp_path / "some.npz").problem == karat.problems.LeastSquares()
    merged = karat.Sketch().merge(sketch, karat.Sketch())
    assert merged.problem == karat.problems.LeastSquares()
    np.testing.assert_array_equal(merged.coreset().indices, sketch.coreset().indices)
    with pytest.raises(InputError, match="needs a target"):
        merged.update(X)
