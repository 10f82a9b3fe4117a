"""The same table from every kind of data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("statsmodels")
pytest.importorskip("formulaic")

from inference.data_sets import simulated

from karat import InputError
from karat.inference import ols
from karat.inference.cluster_sums import ClusterSums

FORMULA = "np.log(y + 300) ~ center(a) + g * C(h) + poly(b, 2)"
OPTIONS = {"cov_type": ["cluster", "HC2"], "cluster": "id", "weights": "w"}


@pytest.fixture(scope="module")
def frame():
    made = simulated(0, 4000, 200)()
    return made.assign(id=[f"u{i}" for i in made["user"]])


@pytest.fixture(scope="module")
def expected(frame):
    return ols(FORMULA, frame, **OPTIONS)


def same(found, expected):
    assert found.labels == expected.labels
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-9)
    np.testing.assert_allclose(found.HC2_se, expected.HC2_se, rtol=1e-9)
    assert found.llf == pytest.approx(expected.llf, rel=1e-12)
    assert found.nobs == expected.nobs


KINDS = [
    "arrow",
    "polars",
    "lazy",
    "parquet",
    "folder",
    "pattern",
    "csv",
    "feather",
    "duckdb",
    "dataset",
]


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind, frame, expected, tmp_path):
    table = pa.Table.from_pandas(frame)
    data = table
    if kind in ("polars", "lazy"):
        polars = pytest.importorskip("polars")
        data = polars.from_pandas(frame)
        data = data.lazy() if kind == "lazy" else data
    elif kind == "csv":
        pacsv.write_csv(table, tmp_path / "rows.csv")
        data = tmp_path / "rows.csv"
    elif kind == "feather":
        from pyarrow import feather

        feather.write_feather(table, str(tmp_path / "rows.arrow"))
        data = str(tmp_path / "rows.arrow")
    elif kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        connection = duckdb.connect()
        data = connection.from_arrow(table)
    elif kind != "arrow":
        for i in range(3):
            pq.write_table(
                table.slice(i * 1500, 1500), tmp_path / f"part-{i}.parquet", row_group_size=400
            )
        data = {"folder": str(tmp_path), "pattern": str(tmp_path / "part-*.parquet")}.get(
            kind, tmp_path
        )
        if kind == "parquet":
            data = [str(tmp_path / f"part-{i}.parquet") for i in range(3)]
        if kind == "dataset":
            import pyarrow.dataset as pads

            data = pads.dataset(tmp_path)
    same(ols(FORMULA, data, **OPTIONS), expected)


def test_dask(frame, expected):
    dd = pytest.importorskip("dask.dataframe")
    same(ols(FORMULA, dd.from_pandas(frame, npartitions=5), **OPTIONS), expected)
    with pytest.raises(InputError, match="'a' has no value"):
        ols("y ~ a", dd.from_pandas(frame.assign(a=np.nan), npartitions=2))


@pytest.mark.nightly
@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)
def test_spark(spark, frame, expected, tmp_path):
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
    same(
        ols(FORMULA, spark.read.parquet(str(tmp_path / "rows.parquet")).repartition(2), **OPTIONS),
        expected,
    )


def test_a_stream_comes_once(frame):
    table = pa.Table.from_pandas(frame)
    assert ols("y ~ a + b", table.to_reader()).nobs == len(frame)
    with pytest.raises(InputError, match="read only once"):
        ols("y ~ a + b", table.to_reader(), cov_type="HC0")


def test_progress(frame, tmp_path):
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
    told = []
    ols(
        "y ~ a + g",
        tmp_path / "rows.parquet",
        cov_type="HC0",
        progress=lambda done, total: told.append((done, total)),
    )
    assert len(told) == 3
    assert all(done == total > 0 for done, total in told)


@pytest.mark.parametrize(
    "kind", ["near", "far", "growing", "negative", "unsigned", "text", "floats"]
)
def test_cluster_sums(kind):
    """Labels of any kind, in any order, in batches that are merged."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 300, 4000)
    labels = {
        "near": labels + 10**12,
        "far": labels * 10**9,
        "growing": np.sort(labels) ** 4,
        "negative": -labels,
        "unsigned": labels.astype(np.uint64) + np.uint64(2**63),
        "text": np.array([f"user {i}" for i in labels]),
        "floats": labels / 3,
    }[kind]
    values = rng.standard_normal((3, 4000))
    found, other = ClusterSums(3), ClusterSums(3)
    for start in range(0, 4000, 500):
        (found if start < 2000 else other).add(
            labels[start : start + 500], values[:, start : start + 500]
        )
    found.merge(other)
    _, codes = np.unique(labels, return_inverse=True)
    sums = np.array([np.bincount(codes, row) for row in values])
    assert found.count == sums.shape[1]
    turn = rng.standard_normal((3, 3))
    np.testing.assert_allclose(found.outer(turn), turn.T @ sums @ sums.T @ turn, rtol=1e-10)
