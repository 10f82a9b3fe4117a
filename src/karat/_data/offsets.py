"""Offsets of columns of whole numbers that double precision cannot tell apart (:mod:`karat.engine.offsets`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.offsets import WHOLE, all_exact, all_small, nearby_offset
from karat.engine.parts import Offsets, is_long
from karat.errors import InputError
from karat.problems.base import Problem


def find_offsets(parts: Sequence[Any], names: Sequence[str], problem: Problem, known: Offsets | None = None) -> dict[int, int]:
    """Numbers to subtract from columns of whole numbers, so that doubles hold the differences; an error if there are none.

    ``known`` are offsets that were chosen for other rows of the same columns; the same must do for these.
    """
    found = dict(known or {})
    edges = np.cumsum([0, *(int(part.shape[1]) for part in parts)]).tolist()
    for part, left, right in zip(parts, edges, edges[1:], strict=False):
        if not is_long(part.dtype):
            continue
        for column in sorted({left + own for own in _long_columns(part)} | {c for c in found if left <= c < right}):
            values = part.data[part.indices == column - left] if sparse.issparse(part) else part[:, column - left]
            offset = found.get(column, 0)
            if known is None and problem.shifts and not sparse.issparse(part):
                offset = nearby_offset(values)
            if not all_exact(values, offset):
                if column in found or not all_exact(values):
                    raise InputError(_too_long(names[column], values, problem, found.get(column, 0)))
                offset = 0
            if offset:
                found[column] = offset
    return found


def _long_columns(part: Any) -> list[int]:
    """The columns of a block that hold whole numbers beyond 2^53."""
    values = part.data if sparse.issparse(part) else part
    if all_small(values):
        return []
    if sparse.issparse(part):
        return np.unique(part.indices[(values < -WHOLE) | (values > WHOLE)]).tolist()  # type: ignore[no-any-return]
    return np.flatnonzero((part.min(axis=0) < -WHOLE) | (part.max(axis=0) > WHOLE)).tolist()


def _too_long(name: str, values: np.ndarray, problem: Problem, known: int) -> str:
    """Why doubles do not hold a column of whole numbers, and what to do."""
    low, high = int(values.min()), int(values.max())
    size = f"Column {name} holds whole numbers up to {max(-low, high):.1e}, which double precision cannot tell apart"
    otherwise = "or convert it with astype(float) if rounding does no harm."
    if known:
        return (
            f"{size}: they are more than 2^53 away from those of other rows, about {known:.1e}. Use a coarser unit, {otherwise}"
        )
    if problem.shifts and high - low > 2**53:
        return f"{size}: they range over {high - low:.1e}, more than 2^53. Use a coarser unit, {otherwise}"
    return f"{size}; subtract an offset, for example its minimum {low}, {otherwise}"
