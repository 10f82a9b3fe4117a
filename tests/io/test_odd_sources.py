"""Odd sources: each is read exactly, or refused with a message; no row counts twice and none is
lost.

The oracle is a plain sum over the rows that a source is meant to have.
"""

import bz2
import decimal
import gzip
import os
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import karat
from karat import InputError
from karat import problems as P

RNG = np.random.default_rng(3)
N = 600
FRAME = pd.DataFrame(RNG.standard_normal((N, 3)), columns=["a", "b", "y"])
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


def exact(core, frame, columns=("a", "b"), target="y"):
    """The coreset has the second moments of the rows of a frame."""
    D = np.column_stack([np.ones(len(frame)), *(frame[c] for c in (*columns, target))])
    K = np.column_stack(
        [np.ones(len(core)), *(np.asarray(core.X[c]) for c in columns), np.asarray(core.y)]
    )
    assert core.X.column_names == list(columns)
    np.testing.assert_allclose((K.T * core.weights) @ K, D.T @ D, rtol=1e-9, atol=1e-8)
    assert core.certificate.ok


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    for i in range(3):
        pq.write_table(TABLE.slice(200 * i, 200), place / f"p{i}.parquet")
    return place


# Sources that would count twice


def twice(folder):
    first = folder / "p0.parquet"
    yield "listed twice", [first, first]
    yield "another spelling", [first, f"{folder}/./p0.parquet"]
    yield "by way of its folder", [first, f"{folder}/../data/p0.parquet"]
    yield "overlapping folder and file", [folder, first]
    yield "overlapping pattern", [f"{folder}/p*.parquet", first]
    yield "folder twice", [folder, str(folder) + "/"]
    (folder.parent / "link.parquet").symlink_to(first)
    yield "a link beside its file", [first, folder.parent / "link.parquet"]
    (folder.parent / "hard.parquet").hardlink_to(first)
    yield "a hard link", [first, folder.parent / "hard.parquet"]
    yield "address and path", [f"file://{first}", first]


@pytest.mark.parametrize("i", range(9))
def test_repeats_are_refused(i, folder):
    source = list(twice(folder))[i][1]
    with pytest.raises(InputError, match="count twice"):
        karat.coreset_files(source, "y")


def test_links_inside_a_folder(folder, tmp_path):
    (folder / "self").symlink_to(folder)  # a loop ends
    exact(karat.coreset_files(folder, "y"), FRAME)
    exact(karat.coreset_files(f"{folder}/**/*.parquet", "y"), FRAME)
    (tmp_path / "root").symlink_to(folder)  # a linked root works
    exact(karat.coreset_files(tmp_path / "root", "y"), FRAME)
    (folder / "again.parquet").symlink_to(folder / "p1.parquet")
    with pytest.raises(InputError, match="same file"):
        karat.coreset_files(folder, "y")
    (folder / "again.parquet").unlink()
    (folder / "s1").mkdir()
    pq.write_table(TABLE, folder / "s1" / "more.parquet")
    (folder / "s2").symlink_to(folder / "s1")
    with pytest.raises(InputError, match="same folder"):
        karat.coreset_files(folder, "y")


# Datasets


def test_datasets_are_scanned(folder):
    dataset = pads.dataset(folder)
    exact(karat.coreset_files(dataset, "y"), FRAME)
    some = dataset.filter(pc.field("a") > 0)
    core = karat.coreset_files(some, "y")
    exact(core, FRAME[FRAME.a > 0])
    assert core.n_rows == (FRAME.a > 0).sum()
    assert karat.verify_files(core, some).ok
    assert (
        karat.coreset_files(dataset.scanner(filter=pc.field("b") > 0), "y").n_rows
        == (FRAME.b > 0).sum()
    )


