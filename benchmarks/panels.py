"""Absorbed fixed effects beside pyfixest: seconds, and peak memory of processes of their own.

    python benchmarks/panels.py                       1e6 rows, 100,000 x 100 levels, from Parquet
    python benchmarks/panels.py --rows 10000000       1e7 rows, 1e6 x 1,000 levels
    python benchmarks/panels.py --text                text labels instead of numbers
    python benchmarks/panels.py --movers              employers with local moves (poorly connected)
    python benchmarks/panels.py --small               1e6 rows, 20,000 x 60 levels, in memory

The panel is unbalanced, with three regressors and errors clustered in two ways.  pyfixest gets the
columns it needs in one read of the same files, so that both times begin with files.  It is measured
with its default tolerance, 1e-6, which is less than karat does, and its first call in a process
(which compiles or loads) is shown beside the second.  Ratios are karat over pyfixest: less is
better.  Without pyfixest only karat is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

FORMULA, CLUSTERS = "y ~ x1 + x2 + x3 | firm + year", ["firm", "year"]
PER_FILE = 1_000_000


def levels(rows: int, kind: str) -> tuple[int, int]:
    if kind == "small":
        return 20_000, 60
    return (rows // 5, rows // 50) if kind == "movers" else (rows // 10, max(rows // 10_000, 100))


def made(rows: int, kind: str, text: bool) -> Any:
    """The parts of a panel as Arrow tables."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    firms, years = levels(rows, kind)
    firm_effects, year_effects = rng.standard_normal((firms, 4)), rng.standard_normal((years, 4))
    for start in range(0, rows, PER_FILE):
        n = min(PER_FILE, rows - start)
        firm = rng.integers(0, firms, n)
        if kind == "movers":  # workers change to one of the next employers, or stay
            year = (firm * years // firms + rng.integers(0, 3, n)) % years
        else:  # firms live for a part of the years, from one that the firm decides
            life = max(years // 5, 2)
            year = (firm * 7919 % years + rng.integers(0, life, n)) % years
        Z = rng.standard_normal((n, 4)) + firm_effects[firm] + year_effects[year]
        y = Z[:, :3] @ [1.0, -0.5, 0.0] + Z[:, 3]
        labels = pa.array(firm)
        if text:
            labels = pa.array(np.char.mod("firm %09d", firm))
        yield pa.table(
            {"x1": Z[:, 0], "x2": Z[:, 1], "x3": Z[:, 2], "y": y, "firm": labels, "year": year}
        )


def write(folder: Path, rows: int, kind: str, text: bool) -> None:
    import pyarrow.parquet as pq

    for part, table in enumerate(made(rows, kind, text)):
        pq.write_table(table, folder / f"{part:04d}.parquet", row_group_size=250_000)


def loaded(folder: Path) -> Any:
    import pyarrow.dataset as pads

    return pads.dataset(folder).to_table().to_pandas()


def plain(folder: Path, frame: Any = None) -> dict[str, float]:
    """Read every column, and sum it."""
    import pyarrow.dataset as pads

    for batch in pads.dataset(folder).to_batches():
        for column in batch.columns:
            len(column)
    return {}


def with_karat(folder: Path, frame: Any = None) -> dict[str, float]:
    import karat

    source = str(folder) if frame is None else frame
    fit = karat.ols(FORMULA, source, cov_type="cluster", cluster=CLUSTERS)
    return {name: float(fit.params[name]) for name in fit.params.index}


def with_pyfixest(folder: Path, frame: Any = None) -> dict[str, float]:
    import pyfixest

    frame = loaded(folder) if frame is None else frame
    fit = pyfixest.feols(FORMULA, frame, vcov={"CRV1": "+".join(CLUSTERS)})
    return {name: float(value) for name, value in fit.coef().items()}


TOOLS: dict[str, Callable[..., dict[str, float]]] = {
    "plain": plain,
    "karat": with_karat,
    "pyfixest": with_pyfixest,
}


def child(tool: str, folder: Path, in_memory: bool) -> None:
    """Two calls in this process: their seconds of the clock and of the processor, the peak."""
    warnings.simplefilter("ignore")
    frame = loaded(folder) if in_memory else None
    calls = []
    for _ in range(2):
        start = time.perf_counter(), time.process_time()
        params = TOOLS[tool](folder, frame)
        calls.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    status = Path("/proc/self/status").read_text().splitlines()
    peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
    print(json.dumps({"calls": calls, "peak": peak, "params": params}))


def measured(tool: str, folder: Path, in_memory: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", tool, str(folder)]
    done = subprocess.run(
        command + ["--in-memory"] * in_memory, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--in-memory", action="store_true")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--movers", dest="kind", action="store_const", const="movers")
    kinds.add_argument("--small", dest="kind", action="store_const", const="small")
    parser.add_argument("--child", nargs=2)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]), given.in_memory)
        return
    in_memory = given.in_memory or given.kind == "small"
    tools = ["plain", "karat", *(["pyfixest"] if find_spec("pyfixest") else [])]
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), given.rows, given.kind or "", given.text)
        best: dict[str, Any] = {}
        for _ in range(given.repeat):  # in turns, the best of each
            for tool in tools:
                found = measured(tool, Path(name), in_memory)
                calls = np.array(found["calls"])
                before = best.get(tool)
                found["calls"] = calls if before is None else np.minimum(calls, before["calls"])
                best[tool] = found
    firms, years = levels(given.rows, given.kind or "")
    print(f"{given.rows:,} rows, {firms:,} x {years:,} levels, {given.kind or 'unbalanced'}")
    print("seconds of the clock and of the processor, first call and second; peak memory")
    for tool, found in best.items():
        first, second = found["calls"]
        line = f"  {tool:9} {first[0]:7.2f} {first[1]:7.2f}   {second[0]:7.2f} {second[1]:7.2f}"
        print(f"{line}   {found['peak']:8,.0f} MB")
    if "pyfixest" in best:
        own, other = best["karat"]["calls"], best["pyfixest"]["calls"]
        ratios = "   ".join(f"{value:.2f}" for value in (own / other).ravel())
        print(f"  ratio (clock, processor; first, second call)  {ratios}")
        gaps = [
            abs(best["karat"]["params"][name] - value)
            for name, value in best["pyfixest"]["params"].items()
        ]
        print(f"  largest difference of coefficients {max(gaps):.1e}")


if __name__ == "__main__":
    main()
