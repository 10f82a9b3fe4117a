"""Pictures of many coresets of the same data: rows kept against alpha (the paper's Figure 1), time
and error against n.

The stronger the regulariser, the more of the data it can absorb.  The smallest number of rows falls
with alpha; the number that the linear programme finds does so on the whole, not at every step.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from karat.core.coreset import coreset
from karat.data import containers
from karat.errors import InputError, check_integer
from karat.problems import LpRegression, Problem, Ridge
from karat.report.display import CORE, FULL, GUIDE, OTHER, Display, above_zero, strip_below

LABELS = {"diagonal": "diagonal (the paper's experiments)", "box": "box (Algorithm 2)"}


class SizeDisplay(Display):
    """Plot of the rows kept against the strength of the regulariser.

    Parameters
    ----------
    alphas : array (a,)
    sizes : dict of arrays (a,)
        For each way of absorbing, the rows kept at each alpha.
    exact : int
        Rows of the coreset that absorbs nothing and is exact for every alpha.
    n_rows : int
        Rows of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from karat.report import SizeDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3)); y = X.sum(axis=1) + rng.standard_normal(500)
    >>> display = SizeDisplay.from_data(X, y, [1.0, 1e4])
    >>> [int(size) for size in display.sizes["box"]], display.exact
    ([12, 6], 15)
    """

    def __init__(self, alphas: Any, sizes: dict[str, Any], exact: int, n_rows: int) -> None:
        self.alphas, self.exact, self.n_rows = np.asarray(alphas, dtype=float), exact, n_rows
        self.sizes = {name: np.asarray(values) for name, values in sizes.items()}

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any,
        alphas: Sequence[float],
        *,
        p: int = 2,
        fit_intercept: bool = True,
        absorb: Sequence[str] = ("diagonal", "box"),
        sample_weight: Any = None,
        random_state: int = 0,
    ) -> Self:
        """Build one coreset for each alpha and each way of absorbing.

        Parameters
        ----------
        X, y : table and target
        alphas : sequence of positive numbers
        p : int
            Power of the loss: 2 for ridge regression, else l_p regression.
        fit_intercept : bool
        absorb : sequence of {"diagonal", "box"}
        sample_weight, random_state
            As in :func:`karat.coreset`.

        Returns
        -------
        SizeDisplay
        """
        alphas = [float(alpha) for alpha in alphas]
        if not alphas or min(alphas) <= 0:
            raise InputError(
                "alphas must be at least one positive number; a regulariser of strength zero"
                " absorbs nothing."
            )
        unknown = [name for name in absorb if name not in LABELS]
        if unknown:
            raise InputError(f"absorb takes {' and '.join(LABELS)}, not {unknown[0]!r}.")

        def rows(alpha: float, way: Any) -> Any:
            problem = (
                Ridge(alpha, fit_intercept=fit_intercept, absorb=way)
                if p == 2
                else LpRegression(p, alpha, fit_intercept=fit_intercept, absorb=way)
            )
            return coreset(X, y, problem, sample_weight=sample_weight, random_state=random_state)

        exact = rows(alphas[0], None)
        sizes = {way: [len(rows(alpha, way)) for alpha in alphas] for way in absorb}
        return cls(alphas, sizes, len(exact), exact.n_rows)

    def plot(self, ax: Any = None) -> Self:
        """Draw the sizes on a logarithmic axis of alpha."""
        ax = self._axes(ax)
        ax.axhline(self.exact, color=GUIDE, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
        ax.annotate(
            f"exact for every alpha: {self.exact:,} rows",
            (1.0, self.exact),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            color="#666666",
            fontsize="small",
        )
        for (name, sizes), colour, marker in zip(
            self.sizes.items(), (FULL, CORE, *OTHER), "os^vD", strict=False
        ):
            ax.plot(
                self.alphas,
                sizes,
                color=colour,
                marker=marker,
                markersize=5,
                linewidth=1.8,
                label=LABELS.get(name, name),
            )
        ax.set(xscale="log", xlabel="alpha", ylabel="rows kept", ylim=(0, 1.12 * self.exact))
        ax.set_title(f"Size against alpha, {self.n_rows:,} rows", loc="left", fontsize="medium")
        ax.legend(frameon=False, loc="lower left")
        return self


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
        self.seconds, self.errors = (
            np.asarray(seconds, dtype=float),
            np.asarray(errors, dtype=float),
        )

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
                f"rows must be between 1 and {count:,}, the rows of X; {min(rows):,} to"
                f" {max(rows):,} were given."
            )
        check_integer("repeats", repeats)
        seconds, errors, sizes = [], [], []
        for n in rows:
            first = np.arange(n)
            part = [
                t[:n] if isinstance(t, np.ndarray) else containers.take_rows(t, first)
                for t in (X, y)
            ]
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
        ax.plot(
            self.rows,
            line,
            color=GUIDE,
            linewidth=1.0,
            linestyle=(0, (4, 3)),
            label="proportional to n",
        )
        ax.plot(
            self.rows,
            self.seconds,
            color=FULL,
            marker="o",
            markersize=5,
            linewidth=1.8,
            label="time to build",
        )
        ax.set(
            xscale="log",
            yscale="log",
            ylabel="seconds",
            ylim=(0.5 * self.seconds.min(), 2 * self.seconds.max()),
        )
        ax.legend(frameon=False, loc="upper left")
        below = self.error_ax_ = strip_below(ax, 0.6)
        below.plot(
            self.rows, above_zero(self.errors), color=CORE, marker="s", markersize=5, linewidth=1.8
        )
        below.axhline(2.0**-52, color=GUIDE, linewidth=1.0, linestyle=(0, (1, 2)))
        below.annotate(
            "rounding of one number",
            (1.0, 2.0**-52),
            xycoords=("axes fraction", "data"),
            xytext=(0, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize="small",
            color="#666666",
        )
        below.set(yscale="log", xlabel="rows", ylabel="worst loss error")
        below.set_ylim(1e-17, max(1e-10, 10 * self.errors.max()))
        kept = (
            f"{self.sizes.min():,}"
            if self.sizes.min() == self.sizes.max()
            else f"{self.sizes.min():,} to {self.sizes.max():,}"
        )
        ax.set_title(f"Time and error against n; {kept} rows kept", loc="left", fontsize="medium")
        return self
