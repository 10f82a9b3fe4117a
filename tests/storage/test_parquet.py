"""A coreset in a Parquet file: any tool reads it, and it comes back as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

import karat
from karat import InputError
from karat import problems as P

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
Y = X @ [1.0, 2.0, -1.0] + RNG.standard_normal(300)


def back(core, folder, **options):
    path = folder / "core.parquet"
    core.save(path)
    return karat.load(path, **options)


def same_array(one, other):
    one, other = np.asarray(one), np.asarray(other)
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert one.tobytes() == other.tobytes()


def same(core, again):
    for name in ("indices", "weights"):
        same_array(getattr(core, name), getattr(again, name))
    for name in ("groups", "keys"):
        one, other = getattr(core, name), getattr(again, name)
        assert (one is None) == (other is None)
        if one is not None:
            same_array(one, other)
    assert again.certificate == core.certificate
    assert (again.n_rows, again.problem, again.provenance) == (
        core.n_rows,
        core.problem,
        core.provenance,
    )


KINDS = ["f2", "f4", "f8", ">f8", "g", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


@pytest.mark.parametrize("dtype", KINDS)
def test_arrays_of_every_type(dtype, tmp_path):
    core = karat.coreset(X, Y)
    data = (RNG.standard_normal((len(core), 3)) * 50).astype(dtype)
    core = replace(core, X=data, y=data[:, 0])
    again = back(core, tmp_path)
    same(core, again)
    same_array(again.X, core.X)
    same_array(again.y, core.y)


def test_special_numbers(tmp_path):
    core = karat.coreset(X, Y)
    data = np.tile([np.nan, -0.0, np.inf], (len(core), 1))
    data[0] = [5e-324, 1.7976931348623157e308, np.nextafter(1, 2)]
    again = back(replace(core, X=data), tmp_path)
    same_array(again.X, data)


def test_frames_of_pandas(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "ä c"], index=np.arange(300) * 2).astype(
        {"a": np.float32}
    )
    core = karat.coreset(frame, pd.Series(Y, name="price", index=frame.index))
    again = back(core, tmp_path)
    same(core, again)
    pd.testing.assert_frame_equal(again.X, core.X)
    pd.testing.assert_series_equal(again.y, core.y)
    assert pq.read_schema(tmp_path / "core.parquet").names == [
        "a",
        "b",
        "ä c",
        "price",
        "weight",
        "row",
    ]


def test_frames_of_polars(tmp_path):
    core = karat.coreset(pl.DataFrame(X, schema=["a", "b", "c"]), pl.Series("price", Y))
    again = back(core, tmp_path)
    same(core, again)
    assert again.X.equals(core.X)
    assert again.y.equals(core.y)
    assert again.y.name == "price"


def test_tables_of_arrow(tmp_path):
    table = pa.table({"a": X[:, 0].astype(np.float32), "b": np.arange(300)})
    core = karat.coreset(table, problem=P.Moments(2))
    again = back(core, tmp_path)
    same(core, again)
    assert again.X.equals(core.X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_sparse_rows(dtype, tmp_path):
    rows = sparse.random(200, 30, 0.2, "csr", random_state=np.random.default_rng(1))
    rows = sparse.csr_array((rows * 9).astype(dtype))
    rows.data[::5] = 0  # explicit zeros are kept
    core = karat.coreset(rows, problem=P.Mean())
    again = back(core, tmp_path)
    same(core, again)
    for part in ("data", "indices", "indptr"):
        same_array(getattr(again.X, part), getattr(core.X, part))
    assert again.X.shape == core.X.shape


@pytest.mark.parametrize(
    "labels", [np.arange(300) % 3, np.array(["ja", "nein", "ä\U0001f600"])[np.arange(300) % 3]]
)
def test_groups_and_keys(labels, tmp_path):
    core = karat.coreset(X, Y, groups=labels)
    keys = np.array([f"key {i}\x00x" for i in range(len(core))])
    core = replace(core, keys=keys)
    same(core, back(core, tmp_path))
    table = pq.read_table(tmp_path / "core.parquet")
    assert table["group"].to_pylist() == labels[core.indices].tolist()
    assert table["key"].to_pylist() == keys.tolist()


def test_text_that_is_not_unicode(tmp_path):
    core = karat.coreset(X, Y)
    core = replace(core, keys=np.array([f"\ud800{i}" for i in range(len(core))]))
    same(core, back(core, tmp_path))


@pytest.mark.parametrize("unit", ["ns", "s", "D", "h"])
def test_keys_that_are_times(unit, tmp_path):
    core = karat.coreset(X, Y)
    core = replace(core, keys=np.datetime64("2024-02-29", unit) + np.arange(len(core)))
    same(core, back(core, tmp_path))


@pytest.mark.parametrize(
    "problem", [P.Ridge(2.0, absorb="diagonal"), P.LpRegression(4, 1.0, absorb="box"), P.Ridge(0.5)]
)
def test_problems_and_corrections(problem, tmp_path):
    core = karat.coreset(X, Y, problem)
    again = back(core, tmp_path)
    same(core, again)
    query = np.array([1.0, 0.5, -2.0])
    assert again.loss(query) == core.loss(query)
    assert np.array_equal(problem.solve(again).coef, problem.solve(core).coef)
    assert again.verify(X, Y).ok


def test_several_targets(tmp_path):
    core = karat.coreset(X, np.column_stack([Y, -Y]))
    again = back(core, tmp_path)
    same_array(again.y, core.y)
    assert pq.read_schema(tmp_path / "core.parquet").names == [
        "x0",
        "x1",
        "x2",
        "y0",
        "y1",
        "weight",
        "row",
    ]


def test_maps_of_latent_problems(tmp_path):
    rng = np.random.default_rng(2)
    data = np.concatenate([rng.standard_normal((400, 4)) + 4 * np.eye(4)[i] for i in range(2)])
    core = karat.coreset(data, problem=P.GaussianMixture(2, keep="tensor"))
    again = back(core, tmp_path)
    same(core, again)
    assert core.maps.keys() == again.maps.keys()
    for name in core.maps:
        same_array(core.maps[name], again.maps[name])
    assert again.verify(data).ok


def test_a_tuple_of_views(tmp_path):
    rng = np.random.default_rng(3)
    hidden = rng.integers(0, 2, 500)
    views = tuple(
        rng.standard_normal((500, 3)) + 3 * rng.standard_normal((2, 3))[hidden] for _ in range(3)
    )
    core = karat.coreset(views, problem=P.MultiView(2))
    again = back(core, tmp_path)
    same(core, again)
    for one, other in zip(core.X, again.X, strict=True):
        same_array(one, other)


text = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(names=st.lists(text, min_size=3, max_size=3, unique=True), target=text)
@example(names=["", "0", "00"], target="None")
def test_any_names_survive(names, target, tmp_path_factory):
    core = karat.coreset(X[:40], Y[:40])
    core = replace(core, X=pd.DataFrame(core.X, columns=names), y=pd.Series(core.y, name=target))
    again = back(core, tmp_path_factory.mktemp("names"))
    assert list(again.X.columns) == names
    assert again.y.name == target
    same_array(again.X.to_numpy(), core.X.to_numpy())
    same_array(again.weights, core.weights)


def test_taken_names(tmp_path):
    frame = pd.DataFrame(X, columns=["weight", "row", "<script>alert(1)</script>"])
    core = karat.coreset(frame, pd.Series(Y, name="weight"), groups=np.arange(300) % 2)
    again = back(core, tmp_path)
    same(core, again)
    table = pq.read_table(tmp_path / "core.parquet")
    assert len(set(table.column_names)) == 7
    assert np.array_equal(table["weight"].to_numpy(), core.X["weight"])
    assert np.array_equal(table["weight__"].to_numpy(), core.weights)


def test_a_user_s_function_is_asked_for(tmp_path):
    problem = P.Kernel(np.sin, lambda q: q)
    core = karat.coreset(X, problem=problem)
    with pytest.raises(InputError, match="problem="):
        back(core, tmp_path)
    assert back(core, tmp_path, problem=problem).loss(np.ones(3)) == core.loss(np.ones(3))


@pytest.fixture
def saved(tmp_path):
    karat.coreset(X, Y).save(tmp_path / "core.parquet")
    return tmp_path / "core.parquet"


def rewritten(path, change):
    """A copy with its header changed, written by pyarrow alone."""
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"karat"])
    change(header)
    other = path.with_name("other.parquet")
    pq.write_table(
        table.replace_schema_metadata(table.schema.metadata | {b"karat": json.dumps(header)}), other
    )
    return other


def test_another_writer_may_copy_it(saved):
    core, copy = karat.load(saved), karat.load(rewritten(saved, lambda h: None))
    same(core, copy)
    same_array(core.X, copy.X)


def test_a_newer_version(saved):
    with pytest.raises(InputError, match=r"99.*Update"):
        karat.load(rewritten(saved, lambda h: h.update(format_version=99)))


def test_a_parquet_file_of_somebody_else(tmp_path):
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "data.parquet")
    with pytest.raises(InputError, match="not a coreset"):
        karat.load(tmp_path / "data.parquet")


@pytest.mark.parametrize(
    "how", ["truncated", "empty", "text", "flipped", "fewer rows", "fewer columns", "npz"]
)
def test_damage(how, saved, tmp_path):
    path, content = tmp_path / "bad.parquet", saved.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_bytes(b"a,b\n1,2\n")
    elif how == "flipped":
        column = pq.ParquetFile(saved).metadata.row_group(0).column(0)
        place = column.data_page_offset + column.total_compressed_size - 5
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    elif how == "npz":
        karat.load(saved).save(tmp_path / "core.npz")
        path.write_bytes((tmp_path / "core.npz").read_bytes())
    else:
        table = pq.read_table(saved)
        pq.write_table(
            table.slice(1) if how == "fewer rows" else table.drop_columns(["weight"]), path
        )
    with pytest.raises(InputError, match=r"bad\.parquet"):
        karat.load(path)


def test_a_failed_write_leaves_the_old_file(saved, tmp_path, monkeypatch):
    before, core = saved.read_bytes(), karat.load(saved)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(karat.StorageError, match="No space"):
        replace(core, weights=core.weights * 2).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["core.parquet"]


def test_without_pyarrow(saved):
    script = f"""
import sys
sys.modules["pyarrow"] = None
import karat
try:
    karat.load({str(saved)!r})
except karat.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "karat[io]" in done.stdout


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_provenance_is_kept(suffix, tmp_path):
    told = {"source": {"given": ["ä.csv"]}, "seed": 3, "target": "price"}
    core = replace(karat.coreset(X, Y), provenance=told)
    core.save(tmp_path / f"core{suffix}")
    assert karat.load(tmp_path / f"core{suffix}").provenance == told


def test_the_target_has_the_name_it_had(tmp_path):
    table = pa.table({"a": X[:, 0], "price": Y})
    pq.write_table(table, tmp_path / "data.parquet")
    karat.coreset_files(tmp_path / "data.parquet", "price").save(tmp_path / "core.parquet")
    kept = pq.read_table(tmp_path / "core.parquet")
    assert kept.column_names == ["a", "price", "weight", "row"]
    assert kept.select(["a", "price"]).equals(table.take(kept["row"]).combine_chunks())
