"""Data of every shape a stream may take, in memory and in files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from karat import problems as P
from karat.engine.kernel import Kernel as EngineKernel

COLUMNS = ["a", "b", "c", "d"]


def make(n: int = 30_000, seed: int = 0) -> pa.Table:
    """Four features of different size, a target, weights, groups and keys."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 100.0, 0.0, -3.0]
    y = X @ [1.0, -0.5, 3.0, 2.0] + rng.standard_normal(n)
    columns = dict(zip(COLUMNS, X.T, strict=True))
    groups = np.array(["north", "south", "west"])[rng.integers(0, 3, n)]
    weights = rng.random(n) * (rng.random(n) > 0.05)
    return pa.table(columns | {"y": y, "w": weights, "g": groups, "id": np.arange(n) + 10**6})


def arrays(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    return np.column_stack([table[c].to_numpy() for c in COLUMNS]), table["y"].to_numpy()


def write(table: pa.Table, folder: Path, files: int = 5, row_group_size: int = 1000) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i, bounds in enumerate(np.array_split(np.arange(len(table)), files)):
        part = table.slice(bounds[0], len(bounds))
        pq.write_table(part, folder / f"part-{i:03d}.parquet", row_group_size=row_group_size)
    return folder


@dataclass(frozen=True)
class Latent(P.Problem):
    """Stands in for problems whose features depend on the full data."""

    total_weight: bool = True
    mergeable: ClassVar[bool] = False
    keeps: ClassVar[str] = ""

    def kernel(self, columns: int, targets: int) -> EngineKernel:
        raise AssertionError

    def loss(self, X, y, weights, query):
        raise AssertionError
