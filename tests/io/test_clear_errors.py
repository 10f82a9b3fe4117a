"""Data that cannot be read, or means two things, ends in an error of karat that says what to do."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat import InputError

N = 300


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    a, y = rng.standard_normal((2, N))
    return pd.DataFrame({"a": a, "y": y, "k": np.arange(N) % 3})


def test_checksums_of_pages(frame, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.Table.from_pandas(frame), path, write_page_checksum=True, compression=None,
        use_dictionary=False,
    )  # fmt: skip
    assert karat.coreset_files(path, "y").n_rows == N
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1  # one bit of a number
    path.write_bytes(data)
    for build in (karat.coreset_files, lambda p, y: karat.cube(p, y, "k")):
        with pytest.raises(InputError, match=r"rows\.parquet, row group 0.* damaged"):
            build(path, "y")


def test_a_reserved_name_and_checksums(frame, tmp_path):
    """Columns that the scanner of Arrow reserves are read in another way."""
    path = tmp_path / "rows.parquet"
    table = pa.Table.from_pandas(frame.rename(columns={"a": "__filename"}))
    pq.write_table(table, path, write_page_checksum=True, compression=None, use_dictionary=False)
    assert karat.coreset_files(path, "y").n_rows == N
    data = bytearray(path.read_bytes())
    data[len(data) // 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        karat.coreset_files(path, "y")


@pytest.mark.parametrize("order", ["12", "21"])
def test_booleans_in_one_file_and_integers_in_another(frame, tmp_path, order):
    """Among numbers true is 1; among levels and labels it is another one."""
    frame.assign(b=frame.k == 0).to_parquet(tmp_path / f"{order[0]}.parquet")
    frame.assign(b=frame.k).to_parquet(tmp_path / f"{order[1]}.parquet")
    assert karat.coreset_files(tmp_path, "y").n_rows == 2 * N
    for names in ({"one_hot": ["b"]}, {"groups": "b"}):
        with pytest.raises(InputError, match=r"Column 'b' is \w+ in .* but \w+ in .*convert"):
            karat.coreset_files(tmp_path, "y", **names)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("given", ["pipe.parquet", "pipe.csv", ".", "*.parquet", "**/*.csv"])
def test_pipes_do_not_block(frame, tmp_path, given):
    frame.to_parquet(tmp_path / "rows.parquet")
    os.mkfifo(tmp_path / "pipe.parquet")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="is a pipe or a device"):
        karat.coreset_files(str(tmp_path / given), "y")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_results_are_no_pipes(tmp_path):
    os.mkfifo(tmp_path / "pipe.parquet")
    for load in (karat.load, karat.Cube.load):
        with pytest.raises(InputError, match="is a pipe, not a file"):
            load(tmp_path / "pipe.parquet")


def test_links_to_nothing(frame, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "gone.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(InputError, match="a link to a file that does not exist"):
        karat.coreset_files(tmp_path, "y")


ROLES = [{"groups": "k"}, {"key": "k"}, {"one_hot": ["k"]}]


@pytest.mark.parametrize("role", ROLES)
def test_labels_that_are_none(frame, role):
    lists = pa.table({"a": frame.a, "y": frame.y, "k": pa.array([[1]] * N)})
    with pytest.raises(InputError, match=r"no single value|has no categories"):
        karat.coreset_files(lists, "y", **role)
    long = frame.assign(k=[2**70 + i for i in range(N)])
    with pytest.raises(InputError, match="integers beyond 64 bits"):
        karat.coreset_files(long, "y", **role)
    lone = frame.assign(k=pd.Series(np.array(["\ud800"] * N, dtype=object), dtype=object))
    with pytest.raises(InputError, match="not Unicode"):
        karat.coreset_files(lone, "y", **role)


def test_labels_of_frames_in_memory(frame):
    with pytest.raises(InputError, match="integers beyond 64 bits"):
        karat.coreset(frame.assign(k=[2**70 + i for i in range(N)]), "y", groups="k")
    for build in (
        lambda rows: karat.cube(rows, "y", "k"),
        lambda rows: karat.cube(rows.assign(g=1), "y", "g", columns=["a"], key="k"),
    ):
        with pytest.raises(InputError, match="integers beyond 64 bits"):
            build(frame.assign(k=[2**70 + i for i in range(N)]))
    lists = pa.table({"a": frame.a, "y": frame.y, "g": frame.k, "k": pa.array([[1]] * N)})
    with pytest.raises(InputError, match="no single value"):
        karat.cube(lists, "y", "g", columns=["a"], key="k")


@pytest.mark.parametrize("path", [5, "", "."])
def test_a_checkpoint_that_is_no_path(frame, tmp_path, path):
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=f"must be the path of a file, not {path!r}"):
        karat.coreset_files(tmp_path / "rows.parquet", "y", checkpoint=path)


def test_intervals_label_no_cells():
    """They were cells of the text of an object of pandas."""
    steps = pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval())
    rows = pa.table({"a": [1.0, 2.0], "y": [2.0, 3.0], "g": steps})
    with pytest.raises(InputError, match="which cannot label cells"):
        karat.cube(rows, "y", "g")


def test_a_closed_relation():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    relation = connection.sql("SELECT range AS a, random() AS y, range % 3 AS k FROM range(100)")
    connection.close()
    for build in (karat.coreset_files, lambda r, y: karat.cube(r, y, "k")):
        with pytest.raises(InputError, match=r"relation of DuckDB.*closed"):
            build(relation, "y")


def test_lazy_frames_are_collected(frame):
    core = karat.coreset_files(pl.from_pandas(frame).lazy(), "y")
    assert core.verify(frame[["a", "k"]], frame.y).ok


def test_sources_without_rows(frame, tmp_path):
    frame.iloc[:0].to_parquet(tmp_path / "empty.parquet")
    for source in (tmp_path / "empty.parquet", frame.iloc[:0]):
        for rows in ("real", "synthetic"):
            with pytest.raises(InputError, match="The data has no rows"):
                karat.coreset_files(source, "y", rows=rows)
        with pytest.raises(InputError, match="The data has no rows"):
            karat.cube(source, "y", "k")


def test_bars_between_columns(frame, tmp_path):
    frame.to_csv(tmp_path / "rows.csv", sep="|", index=False)
    core = karat.coreset_files(tmp_path / "rows.csv", "y")
    assert core.verify(frame[["a", "k"]], frame.y).ok


def test_text_columns_are_named_at_once(frame):
    rows = frame.assign(t="x", u="z")
    words = r"one_hot=\['t', 'u'\], or leave them out with columns=\['a', 'k'\]"
    with pytest.raises(InputError, match=words):
        karat.coreset_files(rows, "y")
    with pytest.raises(InputError, match=r"columns=\['a'\]") as refused:
        karat.cube(rows, "y", "k")
    assert "one_hot" not in str(refused.value)


def test_advice_that_applies(frame):
    """A pass that learns means is one of coreset_files only."""
    dd = pytest.importorskip("dask.dataframe")
    gaps = frame.assign(a=frame.a.where(frame.a < 1))
    parts = dd.from_pandas(gaps, npartitions=2)
    with pytest.raises(InputError, match="on_missing='mean'"):
        karat.coreset_files(gaps, "y")
    for build in (
        lambda: karat.cube(gaps, "y", "k"),
        lambda: karat.cube(parts, "y", "k"),
        lambda: karat.dask.coreset(parts, "y"),
    ):
        with pytest.raises(InputError, match="on_missing='drop'") as refused:
            build()
        assert "mean" not in str(refused.value)
    with pytest.raises(InputError, match="not numeric") as refused:
        karat.dask.coreset(dd.from_pandas(frame.assign(t="x"), npartitions=2), "y")
    assert "one_hot" not in str(refused.value)


@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_empty_text_is_missing_where_rows_are_dropped(frame, tmp_path, kind):
    rows = frame.assign(t=np.where(frame.k == 0, "", np.where(frame.k == 1, "u", "v")))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    source = tmp_path / "rows.csv" if kind == "csv" else rows
    core = karat.coreset_files(source, "y", columns=["a", "t"], one_hot=["t"], on_missing="drop")
    assert core.X.column_names == ["a", "t=u", "t=v"]
    assert core.n_represented == int((rows.t != "").sum())


@pytest.mark.parametrize("option", ["error", "drop"])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_broken_lines_that_are_no_text(tmp_path, option):
    """pyarrow printed the traceback of a UnicodeDecodeError beside the error."""
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,y\n" + b"1,2\n3,5\n4,4\n" * 9 + b"1,2,\xc3(\n" + b"2,2\n")
    with pytest.raises(InputError, match=r"rows\.csv cannot be read as CSV"):
        karat.coreset_files(path, "y", on_missing=option)
    path.write_bytes(path.read_bytes().replace(b"\xc3(", b"\xc3\xa9"))
    if option == "drop":
        core = karat.coreset_files(path, "y", on_missing=option)
        assert core.provenance["dropped"] == {"missing": 0, "broken": 1}
