"""The data that a reader of a page is assumed to have, small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat

# Addresses that a test cannot reach, and work that it need not do in full.
ELSEWHERE = {"s3://bucket/sales/": "sales/", "karat demo ": "karat demo --rows 20000 "}


def table(n: int = 5000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Five clusters in six columns, and a target that is linear in them."""
    rng = np.random.default_rng(seed)
    X = 5 * np.eye(5, 6)[rng.integers(5, size=n)] + rng.standard_normal((n, 6))
    return X, X @ rng.standard_normal(6) + rng.standard_normal(n)


def folder(path: str, columns: dict[str, np.ndarray]) -> None:
    """Two Parquet files."""
    whole = pa.table(columns)
    half = len(whole) // 2
    Path(path).mkdir()
    for part in range(2):
        pq.write_table(whole.slice(part * half, half), Path(path) / f"part-{part}.parquet")


def with_target(target: str) -> dict[str, np.ndarray]:
    X, y = table()
    return {f"x{i}": x for i, x in enumerate(X.T)} | {target: y}


def readme(names: dict[str, Any]) -> None:
    names["X"], names["y"] = table()
    names["X1"], names["y1"] = table(3000, 1)
    names["X2"], names["y2"] = table(3000, 2)
    names["fold"] = np.arange(5000) % 5
    folder("data", with_target("target"))
    for seed, day in enumerate(("monday", "tuesday")):
        karat.coreset(*table(3000, seed)).save(f"{day}.parquet")
    for name, target in (("houses.parquet", "price"), ("data.parquet", "y")):
        pq.write_table(pa.table(with_target(target)), name)


def scale(names: dict[str, Any]) -> None:
    names["karat"] = karat
    X, y = table()
    rows = np.column_stack([X, np.arange(5000)])
    frames = [
        pa.table({f"x{i}": r for i, r in enumerate(part.T[:-1])} | {"id": part[:, -1]})
        for part in np.split(rows, 5)
    ]
    names["batches"] = list(zip((f.to_pandas() for f in frames), np.split(y, 5), strict=True))
    folder(
        "sales",
        with_target("price") | {"region": np.array(["north", "south"])[np.arange(5000) % 2]},
    )
    database(names)
    latent(names)


def database(names: dict[str, Any]) -> None:
    """A DuckDB file, and an open cursor."""
    names["duckdb"] = duckdb = pytest.importorskip("duckdb")
    X, y = table()
    sales = pa.table(
        {
            "size": X[:, 0],
            "age": X[:, 1],
            "price": y,
            "year": 2019 + np.arange(5000) % 4,
            "id": np.arange(5000),
        }
    )
    with duckdb.connect("shop.duckdb") as connection:
        connection.register("given", sales)
        connection.execute("CREATE TABLE sales AS SELECT * FROM given")

    class Cursor:
        def execute(self, sql: str) -> None:
            self.rows = sales.select(["size", "age", "price"])

        def fetch_record_batch(self) -> pa.RecordBatchReader:
            return self.rows.to_reader(1000)

    names["cursor"] = Cursor()


def latent(names: dict[str, Any]) -> None:
    """Samples of a mixture, of three views, of documents, of chains and of independent
    components.
    """
    import dask.dataframe
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import CountVectorizer

    rng = np.random.default_rng(3)
    columns = dict(
        zip(
            "xyzt",
            (5 * np.eye(4)[rng.integers(4, size=4000)] + rng.standard_normal((4000, 4))).T,
            strict=True,
        )
    )
    hidden = rng.integers(3, size=4000)
    for view in "abc":
        seen = 4 * np.eye(3)[hidden] + rng.standard_normal((4000, 3))
        columns |= {f"{view}{i + 1}": seen[:, i] for i in range(3)}
    folder("data", columns)
    mixed = rng.dirichlet(np.full(10, 0.1), 2000) @ (
        0.9 * np.repeat(np.eye(10) / 3, 3, axis=1) + 0.1 / 30
    )
    texts = np.array([" ".join(f"word{w}" for w in rng.choice(30, 25, p=p)) for p in mixed])
    folder("texts", {"text": texts})
    names["words"] = make_column_transformer((CountVectorizer(), "text")).fit(
        pa.table({"text": texts}).to_pandas()
    )
    states = np.zeros(6000, dtype=int)
    for i in range(1, 6000):
        states[i] = states[i - 1] if rng.random() < 0.7 else rng.integers(5)
    events = np.where(rng.random(6000) < 0.8, states, rng.integers(8, size=6000))
    folder("logs", {"event": events, "session": np.arange(6000) // 60})
    sources = rng.exponential(size=(4000, 8)) @ rng.standard_normal((8, 8))
    frame = pa.table({f"s{i}": x for i, x in enumerate(sources.T)}).to_pandas()
    names["ddf"] = dask.dataframe.from_pandas(frame, npartitions=2)


def shop(names: dict[str, Any]) -> None:
    """Sales of two regions over half a year, in a folder, and those of one more day."""
    names["karat"] = karat
    rng = np.random.default_rng(7)
    n = 20_000
    day = np.datetime64("2026-01-01") + rng.integers(0, 181, n)
    columns = {
        "size": rng.gamma(2.0, 50.0, n),
        "age": rng.uniform(0, 90, n),
        "id": np.arange(n),
        "day": day,
    }
    price = 3 * columns["size"] - columns["age"] + rng.normal(0, 20, n)
    columns |= {"region": np.array(["EU", "US"])[rng.integers(2, size=n)], "price": price}
    folder("sales", columns)
    today = {
        name: values[:200] + (np.timedelta64(200, "D") if name == "day" else 0)
        for name, values in columns.items()
        if name != "region"
    }
    pq.write_table(pa.table(today | {"region": columns["region"][:200]}), "today.parquet")


PREPARED = {"README.md": readme, "docs/laptop-to-cluster.md": scale, "docs/cube.md": shop}


def prepare(page: str, names: dict[str, Any]) -> None:
    """Files into the current folder, names into the namespace."""
    PREPARED.get(page, lambda names: None)(names)
