"""Damaged and hostile files: a part of the campaign of ``fuzz.py``, and the claims that it stands
for.
"""

import io
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from storage import damage, fuzz

import karat
from karat import problems as P
from karat.errors import DamagedFileError
from karat.storage.footer import values_of_columns


@pytest.mark.nightly
def test_no_damaged_or_hostile_file_is_believed():
    results = fuzz.campaign(150)
    assert not [name for name in results if "BELIEVED" in name or "RAW" in name]
    assert sum(number for name, number in results.items() if "hostile: refused" in name) > 250


def unbelieved(results):
    return not [name for name in results if "BELIEVED" in name or "RAW" in name]


# pyarrow says so of a broken line that is no UTF-8 (its handler is not called, and reading fails)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_damaged_cubes_and_data_are_noticed():
    """A part of ``python -m storage.damage 3000``."""
    results = damage.campaign(48, seed=1)
    assert unbelieved(results), results
    assert results["cube: refused"] > 15


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_three_thousand_damaged_files():
    results = damage.campaign(2000, seed=2)
    assert unbelieved(results), results
    results = fuzz.campaign(1000, seed=3)
    assert unbelieved(results), results


@pytest.mark.slow
def test_every_bit_of_the_metadata_counts(tmp_path):
    core = karat.coreset(fuzz.X, fuzz.Y)
    core.save(tmp_path / "core.parquet")
    data = (tmp_path / "core.parquet").read_bytes()
    truth, start = fuzz.picture(core), data.rindex(b'"format_version"')
    for at in range(start, len(data), 7):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        (tmp_path / "bad.parquet").write_bytes(bad)
        found = fuzz.outcome(tmp_path / "bad.parquet", lambda p: fuzz.picture(karat.load(p)), truth)
        assert found in ("refused", "refused (InputError)", "unchanged"), at


def test_the_error_is_of_both_kinds(tmp_path):
    (tmp_path / "core.npz").write_bytes(b"PK nothing")
    for kind in (karat.StorageError, karat.InputError, OSError, ValueError):
        with pytest.raises(kind, match=r"core\.npz is not a coreset file, or it is damaged"):
            karat.load(tmp_path / "core.npz")
    assert issubclass(DamagedFileError, karat.StorageError)


def test_a_damaged_header_is_no_warning(tmp_path):
    """Python warns of an escape in the text, before NumPy refuses it."""
    karat.coreset(fuzz.X, fuzz.Y).save(tmp_path / "core.npz")
    with zipfile.ZipFile(tmp_path / "core.npz") as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    members["weights.npy"] = members["weights.npy"].replace(b"'descr'", rb"'\escr'")
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as bad:
        for name, data in members.items():
            bad.writestr(name, data)
    found = fuzz.outcome(tmp_path / "bad.npz", lambda p: fuzz.picture(karat.load(p)), None)
    assert found == "refused"


def test_an_unused_entry_is_not_read(tmp_path):
    """10 MB that unpack to 2.4 GB took 2.4 GB; here 100 kB to 100 MB."""
    import tracemalloc

    data = next(data for name, data in fuzz.hostile() if name == "bomb-unused.npz")
    (tmp_path / "core.npz").write_bytes(data)
    tracemalloc.start()
    with pytest.raises(karat.StorageError, match="does not belong"):
        karat.load(tmp_path / "core.npz")
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_sparse_truth_values_in_parquet(tmp_path):
    from scipy import sparse

    rows = sparse.csr_array(np.random.default_rng(0).random((200, 8)) < 0.3)
    core = karat.coreset(rows, problem=P.Mean())
    core.save(tmp_path / "core.parquet")
    again = karat.load(tmp_path / "core.parquet")
    assert (again.X != core.X).nnz == 0
    assert again.X.dtype == core.X.dtype


def test_a_column_changed_by_another_tool(tmp_path):
    karat.coreset(fuzz.X, fuzz.Y).save(tmp_path / "core.parquet")
    table = pq.read_table(tmp_path / "core.parquet")
    x0 = table["x0"].to_numpy().copy()
    x0[0] += 1e-9
    pq.write_table(table.set_column(0, "x0", pa.array(x0)), tmp_path / "other.parquet")
    with pytest.raises(karat.StorageError, match="digest"):
        karat.load(tmp_path / "other.parquet")


def test_an_array_beyond_its_claim():
    from karat.storage.archive import array_of

    file = io.BytesIO()
    np.save(file, np.arange(5.0))
    with pytest.raises(ValueError, match="claims"):
        array_of(file.getvalue() + b"\0")


def test_the_footer_says_what_pyarrow_reads(tmp_path):
    rows = pa.table({"a": [1.0, 2.0, 3.0], "b": [[1, 2], [], None], "c": ["x", None, "y"]})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=2)
    data, metadata = (
        (tmp_path / "rows.parquet").read_bytes(),
        pq.read_metadata(tmp_path / "rows.parquet"),
    )
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    assert values_of_columns(data) == [
        [group.column(i).num_values for i in range(group.num_columns)] for group in groups
    ]


@pytest.mark.parametrize("bit", [0, 4, 7])
def test_a_damaged_footer_does_not_end_the_process(bit, tmp_path):
    """The hashes of a cube are lists: pyarrow aborts where it looks at their damaged footer."""
    rows = pa.table({"g": ["a", "b"] * 20, "x": np.arange(40.0), "y": np.arange(40.0) ** 2})
    karat.cube(rows, "y", by="g").save(tmp_path / "cube.parquet")
    data = (tmp_path / "cube.parquet").read_bytes()
    footer = int.from_bytes(data[-8:-4], "little")
    for at in range(len(data) - 8 - footer, len(data), 5):
        bad = bytearray(data)
        bad[at] ^= 1 << bit
        (tmp_path / "bad.parquet").write_bytes(bad)
        try:
            read = karat.Cube.load(tmp_path / "bad.parquet")
        except karat.InputError:
            continue
        assert read.select().X.equals(karat.Cube.load(tmp_path / "cube.parquet").select().X), at
