"""Text of fixed width, in which labels and keys are compared and stored.

NumPy fills such text with NUL characters, and cuts them off when it is read: "a" and "a\\0" would be one label.  So text that
ends in one is refused where objects become text, and nowhere else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.errors import InputError

NUL = ("\0", b"\0")


def as_objects(values: Any) -> np.ndarray:
    """An array of anything; text that is not in an array yet (in a list, in polars) as it is, an object."""
    array = np.asarray(values)
    return np.array(values, dtype=object) if array.dtype.kind in "US" and not isinstance(values, np.ndarray) else array


def as_text(values: np.ndarray, kind: Any = str) -> np.ndarray:
    """Objects as text of fixed width (or as bytes of it)."""
    cut = next((v for v in values.ravel().tolist() if isinstance(v, str | bytes) and v[-1:] in NUL), None)
    if cut is not None:
        raise InputError(f"The label or key {cut!r:.60} ends in a NUL character (\\0); remove it from the text.")
    return values.astype(kind)
