"""The cells of a selection: a label, a list of labels, or a slice that includes both ends.

A label must be of the kind of the cells' labels.  "2026-03" selects all days of March; it is an
error where a single label is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any

import numpy as np

from karat.cubes.cells import UTC_NAMES, Cells
from karat.engine.linalg import Flags, Indices
from karat.errors import InputError, UnknownLabelError

# units of dates that mean several labels, by the unit of the labels
COARSE = {"D": "YMW", "us": "YMWD"}


DATE = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?)?")


def merge_selections(selection: Any, labels: Mapping[str, Any]) -> dict[str, Any]:
    """A selection from its two forms, a dict and keyword arguments."""
    if selection is None:
        return dict(labels)
    if not isinstance(selection, Mapping):
        raise InputError(
            "A selection is a dict of labels by name, such as {'region': 'EU'}, not"
            f" {shown(selection)}.",
            argument="selection",
        )
    twice = [name for name in selection if name in labels]
    if twice:
        raise InputError(
            f"Labels of {twice[0]!r} are given twice, in the dict and by name; give them once.",
            argument=twice[0],
        )
    return {**selection, **labels}


def label_names(names: Any, by: Sequence[str]) -> tuple[str, ...]:
    """The columns of labels that an argument ``by`` names."""
    try:
        chosen = (names,) if isinstance(names, str) else tuple(names)
    except TypeError:
        raise InputError(
            f"by must be a name or a list of names, not {shown(names)}.", argument="by"
        ) from None
    for i, name in enumerate(chosen):
        check_name(name, by, "by")
        if name in chosen[:i]:
            raise InputError(f"{name!r} is named twice in by; name it once.", argument="by")
    return chosen


def check_name(name: Any, by: Sequence[str], argument: str | None = None) -> None:
    """Raise if a name is not one of the label columns."""
    if not isinstance(name, str) or name not in by:
        close = get_close_matches(str(name), by, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"they are labelled by {', '.join(by)}."
        raise InputError(
            f"Cells have no label {shown(name)}; {hint}",
            argument=str(name) if argument is None else argument,
        )


def matching(cells: Cells, by: Sequence[str], selection: Mapping[str, Any]) -> Indices:
    """The cells of a selection, in order; an error if there are none."""
    matches: Flags = np.ones(len(cells), dtype=bool)
    for name, wanted in selection.items():
        check_name(name, by)
        matches &= _matches(cells.labels[list(by).index(name)], name, wanted)
    if not matches.any():
        shown_selection = ", ".join(f"{name}={shown(wanted)}" for name, wanted in selection.items())
        raise InputError(f"There is no cell with {shown_selection}.")
    return np.flatnonzero(matches)


def _matches(values: np.ndarray, name: str, wanted: Any) -> Flags:
    if isinstance(wanted, slice):
        if wanted.step is not None:
            raise InputError(
                f"{name}={shown(wanted)}: a slice of labels has no step.", argument=name
            )
        matches = np.ones(len(values), dtype=bool)
        if wanted.start is not None:
            matches &= values >= _like(values, name, wanted.start)
        if wanted.stop is not None:
            matches &= values <= _until(values, _like(values, name, wanted.stop))
        return matches
    if isinstance(wanted, np.ndarray) and not wanted.ndim:
        wanted = wanted[()]
    several = (
        hasattr(wanted, "__iter__")
        and hasattr(wanted, "__len__")
        and not isinstance(wanted, str | bytes | Mapping)
    )
    labels = [_like(values, name, item) for item in (wanted if several else [wanted])]
    matches = np.zeros(len(values), dtype=bool)
    for label in labels:
        same = (values >= label) & (values <= _until(values, label))  # a month means its days
        if not same.any():
            distinct = np.unique(values)
            close = get_close_matches(str(label), [str(value) for value in distinct], n=1)
            first_labels = ", ".join(map(str, distinct[:5])) + (" ..." if len(distinct) > 5 else "")
            hint = f"did you mean {close[0]!r}?" if close else f"there are {first_labels}."
            raise InputError(f"No cell has {name}={shown(label)}; {hint}", argument=name)
        matches |= same
    return matches


def _like(values: np.ndarray, name: str, label: Any) -> Any:
    """A label in the type of the cells' labels; dates may be text."""
    if hasattr(label, "as_py"):  # of an Arrow array
        label = label.as_py()
    if values.dtype.kind == "M":
        return as_date(label, name)
    kind, true_or_false = values.dtype.kind, isinstance(label, bool | np.bool_)
    number = isinstance(label, int | float | np.integer | np.floating) and not true_or_false
    if not (isinstance(label, str) if kind == "U" else true_or_false if kind == "b" else number):
        expected = {"U": "text", "b": "booleans"}.get(kind, "numbers")
        raise InputError(
            f"{name}={shown(label)}: the labels are {expected}, such as {values[0].item()!r}.",
            argument=name,
        )
    if isinstance(label, str) and label.endswith("\0"):
        raise InputError(
            f"{name}={shown(label)} ends in a NUL character; no label does.", argument=name
        )
    if kind in "iu" and isinstance(label, float | np.floating) and float(label).is_integer():
        return int(label)  # NumPy would compare in double precision, where 2**53 + 1 is 2**53
    if kind == "f" and isinstance(label, int | np.integer) and not _is_double(int(label)):
        raise InputError(
            f"{name}={label} has no exact double-precision value, and the labels are doubles.",
            argument=name,
        )
    return label


