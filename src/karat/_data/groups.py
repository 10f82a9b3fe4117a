"""Group labels: one per row, of one type that has an order, and none of them missing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from karat._storage.text import as_objects, as_text
from karat.engine.linalg import Array, Flags, Indices
from karat.errors import InputError

MANY = 2**16  # whole numbers within so large a range are counted, however few there are
FEW_RUNS = 4  # rows per run of equal labels, on average, from which on the runs are sorted instead of the rows
PLAIN = "use numbers or strings throughout, one per row"


def check_groups(groups: Any, count: int) -> np.ndarray:
    """Labels as an array of plain values, one per row."""
    try:
        labels = as_objects(groups)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"groups cannot be read as labels: {error}. It must be one label per row.", argument="groups"
        ) from error
    if labels.shape != (count,):
        raise InputError(
            f"X has {count} rows but groups has shape {labels.shape}; it must be one label per row.", argument="groups"
        )
    missing = missing_values(labels)
    missing |= np.ma.getmaskarray(groups) if np.ma.isMaskedArray(groups) else False
    if missing.any():
        where = int(missing.argmax())
        raise InputError(
            f"groups has {int(missing.sum())} missing labels, the first in row {where}; every row needs one.",
            argument="groups",
            row=where,
        )
    return _plain_labels(labels)


def missing_values(values: np.ndarray) -> Flags:
    """Which values are missing: NaN and NaT differ from themselves."""
    if values.dtype.kind == "O":
        return np.array([_is_missing(value) for value in values], dtype=bool)
    return np.asarray(values != values) if values.dtype.kind in "fcMm" else np.zeros(len(values), dtype=bool)  # noqa: PLR0124


def _is_missing(label: Any) -> bool:
    """None, NaN, NaT or NA, the last of which cannot be compared."""
    try:
        return label is None or bool(label != label)  # noqa: PLR0124
    except (TypeError, ValueError):
        return type(label).__name__ == "NAType"


def _plain_labels(labels: np.ndarray) -> np.ndarray:
    """Text, numbers or dates; objects only if they are of one type that has an order."""
    if labels.dtype.kind not in "biufMmUSO":
        raise InputError(f"groups has type {labels.dtype}; {PLAIN}.")
    if labels.dtype.kind != "O":
        return labels
    kind = next(kind for kind in (bool, int, float, str, type(labels[0])) if isinstance(labels[0], kind))
    for row, label in enumerate(labels):
        if not isinstance(label, kind) or isinstance(label, tuple | list | set | frozenset | dict | np.ndarray):
            raise InputError(f"groups has a label of type {type(label).__name__} in row {row} ({_short(label)}); {PLAIN}.")
    if issubclass(kind, str | np.bytes_):
        return as_text(labels, kind)
    if issubclass(kind, bool | int | float | np.generic):
        return labels.astype(kind)
    try:
        sorted(labels[:2])
    except TypeError:
        raise InputError(f"groups has labels of type {kind.__name__}, from row 0 on, which have no order; {PLAIN}.") from None
    return labels


def same_kind(first: np.ndarray, second: np.ndarray) -> None:
    """Raise if labels to be joined are partly text: NumPy would make text of all."""
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        raise InputError(f"Some groups are text and others are not ({first[0]!r} and {second[0]!r}); {PLAIN}.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


@dataclass(frozen=True)
class Grouping:
    """Rows by their labels: sorted once, so that no group needs a look at all rows."""

    labels: list[Any]  # distinct, in order
    order: Indices | None  # the rows, group by group, in a group as they come; None if they come in that order
    starts: Indices  # (G + 1,): group g has the rows ``order[starts[g]:starts[g + 1]]``

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def _place(self, label: Any) -> int | None:
        try:
            return self._places.get(label)
        except TypeError:  # labels without a hash
            return self.labels.index(label) if label in self.labels else None

    def places(self, labels: list[Any]) -> Indices:
        """The numbers of groups."""
        return np.array([self._place(label) for label in labels], dtype=np.intp)

    def rows(self, label: Any) -> Indices:
        """The rows of a group, increasing; none if there is no such group."""
        place = self._place(label)
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
        labels, codes = _coded(groups[first] if runs else groups)
    except TypeError as error:
        raise InputError(f"groups mixes types that cannot be ordered; {PLAIN}.", argument="groups") from error
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


def _coded(groups: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The distinct labels in order, and the place of every row's label among them."""
    if groups.dtype.kind in "iu":
        low, high = int(groups.min()), int(groups.max())
        if high - low < max(2 * len(groups), MANY) and low >= -(2**62) and high < 2**62:  # counted rather than sorted
            codes = groups.astype(np.int64, copy=False)
            codes = codes - low if low else codes
            seen = np.bincount(codes, minlength=high - low + 1) > 0
            labels = np.flatnonzero(seen) + low
            return list(labels.astype(groups.dtype)), codes if seen.all() else (np.cumsum(seen) - 1)[codes]
    if groups.dtype.kind in "OU":  # few different ones: a dictionary is faster than a sort of text
        try:
            return _by_dictionary(groups)
        except TypeError:  # labels without a hash
            pass
    found, codes = np.unique(groups, return_inverse=True)
    return list(found), codes.ravel()


def _by_dictionary(groups: np.ndarray) -> tuple[list[Any], np.ndarray]:
    places: dict[Any, int] = {}
    codes = np.fromiter((places.setdefault(label, len(places)) for label in groups.tolist()), np.intp, len(groups))
    found = np.fromiter(places, groups.dtype, len(places))
    order = np.argsort(found, kind="stable")
    rank = np.empty(len(places), dtype=np.intp)
    rank[order] = np.arange(len(places))
    return list(found[order]), rank[codes]
