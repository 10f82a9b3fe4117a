"""Frames for people: pandas where it is installed, else Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np

from karat._data.frames import frame_of


def native_frame(columns: dict[str, np.ndarray]) -> Any:
    """A pandas frame, where pandas is installed, else an Arrow table."""
    try:
        import pandas as pd
    except ImportError:
        return frame_of("pyarrow", columns, False, None)
    return pd.DataFrame(columns)