def _is_double(whole: int) -> bool:
    try:
        return int(float(whole)) == whole
    except OverflowError:
        return False


def label_key(values: np.ndarray, name: str, label: Any) -> Any:
    """One label among others, as :func:`karat.cubes.cells.label_keys` has it; an error if it means
    several, or is none.
    """
    value = _like(values, name, label)
    if values.dtype.kind == "M":
        unit = np.datetime_data(values.dtype)[0]
        if np.datetime_data(value.dtype)[0] in COARSE.get(unit, ""):
            raise UnknownLabelError(
                f"{shown(label)} may mean several labels of {name!r}, which are"
                f" {'days' if unit == 'D' else 'times'} such as {values[0]}; name one of them.",
                argument=name,
            )
        exact = value.astype(values.dtype)
        # a time of a day is not the day
        return exact.astype(np.int64).item() if exact == value else None
    if values.dtype.kind == "f" and isinstance(value, float):
        return values.dtype.type(value).item()  # as NumPy compares it
    return value.item() if isinstance(value, np.generic) else value


def _until(values: np.ndarray, label: Any) -> Any:
    """The last label that a label includes: of a month, its last day."""
    if (
        values.dtype.kind == "M"
        and label.dtype != values.dtype
        and np.promote_types(label.dtype, values.dtype) == values.dtype
    ):
        return (label + 1).astype(values.dtype) - 1
    return label


def as_date(label: Any, name: str) -> np.datetime64:
    """A date or time as NumPy has it; text must be a date of ISO 8601 or the beginning of one."""
    if isinstance(label, datetime) and label.tzinfo is not None:
        if str(label.tzinfo) not in UTC_NAMES:
            raise InputError(
                f"{name}={label} has a time zone, but the labels have none; use a date or time"
                " without a time zone.",
                argument=name,
            )
        label = label.replace(tzinfo=None)
    if hasattr(label, "to_datetime64"):  # pandas: to the nanosecond
        label = label.to_datetime64()
    if isinstance(label, np.datetime64 | date) or (
        isinstance(label, str) and DATE.fullmatch(label)
    ):
        try:
            parsed = np.datetime64(label)
        except ValueError:
            parsed = np.datetime64("NaT")
        if not np.isnat(parsed):
            return _in_microseconds(parsed, name)
    raise InputError(
        f"{name}={shown(label)} is not a date without a time zone, such as '2026-01-31'.",
        argument=name,
    )


def _in_microseconds(label: np.datetime64, name: str) -> np.datetime64:
    """A time in microseconds, as labels are; in nanoseconds, NumPy covers three centuries only."""
    if np.datetime_data(label.dtype)[0] not in ("ns", "ps", "fs", "as"):
        return label
    rounded = label.astype("datetime64[us]")
    if rounded.astype(label.dtype) != label:
        raise InputError(
            f"{name}={label} is finer than a microsecond; labels are not.", argument=name
        )
    return np.datetime64(rounded)


def shown(label: Any) -> str:
    """A label, in an error message."""
    if isinstance(label, slice):
        return f"slice({label.start!r}, {label.stop!r})"
    return str(label) if isinstance(label, np.generic) else repr(label)
