"""Consumers: what is done with the rows of a scan (:mod:`karat.io.scan`), which are read once for
all of them.

Reduce          a sketch keeps a few rows                          build
LatentSums      what the maps of a latent problem are made of      its first pass
SumMoments      the moments of all rows, beside kept ones          verify, report
CheckKeptRows   whether kept rows are at their places              verify
FindAnywhere    whether kept rows are anywhere                     verify
Hashes          hashes of all rows                                 build, verify
SampleRows      a few rows, drawn at random                        report
ColumnSums      sums and sums of squares of the columns            report
LearnLevels     levels of categories, by the classes made of it    build, regression tables
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from karat.data.batch import Batch, Table, find_offsets, stack, stacked_rows
from karat.data.labels import same_kind
from karat.data.non_finite import explain_non_finite
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.reduce import NonFiniteError
from karat.engine.rows import Rows, column_sums
from karat.engine.stream import Running
from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.row_hashes import RowHashes
from karat.io.source import Chunk
from karat.problems.latent import Latent
from karat.problems.latent.sums import Sums, add
from karat.storage.archive import Stored, flat, prefixed, unflat, without_prefix
from karat.stream.samples import Samples
from karat.stream.sketch import BUFFER_BYTES, Sketch
from karat.stream.summary import Buffer, dense_with_weights

MOST_LEVELS = 10_000  # a category with more of them is an identifier
# passes until the coordinates fit; one is enough for the data that the coreset was made from
ROUNDS = 3


class Consumer:
    """Something that is done with the rows of a scan."""

    background = False  # whether rows may be added by another thread, while the next are read

    def add(self, chunk: Chunk, batch: Batch) -> None:
        """Take the next rows: all of them as they were read, and those that count as numbers."""
        raise NotImplementedError

    def pause(self) -> None:
        """A place at which a run may be resumed: what follows must depend on :meth:`state` and
        later rows alone.
        """

    def another_pass(self) -> bool:
        """Whether the rows are needed once more, from the first on; the consumer is ready for them
        then.
        """
        return False

    def state(self) -> Stored:
        """A header for JSON and arrays from which :meth:`restore` goes on."""
        return {}, {}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Go on from a checkpoint, which also holds what others stored."""

    # On a cluster every partition has a consumer of its own (:mod:`karat.cluster.partitions`).

    def begin(self, partition: int) -> None:
        """The rows of a partition come next, and no others."""

    def add_arrays(self, arrays: dict[str, Any]) -> None:
        """Take the rows of a partition that comes as arrays."""
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        """Add what the consumer of a partition that follows has found."""
        raise NotImplementedError

    def merge_all(self, others: Sequence[Any]) -> None:
        """Add what several have found; by default one after the other."""
        for other in others:
            self.merge(other)

    def pack(self) -> bytes:
        """What travels of a consumer that has taken all of its rows."""
        return pickle.dumps(self)

    def unpack(self, message: bytes) -> Any:
        """The consumer that was packed; this one is empty and of the same kind."""
        return pickle.loads(message)


class Reduce(Consumer):
    """Keeps a few rows that carry the moments of all, in a sketch; without a layout, rows are plain
    arrays.
    """

    def __init__(self, sketch: Sketch, layout: Layout | None) -> None:
        self.sketch, self.layout = sketch, layout

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.add_batch(batch, chunk.table.num_rows)

    def add_batch(self, batch: Batch, count: int) -> None:
        """Add a batch that stands for ``count`` rows of the source."""
        if len(batch):
            targets = () if self.layout is None else self.layout.roles.targets
            columns = sum(part.shape[1] for part in batch.parts) - len(targets)
            names = range(columns) if self.layout is None else self.layout.feature_names(columns)
            self.sketch.expect(
                columns,
                len(targets),
                self._like(batch),
                [repr(name) for name in [*names, *targets]],
            )
            self.sketch.take(batch, owned=True)
        self.sketch.summary.n_rows += count

    def _like(self, batch: Batch) -> dict[str, Any]:
        """The container in which rows are given back: windows and sparse samples have no names of
        columns.
        """
        problem, dense = self.sketch.problem, not sparse.issparse(batch.parts[0])
        if self.layout is not None and (
            not problem.has_view or (problem.rows_per_sample == 1 and dense)
        ):
            return self.layout.like(batch)
        return {
            "container": "array" if dense else "sparse",
            "columns": None,
            "target": None,
            "flat": False,
        }

    def pause(self) -> None:
        self.sketch.fold()

    def state(self) -> Stored:
        return self.sketch.state()


