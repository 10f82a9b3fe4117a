"""No rows count twice, by whatever way they came into a cube."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cube import twice
from cube.conftest import FEATURES, sales

import karat
from karat import InputError, StorageError
from karat.cubes.hashes import key_hashes
from karat.errors import DamagedFileError


def made(rows):
    return karat.cube(rows, target="y", by=["region", "day"], columns=FEATURES)


@pytest.fixture(scope="module")
def parts():
    return [sales(600, 3, seed=seed) for seed in range(4)]


def nested(parts, depth):
    """A cube of the last rows, merged into others one after the other."""
    found = made(parts[3])
    for rows in parts[:depth]:
        found = made(rows).merge(found)
    return found


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_rows_of_nested_merges(parts, depth):
    cube = nested(parts, depth)
    for again in (cube, karat.Cube.from_bytes(cube.to_bytes())):
        with pytest.raises(InputError, match="count twice"):
            again.update(parts[3])
        with pytest.raises(InputError, match="count twice"):
            again.merge(made(parts[3]))
    with pytest.raises(InputError, match="count twice"):
        made(parts[3]).merge(cube)
    cube = made(sales(600, 3, seed=9)).update(parts[3])
    with pytest.raises(InputError, match="count twice"):
        cube.merge(nested(parts, depth))


def test_rows_that_are_gone_may_come_again(parts):
    other = made(parts[0]).update(parts[1].assign(region="NZ"))
    other.drop(region="NZ")
    cube = made(parts[2]).merge(other)
    cube.update(parts[1].assign(region="NZ"))
    assert cube.select().n_rows == 1800


def test_rows_of_a_rollup(parts):
    cube = made(parts[0]).rollup("region")
    with pytest.raises(InputError, match="count twice"):
        cube.update(parts[0])
    cube.update(parts[1])
    assert cube.select().n_rows == 1200


def test_rows_that_are_equal_by_accident(parts):
    """Few values: rows are equal to others all the time, and a batch has few that are not there."""
    rows = pd.DataFrame({"a": np.arange(2000) % 7, "y": np.arange(2000) % 5, "k": "one"})
    cube = karat.cube(rows, target="y", by="k")
    cube.update(rows.iloc[:30])  # 30 distinct rows, and all of them are there
    with pytest.raises(InputError, match="count twice"):
        cube.update(rows.iloc[:30])  # the same batch


@pytest.mark.parametrize(
    ("new", "repeated", "refused"), [(10, 0, True), (11, 0, False), (10, 5, True), (10, 6, False)]
)
def test_the_shares_that_decide(parts, new, repeated, refused):
    """At least 90 of 100 rows are there already, and at least 95 are distinct."""
    cube, first = made(parts[0]), parts[0]
    batch = pd.concat([first.iloc[: 100 - new - repeated], *[first.iloc[:1]] * repeated])
    batch = pd.concat([batch, parts[1].iloc[:new]])
    assert len(batch) == 100
    if refused:
        with pytest.raises(InputError, match="90 of these 100 rows are already in the cube"):
            cube.update(batch)
    else:
        cube.update(batch)
    assert cube.select().n_rows == 600 + 100 * (not refused)


def test_rows_without_hashes_are_not_compared(parts):
    cube = made(parts[0]).update(parts[0].iloc[:50], content=False)
    assert cube.select().n_rows == 650
    with pytest.raises(InputError, match="count twice"):
        cube.update(parts[0].iloc[:50])


@pytest.mark.parametrize(
    "keys",
    [
        np.arange(600),
        np.arange(600).astype(np.uint16),
        np.arange(600) + 0.5,
        np.array([f"köy {i}" for i in range(600)]),
        np.arange(600, dtype=np.uint64) + np.uint64(2**63),
    ],
)
def test_keys_of_every_type(parts, keys, tmp_path):
    rows = parts[0].assign(id=keys)
    cube = karat.cube(rows, target="y", by="region", columns=FEATURES, key="id")
    cube.save(tmp_path / "cube.parquet", hashes="beside")
    cube = karat.Cube.load(tmp_path / "cube.parquet")
    with pytest.raises(InputError, match=r"1 of the keys in column 'id' .*\(one comes again in"):
        cube.update(parts[1].iloc[:1].assign(id=keys[7:8]))
    with pytest.raises(InputError, match="key of column 'id' comes twice"):
        cube.update(
            parts[1]
            .iloc[:2]
            .assign(id=np.full(2, "x" if keys.dtype.kind == "U" else keys[-1] + keys.dtype.type(1)))
        )


def test_seven_is_seven(parts):
    """Keys are compared by their values; text is no number."""
    rows = parts[0].assign(id=np.arange(600))
    cube = karat.cube(rows, target="y", by="region", columns=FEATURES, key="id")
    with pytest.raises(InputError, match="count twice"):
        cube.update(parts[1].iloc[:1].assign(id=7.0))
    words = [key_hashes(np.array([key])) for key in (7, 7.0, "7", 7.5, 2**63 + 7, -7)]
    assert (words[0] == words[1]).all()
    assert len({tuple(pair[0]) for pair in words}) == 5


def test_hashes_in_a_file_of_their_own(parts, tmp_path):
    path = tmp_path / "cube.parquet"
    cube = karat.cube(
        parts[0], target="y", by="region", columns=FEATURES, path=path, hashes="beside"
    )
    files = set(tmp_path.glob("cube.*.hashes.parquet"))
    assert len(files) == 1
    assert "row_hash" not in pq.read_schema(path).names
    before = {file: file.read_bytes() for file in (path, *files)}
    cube.update(parts[1])
    (now,) = tmp_path.glob("cube.*.hashes.parquet")
    assert now not in files
    loaded = karat.Cube.load(path)
    with pytest.raises(InputError, match="count twice"):
        loaded.update(parts[1].iloc[:20])
    # A process that is killed before the cube is written has written other hashes only.
    for file, data in before.items():
        file.write_bytes(data)
    assert karat.Cube.load(path).select().n_rows == 600
    with pytest.raises(InputError, match="count twice"):
        karat.Cube.load(path).update(parts[0].iloc[:20])
    files.pop().unlink()
    with pytest.raises(StorageError, match=r"a file of their own, cube\..*load the cube with"):
        karat.Cube.load(path)
    assert karat.Cube.load(path, hashes=False).update(parts[0].iloc[:20]).select().n_rows == 620
    with pytest.raises(InputError, match="hashes must be 'inside'"):
        cube.save(path, hashes="elsewhere")
    with pytest.raises(StorageError, match="a file of their own"):
        karat.Cube.from_bytes(before[path])
    assert karat.Cube.from_bytes(cube.to_bytes()).select().n_rows == 1200
    cube.save(tmp_path / "other.parquet", hashes="inside")
    assert {file.name for file in tmp_path.glob("other*")} == {"other.parquet"}


def test_damaged_hashes(parts, tmp_path):
    path = tmp_path / "cube.parquet"
    made(parts[0]).save(path, hashes="beside")
    (file,) = tmp_path.glob("cube.*.hashes.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedFileError):
        karat.Cube.load(path)


@pytest.mark.parametrize("seed", range(0, 96, 5))
def test_rows_that_come_again_are_refused(seed, tmp_path):
    twice.again(seed, tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_legitimate_changes_are_not_refused(seed, tmp_path):
    twice.legitimate(seed, tmp_path)


@pytest.mark.nightly
def test_three_hundred_sequences_of_either_kind():
    assert not twice.campaign(300, seed=10_000)
