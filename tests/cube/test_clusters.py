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
    assert set(core.keys) <= set(everything.id)


def test_dask(frame, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    data = dd.from_pandas(frame.iloc[:6000], npartitions=11, sort=False)
    cube = karat.cube(data, target="y", by=["region", "day"], columns=FEATURES, key="id", path=tmp_path / "cube.parquet")
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
    for given, remedy in ((data["y"], "to_frame"), (data.to_dask_array(), "from_dask_array"), (delayed(frame), "from_delayed")):
        with pytest.raises(InputError, match=rf"must be a Dask data frame, not \w+; .*{remedy}"):
            karat.cube(given, target="y", by="region")
