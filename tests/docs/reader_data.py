"""The data that a reader of a page is assumed to have, small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import karat

# Addresses that a test cannot reach, and work that it need not do in full.
ELSEWHERE = {"s3://bucket/sales/": "sales/", "karat demo ": "karat demo --rows 20000 "}


def table(n: int = 5000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Five clusters in six columns, and a target that is linear in them."""
    rng = np.random.default_rng(seed)
    X = 5 * np.eye(5, 6)[rng.integers(5, size=n)] + rng.standard_normal((n, 6))
    return X, X @ rng.standard_normal(6) + rng.standard_normal(n)


def folder(path: str, target: str, **more: np.ndarray) -> None:
    """Two Parquet files."""
    X, y = table()
    columns = {f"x{i}": x for i, x in enumerate(X.T)} | {target: y} | more
    Path(path).mkdir()
    whole = pa.table(columns)
    for part in range(2):
        pq.write_table(whole.slice(part * 2500, 2500), Path(path) / f"part-{part}.parquet")


def readme(names: dict[str, Any]) -> None:
    names["X"], names["y"] = table()
    names["X1"], names["y1"] = table(3000, 1)
    names["X2"], names["y2"] = table(3000, 2)
    names["fold"] = np.arange(5000) % 5
    folder("data", "target")
    for seed, day in enumerate(("monday", "tuesday")):
        karat.coreset(*table(3000, seed)).save(f"{day}.parquet")
    for name, target in (("houses.parquet", "price"), ("data.parquet", "y")):
        X, y = table()
        pq.write_table(pa.table({f"x{i}": x for i, x in enumerate(X.T)} | {target: y}), name)


def scale(names: dict[str, Any]) -> None:
    names["karat"] = karat
    X, y = table()
    rows = np.column_stack([X, np.arange(5000)])
    frames = [pa.table({f"x{i}": r for i, r in enumerate(part.T[:-1])} | {"id": part[:, -1]}) for part in np.split(rows, 5)]
    names["batches"] = list(zip((f.to_pandas() for f in frames), np.split(y, 5), strict=True))
    folder("sales", "price", region=np.array(["north", "south"])[np.arange(5000) % 2])


PREPARED = {"README.md": readme, "docs/laptop-to-cluster.md": scale}


def prepare(page: str, names: dict[str, Any]) -> None:
    """Files into the current folder, names into the namespace."""
    PREPARED.get(page, lambda names: None)(names)
