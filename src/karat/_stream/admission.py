"""What a sketch admits: problems whose parts can be merged, and batches that have rows, whose moments are finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from karat._data import containers
from karat._data.batch import Batch, Table
from karat._stream.summary import Summary, weighed
from karat.errors import InputError, NotExactError
from karat.problems import Problem

HARMLESS = 1e30  # sum of squares of a batch, in its own precision, beyond which its moments are looked at


def check_mergeable(problem: Problem) -> Problem:
    """Raise unless parts of the data can be summed up one by one and merged; the problem is returned."""
    if problem.transform is not None:
        raise InputError(
            f"A sketch keeps columns as they are, so {problem.describe()} is not for it; transform the rows before you add "
            "them, and pass the inner problem."
        )
    if not problem.mergeable:
        raise NotExactError(
            f"A sketch of {problem.describe()} cannot be exact: its features depend on the full data. Build it in two "
            "passes over all rows, karat.coreset(X, problem=...), or karat.coreset_files(source, problem=...)."
        )
    return problem


def adds_nothing(X: Any, sample_weight: Any) -> bool:
    """Whether a batch has no rows, or all of them have weight zero."""
    try:
        count = containers.row_count(X)
    except (TypeError, IndexError):  # no table at all
        return False
    if count == 0 or sample_weight is None:
        return count == 0
    weights = containers.as_table(sample_weight, "sample_weight")
    return bool(weights.shape == (count, 1) and not weights.any())


def is_summable(table: Table, summary: Summary, before: Batch | None) -> bool:
    """Whether the moments of a batch are finite in the coordinates of the rows ``before`` it.

    One whose moments overflow is refused before it waits among others.
    """
    if all(_harmless(part) for part in table.parts):
        return True
    block, weights = weighed(table.rows())
    if not np.isfinite(block).all():
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        if summary.running:
            fitted = next(iter(summary.running.values())).kernel
        else:
            pilot = (block, weights) if before is None else weighed(summary.problem.view(before.stored_rows()))
            fitted = table.kernel.prepare(*pilot)
        sums = fitted.statistic(block - np.concatenate([[0.0], fitted.shift]), weights)
    return all(np.isfinite(part).all() for part in sums)


def _harmless(part: Any) -> bool:
    """Whether a look at the sum of squares tells that all values are finite and far from overflow."""
    values = part.data if sparse.issparse(part) else part
    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.vdot(values, values) < HARMLESS)
