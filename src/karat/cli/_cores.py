"""A coreset as the commands print it: as rows of text, as JSON, and as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat._core.wording import TERMINAL
from karat._core.wording import summary as summary_rows

if TYPE_CHECKING:
    import numpy as np

    from karat import Coreset


FIRST = ("index", "weight", "target")  # roles of the columns that come first, so that a narrow terminal shows them


def summary(core: Coreset) -> dict[str, Any]:
    """The facts about a coreset, for ``--json``."""
    from karat._core.facts import facts

    found = facts(core)
    return {"rows_in": found.pop("rows"), "rows_kept": found.pop("kept")} | found


def rows_used(core: Coreset) -> int:
    """Count the rows of the data that were used: all but those left out because a value was missing."""
    origin = core.provenance or {}
    parts = origin.get("merged") or [origin]
    return core.n_rows - sum(int(((part or {}).get("dropped") or {}).get("missing", 0)) for part in parts)


def lines(core: Coreset) -> dict[str, str]:
    """The summary of a coreset, as rows of a table."""
    from karat._core.facts import facts

    return summary_rows(facts(core), TERMINAL)


def kept_columns(core: Coreset) -> dict[str, np.ndarray]:
    """The kept rows by column: row number, weight and target first, then the others."""
    from karat._core.facts import kept_columns

    found: dict[str, np.ndarray] = {}
    for column in sorted(kept_columns(core), key=lambda column: column.role not in FIRST):
        name = column.name
        while name in found:  # a column of the data may be called "weight" or "row", too
            name += "_"
        found[name] = column.values
    return found


def feature_names(core: Coreset) -> list[str]:
    """Names of the feature columns; x0, x1, .. where they have none."""
    return _names(core, "feature")


def target_names(core: Coreset) -> list[str]:
    """Names of the targets; y, or y0, y1, .. where they have none."""
    return _names(core, "target")


def _names(core: Coreset, role: str) -> list[str]:
    from karat._core.facts import kept_columns

    return [column.name for column in kept_columns(core) if column.role == role]
