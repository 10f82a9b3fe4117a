"""Tables in memory and in files, and the real data set."""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables import make, write


@pytest.hookimpl(tryfirst=True)  # before -m leaves tests out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """sampled(k) marks a product of cases: make test runs one in k, make nightly the others."""
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark and zlib.crc32(item.nodeid.encode()) % mark.args[0]:
            item.add_marker("nightly")


@pytest.fixture(scope="session")
def table() -> pa.Table:
    return make()


@pytest.fixture
def folder(table: pa.Table, tmp_path: Path) -> Path:
    return write(table, tmp_path / "data")


@pytest.fixture(scope="session")
def covtype() -> pa.Table:
    home = os.environ.get("KARAT_DATA")
    if not home or not (Path(home) / "covtype.parquet").exists():
        pytest.skip("covtype.parquet is read from the folder KARAT_DATA, which is not set.")
    return pq.read_table(Path(home) / "covtype.parquet")


@pytest.fixture(scope="session")
def spark():
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on this machine.")
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        # jobs are small: compile little
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = sql.SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
