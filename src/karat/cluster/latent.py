"""Latent-variable problems on a cluster: sums where the rows lie, added in a tree; and sequences,
which must not be split.

first pass     message = the sums of a partition               # a few matrices
lowered        where the last sums meet; sent to every worker
second pass    as for every other problem (:mod:`karat.cluster.sketches`)

Each sequence of a hidden Markov model must lie in one partition, with its rows in order: a window
of three steps across two partitions would be lost silently.  So every partition sends the names of
its sequences, and a repeated name is an error.  Two passes may find the sequences in different
partitions; only the rows and their places in the sequences must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from karat.core.construct import check_equal_rows
from karat.data import containers
from karat.data.batch import Batch, check_weights, read_input
from karat.data.labels import check_groups
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.row_hashes import RowHashes
from karat.io.scan import Consumer, LatentSums
from karat.io.source import Chunk, decoded
from karat.problems import Problem
from karat.problems.latent import HiddenMarkov, Latent

COUNTS = ("rows", "inputs", "dropped")


VIEW = "view"  # the prefix of the names of the tables of latent-variable problems


# the one sequence of rows that name none; names are written as Python would, so none is empty
UNNAMED = ""


def place(number: int) -> Callable[[int], str]:
    """Rows of a partition, for error messages."""
    return lambda row: f"Partition {number}, row {row:,}"


def views_batch(number: int, problem: Problem, arrays: dict[str, Any]) -> Batch:
    """The checked rows of a partition of a latent-variable problem."""
    views = [array for name, array in arrays.items() if name.startswith(VIEW)]
    weights, sequence = arrays["weight"], arrays["sequence"]
    count = containers.row_count(views[0])
    if not count:
        return Batch([], np.zeros(0, dtype=np.int64))
    try:
        parts = [read_input(view, None, problem, None, None).parts[0] for view in views]
        check_equal_rows([int(part.shape[0]) for part in parts])
        checked_weights = None if weights is None else _weights(weights, count)
        labels = None if sequence is None else check_groups(sequence, count)
    except InputError as error:
        raise InputError(
            f"Partition {number}: {str(error).replace('groups', 'sequence')}"
        ) from error
    for part in parts:
        _refuse_non_finite(part, place(number))
    return Batch(parts, np.arange(count), checked_weights, labels)


def _weights(weights: Any, count: int) -> Array | None:
    """Checked weights; unlike those of all rows, those of a partition may all be zero."""
    table = containers.as_table(weights, "sample_weight")
    return (
        np.zeros(count)
        if table.shape == (count, 1) and not table.any()
        else check_weights(weights, count)
    )


def _refuse_non_finite(part: Any, where: Callable[[int], str]) -> None:
    values = part.data if sparse.issparse(part) else part
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if sparse.issparse(part):
        entry = int(np.flatnonzero(~np.isfinite(values))[0])
        row, column = (
            int(np.searchsorted(part.indptr, entry, side="right")) - 1,
            int(part.indices[entry]),
        )
    else:
        row, column = map(int, np.argwhere(~np.isfinite(values))[0])
    raise InputError(f"{where(row)}: column {column} is not finite; drop or fix the row.")


class PartitionSums(LatentSums):
    """The sums of a partition, and the names of its sequences if the order of rows matters."""

    def __init__(
        self, problem: Latent, layout: Layout | None, widths: tuple[int, ...] | None
    ) -> None:
        super().__init__(problem, layout, widths)
        self.partition = 0
        self.names: list[str] = []  # of the sequences, in their order

    def begin(self, partition: int) -> None:
        self.partition = partition

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self._note_sequences(batch)
        super().add(chunk, batch)

    def add_arrays(self, arrays: dict[str, Any]) -> None:
        batch = views_batch(self.partition, self.problem, arrays)
        if len(batch):
            self._note_sequences(batch)
            self.add_batch(batch, len(batch), place(self.partition))

    def _note_sequences(self, batch: Batch) -> None:
        """Add the names of sequences, one for each run of rows."""
        if isinstance(self.problem, HiddenMarkov) and len(batch):
            names = (
                [UNNAMED]
                if batch.groups is None
                else [_written(name) for name in _runs(batch.groups).tolist()]
            )
            self.names += names[1:] if self.names[-1:] == names[:1] else names

    def pack(self) -> bytes:
        repeated = _repeated(self.names)
        if repeated is not None:
            raise InputError(
                f"Partition {self.partition}: sequence {repeated} is interrupted by the rows of"
                " another, so windows of three steps would be lost; sort the rows of the partition"
                " by sequence and time."
            )
        return super().pack()

    def merge(self, other: PartitionSums) -> None:
        if other.sums is not None:
            self.plus(other.sums)
        for name in COUNTS:
            setattr(self.samples, name, getattr(self.samples, name) + getattr(other.samples, name))
        self.names += other.names
        repeated = _repeated(self.names)
        if repeated == UNNAMED:
            raise InputError(
                "Without sequence= all rows are one sequence, and here they lie in several"
                " partitions; name the column that tells sequences apart, or put all rows into one"
                " partition."
            )
        if repeated is not None:
            raise InputError(
                f"Sequence {repeated} lies in several partitions, so windows of three steps would"
                " be lost; partition the rows such that each sequence lies in one partition."
            )


class StepHashes(Consumer):
    """Hashes of the rows of a partition, each with its place in its sequence."""

    background = True

    def __init__(self, columns: Sequence[str], sequence: str | None) -> None:
        self.columns, self.sequence = list(columns), sequence
        self.step_name = "/".join(["step", *self.columns])  # a name that no column has
        self.rows = RowHashes([*self.columns, self.step_name])
        self.last: Any = None
        self.next = 0

    def add(self, chunk: Chunk, batch: Batch) -> None:
        table = pa.table({name: chunk.table.column(name) for name in self.columns})
        labels = None if self.sequence is None else decoded(table.column(self.sequence)).to_numpy()
        self.rows.add(
            table.append_column(self.step_name, [pa.array(self.steps(labels, table.num_rows))])
        )

    def steps(self, labels: np.ndarray | None, count: int) -> np.ndarray:
        """The places of the next rows in their sequences."""
        place = np.arange(count)
        if not count:
            return place
        begins = np.zeros(count, dtype=bool)
        if labels is not None:
            begins = np.concatenate([[bool(labels[0] != self.last)], labels[1:] != labels[:-1]])
            self.last = labels[-1]
        steps = np.asarray(place - np.maximum.accumulate(np.where(begins, place, -self.next)))
        self.next = int(steps[-1]) + 1
        return steps


def steps_of(labels: Any, count: int) -> np.ndarray:
    """The places of the rows of a partition in their sequences."""
    return StepHashes([], None).steps(None if labels is None else np.asarray(labels), count)


def _repeated(names: Sequence[str]) -> str | None:
    """The first repeated name, in sorted order; None if all names differ."""
    distinct, counts = np.unique(np.array(names, dtype=str), return_counts=True)
    return str(distinct[counts > 1][0]) if (counts > 1).any() else None


def _runs(labels: np.ndarray) -> np.ndarray:
    """The label of each run of equal labels."""
    return np.asarray(labels[np.concatenate([[True], labels[1:] != labels[:-1]])])


def _written(name: Any) -> str:
    """A name as text; 1 and 1.0 are the same, because partitions may read different types."""
    return repr(int(name)) if isinstance(name, float) and name.is_integer() else repr(name)
