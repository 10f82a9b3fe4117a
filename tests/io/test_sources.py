"""Patterns of file names, and samples of rows."""

from __future__ import annotations

import glob
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables import make, write

import karat
from karat import InputError
from karat.io.find import open_source

FILES = [
    "a.parquet", "b.parquet", "part-1.parquet", "part-10.parquet", "part-2.parquet",
    "year=2023/part-1.parquet", "year=2024/part-1.parquet", "year=2024/deep/er/part-3.parquet",
    ".hidden/part-1.parquet", "year=2024/.part-9.parquet", "[x].parquet",
    "_b.parquet", "year=2024/_c.parquet", "_under/part-7.parquet", "year=2023/_in/part-8.parquet",
]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("patterns")
    for i, name in enumerate(FILES):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [float(i)]}), home / name)
    (home / "notes.txt").write_text("no data")
    return home


PATTERNS = [
    "*.parquet",
    "part-*.parquet",
    "part-?.parquet",
    "part-[12].parquet",
    "*/*.parquet",
    "year=*/part-1.parquet",
    "**/part-*.parquet",
    "**/*.parquet",
    "year=2024/**/*.parquet",
    "**/deep/*/*.parquet",
    ".hidden/*",
    "*/.part-*.parquet",
    "**/_*.parquet",
    "_*/*",
    "*",
    "[[]x].parquet",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_what_glob_matches(pattern, home):
    expected = sorted(
        f
        for f in glob.glob(str(home / pattern), recursive=True)
        if f.endswith(".parquet") and os.path.isfile(f)
    )
    assert list(open_source(str(home / pattern)).names) == expected
    assert expected


def test_folders_in_a_pattern_give_columns(home):
    assert open_source(str(home / "year=*" / "part-1.parquet")).schema().names == ["x", "year"]


def test_a_folder_passes_over_names_that_are_no_data(home):
    parts = [name.removeprefix(f"{home}/").split("/") for name in open_source(home).names]
    assert not [p for path in parts for p in path if p.startswith((".", "_"))]
    assert len(parts) == len([f for f in FILES if not any(s in f"/{f}" for s in ("/.", "/_"))])


def test_a_name_that_looks_like_a_pattern(home):
    assert len(open_source(str(home / "[x].parquet")).names) == 1


@pytest.mark.parametrize("pattern", ["none-*.parquet", "gone/*.parquet", "*.txt"])
def test_nothing_matches(pattern, home):
    with pytest.raises(InputError, match="No data file matches"):
        karat.coreset_files(str(home / pattern))


def test_a_sample_is_of_the_rows(tmp_path):
    table = make(5000)
    folder = write(table, tmp_path / "data")
    rows, numbers = karat.io.sample_rows(folder, ["a", "g", "id"], 300, seed=1)
    assert len(rows) == len(np.unique(numbers)) == 300
    assert (np.diff(numbers) > 0).all()
    assert rows.to_pylist() == table.select(["a", "g", "id"]).take(pa.array(numbers)).to_pylist()
    again, same = karat.io.sample_rows(table, ["a", "g", "id"], 300, seed=1)
    assert np.array_equal(same, numbers)
    assert again.to_pylist() == rows.to_pylist()
    everything, all_numbers = karat.io.sample_rows(folder, None, 10_000)
    assert np.array_equal(all_numbers, np.arange(5000))
    assert everything.column_names == table.column_names


def test_a_sample_is_uniform():
    table = pa.table({"x": np.arange(1000.0)})
    seen = np.zeros(1000)
    for seed in range(200):
        seen[karat.io.sample_rows(table, ["x"], 100, seed)[1]] += 1
    expected, spread = 20.0, np.sqrt(200 * 0.1 * 0.9)
    assert abs(seen - expected).max() < 5 * spread
    assert np.square((seen - expected) / spread).mean() == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("count", [0, -1, 2.5, True])
def test_a_sample_of_nothing(count):
    with pytest.raises(InputError, match="count"):
        karat.io.sample_rows(pa.table({"x": [1.0]}), None, count)


def test_a_label_that_is_missing_in_a_dictionary():
    codes = pa.DictionaryArray.from_arrays(pa.array(np.arange(90) % 3), pa.array(["a", None, "b"]))
    table = pa.table({"a": np.arange(90.0), "y": np.arange(90.0) ** 2, "g": codes})
    with pytest.raises(InputError, match="row 1: column 'g' has no value"):
        karat.coreset_files(table.to_reader(), "y", columns=["a"], groups="g")
