"""Files of every kind give the coreset of the rows in them, and what is wrong with them is a
sentence with its place.
"""

from __future__ import annotations

import gzip
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder
from tables import COLUMNS, arrays, make, write

import karat
from karat import problems as P
from karat.io.find import open_source


def check(core, table, weights=None, groups=None):
    X, y = arrays(table)
    proof = core.verify(X, y, sample_weight=weights, groups=groups)
    assert proof.ok, str(proof)
    assert proof.loss_error <= 1e-11
    assert core.certificate.loss_error <= 1e-11
    assert not proof.notes  # so the kept rows are the rows at the stored numbers


def build(source, **kwargs):
    return karat.coreset_files(source, "y", columns=COLUMNS, **{"batch_rows": 4000} | kwargs)


def write_csv(table, path):
    pacsv.write_csv(table, path)
    return path


def write_gz(table, path):
    pacsv.write_csv(table, pa.CompressedOutputStream(str(path), "gzip"))
    return path


def write_feather(table, path):
    feather.write_feather(table, path, chunksize=1700)
    return path


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        ("one.parquet", lambda t, p: (pq.write_table(t, p, row_group_size=7000), p)[1]),
        ("one.csv", write_csv),
        ("one.csv.gz", write_gz),
        ("one.feather", write_feather),
    ],
)
def test_one_file_of_each_kind(name, writer, table, tmp_path):
    core = build(writer(table, tmp_path / name))
    check(core, table)
    assert core.X.column_names == COLUMNS
    assert core.n_rows == len(table)


def test_a_folder_weights_groups_and_keys(folder, table):
    w, g = table["w"].to_numpy(), table["g"].to_numpy(zero_copy_only=False).astype(str)
    core = build(folder, sample_weight="w", groups="g", key="id")
    check(core, table, w, g)
    np.testing.assert_array_equal(core.keys, core.indices + 10**6)
    assert set(core.groups) == {"north", "south", "west"}


def test_folder_names_are_columns(table, tmp_path):
    pq.write_to_dataset(table, tmp_path / "parts", partition_cols=["g"])
    order = pa.concat_tables(
        [table.filter(pa.compute.equal(table["g"], g)) for g in ("north", "south", "west")]
    )
    check(
        build(tmp_path / "parts", groups="g"),
        order,
        groups=order["g"].to_numpy(zero_copy_only=False).astype(str),
    )


def test_streams(folder, table):
    check(build(table.to_reader(2500)), table)
    check(build(table), table)
    duckdb.sql("SET threads TO 1")
    relation = duckdb.sql(
        f"SELECT * FROM read_parquet('{folder}/*.parquet') WHERE id < {10**6 + 9000} ORDER BY id"
    )
    check(build(relation), table.slice(0, 9000))
    with pytest.raises(karat.InputError, match="Only a run over files can be resumed"):
        build(table.to_reader(), checkpoint="x.npz")


def test_addresses(table):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://bucket/one.parquet", "wb") as file:
        pq.write_table(table, file)
    check(build("memory://bucket/one.parquet"), table)


def test_many_targets_and_defaults(folder, table):
    core = karat.coreset_files(folder, ["y", "d"], columns=["a", "b", "c"], batch_rows=5000)
    Y = np.column_stack([table["y"].to_numpy(), table["d"].to_numpy()])
    assert core.verify(arrays(table)[0][:, :3], Y).ok
    plain = karat.coreset_files(folder, columns=COLUMNS)
    assert plain.problem == P.Moments(2)
    assert plain.verify(arrays(table)[0]).ok


def test_categories_through_a_pipeline(folder, table):
    frame = table.to_pandas()
    pipeline = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["g"]), remainder="passthrough"
    )
    Z = pipeline.fit_transform(frame[["a", "b", "g"]])
    core = karat.coreset_files(
        folder, "y", columns=["a", "b", "g"], pipeline=pipeline, batch_rows=5000
    )
    assert core.verify(Z, table["y"].to_numpy()).ok
    assert core.X.column_names == list(pipeline.get_feature_names_out())
    with pytest.raises(karat.InputError, match=r"'g' has type .*pipeline"):
        karat.coreset_files(folder, "y", columns=["a", "g"])


