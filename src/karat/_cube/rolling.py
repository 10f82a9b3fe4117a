"""Rolling windows that merge and never subtract, so nothing drifts.

A window of w steps is the union of the end of one block of w steps and the beginning of the next:

    steps        0 1 2 3 | 4 5 6 7 | 8 ...           w = 4
    window 2..5      [2 3] [4 5]                     suffix of block 0 that begins at 2, prefix of block 1 that ends at 5

This is the two-stack queue, with the blocks known in advance.  Each step is merged once into a suffix and once into a prefix:
a window costs two merges, whatever w is, and no result goes through more than w of them.  Many blocks are merged in one call
(:func:`karat.engine.groups.reduce_many`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat._core.coreset import Coreset
from karat._cube.cells import Cells, joined
from karat._cube.fits import Fits, fit_one
from karat._cube.reduce import Reducer
from karat.engine.linalg import Indices
from karat.errors import InputError, check_whole

if TYPE_CHECKING:
    from karat._cube.base import Cube

BLOCKS = 64  # that are merged at a time


class Rolling:
    """Windows of consecutive labels of a cube; iterate over them, or fit a model on each.

    Parameters
    ----------
    cube : Cube
    name : str
        The column whose labels are the steps; a window has ``window`` labels that occur, one after the other.
    window : int
    by : tuple of str
        Windows for each label of these columns.
    """

    def __init__(self, cube: Cube, name: str, window: int, by: tuple[str, ...] = ()) -> None:
        check_whole("window", window)
        if name not in cube.by:
            raise InputError(f"Cells have no label {name!r}; they are labelled by {', '.join(cube.by)}.", argument="name")
        if name in by:
            raise InputError(f"Windows run over {name!r}, so it cannot be in by.", argument="by")
        self.cube, self.name, self.window, self.by = cube, name, int(window), by
        self.steps = cube.rollup((*by, name))
        lengths = [len(run) for run in self._runs()]
        if max(lengths) < self.window:
            raise InputError(f"There are {max(lengths):,} labels of {name!r}, fewer than a window of {window:,}.")

    def __len__(self) -> int:
        return sum(max(0, len(run) - self.window + 1) for run in self._runs())

    def _runs(self) -> list[Indices]:
        """The steps of each label of ``by``, in order."""
        cells = self.steps.cells
        if not self.by:
            return [np.arange(len(cells))]
        change = np.zeros(len(cells), dtype=bool)
        for values in cells.labels[:-1]:
            change[1:] |= values[1:] != values[:-1]
        return list(np.split(np.arange(len(cells)), np.flatnonzero(change)))

    def __iter__(self) -> Iterator[tuple[Any, Coreset]]:
        """The label of the last step of each window (with those of ``by`` before it), and the coreset of the window."""
        for run in self._runs():
            for last, cells in _windows(self.steps.cells, run, self.window, self.steps.reducer):
                label = tuple(values[last] for values in self.steps.cells.labels)
                yield label if self.by else label[0], self.cube.coreset_of(cells, np.arange(len(cells)))

    def fit(self, estimator: Any) -> Fits:
        """Fit an estimator on every window; labels are those of the last step."""
        models, rows, places = [], [], []
        for run in self._runs():
            for last, cells in _windows(self.steps.cells, run, self.window, self.steps.reducer):
                core = self.cube.coreset_of(cells, np.arange(len(cells)))
                models.append(fit_one(core, estimator))
                rows.append(core.n_rows)
                places.append(last)
        labels = tuple(values[places] for values in self.steps.cells.labels)
        return Fits((*self.by, self.name), labels, tuple(models), np.array(rows), self.cube.columns, self.cube.targets)


def _windows(steps: Cells, run: Indices, window: int, reducer: Reducer) -> Iterator[tuple[int, Cells]]:
    """The last step of every window of a run, and its one or two cells."""
    for first in range(0, len(run), BLOCKS * window):
        some = run[first : first + (BLOCKS + 1) * window - 1]  # windows that begin in these blocks end here
        suffixes = _scanned(steps, some[: BLOCKS * window], window, reducer, backwards=True)
        prefixes = _scanned(steps, some, window, reducer, backwards=False)
        for start in range(min(BLOCKS * window, len(some) - window + 1)):
            end = start + window - 1
            parts = [suffixes[start]] if start % window == 0 else [suffixes[start], prefixes[end]]
            yield int(some[end]), joined(parts)


def _scanned(steps: Cells, run: Indices, window: int, reducer: Reducer, backwards: bool) -> list[Cells]:
    """Of every step of a run, the cell of its block from there to its end; or from its beginning to there."""
    blocks = [run[i : i + window] for i in range(0, len(run), window)]
    found: dict[int, Cells] = {}
    held: dict[int, Cells] = {}
    for place in range(window):
        alive = [b for b, block in enumerate(blocks) if place < len(block)]
        new = []
        for b in alive:
            step = steps.chosen(blocks[b][[-1 - place if backwards else place]])
            pair = [step, held[b]] if backwards and b in held else [held[b], step] if b in held else [step]
            numbered = (np.full(len(pair), b),)
            new.append(joined(pair_labelled(pair, numbered)))
        together = reducer.merged(joined(new), loose=True)
        for i, b in enumerate(alive):
            held[b] = together.chosen(np.array([i]))
            length = len(blocks[b])
            found[b * window + (length - 1 - place if backwards else place)] = held[b]
    return [found[i] for i in range(len(run))]


def pair_labelled(pair: list[Cells], labels: tuple[np.ndarray, ...]) -> list[Cells]:
    """Cells under the number of their block."""
    return [replace(one, labels=tuple(values[i : i + 1] for values in labels)) for i, one in enumerate(pair)]
