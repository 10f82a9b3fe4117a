"""Sketch: a running summary of a stream of rows, exact at any moment.

    sketch.update(batch)  adds rows to a buffer; a full buffer is folded into the few rows held
                          (engine/stream.py)
    sketch.merge(other)   folds in the rows that another sketch holds, like a batch with weights
    sketch.coreset()      folds the buffer, and returns the held rows with a certificate

A sketch holds at most rank rows per group and the peeled ones, the running moments
(:class:`~karat.stream.summary.Summary`), and the buffer.  Its memory does not grow with the stream.
Threads may share a sketch: each call holds its lock from beginning to end.  Files and clusters,
whose rows are checked and numbered already, use ``expect``, ``take``, ``fold``, ``state`` and
``restore``.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

import numpy as np

from karat.core.coreset import Coreset
from karat.core.synthetic import KEEP, REAL, SYNTHETIC, RowKind, Verbatim, check_rows_argument
from karat.data import containers
from karat.data.advice import unknown_argument
from karat.data.arguments import (
    check_absorbing,
    check_mergeable,
    chosen_problem,
    named_columns,
    split_column,
)
from karat.data.batch import RESCALE, Batch, find_offsets, read_input
from karat.data.labels import same_kind
from karat.engine.parts import SideBySide
from karat.errors import InputError, check_integer, several
from karat.problems import Problem
from karat.storage.archive import Stored, read_archive, write_archive
from karat.stream.made import MadeSummary
from karat.stream.merge import Fingerprint, merge_sketches, merged_sources
from karat.stream.state import restored, state_of, validate_schema
from karat.stream.summary import Buffer, Summary, adds_nothing, coreset_of, is_summable

# A fold costs as much as summing tens of thousands of rows, so the buffer is large.
BUFFER_ROWS = 2**19
BUFFER_BYTES = 2**28
AT_ONCE = 2**23  # bytes of a batch on a device from which on its sums are made there
LARGEST, LARGEST_ABSORBED = 1e220, 1e150  # weights of rows, which are at least the inverse of that


class Sketch:
    """A running summary of rows: update, merge, coreset.

    Threads may share a sketch, but calls run one after the other.  It is faster to give each thread
    a sketch of its own and merge them at the end.

    Parameters
    ----------
    problem : Problem, optional
        What must not change; by default :class:`~karat.problems.LeastSquares` if the first rows
        have a target, else ``Moments(2)``.  Latent models raise an error, because their features
        depend on the full data.
    key : str or int, optional
        A column of X that identifies rows across sources; it is not a feature.  ``core.keys`` has
        the keys of the kept rows.
    rows, verbatim : str
        As in :func:`karat.coreset`.  With ``rows="synthetic"`` the sketch and its checkpoints hold
        sums instead of rows.
    random_state : int
        Seed for the choice of rows; the result is exact for every seed.
    buffer_rows, buffer_bytes : int
        Size of the buffer, which is folded when it is full.

    Examples
    --------
    >>> import numpy as np, karat
    >>> rng = np.random.default_rng(0)
    >>> sketch = karat.Sketch()
    >>> for _ in range(20):
    ...     X = rng.standard_normal((500, 3))
    ...     sketch = sketch.update(X, X.sum(axis=1) + rng.standard_normal(500))
    >>> core = sketch.coreset()
    >>> len(core), core.n_rows, core.certificate.ok
    (15, 10000, True)
    """

    def __init__(
        self,
        problem: Problem | None = None,
        key: str | int | None = None,
        *,
        rows: RowKind = "real",
        verbatim: Verbatim = "keep",
        random_state: int = 0,
        buffer_rows: int = BUFFER_ROWS,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        # the first rows decide between least squares and moments; until then, it is least squares
        self.is_open = problem is None
        problem = check_mergeable(chosen_problem(problem, with_target=True))
        if rows != REAL or verbatim != KEEP:
            check_rows_argument(rows, problem, "auto", verbatim)
        self.rows, self.verbatim = rows, verbatim
        for name, value, least in (
            ("random_state", random_state, 0), ("buffer_rows", buffer_rows, 1),
            ("buffer_bytes", buffer_bytes, 1)
        ):  # fmt: skip
            check_integer(name, value, least)
        self.problem, self.key = problem, key
        self.random_state, self.buffer_rows, self.buffer_bytes = (
            int(random_state),
            int(buffer_rows),
            int(buffer_bytes),
        )
        self.checks_keys = True  # a key that comes twice is an error
        self.summary: Summary = MadeSummary(problem) if rows == SYNTHETIC else Summary(problem)
        self.buffer = Buffer(self.buffer_rows, self.buffer_bytes)
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: everything but the lock."""
        with self._lock:
            if self.rows == SYNTHETIC:  # whose state must hold no rows, so the buffer is emptied
                self.fold()
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    @property
    def n_rows(self) -> int:
        """Rows seen."""
        return self.summary.n_rows

    def update(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        **unknown: Never,
    ) -> Sketch:
        """Add rows; their numbers continue those of earlier rows.

        Parameters
        ----------
        X, y, sample_weight, groups
            As in :func:`karat.coreset`, also names of columns.  Every batch must have the same
            columns, and groups if the first batch has.
        **unknown
            Raises an error that suggests the argument you probably meant.
        """
        if unknown:
            raise unknown_argument(Sketch.update, unknown)
        X, y, sample_weight, groups, _ = named_columns(X, y, sample_weight, groups)
        keys = None
        if self.key is not None:
            X, keys = split_column(X, self.key)
        return self.update_keyed(X, y, sample_weight, groups, keys)

    def update_keyed(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, keys: np.ndarray | None
    ) -> Sketch:
        """:meth:`update` with the keys of the rows beside X."""
        start = time.perf_counter()
        X, y = containers.collected(X), containers.collected(y)
        with self._lock:
            if adds_nothing(X, sample_weight):  # rows of weight zero are still numbered
                self.summary.n_rows += containers.row_count(X)
                return self
            if self.is_open:
                self.problem = self.summary.problem = chosen_problem(None, y is not None)
            table = read_input(
                X, y, self.problem, sample_weight, groups, offsets=self.summary.offsets
            )
            if not is_summable(table, self.summary, self.buffer.batches):
                raise table.explain_non_finite()
            self.expect(table.columns, table.targets, containers.describe(X, y), table.names)
            numbers = np.arange(self.n_rows, self.n_rows + len(table))
            weights = None if table.weights is None else table.weights * table.unit
            self.take(
                Batch(table.parts, numbers, weights, table.groups, keys, table.offsets), owned=False
            )
            self.is_open = False  # only now: rows that raised an error must not decide
            self.summary.n_rows += len(table)
            self.summary.seconds += time.perf_counter() - start
            return self

    def expect(self, columns: int, targets: int, like: dict[str, Any], names: list[str]) -> None:
        """Declare the columns of the next batch; see ``Summary.expect``."""
        self.summary.expect(columns, targets, like, names)

    def take(self, batch: Batch, *, owned: bool, seen: Fingerprint | None = None) -> None:
        """Add checked rows to the buffer, and fold it when it is full.

        Parameters
        ----------
        batch : Batch
        owned : bool
            Nobody else changes its arrays, so they are not copied.
        seen : Fingerprint, optional
            The keys of all rows that these represent, if there are more than their own keys.
        """
        with self._lock:
            check_absorbing(self.problem, batch.groups, self.summary.targets)
            before = self._before
            if before is not None and (before.groups is None) != (batch.groups is None):
                raise InputError(
                    "Pass groups with every batch or with none: some batches have groups, others"
                    " have none."
                )
            if before is not None and before.groups is not None and batch.groups is not None:
                same_kind(before.groups, batch.groups)
            if before is not None and before.keys is not None and batch.keys is not None:
                same_kind(before.keys, batch.keys, "keys")
            fingerprint = self.summary.fingerprint
            if batch.keys is not None and self.checks_keys:
                seen = seen or Fingerprint.of(batch.keys)
                seen = seen.nameless() if self.rows == SYNTHETIC else seen
                fingerprint = seen if fingerprint is None else fingerprint.plus(seen)
            if batch.weights is not None and not batch.weights.all():
                batch = batch.take(batch.weights > 0)
            if batch.weights is not None and len(batch):
                _check_sizes(
                    batch.weights, LARGEST if self.problem.absorb is None else LARGEST_ABSORBED
                )
            batch = self._lowered(batch) if len(batch) else batch
            self.summary.fingerprint = fingerprint  # no error is raised from here on
            if len(batch):
                self._wait(batch, owned)

    def _wait(self, batch: Batch, owned: bool) -> None:
        """Add rows to the buffer, in blocks, and fold it when it is full.

        Many rows on a device are folded where they are, without a buffer.
        """
        summary, most = self.summary, self.buffer.most_rows
        summary.taken += len(batch)
        summary.mass += float(len(batch)) if batch.weights is None else float(batch.weights.sum())
        if batch.stored_rows().on_device and batch.nbytes >= AT_ONCE:
            self.fold()
            summary.fold([batch], self.random_state)
            return
        for start in range(0, len(batch), most):
            block = batch if len(batch) <= most else batch.take(slice(start, start + most))
            # fold early rather than let the batch wait in a second array: one is read faster
            if not owned and self.buffer.rows + len(block) > most:
                self.fold()
            self.buffer.add(block, owned)
            if self.buffer.full:
                self.fold()

    @property
    def _before(self) -> Batch | None:
        """Earlier rows, if there are any."""
        return self.buffer.batches[0] if self.buffer.batches else self.summary.held

    def _lowered(self, batch: Batch) -> Batch:
        """The batch with offsets for integers too large for doubles; the first rows decide them."""
        summary, before = self.summary, self._before
        if batch.offsets is None or batch.offsets != summary.offsets:
            batch = replace(
                batch,
                offsets=find_offsets(batch.parts, summary.names, self.problem, summary.offsets),
            )
        if batch.offsets and before is not None and _part_types(batch) != _part_types(before):
            column = summary.names[min(batch.offsets)]
            raise InputError(
                f"Give every batch the types of the first: column {column} holds integers beyond"
                " 2^53."
            )
        if batch.offsets and isinstance(summary.split(batch.take(slice(0, 1)))[1], SideBySide):
            raise InputError(
                "Give the targets one type: they mix integers beyond 2^53 with other types."
            )
        if self.rows == SYNTHETIC and batch.offsets:  # made rows are stored as doubles
            batch = replace(
                batch,
                offsets={column: int(float(offset)) for column, offset in batch.offsets.items()},
            )
        summary.offsets = batch.offsets
        return batch

    def fold(self) -> None:
        """Reduce the rows in the buffer together with those held."""
        with self._lock:
            if self.buffer.batches:
                self.summary.fold(self.buffer.gathered(), self.random_state)
                self.buffer.clear()

    def merge(self, *others: Sketch) -> Sketch:
        """Add the rows that other sketches have seen; their numbers continue those of this one.

        To merge a source twice is an error.  Each sketch remembers the sketches that were merged
        into it, and with a key column a sample of the keys.
        """
        start = time.perf_counter()
        for other in others:
            if not isinstance(other, Sketch):
                raise InputError(f"merge takes another Sketch, not {type(other).__name__}.")
        with ExitStack() as locks:
            # all threads lock in one order, or two that merge each other's sketch would deadlock
            for sketch in sorted({self, *others}, key=id):
                locks.enter_context(sketch._lock)
            sources = merged_sources(self, others)
            self.fold()
            before = self.summary.copied()
            try:
                merge_sketches(self, others)
            except BaseException:  # all or nothing
                self.summary = before
                self.buffer.clear()
                raise
            self.summary.sources = sources
            self.is_open = self.is_open and all(other.is_open for other in others)
            self.summary.seconds += time.perf_counter() - start
        return self

    def coreset(self) -> Coreset:
        """The coreset of all rows so far; you can add rows afterwards."""
        start = time.perf_counter()
        with self._lock:
            self.fold()
            self.summary.seconds += time.perf_counter() - start
            if isinstance(self.summary, MadeSummary):
                return self.summary.coreset(self.verbatim)
            return coreset_of(self.summary, self.random_state)

    def state(self, extra: dict[str, Any] | None = None) -> Stored:
        """A header for JSON and arrays, from which :meth:`restore` makes the sketch again."""
        with self._lock:
            self.fold()
            return state_of(self, extra)

    @staticmethod
    def restore(
        header: dict[str, Any], arrays: dict[str, Any], name: str, problem: Problem | None = None
    ) -> Sketch:
        """The sketch of :meth:`state`; ``name`` is what an error message calls it."""
        return restored(Sketch, header, arrays, name, problem)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint to an ``.npz`` file (arrays and JSON, no pickle), atomically."""
        write_archive(Path(path), *self.state(), "a checkpoint", validate_schema)

    @staticmethod
    def load(path: str | Path, problem: Problem | None = None) -> Sketch:
        """Read a checkpoint; later results have the same bits as those of the saved sketch.

        Parameters
        ----------
        path : path
        problem : Problem, optional
            Needed where the problem holds a user's function, which is not saved.
        """
        return Sketch.restore(
            *read_archive(Path(path), "a checkpoint", validate_schema), str(path), problem
        )

    def __repr__(self) -> str:
        held = f"{0 if self.summary.held is None else len(self.summary.held):,} held"
        problem = "no problem yet" if self.is_open else self.problem.describe()
        if self.rows == SYNTHETIC:
            held = "sums held"
        seen = several(self.n_rows, "row")
        return f"Sketch({problem}, {seen} seen, {held}, {self.buffer.rows:,} waiting)"


def _check_sizes(weights: np.ndarray, largest: float) -> None:
    """Raise if sums of weights times features might overflow as more batches come in."""
    low, high = float(weights.min()), float(weights.max())
    if not (1 / largest <= low and high <= largest):
        worst = low if low < 1 / largest else high
        raise InputError(
            f"A weight is {worst:.1e}; a stream takes weights from {1 / largest:.0e} to"
            f" {largest:.0e}. {RESCALE}",
            argument="sample_weight",
        )


def _part_types(batch: Batch) -> list[Any]:
    return [(part.shape[1], part.dtype) for part in batch.parts]
