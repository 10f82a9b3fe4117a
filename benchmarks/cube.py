"""Measure cubes: building from Parquet, slices, windows; against plain reading and fits of all
rows.

    python benchmarks/cube.py                1e6 rows, 73 days x 20 regions, 8 features
    python benchmarks/cube.py --full         1e7 rows, 365 days x 20 regions, for the figures in
                                             docs/cube.md
    python benchmarks/cube.py --shuffled     rows in random order: every batch has rows of every
                                             cell
    python benchmarks/cube.py --steps 20000  only windows: how far the last of many is off

Building runs in a process of its own; peak memory is that of the process.  Beside wall times stand
those of the processors, which other load on the machine changes less.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

FEATURES = [f"x{i}" for i in range(8)]
REGIONS = 20
PER_DAY = 27_397
TIMES = 3


def write(folder: Path, days: int, shuffled: bool) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    names = np.array([f"region-{i:02d}" for i in range(REGIONS)])
    start, rows = np.datetime64("2025-01-01"), 0
    slopes = rng.standard_normal((REGIONS, len(FEATURES)))
    for first in range(0, days, 36):
        some = min(36, days - first)
        n = some * PER_DAY
        day = (
            rng.integers(0, days, n)
            if shuffled
            else np.repeat(np.arange(first, first + some), PER_DAY)
        )
        region = rng.integers(0, REGIONS, n)
        X = rng.standard_normal((n, len(FEATURES))) + np.arange(len(FEATURES))
        y = (
            np.einsum("ij,ij->i", X, slopes[region])
            + np.sin(day / 30) * X[:, 0]
            + rng.standard_normal(n)
        )
        table = pa.table(
            dict(zip(FEATURES, X.T, strict=True))
            | {
                "y": y,
                "day": start + day,
                "region": names[region],
            }
        )
        pq.write_table(table, folder / f"{first:03d}.parquet", row_group_size=250_000)
        rows += n
    return rows


def plain(folder: str) -> float:
    """Read the files and compute D'D."""
    import pyarrow.dataset as pads

    gram = np.zeros((10, 10))
    for batch in pads.dataset(folder).to_batches():  # the labels are read, too
        D = np.column_stack(
            [np.ones(batch.num_rows), *(batch.column(name).to_numpy() for name in (*FEATURES, "y"))]
        )
        gram += D.T @ D
    return float(gram[0, 0])


def build(folder: str, output: str, memory: str = "1e9") -> None:
    import karat

    karat.cube(
        folder, target="y", by=["region", "day"], path=output, hashes="beside",
        memory=int(float(memory)),
    )  # fmt: skip


class Run(NamedTuple):
    """Seconds by the clock and of the processors, without imports, and megabytes."""

    seconds: float
    processors: float
    megabytes: float = 0.0


def measured(job: str, *arguments: str) -> Run:
    """One run in a new process."""
    text = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import cube;"
        f" cube.run({job!r}, {arguments!r})"
    )
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    return Run(*json.loads(done.stdout.splitlines()[-1]))


def run(job: str, arguments: tuple[str, ...]) -> None:
    import pyarrow.dataset  # noqa: F401

    import karat

    karat.cube  # noqa: B018  (its modules are imported before the clock starts)
    seconds, processors = time.perf_counter(), time.process_time()
    {"plain": plain, "build": build}[job](*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps([time.perf_counter() - seconds, time.process_time() - processors, peak]))


def best(job: Callable[[], object], times: int = TIMES) -> Run:
    """The shortest of some runs in this process."""
    found = []
    for _ in range(times):
        seconds, processors = time.perf_counter(), time.process_time()
        job()
        found.append(Run(time.perf_counter() - seconds, time.process_time() - processors))
    return Run(min(run.seconds for run in found), min(run.processors for run in found))


def show(name: str, run: Run, more: str = "") -> None:
    unit = (1e3, "ms") if run.seconds < 1 else (1.0, "s ")
    peak = f"   peak {run.megabytes:,.0f} MB" if run.megabytes else ""
    print(
        f"{name:<20} {unit[0] * run.seconds:8.1f} {unit[1]} {unit[0] * run.processors:8.1f} of"
        f" processors{peak}   {more}",
        flush=True,
    )


def one_fit(rows: int) -> Run:
    """One fit of scikit-learn on the rows of a cell."""
    from sklearn.linear_model import LinearRegression

    X = np.random.default_rng(0).standard_normal((rows, len(FEATURES)))
    found = best(lambda: [LinearRegression().fit(X, X[:, 0]) for _ in range(50)], 5)
    return Run(found.seconds / 50, found.processors / 50)


def least(runs: list[Run]) -> Run:
    """The least time of some runs, by the clock and of the processors, and the most memory."""
    return Run(
        min(r.seconds for r in runs),
        min(r.processors for r in runs),
        max(r.megabytes for r in runs),
    )


