"""Dask and Spark: the same coreset guarantees, rows that can be found again, few bytes, and workers
that die.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tables import COLUMNS, Latent, arrays, make, write

import karat
from karat import problems as P

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")


def groups_of(table):
    return table["g"].to_numpy(zero_copy_only=False).astype(str)


def check(core, table, weights=None, groups=None):
    X, y = arrays(table)
    proof = core.verify(X, y, sample_weight=weights, groups=groups)
    assert proof.ok, str(proof)
    assert proof.loss_error <= 1e-11
    assert core.certificate.loss_error <= 1e-11
    assert not proof.notes


def bytes_of(core):
    (note,) = [n for n in core.certificate.notes if "bytes" in n]
    return int(re.search(r"sent ([\d,]+) bytes", note)[1].replace(",", ""))


def proven_in_files(core, folder):
    """Proven against the files, whose rows Spark may number in another order."""
    found = karat.verify_files(core, folder)
    assert found.ok, str(found)
    assert found.data in ("identical", "reordered")
    assert found.certificate.loss_error <= 1e-11


class TestDask:
    @pytest.fixture(autouse=True)
    def in_this_thread(self):
        with dask.config.set(scheduler="synchronous"):
            yield

    @pytest.fixture
    def ddf(self, table):
        return dd.from_pandas(table.to_pandas(), npartitions=20)

    def test_exact_with_offsets(self, ddf, table):
        core = karat.dask.coreset(ddf, "y", columns=COLUMNS)
        check(core, table)
        sizes = [len(p) for p in ddf.partitions]
        starts = np.cumsum([0, *sizes])
        found = [starts[int(k.split(":")[0])] + int(k.split(":")[1]) for k in core.keys]
        np.testing.assert_array_equal(found, core.indices)

    def test_weights_groups_and_keys(self, ddf, table):
        core = karat.dask.coreset(
            ddf, "y", columns=COLUMNS, sample_weight="w", groups="g", key="id"
        )
        check(core, table, table["w"].to_numpy(), groups_of(table))
        np.testing.assert_array_equal(core.keys, core.indices + 10**6)

    def test_lazy(self, ddf):
        frame = ddf.map_partitions(lambda part: pytest.fail("computed"), meta=ddf._meta)
        assert hasattr(karat.dask.coreset(frame, "y", columns=COLUMNS, compute=False), "compute")

    def test_arrays(self, table):
        X, y = arrays(table)
        w, g = table["w"].to_numpy(), groups_of(table)
        A = da.from_array(X, chunks=(3333, 3))
        core = karat.dask.coreset(
            A,
            da.from_array(y, chunks=5000),
            sample_weight=da.from_array(w, chunks=777),
            groups=da.from_array(g, chunks=9999),
        )
        check(core, table, w, g)
        assert karat.dask.coreset(A).verify(X).ok

    def test_empty_partitions_and_missing_values(self, table):
        frame = table.to_pandas()
        frame.loc[7, "b"] = np.nan
        ddf = dd.from_pandas(frame, npartitions=12)
        # whole partitions vanish
        ddf = ddf[(ddf["id"] < 10**6 + 8000) | (ddf["id"] >= 10**6 + 20_000)]
        with pytest.raises(karat.InputError, match="Partition 0, row 7: column 'b' has no value"):
            karat.dask.coreset(ddf, "y", columns=COLUMNS)
        core = karat.dask.coreset(ddf, "y", columns=COLUMNS, on_missing="drop")
        assert any("1 row with missing" in note for note in core.certificate.notes)
        rest = table.take(np.r_[0:8000, 20_000:30_000])
        weights = np.ones(18_000)
        weights[7] = 0
        check(core, rest, weights)

    def test_provenance_and_hashes_are_those_of_files(self, ddf, table, folder):
        core = karat.dask.coreset(
            ddf, "y", columns=COLUMNS, sample_weight="w", groups="g", key="id"
        )
        of_files = karat.coreset_files(
            folder, "y", columns=COLUMNS, sample_weight="w", groups="g", key="id"
        ).provenance
        told = core.provenance
        assert told["source"] == {"given": [], "files": []}
        for name in (
            "karat",
            "target",
            "columns",
            "roles",
            "pipeline",
            "on_missing",
            "dropped",
            "problem",
            "seed",
        ):
            assert told[name] == of_files[name], name
        assert told["content"]["sums"] == of_files["content"]["sums"]
        assert told["content"]["parts"] == [len(part) for part in ddf.partitions]
        found = karat.verify_files(core, folder)
        assert found.ok
        assert (found.data, found.moved) == ("identical", ())
        with pytest.raises(karat.InputError, match="pass the source"):
            karat.verify_files(core)
        with pytest.raises(karat.InputError, match="count twice"):
            core.merge(
                karat.coreset_files(
                    folder, "y", columns=COLUMNS, sample_weight="w", groups="g", key="id"
                )
            )

    def test_changed_rows_are_found_by_their_partition(self, ddf, table, tmp_path):
        core = karat.dask.coreset(ddf, "y", columns=COLUMNS)
        changed = table.to_pandas()
        row = next(i for i in range(4000, 6000) if i not in core.indices)
        changed.loc[row, "a"] = np.nextafter(changed.loc[row, "a"], np.inf)
        found = karat.verify_files(core, write(pa.Table.from_pandas(changed), tmp_path / "other"))
        assert found.certificate.ok
        assert found.data == "changed"
        (block,) = found.changed
        assert block.start <= row < block.stop <= block.start + len(table) // 20 + 1

    def test_hashes_of_arrays(self, table):
        X, y = arrays(table)
        one, other = (
            karat.dask.coreset(da.from_array(X, chunks=(n, -1)), da.from_array(y, chunks=n))
            for n in (3333, 5000)
        )
        assert one.provenance["content"]["sums"] == other.provenance["content"]["sums"]
        with pytest.raises(karat.InputError, match="count twice"):
            one.merge(other)

    def test_few_bytes_travel(self, table):
        few, many = (
            bytes_of(
                karat.dask.coreset(
                    dd.from_pandas(make(n).to_pandas(), npartitions=10), "y", columns=COLUMNS
                )
            )
            for n in (5000, 100_000)
        )
        assert many < 1.1 * few < 10 * 30_000  # it does not depend on the rows

    def test_refusals(self, ddf):
        for call, words in [
            (lambda: karat.dask.coreset([1, 2]), "Dask data frame or array"),
            (lambda: karat.dask.coreset(ddf, "z"), "no column 'z'"),
            (lambda: karat.dask.coreset(ddf, "y", columns=["a", "g"]), "not numeric"),
            (lambda: karat.dask.coreset(ddf, "y", on_missing="x"), "on_missing"),
            (lambda: karat.dask.coreset(ddf, problem=P.LeastSquares()), "needs a target"),
            (
                lambda: karat.dask.coreset(da.ones((9, 2)), columns=["a"]),
                "columns is for data frames",
            ),
            (lambda: karat.dask.coreset(da.ones((9, 2)), da.ones(8)), "as many rows"),
        ]:
            with pytest.raises(karat.InputError, match=words):
                call()
        with pytest.raises(karat.NotExactError, match="two passes"):
            karat.dask.coreset(ddf, problem=Latent())


def test_data_of_clusters_is_told_by_its_type(table):
    from karat.cluster.partitions import cluster_of
    from karat.data.containers import partition_library

    class Own(type(dd.from_pandas(table.to_pandas(), npartitions=1))):
        """A subclass in another module, such as a frame of dask-geopandas."""

    class Alike:
        npartitions, to_delayed, mapInArrow = 1, None, None

    ddf = dd.from_pandas(table.to_pandas(), npartitions=1)
    for data in (ddf, Own(ddf.expr), ddf["a"], da.ones(3), dask.delayed(3)):
        assert partition_library(data)
        assert cluster_of(data) is karat.dask
    for data in (table, table.to_pandas(), Alike(), "rows.csv", None):
        assert partition_library(data) is None


def slowly(frame):
    time.sleep(0.2)
    return frame


@pytest.mark.nightly
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_dask_worker_killed_while_it_works(table, tmp_path):
    distributed = pytest.importorskip("distributed")
    folder = write(table, tmp_path / "data", files=20)
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",
    }
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        ddf = dd.read_parquet(folder).map_partitions(slowly)
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(1.2, os.kill, (victim, signal.SIGKILL))
        killer.start()
        core = karat.dask.coreset(ddf, "y", columns=COLUMNS, groups="g")
        killer.join()
        assert victim not in client.run(os.getpid).values()
    check(core, table, groups=groups_of(table))


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)
class TestSpark:
    def test_exact_with_offsets(self, spark, folder, table):
        df = spark.read.parquet(str(folder)).coalesce(1).repartitionByRange(12, "id")
        core = karat.spark.coreset(
            df, "y", columns=COLUMNS, key="id", groups="g", sample_weight="w"
        )
        order = table.take(core.keys - 10**6)
        np.testing.assert_array_equal(order["a"].to_numpy(), core.X["a"].to_numpy())
        X, y = arrays(table)
        proof = core.verify(X, y, sample_weight=table["w"].to_numpy(), groups=groups_of(table))
        assert proof.proven
        assert proof.loss_error <= 1e-11
        assert core.certificate.ok
        assert core.n_rows == len(table)
        proven_in_files(core, folder)
        assert core.provenance["roles"] == {"weight": "w", "group": "g", "key": "id"}
        with pytest.raises(karat.InputError, match="count twice"):
            core.merge(
                karat.coreset_files(
                    folder, "y", columns=COLUMNS, key="id", groups="g", sample_weight="w"
                )
            )

    def test_partitions_and_offsets(self, spark, folder, table):
        df = spark.read.parquet(str(folder))
        core = karat.spark.coreset(df, "y", columns=COLUMNS)
        parts = df.select("id").rdd.glom().collect()
        ids = [parts[int(k.split(":")[0])][int(k.split(":")[1])]["id"] for k in core.keys]
        np.testing.assert_array_equal(
            table.take(np.array(ids) - 10**6)["a"].to_numpy(), core.X["a"].to_numpy()
        )
        proven_in_files(core, folder)
        assert bytes_of(core) < 200_000

    def test_a_missing_value_is_named(self, spark, folder, table):
        df = (
            spark.read.parquet(str(folder))
            .coalesce(1)
            .selectExpr(*COLUMNS[1:], "y", "IF(id % 7001 = 5, NULL, a) AS a")
        )
        with pytest.raises(
            karat.InputError, match=r"^Partition 0, row [\d,]+: column 'a' has no value"
        ) as refused:
            karat.spark.coreset(df, "y", columns=COLUMNS)
        # the error itself has come, not only its text
        assert refused.value.argument == "on_missing"
        core = karat.spark.coreset(df, "y", columns=COLUMNS, on_missing="drop")
        weights = (table["id"].to_numpy() % 7001 != 5).astype(float)
        proof = core.verify(*arrays(table), sample_weight=weights)
        assert proof.proven
        assert proof.loss_error <= 1e-11
        assert core.provenance["dropped"] == {"missing": int((weights == 0).sum()), "broken": 0}

    def test_no_partitions(self, spark):
        df = spark.createDataFrame([], "a double, y double").limit(0)
        with pytest.raises(karat.InputError, match="no row of positive weight"):
            karat.spark.coreset(df, "y")

    def test_errors_of_others_are_theirs(self, spark):
        df = spark.range(10).selectExpr(
            "CAST(id AS DOUBLE) AS a", "raise_error('mine: karat.errors.InputError: no') AS y"
        )
        with pytest.raises(Exception, match="mine") as raised:
            karat.spark.coreset(df.selectExpr("a", "CAST(y AS DOUBLE) AS y"), "y")
        assert not isinstance(raised.value, karat.InputError)

    def test_refusals(self, spark, folder):
        df = spark.read.parquet(str(folder))
        for call, words in [
            (lambda: karat.spark.coreset(3), "Spark data frame"),
            (lambda: karat.spark.coreset(df, "z"), "no column 'z'"),
            (lambda: karat.spark.coreset(df, "y", columns=["a", "g"]), "not numeric"),
        ]:
            with pytest.raises(karat.InputError, match=words):
                call()


@pytest.mark.nightly
@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)
def test_a_cube_of_a_spark_frame(spark, table, tmp_path):
    whole = table.append_column("part", pa.array(np.arange(len(table)) % 7))
    pq.write_table(whole, tmp_path / "rows.parquet")
    data = spark.read.parquet(str(tmp_path / "rows.parquet")).repartition(3)
    cube = karat.cube(data, target="y", by=["g", "part"], columns=COLUMNS, key="id")
    assert len(cube) == 21
    core = cube.select(g="south")
    mine = whole.filter(pc.equal(whole["g"], "south"))
    D = np.column_stack([np.ones(len(mine)), *(mine[name] for name in (*COLUMNS, "y"))])
    K = np.column_stack([np.ones(len(core)), *(core.X[name] for name in COLUMNS), core.y])
    np.testing.assert_allclose((K.T * core.weights) @ K, D.T @ D, rtol=1e-10)
    assert core.n_rows == len(mine)
    assert core.certificate.ok


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)
def test_a_spark_partition_of_which_no_row_is_left(spark):
    rng = np.random.default_rng(0)
    frame = pa.table(
        {"a": rng.standard_normal(400), "y": rng.standard_normal(400), "k": np.arange(400) // 100}
    ).to_pandas()
    frame.loc[frame.k == 2, "a"] = np.nan
    # all rows of a label lie in one partition
    data = spark.createDataFrame(frame).repartition(4, "k")
    cube = karat.cube(data, target="y", by="k", on_missing="drop")
    assert len(cube) == 3
    assert (cube.history[0]["rows"], cube.history[0]["dropped"]["missing"]) == (400, 100)
    for again in (frame, data):
        with pytest.raises(karat.InputError, match="count twice"):
            cube.update(again)
