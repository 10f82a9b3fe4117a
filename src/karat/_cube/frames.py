"""Frames for people: pandas where it is installed, else Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from karat._core.export import free_name
from karat._data.frames import frame_of


def free_names(taken: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names for columns beside those of labels; an underscore tells them from a label of the same name."""
    found: list[str] = []
    for name in names:
        found.append(free_name(name, (*taken, *found)))
    return found


def native_frame(columns: dict[str, np.ndarray]) -> Any:
    """A pandas frame, where pandas is installed, else an Arrow table."""
    return frame_of("pandas" if find_spec("pandas") else "pyarrow", columns, False, None)
