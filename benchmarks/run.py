"""Print the benchmark table, and write it to benchmarks/results/.

    python benchmarks/run.py            under ten minutes
    python benchmarks/run.py --quick    small sizes, under a minute; ratios are not meaningful
    python benchmarks/run.py --full     NNLS and HiGHS at a million rows too (many minutes, 11 GB)
    python benchmarks/run.py --only wide,box
    python benchmarks/run.py --only peers,why --to peers.json

The figures are written to docs/figures/measured.json, from which docs/speed.md and its curves are
made; --to names another file of that folder.  On a machine with other work, set
KARAT_BENCH_CLOCK=processor and OPENBLAS_NUM_THREADS=1: processor time on one thread.

Every time is a median.  What is compared runs in turn.  karat is timed from raw arrays, with
validation.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import curves
import engine
import proof
import readme
import real
import sizes
import why
from report import MEASURED, Report

SECTIONS = {
    "yardstick": engine.yardstick,
    "peers": engine.against_peers,
    "wide": engine.wide,
    "doubling": engine.doubling,
    "memory": real.memory,
    "covtype": real.covertype,
    "box": engine.box,
    "proof": proof.share,
    "curves": curves.curves,
    "few": curves.few_rows,
    "refusal": curves.refusal,
    "threads": curves.threads,
    "why": why.why,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", help=f"comma-separated sections: {', '.join(SECTIONS)}")
    parser.add_argument("--to", default=MEASURED.name, help="the file in docs/figures")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(SECTIONS)
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    size = sizes.QUICK if options.quick else sizes.FULL if options.full else sizes.DEFAULT
    start = time.perf_counter()
    report = Report(size.name)
    for name in chosen:
        SECTIONS[name](report, size)
    path = MEASURED.with_name(options.to)
    report.write(Path(__file__).parent / "results", part=bool(options.only), path=path)
    if not options.quick and path == MEASURED:
        readme.main()
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
