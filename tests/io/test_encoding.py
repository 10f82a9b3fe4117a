"""One-hot columns and means: learned from all rows, stored with the coreset, and the same as
encoding in memory.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import karat
from karat import InputError

N = 8000
ONE_HOT = ["carrier", "month"]


@pytest.fixture(scope="module")
def flights():
    """A rare level that comes late, integers as categories, and missing hours and
    distances.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "distance": rng.lognormal(6, 0.5, N).round(),
            "carrier": rng.choice(["AA", "UA", "WN"], N, p=[0.6, 0.3, 0.1]),
            "month": rng.integers(1, 13, N),
            "hour": rng.integers(0, 24, N).astype(float),
            "mass": rng.integers(1, 5, N),
        }
    )
    frame.loc[N - 40 :, "carrier"] = "HA"
    frame["delay"] = (
        0.01 * frame["distance"] + 3.0 * (frame["carrier"] == "UA") + rng.standard_normal(N)
    )
    frame.loc[rng.choice(N, 300, replace=False), "hour"] = np.nan
    frame.loc[rng.choice(N, 100, replace=False), "distance"] = np.nan
    return frame


@pytest.fixture(scope="module")
def files(flights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights")
    flights.to_parquet(folder / "flights.parquet", row_group_size=1500)
    flights.to_csv(folder / "flights.csv", index=False)
    return folder


def block(frame, weights=None):
    """The encoded features, by pandas and NumPy: distance, carriers, months, hour."""
    filled = []
    for name in ("distance", "hour"):
        there = frame[name].notna()
        mean = np.average(frame[name][there], weights=None if weights is None else weights[there])
        filled.append(frame[name].fillna(mean))
    carriers = [frame["carrier"] == level for level in sorted(frame["carrier"].unique())]
    months = [frame["month"] == level for level in range(1, 13)]
    return np.column_stack([filled[0], *carriers, *months, filled[1]]).astype(float)


def moments(X, y, weights):
    rows = np.column_stack([np.ones(len(X)), X, y])
    return rows.T @ (weights[:, None] * rows)


def kept(core):
    return np.column_stack([column.to_numpy() for column in core.X.columns]).astype(float)


@pytest.mark.parametrize("name", ["flights.parquet", "flights.csv"])
@pytest.mark.parametrize("weight", [None, "mass"])
def test_the_moments_are_those_of_the_encoded_rows(flights, files, name, weight):
    features = ["distance", "carrier", "month", "hour"]
    core = karat.coreset_files(
        files / name,
        "delay",
        columns=features,
        one_hot=ONE_HOT,
        on_missing="mean",
        sample_weight=weight,
        batch_rows=2000,
    )
    mass = np.ones(N) if weight is None else flights["mass"].to_numpy()
    full = block(flights, None if weight is None else mass)
    np.testing.assert_allclose(kept(core), full[core.indices], rtol=1e-15)
    expected = moments(full, flights["delay"], mass)
    found = moments(kept(core), core.y.to_numpy(), core.weights)
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert (np.abs(found - expected) / size).max() < 1e-13
    assert core.X.column_names[1:5] == ["carrier=AA", "carrier=HA", "carrier=UA", "carrier=WN"]
    assert core.X.column_names[5:17] == [f"month={i}" for i in range(1, 13)]
    assert karat.verify_files(core).data == "identical"
    assert karat.verify_files(core).ok


def test_the_fit_is_that_of_scikit_learn(flights, files):
    core = karat.coreset_files(
        files / "flights.csv",
        "delay",
        columns=["distance", "carrier", "month", "hour"],
        one_hot=ONE_HOT,
        on_missing="mean",
    )
    encode = make_column_transformer(
        (SimpleImputer(), ["distance", "hour"]), (OneHotEncoder(sparse_output=False), ONE_HOT)
    )
    full = make_pipeline(encode, LinearRegression()).fit(flights, flights["delay"])
    few = core.fit(LinearRegression())
    np.testing.assert_allclose(
        block(flights) @ few.coef_ + few.intercept_, full.predict(flights), rtol=1e-10, atol=1e-10
    )


def test_dropped_rows_have_no_levels(flights, files, tmp_path):
    """A level of rows that are left out gets no column."""
    lost = flights["carrier"] == "HA"
    frame = flights.assign(hour=flights["hour"].mask(lost))
    frame.to_parquet(tmp_path / "data.parquet")
    core = karat.coreset_files(
        tmp_path / "data.parquet",
        "delay",
        columns=["carrier", "hour"],
        one_hot=["carrier"],
        on_missing="drop",
    )
    assert core.X.column_names == ["carrier=AA", "carrier=UA", "carrier=WN", "hour"]
    assert core.n_represented == frame["hour"].notna().sum()
    assert karat.verify_files(core).ok


def test_missing_categories(tmp_path):
    """Refused, left out, or a level of their own."""
    table = pa.table(
        {
            "town": ["a", None, "b", "a"] * 100,
            "flag": [True, False, None, True] * 100,
            "y": np.arange(400.0),
        }
    )
    path = tmp_path / "data.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    call = {"target": "y", "one_hot": ["town", "flag"]}
    with pytest.raises(InputError, match=r"row 1.*'town' has no value"):
        karat.coreset_files(path, **call)
    assert karat.coreset_files(path, **call, on_missing="drop").n_represented == 200
    core = karat.coreset_files(path, **call, on_missing="mean")
    assert core.X.column_names == [
        "town=a",
        "town=b",
        "town=(missing)",
        "flag=false",
        "flag=true",
        "flag=(missing)",
    ]
    np.testing.assert_array_equal(kept(core).sum(axis=1), 2)
    assert karat.verify_files(core).ok


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_the_encoding_is_stored(files, tmp_path, kind):
    core = karat.coreset_files(
        files / "flights.parquet", "delay", one_hot=ONE_HOT, on_missing="mean"
    )
    core.save(tmp_path / f"core.{kind}")
    again = karat.load(tmp_path / f"core.{kind}")
    assert again.provenance["encoding"] == core.provenance["encoding"]
    assert karat.verify_files(again, files / "flights.csv").ok  # the same rows in another format


def test_a_changed_level_is_seen(flights, files, tmp_path):
    """Data with a level that the coreset does not know is refuted, not refused."""
    core = karat.coreset_files(
        files / "flights.parquet", "delay", one_hot=ONE_HOT, on_missing="mean"
    )
    changed = flights.copy()
    changed.loc[5, "carrier"] = "ZZ"
    changed.to_parquet(tmp_path / "changed.parquet")
    found = karat.verify_files(core, tmp_path / "changed.parquet")
    assert not found.ok
    assert found.data == "changed"


def test_merged_parts_of_other_means_are_not_compared(flights, tmp_path):
    parts = []
    for i, half in enumerate((flights.iloc[: N // 2], flights.iloc[N // 2 :].assign(carrier="AA"))):
        half.to_parquet(tmp_path / f"{i}.parquet")
        parts.append(
            karat.coreset_files(
                tmp_path / f"{i}.parquet", "delay", columns=["hour", "month"], on_missing="mean"
            )
        )
    merged = parts[0].merge(parts[1])
    assert merged.certificate.ok
    with pytest.raises(InputError, match="encoded differently"):
        karat.verify_files(merged)


def test_a_run_resumes_with_its_encoding(files, tmp_path, monkeypatch):
    """Levels and means come from the checkpoint: nothing is learned again, and the coreset is the
    same.
    """
    call = {"target": "delay", "one_hot": ONE_HOT, "on_missing": "mean", "batch_rows": 1500}
    whole = karat.coreset_files(files / "flights.parquet", **call)
    seen = []

    def stop(done, total):
        seen.append(done / total)
        if len(seen) > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        karat.coreset_files(
            files / "flights.parquet", **call, checkpoint=tmp_path / "run.npz", progress=stop
        )
    assert seen == sorted(seen)  # one bar for both passes
    assert (tmp_path / "run.npz").exists()
    from karat.io import learn

    monkeypatch.setattr(learn, "scan", None)
    again = karat.coreset_files(files / "flights.parquet", **call, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(again.indices, whole.indices)
    np.testing.assert_array_equal(again.weights, whole.weights)


def test_a_checkpoint_of_another_encoding_is_refused(files, tmp_path):
    call = {
        "target": "delay",
        "columns": ["month", "hour"],
        "on_missing": "mean",
        "checkpoint": tmp_path / "run.npz",
    }
    karat.coreset_files(files / "flights.parquet", **call, one_hot=["month"])
    for other in ({}, {"one_hot": ["month"], "on_missing": "drop"}):
        with pytest.raises(InputError, match=r"another call: .*encoding"):
            karat.coreset_files(files / "flights.parquet", **call | other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"one_hot": ["carier"]}, "'carier' of one_hot is not in the data"),
        ({"one_hot": ["delay"]}, "'delay' of one_hot is not a feature"),
        ({"one_hot": "carrier"}, r"did you mean one_hot=\['carrier'\]"),
        ({"one_hot": ["carrier"]}, "no value"),
        ({"on_missing": "median"}, "on_missing must be"),
        ({"one_hot": ["carrier"], "pipeline": SimpleImputer()}, "be combined with a pipeline"),
        ({}, "'carrier' has type .*one_hot="),
    ],
)  # fmt: skip
def test_refusals(files, options, message):
    with pytest.raises(InputError, match=message):
        karat.coreset_files(files / "flights.parquet", "delay", **options)


def test_a_target_is_not_filled(flights, tmp_path):
    flights.assign(delay=flights["delay"].mask(flights.index == 7)).to_parquet(
        tmp_path / "data.parquet"
    )
    with pytest.raises(InputError, match=r"row 7.*'delay' has no value.*cannot be filled"):
        karat.coreset_files(tmp_path / "data.parquet", "delay", one_hot=ONE_HOT, on_missing="mean")


def test_names_that_meet_and_columns_without_a_value(tmp_path):
    frame = pd.DataFrame(
        {
            "a": ["x", "y"] * 50,
            "a=x": np.arange(100.0),
            "none": np.full(100, np.nan),
            "y": np.arange(100.0),
        }
    )
    frame.to_parquet(tmp_path / "data.parquet")
    with pytest.raises(InputError, match="Two encoded columns would be called 'a=x'"):
        karat.coreset_files(tmp_path / "data.parquet", "y", columns=["a", "a=x"], one_hot=["a"])
    with pytest.raises(InputError, match="'none' has no values, so it has no mean"):
        karat.coreset_files(
            tmp_path / "data.parquet", "y", columns=["a=x", "none"], on_missing="mean"
        )
    reader = pa.Table.from_pandas(frame).to_reader()
    with pytest.raises(InputError, match="a stream can be read only once"):
        karat.coreset_files(reader, "y", columns=["a"], one_hot=["a"])


def test_the_command(files, tmp_path, monkeypatch, capsys):
    """``build``, ``train --check``, ``verify`` and ``report`` agree on the encoding."""
    from karat.cli.app import run_command

    monkeypatch.chdir(tmp_path)
    data = str(files / "flights.csv")
    options = ["--one-hot", "carrier,month", "--on-missing", "mean", "--drop-columns", "mass"]
    assert run_command(["build", data, "-t", "delay", *options, "-o", "core.parquet"]) == 0
    capsys.readouterr()
    assert (
        run_command(
            ["train", "core.parquet", "--model", "ridge", "--alpha", "2", "--check", data, "--json"]
        )
        == 0
    )
    trained = json.loads(capsys.readouterr().out)
    assert trained["check"]["relative"] < 1e-9
    assert "carrier=UA" in trained["parameters"]["coefficients"]["delay"]
    assert run_command(["verify", "core.parquet"]) == 0
    assert run_command(["report", "core.parquet", "--data", data, "-o", "report.html"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "one_hot=[&#39;carrier&#39;, &#39;month&#39;], on_missing=&#39;mean&#39;" in page
    assert run_command(["build", data, "-t", "delay", "-o", "other.parquet"]) == 2
    assert "encode it with --one-hot" in capsys.readouterr().err
    assert (
        run_command(["build", data, "-t", "delay", "--one-hot", "carier", "-o", "other.parquet"])
        == 2
    )
    assert "did you mean carrier" in capsys.readouterr().err


def test_zeros_of_both_signs_are_one_level(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "c": np.tile([-0.0, 0.0, 1.5], 200),
            "x": rng.standard_normal(600),
            "y": rng.standard_normal(600),
        }
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    core = karat.coreset_files(tmp_path / "rows.parquet", "y", one_hot=["c"])
    assert core.X.column_names == ["c=0", "c=1.5", "x"]
    assert core.weights @ core.X["c=0"].to_numpy() == pytest.approx(400)
