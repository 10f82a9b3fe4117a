"""Rows of tables of the same kind, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from karat.compat import array_api
from karat.data.containers import as_narwhals, as_numpy, is_foreign, is_frame, rounds
from karat.errors import InputError, several

CACHED = 2**13  # rows of all columns that stay in a cache while they are put side by side


def in_one_array(tables: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Rows of several tables, one after the other, as one array of doubles.

    Each table is a sequence of blocks of columns.  Rows of the array lie in one piece, so that a
    choice of them is read three times as fast as from columns that lie apart.
    """
    counts = [len(table[0]) for table in tables]
    rows, first = np.empty((sum(counts), sum(part.shape[1] for part in tables[0]))), 0
    for table, count in zip(tables, counts, strict=True):
        for start in range(0, count, CACHED):
            stop, left = min(start + CACHED, count), 0
            for part in table:
                right = left + part.shape[1]
                rows[first + start : first + stop, left:right] = part[start:stop]
                left = right
        first += count
    return rows


def stack_rows(first: Any, *others: Any) -> Any:
    """Rows of tables of the same kind, one after the other."""
    if first is None or not others:
        return first
    if is_frame(first):
        return _stack_frames(first, *others)
    for other in others:
        if len(first.shape) == 2 and first.shape[1] != other.shape[1]:
            counts = f"{first.shape[1]} and {several(other.shape[1], 'column')}"
            raise InputError(f"The rows have {counts}; they must have the same ones.")
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, *others], format="csr"))
    arrays = [as_numpy(table) for table in (first, *others)]
    _check_types([array.dtype for array in arrays], arrays, "The rows")
    joint = np.concatenate(arrays)
    return array_api.from_host(joint, first) if is_foreign(first) else joint


def _check_types(kinds: list[Any], columns: list[np.ndarray], where: str) -> None:
    """Raise if joining columns of these types would round some of their values."""
    if len(set(kinds)) > 1 and any(rounds(column) for column in columns):
        types = " and ".join(sorted({str(kind) for kind in kinds}))
        raise InputError(
            f"{where} have types {types}; convert them to one type. Joining them as they are would"
            " round integers beyond 2^53."
        )


def _stack_frames(first: Any, *others: Any) -> Any:
    import narwhals

    top, below = as_narwhals(first), [as_narwhals(other) for other in others]
    if not hasattr(top, "columns"):
        columns = [top.to_frame(), *(b.to_frame().rename({b.name: top.name}) for b in below)]
        pieces = [frame[:, 0] for frame in columns]
        _check_types(
            [p.dtype for p in pieces], [np.asarray(p.to_numpy()) for p in pieces], "The targets"
        )
        return narwhals.concat(columns)[:, 0].to_native()
    for other in below:
        if set(top.columns) != set(other.columns):
            raise InputError(
                f"The frames have different columns, {top.columns} and {other.columns}; rename or"
                " drop some."
            )
    if any(list(other.columns) != list(top.columns) for other in below):
        below = [other.select(top.columns) for other in below]
    for place, column in enumerate(top.columns):
        pieces = [frame[:, place] for frame in (top, *below)]
        _check_types(
            [p.dtype for p in pieces],
            [np.asarray(p.to_numpy()) for p in pieces],
            f"Values of column {column!r}",
        )
    return narwhals.concat([top, *below]).to_native()
