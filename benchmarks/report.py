"""The benchmark table: lines are printed as they are measured, and written as JSON and Markdown at
the end.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import timing
from timing import Timing

MEASURED = Path(__file__).parents[1] / "docs" / "figures" / "measured.json"
HEADS = ("case", "what", "time", "runs", "ratio", "limit", "error", "rows", "memory", "note")
WIDTHS = (28, 31, 9, 4, 22, 25, 6, 5, 8, 0)


@dataclass
class Line:
    """One measurement; ``ratio`` is its time (or memory) over that of ``of``, ``limit`` and
    ``goal`` bound the ratio.

    ``error`` is the certificate's loss error for karat, the largest relative moment error for
    peers, and that of the coefficients where a model was fitted.
    """

    case: str
    what: str
    seconds: float | None = None
    runs: int = 1
    ratio: float | None = None
    of: str = ""
    limit: float | None = None
    goal: float | None = None
    at_least: bool = False
    error: float | None = None
    size: int | None = None
    memory: int | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.limit is None or self.ratio is None:
            return None
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit

    def cells(self) -> tuple[str, ...]:
        limit = ""
        if self.limit is not None:
            limit = (
                f"{'>=' if self.at_least else '<='} {self.limit:g}:"
                f" {'met' if self.met else 'MISSED'}"
            )
            if self.goal is not None and self.ratio is not None:
                limit += f", goal {self.goal:g}: {'met' if self.ratio <= self.goal else 'missed'}"
        return (
            self.case,
            self.what,
            "" if self.seconds is None else _seconds(self.seconds),
            "" if self.seconds is None else str(self.runs),
            "" if self.ratio is None else f"{self.ratio:.3g} x {self.of}",
            limit,
            "" if self.error is None else f"{self.error:.0e}",
            "" if self.size is None else str(self.size),
            "" if self.memory is None else f"{self.memory / 1e6:.0f} MB",
            self.note,
        )


def shape(rows: int, columns: int) -> str:
    return f"{rows:.3g} x {columns}".replace("e+0", "e")


def _seconds(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


@dataclass
class Report:
    """Collects lines and prints each immediately."""

    mode: str
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._print(HEADS)

    def add(self, line: Line) -> None:
        if self.mode == "quick":  # the limits are for the full sizes
            line.limit = None
        self.lines.append(line)
        self._print(line.cells())

    def karat(self, case: str, timing: Timing, what: str = "karat", **rest: Any) -> None:
        """Add a line about a coreset, which must be exact."""
        core = timing.result
        if not core.certificate.ok:
            raise AssertionError(f"{case}: {core.certificate}")
        rest.setdefault("note", core.certificate.method)
        self.add(
            Line(
                case,
                what,
                timing.seconds,
                timing.runs,
                error=core.certificate.loss_error,
                size=len(core),
                **rest,
            )
        )

    def _print(self, cells: tuple[str, ...]) -> None:
        print(
            " ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip(),
            flush=True,
        )

    def write(self, folder: Path, part: bool = False, path: Path = MEASURED) -> None:
        """Write ``path``, the one source of figures in the documentation, and a table for people in
        ``folder``.

        A part of the sections replaces its own cases and leaves the others as they are.
        """
        folder.mkdir(parents=True, exist_ok=True)
        machine = {
            "mode": self.mode,
            "clock": timing.CLOCK.__name__,
            "cores": (
                len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
            ),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        }
        lines = [asdict(line) | {"met": line.met} for line in self.lines]
        name = "engine" if path == MEASURED else path.stem
        path = (
            folder / ("quick.json" if path == MEASURED else f"quick-{path.name}")
            if self.mode == "quick"
            else path
        )
        if part and path.exists():
            known = {line["case"] for line in lines}
            lines = [
                line for line in json.loads(path.read_text())["lines"] if line["case"] not in known
            ] + lines
        path.write_text(json.dumps({"machine": machine, "lines": lines}, indent=1) + "\n")
        cells = [
            Line(**{key: value for key, value in line.items() if key != "met"}).cells()
            for line in lines
        ]
        table = "\n".join(
            "| " + " | ".join(row) + " |" for row in [HEADS, tuple("---" for _ in HEADS), *cells]
        )
        about = ", ".join(f"{key} {value}" for key, value in machine.items())
        (folder / f"{name}.md").write_text(f"# Benchmarks: {name}\n\n{about}\n\n{table}\n")
