"""Rolling windows that merge and never subtract, so nothing drifts.

A window of w steps is the union of the end of one block of w steps and the beginning of the next:

    steps        0 1 2 3 | 4 5 6 7 | 8 ...     w = 4
    window 2..5      [2 3] [4 5]               end of block 0 from 2 on, beginning of block 1 to 5

This is the two-stack queue, with the blocks known in advance.  Each step is merged once into a
suffix and once into a prefix: a window costs two merges, whatever w is, and no result goes through
more than w of them.  Many blocks are merged in one call (:func:`karat.engine.groups.reduce_many`).

A window of 28 days is the same with blocks of 28 days, of which any number may occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from karat.core.coreset import Coreset
from karat.cubes.cells import Cells, in_order
from karat.cubes.fits import Fits, Place, check_estimator, fit_one, plain_coreset
from karat.cubes.merge import joined_cells, merge_cells
from karat.cubes.reduce import Reducer
from karat.cubes.select import check_name
from karat.engine.linalg import Indices
from karat.errors import InputError, check_integer, several

if TYPE_CHECKING:
    from karat.cubes.base import Cube

BLOCKS = 64  # blocks merged at a time
UNITS = {"W": "W", "D": "D", "d": "D", "h": "h", "H": "h", "min": "m", "s": "s"}
UNCERTAIN = ("Y", "M", "generic")  # units that are no time
MOMENT = "datetime64[us]"
Window = int | str | timedelta | np.timedelta64


class Run(NamedTuple):
    """The steps of one label of ``by``, in order."""

    steps: Indices
    firsts: Indices  # for every step, the first one of the window that ends there; -1 without one
    blocks: Indices  # and the block it is in


class Rolling:
    """Windows of consecutive labels of a cube; iterate over them, or fit a model on each.

    Parameters
    ----------
    cube : Cube
    name : str
        The column whose labels are the steps.
    window : int, str or timedelta
        A number of labels that occur, one after the other; or, of dates and times, a duration such
        as ``"28D"``, ``"2W"`` or ``"12h"``: a window then ends with each label that occurs, and has
        the labels of that time before it (the window of 28 days until the 31st begins with the
        4th).
    by : tuple of str
        Windows for each label of these columns.
    """

    def __init__(self, cube: Cube, name: str, window: Window, by: tuple[str, ...] = ()) -> None:
        check_name(name, cube.by, "name")
        duration = _duration(window)
        if duration is None:
            check_integer("window", window)
        if name in by:
            raise InputError(f"Windows run over {name!r}; remove it from by.", argument="by")
        self.cube, self.name, self.window, self.by = cube, name, window, by
        unhashed = copy(cube)
        unhashed.cells = cube.cells.unhashed()
        self.steps = unhashed.rollup((*by, name))
        labels = self.steps.cells.labels[-1]
        if duration is not None and labels.dtype.kind != "M":
            raise InputError(
                f"A window of {window} needs dates or times, not the labels of {name!r}; give a"
                " number of labels.",
                argument="window",
            )
        order, edges = in_order(self.steps.cells.labels[:-1], len(self.steps))
        steps = np.split(order, edges[1:-1])
        self.runs = [
            _by_number(run, int(window))  # type: ignore[arg-type]
            if duration is None
            else _by_time(run, labels[run], duration)
            for run in steps
        ]
        if not len(self):
            most = max(map(len, steps))
            raise InputError(
                f"There are {most:,} labels of {name!r}, fewer than a window of {window:,}."
                if duration is None
                else f"The labels of {name!r} span less than a window of {window}."
            )

    def __len__(self) -> int:
        return sum(int((run.firsts >= 0).sum()) for run in self.runs)

    def __repr__(self) -> str:
        return f"Rolling({several(len(self), 'window')} of {self.window} by {self.name})"

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
        steps, reducer = self.steps.cells, self.steps.reducer
        for pool in _pooled(self.runs):
            ends = _scanned(steps, [block for piece in pool for block in piece.ends], reducer, True)
            starts = _scanned(
                steps, [block for piece in pool for block in piece.beginnings], reducer, False
            )
            for piece in pool:
                run = piece.run
                for last in piece.windows.tolist():
                    first, step = int(run.firsts[last]), int(run.steps[last])
                    parts = [starts[step]]
                    if run.blocks[first] < run.blocks[last]:
                        parts = [ends[int(run.steps[first])], *parts]
                    yield step, parts


def _duration(window: Any) -> np.timedelta64 | None:
    """A window of time in microseconds; None if it is a number of labels."""
    if isinstance(window, timedelta | np.timedelta64):
        length = np.timedelta64(window)
    elif isinstance(window, str):
        match = re.fullmatch(r"(\d{1,18}) ?([A-Za-z]+)", window)
        if match is None or match[2] not in UNITS:
            raise InputError(
                f"window must be a number of labels, or a duration in W, D, h, min or s such as"
                f" '28D', not {window!r}.",
                argument="window",
            )
        unit: Any = UNITS[match[2]]
        length = np.timedelta64(int(match[1]), unit)
    else:
        return None
    if np.datetime_data(length.dtype)[0] in UNCERTAIN:
        raise InputError(
            f"A window of {window} has no certain length; give it in weeks, days, hours, minutes or"
            " seconds.",
            argument="window",
        )
    duration: np.timedelta64 = length.astype("timedelta64[us]")
    if duration.astype(length.dtype) != length and not np.isnat(length):
        raise InputError(
            f"A window of {window} is longer than times can be, or not in whole microseconds.",
            argument="window",
        )
    if not duration > np.timedelta64(0, "us"):
        raise InputError(f"A window of {window} has no length.", argument="window")
    return duration


def _by_number(steps: Indices, window: int) -> Run:
    """Windows of as many steps."""
    place = np.arange(len(steps))
    return Run(steps, np.maximum(place - window + 1, -1), place // window)


def _by_time(steps: Indices, labels: np.ndarray, duration: np.timedelta64) -> Run:
    """Windows of steps in that time; none begins before the first step."""
    times, unit = labels.astype(MOMENT), (labels[:1] + 1).astype(MOMENT) - labels[:1].astype(MOMENT)
    duration = min(duration, (times[-1] - times[0] + 2 * unit)[0])  # the same, without overflow
    firsts = np.searchsorted(times, times - duration, side="right")
    firsts[times - duration < times[0] - unit] = -1
    return Run(steps, firsts, (times - times[0]) // duration)


class SomeWindows(NamedTuple):
    """Some windows of a run, and the blocks that they end in and begin in."""

    run: Run
    windows: Indices  # where they end
    beginnings: list[Indices]  # the steps of the blocks in which they end, in order
    ends: list[Indices]  # the same of those in which they begin, backwards


def _pooled(runs: Iterable[Run]) -> Iterator[list[SomeWindows]]:
    """Runs in pieces of at most BLOCKS blocks; short runs are combined."""
    pool: list[SomeWindows] = []
    for run in runs:
        edges = np.flatnonzero(np.diff(run.blocks, prepend=-1, append=run.blocks[-1] + 1))
        blocks = [run.steps[a:b] for a, b in pairwise(edges.tolist())]
        for first in range(0, len(blocks), BLOCKS):
            some = slice(first, min(first + BLOCKS, len(blocks)))
            inside = np.arange(edges[some.start], edges[some.stop])
            windows = inside[run.firsts[inside] >= 0]
            ends = [block[::-1] for block in blocks[max(0, first - 1) : some.stop - 1]]
            if len(windows):
                pool.append(SomeWindows(run, windows, blocks[some], ends))
            if sum(len(piece.beginnings) for piece in pool) >= BLOCKS:
                yield pool
                pool = []
    if pool:
        yield pool


def _scanned(
    steps: Cells, blocks: Sequence[Indices], reducer: Reducer, backwards: bool
) -> dict[int, Place]:
    """For every step of some blocks, the merged cell of all steps of its block up to there.

    ``backwards`` says that blocks are given so; rows stay in the order of the steps.
    """
    places: dict[int, Place] = {}
    held: Cells | None = None
    for place in range(max(map(len, blocks), default=0)):
        numbers = np.array([b for b, block in enumerate(blocks) if place < len(block)])
        step = replace(
            steps.chosen(np.array([blocks[b][place] for b in numbers])), labels=(numbers,)
        )
        if held is not None:
            before = held.chosen(np.flatnonzero(np.isin(held.labels[0], numbers)))
            step = merge_cells(
                reducer, joined_cells([step, before] if backwards else [before, step]), loose=True
            )
        held = step
        places |= {int(blocks[b][place]): (step, i) for i, b in enumerate(numbers.tolist())}
    return places
