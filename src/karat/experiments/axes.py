"""Logarithmic axes with labels one can read: 1, 2, 5 where there is room, plain numbers, nothing between."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDE = 2.5  # decades from which on powers of ten are labels enough


def readable_logs(panel: Any) -> None:
    """Label the logarithmic axes of a panel; after its limits are known."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, (low, high) in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
        if axis.get_scale() != "log":
            continue
        axis.set_minor_formatter(NullFormatter())
        if np.log10(high / low) < WIDE:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
