"""Which rows a cube holds, by the hashes that its changes left: the same rows must not count twice.

A merge remembers the whole history of the other cube, and which of its changes still had rows
there; those may be merges, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from karat.cubes.cells import Cells
from karat.errors import InputError

# of the hashes of the rows; a digest of their labels follows, unless a rollup has changed the
# labels
SUMS = 2

Change = dict[str, Any]
Content = Sequence[str]


def live_changes(cells: Cells) -> list[int]:
    """The changes by which some rows of the cells came."""
    return sorted({origin for origins in cells.origins for origin in origins})


def contents_of(change: Change) -> list[Content]:
    """The hashes of all rows that came by a change, through any number of merges."""
    found: list[Content] = [change["content"]] if change.get("content") else []
    history = change.get("history", ())
    for i in change.get("alive", range(len(history))):
        found += contents_of(history[i])
    return found


def same_rows(first: Content, second: Content) -> bool:
    """Whether hashes are of the same rows; labels count where both know them."""
    known = min(len(first), len(second))
    return list(first[:known]) == list(second[:known])


def refuse_again(cells: Cells, history: Sequence[Change], contents: Sequence[Content]) -> None:
    """Refuse rows that are in the cells already, by their hashes."""
    for i in live_changes(cells):
        if any(same_rows(known, new) for known in contents_of(history[i]) for new in contents):
            raise InputError(
                f"These rows are in the cube already, by the change of {history[i]['time']}: they"
                " would count twice. To rebuild their cells use replace."
            )


def unlabelled(change: Change) -> Change:
    """A change as a rollup knows it: its rows, but not the labels that they have now."""
    found = dict(change)
    if found.get("content"):
        found["content"] = list(found["content"][:SUMS])
    if found.get("history"):
        found["history"] = [unlabelled(one) for one in found["history"]]
    return found
