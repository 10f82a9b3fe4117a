"""Cells of equal labels made one: slices, coarser cubes, updates and windows are this with other
labels.

Moments add up, so the coreset of the kept rows of some cells is a coreset of all of their rows.
Its certificate inherits the error of the kept rows (:mod:`karat.engine.claim`).  Nothing is ever
subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from karat.core.certify import Certificate
from karat.core.synthetic import REAL, as_made
from karat.cubes.cells import KINDS, MADE, Cells, as_integers, in_order, label_list, starts_of
from karat.cubes.hashes import CellHashes
from karat.cubes.reduce import Reducer, positions_of, with_made
from karat.cubes.select import shown
from karat.data.stacking import in_one_array, stack_rows
from karat.engine.fourth_moments import FourthSums
from karat.engine.linalg import Indices
from karat.engine.rows import Rows
from karat.errors import InputError

LOOSE = 4  # with loose=True, a union of up to so many rows per feature is not reduced


def joined_labels(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Labels of several parts, one after the other; an error if they are of different kinds."""
    first = parts[0]
    for part in parts[1:]:
        if KINDS.get(first.dtype.kind) != KINDS.get(part.dtype.kind):
            kind, other_kind = (
                f"{KINDS.get(v.dtype.kind, v.dtype)} (such as {shown(v[0])})" for v in (first, part)
            )
            raise InputError(
                f"Some labels are {kind} and others are {other_kind}; convert the column to the"
                " type of the cube's labels."
            )
    if first.dtype.kind in "iu":
        return as_integers([value for part in parts for value in part.tolist()], "of labels")
    if first.dtype.kind == "f":
        _check_precision(parts)
    return np.concatenate(parts)


def _check_precision(parts: Sequence[np.ndarray]) -> None:
    """Raise if single-precision labels are rounded double-precision ones, which would be other
    cells.
    """
    for short in {part.dtype for part in parts if part.dtype.itemsize < 8}:
        rounded = {float(v) for part in parts if part.dtype == short for v in part}
        for part in parts:
            if part.dtype.itemsize <= short.itemsize:
                continue
            with np.errstate(over="ignore"):
                low = part.astype(short).astype(float)
            twins = [
                v
                for v, r in zip(part.tolist(), low.tolist(), strict=True)
                if r != v and r in rounded
            ]
            if twins:
                raise InputError(
                    f"Labels are {short} in some rows and {part.dtype} in others, and {twins[0]!r}"
                    " is not the same number in both; convert the column to the type of the cube's"
                    " labels."
                )


