"""Curves of construction against n, d, m and threads, and the cases that used to be slow: the
source of docs/speed.md.

Every ratio is taken in one run, in turn with its yardstick: D'D on a ready D, and one LU of an m x
m matrix.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from data import design, gaussian
from report import Line, Report, shape
from scipy import linalg, sparse
from sizes import Sizes
from timing import interleaved

import karat

THREADS = """
import json, statistics, sys, time
sys.path[:0] = json.loads(sys.argv[1])
from curves import THREAD_SHAPE, lognormal
import karat
X, y = lognormal(*THREAD_SHAPE)
karat.coreset(X, y)
seconds = []
for _ in range(5):
    start = time.perf_counter()
    core = karat.coreset(X, y)
    seconds.append(time.perf_counter() - start)
print(json.dumps([statistics.median(seconds), core.weights.sum().hex()]))
"""
THREAD_SHAPE = (100_000, 53)
BUSY = 2  # other processes on a busy machine


def lognormal(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns with tails, as in design notes of the engine: exp(0.7 z)."""
    X, y = gaussian(n, d, seed)
    return np.exp(0.7 * X), np.exp(0.7 * y / y.std())


def curves(report: Report, sizes: Sizes) -> None:
    """Time against n (d = 10), against d and m (100,000 rows), and with tails."""
    asked = {
        ("gaussian", 200, 10): {},
        ("gaussian", 100_000, 10): {"limit": 5.0, "goal": 3.0},
        ("lognormal", 100_000, 20): {"limit": 8.0, "goal": 5.0},
        ("gaussian", 100_000, 53): {"limit": 7.0, "goal": 5.0},
        ("lognormal", 100_000, 53): {"limit": 7.0, "goal": 5.0},
        ("gaussian", 100_000, 98): {"limit": 7.0, "goal": 5.0},
    }
    makers = {"gaussian": gaussian, "lognormal": lognormal}
    cases = [("gaussian", n, 10) for n in sizes.curve_rows] + [
        (kind, sizes.wide_rows, d) for kind in makers for d in sizes.curve_columns
    ]
    for kind, n, d in cases:
        X, y = makers[kind](n, d)
        D, m = design(X, y), (d + 2) * (d + 3) // 2
        square = np.random.default_rng(1).standard_normal((m, m))

        def bound(D: np.ndarray = D, square: np.ndarray = square) -> None:
            D.T @ D
            linalg.lu_factor(square, check_finite=False)

        small = d == 10
        things = {
            "bound": (lambda D=D: D.T @ D) if small else bound,
            "karat": lambda X=X, y=y: karat.coreset(X, y),
        }
        found = interleaved(things, sizes.repeats, sizes.budget)
        ratio = found["karat"].seconds / found["bound"].seconds
        case = f"curve {kind} {shape(n, d)}"
        report.karat(
            case,
            found["karat"],
            ratio=ratio,
            of="D'D" if small else "D'D + LU",
            note=f"m = {m}",
            **asked.get((kind, n, d), {}),
        )


def few_rows(report: Report, sizes: Sizes) -> None:
    """Fewer rows than features: all are kept, at the price of about one QR factorisation."""
    X, y = gaussian(2_500, 80)
    F = np.random.default_rng(0).standard_normal((2_500, 82 * 83 // 2))
    things = {
        "QR": lambda: linalg.qr(F, mode="r", check_finite=False),
        "karat": lambda: karat.coreset(X, y),
    }
    found = interleaved(things, sizes.repeats, sizes.budget)
    ratio = found["karat"].seconds / found["QR"].seconds
    report.karat(
        f"few rows {shape(*X.shape)}", found["karat"], ratio=ratio, of="one QR", limit=3.0, goal=1.0
    )


def refusal(report: Report, sizes: Sizes) -> None:
    """A sparse table with far too many columns is refused before it is read."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 20_000, (2, 1_000_000))
    X = sparse.csr_matrix((rng.random(1_000_000), (place[0], place[1])), shape=(20_000, 20_000))
    seconds = []
    for _ in range(max(5, sizes.repeats)):
        start = time.perf_counter()
        try:
            karat.coreset(X, np.ones(20_000))
        except karat.errors.InputError:
            seconds.append(time.perf_counter() - start)
    report.add(
        Line(
            "refusal sparse, d = 20,000",
            "karat",
            float(np.median(seconds)),
            len(seconds),
            note="limit 50 ms",
        )
    )


def threads(report: Report, sizes: Sizes) -> None:
    """One thread, all threads, and all threads on a busy machine; the weights must be the same to
    the last bit.
    """
    one, total = _in_process("1")
    report.add(Line(f"threads {shape(*THREAD_SHAPE)}", "one thread", one, 5))
    for what, others in (("all threads", 0), (f"all threads, {BUSY} other processes", BUSY)):
        spinning = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(others)
        ]
        try:
            seconds, found = _in_process(None)
        finally:
            for process in spinning:
                process.kill()
                process.wait()
        if found != total:
            raise AssertionError("The weights depend on the number of threads.")
        asked = {"limit": 2.0, "goal": 1.2} if others else {}
        report.add(
            Line(
                f"threads {shape(*THREAD_SHAPE)}",
                what,
                seconds,
                5,
                ratio=seconds / one,
                of="one thread",
                **asked,
            )
        )


def _in_process(count: str | None) -> tuple[float, str]:
    environment = {
        name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"
    }
    if count is not None:
        environment["OPENBLAS_NUM_THREADS"] = count
    here = Path(__file__).parent
    paths = json.dumps([str(here), str(here.parent / "src")])
    done = subprocess.run(
        [sys.executable, "-c", THREADS, paths],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    seconds, total = json.loads(done.stdout)
    return float(seconds), str(total)
