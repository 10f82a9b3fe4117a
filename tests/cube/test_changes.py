"""Changes of cubes: exact afterwards, of the right cells only, and of the file in one step or not
at all.
"""

import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cube.conftest import FEATURES, proves, sales, slice_of

import karat
from karat import InputError, StorageError

ROWS = ("starts", "weights", "numbers", "keys")


def same_cells(first, second, which):
    """Whether cells are the same bit for bit."""
    one, two = (cells.chosen(np.asarray(which(cells))) for cells in (first, second))
    assert all(np.array_equal(a, b) for a, b in zip(one.columns, two.columns, strict=True))
    assert all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ROWS)
    assert one.certificates == two.certificates


def others(day):
    return lambda cells: np.flatnonzero(cells.labels[1] != np.datetime64(day))


def test_update_adds_rows_and_cells(cube, frame):
    before = cube.cells
    late = sales(600, 1, seed=9, start="2026-02-01").assign(id=lambda f: f.id + 10**6)
    new = sales(300, 2, seed=10, start="2026-03-01").assign(id=lambda f: f.id + 2 * 10**6)
    assert cube.update(pd.concat([late, new])) is cube
    assert len(cube) == 66
    now = pd.concat([frame, late, new])
    proves(cube.select(), slice_of(now, np.ones(len(now), dtype=bool)))
    proves(
        cube.select(region="EU", day="2026-02-01"),
        slice_of(now, (now.region == "EU") & (now.day == "2026-02-01")),
    )
    kept = slice_of(now, now.region == "EU")
    core = cube.select(region="EU")
    if cube.rows == "real":
        np.testing.assert_array_equal(core.keys, kept.id.to_numpy()[core.indices])
    changed, later = np.datetime64("2026-02-01"), np.datetime64("2026-03-01")
    same_cells(
        before,
        cube.cells,
        lambda cells: np.flatnonzero((cells.labels[1] != changed) & (cells.labels[1] < later)),
    )
    assert [change["change"] for change in cube.history] == ["build", "update"]
    assert cube.cells.origins[list(cube.cells.labels[1]).index(np.datetime64("2026-02-01"))] == (
        0,
        1,
    )
    with pytest.raises(InputError, match="count twice"):
        cube.update(pd.concat([late, new]))
    with pytest.raises(InputError, match="count twice"):
        cube.update(frame)
    with pytest.raises(InputError, match=r"600 of the keys in column 'id' .* count twice"):
        cube.update(late.assign(region="NZ"))
    cube.update(late.assign(region="NZ", id=late.id + 10**7))
    assert cube.select(region="NZ").n_rows == len(late)


def test_replace_rebuilds_the_cells_that_occur(cube, frame):
    """Late, deleted, corrected, relabelled and re-weighted rows."""
    before = cube.cells
    day = frame[frame.day == "2026-01-30"]
    corrected = day[day.id % 5 != 0].assign(price=lambda f: f.price * 1.01)
    cube.replace(corrected)
    same_cells(before, cube.cells, others("2026-01-30"))
    now = pd.concat([frame[frame.day != "2026-01-30"], corrected])
    proves(
        cube.select(day=slice("2026-01-29", "2026-01-31")),
        slice_of(now, (now.day >= "2026-01-29") & (now.day <= "2026-01-31")),
    )
    if cube.rows == "real":
        assert not cube.select(day="2026-01-30").contains(day[day.id % 5 == 0].id).any()
    cube.replace(day)  # and back again
    same_cells(before, cube.cells, others("2026-01-30"))
    proves(cube.select(), slice_of(frame, np.ones(len(frame), dtype=bool)))


def test_drop_and_merge(cube, frame):
    early = karat.cube(
        frame[frame.day < "2026-02-01"],
        target="y",
        by=["region", "day"],
        columns=FEATURES,
        key="id",
        rows=cube.rows,
    )
    late = karat.cube(
        frame[frame.day >= "2026-01-31"],
        target="y",
        by=["region", "day"],
        columns=FEATURES,
        key="id",
        rows=cube.rows,
    )
    late.drop(day="2026-01-31")
    early.merge(late)
    assert len(early) == len(cube)
    proves(early.select(), slice_of(frame, np.ones(len(frame), dtype=bool)))
    with pytest.raises(InputError, match="count twice"):
        early.merge(late)
    cube.drop({"region": "EU"}, day=slice(None, "2026-01-31"))
    rows = slice_of(frame, ~((frame.region == "EU") & (frame.day <= "2026-01-31")))
    proves(cube.select(), rows)
    with pytest.raises(InputError, match="There is no cell"):
        cube.drop(day=slice("2030-01-01", None))
    with pytest.raises(InputError, match="Say which"):
        cube.drop()
    with pytest.raises(InputError, match="same arguments"):
        cube.merge(karat.cube(frame, target="y", by="region", columns=FEATURES, rows=cube.rows))
    other = {"real": "synthetic", "synthetic": "real"}[cube.rows]
    with pytest.raises(InputError, match=f"build it again with rows='{cube.rows}'"):
        cube.merge(karat.cube(frame, target="y", by="region", columns=FEATURES, rows=other))
    with pytest.raises(InputError, match="no cell would be left"):
        cube.drop(region=["EU", "US", "AP"])


