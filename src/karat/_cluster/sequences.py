"""Sequences of a hidden Markov model: each must lie in one partition, its rows one after the other.

A window of three steps that two partitions share would be lost without a word.  So every partition sends the names of its
sequences, and where the same name comes twice the rows are refused.  Two passes may find the sequences in other partitions;
what must agree are the rows and their places in their sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from karat._data.batch import Batch
from karat.errors import InputError
from karat.io.consumers import Consumer
from karat.io.numbers import decoded
from karat.io.row_hashes import RowHashes
from karat.io.source import Chunk

UNNAMED = ""  # the one sequence of rows that name none; names are written as Python would, so none is empty


class Sequences(Consumer):
    """The names of the sequences of a partition, in their order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.names: list[str] = []

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.add_batch(batch)

    def add_batch(self, batch: Batch) -> None:
        """Go on with the next rows of the partition."""
        if not len(batch):
            return
        found = [UNNAMED] if batch.groups is None else [_written(name) for name in _runs(batch.groups).tolist()]
        self.names += found[1:] if self.names[-1:] == found[:1] else found

    def checked(self) -> np.ndarray:
        """The names, sorted; refused if a sequence is interrupted by another."""
        names, counts = np.unique(np.array(self.names, dtype=str), return_counts=True)
        if (counts > 1).any():
            raise InputError(
                f"Partition {self.number}: sequence {names[counts > 1][0]} is interrupted by the rows of another, so windows "
                "of three steps would be lost; sort the rows of the partition by sequence and time."
            )
        return names


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
        self.rows.add(table.append_column(self.step_name, [pa.array(self.steps(labels, table.num_rows))]))

    def steps(self, labels: np.ndarray | None, count: int) -> np.ndarray:
        """The places of the next rows in their sequences."""
        place = np.arange(count)
        if not count:
            return place
        begins = np.zeros(count, dtype=bool)
        if labels is not None:
            begins = np.concatenate([[bool(labels[0] != self.last)], labels[1:] != labels[:-1]])
            self.last = labels[-1]
        found = np.asarray(place - np.maximum.accumulate(np.where(begins, place, -self.next)))
        self.next = int(found[-1]) + 1
        return found


def steps_of(labels: Any, count: int) -> np.ndarray:
    """The places of the rows of a partition in their sequences."""
    return StepHashes([], None).steps(None if labels is None else np.asarray(labels), count)


def joined_names(parts: list[np.ndarray]) -> np.ndarray:
    """The sequences of several partitions; refused if two of them have one in common."""
    names, counts = np.unique(np.concatenate([np.zeros(0, dtype=str), *parts]), return_counts=True)
    if not (counts > 1).any():
        return names
    name = names[counts > 1][0]
    if name == UNNAMED:
        raise InputError(
            "Without sequence= all rows are one sequence, and here they lie in several partitions; name the column that "
            "tells sequences apart, or put all rows into one partition."
        )
    raise InputError(
        f"Sequence {name} lies in several partitions, so windows of three steps would be lost; partition the rows such that "
        "each sequence lies in one partition."
    )


def _runs(labels: np.ndarray) -> np.ndarray:
    """The labels, once wherever they change."""
    return np.asarray(labels[np.concatenate([[True], labels[1:] != labels[:-1]])])


def _written(name: Any) -> str:
    """A name in words; 1 and 1.0 are the same, whatever type a partition has read."""
    return repr(int(name)) if isinstance(name, float) and name.is_integer() else repr(name)