def building(folder: Path, output: Path, rows: int, cells: int, times: int) -> None:
    pairs = [
        (measured("plain", str(folder)), measured("build", str(folder), str(output)))
        for _ in range(times)
    ]
    read, made = (least([pair[i] for pair in pairs]) for i in (0, 1))
    fit = one_fit(rows // cells)
    limit = Run(
        2 * read.seconds + cells * fit.seconds, 2 * read.processors + cells * fit.processors
    )
    show("read and D'D", read)
    show("cube, with file", made, f"{rows / made.seconds:,.0f} rows/s")
    show("with memory=2e8", measured("build", str(folder), str(output), "2e8"))
    show(
        "one fit a cell",
        Run(cells * fit.seconds, cells * fit.processors),
        f"{1e3 * fit.seconds:.2f} ms each",
    )
    share = (
        f"{made.seconds / limit.seconds:.2f} of it, of processors"
        f" {made.processors / limit.processors:.2f}"
    )
    show("limit", limit, f"the cube takes {share}")
    print(f"of read and D'D      {made.processors / read.processors:8.2f} times, of processors")
    beside = sum(file.stat().st_size for file in output.parent.glob("*.hashes.parquet"))
    size = output.stat().st_size
    print(
        f"file                 {size / 1e6:8.1f} MB for {cells:,} cells, hashes {beside / 1e6:.1f}"
    )


def slices(folder: Path, output: Path) -> None:
    import pyarrow.dataset as pads
    from sklearn.linear_model import Lasso, LinearRegression

    import karat

    show("load", best(lambda: karat.Cube.load(output)))
    cube = karat.Cube.load(output)
    model = Lasso(0.05, tol=1e-14, max_iter=10**6)
    last = cube.labels("day")[min(29, len(cube.labels("day")) - 1)]
    few = {"day": slice(None, last)}
    for name, reduce in (("30 days", False), ("30 days, reduced", True)):
        show(
            name,
            best(lambda reduce=reduce: cube.select(few, reduce=reduce).fit(model), 7),
            "select and lasso",
        )
    for reduce in (False, True):
        run = best(lambda reduce=reduce: cube.select(reduce=reduce).fit(model))
        show(
            f"all days{', reduced' if reduce else ''}",
            run,
            f"select and lasso, {len(cube):,} cells",
        )
    regions = cube.rollup("region")
    show("all days, rolled up", best(lambda: regions.select().fit(model)), "of a cube by region")
    table = pads.dataset(folder).to_table(filter=pads.field("day") <= last.item())
    X, y = np.column_stack([table[name] for name in FEATURES]), table["y"].to_numpy()
    full = Lasso(0.05, tol=1e-14, max_iter=10**6).fit(X, y)
    for reduce in (False, True):
        mine = cube.select(few, reduce=reduce).fit(Lasso(0.05, tol=1e-14, max_iter=10**6))
        off = np.abs(mine.coef_ - full.coef_).max() / np.abs(full.coef_).max()
        print(f"off by               {off:8.1e}     from the lasso of all {len(y):,} rows")
    show("fit by region", best(lambda: cube.fit(LinearRegression(), by="region")))
    windows = cube.rolling("day", 28)
    show(
        f"{len(windows)} windows of 28",
        best(lambda: cube.rolling("day", 28).fit(LinearRegression())),
        "ordinary least squares",
    )
    show(
        "windows of 28 days",
        best(lambda: cube.rolling("day", "28D").fit(LinearRegression())),
        "by time",
    )
    fits = windows.fit(LinearRegression())
    table = pads.dataset(folder).to_table(filter=pads.field("day") > cube.labels("day")[-29].item())
    X, y = np.column_stack([table[name] for name in FEATURES]), table["y"].to_numpy()
    full, mine = LinearRegression().fit(X, y), list(fits.values())[-1]
    print(
        "off by              "
        f" {np.abs(mine.coef_ - full.coef_).max() / np.abs(full.coef_).max():8.1e}     the last"
        " window"
    )


def drift(steps: int, window: int = 28) -> None:
    """The last of many windows, beside all rows of it."""
    import pyarrow as pa
    from sklearn.linear_model import LinearRegression

    import karat

    rng = np.random.default_rng(0)
    n = steps * 60
    X = rng.standard_normal((n, 3)) + np.array([0.0, 5.0, 100.0])
    y = X @ [1.0, -2.0, 0.5] + rng.standard_normal(n)
    step = np.repeat(np.arange(steps), 60)
    cube = karat.cube(
        pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "step": step}),
        target="y",
        by="step",
    )
    found = []
    run = best(lambda: found.append(cube.rolling("step", window).fit(LinearRegression())), 1)
    fits = found[0]
    models = list(fits.values())
    for i in (0, len(fits) // 2, len(fits) - 1):
        rows = slice(i * 60, (i + window) * 60)
        full = LinearRegression().fit(X[rows], y[rows])
        off = np.abs(models[i].coef_ - full.coef_).max() / np.abs(full.coef_).max()
        print(f"window {i + 1:>7,}       {off:8.1e}     off from all its rows")
    show(f"{len(fits):,} windows", run)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--days", type=int)
    parser.add_argument("--times", type=int, default=2)
    given = parser.parse_args()
    if given.steps:
        drift(given.steps)
        return
    days = given.days or (365 if given.full else 36)
    with tempfile.TemporaryDirectory() as home:
        folder, output = Path(home) / "data", Path(home) / "cube.parquet"
        rows = write(folder, days, given.shuffled)
        print(
            f"{rows:,} rows, {days} days x {REGIONS}"
            f" regions{', shuffled' if given.shuffled else ''}"
        )
        building(folder, output, rows, days * REGIONS, given.times)
        slices(folder, output)


if __name__ == "__main__":
    main()
