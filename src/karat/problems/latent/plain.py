"""Problems whose samples are the rows of one table, and whose maps are made of its mean and covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from karat.engine import linalg
from karat.engine.linalg import Array, Indices
from karat.engine.rows import CACHE, Rows, add, sweep, useful_shift
from karat.problems.latent.sample import Sample, Through, plain_sample
from karat.problems.latent.sums import Sums, counted


class PlainRows:
    """Mixin: sample i is row i."""

    def sample(self, tables: tuple[Any, ...], weights: Array | None, steps: Indices | None = None) -> Sample:
        return plain_sample((_dense(tables[0]),), weights)

    def views(self, tables: tuple[Any, ...], maps: Any) -> tuple[Any, ...]:
        return (_dense(tables[0]),)

    def sums(self, sample: Sample, whole: bool = True) -> Sums:
        """Mean and scatter in one pass; the columns are shifted by a pilot's means first, for accuracy."""
        rows = Rows(list(sample.views), sample.weights)
        pilot = rows.take(np.arange(0, len(rows), max(1, len(rows) // 1024)), np.zeros(rows.columns))
        shift = useful_shift(pilot[:, 1:])
        piece = (rows.columns + 1, -(-rows.columns // linalg.STACK))  # a block is multiplied in pieces, so it may be long
        (gram,) = sweep(rows, shift, lambda b, w, _: (linalg.gram_with_ones(b, w),), add, piece, cache=2 * CACHE)
        with np.errstate(over="ignore", invalid="ignore"):  # counted() raises
            first = gram[0, 1:] / gram[0, 0]
            scatter = gram[1:, 1:] - gram[0, 0] * np.outer(first, first)
        return counted(sample, mean=shift + first, scatter=(scatter + scatter.T) / 2)

    def sums_size(self, columns: int) -> int:
        return columns * (columns + 1)


def _dense(table: Any) -> Any:
    return Through(table, lambda block: block.toarray(), int(table.shape[1])) if sparse.issparse(table) else table


def mean_and_covariance(sums: Sums) -> tuple[Array, Array]:
    return sums["mean"], sums["scatter"] / sums["total"]
