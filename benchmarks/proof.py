"""Measure the share of the proof in the time of a coreset."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from data import gaussian
from report import Line, Report, shape
from sizes import Sizes
from timing import interleaved

import karat
from karat.engine import reduce
from karat.problems import Moments


def share(report: Report, sizes: Sizes) -> None:
    """(g) The share of the proof in the time of a coreset."""
    X, y = gaussian(sizes.rows, sizes.columns)
    wide = gaussian(sizes.wide_rows, max(sizes.wide_columns))
    tails = np.random.default_rng(0).pareto(0.7, (sizes.wide_rows, 3))
    cases: dict[str, Callable[[], Any]] = {
        f"proof, least squares {shape(*X.shape)}": lambda: karat.coreset(X, y),
        f"proof, least squares {shape(*wide[0].shape)}": lambda: karat.coreset(*wide),
        f"proof, Moments(4) of heavy tails {shape(*tails.shape)}": lambda: karat.coreset(
            tails, problem=Moments(4)
        ),
    }
    for case, make in cases.items():
        spent: list[float] = []
        with clocked(spent):
            found = interleaved({"karat": make}, sizes.repeats)["karat"]
        part = sum(spent) / (found.runs + 1) / found.seconds
        report.add(
            Line(case, "the proof", part * found.seconds, found.runs, ratio=part, of="the whole")
        )


@contextmanager
def clocked(spent: list[float]) -> Iterator[None]:
    """Append the seconds of every proof."""
    measure = reduce.measure

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return measure(*args, **kwargs)
        finally:
            spent.append(time.perf_counter() - start)

    with mock.patch.object(reduce, "measure", timed):
        yield
