"""Compare the speed of two source trees: the same cases in turn, one process per tree, and the ratio of their times.

    git worktree add ../old v0.1.0
    python benchmarks/commits.py ../old/src src

Ratios above one mean that the second tree is slower.  The machine should be idle.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

CASES = {
    "least squares 1,000,000 x 10": ("normal", 1_000_000, 10, 9),
    "least squares 100,000 x 31 (m = 561)": ("normal", 100_000, 31, 7),
    "least squares 100,000 x 53 (m = 1540)": ("normal", 100_000, 53, 5),
    "Covertype": ("covtype", 0, 0, 3),
}


def work(source: str) -> None:
    """Read names of cases, build a coreset for each, and print the seconds."""
    sys.path.insert(0, source)
    import numpy as np

    import karat

    ready: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for line in sys.stdin:
        name = line.strip()
        kind, n, d, _ = CASES[name]
        if name not in ready:
            if kind == "covtype":
                import pyarrow.parquet as pq

                table = pq.read_table(Path(os.environ["KARAT_DATA"]) / "covtype.parquet")
                values = np.column_stack([column.to_numpy() for column in table.columns]).astype(float)
                ready = {name: (values[:, :-1], values[:, -1])}
            else:
                rng = np.random.default_rng(0)
                X = rng.standard_normal((n, d))
                ready = {name: (X, X.sum(axis=1) + rng.standard_normal(n))}
            karat.coreset(*ready[name])
        start = time.perf_counter()
        karat.coreset(*ready[name])
        print(time.perf_counter() - start, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path, nargs="?", default=Path(__file__).parents[1] / "src")
    options = parser.parse_args()
    trees = [str(tree.resolve()) for tree in (options.first, options.second)]
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, "--work", tree], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for tree in trees
    ]
    for name, (kind, _, _, repeats) in CASES.items():
        if kind == "covtype" and "KARAT_DATA" not in os.environ:
            print(f"{name}: set KARAT_DATA")
            continue
        seconds: list[list[float]] = [[], []]
        for _ in range(repeats):
            for worker, taken in zip(workers, seconds, strict=True):
                assert worker.stdin is not None
                assert worker.stdout is not None
                worker.stdin.write(name + "\n")
                taken.append(float(worker.stdout.readline()))
                time.sleep(0.1)
        first, second = map(statistics.median, seconds)
        print(f"{name:40s} {first:8.4f} s {second:8.4f} s   ratio {second / first:.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2])
    else:
        main()
