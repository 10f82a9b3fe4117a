"""Worker processes under a time limit: a case that hangs is killed with its process, and the others
go on.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 150.0  # seconds of processor time for a case with its oracle; karat has 60 of them
WAITING = 10  # times that on the wall: a case that waits for something
START = 120.0


class Worker:
    """A process that judges one case at a time."""

    def __init__(self, src: Path, seed: int, keep: str, rows: str) -> None:
        env = os.environ | {
            "PYTHONPATH": f"{src}{os.pathsep}{ROOT}",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.worker", str(seed), keep, rows], cwd=ROOT,
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self.name: str | None = None
        self.since, self.given = 0.0, 0.0
        self.home = self.answer(START)

    def answer(self, patience: float) -> dict[str, Any] | None:
        """The next line, or None if the process is silent for so long or has ended."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, patience))
        line = self.process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def give(self, name: str) -> None:
        assert self.process.stdin is not None
        self.name, self.since, self.given = name, self.spent(), time.monotonic()
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()

    def spent(self) -> float:
        """Seconds of processor time, so that a busy machine makes no case late; where no such clock
        can be read (outside Linux), those of the wall.
        """
        if sys.platform != "linux":
            return time.monotonic()
        clock = (~self.process.pid << 3) | 2  # what clock_getcpuclockid(3) gives
        try:
            return time.clock_gettime(clock)
        except OSError:  # it has ended, which the next look at it says
            return self.since

    def late(self, patience: float) -> bool:
        """Whether its case has taken too long, or hangs without working."""
        waited = time.monotonic() - self.given
        return self.spent() - self.since > patience or waited > WAITING * patience

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


def run(
    names: list[str], src: Path, seed: int = 0, processes: int = 2, keep: str = "",
    patience: float = PATIENCE, rows: str = "real",
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Verdicts, as they come; a case has ``patience`` seconds.

    ``rows``: which kind is to be judged.
    """
    waiting = list(reversed(names))
    workers = [Worker(src, seed, keep, rows) for _ in range(min(processes, len(names)))]
    for worker in workers:
        if worker.home is None:
            raise SystemExit("A worker did not start: is there a karat, with pyarrow, under --src?")
        if not Path(worker.home["ready"]).is_relative_to(src):
            raise SystemExit(
                f"There is no karat in {src}; Python found {worker.home['ready']} instead."
            )
    yield workers[0].home
    try:
        while waiting or any(w.name for w in workers):
            for worker in workers:
                if worker.name is None and waiting:
                    worker.give(waiting.pop())
            busy = [w for w in workers if w.name]
            select.select([w.process.stdout for w in busy], [], [], 1.0)
            for place, worker in enumerate(workers):
                if not worker.name:
                    continue
                ended = worker.process.poll() is not None
                late = not ended and worker.late(patience)
                found = worker.answer(0.0)
                if found is None and not (ended or late):
                    continue
                if found is None:
                    worker.stop()
                    word = "slow" if late else "crashed"
                    detail = (
                        f"killed after {patience:.0f} s"
                        if late
                        else f"the process died, code {worker.process.returncode}"
                    )
                    found = {"name": worker.name, "verdict": word, "detail": detail}
                    workers[place] = Worker(src, seed, keep, rows)
                worker.name = None
                yield found
    finally:
        for worker in workers:
            worker.stop()
