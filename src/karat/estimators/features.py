"""The columns that a regressor sees, as a function of raw rows.

A coreset of a pipeline is built on the columns that its transformers make, and keeps the raw rows
(:class:`~karat.problems.Transformed`).  What the transformers made of all rows when they were fitted is not made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context

from karat._data import containers
from karat.engine.parts import Indicators
from karat.estimators.transformers import transform


class FeatureMap:
    """The columns that fitted transformers make of a block of rows, side by side (a class, so that it pickles).

    Parameters
    ----------
    transformers : list of fitted transformers
        Each sees the same columns; what they make stands side by side.  If there are none, the columns themselves.
    before : tuple of fitted transformers
        Applied first, one after the other.
    raw, tables : optional
        Rows, and the blocks of columns that are made of them, to be used once.
    """

    def __init__(
        self, transformers: list[Any], before: tuple[Any, ...] = (), raw: Any = None, tables: Sequence[Any] = ()
    ) -> None:
        self.transformers, self.before = transformers, before
        self.raw, self.tables = raw, list(tables)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"raw": None, "tables": []}

    def __call__(self, rows: Any) -> Any:
        rows = containers.in_double(rows)
        with config_context(transform_output="default", enable_metadata_routing=False):
            for transformer in self.before:
                rows = transform(transformer, rows)
            return _side_by_side([transform(transformer, rows) for transformer in self.transformers] or [rows])

    def remembered(self, raw: Any) -> Any:
        """What was made of all rows when the transformers were fitted; it is then forgotten.  None if it was another table."""
        known, self.raw, self.tables, tables = self.raw, None, [], self.tables
        return _side_by_side(tables) if known is raw and tables else None


def _side_by_side(blocks: list[Any]) -> Any:
    if len(blocks) == 1 and isinstance(blocks[0], Indicators):
        return blocks[0]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr"))
    blocks = [np.asarray(block) for block in blocks]
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)
