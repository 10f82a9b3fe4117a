"""Cubes of Dask frames are those of the rows in memory (Spark: tests/cluster/test_cluster.py)."""

import numpy as np
import pytest
from cube.conftest import FEATURES, proves, slice_of

import karat
from karat import InputError


def same(cube, frame):
    """Exact, with the cells of a cube in memory."""
    assert len(cube) == len(frame.groupby(["region", "day"]))
    everything = slice_of(frame, np.ones(len(frame), dtype=bool))
    core = cube.select()
    assert core.n_rows == len(frame)
    assert core.certificate.ok
    X = np.column_stack([np.ones(len(frame)), frame[[*FEATURES, "y"]]])
    K = np.column_stack([np.ones(len(core)), *(core.X[name] for name in FEATURES), core.y])
    np.testing.assert_allclose((K.T * core.weights) @ K, X.T @ X, rtol=1e-11)
    if cube.rows == "real":
        assert set(core.keys) <= set(everything.id)


@pytest.mark.parametrize("rows", ["synthetic", "real"])
def test_dask(frame, tmp_path, rows):
    dd = pytest.importorskip("dask.dataframe")
    data = dd.from_pandas(frame.iloc[:6000], npartitions=11, sort=False)
    cube = karat.cube(
        data,
        target="y",
        by=["region", "day"],
        columns=FEATURES,
        key="id",
        path=tmp_path / "cube.parquet",
        rows=rows,
    )
    proves(cube.select(), slice_of(frame.iloc[:6000], np.ones(6000, dtype=bool)))
    same(karat.Cube.load(tmp_path / "cube.parquet"), frame.iloc[:6000])
    with pytest.raises(InputError, match="count twice"):
        cube.update(frame.iloc[:6000])
    with pytest.raises(InputError, match="no column 'week'"):
        karat.cube(data, target="y", by="week")
    with pytest.raises(InputError, match=r"'region' has type"):
        karat.cube(data, target="y", by="day", columns=["size", "region"])


def test_only_frames_of_dask_have_cells(frame):
    """Before, arrays and delayed objects ended in an AttributeError or a TypeError."""
    dd, delayed = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.delayed").delayed
    data = dd.from_pandas(frame[["size", "y"]], npartitions=2, sort=False)
    for given, remedy in (
        (data["y"], "to_frame"),
        (data.to_dask_array(), "from_dask_array"),
        (delayed(frame), "from_delayed"),
    ):
        with pytest.raises(InputError, match=rf"must be a Dask data frame, not \w+; .*{remedy}"):
            karat.cube(given, target="y", by="region")


@pytest.fixture
def gaps(frame):
    """Four partitions; all rows of the second lack a value, and so do some others."""
    rows = frame.iloc[:4000].copy()
    rows.loc[1000:1999, "size"] = np.nan
    rows.loc[[0, 3999], "y"] = np.nan
    return rows


def in_partitions(rows, npartitions=4):
    return pytest.importorskip("dask.dataframe").from_pandas(
        rows, npartitions=npartitions, sort=False
    )


def test_a_partition_of_which_no_row_is_left_counts(gaps):
    """Before, its rows were neither counted nor hashed, so the same rows could be added again."""
    options = {"target": "y", "by": ["region", "day"], "columns": FEATURES, "on_missing": "drop"}
    cube, expected = karat.cube(in_partitions(gaps), **options), karat.cube(gaps, **options)
    for name in ("rows", "dropped", "content"):
        assert cube.history[0][name] == expected.history[0][name]
    for again in (gaps, in_partitions(gaps), in_partitions(gaps, 3)):
        with pytest.raises(InputError, match="count twice"):
            cube.update(again)
    assert cube.verify(gaps).ok
    assert cube.verify(in_partitions(gaps)).n_rows == 4000
    with pytest.raises(InputError, match="no rows that can be used"):
        karat.cube(in_partitions(gaps.iloc[1000:2000]), **options)


@pytest.mark.parametrize("cells", ["day", ["region", "day"]])
def test_rows_without_weight_in_a_partition(frame, cells):
    """Before, a cell was refused whose rows in one partition had no weight, though it has weight in
    others.
    """
    rows = frame.iloc[:4000].copy()
    rows["w"] = np.random.default_rng(0).exponential(size=4000)
    rows.loc[rows.index[1000:2000], "w"] = 0.0  # one partition
    rows["day"] = np.arange(4000) % 7
    options = {"target": "y", "by": cells, "columns": FEATURES, "sample_weight": "w", "key": "id"}
    cube, expected = karat.cube(in_partitions(rows), **options), karat.cube(rows, **options)
    assert {**cube.history[0], "time": 0} == {**expected.history[0], "time": 0}
    mine, theirs = cube.table(), expected.table()
    for name in ("day", "rows", "ok"):
        np.testing.assert_array_equal(mine[name], theirs[name])
    np.testing.assert_allclose(mine["weight"], theirs["weight"], rtol=1e-12)
    assert cube.verify(rows).ok
    real = karat.cube(in_partitions(rows), **options, rows="real")
    assert not set(real.cells.keys) & set(rows.id[1000:2000])
    assert cube.verify(in_partitions(rows, 3)).ok
    without = rows.assign(w=np.where(rows.day == 3, 0.0, rows.w))
    for data in (without, in_partitions(without)):
        with pytest.raises(InputError, match=r"Cell .*day=3 has no row of positive weight"):
            karat.cube(data, **options)


def test_a_coreset_of_partitions_without_weight(frame):
    """A Dask or Spark partition whose rows have no weight adds its rows to the count, and nothing
    else.
    """
    pytest.importorskip("dask")
    rows = frame.iloc[:4000].assign(w=np.repeat([1.0, 0.0, 2.0, 1.0], 1000))
    core = karat.dask.coreset(
        in_partitions(rows), "y", columns=FEATURES, sample_weight="w", groups="region"
    )
    assert core.n_rows == 4000
    assert core.verify(
        rows[FEATURES], rows.y, sample_weight=rows.w.to_numpy(), groups=rows.region.to_numpy()
    ).ok
