"""Rows by the labels of their groups: sorted once, so that no group needs a look at all rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from karat._data.labels import MANY, PLAIN, encode_sorted
from karat.engine.linalg import Array, Indices
from karat.errors import InputError

FEW_RUNS = 4  # rows per run of equal labels, on average, from which on the runs are sorted instead of the rows


@dataclass(frozen=True)
class Grouping:
    """The distinct labels, and the rows of each."""

    labels: list[Any]  # distinct, in order
    order: Indices | None  # the rows, group by group, in a group as they come; None if they come in that order
    starts: Indices  # (G + 1,): group g has the rows ``order[starts[g]:starts[g + 1]]``

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def places(self, labels: list[Any]) -> Indices:
        """The numbers of groups."""
        return np.array([self._places[label] for label in labels], dtype=np.intp)

    def rows(self, label: Any) -> Indices:
        """The rows of a group, increasing; none if there is no such group."""
        place = self._places.get(label)
        if place is None:
            return np.zeros(0, dtype=np.intp)
        start, stop = self.starts[place], self.starts[place + 1]
        return np.arange(start, stop) if self.order is None else self.order[start:stop].astype(np.intp)


def group_rows(groups: np.ndarray, weights: Array | None = None) -> Grouping:
    """Sort rows by their labels; those of weight zero are left out, and every group must have a row of positive weight."""
    changes = groups[1:] != groups[:-1]
    runs = FEW_RUNS * np.count_nonzero(changes) < len(groups)  # of equal labels, each looked at once
    first = np.concatenate([[0], np.flatnonzero(changes) + 1]) if runs else np.arange(0)
    try:
        distinct, codes = encode_sorted(groups[first] if runs else groups)
    except TypeError as error:
        raise InputError(f"groups mixes types that cannot be ordered; {PLAIN}.", argument="groups") from error
    labels = list(distinct)
    in_order = bool((codes[1:] >= codes[:-1]).all())
    if runs and in_order and (weights is None or weights.all()):
        return Grouping(labels, None, np.append(first, len(groups)))  # a run is a group
    if runs:
        codes = np.repeat(codes, np.diff(first, append=len(groups)))
    rows = None
    if weights is not None and not weights.all():
        rows = np.flatnonzero(weights)
        codes = codes[rows]
    counts = np.bincount(codes, minlength=len(labels))
    if not counts.all():
        empty = labels[int(counts.argmin())]
        raise InputError(
            f"Group {empty!r} has no row of positive weight; leave the group out or correct its weights.",
            argument="sample_weight",
        )
    order = None if in_order else sorted_codes(codes, len(labels))
    if rows is not None:
        order = rows if order is None else rows[order]
    return Grouping(labels, order, np.concatenate([[0], np.cumsum(counts)]))


def sorted_codes(codes: np.ndarray, count: int) -> Indices:
    """``argsort(codes, kind="stable")`` of numbers below ``count``, by counting them; of 32 bits where they suffice.

    SciPy does that when it transposes a sparse matrix whose row i has one entry, in column ``codes[i]``.
    """
    if count > MANY + 4 * len(codes):
        return np.argsort(codes, kind="stable")
    kind = np.int32 if max(len(codes), count) < 2**31 else np.int64
    entries = (np.ones(len(codes), dtype=np.int8), codes.astype(kind, copy=False), np.arange(len(codes) + 1, dtype=kind))
    return np.asarray(sparse.csr_array(entries, shape=(len(codes), count)).tocsc().indices)