def test_copies(cube, frame):
    other = pickle.loads(pickle.dumps(cube))
    other.drop(region="EU")
    assert (len(cube), len(other)) == (60, 40)
    dask = pytest.importorskip("dask.dataframe")
    more = sales(900, 2, seed=12, start="2026-04-01").assign(id=lambda f: f.id + 10**6)
    cube.update(dask.from_pandas(more, npartitions=3, sort=False))
    proves(cube.select(day="2026-04"), slice_of(more, np.ones(len(more), dtype=bool)))
    assert cube.cells.origins[-1] == (1,)


def test_a_file_that_any_tool_opens(cube, frame, tmp_path):
    path = tmp_path / "cube.parquet"
    cube.save(path)
    table = pd.read_parquet(path, filters=[("region", "==", "EU")])
    real = cube.rows == "real"
    shown = ["region", "day", *FEATURES, "y", "weight", "row", *(["key"] if real else [])]
    assert list(table.columns) == [*shown, "key_hash", "key_hash_low"]
    assert table.key_hash.map(len).sum() == (frame.region == "EU").sum()
    assert np.isclose(table.weight.sum(), (frame.region == "EU").sum())
    if real:
        by_key = frame.set_index("id").loc[table.key]
        np.testing.assert_array_equal(table.price, by_key.price)
    else:
        assert (table.row == -1).all()
    again = karat.Cube.load(path)
    assert again.cells.certificates == cube.cells.certificates
    assert again.history == cube.history
    assert again.to_bytes() == cube.to_bytes()
    proves(again.select(region="AP"), slice_of(frame, frame.region == "AP"))
    assert again.select(region="AP").provenance["changes"][0]["change"] == "build"
    core = again.select(region="AP")
    core.save(tmp_path / "core.parquet")
    assert karat.load(tmp_path / "core.parquet").certificate.ok
    with pytest.raises(InputError, match=r"a cube, not a coreset.*Cube\.load"):
        karat.Coreset.load(path)
    with pytest.raises(InputError, match="not a cube"):
        karat.Cube.load(tmp_path / "core.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.parquet").write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        karat.Cube.load(tmp_path / "bad.parquet")
    with pytest.raises(InputError, match=r"saved as \.parquet"):
        cube.save(tmp_path / "cube.npz")


def test_changes_are_written(cube, frame, tmp_path):
    path = tmp_path / "cube.parquet"
    cube.save(path)
    other = karat.Cube.load(path)
    cube.drop(day="2026-01-30")
    assert karat.Cube.load(path).to_bytes() == cube.to_bytes()
    with pytest.raises(StorageError, match="Another process has changed"):
        other.drop(day="2026-01-31")
    before = path.read_bytes()
    wrong = frame[frame.day == "2026-01-30"].assign(price=np.nan)
    with pytest.raises(InputError, match="price"):
        cube.update(wrong)
    assert path.read_bytes() == before
    assert len(cube) == 57
    assert sorted(p.name for p in tmp_path.iterdir()) == [".cube.parquet.lock", "cube.parquet"]


KILLED = """
import sys, karat
path, rows, kind = sys.argv[1:]
cube = karat.Cube.load(path)
print("ready", flush=True)
cube.drop(day="2026-01-31") if kind == "drop" else getattr(cube, kind)(rows)
"""


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "wait"), [("update", 0.05), ("replace", 0.02), ("drop", 0.0)])
def test_a_killed_change_leaves_the_old_file_or_the_new(cube, frame, tmp_path, kind, wait):
    """A few kills here; ``python -m cube.kills 100`` makes a hundred."""
    path, rows = tmp_path / "cube.parquet", tmp_path / "rows.parquet"
    cube.save(path)
    frame[frame.day == "2026-01-31"].to_parquet(rows)
    before = pq.read_table(path)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, path, rows, kind], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
    found = karat.Cube.load(path)
    assert found.history[-1]["change"] == ("build" if pq.read_table(path).equals(before) else kind)
    found.drop(day="2026-01-30")  # the next change removes what is left over
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_cells_of_rows_without_values(frame):
    """A label all of whose rows are left out is no cell; before, it was refused for its weights."""
    gaps = frame.assign(price=frame.price.where(frame.region != "AP"))
    gaps.loc[gaps.index[:500], "size"] = np.nan
    options = {"target": "y", "by": ["region", "day"], "columns": FEATURES, "on_missing": "drop"}
    cube = karat.cube(gaps, **options, memory=10**6)
    whole = gaps.dropna()
    assert cube.labels("region").tolist() == ["EU", "US"]
    proves(cube.select(), slice_of(whole, np.ones(len(whole), dtype=bool)))
    some = gaps[(gaps.region == "AP") | (gaps.day == "2026-01-25")].assign(y=lambda f: f.y + 1)
    cube.update(some)
    both = pd.concat([whole, some.dropna()])
    proves(cube.select(), slice_of(both, np.ones(len(both), dtype=bool)))
    with pytest.raises(InputError, match="were left out"):
        cube.update(gaps[gaps.region == "AP"])
