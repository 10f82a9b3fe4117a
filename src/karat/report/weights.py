"""A histogram of the weights of the kept rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from karat._core.coreset import Coreset
from karat._core.facts import weight_facts
from karat._core.wording import count, number
from karat.engine.linalg import Array
from karat.report.display import CORE, GUIDE, Display

BINS = 30


def weight_bins(weights: Array, bins: int = BINS) -> tuple[Array, Array]:
    """Bin the weights: edges with equal steps of the logarithm, and counts."""
    low, high = float(weights.min()), float(weights.max())
    if high <= low * (1 + 1e-9):  # all equal: one bin around them
        low, high, bins = low / 2, high * 2, 1
    edges = np.geomspace(low, high, min(bins, max(1, 2 * len(weights))) + 1)
    edges[[0, -1]] = low, high
    return edges, np.histogram(weights, edges)[0]


class WeightsDisplay(Display):
    """Histogram of the weights, on a logarithmic axis.

    Parameters
    ----------
    weights : array (k,)
        Positive weights.
    """

    def __init__(self, weights: Any) -> None:
        self.weights = np.asarray(weights, dtype=float)

    @classmethod
    def from_coreset(cls, core: Coreset) -> Self:
        """Take the weights of a coreset."""
        return cls(core.weights)

    def plot(self, ax: Any = None) -> Self:
        """Draw the histogram and the median."""
        ax = self._axes(ax, (5.6, 3.4))
        edges, counts = weight_bins(self.weights)
        known = weight_facts(self.weights)
        ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=CORE, edgecolor="white", linewidth=0.8)
        ax.axvline(known["median"], color=GUIDE, linewidth=1.2, linestyle=(0, (4, 3)))
        ax.annotate(
            f" median {number(known['median'])}", (known["median"], 1.0), xycoords=("data", "axes fraction"), va="top",
            fontsize="small", color="#666666",
        )  # fmt: skip
        ax.set(xscale="log", xlabel="weight of a kept row", ylabel="rows")
        ax.set_title(
            f"{count(len(self.weights))} weights, effective sample size {number(known['effective'])}",
            loc="left", fontsize="medium",
        )  # fmt: skip
        ax.yaxis.get_major_locator().set_params(integer=True)
        return self
