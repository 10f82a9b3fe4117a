"""The base class of the displays, with axes and colours that colour-blind readers can tell apart.

A display holds numbers; ``plot(ax=None)`` draws them and sets ``ax_`` and ``figure_``.  It does not
show the figure and does not change global styles, so that it can draw into any figure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.errors import MissingExtraError

FULL = "#4a6fa5"  # the full data: blue
CORE = "#c8860a"  # the coreset: gold, which differs from the blue also in lightness
OTHER = ("#009e73", "#8c4a7d", "#56b4e9", "#6b6b6b")  # further series, from the Okabe-Ito palette
GUIDE = "#9a9a9a"
MOST_POINTS = 20_000  # drawn in one plot


class Display:
    """Base class of the displays."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any, size: tuple[float, float] = (5.6, 4.2)) -> Any:
        """Prepare the given axes, or those of a new figure."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise MissingExtraError(f"karat.report.{type(self).__name__}", "report") from error
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        plain_axes(ax)
        return ax


def plain_axes(ax: Any) -> None:
    """Leave two spines and add a faint grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#000000", alpha=0.08, linewidth=0.8)
    ax.set_axisbelow(True)


def strip_below(ax: Any, share: float = 0.55) -> Any:
    """Split off axes below ``ax`` that share its x axis."""
    place = ax.get_subplotspec()
    if place is None:  # axes placed by hand have no grid to divide
        left, bottom, width, height = ax.get_position().bounds
        strip = height * share / (1 + share)
        ax.set_position([left, bottom + 1.15 * strip, width, height - 1.15 * strip])
        below = ax.figure.add_axes([left, bottom, width, strip], sharex=ax)
    else:
        rows = place.subgridspec(2, 1, height_ratios=[1, share], hspace=0.08)
        ax.set_subplotspec(rows[0])
        below = ax.figure.add_subplot(rows[1], sharex=ax)
    ax.tick_params(labelbottom=False)
    plain_axes(below)
    return below


def above_zero(values: Any) -> Any:
    """Absolute values for a logarithmic axis: zero is drawn at 2e-17, a tenth of the rounding of a
    double.
    """
    return np.maximum(np.abs(values), 2e-17)
