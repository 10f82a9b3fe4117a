"""Wall time and peak memory, measured so that ratios are reliable."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

# NumPy and SciPy each have an OpenBLAS whose worker threads spin for about 25 ms after a call and
# use a core; Intel's OpenMP (PyRecombine) spins for 200 ms.  Without a pause this would slow down
# the next measurement.
PAUSE = 0.1
LONG_PAUSE = 0.3
SHORT, MOST = 0.03, 100  # seconds of a run that is made of several calls, and most calls
# On a machine with other work, processor time on one thread is comparable where wall time is not.
CLOCK = (
    time.process_time if os.environ.get("KARAT_BENCH_CLOCK") == "processor" else time.perf_counter
)


class Timing(NamedTuple):
    """Median seconds, the number of runs, and the result of the last run."""

    seconds: float
    runs: int
    result: Any


def interleaved(
    things: Mapping[str, Callable[[], Any]],
    repeats: int = 5,
    budget: float = 20.0,
    pause: float = PAUSE,
    warm: bool = True,
) -> dict[str, Timing]:
    """Time several functions in turn, round after round, so that other load on the machine affects
    all alike.

    If ``warm``, each is first called once without timing (compilation, first touch of memory).  A
    function that has used its ``budget`` of seconds is not run again, so that slow ones have fewer
    runs, at least one.  A run is several calls of a short function, as in timeit: after a pause the
    processor needs milliseconds to come back to speed.
    """
    calls = {name: _calls(thing) if warm else 1 for name, thing in things.items()}
    results: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for _ in range(repeats):
        for name, thing in things.items():
            if sum(seconds[name]) > budget:
                continue
            results.pop(name, None)
            gc.collect()
            time.sleep(pause)
            start = CLOCK()
            for _ in range(calls[name]):
                results[name] = thing()
            seconds[name].append((CLOCK() - start) / calls[name])
    return {
        name: Timing(statistics.median(s), len(s), results[name]) for name, s in seconds.items()
    }


def _calls(thing: Callable[[], Any]) -> int:
    """Call a function once, and a short one again: how many calls make a run of SHORT seconds, one
    at least.
    """
    for _ in range(2):
        start = time.perf_counter()
        thing()
        seconds = time.perf_counter() - start
        if seconds > 10 * SHORT:
            break
    return max(1, min(MOST, int(SHORT / seconds)))


def peak_memory(load: Callable[[], Any], work: Callable[[Any], Any]) -> tuple[int, Any]:
    """Peak bytes of ``work(load())`` in addition to the result of ``load()``, and the result.

    Runs in a new process; both functions must be importable there.  Allocations of BLAS are
    included.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, load, work).result()


def _measure(load: Callable[[], Any], work: Callable[[Any], Any]) -> tuple[int, Any]:
    data = load()
    gc.collect()
    before = _resident("VmRSS")
    result = work(data)
    return _resident("VmHWM") - before, result


def _resident(field: str) -> int:
    """Resident bytes, now (VmRSS) or at the peak (VmHWM).

    On Linux a process inherits ru_maxrss from its parent, so a large parent would hide the peak of
    its child; the counters in /proc do not have this problem.  Other systems use ru_maxrss.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(text for text in status.read_text().splitlines() if text.startswith(field))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
