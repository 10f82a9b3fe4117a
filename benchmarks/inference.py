"""Measure ``karat.inference.ols`` with clustered errors from Parquet: each pass against reading the
columns and D'D.

    python benchmarks/inference.py                    1e6 rows, 1e5 clusters
    python benchmarks/inference.py --rows 10000000    1e7 rows, 1e6 clusters, for docs/inference.md
    python benchmarks/inference.py --discrete         three factors and a treatment, 2e6 rows, HC1
    python benchmarks/inference.py --submodels        1,000 submodels of ten columns, clustered

The formula has ten columns: eight numbers and a category of three levels.  Passes: levels, moments,
scores, and one or two for the quantiles of residuals.  Runs alternate, and the best of each is
taken, of the clock and of the processor (all threads), which counts where others use the machine.
Peak memory is measured in processes of their own, and statsmodels is timed on the same rows in
memory, if they fit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

NUMBERS = [f"x{i}" for i in range(8)]
FORMULA = f"y ~ {' + '.join(NUMBERS)} + C(arm)"
PASSES = ("levels", "moments", "scores", "residuals", "residuals again")
PER_FILE = 1_000_000
SAMPLED = 2_000_000  # rows above which statsmodels is timed on a part only


def write(folder: Path, rows: int, clusters: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    effect = rng.standard_normal(clusters)
    for start in range(0, rows, PER_FILE):
        n = min(PER_FILE, rows - start)
        X, user, arm = (
            rng.standard_normal((n, len(NUMBERS))),
            rng.integers(0, clusters, n),
            rng.integers(0, 3, n),
        )
        y = X.sum(axis=1) + arm + effect[user] + rng.standard_normal(n) * (1 + np.abs(X[:, 0]))
        columns = {name: X[:, i] for i, name in enumerate(NUMBERS)}
        columns |= {
            "arm": pa.array(["control", "red", "blue"]).take(pa.array(arm)),
            "user": user,
            "y": y,
        }
        pq.write_table(pa.table(columns), folder / f"{start:012d}.parquet", row_group_size=250_000)


class Clock:
    """Seconds of the clock and of the processor since it was made."""

    def __init__(self) -> None:
        self.start = (time.perf_counter(), time.process_time())

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.start[0], time.process_time() - self.start[1]


def plain(folder: Path, columns: list[str]) -> tuple[float, float]:
    """Read columns and compute D'D of those that are numbers; the others are read only."""
    import pyarrow.dataset as pads

    clock, gram = Clock(), 0.0
    for batch in pads.dataset(folder).to_batches(columns=columns):
        numbers = [
            column.to_numpy()
            for name, column in zip(columns, batch.columns, strict=True)
            if name not in ("arm", "user")
        ]
        if numbers:
            # as many columns as the design has
            D = np.column_stack([np.ones(batch.num_rows), *numbers, *numbers[:2]])
            gram = gram + D.T @ D
    return clock.read()


def passes(folder: Path, residuals: bool = False) -> dict[str, tuple[float, float]]:
    """The seconds of every pass of a clustered table, and of the quantiles of residuals."""
    from karat.formulas.passes import SourceRows
    from karat.inference import ols

    taken: list[tuple[float, float]] = []

    class Timed(SourceRows):
        def scan(self, layout, consumer):
            clock = Clock()
            found = super().scan(layout, consumer)
            taken.append(clock.read())
            return found

        def coreset(self, layout):
            clock = Clock()
            found = super().coreset(layout)
            taken.append(clock.read())
            return found

    import karat.formulas.passes as module

    module.SourceRows = Timed
    clock = Clock()
    ols(FORMULA, str(folder), cov_type="cluster", cluster="user")
    whole = clock.read()
    if residuals:
        ols(FORMULA, str(folder), residual_quantiles=True)
        taken[3:5] = []  # levels and moments again
    module.SourceRows = SourceRows
    return dict(zip(PASSES, taken, strict=False)) | {"whole": whole}


def statsmodels(folder: Path, rows: int | None) -> float:
    import pyarrow.dataset as pads
    import statsmodels.formula.api as smf

    frame = (
        pads.dataset(folder).head(rows) if rows else pads.dataset(folder).to_table()
    ).to_pandas()
    start = time.perf_counter()
    smf.ols(FORMULA, frame).fit(cov_type="cluster", cov_kwds={"groups": frame["user"]}).summary()
    return time.perf_counter() - start


