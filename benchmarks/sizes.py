"""Sizes of the benchmarks: quick (under a minute), default (under ten minutes), full (NNLS and
HiGHS at a million rows).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Rows and columns of every case; the limits of the table are for the default sizes."""

    name: str
    rows: int = 1_000_000
    columns: int = 10
    doubling: tuple[int, ...] = (250_000, 500_000, 1_000_000, 2_000_000)
    wide_rows: int = 100_000
    wide_columns: tuple[int, ...] = (30, 53)
    curve_rows: tuple[int, ...] = (200, 1_000, 10_000, 100_000, 1_000_000)  # of 10 columns
    curve_columns: tuple[int, ...] = (20, 30, 53, 98)  # of wide_rows rows
    peer_rows: int = 1_000_000
    slow_rows: int = 100_000  # NNLS and HiGHS
    tiny_rows: int = 200  # the paper's Algorithm 6, which is O(n^4)
    repeats: int = 5
    budget: float = 15.0  # seconds of timed runs for each method
    real: bool = True  # covtype


DEFAULT = Sizes("default")
FULL = Sizes("full", slow_rows=1_000_000)
QUICK = Sizes(
    "quick", rows=100_000, doubling=(50_000, 100_000, 200_000), wide_rows=20_000,
    wide_columns=(20,), curve_rows=(200, 10_000), curve_columns=(20,), peer_rows=10_000,
    slow_rows=3_000, tiny_rows=110, repeats=3, budget=1.0, real=False,
)  # fmt: skip
