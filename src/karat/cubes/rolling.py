"""Rolling windows that merge and never subtract, so nothing drifts.

A window of w steps is the union of the end of one block of w steps and the beginning of the next:

    steps        0 1 2 3 | 4 5 6 7 | 8 ...     w = 4
    window 2..5      [2 3] [4 5]               end of block 0 from 2 on, beginning of block 1 to 5

This is the two-stack queue, with the blocks known in advance.  Each step is merged once into a
suffix and once into a prefix: a window costs two merges, whatever w is, and no result goes through
more than w of them.  Many blocks are merged in one call (:func:`karat.engine.groups.reduce_many`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.core.coreset import Coreset
from karat.cubes.cells import Cells, Reducer, in_order
from karat.cubes.fits import Fits, Place, check_estimator, fit_one, plain_coreset
from karat.cubes.merge import joined_cells, merge_cells
from karat.cubes.select import check_name
from karat.engine.linalg import Indices
from karat.errors import InputError, check_integer

if TYPE_CHECKING:
    from karat.cubes.base import Cube

BLOCKS = 64  # blocks merged at a time


class Rolling:
    """Windows of consecutive labels of a cube; iterate over them, or fit a model on each.

    Parameters
    ----------
    cube : Cube
    name : str
        The column whose labels are the steps; a window has ``window`` labels that occur, one after
        the other.
    window : int
    by : tuple of str
        Windows for each label of these columns.
    """

    def __init__(self, cube: Cube, name: str, window: int, by: tuple[str, ...] = ()) -> None:
        check_integer("window", window)
        check_name(name, cube.by, "name")
        if name in by:
            raise InputError(f"Windows run over {name!r}; remove it from by.", argument="by")
        self.cube, self.name, self.window, self.by = cube, name, int(window), by
        unhashed = copy(cube)
        unhashed.cells = cube.cells.unhashed()
        self.steps = unhashed.rollup((*by, name))
        lengths = [len(run) for run in self._runs()]
        if max(lengths) < self.window:
            raise InputError(
                f"There are {max(lengths):,} labels of {name!r}, fewer than a window of {window:,}."
            )

    def __len__(self) -> int:
        return sum(max(0, len(run) - self.window + 1) for run in self._runs())

    def _runs(self) -> list[Indices]:
        """The steps of each label of ``by``, in order."""
        order, edges = in_order(self.steps.cells.labels[:-1], len(self.steps))
        return np.split(order, edges[1:-1])

    def __iter__(self) -> Iterator[tuple[Any, Coreset]]:
        """The label of the last step of each window (with those of ``by`` before it), and the
        coreset of the window.
        """
        for last, parts in self._windows():
            cells = joined_cells([cells.chosen(np.array([g])) for cells, g in parts])
            label = tuple(values[last] for values in self.steps.cells.labels)
            yield label if self.by else label[0], self.cube.coreset_of(cells, np.arange(len(cells)))

    def fit(self, estimator: Any) -> Fits:
        """Fit an estimator on every window; labels are those of the last step."""
        check_estimator(estimator)
        models, rows, places = [], [], []
        for last, parts in self._windows():
            core = plain_coreset(self.cube, parts)
            models.append(fit_one(core, estimator, self.cube.columns))
            rows.append(core.n_rows)
            places.append(last)
        labels = tuple(values[places] for values in self.steps.cells.labels)
        return Fits(
            (*self.by, self.name),
            labels,
            tuple(models),
            np.array(rows),
            self.cube.columns,
            self.cube.targets,
        )

    def _windows(self) -> Iterator[tuple[int, list[Place]]]:
        """The last step of every window, and the one or two cells that it is the union of."""
        steps, window, reducer = self.steps.cells, self.window, self.steps.reducer
        for runs in _pooled(self._runs(), window):
            suffixes = _scanned(
                steps, [run[: BLOCKS * window] for run in runs], window, reducer, backwards=True
            )
            prefixes = _scanned(steps, runs, window, reducer, backwards=False)
            for run, ends, beginnings in zip(runs, suffixes, prefixes, strict=True):
                for start in range(min(BLOCKS * window, len(run) - window + 1)):
                    last = start + window - 1
                    yield (
                        int(run[last]),
                        [ends[start], *([beginnings[last]] if start % window else [])],
                    )


def _pooled(runs: Iterable[Indices], window: int) -> Iterator[list[Indices]]:
    """Runs in pieces of at most BLOCKS blocks, each with the steps of its last window; short runs
    are combined.
    """
    pool: list[Indices] = []
    for run in runs:
        for first in range(0, len(run) - window + 1, BLOCKS * window):
            pool.append(run[first : first + (BLOCKS + 1) * window - 1])
            if sum(map(len, pool)) >= BLOCKS * window:
                yield pool
                pool = []
    if pool:
        yield pool


def _scanned(
    steps: Cells, runs: Sequence[Indices], window: int, reducer: Reducer, backwards: bool
) -> list[list[Place]]:
    """For every step, the merged cell from the step to the end of its block, or from the beginning
    of the block to the step.
    """
    blocks = [
        (r, first, run[first : first + window])
        for r, run in enumerate(runs)
        for first in range(0, len(run), window)
    ]
    places_by_run: list[dict[int, Place]] = [{} for _ in runs]
    held: Cells | None = None
    for place in range(window):
        alive = [b for b, (_, _, block) in enumerate(blocks) if place < len(block)]
        if not alive:
            break
        numbers = np.array(alive)
        step = steps.chosen(
            np.array([blocks[b][2][-1 - place if backwards else place] for b in alive])
        )
        step = replace(step, labels=(numbers,))
        if held is not None:
            before = held.chosen(np.flatnonzero(np.isin(held.labels[0], numbers)))
            step = merge_cells(
                reducer, joined_cells([step, before] if backwards else [before, step]), loose=True
            )
        held = step
        for i, b in enumerate(alive):
            run, first, block = blocks[b]
            places_by_run[run][first + (len(block) - 1 - place if backwards else place)] = (step, i)
    return [
        [places[i] for i in range(len(run))]
        for places, run in zip(places_by_run, runs, strict=True)
    ]
