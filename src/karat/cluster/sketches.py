"""Coresets of partitions: each worker makes a sketch, and only a few rows are sent.

    message  a sketch: at most rank rows per group, and peeled rows; all rows of small groups
    merge    rows of groups that have grown are folded into the merged sketch
    coreset  all waiting rows are folded

A group with no more rows than features is reduced once, at the end, instead of in every partition
and at every join; that does not make messages longer.  Unless a key column identifies rows, their
keys are ``partition:offset``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from karat.cluster.latent import PartitionSums, place, views_batch
from karat.cluster.partitions import Facts, PartitionPass
from karat.core.coreset import Coreset
from karat.core.provenance import with_provenance
from karat.core.synthetic import REAL, RowChoice, check_rows_argument
from karat.data import containers
from karat.data.arguments import ColumnRoles
from karat.data.batch import Batch, joined
from karat.engine.linalg import Flags
from karat.errors import InputError, several
from karat.io.layout import Layout
from karat.io.scan import Reduce, next_samples
from karat.io.source import Chunk
from karat.problems import Problem
from karat.problems.latent import HiddenMarkov, KnownMaps, Latent
from karat.storage.archive import pack, unpack
from karat.stream.samples import Samples, finished
from karat.stream.sketch import Sketch

REAL_ROWS = RowChoice()


SHIFT = 40  # a partition and an offset in one number, while they travel


class PartitionSketch(Reduce):
    """A sketch of the rows of partitions; rows of small groups wait.

    Parameters
    ----------
    problem : Problem
        Which has been lowered.
    layout : Layout or None
        How rows are read; None where they come as arrays.
    seed : int
    choice : RowChoice
        Of synthetic rows, sums travel and nothing waits.
    """

    def __init__(
        self, problem: Problem, layout: Layout | None, seed: int, choice: RowChoice = REAL_ROWS
    ) -> None:
        self.problem, self.seed, self.partition, self.choice = problem, seed, 0, choice
        self.has_keys = layout is not None and layout.roles.key is not None
        self.samples = (
            Samples(problem.problem, problem.widths) if isinstance(problem, KnownMaps) else None
        )
        self.waiting: list[Batch] = []
        super().__init__(self._empty(), layout)

    def _empty(self) -> Sketch:
        """An empty sketch, always with keys; offsets are unique, so these need no check."""
        sketch = Sketch(self.problem, "key", **self.choice._asdict(), random_state=self.seed)
        sketch.checks_keys = self.has_keys
        return sketch

    def begin(self, partition: int) -> None:
        self.partition = partition

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self._add(batch, chunk.table.num_rows, chunk.where)

    def add_arrays(self, arrays: dict[str, Any]) -> None:
        if self.samples is not None:
            batch = views_batch(self.partition, self.samples.problem, arrays)
            self._add(batch, len(batch), place(self.partition))
            return
        X, count = arrays["x"], containers.row_count(arrays["x"])
        keys = offsets(self.partition, np.arange(count))
        try:
            self.sketch.update_keyed(X, arrays["y"], arrays["weight"], arrays["group"], keys)
        except InputError as error:
            raise InputError(f"Partition {self.partition}: {error}") from error

    def _add(self, batch: Batch, count: int, where: Callable[[int], str]) -> None:
        """Add a batch of ``count`` rows of the source; ``where`` is for error messages."""
        if self.samples is not None and count:
            batch = next_samples(self.samples, batch, count, where)[1]
        if not self.has_keys:
            batch = replace(batch, keys=offsets(self.partition, batch.numbers))
        self.add_batch(batch, count)

    def pack(self) -> bytes:
        if self.choice.rows == REAL:
            self.sketch, small = _set_aside(self.sketch, self._empty)
            self.waiting += small
        return pickle.dumps((pack(*self.sketch.state()), self.waiting))

    def unpack(self, message: bytes) -> PartitionSketch:
        other = PartitionSketch(self.problem, self.layout, self.seed, self.choice)
        packed, other.waiting = pickle.loads(message)
        other.sketch = Sketch.restore(
            *unpack(packed, "The message", "a sketch"), "The message", self.problem
        )
        return other

    def merge_all(self, others: Sequence[Any]) -> None:
        parts, merged, waiting, before = (self, *others), self._empty(), [], 0
        for part in parts:
            seen = part.sketch.summary
            if seen.like is not None:
                merged.expect(seen.columns, seen.targets, seen.like, seen.names)
            waiting += [replace(batch, numbers=batch.numbers + before) for batch in part.waiting]
            before += part.sketch.n_rows
        merged.merge(*(part.sketch for part in parts))
        self.sketch, self.waiting = merged, _compact(_take_large(merged, _compact(waiting)))

    def coreset(self) -> Coreset:
        """Of all rows, also those that wait."""
        for batch in self.waiting:
            self.sketch.take(batch, owned=True)
        core = self.sketch.coreset()
        if self.has_keys or core.keys is None:
            return core
        return replace(
            core, keys=np.array([f"{k >> SHIFT}:{k % 2**SHIFT}" for k in core.keys.tolist()])
        )


class FirstPass(NamedTuple):
    """The result of the first of two passes: the problem with maps, notes on the samples, and facts
    about the rows.
    """

    problem: Problem
    notes: tuple[str, ...]
    facts: Facts


def two_passes(
    run: Callable[[PartitionPass], Sequence[bytes]], problem: Latent, layout: Layout | None,
    widths: tuple[int, ...] | None, seed: int, name: str,
) -> Coreset:  # fmt: skip
    """The coreset of a latent-variable problem; ``run`` gives the messages of a pass over the
    partitions.
    """
    ordered, hashed = (
        isinstance(problem, HiddenMarkov),
        () if layout is None else tuple(layout.columns),
    )
    work = PartitionPass(layout, partial(PartitionSums, problem, layout, widths), hashed, ordered)
    sums, facts = work.merged(run(work))
    if facts.content is None:
        raise InputError(
            "Some chunks are sparse and others are not, or their columns differ; convert all chunks"
            " to the same kind."
        )
    first = FirstPass(problem.with_maps(sums.total(), widths), sums.notes, facts)
    work = last_pass(first.problem, layout, seed)
    return finish(work, run(work), name, first)


def last_pass(
    problem: Problem, layout: Layout | None, seed: int, choice: RowChoice = REAL_ROWS
) -> PartitionPass:
    """The pass that keeps rows, or makes them; ``problem`` has been lowered."""
    check_rows_argument(choice.rows, problem, "auto", choice.verbatim)
    ordered = isinstance(problem, KnownMaps) and isinstance(problem.problem, HiddenMarkov)
    hashed = () if layout is None else tuple(layout.columns)
    return PartitionPass(
        layout, partial(PartitionSketch, problem, layout, int(seed), choice), hashed, ordered
    )


def finish(
    work: PartitionPass, messages: Sequence[bytes], name: str, first: FirstPass | None = None,
    check: Callable[[Facts], None] | None = None,
) -> Coreset:  # fmt: skip
    """The coreset, from the messages of :func:`last_pass`; ``name`` is that of the cluster, and
    ``check`` is called with facts about the rows.
    """
    sketch, facts = work.merged(messages)
    if check is not None:
        check(facts)
    if first is not None and not facts.same_rows(first.facts):
        raise InputError(
            "The second pass read other rows than the first, or read them in another order:"
            f" {several(first.facts.rows, 'row')} in the first pass. Write the source to files, or"
            " persist it, so that both passes read the same rows."
        )
    core: Coreset = sketch.coreset()
    sent = facts.sent + (0 if first is None else first.facts.sent)
    parts = several(facts.partitions, "partition")
    notes = [*core.certificate.notes, f"{parts} sent {sent:,} bytes."]
    method = f"{core.certificate.method}, partitions merged by {name}"
    core = replace(core, certificate=replace(core.certificate, method=method, notes=tuple(notes)))
    if first is not None:
        core = finished(core, first.facts.rows, first.notes)
    layout = Layout(ColumnRoles()) if work.layout is None else work.layout
    source: dict[str, Any] = {"given": [], "files": []}
    dropped = {"missing": facts.missing, "broken": 0}
    return with_provenance(
        core, layout.provenance(core.problem, sketch.seed, source, dropped, facts.content)
    )


def offsets(number: int, rows: np.ndarray) -> np.ndarray:
    """The keys of rows of a partition, by their numbers in it."""
    return (number << SHIFT) + rows


def _set_aside(sketch: Sketch, empty: Callable[[], Sketch]) -> tuple[Sketch, list[Batch]]:
    """A sketch of the rows of large groups, and the rows of small ones; ``empty`` makes a new
    sketch.

    A sketch that has already folded rows is returned unchanged.
    """
    summary = sketch.summary
    if summary.held is not None or not sketch.buffer.batches:
        return sketch, []
    batches = [replace(batch, offsets=None) for batch in sketch.buffer.batches]
    small, large = _divided(batches, summary.kernel.width, ())
    if not small:
        return sketch, []
    rest = empty()
    assert summary.like is not None
    rest.expect(summary.columns, summary.targets, summary.like, summary.names)
    for batch in large:
        rest.take(batch, owned=True)
    rest.summary.n_rows, rest.summary.seconds = summary.n_rows, summary.seconds
    return rest, small


def _take_large(sketch: Sketch, waiting: Sequence[Batch]) -> list[Batch]:
    """Add rows of large groups, or of groups that the sketch holds, to it; return the others."""
    if not waiting:
        return []
    small, large = _divided(waiting, sketch.summary.kernel.width, list(sketch.summary.running))
    for batch in large:
        sketch.take(batch, owned=True)
    return small


def _compact(waiting: Sequence[Batch]) -> list[Batch]:
    """The same rows in few batches: those of equal types become one."""
    if not waiting:
        return []
    ends = [
        i
        for i, (a, b) in enumerate(pairwise(waiting), start=1)
        if _block_types(a) != _block_types(b)
    ]
    return [joined(waiting[a:b]) for a, b in pairwise([0, *ends, len(waiting)])]


def _divided(
    waiting: Sequence[Batch], most: int, apart: Sequence[Any]
) -> tuple[list[Batch], list[Batch]]:
    """The rows of groups with at most ``most`` rows and not ``apart``, and the others."""
    if waiting[0].groups is None:
        return (
            (list(waiting), [])
            if sum(map(len, waiting)) <= most and not apart
            else ([], list(waiting))
        )
    labels, inverse, counts = np.unique(
        np.concatenate([batch.groups for batch in waiting]), return_inverse=True, return_counts=True
    )
    few = (counts <= most) & ~np.isin(labels, np.array(apart, dtype=labels.dtype), kind="sort")
    chosen = few[inverse.ravel()]
    small, large, start = [], [], 0
    for batch in waiting:
        here: Flags = chosen[start : start + len(batch)]
        start += len(batch)
        if here.any():
            small.append(batch.take(here))
        if not here.all():
            large.append(batch.take(~here))
    return small, large


def _block_types(batch: Batch) -> list[Any]:
    carried = [
        None if value is None else value.dtype.kind
        for value in (batch.weights, batch.groups, batch.keys)
    ]
    return [*((part.shape[1], part.dtype, sparse.issparse(part)) for part in batch.parts), *carried]
