"""Group labels: one per row, of one type that has an order, and none of them missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.engine.linalg import Array
from karat.errors import InputError

PLAIN = "use numbers or strings throughout, one per row"


def check_groups(groups: Any, count: int) -> np.ndarray:
    """Labels as an array of plain values, one per row."""
    try:
        labels = np.asarray(groups)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"groups cannot be read as labels: {error}. It must be one label per row.", argument="groups"
        ) from error
    if isinstance(groups, list | tuple) and labels.dtype.kind in "US":
        labels = np.array(groups, dtype=object)  # NumPy makes text of what is not
    if labels.shape != (count,):
        raise InputError(
            f"X has {count} rows but groups has shape {labels.shape}; it must be one label per row.", argument="groups"
        )
    missing = np.array([_is_missing(label) for label in labels]) if labels.dtype.kind == "O" else _absent(labels)
    missing |= np.ma.getmaskarray(groups) if np.ma.isMaskedArray(groups) else False
    if missing.any():
        where = int(missing.argmax())
        raise InputError(
            f"groups has {int(missing.sum())} missing labels, the first in row {where}; every row needs one.",
            argument="groups",
            row=where,
        )
    return _plain_labels(labels)


def _absent(labels: np.ndarray) -> np.ndarray:
    """Which labels are NaN or NaT: they differ from themselves."""
    return np.asarray(labels != labels) if labels.dtype.kind in "fcMm" else np.zeros(len(labels), dtype=bool)  # noqa: PLR0124


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
    if issubclass(kind, bool | int | float | str | np.generic):
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


def distinct_labels(groups: np.ndarray, weights: Array | None = None) -> list[Any]:
    """The labels in order; every group must have a row of positive weight."""
    try:
        labels = list(_distinct(groups))
    except TypeError as error:
        raise InputError(f"groups mixes types that cannot be ordered; {PLAIN}.", argument="groups") from error
    if weights is not None:
        for label in labels:
            if not weights[groups == label].any():
                raise InputError(
                    f"Group {label!r} has no row of positive weight; leave the group out or correct its weights.",
                    argument="sample_weight",
                )
    return labels


def _distinct(groups: np.ndarray) -> np.ndarray:
    """The labels in order; small numbers, such as folds, are counted rather than sorted."""
    if groups.dtype.kind in "iu" and groups.min() >= 0 and groups.max() < 1000:
        return np.flatnonzero(np.bincount(groups)).astype(groups.dtype)
    return np.unique(groups)
