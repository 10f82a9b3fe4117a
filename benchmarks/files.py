"""Measure coreset_files, the sketch, Dask and Spark against plain reading, on synthetic rows.

    python benchmarks/files.py            2e6 rows x 12 float32 columns
    python benchmarks/files.py --full     2e7 rows, for the figures in docs/laptop-to-cluster.md

Every figure is the best of a few runs, in a separate process; peak memory is that of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS = 12
TARGET = "x11"
PER_FILE = 1_000_000
CSV_ROWS = 2_000_000


def write(folder: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for start in range(0, rows, PER_FILE):
        X = rng.standard_normal((min(PER_FILE, rows - start), COLUMNS), dtype=np.float32)
        X[:, -1] += X[:, :-1].sum(axis=1)
        table = pa.table({f"x{i}": X[:, i] for i in range(COLUMNS)})
        pq.write_table(table, folder / f"{start:012d}.parquet", row_group_size=250_000)


def write_csv(folder: Path, path: Path, rows: int) -> None:
    import pyarrow.csv as pacsv
    import pyarrow.dataset as pads

    pacsv.write_csv(pads.dataset(folder).head(rows), path)


def plain(folder: str) -> float:
    """Read the files and compute D'D."""
    import pyarrow.dataset as pads

    gram = np.zeros((COLUMNS + 1, COLUMNS + 1))
    for batch in pads.dataset(folder).to_batches():
        D = np.column_stack([np.ones(batch.num_rows), *(c.to_numpy() for c in batch.columns)])
        gram += D.T @ D
    return float(gram[0, 0])


def files(source: str) -> float:
    import karat

    core = karat.coreset_files(source, TARGET)
    assert core.certificate.ok
    return core.n_rows


def plain_csv(path: str) -> float:
    import pyarrow.csv as pacsv

    return pacsv.read_csv(path).num_rows


def load(folder: str) -> tuple[np.ndarray, np.ndarray]:
    import pyarrow.parquet as pq

    table = pq.read_table(folder)
    X = np.empty((table.num_rows, COLUMNS), dtype=np.float32)
    for i in range(COLUMNS):
        X[:, i] = table.column(i).to_numpy()
    return np.ascontiguousarray(X[:, :-1]), X[:, -1].copy()


def one_call(data: tuple[np.ndarray, np.ndarray]) -> float:
    import karat

    return karat.coreset(*data).n_rows


def sketch(data: tuple[np.ndarray, np.ndarray]) -> float:
    import karat

    X, y = data
    running = karat.Sketch(karat.problems.LeastSquares())
    for start in range(0, len(X), 10_000):
        running.update(X[start : start + 10_000], y[start : start + 10_000])
    return running.coreset().n_rows


def by_dask(folder: str) -> dict[str, float]:
    import dask.dataframe as dd
    import distributed

    import karat.dask

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        return cluster_figures(lambda: karat.dask.coreset(dd.read_parquet(folder), TARGET))


def by_spark(folder: str) -> dict[str, float]:
    from pyspark.sql import SparkSession

    import karat.spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    try:
        return cluster_figures(lambda: karat.spark.coreset(session.read.parquet(folder), TARGET))
    finally:
        session.stop()


def cluster_figures(run) -> dict[str, float]:
    best = np.inf
    for _ in range(2):  # the first run includes the imports of the workers
        start = time.perf_counter()
        core = run()
        best = min(best, time.perf_counter() - start)
    (note,) = [n for n in core.certificate.notes if "bytes" in n]
    return {"seconds": best, "bytes": int(re.search(r"sent ([\d,]+)", note)[1].replace(",", ""))}


PLAIN = {"plain": plain, "files": files, "plain_csv": plain_csv}
ARRAYS = {"one_call": one_call, "sketch": sketch}
CLUSTER = {"dask": by_dask, "spark": by_spark}


def child(name: str, path: str, repeats: int) -> dict[str, float]:
    if name in CLUSTER:
        return CLUSTER[name](path)
    run = PLAIN.get(name) or ARRAYS[name]
    data = path if name in PLAIN else load(path)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(data)
        times.append(time.perf_counter() - start)
    return {
        "seconds": min(times),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(name: str, path: Path, repeats: int = 3) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", name, str(path), str(repeats)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def best_of(names: list[str], path: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Measure each in turn, several times, so that other load affects all alike."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name in names:
            found = measure(name, path)
            if name not in best or found["seconds"] < best[name]["seconds"]:
                best[name] = found
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="2e7 rows instead of 2e6")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, path, repeats = options.child
        print(json.dumps(child(name, path, int(repeats))))
        return
    rows = 20_000_000 if options.full else 2_000_000

    def line(what: str, found: dict[str, float], note: str = "") -> None:
        print(f"  {what:<24} {found['seconds']:7.2f} s   {found['peak']:6.0f} MB   {note}")

    def times(found: dict[str, dict[str, float]], one: str, other: str) -> str:
        return f"{found[one]['seconds'] / found[other]['seconds']:.2f} x"

    with tempfile.TemporaryDirectory() as home:
        large, small = Path(home) / "large", Path(home) / "small"
        write(large, rows)
        write(small, rows // 10)
        found = best_of(["plain", "files"], large, options.rounds)
        low = best_of(["files"], small, 1)
        print(f"{rows:,} rows x {COLUMNS} float32 columns in Parquet")
        line("read and D'D", found["plain"])
        line("coreset_files", found["files"], times(found, "files", "plain"))
        line("a tenth of the rows", low["files"])
        write_csv(large, Path(home) / "one.csv", min(rows, CSV_ROWS))
        found = best_of(["plain_csv", "files"], Path(home) / "one.csv", options.rounds)
        print(f"{min(rows, CSV_ROWS):,} rows in CSV")
        line("pyarrow.csv.read_csv", found["plain_csv"])
        line("coreset_files", found["files"], times(found, "files", "plain_csv"))
        found = best_of(["one_call", "sketch"], large, options.rounds)
        print(f"{rows:,} rows in memory")
        line("one call", found["one_call"])
        line("sketch, 10,000 at a time", found["sketch"], times(found, "sketch", "one_call"))
        print("The same Parquet files on two workers")
        for name in CLUSTER:
            if name == "spark" and shutil.which("java") is None:
                print("  spark: needs Java, which is not on this machine")
                continue
            got = measure(name, large)
            print(f"  {name:<22}  {got['seconds']:7.2f} s   {got['bytes']:,} bytes sent")


if __name__ == "__main__":
    main()
