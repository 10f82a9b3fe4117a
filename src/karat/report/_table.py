"""The kept rows as a table for the page: every cell a number, a text or nothing, none of them larger than it need be."""

from __future__ import annotations

from typing import Any

import numpy as np

from karat._core.coreset import Coreset
from karat._core.facts import kept_columns

CELLS = 150_000  # that a page holds; with more, the rows of the largest weights are shown
LETTERS = 200  # of one cell
MISSING = ("<NA>", "NaT")  # as frames write values that are not there


def kept_table(core: Coreset) -> dict[str, Any]:
    """Columns of the kept rows, by role, with their values.

    Returns
    -------
    dict
        ``columns``: list of ``{name, role, numeric, values}``, with the row's number and weight first; ``shown`` of ``rows``
        rows, at the places ``chosen``.
    """
    columns = kept_columns(core)
    most = max(1, CELLS // len(columns))
    chosen = np.arange(len(core))
    if len(core) > most:
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
    """Values that JSON can hold; what is missing is None, what is neither a number nor a truth value is text."""
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
