"""Problems whose samples are the rows of one table."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.linalg import Array, Indices
from karat.problems.latent.sample import Sample, select


class _Dense:
    """A sparse table whose rows are read dense."""

    def __init__(self, table: Any) -> None:
        self.table, self.shape = table, table.shape

    def __getitem__(self, where: Any) -> Any:
        return self.table[where].toarray()


class PlainRows:
    """Mixin: sample i is row i."""

    def sample(self, tables: tuple[Any, ...], weights: Array | None, lengths: Indices | None) -> Sample:
        (table,) = tables
        count = int(table.shape[0])
        table = _Dense(table) if sparse.issparse(table) else table
        if weights is None or weights.all():
            return Sample((table,), weights, None, count)
        origin = np.flatnonzero(weights)
        return Sample((select(table, origin),), weights[origin], origin, count)

    def kept_sample(self, tables: tuple[Any, ...], weights: Array, maps: Any) -> Sample:
        return self.sample(tables, weights, None)
