"""Consumers that measure a coreset against its data, in a scan of :mod:`karat.io.verify`.

SumMoments        the moments of all rows, in coordinates of the kept rows
SumSecondMoments  the second moments of all rows, for synthetic rows
CheckKeptRows     whether the kept rows are at their places in the data
FindAnywhere      whether the kept rows are anywhere in the data
ColumnSums        sums and sums of squares of the columns, for reports
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from karat.core.coreset import Coreset
from karat.core.synthetic import readable_by_doubles
from karat.core.verify import shared_groups
from karat.core.verify_synthetic import as_bytes, measured_by_moments
from karat.data.advice import explain_non_finite
from karat.data.batch import Batch, Table, find_offsets, stack, stacked_rows
from karat.data.labels import same_kind
from karat.engine.carried import Running
from karat.engine.claim import Reduction
from karat.engine.kernel import Kernel, NonFiniteError
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.moment_stream import MomentStream
from karat.engine.rows import Rows, column_sums, own_weights
from karat.engine.synthetic import VERBATIM
from karat.errors import InputError, several
from karat.io.scan import Consumer
from karat.io.source import Chunk
from karat.stream.sketch import BUFFER_BYTES
from karat.stream.summary import Buffer, dense_with_weights

# passes until the coordinates fit; one is enough for the data that the coreset was made from
ROUNDS = 3


class SumMoments(Consumer):
    """Sums the moments of all rows by group, in coordinates of the kept rows, which fit best if the
    coreset is exact.

    Parameters
    ----------
    kept : Table
        The rows of the coreset.
    rows : int
        Rows summed at a time.
    apart : array of bool
        Kept rows to leave out on both sides, because they are rows of the data with their original
        weights.
    together : bool
        All groups as one.
    coordinates : dict of Kernel, optional
        Fixed coordinates for each group; by default they are fitted, in a further pass if needed.
    """

    def __init__(
        self, kept: Table, rows: int, apart: Flags | None = None, together: bool = False,
        coordinates: dict[Any, Kernel] | None = None,
    ) -> None:  # fmt: skip
        self.kept, self.together, self.fixed = kept, together, coordinates is not None
        self.apart = np.zeros(len(kept), dtype=bool) if apart is None else apart
        self.buffer = Buffer(rows, BUFFER_BYTES)
        self.passes = 0
        labels = self._labels(kept)
        self._begin(
            coordinates
            or {
                label: kept.kernel.prepare(*dense_with_weights(self.rest(label)))
                for label in labels
            }
        )

    def _labels(self, batch: Batch) -> list[Any]:
        return [None] if self.together else batch.labels

    def rest(self, label: Any) -> Rows:
        """The kept rows of a group, without those that are left out."""
        index = self.kept.index(label)
        return self.kept.rows(label).subset(
            np.flatnonzero(~(self.apart if index is None else self.apart[index]))
        )

    def _begin(self, coordinates: dict[Any, Kernel]) -> None:
        """Start empty sums in the coordinates of each group."""
        self.coordinates = coordinates
        self.strange: set[Any] = set()  # groups of the data that the coreset does not have
        self.running = {
            label: Running.within(fitted, *dense_with_weights(self.kept.rows(label))).emptied()
            for label, fitted in coordinates.items()
        }

    def add(self, chunk: Chunk, batch: Batch) -> None:
        kept = self.kept
        if self.apart.any():
            batch = batch.take(~np.isin(batch.numbers, kept.numbers[self.apart]))
        if batch.weights is not None and not batch.weights.all():
            batch = batch.take(batch.weights > 0)
        if not len(batch):
            return
        # Both sides subtract the same offsets, so that their moments can be compared.
        offsets = find_offsets(batch.parts, kept.names, kept.problem, kept.offsets)
        if kept.groups is not None and batch.groups is not None:
            same_kind(kept.groups, batch.groups)
        self.buffer.add(replace(batch, offsets=offsets), owned=True)
        if self.buffer.full:
            self._sum()

    def _sum(self) -> None:
        if not self.buffer.batches:
            return
        joint = stack(self.buffer.batches)
        try:
            for label in self._labels(joint):
                if label in self.running:
                    rows = stacked_rows(self.buffer.batches, joint.index(label))
                    self.running[label] = self.running[label].plus(self.kept.problem.view(rows))
                else:
                    self.strange.add(label)
        except NonFiniteError:
            raise explain_non_finite(joint.parts, self.kept.names) from None
        self.buffer.clear()

    def another_pass(self) -> bool:
        self._sum()
        self.passes += 1
        poor = {
            label: sums.kernel
            for label, running in self.running.items()
            if (sums := running.fitted_moments()).needs_pass
        }
        if self.fixed or not poor or self.passes == ROUNDS:
            return False
        self._begin(self.coordinates | poor)
        return True


class SumSecondMoments(Consumer):
    """Sums second moments of all rows, by group, without the rows that the coreset keeps as they
    are.

    Attributes
    ----------
    missing : dict
        How many rows that the coreset keeps as they are have not come, by group and bytes.
    """

    def __init__(self, core: Coreset, kept: Table, rows: int) -> None:
        self.core, self.kept, self.began = core, kept, False
        assert core.strata is not None
        self.strata = core.strata
        self.streams: dict[Any, MomentStream] = {}
        self.buffer = Buffer(rows, BUFFER_BYTES)
        self.missing: dict[tuple[Any, bytes], int] = {}
        self.first = np.zeros(0)

    def _begin(self, batch: Batch) -> None:
        """Read made rows, which are doubles, as the first rows of the data are: long integers as
        differences to an offset.
        """
        offsets = find_offsets(batch.parts, self.kept.names, self.kept.problem)
        self.kept, self.began = readable_by_doubles(replace(self.kept, offsets=offsets)), True
        apart, rows = np.flatnonzero(self.strata == VERBATIM), self.kept.stored_rows()
        for row in self._named(rows, apart, self.kept.groups):
            self.missing[row] = self.missing.get(row, 0) + 1
        self.first = dense_rows(rows, apart)[:, 0]

    def _named(
        self, rows: Rows, positions: np.ndarray, groups: np.ndarray | None
    ) -> list[tuple[Any, bytes]]:
        """Some rows, by their groups and bytes."""
        labels = [None] * len(positions) if groups is None else groups[positions].tolist()
        return list(
            zip(
                labels,
                as_bytes(dense_rows(rows, positions), own_weights(rows, positions)),
                strict=True,
            )
        )

    def add(self, chunk: Chunk, batch: Batch) -> None:
        if batch.weights is not None and not batch.weights.all():
            batch = batch.take(batch.weights > 0)
        if not len(batch):
            return
        kept = self.kept
        _check_width(kept, batch)
        if not self.began:
            self._begin(batch)
        offsets = find_offsets(batch.parts, kept.names, kept.problem, self.kept.offsets)
        if kept.groups is not None and batch.groups is not None:
            same_kind(kept.groups, batch.groups)
        batch = self._without_verbatim(replace(batch, offsets=offsets))
        if len(batch):
            self.buffer.add(batch, owned=True)
        if self.buffer.full:
            self._sum()

    def _without_verbatim(self, batch: Batch) -> Batch:
        """The batch without rows that the coreset keeps as they are, each as often as it keeps
        them.
        """
        if not any(self.missing.values()):
            return batch
        rows = batch.stored_rows()
        near = np.flatnonzero(np.isin(dense_rows(rows)[:, 0], self.first))
        gone = np.zeros(len(batch), dtype=bool)
        for place, row in zip(near.tolist(), self._named(rows, near, batch.groups), strict=True):
            if self.missing.get(row, 0):
                self.missing[row] -= 1
                gone[place] = True
        return batch.take(~gone) if gone.any() else batch

    def _sum(self) -> None:
        batches = self.buffer.batches
        if not batches:
            return
        labels = Batch([], np.arange(sum(map(len, batches))))
        if batches[0].groups is not None:
            labels = replace(
                labels, groups=np.concatenate([np.asarray(batch.groups) for batch in batches])
            )
        try:
            for label in labels.labels:
                rows = stacked_rows(batches, labels.index(label))
                before = self.streams.get(label) or MomentStream(rows.columns)
                self.streams[label] = before.plus(rows, self.kept.origin, 1, levels=False)
        except NonFiniteError:
            raise explain_non_finite(batches[0].parts, self.kept.names) from None
        self.buffer.clear()

    def measured(self, passes: int) -> tuple[list[Reduction], float, list[str]]:
        """The coreset against the moments of every group, the total weight, and what refutes it."""
        self._sum()
        if not self.streams:
            raise InputError("The data has no row of positive weight.")
        labels, refutations = shared_groups(self.core, list(self.streams))
        reductions = [self._measured_group(label, passes) for label in labels]
        total = sum(stream.total for stream in self.streams.values())
        total += float(self.core.weights[self.strata == VERBATIM].sum())
        if any(self.missing.values()):
            refutations.append("Some rows that were kept unchanged are not rows of this data.")
        return reductions, total, refutations

    def _measured_group(self, label: Any, passes: int) -> Reduction:
        index = self.kept.index(label)
        strata = self.strata if index is None else self.strata[index]
        return measured_by_moments(
            self.core, self.streams[label], self.kept.rows(label), strata, passes
        )


def _check_width(kept: Table, batch: Batch) -> None:
    """Raise unless the data has as many columns as the kept rows."""
    columns = sum(part.shape[1] for part in batch.parts) - kept.targets
    if columns != kept.columns:
        raise InputError(
            f"The coreset has {several(kept.columns, 'column')} and"
            f" {several(kept.targets, 'target')}, the data has"
            f" {columns} and {kept.targets}."
        )


class CheckKeptRows(Consumer):
    """Checks whether each kept row is in the data under its number; ``moved`` has the numbers of
    those that are not.
    """

    def __init__(self, kept: Table) -> None:
        self.kept = kept
        self.moved = set(kept.numbers.tolist())

    def add(self, chunk: Chunk, batch: Batch) -> None:
        if not len(batch):
            return
        kept = self.kept
        _check_width(kept, batch)
        wanted = np.arange(
            *np.searchsorted(kept.numbers, [batch.numbers[0], batch.numbers[-1] + 1])
        )
        place = np.searchsorted(batch.numbers, kept.numbers[wanted])
        there = batch.numbers[place] == kept.numbers[wanted]  # the row may have been dropped
        wanted, place = wanted[there], place[there]
        if len(wanted):
            data_rows = replace(batch.take(place), offsets=kept.offsets)
            same = (
                dense_rows(kept.stored_rows(), wanted) == dense_rows(data_rows.stored_rows())
            ).all(axis=1)
            for labels, theirs in ((kept.groups, data_rows.groups), (kept.keys, data_rows.keys)):
                if labels is not None and theirs is not None:
                    same &= labels[wanted] == theirs
            self.moved -= set(kept.numbers[wanted[same]].tolist())


class FindAnywhere(Consumer):
    """Checks whether the kept rows are anywhere in the data; ``missing`` has those that are not."""

    def __init__(self, kept: Table) -> None:
        self.offsets = kept.offsets
        rows = dense_rows(kept.stored_rows())
        self.first, self.missing = rows[:, 0], {row.tobytes() for row in rows}

    def add(self, chunk: Chunk, batch: Batch) -> None:
        rows = replace(batch, offsets=self.offsets).stored_rows()
        # Few rows have the first number of a kept row, so few are compared in full.
        near = np.flatnonzero(np.isin(_first(rows), self.first))
        self.missing -= {row.tobytes() for row in dense_rows(rows, near)}


class ColumnSums(Consumer):
    """Total weight, sums and sums of squares of the columns less ``shift`` (3, d), as ``read`` sees
    a batch.
    """

    def __init__(self, shift: Array, read: Callable[[Batch], Rows]) -> None:
        self.shift, self.read = shift, read
        self.sums = np.zeros((3, len(shift)))

    def add(self, chunk: Chunk, batch: Batch) -> None:
        if len(batch):
            self.sums += column_sums(self.read(batch), self.shift)


def dense_rows(rows: Rows, positions: Indices | None = None) -> Array:
    """Rows ``D`` as numbers; -0 becomes 0."""
    where = np.arange(len(rows)) if positions is None else positions
    return np.ascontiguousarray(rows.take(where, np.zeros(rows.columns))[:, 1:] + 0.0)


def _first(rows: Rows) -> Array:
    first = rows.parts[0][:, [0]]
    return (
        np.asarray(first.toarray() if sparse.issparse(first) else first)[:, 0].astype(float) + 0.0
    )
