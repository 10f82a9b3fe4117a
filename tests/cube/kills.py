"""Kill processes that build or change a cube, and look at the file: it is the old one or the new
one, bit for bit.

    cd tests && python -m cube.kills 100

The bytes of a changed file depend on the time of the change alone, which is fixed here.  A child is
made ready first and killed at a random moment of its change; waits are spread over the time that an
undisturbed change takes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

KINDS = ("build", "update", "replace", "drop")
CHILD = """
import sys, karat, karat.cubes.base as base, karat.cubes.create as create
base.stamped = create.stamped = lambda record: {"time": "fixed"} | record
path, rows, kind = sys.argv[1:]
cube = karat.Cube.load(path)
print("ready", flush=True)
if kind == "build":
    karat.cube(rows, target="y", by=["region", "day"], path=path)
elif kind == "drop":
    cube.drop(day="2026-01-03")
else:
    getattr(cube, kind)(rows)
print("done", flush=True)
"""


def prepare(home: Path) -> tuple[Path, Path]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import karat

    rng = np.random.default_rng(0)
    n = 200_000
    day = np.datetime64("2026-01-01") + rng.integers(0, 30, n)
    columns = {f"x{i}": rng.standard_normal(n) for i in range(6)}
    region = np.array([f"r{i}" for i in range(20)])[rng.integers(0, 20, n)]
    table = pa.table(columns | {"y": rng.standard_normal(n), "day": day, "region": region})
    karat.cube(table, target="y", by=["region", "day"], path=home / "old.parquet")
    late = table.filter(pa.compute.equal(table["day"], np.datetime64("2026-01-03").item()))
    other = late.set_column(0, "x0", pa.compute.add(late["x0"], 1.0))
    pq.write_table(other.slice(0, late.num_rows // 2), home / "rows.parquet")
    return home / "old.parquet", home / "rows.parquet"


def start(path: Path, rows: Path, kind: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, path, rows, kind], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kills", type=int, nargs="?", default=100)
    kills = parser.parse_args().kills
    random.seed(0)
    found: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        old, rows = prepare(home)
        path, before = home / "cube.parquet", digest(old)
        for kind in KINDS:
            shutil.copy(old, path)
            begun = time.perf_counter()
            with start(path, rows, kind) as process:
                ready = time.perf_counter()
                process.stdout.readline()  # type: ignore[union-attr]
                seconds = time.perf_counter() - ready
            after = digest(path)
            print(f"{kind}: {seconds:.2f} s undisturbed ({ready - begun:.2f} s to get ready)")
            for _ in range(kills // len(KINDS) + (kind == KINDS[0]) * (kills % len(KINDS))):
                shutil.copy(old, path)
                with start(path, rows, kind) as process:
                    time.sleep(random.uniform(0, seconds))
                    os.kill(process.pid, signal.SIGKILL)
                now = digest(path)
                found[kind, "old" if now == before else "new" if now == after else "NEITHER"] += 1
    for (kind, state), count in sorted(found.items()):
        print(f"{kind:<8} {state:<8} {count}")
    wrong = sum(count for (_, state), count in found.items() if state == "NEITHER")
    print(f"{sum(found.values())} kills, {wrong} files that are neither the old nor the new one")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
