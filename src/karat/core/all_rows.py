"""The coreset of all rows with their own weights, for data too small to gain from fewer rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.core.certify import Certificate
from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.batch import check_weights
from karat.problems import Problem

ALL_ROWS = "all rows"  # how the rows were found


def all_rows(X: Any, y: Any, problem: Problem, sample_weight: Any, note: str) -> Coreset:
    """Every row of positive weight, with its own weight.

    Nothing is computed, so the certificate gives the number of rows as the rank, which it bounds.
    """
    count = containers.row_count(X)
    weights = check_weights(sample_weight, count)
    indices = np.arange(count) if weights is None else np.flatnonzero(weights)
    size = len(indices)
    certificate = Certificate(
        loss_error=0.0,
        spent=0.0,
        remainder=0.0,
        rounding=0.0,  # the same rows with the same weights
        moment_error=0.0,
        total_error=0.0,
        rank=size,
        size=size,
        bound=size,
        condition=1.0,
        excluded_directions=(),
        method=ALL_ROWS,
        passes=0,
        seconds=0.0,
        keeps=problem.keeps,
        excludes=problem.excludes,
        n_rows=count,
        notes=(note,),
    )
    fewer = size < count
    return Coreset(
        indices=indices.astype(np.int64),
        weights=np.ones(size) if weights is None else weights[indices],
        X=containers.take_rows(X, indices) if fewer else X,
        y=containers.take_rows(y, indices) if fewer else y,
        groups=None,
        n_rows=count,
        problem=problem,
        certificate=certificate,
    )