class LatentSums(Consumer):
    """Sums what the maps of a latent-variable problem are made of.

    Attributes
    ----------
    samples : Samples
        Counts the rows, and the documents or sequences among them.
    sums : dict of arrays or None
        None before the first sample.
    """

    def __init__(
        self,
        problem: Latent,
        layout: Layout | None,
        widths: tuple[int, ...] | None,
        memory: int | None = None,
    ) -> None:
        self.problem, self.layout, self.memory = problem, layout, memory
        self.samples = Samples(problem, widths)
        self.sums: Sums | None = None

    def add(self, chunk: Chunk, batch: Batch) -> None:
        assert self.layout is not None
        names = self.layout.feature_names(sum(part.shape[1] for part in batch.parts))
        self.add_batch(batch, chunk.table.num_rows, chunk.where, names)
        pairs = (self.sums or {}).get("pairs")
        size = 0 if pairs is None else pairs.data.nbytes
        if self.memory is not None and size > self.memory // 4:
            raise InputError(
                f"Up to {chunk.where(0)} the words that occur together take {size:,} bytes, more"
                f" than a quarter of the {self.memory:,} bytes of memory; allow more, or leave rare"
                " words out."
            )

    def add_batch(
        self, batch: Batch, count: int, where: Callable[[int], str], names: list[str] | None = None
    ) -> None:
        """Add a batch that stands for ``count`` rows; ``where`` puts a row in words, as do the
        ``names`` of the columns.
        """
        found, _ = next_samples(self.samples, batch, count, where)
        if not len(found):
            return
        try:
            self.plus(self.problem.sums(found, whole=False))
        except NonFiniteError:
            columns = sum(part.shape[1] for part in batch.parts)
            error = explain_non_finite(
                batch.parts, [repr(name) for name in names or range(columns)]
            )
            raise InputError(f"Counting from {where(0)}: {error}") from None

    def plus(self, sums: Sums) -> None:
        self.sums = sums if self.sums is None else add(self.sums, sums)

    def total(self) -> Sums:
        """The sums of all samples."""
        if self.sums is None:
            raise InputError(self.problem.empty_message(self.samples.inputs, self.samples.dropped))
        return self.sums

    @property
    def notes(self) -> tuple[str, ...]:
        """What the certificate says about inputs that could not be used."""
        return self.problem.notes(self.samples.inputs, self.samples.dropped)

    def state(self) -> Stored:
        numbers, open_rows = self.samples.state()
        return {"first": numbers}, prefixed("first", open_rows) | prefixed(
            "sums", flat(self.sums or {})
        )

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.samples.restore(header["first"], without_prefix("first", arrays))
        self.sums = unflat(without_prefix("sums", arrays)) or None


def next_samples(samples: Samples, batch: Batch, count: int, where: Callable[[int], str]) -> Any:
    """``samples.take``, where an error says which rows it is about."""
    try:
        return samples.take(batch, count)
    except InputError as error:
        raise InputError(f"Counting from {where(0)}: {error}") from error


