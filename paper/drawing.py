"""Figures of one look: panels with a title, two spines and a faint grid, and readable logarithmic
axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.report.display import plain_axes

WIDE = 2.5  # decades above which powers of ten are enough labels


def new_drawing(width: float, height: float) -> Any:
    """Make an empty figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def finish(panel: Any, title: str, **labels: Any) -> None:
    """Give a panel its title, labels and grid."""
    plain_axes(panel)
    panel.set_title(title, loc="left", fontsize="medium")
    panel.set(**labels)


def readable_logs(panel: Any) -> None:
    """Label short logarithmic axes at 1, 2, 5, 10, ...; call it after the limits are set."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, (low, high) in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
        if axis.get_scale() != "log":
            continue
        axis.set_minor_formatter(NullFormatter())
        if np.log10(high / low) < WIDE:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(
                FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
            )
