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
    from karat._core.regression import answers

    found = facts(core)
    found |= {"regression": answers(core.regression)} if core.regression is not None else {}
    return {"rows_in": found.pop("rows"), "rows_kept": found.pop("kept")} | found


def lines(core: Coreset) -> dict[str, str]:
    """The summary of a coreset, as rows of a table."""
    from karat._core.facts import facts

    return summary_rows(facts(core), TERMINAL)


def kept_columns(core: Coreset) -> dict[str, np.ndarray]:
    """The kept rows by column: row number, weight and target first, then the others."""
    from karat._core.export import free_name
    from karat._core.facts import kept_columns

    found: dict[str, np.ndarray] = {}
    for column in sorted(kept_columns(core), key=lambda column: column.role not in FIRST):
        found[free_name(column.name, found)] = column.values  # a column of the data may be called "weight" or "row", too
    return found


def names(core: Coreset, role: str) -> list[str]:
    """Names of the columns of a role; columns without names are called x0, x1, ... and y."""
    from karat._core.facts import kept_columns

    return [column.name for column in kept_columns(core) if column.role == role]