class SumMoments(Consumer):
    """Sums the moments of all rows, by group, in coordinates of the kept rows: if these are exact,
    nothing fits better.

    Parameters
    ----------
    kept : Table
        The rows of the coreset.
    rows : int
        Summed at a time.
    apart : array of bool
        Kept rows that are left out on both sides, because they are rows of the data with their own
        weights.
    together : bool
        All groups as one.
    coordinates : dict of Kernel, optional
        Given for each group, they stay as they are; by default they are fitted, in a further pass
        if need be.
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
        """Sums of nothing, in some coordinates for each group."""
        self.coordinates = coordinates
        self.strange: set[Any] = set()  # groups of the data that the coreset has not
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
        # compared about one origin
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


class CheckKeptRows(Consumer):
    """Looks whether the kept rows are rows of the data under their numbers; ``moved`` are the
    numbers of those that are not.
    """

    def __init__(self, kept: Table) -> None:
        self.kept = kept
        self.moved = set(kept.numbers.tolist())

    def add(self, chunk: Chunk, batch: Batch) -> None:
        if not len(batch):
            return
        kept = self.kept
        columns = sum(part.shape[1] for part in batch.parts) - kept.targets
        if columns != kept.columns:
            raise InputError(
                f"The coreset has {kept.columns} columns and {kept.targets} targets, the data has"
                f" {columns} and {kept.targets}."
            )
        wanted = np.arange(
            *np.searchsorted(kept.numbers, [batch.numbers[0], batch.numbers[-1] + 1])
        )
        place = np.searchsorted(batch.numbers, kept.numbers[wanted])
        there = batch.numbers[place] == kept.numbers[wanted]  # it may have been left out
        wanted, place = wanted[there], place[there]
        if len(wanted):
            found = replace(batch.take(place), offsets=kept.offsets)
            same = (dense_rows(kept.stored_rows(), wanted) == dense_rows(found.stored_rows())).all(
                axis=1
            )
            for labels, theirs in ((kept.groups, found.groups), (kept.keys, found.keys)):
                if labels is not None and theirs is not None:
                    same &= labels[wanted] == theirs
            self.moved -= set(kept.numbers[wanted[same]].tolist())


class FindAnywhere(Consumer):
    """Looks whether the kept rows are anywhere among the rows of the data; ``missing`` are those
    that are not.
    """

    def __init__(self, kept: Table) -> None:
        self.offsets = kept.offsets
        rows = dense_rows(kept.stored_rows())
        self.first, self.missing = rows[:, 0], {row.tobytes() for row in rows}

    def add(self, chunk: Chunk, batch: Batch) -> None:
        rows = replace(batch, offsets=self.offsets).stored_rows()
        # few rows share the first number of a kept one
        near = np.flatnonzero(np.isin(_first(rows), self.first))
        self.missing -= {row.tobytes() for row in dense_rows(rows, near)}


class Hashes(Consumer):
    """Hashes all rows, also those that do not count."""

    background = True

    def __init__(self, hashes: RowHashes) -> None:
        self.rows = hashes

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.rows.add(chunk.table)

    def state(self) -> Stored:
        return {"content": self.rows.to_dict()}, {}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.rows = RowHashes.from_dict(header["content"], self.rows.gaps)


class SampleRows(Consumer):
    """Draws rows at random, without replacement:

    ``rows`` are at most ``count`` of them, as ``read`` sees a batch.
    """

    def __init__(self, count: int, seed: int, read: Callable[[Batch], Rows]) -> None:
        self.draws, self.read = BottomKSample(count, seed), read
        self.rows = np.empty((0, 0))

    def add(self, chunk: Chunk, batch: Batch) -> None:
        new, stay = self.draws.more(len(batch))
        rows = self.read(batch)
        chosen = rows.take(new, np.zeros(rows.columns))[:, 1:]
        self.rows = (np.concatenate([self.rows, chosen]) if len(self.rows) else chosen)[stay]


class BottomKSample:
    """Which rows of a source of unknown length are in a uniform sample: every row draws a number,
    and the smallest stay.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.rng = count, np.random.default_rng(seed)
        self.drawn = np.empty(0)

    def more(self, rows: int) -> tuple[Indices, Any]:
        """Which of the next rows join those chosen before, and which of both together stay."""
        drawn = self.rng.random(rows)
        new = np.flatnonzero(drawn < (self.drawn.max() if len(self.drawn) == self.count else 1.0))
        self.drawn = np.concatenate([self.drawn, drawn[new]])
        if len(self.drawn) <= self.count:
            return new, slice(None)
        stay = np.sort(np.argpartition(self.drawn, self.count - 1)[: self.count])
        self.drawn = self.drawn[stay]
        return new, stay


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


class LearnLevels(Consumer):
    """Collects the levels of categories: of one-hot columns, or of the terms of a formula.

    Attributes
    ----------
    levels : dict
        By the name of the category.
    """

    levels: dict[str, set[Any]]

    def add_levels(self, what: str, name: str, column: Any, remedy: str) -> None:
        """Add the distinct values of an Arrow column."""
        try:
            self.levels[name].update(pc.unique(column).to_pylist())
        except pa.ArrowNotImplementedError:
            raise InputError(
                f"The {what} {name!r} has values of type {column.type}, which are no levels; make"
                " it text or numbers."
            ) from None
        if len(self.levels[name]) > MOST_LEVELS:
            raise InputError(
                f"The {what} {name!r} has more than {MOST_LEVELS:,} levels; {remedy}.", column=name
            )
