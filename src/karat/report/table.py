"""The kept rows as a table for the page.  Every cell is a number, a short text or None."""

from __future__ import annotations

from typing import Any

import numpy as np

from karat._core.coreset import Coreset
from karat._core.facts import kept_columns

CELLS = 150_000  # on a page at most; of larger tables, the rows with the largest weights are shown
LETTERS = 200  # in a cell at most
MISSING = ("<NA>", "NaT")  # how frames write missing values


def kept_table(core: Coreset, cells: int = CELLS) -> dict[str, Any]:
    """Make the table of the kept rows.

    Returns
    -------
    dict
        ``columns``: list of ``{name, role, numeric, values}``, with row number and weight first; ``rows`` and ``shown``: how
        many rows there are and are shown; ``chosen``: positions of those shown.
    """
    columns = kept_columns(core)
    most = max(1, cells // len(columns))
    chosen = np.sort(np.argsort(-core.weights, kind="stable")[:most])
    return {
        "columns": [_column(c.name, c.role, np.asarray(c.values)[chosen]) for c in columns],
        "chosen": chosen.tolist(),
        "shown": len(chosen),
        "rows": len(core),
    }


def _column(name: str, role: str, values: np.ndarray) -> dict[str, Any]:
    return {"name": name, "role": role, "numeric": values.dtype.kind in "fiu", "values": _cells(values)}


def _cells(values: np.ndarray) -> list[Any]:
    """Convert values for JSON: missing ones become None, anything but numbers and booleans becomes text."""
    if values.dtype.kind == "f":
        return [value if finite else None for value, finite in zip(values.tolist(), np.isfinite(values), strict=True)]
    if values.dtype.kind in "iub":
        return list(values.tolist())
    return [_cell(value) for value in values.tolist()]


def _cell(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value if np.isfinite(value) else None
    text = str(value)
    if value is None or text in MISSING:
        return None
    return text if len(text) <= LETTERS else text[:LETTERS] + "…"
