"""How a cube changes: rows added or replaced, cells removed, cubes merged, and the record of each
change.

No rows count twice.  A record holds hashes of its rows, of all together and of every file.  The
record of a merge holds the history of the other cube, and which of its changes still had rows
there; those may be merges, too.  So the same batch, and the same file, is known again.  The cells
hold hashes of all rows (:mod:`karat.cubes.hashes`), by which parts of a batch are known again, and
names of what they were put together from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from karat.cubes.build import gather_cells
from karat.cubes.cells import CellLayout, Cells, cell_name, label_list
from karat.cubes.hashes import mostly_there, require_one_kind
from karat.cubes.merge import add_cells, joined_cells, merge_cells, replace_cells
from karat.cubes.reduce import Reducer
from karat.cubes.select import matching
from karat.errors import InputError

# Content is two sums of row hashes, then a digest of the labels, unless a rollup changed these.
SUMS = 2
REPLACE = "To rebuild their cells, use replace."
EQUAL = "Rows that happen to be equal to others are added with content=False."

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
    here, _ = meeting(cells, new)
    if kind == "update":
        refuse_again(cells, here, history, contents_of([record], [0]))
        refuse_kinds(layout, cells, history, [record])
        refuse_rows(cells, new, layout, REPLACE if layout.roles.key else f"{REPLACE} {EQUAL}")
    elif layout.roles.key is not None:
        others = cells.chosen(np.setdiff1d(np.arange(len(cells)), here))
        refuse_kinds(layout, others, history, [record])
        refuse_rows(others, new, layout, "Replace the cells that had these keys before, too.")
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
    reducer: Reducer, layout: CellLayout, new: Cells, new_history: History, cells: Cells,
    history: History,
) -> tuple[Cells, Change]:  # fmt: skip
    """Cells with those of another cube, and the record."""
    here, there = meeting(cells, new)
    if not set(cells.parts_of(here)).isdisjoint(new.parts_of(there)):
        raise InputError(
            "The cubes share cells, whose rows would count twice. Drop these from one of them."
        )
    refuse_again(cells, here, history, contents_of(new_history, live_changes(new, there)))
    alive = live_changes(new, range(len(new)))
    refuse_kinds(layout, cells, history, list(sources_of(new_history, alive)))
    refuse_rows(cells, new, layout, "Merge each source once.")
    record: Change = {"change": "merge", "rows": int(new.counts.sum())}
    record |= {"history": list(new_history), "alive": alive}
    new = replace(new, origins=((len(history),),) * len(new))
    return merge_cells(reducer, joined_cells([cells, new])), record


def meeting(cells: Cells, new: Cells) -> tuple[list[int], list[int]]:
    """The places of the cells of both whose labels are in both; rows of others cannot be the same,
    except by their keys.
    """
    labels, new_labels = label_list(cells), label_list(new)
    both = set(labels).intersection(new_labels)
    here, there = (
        [i for i, label in enumerate(side) if label in both] for side in (labels, new_labels)
    )
    return here, there


def live_changes(cells: Cells, places: Iterable[int]) -> list[int]:
    """The changes that added rows of some cells."""
    return sorted({origin for i in places for origin in cells.origins[i]})


def sources_of(history: Sequence[Change], changes: Iterable[int]) -> Iterator[Change]:
    """Some changes, and through any number of merges those by which their rows came."""
    for change in (history[i] for i in changes):
        yield change
        earlier = change.get("history", ())
        yield from sources_of(earlier, change.get("alive", range(len(earlier))))


def contents_of(history: Sequence[Change], changes: Iterable[int]) -> list[Content]:
    """The hashes of all rows that some changes added, and of each of their files."""
    return [
        content
        for change in sources_of(history, changes)
        if change.get("content")
        for content in (change["content"], *change.get("file_content", ()))
    ]


def same_rows(first: Content, second: Content) -> bool:
    """Whether hashes are of the same rows, and of the same labels if both have them."""
    common = min(len(first), len(second))
    return list(first[:common]) == list(second[:common])


def refuse_again(
    cells: Cells, places: Iterable[int], history: Sequence[Change], contents: Sequence[Content]
) -> None:
    """Raise if the same rows have come into some cells, by the hashes of batches and files."""
    for i in live_changes(cells, places):
        held_contents = contents_of(history, [i])
        if any(same_rows(held, new) for held in held_contents for new in contents):
            raise InputError(
                f"These rows are already in the cube, added at {history[i]['time']}, and would"
                f" count twice. {REPLACE}"
            )


def refuse_kinds(
    layout: CellLayout, cells: Cells, history: Sequence[Change], changes: Sequence[Change]
) -> None:
    """Raise if the keys of new rows are of another kind than those of some cells."""
    alive = sources_of(history, live_changes(cells, range(len(cells))))
    held = {kind for change in alive for kind in change.get("keys", ())}
    new = {kind for change in changes for kind in change.get("keys", ())}
    require_one_kind(held | new, layout.roles.key)


def refuse_rows(cells: Cells, new: Cells, layout: CellLayout, advice: str) -> None:
    """Raise if new rows are already in the cells: with keys, if one is; else, if most are."""
    if layout.roles.key is not None:
        again = new.hashes.shared(cells.hashes)
        if len(again):
            name = cell_name(new, layout.by, new.hashes.cell_of(int(again[0])))
            raise InputError(
                f"{len(again):,} of the keys in column {layout.roles.key!r} are already in the cube"
                f" (one comes again in cell {name}), and their rows would count twice. {advice}",
                column=layout.roles.key,
            )
        return
    places, held = {label: i for i, label in enumerate(label_list(cells))}, list(cells.hashes)
    before = [held[places[label]] if label in places else None for label in label_list(new)]
    found = mostly_there(before, new.hashes)
    if found is not None:
        raise InputError(
            f"{found[0]:,} of these {found[1]:,} rows are already in the cube, and would count"
            f" twice. {advice}"
        )


def batches_of(history: Sequence[Change], changes: Iterable[int]) -> list[list[str]]:
    """The batches of some changes, through any number of merges: the hashes of all rows of each,
    then those of its files, without labels.
    """
    return [
        [" ".join(sums[:SUMS]) for sums in (change["content"], *change.get("file_content", ()))]
        for change in sources_of(history, changes)
        if change.get("content")
    ]


def unlabelled(change: Change) -> Change:
    """The record of a change for a rollup: without the labels, which have changed."""
    record = dict(change)
    if record.get("content"):
        record["content"] = list(record["content"][:SUMS])
        record["file_content"] = [sums[:SUMS] for sums in record.get("file_content", [])]
    if record.get("history"):
        record["history"] = [unlabelled(earlier) for earlier in record["history"]]
    return record
