"""What may label cells: text, whole numbers, numbers, truth values, dates and times; each column of one kind.

Labels of different kinds are never converted silently: as numbers of double precision 2**53 and 2**53 + 1 would be one label.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from karat.errors import InputError

KINDS = {
    "b": "truth values",
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "numbers with a fraction",
    "M": "dates",
    "U": "text",
}
UTC_NAMES = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
DATE = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?)?")
LARGEST = np.iinfo(np.int64).max


def check_type(kind: Any, name: str) -> None:
    """Refuse a column whose Arrow type cannot label cells."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.tz not in UTC_NAMES:
        raise InputError(
            f"Column {name!r} holds times of the time zone {kind.tz}, whose days are not those of UTC. Convert it to dates of "
            f"that zone (in pandas frame[{name!r}].dt.tz_localize(None)), or to UTC, before it labels cells.",
            column=name,
        )
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) or pa.types.is_duration(kind):
        raise InputError(
            f"Column {name!r} has type {kind}, which cannot label cells; convert it to text, numbers or dates.", column=name
        )


def label_keys(values: np.ndarray) -> list[Any]:
    """Labels as a dict knows them: dates are whole numbers of their unit."""
    return values.astype(np.int64).tolist() if values.dtype.kind == "M" else values.tolist()  # type: ignore[no-any-return]


def whole_numbers(values: Sequence[int], name: str) -> np.ndarray:
    """Whole numbers, exactly."""
    if not values or max(values) <= LARGEST:
        return np.array(values, dtype=np.int64)
    if min(values) < 0:
        raise InputError(f"Column {name!r} has labels below 0 and above 2**63 - 1, which have no common type; use text.")
    return np.array(values, dtype=np.uint64)


def joined_labels(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Labels of several parts, one after the other; an error if they are of different kinds."""
    first = parts[0]
    for part in parts[1:]:
        if KINDS.get(first.dtype.kind) != KINDS.get(part.dtype.kind):
            one, two = (f"{KINDS.get(v.dtype.kind, v.dtype)} (such as {shown(v[0])})" for v in (first, part))
            raise InputError(
                f"Some labels are {one} and others are {two}; convert the column to the type of the cube's labels."
            )
    if first.dtype.kind in "iu":
        return whole_numbers([value for part in parts for value in part.tolist()], "of labels")
    if first.dtype.kind == "f":
        _check_precision(parts)
    return np.concatenate(parts)


def _check_precision(parts: Sequence[np.ndarray]) -> None:
    """Refuse labels of single precision that are those of double precision rounded: they would be other cells."""
    for short in {part.dtype for part in parts if part.dtype.itemsize < 8}:
        rounded = {float(v) for part in parts if part.dtype == short for v in part}
        for part in parts:
            if part.dtype.itemsize <= short.itemsize:
                continue
            with np.errstate(over="ignore"):
                low = part.astype(short).astype(float)
            twins = [v for v, r in zip(part.tolist(), low.tolist(), strict=True) if r != v and r in rounded]
            if twins:
                raise InputError(
                    f"Labels are {short} in some rows and {part.dtype} in others, and {twins[0]!r} is not the same number in "
                    "both; convert the column to the type of the cube's labels."
                )


def as_date(label: Any, name: str) -> np.datetime64:
    """A date or time as NumPy has it; text must be a date of ISO 8601 or the beginning of one."""
    if isinstance(label, datetime) and label.tzinfo is not None:
        if str(label.tzinfo) not in UTC_NAMES:
            raise InputError(
                f"{name}={label} has a time zone, labels have none; use a date or time without one.", argument=name
            )
        label = label.replace(tzinfo=None)
    if hasattr(label, "to_datetime64"):  # pandas: to the nanosecond
        label = label.to_datetime64()
    if isinstance(label, np.datetime64 | date) or (isinstance(label, str) and DATE.fullmatch(label)):
        try:
            found = np.datetime64(label)
        except ValueError:
            found = np.datetime64("NaT")
        if not np.isnat(found):
            return _in_microseconds(found, name)
    raise InputError(f"{name}={shown(label)} is not a date without a time zone, such as '2026-01-31'.", argument=name)


def _in_microseconds(label: np.datetime64, name: str) -> np.datetime64:
    """A time that is no finer than labels are; NumPy compares nanoseconds with dates of three centuries only."""
    if np.datetime_data(label.dtype)[0] not in ("ns", "ps", "fs", "as"):
        return label
    found = label.astype("datetime64[us]")
    if found.astype(label.dtype) != label:
        raise InputError(f"{name}={label} is finer than a microsecond, which labels are not.", argument=name)
    return np.datetime64(found)


def shown(label: Any) -> str:
    """A label, in an error message."""
    if isinstance(label, slice):
        return f"slice({label.start!r}, {label.stop!r})"
    return str(label) if isinstance(label, np.generic) else repr(label)
