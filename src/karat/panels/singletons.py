"""Levels with a single row are left out, and so are those that have a single row then.

The effect of such a level fits its row exactly, so the row says nothing about the coefficients; but
it would count as an observation (Correia 2015).  A row is known by its levels alone: the sum of the
codes of the partners of a level, over its pairs that are left, is the code of the partner where one
row is left.  So no pass over the rows is needed, and each round looks at the levels of the rows
that were taken out in the round before.

A chain of levels loses one row at each end in a round.  So after a few rounds the rows go through a
queue, one by one, which only counts; then the sums of the other rows are made in one more pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine.linalg import Array, Flags, Indices
from karat.panels.sums import PanelSums

ROUNDS = 20  # before the queue, which takes as long for a few rows as a round


@dataclass(frozen=True)
class Singletons:
    """The rows that were left out.

    Attributes
    ----------
    rows : int
    levels : list of arrays of bool
        By effect, which levels are left out.
    """

    rows: int
    levels: list[Flags]
    counted: bool = False  # not all of them were taken out of the sums

    def without(
        self, z: Array, weights: Array | None, codes: list[Indices]
    ) -> tuple[Array, Array | None, list[Indices]]:
        """A block without these rows."""
        if not self.rows:
            return z, weights, codes
        out = np.zeros(len(codes[0]), dtype=bool)
        for levels, places in zip(self.levels, codes, strict=False):
            out |= levels[places]
        kept = ~out
        weights = None if weights is None else weights[kept]
        return z[:, kept], weights, [places[kept] for places in codes]


def drop_singletons(sums: PanelSums) -> Singletons:
    """Take the rows of levels with a single row out of the sums, again and again."""
    effects = range(len(sums.by_level))
    levels = [np.zeros(len(by.counts), dtype=bool) for by in sums.by_level]
    partners = _partners(sums)
    rows, removed, removed_weights = 0, list[Indices](), list[Array]()
    waiting = [np.flatnonzero(by.counts == 1) for by in sums.by_level]
    for _ in range(ROUNDS):
        if not any(len(places) for places in waiting):
            break
        taken = np.unique(_rows_of(waiting, partners), axis=1)
        z, weights = _single_rows(sums, taken)
        rows += taken.shape[1]
        removed.append(taken)
        removed_weights.append(weights)
        sums.rows -= taken.shape[1]
        sums.weight -= float(weights.sum())
        sums.log_weights -= float(np.log(weights).sum())
        sums.total -= z @ weights
        sums.products -= (z * weights) @ z.T
        for effect in effects:
            by, codes = sums.by_level[effect], taken[effect]
            _subtract(by.counts, codes, np.ones(len(codes), dtype=np.int64))
            _subtract(by.weights, codes, weights)
            for total, row in zip(by.values, z * weights, strict=True):
                _subtract(total, codes, row)
            for other in effects:
                if other != effect:
                    _subtract(partners[effect, other], codes, taken[other])
            touched = np.unique(codes)
            empty = touched[by.counts[touched] == 0]
            levels[effect][empty] = True
            by.weights[empty], by.values[:, empty] = 0.0, 0.0
            waiting[effect] = touched[by.counts[touched] == 1]
    if any(len(places) for places in waiting):
        more = _queued(sums, partners, waiting)
        sums.rows -= more
        empty = [flags | (by.counts == 0) for flags, by in zip(levels, sums.by_level, strict=True)]
        return Singletons(rows + more, empty, counted=True)
    for (a, b), pairs in sums.pairs.items():
        if rows and b in effects:
            gone = np.concatenate(removed, axis=1)
            pairs.remove(gone[a], gone[b], np.concatenate(removed_weights))
    return Singletons(rows, levels)


def _queued(
    sums: PanelSums, partners: dict[tuple[int, int], Indices], waiting: list[Indices]
) -> int:
    """Count the rows of levels out, one after the other, and how many they are."""
    effects = range(len(waiting))
    counts = [by.counts.tolist() for by in sums.by_level]
    sums_of = {pair: codes.tolist() for pair, codes in partners.items()}
    queue = [(effect, code) for effect in effects for code in waiting[effect].tolist()]
    rows = 0
    while queue:
        effect, code = queue.pop()
        if counts[effect][code] != 1:
            continue  # its row was that of another level, too
        row = [code if other == effect else sums_of[effect, other][code] for other in effects]
        rows += 1
        for mine, place in enumerate(row):
            counts[mine][place] -= 1
            for other, partner in enumerate(row):
                if other != mine:
                    sums_of[mine, other][place] -= partner
            if counts[mine][place] == 1:
                queue.append((mine, place))
    for by, left in zip(sums.by_level, counts, strict=True):
        by.counts[:] = left
    return rows


def _partners(sums: PanelSums) -> dict[tuple[int, int], Indices]:
    """For the levels of each effect, the sum of the codes of another effect over their rows."""
    found, counts = {}, [len(by.counts) for by in sums.by_level]
    for (a, b), pairs in sums.pairs.items():
        if b < len(counts) and any(np.any(by.counts == 1) for by in sums.by_level):
            left, right = pairs.keys >> 32, pairs.keys & 0xFFFFFFFF
            found[a, b], found[b, a] = np.zeros(counts[a], np.int64), np.zeros(counts[b], np.int64)
            np.add.at(found[a, b], left, right * pairs.counts)
            np.add.at(found[b, a], right, left * pairs.counts)
    return found


def _rows_of(waiting: list[Indices], partners: dict[tuple[int, int], Indices]) -> Indices:
    """The levels of every effect, for the single rows of some levels."""
    effects = range(len(waiting))
    return np.concatenate(
        [
            np.stack([places if b == a else partners[a, b][places] for b in effects])
            for a, places in enumerate(waiting)
        ],
        axis=1,
    )


def _single_rows(sums: PanelSums, taken: Indices) -> tuple[Array, Array]:
    """The columns and the weights of rows, from the sums of a level that has no other row."""
    z = np.empty((sums.plan.width, taken.shape[1]))
    weights = np.empty(taken.shape[1])
    for by, codes in zip(sums.by_level, taken, strict=True):
        alone = by.counts[codes] == 1
        places = codes[alone]
        weights[alone] = by.weights[places]
        z[:, alone] = by.values[:, places] / by.weights[places]
    return z, weights


def _subtract(total: np.ndarray, places: Indices, values: np.ndarray) -> None:
    np.subtract.at(total, places, values)
