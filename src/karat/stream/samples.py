"""Latent-variable problems on rows that come in batches, in two passes.

    first pass     sums += what the problem's maps are made of        # a few matrices
    lowered        = problem.with_maps(sums)                              # an ordinary problem now
    second pass    a sketch takes the samples, as for any problem

Both passes see the same samples.  A window of three steps may begin in one batch and end in the
next, so the last two rows of a batch wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from karat.core.coreset import Coreset
from karat.data.batch import Batch, stack
from karat.engine.linalg import Indices
from karat.errors import InputError, several
from karat.problems.latent import KnownMaps, Latent
from karat.problems.latent.known import tables_of
from karat.problems.latent.sample import Sample

CARRIED = ("numbers", "weights", "groups", "keys")


class Samples:
    """Samples of consecutive batches of rows.

    Parameters
    ----------
    problem : Latent
    widths : tuple of int or None
        Columns of each table, where there are several.

    Attributes
    ----------
    rows, inputs, dropped : int
        Rows seen; documents or sequences in them; and how many of these were too short.
    """

    def __init__(self, problem: Latent, widths: tuple[int, ...] | None) -> None:
        self.problem, self.widths = problem, widths
        self.rows = self.inputs = self.dropped = 0
        self.open: Batch | None = None  # rows whose windows are not complete
        self.steps = np.zeros(0, dtype=np.int64)  # their places in the sequence

    def take(self, batch: Batch, count: int) -> tuple[Sample, Batch]:
        """The samples that a batch completes, and the same as rows to store.

        ``count`` is the number of rows of the source in the batch.  The groups of a batch, if it
        has any, label sequences: a new one begins where they change.
        """
        self.rows += count
        steps, waiting = None, 0
        if self.problem.rows_per_sample > 1 and len(batch):
            waiting = len(self.steps)
            batch = batch if self.open is None else stack([self.open, batch])
            steps = self._steps(batch)
            last = np.arange(max(0, len(batch) - self.problem.rows_per_sample + 1), len(batch))
            self.open, self.steps = batch.take(last), steps[last]
        sample = self.problem.sample(tables_of(batch.parts, self.widths), batch.weights, steps)
        # sequences that an earlier batch began were counted then
        counted = 0 if steps is None else int((steps[:waiting] == 0).sum())
        self.inputs += sample.inputs - counted
        self.dropped += sample.dropped - counted
        if sample.origin is None:
            return sample, replace(batch, groups=None)
        parts = [
            part[sample.origin + a]
            for a in range(self.problem.rows_per_sample)
            for part in batch.parts
        ]
        return sample, replace(batch.take(sample.origin), parts=parts, groups=None)

    def _steps(self, batch: Batch) -> Indices:
        """The place of every row in its sequence."""
        place = np.arange(len(batch))
        begins = np.zeros(len(batch), dtype=bool)
        if batch.groups is not None:
            begins[1:] = batch.groups[1:] != batch.groups[:-1]
        before = int(self.steps[0]) if len(self.steps) else 0
        return np.asarray(place - np.maximum.accumulate(np.where(begins, place, -before)))

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Numbers and arrays from which :meth:`restore` continues."""
        arrays: dict[str, Any] = {"steps": self.steps}
        if self.open is not None:
            arrays |= {name: getattr(self.open, name) for name in CARRIED}
            arrays |= {f"part_{i}": part for i, part in enumerate(self.open.parts)}
        return {"rows": self.rows, "inputs": self.inputs, "dropped": self.dropped}, arrays

    def restore(self, numbers: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.rows, self.inputs, self.dropped = (
            numbers["rows"],
            numbers["inputs"],
            numbers["dropped"],
        )
        self.steps = arrays["steps"]
        if "numbers" in arrays:
            parts = [
                arrays[f"part_{i}"] for i in range(sum(name.startswith("part_") for name in arrays))
            ]
            self.open = Batch(parts, *(arrays.get(name) for name in CARRIED))


def finished(core: Coreset, rows: int, notes: tuple[str, ...]) -> Coreset:
    """Make the coreset of a lowered problem one of the latent problem.

    ``rows`` and ``notes`` are those of the first pass.
    """
    lowered = core.problem
    assert isinstance(lowered, KnownMaps)
    if core.n_rows != rows:
        raise InputError(
            f"The first pass read {several(rows, 'row')} and the second {core.n_rows:,}. Write the"
            " source to files first, so that both passes read the same rows."
        )
    problem, X = lowered.problem, core.X
    if lowered.widths is not None:
        edges = np.cumsum([0, *lowered.widths])
        X = tuple(_columns(X, int(a), int(b)) for a, b in pairwise(edges))
    proof = core.certificate
    certificate = replace(
        proof,
        passes=proof.passes + 1,
        notes=(*notes, *problem.map_notes(lowered.maps), *proof.notes),
    )
    return replace(core, X=X, problem=problem, maps=lowered.stored_maps, certificate=certificate)


def _columns(table: Any, left: int, right: int) -> Any:
    return (
        table[:, left:right]
        if isinstance(table, np.ndarray)
        else table.select(list(range(left, right)))
    )
