"""Names of columns in a cluster: any name may stand for a column, but only for one.

Dask has labels that are no text (0, 1, ... of a frame without names), and Spark reads dots, backticks and stars in a name as
something else.  So columns are chosen by label or by position, and workers call them by the text that the roles use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from karat.errors import InputError


def as_text(value: Any, labels: Sequence[Any]) -> Any:
    """An argument that names columns, with labels of the data as text; lists of them too."""
    if isinstance(value, list | tuple) and value not in labels:
        return [as_text(one, labels) for one in value]
    if isinstance(value, str) or value is None:
        return value
    try:
        known = value in labels
    except (TypeError, ValueError):  # it cannot be compared
        known = False
    return str(value) if known else value


def positions(wanted: Sequence[str], labels: Sequence[Any]) -> list[int]:
    """Where the columns of these names are; refused if a name stands for several."""
    names = [str(label) for label in labels]
    for name in wanted:
        found = [labels[i] for i, other in enumerate(names) if other == name]
        if len(found) > 1:
            said = "are called" if len(set(map(type, found))) == 1 else "would be called"
            raise InputError(f"{len(found)} columns of the data {said} {name!r}; rename them, or leave them out by columns=.")
    return [names.index(name) for name in wanted]
