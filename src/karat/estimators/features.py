"""The columns that a regressor sees, as a function of raw rows.

A coreset of a pipeline is built on the columns that its transformers make, and keeps the raw rows
(:class:`~karat.problems.Transformed`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import config_context

from karat._data import containers
from karat.estimators.transformers import transform


class FeatureMap:
    """The columns that fitted transformers make of a block of rows, side by side (a class, so that it pickles).

    Parameters
    ----------
    transformers : list of fitted transformers
        Each sees the same columns; what they make stands side by side.  If there are none, the columns themselves.
    before : tuple of fitted transformers
        Applied first, one after the other.
    """

    def __init__(self, transformers: list[Any], before: tuple[Any, ...] = ()) -> None:
        self.transformers, self.before = transformers, before

    def __call__(self, rows: Any) -> Any:
        rows = containers.in_double(rows)
        with config_context(transform_output="default", enable_metadata_routing=False):
            for transformer in self.before:
                rows = transform(transformer, rows)
            blocks = [transform(transformer, rows) for transformer in self.transformers] or [rows]
        blocks = [block.toarray() if hasattr(block, "toarray") else np.asarray(block) for block in blocks]
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)
