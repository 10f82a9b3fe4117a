"""Readable labels for logarithmic axes."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDE = 2.5  # decades above which powers of ten are enough labels


def readable_logs(panel: Any) -> None:
    """Label short logarithmic axes at 1, 2, 5, 10, ...; call it after the limits are set."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, (low, high) in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
        if axis.get_scale() != "log":
            continue
        axis.set_minor_formatter(NullFormatter())
        if np.log10(high / low) < WIDE:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
