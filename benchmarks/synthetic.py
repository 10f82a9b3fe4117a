"""Synthetic rows beside the least that they can cost, in processor time on one thread.

    python benchmarks/synthetic.py                   all cases: some minutes, 4 GB
    python benchmarks/synthetic.py --only tall,groups
    python benchmarks/synthetic.py --quick           small sizes, seconds; ratios are not meaningful

Second moments are one product D'D, rows are made by one Cholesky factorisation, and a proof for
many columns needs the smallest eigenvalue: these are the yardsticks.  Groups stand beside one fit
of scikit-learn each, sparse rows beside one sparse product. Every time is a median, and what is
compared runs in turn in one process.  The results go to docs/figures/synthetic.json, from which
docs/speed.md makes its table.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from data import design, gaussian
from report import MEASURED, Line, Report, shape
from scipy import linalg, sparse
from sklearn.linear_model import LinearRegression
from timing import interleaved

import karat

ALONE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
ALONE["KARAT_BENCH_CLOCK"] = "processor"
REPEATS, BUDGET = 7, 60.0
FACTORS = 10  # of the sparse table, one-hot
MOST_SECONDS = 10.0  # that it may take


def tall(report: Report, share: int) -> None:
    """Few columns: one product."""
    _against(report, 1_000_000 // share, 10, "D'D", lambda gram: gram, limit=1.5)


def wide(report: Report, share: int) -> None:
    """Many columns: a product and a factorisation."""
    for n, d in ((100_000, 100), (100_000, 300), (50_000, 1000)):
        _against(
            report, n // share, d if share == 1 else d // 4, "D'D + Cholesky", _factor, limit=1.4
        )


def widest(report: Report, share: int) -> None:
    """So many columns that the proof costs as much as the product."""

    def both(gram: np.ndarray) -> None:
        _factor(gram)
        linalg.eigvalsh(gram, check_finite=False)

    _against(
        report,
        20_000 // share,
        3000 if share == 1 else 300,
        "D'D + Cholesky + eigvalsh",
        both,
        limit=1.3,
    )


def groups(report: Report, share: int) -> None:
    """Made rows of every group beside a fit of every group, of which a tenth is timed."""
    count, size, columns = 20_000 // share, 100, 5
    X, y = gaussian(count * size, columns)
    labels, some = np.repeat(np.arange(count), size), count // 10

    def fits() -> None:
        for start in range(0, some * size, size):
            LinearRegression().fit(X[start : start + size], y[start : start + size])

    found = interleaved(
        {"fits": fits, "karat": lambda: karat.coreset(X, y, groups=labels, rows="synthetic")},
        REPEATS,
        BUDGET,
    )
    case, each = (
        f"made {count:,} groups of {size} x {columns}",
        found["fits"].seconds * count / some,
    )
    report.add(Line(case, "LinearRegression of every group", each, found["fits"].runs))
    report.karat(
        case,
        found["karat"],
        ratio=found["karat"].seconds / each,
        of="fits",
        limit=0.2,
        note="made rows",
    )


def one_hot(report: Report, share: int) -> None:
    """Indicators of ten factors as a sparse matrix."""
    n, d = 1_000_000 // share, 5000 // share
    rng = np.random.default_rng(0)
    levels = rng.integers(0, d // FACTORS, (n, FACTORS)) + np.arange(FACTORS) * (d // FACTORS)
    ends = np.arange(0, n * FACTORS + 1, FACTORS)
    X = sparse.csr_matrix((np.ones(n * FACTORS), levels.ravel(), ends), shape=(n, d))
    y = rng.standard_normal(d)[levels].sum(axis=1) + rng.standard_normal(n)
    found = interleaved(
        {"X'X": lambda: X.T @ X, "karat": lambda: karat.coreset(X, y, rows="synthetic")}, 3, BUDGET
    )
    case, seconds = f"made sparse one-hot {shape(n, d)}", found["karat"].seconds
    report.add(Line(case, "X'X by SciPy", found["X'X"].seconds, found["X'X"].runs))
    asked = (
        ""
        if share > 1
        else f", at most {MOST_SECONDS:g} s: {'met' if seconds <= MOST_SECONDS else 'missed'}"
    )
    report.karat(
        case,
        found["karat"],
        ratio=seconds / found["X'X"].seconds,
        of="X'X",
        note=f"made rows{asked}",
    )


SECTIONS = {"tall": tall, "wide": wide, "widest": widest, "groups": groups, "sparse": one_hot}


def _factor(gram: np.ndarray) -> None:
    linalg.cholesky(gram, check_finite=False)


def _against(
    report: Report, n: int, d: int, of: str, rest: Callable[[np.ndarray], Any], limit: float
) -> None:
    """Made rows of raw (X, y) beside a product on a ready D and what follows it."""
    X, y = gaussian(n, d)
    D = design(X, y)
    things = {
        "least": lambda: rest(D.T @ D),
        "karat": lambda: karat.coreset(X, y, rows="synthetic"),
    }
    found = interleaved(things, REPEATS, BUDGET)
    case = f"made {shape(n, d)}"
    report.add(Line(case, f"{of} on a ready D", found["least"].seconds, found["least"].runs))
    ratio = found["karat"].seconds / found["least"].seconds
    report.karat(case, found["karat"], ratio=ratio, of=of, limit=limit, note="made rows")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help=f"comma-separated sections: {', '.join(SECTIONS)}")
    options = parser.parse_args()
    # must be set before NumPy is loaded
    if any(os.environ.get(name) != value for name, value in ALONE.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ALONE)
    chosen = options.only.split(",") if options.only else list(SECTIONS)
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    report = Report("quick" if options.quick else "full")
    for name in chosen:
        SECTIONS[name](report, 10 if options.quick else 1)
    report.write(
        Path(__file__).parent / "results",
        part=bool(options.only),
        path=MEASURED.with_name("synthetic.json"),
    )


if __name__ == "__main__":
    main()
