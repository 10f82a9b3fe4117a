"""Measure the start-up of the command line and the overhead of a build over the library call.

python benchmarks/cli.py [rows]        2e7 rows by default: 1 GB of Parquet in a temporary folder
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KARAT = Path(sys.executable).with_name("karat")
COLUMNS, CHUNK, ROUNDS = 6, 10**6, 5
LIBRARY = "import sys, karat; karat.coreset_files(sys.argv[1], 'x0').save(sys.argv[2])"


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{i}", pa.float64()) for i in range(COLUMNS)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, rows, CHUNK):
            block = rng.standard_normal((min(CHUNK, rows - first), COLUMNS))
            writer.write_table(pa.table(list(block.T), schema=schema))


def cpu(command: list[str]) -> float:
    """CPU seconds of a command."""
    before = os.times()
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def wall(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def first_work(source: Path) -> float:
    """CPU seconds of ``karat build`` for 50 rows, which is its start-up time."""
    tiny = source.with_name("tiny.parquet")
    pq.write_table(pq.read_table(source).slice(0, 50), tiny)
    return min(
        cpu([str(KARAT), "build", str(tiny), "-t", "x0", "-o", str(source.with_name("t.parquet"))])
        for _ in range(3)
    )


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        small, data = Path(home, "small.parquet"), Path(home, "data.parquet")
        write(small, 1000)
        print(
            "karat --help                       "
            f" {min(cpu([str(KARAT), '--help']) for _ in range(5)):.2f} s CPU"
        )
        print(f"karat build of 50 rows, in all      {first_work(small):.2f} s CPU")
        write(data, rows)
        line = [
            str(KARAT),
            "build",
            str(data),
            "-t",
            "x0",
            "-o",
            str(Path(home, "c.parquet")),
            "--json",
        ]
        script = [sys.executable, "-c", LIBRARY, str(data), str(Path(home, "l.parquet"))]
        rounds = [(wall(line), wall(script)) for _ in range(ROUNDS)]
        for command, library in rounds:
            print(
                f"  {rows:,} rows: command {command:.2f} s, library {library:.2f} s, both with"
                " start-up"
            )
        command, library = (min(times) for times in zip(*rounds, strict=True))
        print(
            f"overhead over the library call      {100 * (command / library - 1):+.1f} % (best of"
            f" {ROUNDS} against best)"
        )


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 20_000_000)
