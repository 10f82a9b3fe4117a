"""A file that karat could not read never replaces one that it can."""

import numpy as np
import pandas as pd
import pytest

import karat
from karat.storage import archive, parquet
from karat.storage.archive import write_atomically


def sales(label):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "y"])
    return frame.assign(shop=[label, "small"] * 200)


@pytest.mark.parametrize("length", [1_700, 5_000, 40_000])
@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_long_labels_of_groups_are_read_again(tmp_path, length, suffix):
    frame, path = sales("x" * length), tmp_path / f"core.{suffix}"
    core = karat.coreset(frame[["a", "b"]], frame.y, groups=frame.shop)
    core.save(path)
    assert set(karat.load(path).groups.tolist()) == {"x" * length, "small"}


@pytest.mark.parametrize("length", [1_700, 40_000])
def test_long_labels_of_cells_are_read_again(tmp_path, length):
    path = tmp_path / "cube.parquet"
    cube = karat.cube(sales("first"), by="shop", target="y", path=path)
    cube.update(sales("x" * length).iloc[::2].assign(a=7.0))
    assert "x" * length in karat.Cube.load(path).cells.labels[0].tolist()


def test_a_cube_that_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    path = tmp_path / "cube.parquet"
    cube = karat.cube(sales("first"), by="shop", target="y", path=path)
    before = path.read_bytes()
    monkeypatch.setattr(parquet, "PADDED", 0)
    with pytest.raises(
        karat.StorageError,
        match=r"was not written.*text of 40,000 characters.*shorten it.*older file.*unchanged",
    ):
        cube.update(sales("x" * 40_000).iloc[::2].assign(a=7.0))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".part"] == []
    assert "first" in karat.Cube.load(path).cells.labels[0].tolist()


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_a_coreset_that_could_not_be_read_is_not_written(tmp_path, monkeypatch, suffix):
    core, path = karat.coreset(sales("first")[["a", "b"]]), tmp_path / f"core.{suffix}"
    core.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(archive, "MOST_VALUES", 5)
    with pytest.raises(karat.StorageError, match=r"was not written.*its header is too large"):
        core.save(path)
    assert path.read_bytes() == before


def test_a_sketch_that_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    sketch, path = karat.Sketch(), tmp_path / "sketch.npz"
    sketch.update(sales("first")[["a", "b"]])
    sketch.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(archive, "MOST_VALUES", 5)
    with pytest.raises(karat.StorageError, match="was not written"):
        sketch.save(path)
    assert path.read_bytes() == before


def test_nothing_is_replaced_if_reading_back_fails(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def refuse(data):
        assert data == b"new"
        raise karat.InputError("no such header")

    with pytest.raises(karat.StorageError, match=r"no such header.*older file there is unchanged"):
        write_atomically(path, lambda file: file.write(b"new"), refuse)
    assert path.read_bytes() == b"old"