def test_datasets_keep_partitioning_and_file_system(tmp_path):
    for year in (2023, 2024):
        (tmp_path / "x" / str(year)).mkdir(parents=True)
        pq.write_table(
            TABLE.slice(300 * (year - 2023), 300), tmp_path / "x" / str(year) / "p.parquet"
        )
    partitioning = pads.partitioning(pa.schema([("year", pa.int32())]))
    dataset = pads.dataset(
        "x",
        filesystem=pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()),
        partitioning=partitioning,
    )
    frame = FRAME.assign(year=[2023] * 300 + [2024] * 300)
    exact(karat.coreset_files(dataset, "y"), frame, ("a", "b", "year"))
    text = pads.dataset(pa.table({"a": [1.0, 2, 3], "y": [3.0, 4, 9]}))
    assert karat.coreset_files(text, "y").n_rows == 3
    mixture = karat.coreset_files(
        pads.dataset(TABLE), columns=["a", "b"], problem=P.GaussianMixture(2)
    )
    assert mixture.certificate.ok


# The index of pandas


def test_the_index_of_pandas_is_no_feature(tmp_path):
    some = FRAME[FRAME.a > 0]
    exact(karat.coreset_files(some, "y"), some)
    some.to_parquet(tmp_path / "some.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "some.parquet").names
    exact(karat.coreset_files(tmp_path / "some.parquet", "y"), some)
    some.to_csv(tmp_path / "some.csv")
    exact(karat.coreset_files(tmp_path / "some.csv", "y"), some)
    some.to_csv(tmp_path / "some.tsv", sep="\t")
    exact(karat.coreset_files(tmp_path / "some.tsv", "y"), some)


# CSV


def lines():
    return FRAME.to_csv(index=False).splitlines()


def write(path, rows, end="\n"):
    path.write_bytes((end.join(rows) + end).encode())
    return path


@pytest.mark.parametrize("on_missing", ["error", "drop"])
@pytest.mark.parametrize("closing", [None, 300])
def test_an_unclosed_quote(on_missing, closing, tmp_path):
    rows = ["name,a,b,y", *(f"n{i},{line}" for i, line in enumerate(lines()[1:]))]
    rows[50] = '"' + rows[50]
    if closing:
        rows[closing] = '"' + rows[closing].replace(",", '",', 1)
    with pytest.raises(InputError, match="line 51: a quote opens a value and is not closed"):
        karat.coreset_files(
            write(tmp_path / "d.csv", rows), "y", columns=["a", "b"], on_missing=on_missing
        )


def test_quotes_that_hold_a_broken_row_together(tmp_path):
    rows = ["name,a,b,y", *(f"n{i},{line}" for i, line in enumerate(lines()[1:]))]
    rows[50] = 'x,"1,2,3'
    rows[90] = '7,",8,9,10'
    with pytest.raises(InputError, match="41 lines"):
        karat.coreset_files(
            write(tmp_path / "d.csv", rows), "y", columns=["a", "b"], on_missing="drop"
        )


TEXTS = [
    "1_000",
    "\uff11\uff12",
    "true",
    "+5",
    " 5 ",
    "5\t",
    "1e5",
    ".5",
    "5.",
    "0x10",
    "1 0",
    "--1",
    "e5",
    "\u0663",
    "1d5",
    "False",
    "",
    "NA",
]


@pytest.mark.parametrize("text", TEXTS)
def test_drop_reads_what_strict_reads(text, tmp_path):
    rows = lines()
    rows[300] = f"{text},{rows[300].split(',', 1)[1]}"
    path = write(tmp_path / "d.csv", rows)
    dropped = karat.coreset_files(path, "y", on_missing="drop")
    try:
        strict = karat.coreset_files(path, "y")
        np.testing.assert_allclose(dropped.weights.sum(), strict.weights.sum())
        assert dropped.provenance["dropped"]["missing"] == 0
    except InputError:
        assert dropped.provenance["dropped"]["missing"] == 1


def test_a_csv_without_a_header(tmp_path):
    with pytest.raises(InputError, match="looks like a row"):
        karat.coreset_files(write(tmp_path / "d.csv", lines()[1:]))
    core = karat.coreset_files(write(tmp_path / "e.csv", ["0,1,2", *lines()[1:]]), "2")
    exact(core, FRAME.set_axis(["0", "1", "2"], axis=1), ("0", "1"), "2")
    assert any("read as names" in note for note in core.certificate.notes)


def test_compressed_neighbours(tmp_path):
    rows = lines()
    write(tmp_path / "p0.csv", rows[:301])
    (tmp_path / "p1.csv.bz2").write_bytes(bz2.compress("\n".join([rows[0], *rows[301:]]).encode()))
    exact(karat.coreset_files(tmp_path, "y"), FRAME)
    (tmp_path / "p2.csv.xz").write_bytes(b"")
    with pytest.raises(InputError, match=r"compression of .*p2\.csv\.xz"):
        karat.coreset_files(tmp_path, "y")


def test_names_in_capitals(tmp_path):
    (tmp_path / "D.CSV.GZ").write_bytes(gzip.compress("\n".join(lines()).encode()))
    exact(karat.coreset_files(tmp_path / "D.CSV.GZ", "y"), FRAME)


def test_carriage_returns_alone(tmp_path):
    with pytest.raises(InputError, match="carriage returns"):
        karat.coreset_files(write(tmp_path / "d.csv", lines(), "\r"), "y")
    exact(karat.coreset_files(write(tmp_path / "d.csv", lines(), "\r\n"), "y"), FRAME)


def test_the_line_of_a_bad_value(tmp_path):
    """Also if the same text is in another column before, and after empty lines."""
    rows = ["name,a,b,y", *(f"oops,{line}" for line in lines()[1:])]
    rows[400] = "oops,1.5,oops,3"
    rows.insert(20, "")
    with pytest.raises(InputError, match=r"line 402: column 'b' has the value 'oops'"):
        karat.coreset_files(write(tmp_path / "d.csv", rows), "y", columns=["a", "b"])
    rows[401] = "oops,1.5,3"
    with pytest.raises(InputError, match=r"line 402: 3 values"):
        karat.coreset_files(write(tmp_path / "d.csv", rows), "y", columns=["a", "b"])


# Types, folders, names


def test_decimals_are_the_nearest_doubles(tmp_path):
    texts = [f"{RNG.integers(-(10**12), 10**12)}.{RNG.integers(10**6):06d}" for _ in range(N)]
    table = TABLE.set_column(
        0, "a", pa.array([decimal.Decimal(t) for t in texts], pa.decimal128(25, 6))
    )
    pq.write_table(table, tmp_path / "d.parquet")
    pacsv.write_csv(
        TABLE.set_column(0, "a", pa.array([float(t) for t in texts])), tmp_path / "d.csv"
    )
    one, other = (karat.coreset_files(tmp_path / f"d.{kind}", "y") for kind in ("parquet", "csv"))
    assert one.provenance["content"]["sums"] == other.provenance["content"]["sums"]
    assert set(np.asarray(one.X["a"]).tolist()) <= {float(t) for t in texts}


def hive(place, values):
    for i, value in enumerate(values):
        (place / f"store={value}").mkdir(parents=True)
        pq.write_table(TABLE.slice(100 * i, 100), place / f"store={value}" / "p.parquet")
    return karat.coreset_files(place, "y", groups="store")


def test_folders_are_groups(tmp_path):
    assert set(hive(tmp_path / "a", ["007", "7", "8"]).groups) == {"007", "7", "8"}
    assert set(hive(tmp_path / "b", ["7", "8"]).groups) == {7, 8}
    assert set(hive(tmp_path / "c", ["a%20b", "c"]).groups) == {"a b", "c"}
    assert set(hive(tmp_path / "d", ["1.0", "1"]).groups) == {"1.0", "1"}
    with pytest.raises(InputError, match="'store'"):
        hive(tmp_path / "e", ["1", "__HIVE_DEFAULT_PARTITION__"])


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_names_that_pyarrow_reserves(kind, tmp_path):
    table = TABLE.rename_columns(["__filename", "__batch_index", "y"])
    if kind == "parquet":
        pq.write_table(table, tmp_path / "d.parquet", row_group_size=170)
    else:
        with pa.ipc.new_file(tmp_path / "d.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=170)
    core = karat.coreset_files(tmp_path / f"d.{kind}", "y", batch_rows=100)
    exact(core, table.to_pandas(), ("__filename", "__batch_index"))


@pytest.mark.parametrize(
    "keys",
    [
        [f"k\xe9{i}".encode("latin-1") for i in range(N)],
        [bytes([i % 256, i // 256]) for i in range(N)],
    ],
)
def test_keys_that_are_not_text(keys, tmp_path):
    table = TABLE.append_column("k", pa.array(keys, pa.binary()))
    pq.write_table(table, tmp_path / "d.parquet")
    with pytest.raises(InputError, match="'k' holds bytes that are not text"):
        karat.coreset_files(tmp_path / "d.parquet", "y", key="k")


def test_latin_1_keys_in_csv(tmp_path):
    rows = ["k,a,b,y", *(f"k\xe9{i},{line}" for i, line in enumerate(lines()[1:]))]
    (tmp_path / "d.csv").write_bytes("\n".join(rows).encode("latin-1"))
    with pytest.raises(InputError, match="'k' holds bytes that are not text"):
        karat.coreset_files(tmp_path / "d.csv", "y", key="k")


# Arguments and places

WRONG = {
    "NUL in a path": lambda f: karat.coreset_files("a\0b.parquet", "y"),
    "a number": lambda f: karat.coreset_files([3], "y"),
    "target=3": lambda f: karat.coreset_files(f, 3),
    "targets of numbers": lambda f: karat.coreset_files(f, [3]),
    "weight=3": lambda f: karat.coreset_files(f, "y", sample_weight=3),
    "negative batch_rows": lambda f: karat.coreset_files(f, "y", batch_rows=-5),
    "batch_rows of a table": lambda f: karat.coreset_files(TABLE, "y", batch_rows=-5),
    "memory in words": lambda f: karat.coreset_files(f, "y", memory="1GB"),
    "a missing folder": lambda f: karat.coreset_files(f, "y", checkpoint=f / "none" / "c.npz"),
    "another digest": lambda f: karat.coreset_files(f, "y", digest="md5"),
    "two file systems": lambda f: karat.coreset_files(
        [f / "p0.parquet", "memory://x.parquet"], "y"
    ),
    "NUL in a coreset": lambda f: karat.load("a\0b.npz"),
    "a checkpoint of a dataset": lambda f: karat.coreset_files(
        pads.dataset(f), "y", checkpoint=f / "c.npz"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name, folder):
    if "systems" in name:
        fsspec = pytest.importorskip("fsspec")
        with fsspec.open("memory://x.parquet", "wb") as file:
            pq.write_table(TABLE, file)
    with pytest.raises(InputError) as caught:
        WRONG[name](folder)
    assert len(str(caught.value)) > 15
    if "words" in name:
        assert "integer of bytes" in str(caught.value)
    if "systems" in name:
        assert "different file systems" in str(caught.value)


# Checkpoints


class Stop(Exception):
    pass


def stopped(after):
    calls = []

    def progress(done, total):
        calls.append(done)
        if len(calls) > after:
            raise Stop

    return progress


def run(folder, path, stop=None, **options):
    return karat.coreset_files(
        folder, "y", checkpoint=path, batch_rows=100, progress=stop, **options
    )


def test_a_checkpoint_knows_its_pipeline(folder, tmp_path):
    features = FRAME[["a", "b"]]
    standard, other = StandardScaler().fit(features), MinMaxScaler().fit(features)
    shifted = StandardScaler().fit(features + 1)
    path = tmp_path / "c.npz"
    with pytest.raises(Stop):
        run(folder, path, stopped(3), pipeline=standard)
    for wrong in (other, shifted):
        with pytest.raises(InputError, match="function"):
            run(folder, path, pipeline=wrong)
    assert run(folder, path, pipeline=standard).certificate.ok
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".lock"] == []


def test_a_checkpoint_knows_its_function(folder, tmp_path):
    path = tmp_path / "c.npz"
    sine, cosine = (
        P.Kernel(lambda X, y, f=f: np.column_stack([f(X), y])) for f in (np.sin, np.cos)
    )
    with pytest.raises(Stop):
        run(folder, path, stopped(3), problem=sine)
    with pytest.raises(InputError, match="function"):
        run(folder, path, problem=cosine)
    assert run(folder, path, problem=sine).n_rows == N


def test_files_in_another_order(folder, tmp_path):
    files = sorted(folder.iterdir())
    with pytest.raises(Stop):
        run(files, tmp_path / "c.npz", stopped(2))
    with pytest.raises(InputError, match="order of the files"):
        run(files[::-1], tmp_path / "c.npz")


def test_a_source_that_changes_between_passes():
    tables = [TABLE, TABLE.set_column(0, "a", pa.array(FRAME.a + 1))]

    class Fickle:
        calls = 0

        def __len__(self):  # what has a length is a table, which can be read again
            return N

        def __arrow_c_stream__(self, schema=None):
            self.calls += 1
            return tables[self.calls > 1].__arrow_c_stream__(schema)

    for content in (True, False):
        with pytest.raises(InputError, match="second pass read other rows"):
            karat.coreset_files(
                Fickle(), columns=["a", "b"], problem=P.GaussianMixture(2), content=content
            )


# Digests, counts, absorbed rows, names of columns


def test_a_digest_of_values_not_of_files(folder, tmp_path):
    one = karat.coreset_files(folder, "y", digest="sha256")
    pacsv.write_csv(TABLE, tmp_path / "d.csv")
    other = karat.coreset_files(tmp_path / "d.csv", "y", digest="sha256", batch_rows=70)
    assert one.provenance["digest"] == other.provenance["digest"]
    with pytest.raises(Stop):
        run(folder, tmp_path / "c.npz", stopped(3), digest="sha256")
    assert (
        run(folder, tmp_path / "c.npz", digest="sha256").provenance["digest"]
        == one.provenance["digest"]
    )
    assert karat.verify_files(one, folder).ok
    forged = one.provenance["digest"] | {"value": "0" * 64}
    from dataclasses import replace

    found = karat.verify_files(replace(one, provenance=one.provenance | {"digest": forged}), folder)
    assert found.data == "changed"
    assert not found.ok


def test_rows_left_out_are_not_represented(tmp_path):
    frame = FRAME.copy()
    frame.loc[:9, "a"] = np.nan
    frame.to_parquet(tmp_path / "d.parquet", index=False)
    core = karat.coreset_files(tmp_path / "d.parquet", "y", on_missing="drop")
    assert (core.n_rows, core.n_represented) == (N, N - 10)
    assert f"of {N - 10} rows" in repr(core)
    from karat.core.export import coreset_facts

    assert coreset_facts(core)["rows"] == N - 10


def test_verify_checks_the_rows_of_an_absorbed_coreset():
    from dataclasses import replace

    X, y = FRAME[["a", "b"]].to_numpy(), FRAME.y.to_numpy()
    core = karat.coreset(X, y, P.Ridge(5.0, absorb="diagonal"))
    assert core.verify(X, y).ok
    moved = replace(core, indices=np.sort((core.indices + 1) % N))
    assert not moved.verify(X, y).ok


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
@pytest.mark.parametrize("columns", [[0, 1], [("a", "x"), ("a", "z")], ["a", "b"]])
def test_names_of_columns_come_back(columns, suffix, tmp_path):
    X = FRAME[["a", "b"]].copy()
    X.columns = pd.MultiIndex.from_tuples(columns) if isinstance(columns[0], tuple) else columns
    core = karat.coreset(X, FRAME.y)
    core.save(tmp_path / f"core.{suffix}")
    again = karat.load(tmp_path / f"core.{suffix}")
    assert list(again.X.columns) == columns
    assert again.verify(X, FRAME.y).ok
    assert again.merge(karat.coreset(X + 1.0, FRAME.y)).n_rows == 2 * N


def test_threads_may_read_one_source(folder):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(karat.coreset_files(folder, "y")))
        for _ in range(3)
    ]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len({core.weights.tobytes() for core in found}) == 1


def test_an_unreadable_folder(folder):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    folder.chmod(0)
    with pytest.raises(InputError, match=r"cannot be searched|no file"):
        karat.coreset_files(folder, "y")
    folder.chmod(0o700)
