"""What the displays share: axes, colours that stay apart for the colour-blind, and nothing global.

A display holds numbers; ``plot(ax=None)`` draws them and leaves ``ax_`` and ``figure_`` behind.  It never shows a figure and
never changes a style, so it can be used inside anyone's figure.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from karat.errors import MissingExtraError

FULL = "#4a6fa5"  # the full data: blue
CORE = "#c8860a"  # the coreset: gold, which differs from the blue in lightness and for every kind of colour vision
OTHER = ("#009e73", "#8c4a7d", "#56b4e9", "#6b6b6b")  # further series, from the Okabe-Ito palette
GUIDE = "#9a9a9a"
SEEN = 20_000  # points beyond which a picture says no more


class Display:
    """Base class of the displays."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any, size: tuple[float, float] = (5.6, 4.2)) -> Any:
        """The axes given, or those of a new figure, with what every display does to them."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise MissingExtraError(f"karat.report.{type(self).__name__}", "report") from error
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        plain(ax)
        return ax

    def plot(self, ax: Any = None) -> Self:
        raise NotImplementedError


def plain(ax: Any) -> None:
    """Two spines and a faint grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#000000", alpha=0.08, linewidth=0.8)
    ax.set_axisbelow(True)


def strip_below(ax: Any, share: float = 0.55) -> Any:
    """Axes under ``ax``, in a part of its place and with the same x: for errors below what they are errors of."""
    place = ax.get_subplotspec()
    if place is None:  # put there by hand, so there is no grid to divide
        left, bottom, width, height = ax.get_position().bounds
        strip = height * share / (1 + share)
        ax.set_position([left, bottom + 1.15 * strip, width, height - 1.15 * strip])
        below = ax.figure.add_axes([left, bottom, width, strip], sharex=ax)
    else:
        rows = place.subgridspec(2, 1, height_ratios=[1, share], hspace=0.08)
        ax.set_subplotspec(rows[0])
        below = ax.figure.add_subplot(rows[1], sharex=ax)
    ax.tick_params(labelbottom=False)
    plain(below)
    return below


def above_zero(values: Any) -> Any:
    """Errors for a logarithmic axis: an error of exactly zero is drawn at a tenth of the rounding of a double."""
    return np.maximum(np.abs(values), 2e-17)
