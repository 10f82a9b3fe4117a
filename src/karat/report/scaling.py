"""Plots of the build time and the error of coresets against the number of rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from karat._core.coreset import coreset
from karat._data import containers
from karat.errors import InputError, check_whole
from karat.problems import Problem
from karat.report.display import CORE, FULL, GUIDE, Display, above_zero, strip_below


class ScalingDisplay(Display):
    """Plot of the time to build a coreset, and of its worst loss error, against the number of rows.

    Parameters
    ----------
    rows : array (s,)
    seconds, errors : arrays (s,)
    sizes : array (s,)
        Rows kept.
    """

    def __init__(self, rows: Any, seconds: Any, errors: Any, sizes: Any) -> None:
        self.rows, self.sizes = np.asarray(rows), np.asarray(sizes)
        self.seconds, self.errors = np.asarray(seconds, dtype=float), np.asarray(errors, dtype=float)

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any = None,
        problem: Problem | None = None,
        *,
        rows: Sequence[int] | None = None,
        repeats: int = 3,
        random_state: int = 0,
    ) -> Self:
        """Build coresets of the first n rows, for growing n.

        Parameters
        ----------
        X, y, problem, random_state
            As in :func:`karat.coreset`.
        rows : sequence of int, optional
            The numbers n; by default seven numbers from a hundredth of the rows to all.
        repeats : int
            Builds for each n; the fastest one is used.

        Returns
        -------
        ScalingDisplay
        """
        count = containers.row_count(X)
        if rows is None:
            rows = np.unique(np.geomspace(max(count / 100, 1), count, 7).astype(int)).tolist()
        if min(rows) < 1 or max(rows) > count:
            raise InputError(
                f"rows must be between 1 and {count:,}, the rows of X; {min(rows):,} to {max(rows):,} were asked for."
            )
        check_whole("repeats", repeats)
        seconds, errors, sizes = [], [], []
        for n in rows:
            first = np.arange(n)
            part = [t[:n] if isinstance(t, np.ndarray) else containers.take_rows(t, first) for t in (X, y)]
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                core = coreset(part[0], part[1], problem, random_state=random_state)
                times.append(time.perf_counter() - start)
            seconds.append(min(times))
            errors.append(core.certificate.loss_error)
            sizes.append(len(core))
        return cls(rows, seconds, errors, sizes)

    def plot(self, ax: Any = None) -> Self:
        """Draw the time and a line proportional to n and, below in ``error_ax_``, the error."""
        ax = self._axes(ax, (5.6, 4.8))
        line = self.seconds[-1] * self.rows / self.rows[-1]
        ax.plot(self.rows, line, color=GUIDE, linewidth=1.0, linestyle=(0, (4, 3)), label="proportional to n")
        ax.plot(self.rows, self.seconds, color=FULL, marker="o", markersize=5, linewidth=1.8, label="time to build")
        ax.set(xscale="log", yscale="log", ylabel="seconds", ylim=(0.5 * self.seconds.min(), 2 * self.seconds.max()))
        ax.legend(frameon=False, loc="upper left")
        below = self.error_ax_ = strip_below(ax, 0.6)
        below.plot(self.rows, above_zero(self.errors), color=CORE, marker="s", markersize=5, linewidth=1.8)
        below.axhline(2.0**-52, color=GUIDE, linewidth=1.0, linestyle=(0, (1, 2)))
        below.annotate(
            "rounding of one number", (1.0, 2.0**-52), xycoords=("axes fraction", "data"), xytext=(0, -3),
            textcoords="offset points", ha="right", va="top", fontsize="small", color="#666666",
        )  # fmt: skip
        below.set(yscale="log", xlabel="rows", ylabel="worst loss error")
        below.set_ylim(1e-17, max(1e-10, 10 * self.errors.max()))
        kept = (
            f"{self.sizes.min():,}" if self.sizes.min() == self.sizes.max() else f"{self.sizes.min():,} to {self.sizes.max():,}"
        )
        ax.set_title(f"Time and error against n; {kept} rows kept", loc="left", fontsize="medium")
        return self