def joined_cells(parts: Sequence[Cells]) -> Cells:
    """The cells of several parts, one part after the other; labels may occur several times."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    first = parts[0]
    if len(parts) == 1:
        return first
    return Cells(
        tuple(
            joined_labels(values) for values in zip(*(part.labels for part in parts), strict=True)
        ),
        starts_of(np.concatenate([part.sizes for part in parts])),
        tuple(
            stack_rows(*values) for values in zip(*(part.columns for part in parts), strict=True)
        ),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        None if first.keys is None else np.concatenate([np.asarray(part.keys) for part in parts]),
        tuple(certificate for part in parts for certificate in part.certificates),
        tuple(origin for part in parts for origin in part.origins),
        tuple(names for part in parts for names in part.parts),
        CellHashes.joined([part.hashes for part in parts]),
        None
        if first.fourth is None
        else FourthSums.joined([part.fourth for part in parts if part.fourth is not None]),
    )


def add_cells(reducer: Reducer, cells: Cells, new: Cells) -> Cells:
    """Cells with the rows of new ones."""
    return merge_cells(reducer, joined_cells([cells, new]))


def replace_cells(reducer: Reducer, cells: Cells, new: Cells) -> Cells:
    """Cells with those of the same labels replaced by new ones."""
    both = joined_cells([cells, new])  # whose labels are of one type
    labels = label_list(both)
    replaced, count = set(labels[len(cells) :]), len(cells)
    kept = [i for i, label in enumerate(labels) if i >= count or label not in replaced]
    return merge_cells(reducer, both.chosen(np.array(kept, dtype=np.intp)))


def merge_cells(reducer: Reducer, cells: Cells, loose: bool = False) -> Cells:
    """Merge cells of equal labels, in the order of their labels; other cells stay unchanged.

    With ``loose``, a union of few rows is not reduced.
    """
    order, edges = in_order(cells.labels, len(cells))
    if len(edges) - 1 == len(cells):
        return cells if np.array_equal(order, np.arange(len(cells))) else cells.chosen(order)
    firsts, several = order[edges[:-1]], np.diff(edges) > 1
    members = [order[a:b] for a, b in zip(edges[:-1][several], edges[1:][several], strict=True)]
    together = _merged_groups(
        reducer, cells, members, tuple(values[firsts[several]] for values in cells.labels), loose
    )
    alone = cells.chosen(firsts[~several])
    both = joined_cells([alone, together])
    return both.chosen(
        np.argsort(np.concatenate([np.flatnonzero(~several), np.flatnonzero(several)]))
    )


def _merged_groups(
    reducer: Reducer,
    cells: Cells,
    members: list[Indices],
    labels: tuple[np.ndarray, ...],
    loose: bool,
) -> Cells:
    """One cell from each list of cells."""
    merged = np.concatenate(members)
    counts, sizes = cells.counts, cells.sizes
    before = np.concatenate([np.cumsum(counts[group]) - counts[group] for group in members])
    rows = cells.rows_of(merged)
    numbers = numbered_after(cells.numbers[rows], np.repeat(before, sizes[merged]))
    lengths = np.array([int(sizes[group].sum()) for group in members])
    many = lengths > (LOOSE if loose else 1) * reducer.width
    united = Cells(
        labels, starts_of(lengths), tuple(column[rows] for column in cells.columns),
        cells.weights[rows], numbers, None if cells.keys is None else cells.keys[rows],
        tuple(
            _counted(cells, group) if reduced else _united(reducer, cells, group)
            for group, reduced in zip(members, many.tolist(), strict=True)
        ),
        tuple(tuple(sorted({o for i in group for o in cells.origins[i]})) for group in members),
        tuple(tuple(cells.parts_of(group)) for group in members), cells.hashes.united(members),
        None if cells.fourth is None else cells.fourth.united(members),
    )  # fmt: skip
    much = np.flatnonzero(many)
    if not len(much):
        return united
    claims = [[cells.certificates[i] for i in members[g]] for g in much]
    reduced = _reduced(reducer, united.chosen(much), claims)
    rest = np.setdiff1d(np.arange(len(united)), much)
    return joined_cells([united.chosen(rest), reduced]).chosen(
        np.argsort(np.concatenate([rest, much]))
    )


def numbered_after(numbers: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The numbers of rows that come after others; made rows have none."""
    return np.where(numbers == MADE, MADE, numbers + before)


def _counted(cells: Cells, group: Indices) -> Certificate:
    """A certificate with the number of rows of several cells, until they are reduced."""
    n_rows = sum(cells.certificates[i].n_rows for i in group)
    return replace(cells.certificates[int(group[0])], n_rows=n_rows)


def _united(reducer: Reducer, cells: Cells, group: Indices) -> Certificate:
    """The certificate of several cells together; cells without kept rows only add to the number of
    rows.
    """
    claims = [cells.certificates[i] for i in group if cells.certificates[i].size] or [
        cells.certificates[group[0]]
    ]
    united = replace(Certificate.union(claims), n_rows=_counted(cells, group).n_rows)
    return united if united.rows == REAL else as_made(united, reducer.problem)


def _reduced(reducer: Reducer, cells: Cells, claims: Sequence[Sequence[Certificate]]) -> Cells:
    """Every cell reduced; ``claims`` are those of the rows in it."""
    doubles = all(column.dtype == np.float64 for column in cells.columns)
    blocks = [column[:, None] for column in cells.columns]
    rows = Rows([in_one_array([blocks])] if doubles else blocks, cells.weights)
    kept = reducer.reduce(rows, cells.starts, cells.counts, claims)
    sizes = np.array([len(result.positions) for result in kept])
    held = positions_of(kept, cells.starts[:-1])
    columns, numbers = with_made(
        kept, [column[held] for column in cells.columns], cells.numbers[held]
    )
    return Cells(
        cells.labels, starts_of(sizes), tuple(columns),
        np.concatenate([result.weights for result in kept]), numbers,
        None if cells.keys is None else cells.keys[held],
        tuple(result.certificate for result in kept), cells.origins, cells.parts, cells.hashes,
        cells.fourth,
    )  # fmt: skip