def discrete(folder: Path, repeat: int) -> None:
    """A design of three factors and a treatment, with reading."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from karat.inference import ols

    rng, n = np.random.default_rng(0), 2_000_000
    sizes = {"region": 24, "month": 12, "plan": 5, "treated": 2}
    columns = {name: rng.integers(0, size, n) for name, size in sizes.items()}
    columns["y"] = 0.1 * columns["treated"] + 0.01 * columns["month"] + rng.standard_normal(n)
    pq.write_table(pa.table(columns), folder / "discrete.parquet")
    best = np.array([np.inf, np.inf])
    for _ in range(repeat):
        clock = Clock()
        formula = "y ~ C(region) + C(month) + C(plan) + treated"
        ols(formula, folder / "discrete.parquet", cov_type="HC1")
        best = np.minimum(best, clock.read())
    print(f"{n:,} rows of three factors and a treatment, HC1, with reading:")
    print(f"  {best[0]:.2f} s of the clock, {best[1]:.2f} s of the processor")


def submodels(folder: Path, repeat: int) -> None:
    """Robust tables of 1,000 choices of ten columns, from one stored file."""
    from itertools import combinations

    import pandas as pd

    import karat
    from karat.inference import ols

    rng, n, groups = np.random.default_rng(0), 500_000, 50_000
    names, group = [f"x{i}" for i in range(10)], rng.integers(0, groups, n)
    X = rng.standard_normal((n, 10)) + 0.5 * rng.standard_normal((groups, 10))[group]
    y = X.sum(axis=1) + rng.standard_normal(groups)[group] + rng.standard_normal(n)
    frame = pd.DataFrame(X, columns=names).assign(group=group, y=y)
    options = {"cov_type": "cluster", "cluster": "group"}
    for more in ({}, {"submodels": True}):
        clock = Clock()
        fit = ols(f"y ~ {' + '.join(names)}", frame, **options, **more)
        print(f"  ols of {n:,} rows, {more}: {clock.read()[1]:.2f} s of the processor")
    fit.coreset.save(folder / "fit.parquet")
    choices = [c for size in range(1, 11) for c in combinations(names, size)][:1000]
    best = np.array([np.inf, np.inf])
    for _ in range(repeat):
        clock = Clock()
        stored = ols(karat.load(folder / "fit.parquet"))
        for choice in choices:
            _ = stored.submodel(["Intercept", *choice], cov_type="cluster").bse
        best = np.minimum(best, clock.read())
    print("1,000 submodels with clustered errors from one stored file:")
    print(f"  {best[0]:.2f} s of the clock, {best[1]:.2f} s of the processor")


def peak(what: str, folder: Path) -> float:
    """Peak memory of a process of its own, in MB."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", what, str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--clusters", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no-statsmodels", action="store_true")
    parser.add_argument("--discrete", action="store_true")
    parser.add_argument("--submodels", action="store_true")
    parser.add_argument("--child", nargs=2)
    given = parser.parse_args()
    if given.child:
        (
            passes(Path(given.child[1]))
            if given.child[0] == "karat"
            else plain(Path(given.child[1]), [*NUMBERS, "y"])
        )
        # the peak of rusage would be that of the parent
        lines = Path("/proc/self/status").read_text().splitlines()
        print(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024)
        return
    clusters = given.clusters or given.rows // 10
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.discrete or given.submodels:
            (discrete if given.discrete else submodels)(folder, given.repeat)
            return
        write(folder, given.rows, clusters)
        best: dict[str, np.ndarray] = {}
        columns = {
            "levels": ["arm"],
            "moments": [*NUMBERS, "arm", "y"],
            "scores": [*NUMBERS, "arm", "y", "user"],
        }
        columns |= dict.fromkeys(PASSES[3:], columns["moments"])
        for _ in range(given.repeat):
            found = passes(folder, True) | {
                f"plain {key}": plain(folder, read) for key, read in list(columns.items())[:3]
            }
            found |= dict.fromkeys((f"plain {key}" for key in PASSES[3:]), found["plain moments"])
            for key, value in found.items():
                best[key] = np.minimum(best.get(key, np.inf), value)
        print(
            f"{given.rows:,} rows, {clusters:,} clusters, 10 columns; seconds of the clock, and of"
            " the processor"
        )
        for key in (key for key in columns if key in best):
            own, other = best[key], best[f"plain {key}"]
            whole = own / best["plain moments"]
            print(
                f"  {key:15} {own[0]:6.2f} {own[1]:6.2f}   reading its columns and D'D"
                f" {other[0]:6.2f} {other[1]:6.2f}   ratio {own[0] / other[0]:.2f}"
                f" {own[1] / other[1]:.2f}   of reading all columns {whole[0]:.2f} {whole[1]:.2f}"
            )
        print(f"  all             {best['whole'][0]:6.2f} {best['whole'][1]:6.2f}")
        print(
            f"  peak memory: {peak('karat', folder):,.0f} MB, of plain reading"
            f" {peak('plain', folder):,.0f} MB"
        )
        if not given.no_statsmodels:
            part = SAMPLED if given.rows > SAMPLED else None
            seconds = statsmodels(folder, part)
            print(
                f"  statsmodels in memory: {seconds:.1f} s"
                + (f" for the first {part:,} rows" if part else "")
            )


if __name__ == "__main__":
    main()
