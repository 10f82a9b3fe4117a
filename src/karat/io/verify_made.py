"""verify_files for synthetic rows: the second moments of the data, summed afresh, against those of
made rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from karat.core.coreset import Coreset
from karat.core.synthetic import readable_by_doubles
from karat.core.verify import shared_groups
from karat.core.verify_synthetic import as_bytes, measured_by_moments
from karat.data.batch import Batch, Table, find_offsets, stacked_rows
from karat.data.labels import same_kind
from karat.data.non_finite import explain_non_finite
from karat.engine.moment_stream import MomentStream
from karat.engine.reduce import NonFiniteError, Reduction
from karat.engine.rows import Rows, own_weights
from karat.engine.synthetic import VERBATIM
from karat.errors import InputError
from karat.io.consumers import Consumer, dense_rows
from karat.io.source import Chunk
from karat.stream.sketch import BUFFER_BYTES
from karat.stream.summary import Buffer


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
        self, rows: Rows, some: np.ndarray, groups: np.ndarray | None
    ) -> list[tuple[Any, bytes]]:
        """Some rows, by their groups and bytes."""
        labels = [None] * len(some) if groups is None else groups[some].tolist()
        return list(
            zip(labels, as_bytes(dense_rows(rows, some), own_weights(rows, some)), strict=True)
        )

    def add(self, chunk: Chunk, batch: Batch) -> None:
        if batch.weights is not None and not batch.weights.all():
            batch = batch.take(batch.weights > 0)
        if not len(batch):
            return
        kept = self.kept
        columns = sum(part.shape[1] for part in batch.parts) - kept.targets
        if columns != kept.columns:
            raise InputError(
                f"The coreset has {kept.columns} columns and {kept.targets} targets, the data has"
                f" {columns} and {kept.targets}."
            )
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
        found = [self._measured_group(label, passes) for label in labels]
        total = sum(stream.total for stream in self.streams.values())
        total += float(self.core.weights[self.strata == VERBATIM].sum())
        if any(self.missing.values()):
            refutations.append("Rows that are kept as they are, are not rows of this data.")
        return found, total, refutations

    def _measured_group(self, label: Any, passes: int) -> Reduction:
        index = self.kept.index(label)
        strata = self.strata if index is None else self.strata[index]
        return measured_by_moments(
            self.core, self.streams[label], self.kept.rows(label), strata, passes
        )
