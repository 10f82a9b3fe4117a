"""How a cube changes: rows added or replaced, cells removed, cubes merged, and the record of each
change.

A record holds hashes of its rows, so that the same rows are not counted twice.  The record of a
merge holds the history of the other cube, and which of its changes still had rows there; those may
be merges, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from karat.cubes.build import gather_cells
from karat.cubes.cells import CellLayout, Cells, Reducer
from karat.cubes.merge import add_cells, joined_cells, merge_cells, replace_cells
from karat.cubes.select import matching
from karat.errors import InputError

# Content is two sums of row hashes, then a digest of the labels, unless a rollup changed these.
SUMS = 2

Change = dict[str, Any]
Content = Sequence[str]
History = tuple[Change, ...]


def with_rows(
    kind: str, rows: Any, layout: CellLayout, reducer: Reducer, memory: int, content: bool,
    cells: Cells, history: History,
) -> tuple[Cells, Change]:  # fmt: skip
    """Cells that rows are added to ("update"), or that rows replace ("replace"), and the record."""
    new, record, _ = gather_cells(
        rows, layout, reducer.problem, reducer.seed, len(history), memory, content
    )
    if kind == "update" and record["content"]:
        refuse_again(cells, history, [record["content"]])
    put = add_cells if kind == "update" else replace_cells
    return put(reducer, cells, new), {"change": kind} | record


def without_cells(
    by: Sequence[str], selection: Mapping[str, Any], cells: Cells, history: History
) -> tuple[Cells, Change]:
    """Cells without those of a selection, and the record."""
    dropped = matching(cells, by, selection)
    rest = np.setdiff1d(np.arange(len(cells)), dropped)
    if not len(rest):
        raise InputError("These are all cells, so no cell would be left; delete the cube instead.")
    rows = int(cells.counts[dropped].sum())
    return cells.chosen(rest), {"change": "drop", "cells": len(dropped), "rows": rows}


def with_cells(
    reducer: Reducer, new: Cells, new_history: History, cells: Cells, history: History
) -> tuple[Cells, Change]:
    """Cells with those of another cube, and the record."""
    alive = live_changes(new)
    contents = [content for i in alive for content in contents_of(new_history[i])]
    refuse_again(cells, history, contents)
    new = replace(new, origins=((len(history),),) * len(new))
    record = {"change": "merge", "rows": int(new.counts.sum()), "history": list(new_history)}
    return merge_cells(reducer, joined_cells([cells, new])), record | {"alive": alive}


def live_changes(cells: Cells) -> list[int]:
    """The changes that added rows of the cells."""
    return sorted({origin for origins in cells.origins for origin in origins})


def contents_of(change: Change) -> list[Content]:
    """The hashes of all rows that a change added, through any number of merges."""
    contents: list[Content] = [change["content"]] if change.get("content") else []
    history = change.get("history", ())
    for i in change.get("alive", range(len(history))):
        contents += contents_of(history[i])
    return contents


def same_rows(first: Content, second: Content) -> bool:
    """Whether hashes are of the same rows, and of the same labels if both have them."""
    common = min(len(first), len(second))
    return list(first[:common]) == list(second[:common])


def refuse_again(cells: Cells, history: Sequence[Change], contents: Sequence[Content]) -> None:
    """Raise if rows are already in the cells, by their hashes."""
    for i in live_changes(cells):
        if any(same_rows(held, new) for held in contents_of(history[i]) for new in contents):
            raise InputError(
                f"These rows are already in the cube, added at {history[i]['time']}, and would"
                " count twice. To rebuild their cells, use replace."
            )


def unlabelled(change: Change) -> Change:
    """The record of a change for a rollup: without the labels, which have changed."""
    record = dict(change)
    if record.get("content"):
        record["content"] = list(record["content"][:SUMS])
    if record.get("history"):
        record["history"] = [unlabelled(earlier) for earlier in record["history"]]
    return record
