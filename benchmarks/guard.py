"""Compare the speed of two commits: the same cases in turn, one process per commit, by the ratio of
their times.

    python benchmarks/guard.py              HEAD against the work tree
    python benchmarks/guard.py v0.1.0 main  two commits, each checked out in a worktree of its own
    python benchmarks/guard.py --only wide  some of the cases
    python benchmarks/guard.py --processor  processor time on one thread, for a busy machine

What got slower by more than ``--slower`` (1.15) is named at the end, and the exit code is then 1.
Both commits run in the same minute on the same machine, so that ratios mean something where seconds
do not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK_TREE = "."
CASES = {  # kind of data, rows, columns, repeats
    "small 200 x 10": ("gaussian", 200, 10, 25),
    "rows 100,000 x 10": ("gaussian", 100_000, 10, 11),
    "rows 1,000,000 x 10": ("gaussian", 1_000_000, 10, 9),
    "tails 100,000 x 20, lognormal": ("lognormal", 100_000, 20, 9),
    "wide 100,000 x 30 (m = 528)": ("gaussian", 100_000, 30, 7),
    "wide 100,000 x 53 (m = 1540)": ("gaussian", 100_000, 53, 5),
    "wide 100,000 x 53, lognormal": ("lognormal", 100_000, 53, 5),
    "few 2,500 x 80 (fewer rows than features)": ("gaussian", 2_500, 80, 3),
    "covertype": ("covtype", 0, 0, 3),
}


def data(kind: str, n: int, d: int) -> tuple[object, object]:
    import numpy as np

    if kind == "covtype":
        sys.path.insert(0, str(ROOT / "benchmarks"))
        from data import covtype

        found = covtype()
        assert found is not None
        return found
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X.sum(axis=1) + rng.standard_normal(n)
    return (np.exp(0.7 * X), np.exp(0.7 * y / y.std())) if kind == "lognormal" else (X, y)


def work(source: str, clock: str) -> None:
    """Read names of cases, build a coreset for each, and print the seconds."""
    sys.path.insert(0, source)
    import karat

    now = time.process_time if clock == "processor" else time.perf_counter
    ready: dict[str, tuple[object, object]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            ready = {name: data(*CASES[name][:3])}
            karat.coreset(*ready[name])
        start = now()
        karat.coreset(*ready[name])
        print(now() - start, flush=True)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The source tree of a commit, in a worktree that is removed afterwards; "." is the work tree
    as it is.
    """
    if commit == WORK_TREE:
        yield ROOT / "src"
        return
    folder = Path(tempfile.mkdtemp(prefix="karat-guard-"))
    try:
        subprocess.run(
            ["git", "worktree", "add", "--detach", "--quiet", folder / "tree", commit],
            cwd=ROOT,
            check=True,
        )
        yield folder / "tree" / "src"
    finally:
        subprocess.run(
            ["git", "worktree", "remove", "--force", folder / "tree"], cwd=ROOT, check=False
        )
        shutil.rmtree(folder, ignore_errors=True)


def compare(names: list[str], workers: list[subprocess.Popen[str]]) -> dict[str, float]:
    """The ratio of the second commit's best time to the first's, by case."""
    ratios = {}
    for name in names:
        kind, _, _, repeats = CASES[name]
        if kind == "covtype" and not os.environ.get("KARAT_DATA"):
            print(f"{name}: set KARAT_DATA")
            continue
        seconds: list[list[float]] = [[], []]
        for _ in range(repeats):
            for worker, taken in zip(workers, seconds, strict=True):
                assert worker.stdin is not None
                assert worker.stdout is not None
                worker.stdin.write(name + "\n")
                taken.append(float(worker.stdout.readline()))
        best, middle = (
            [min(taken) for taken in seconds],
            [statistics.median(taken) for taken in seconds],
        )
        ratios[name] = best[1] / best[0]
        print(
            f"{name:42s} {best[0] * 1e3:10.2f} ms {best[1] * 1e3:10.2f} ms   ratio"
            f" {ratios[name]:.2f} (of medians {middle[1] / middle[0]:.2f})",
            flush=True,
        )
    return ratios


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", nargs="?", default="HEAD", help="a commit, by default HEAD")
    parser.add_argument(
        "after", nargs="?", default=WORK_TREE, help="a commit, by default the work tree"
    )
    parser.add_argument(
        "--only",
        help=f"first words of cases, by commas: {', '.join({n.split()[0] for n in CASES})}",
    )
    parser.add_argument(
        "--slower", type=float, default=1.15, help="ratio from which on a case counts as slower"
    )
    parser.add_argument("--processor", action="store_true", help="processor time, on one thread")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [name.split()[0] for name in CASES]
    names = [name for name in CASES if name.split()[0] in chosen]
    clock = "processor" if options.processor else "wall"
    environment = os.environ | ({"OPENBLAS_NUM_THREADS": "1"} if options.processor else {})
    with ExitStack() as stack:
        trees = [
            stack.enter_context(checked_out(commit)) for commit in (options.before, options.after)
        ]
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, __file__, "--work", str(tree.resolve()), clock],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    bufsize=1,
                    env=environment,
                )
            )
            for tree in trees
        ]
        ratios = compare(names, workers)
    slower = {name: ratio for name, ratio in ratios.items() if ratio > options.slower}
    for name, ratio in slower.items():
        print(f"SLOWER: {name}, {ratio:.2f} times the time of {options.before}")
    if not slower:
        print(f"Nothing got slower by more than {options.slower:g}.")
    return int(bool(slower))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    else:
        sys.exit(main())
