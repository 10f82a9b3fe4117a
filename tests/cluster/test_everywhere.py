"""The same exactness everywhere: in memory, from files, in a sketch of random chunks, on Dask and
on Spark.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from tables import COLUMNS, arrays, make, write

import karat


def moments(core):
    """Second moments in standard units of the columns, so that 1e-12 means the same for each."""
    X, y = core.arrays()
    return np.column_stack([np.ones(len(core)), X, y]), core.weights


def agree(cores, X, y):
    D = np.column_stack([np.ones(len(X)), X, y]).astype(float)
    shift, scale = np.r_[0.0, D[:, 1:].mean(axis=0)], np.r_[1.0, D[:, 1:].std(axis=0)]
    scale[scale == 0] = 1.0
    full = np.zeros((D.shape[1], D.shape[1]), dtype=np.longdouble)
    # one sum over all rows would itself be off by more than 1e-12
    for start in range(0, len(D), 500):
        Z = (D[start : start + 500] - shift) / scale
        full += Z.T @ Z
    full /= len(D)
    for name, core in cores.items():
        rows, weights = moments(core)
        rows = (rows - shift) / scale
        error = np.abs((rows * weights[:, None]).T @ rows / len(D) - full).max()
        assert error <= 1e-12, (name, error)
        assert core.certificate.loss_error <= 1e-11, name
        assert core.n_rows == len(X), name


def sketched(X, y, largest, buffer_rows, seed=0):
    rng = np.random.default_rng(seed)
    sketch = karat.Sketch(karat.problems.LeastSquares(), buffer_rows=buffer_rows)
    start = 0
    while start < len(X):
        stop = start + int(rng.integers(1, largest))
        sketch.update(X[start:stop], y[start:stop])
        start = stop
    return sketch.coreset()


def by_dask(folder, target, columns):
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    with dask.config.set(scheduler="threads", num_workers=2):
        return karat.dask.coreset(
            dd.read_parquet(folder).repartition(npartitions=2), target, columns=columns
        )


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, by Dask
def test_synthetic(tmp_path):
    table = make(50_000)
    folder = write(table, tmp_path / "data", files=9)
    X, y = arrays(table)
    cores = {
        "memory": karat.coreset(X, y),
        "files": karat.coreset_files(folder, "y", columns=COLUMNS, batch_rows=7000),
        "sketch": sketched(X, y, 3000, 4000),
        "dask": by_dask(folder, "y", COLUMNS),
    }
    agree(cores, X, y)
    for name, core in cores.items():
        proof = core.verify(X, y)
        assert proof.ok, name
        assert not proof.notes, (name, proof.notes)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)
@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_covtype_as_fifty_files(request, covtype, tmp_path):
    *columns, target = covtype.column_names
    # the measurements and one set of categories, whose columns add up to one
    columns = columns[:14]
    covtype = covtype.select([*columns, target]).take(np.arange(0, len(covtype), 4))
    folder = write(covtype, tmp_path / "data", files=50, row_group_size=1400)
    X = np.column_stack([covtype[c].to_numpy() for c in columns]).astype(np.float32)
    y = covtype[target].to_numpy().astype(float)
    cores = {
        "memory": karat.coreset(X, y),
        "files": karat.coreset_files(folder, target),
        "sketch": sketched(X, y, 30_000, 100_000),
        "dask": by_dask(folder, target, columns),
    }
    if shutil.which("java") is not None:
        frame = request.getfixturevalue("spark").read.parquet(str(folder)).coalesce(2)
        cores["spark"] = karat.spark.coreset(frame, target, columns=columns)
    agree(cores, X, y)
    for name, core in cores.items():
        proof = core.verify(X, y)
        assert proof.loss_error <= 1e-11, (name, proof.loss_error)
        # which packs files into partitions by size, so its rows have other numbers than ours
        if name != "spark":
            assert proof.ok, (name, str(proof))