def test_progress_ends_at_the_end(folder):
    seen = []
    build(folder, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0


def with_nulls(table, rows, column="b"):
    values = table[column].to_pylist()
    for r in rows:
        values[r] = None
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def test_missing_values_are_named_or_counted(table, tmp_path):
    rows = [6000 + 2345, 6000 + 2346, 29_999]
    folder = write(with_nulls(table, rows), tmp_path / "holes")
    with pytest.raises(
        karat.InputError,
        match=r"part-001\.parquet, row group 2, row 2,345: column 'b' has no value.*drop",
    ):
        build(folder)
    core = build(folder, on_missing="drop")
    assert any("3 rows with missing values" in note for note in core.certificate.notes)
    kept = np.ones(len(table))
    kept[rows] = 0
    check(core, table, weights=kept)


def test_infinity_is_never_dropped(table, tmp_path):
    values = table["c"].to_numpy().copy()
    values[123] = np.inf
    folder = write(table.set_column(2, "c", pa.array(values)), tmp_path / "data")
    with pytest.raises(
        karat.InputError, match=r"part-000\.parquet, row group 0, row 123: column 'c' is infinite"
    ):
        build(folder, on_missing="drop")


def test_a_truncated_file(folder):
    path = folder / "part-003.parquet"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(karat.InputError, match=r"part-003\.parquet cannot be read as Parquet"):
        build(folder)


def test_a_damaged_row_group(folder):
    path = folder / "part-002.parquet"
    data = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(3).column(0)
    start = group.dictionary_page_offset or group.data_page_offset
    data[start : start + 12] = b"\xff" * 12
    path.write_bytes(data)
    with pytest.raises(karat.InputError, match=r"part-002\.parquet, row group \d, row .* damaged"):
        build(folder, batch_rows=1000)


def test_a_missing_column_and_a_type_that_changes(folder, table):
    path = folder / "part-002.parquet"
    part = pq.read_table(path)
    pq.write_table(part.drop_columns(["c"]), path)
    with pytest.raises(
        karat.InputError, match=r"part-002\.parquet has no column 'c'; .*part-000\.parquet has it"
    ):
        build(folder)
    pq.write_table(part.set_column(2, "c", part["c"].cast(pa.string())), path)
    with pytest.raises(
        karat.InputError,
        match=r"'c' is double in .*part-000\.parquet but string in .*part-002\.parquet",
    ):
        build(folder)
    pq.write_table(part, path)
    check(build(folder), table)
    with pytest.raises(karat.InputError, match="no column 'z'"):
        karat.coreset_files(folder, "z", columns=COLUMNS)


def test_numbers_of_other_widths_mix(table, tmp_path):
    small = table.slice(0, 6000)
    small = small.set_column(0, "a", small["a"].cast(pa.float32()))
    rest = table.slice(6000)
    write(small, tmp_path / "mixed" / "1", files=1)
    write(rest, tmp_path / "mixed" / "2", files=2)
    both = pa.concat_tables([small.set_column(0, "a", small["a"].cast(pa.float64())), rest])
    check(build(tmp_path / "mixed"), both)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_broken_lines(suffix, table, tmp_path):
    path = write_csv(table, tmp_path / "one.csv")
    lines = path.read_text().splitlines(keepends=True)
    lines[5001] = "1,2\n"
    lines[7001] = "x" + lines[7001]
    path.unlink()
    path = tmp_path / f"one{suffix}"
    path.write_bytes(
        "".join(lines).encode() if suffix == ".csv" else gzip.compress("".join(lines).encode())
    )
    with pytest.raises(karat.InputError, match="line 5,002: 2 values where the header has 8"):
        build(open_source(path, block_bytes=2**17))
    # in one block, values are converted first
    with pytest.raises(karat.InputError, match="line 7,002: column 'a'"):
        build(path)
    core = build(path, on_missing="drop")
    assert "1 row with missing values and 1 broken row were left out." in core.certificate.notes
    rest = pa.concat_tables([table.slice(0, 5000), table.slice(5001)])
    kept = np.ones(len(rest))
    kept[6999] = 0
    check(core, rest, weights=kept)
    lines[5001] = lines[5000]
    path.write_bytes(
        "".join(lines).encode() if suffix == ".csv" else gzip.compress("".join(lines).encode())
    )
    with pytest.raises(karat.InputError, match="line 7,002: column 'a' has the value 'x"):
        build(path)


def test_many_csv_blocks(table, tmp_path):
    path = write_csv(table, tmp_path / "one.csv")
    check(build(open_source(path, block_bytes=10_000, first_bytes=10_000)), table)
    with pytest.raises(karat.InputError, match="is it a CSV file"):
        build(open_source(path, block_bytes=10_000, first_bytes=20))


def test_a_cut_gz_file(table, tmp_path):
    path = write_gz(table, tmp_path / "one.csv.gz")
    path.write_bytes(path.read_bytes()[:-20_000])
    with pytest.raises(karat.InputError, match=r"one\.csv\.gz"):
        build(path)


def test_other_refusals(folder, tmp_path):
    for call, words in [
        (lambda: build(tmp_path / "nowhere"), "nowhere does not exist"),
        (lambda: build(3), "The data must be a frame, a path"),
        (lambda: build(folder, on_missing="ignore"), "on_missing"),
        (lambda: build(folder, batch_rows=0), "batch_rows"),
        (lambda: build(folder, memory=10_000), "too small"),
        (lambda: build(folder, memory=10**7, batch_rows=10**6), "do not fit"),
        (lambda: karat.coreset_files(folder, problem=P.LeastSquares()), "needs a target"),
        (lambda: build(folder, pipeline=3), "pipeline"),
        (
            lambda: build([folder / "part-000.parquet", write_csv(make(50), tmp_path / "x.csv")]),
            "mixes",
        ),
    ]:
        with pytest.raises(karat.InputError, match=words):
            call()


def test_the_memory_cap_is_honoured(tmp_path):
    """Arrow's peak stays below the cap, though the file is one row group of five times its size."""
    import subprocess

    n = 2_000_000
    rng = np.random.default_rng(0)
    table = pa.table({f"x{i}": rng.standard_normal(n, dtype=np.float32) for i in range(12)})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=n)
    script = (
        "import sys, resource, karat, numpy, pyarrow.dataset, scipy.linalg, karat.io\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "karat.coreset(numpy.random.default_rng(0).standard_normal((1000, 11)))\n"
        "before = peak()\n"
        "core = karat.coreset_files(sys.argv[1], 'x11', memory=int(sys.argv[2]))\n"
        "assert core.certificate.ok and core.n_rows == 2_000_000\n"
        "print((peak() - before) * 1024)\n"
    )
    cap = 60 * 10**6
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "one.parquet"), str(cap)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(done.stdout) < cap
