"""Which cells a selection means: a label, a list of labels, or a slice from one label to another, both included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from karat._cube.cells import Cells
from karat._cube.kinds import as_date
from karat.engine.linalg import Flags, Indices
from karat.errors import InputError


def matching(cells: Cells, by: Sequence[str], selection: Mapping[str, Any]) -> Indices:
    """The cells that a selection means, in order; an error if there are none."""
    found: Flags = np.ones(len(cells), dtype=bool)
    for name, wanted in selection.items():
        if name not in by:
            close = get_close_matches(str(name), by, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"they are labelled by {', '.join(by)}."
            raise InputError(f"Cells have no label {name!r}; {hint}", argument=str(name))
        found &= _matches(cells.labels[list(by).index(name)], name, wanted)
    if not found.any():
        said = ", ".join(f"{name}={_shown(wanted)}" for name, wanted in selection.items())
        raise InputError(f"There is no cell with {said}.")
    return np.flatnonzero(found)


def _matches(values: np.ndarray, name: str, wanted: Any) -> Flags:
    if isinstance(wanted, slice):
        if wanted.step is not None:
            raise InputError(f"{name}={_shown(wanted)}: a slice of labels has no step.", argument=name)
        found = np.ones(len(values), dtype=bool)
        if wanted.start is not None:
            found &= values >= _like(values, name, wanted.start)
        if wanted.stop is not None:
            found &= values <= _until(values, _like(values, name, wanted.stop))
        return found
    if isinstance(wanted, np.ndarray) and not wanted.ndim:
        wanted = wanted[()]
    several = hasattr(wanted, "__iter__") and hasattr(wanted, "__len__") and not isinstance(wanted, str | bytes | Mapping)
    labels = [_like(values, name, one) for one in (wanted if several else [wanted])]
    found = np.zeros(len(values), dtype=bool)
    for label in labels:
        same = (values >= label) & (values <= _until(values, label))  # a month means its days
        if not same.any():
            known = np.unique(values)
            close = get_close_matches(str(label), [str(value) for value in known], n=1)
            said = f"did you mean {close[0]!r}?" if close else f"there are {_some(known)}."
            raise InputError(f"No cell has {name}={_shown(label)}; {said}", argument=name)
        found |= same
    return found


def _like(values: np.ndarray, name: str, label: Any) -> Any:
    """A label as the cells have it: dates may be written as text."""
    if hasattr(label, "as_py"):  # of an Arrow array
        label = label.as_py()
    if values.dtype.kind == "M":
        return as_date(label, name)
    fits = isinstance(label, str) if values.dtype.kind == "U" else isinstance(label, int | float | np.number | np.bool_)
    if not fits:
        kind = "text" if values.dtype.kind == "U" else "numbers"
        raise InputError(f"{name}={_shown(label)}: the labels are {kind}, such as {values[0]!r}.", argument=name)
    if isinstance(label, str) and "\0" in label:
        raise InputError(f"{name}={_shown(label)} has a NUL character, which no label has.", argument=name)
    if values.dtype.kind in "iu" and isinstance(label, float | np.floating) and float(label).is_integer():
        return int(label)  # NumPy would compare in double precision, where 2**53 + 1 is 2**53
    return label


def _until(values: np.ndarray, label: Any) -> Any:
    """The last label that a label means: a month lasts to its last day."""
    if values.dtype.kind == "M" and label.dtype != values.dtype and np.promote_types(label.dtype, values.dtype) == values.dtype:
        return (label + 1).astype(values.dtype) - 1
    return label


def _shown(wanted: Any) -> str:
    if isinstance(wanted, slice):
        return f"slice({wanted.start!r}, {wanted.stop!r})"
    return str(wanted) if isinstance(wanted, np.generic) else repr(wanted)


def _some(values: np.ndarray) -> str:
    shown = [str(value) for value in values[:5]]
    return f"{', '.join(shown)}{' ...' if len(values) > 5 else ''}"
