"""Sketch: a running summary of a stream of rows, exact at any moment.

    sketch.update(batch)     rows wait in a buffer; when it is full they are folded into the few rows held (engine/stream.py)
    sketch.merge(other)      the rows that another sketch holds are folded in like a batch with weights
    sketch.coreset()         folds what waits, and returns the held rows with a certificate

The state is at most rank rows per group and the peeled ones, the running moments, and the buffer: bounded, however long the
stream.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from karat._core.certify import OLDER, PROOF_VERSION, certify, require_proven
from karat._core.construct import NOTHING_ABSORBED
from karat._core.coreset import Coreset
from karat._data import containers, frames
from karat._data.batch import Buffer, Piece, stack, stacked_rows
from karat._data.checks import Table, check_problem, read_input
from karat._data.groups import same_kind
from karat._data.offsets import find_offsets
from karat._stream.fingerprint import Fingerprint
from karat.engine.linalg import Array
from karat.engine.reduce import NonFiniteError, Reduction
from karat.engine.rows import Offsets, Rows, own_weights
from karat.engine.stream import NO_CLAIM, Running, fold, grown, larger, prove_held
from karat.errors import InputError, NotExactError, check_whole
from karat.problems import Problem

BUFFER_ROWS = 2**19  # folding costs as much as summing some ten thousand rows, so it should not happen often
BUFFER_BYTES = 2**28
HARMLESS = 1e30  # sum of squares of a batch, in its own precision, beyond which its moments are looked at


class Sketch:
    """A running summary of rows: update, merge, coreset.

    Parameters
    ----------
    problem : Problem
        What must not change.  Problems whose features depend on the full data (latent models) are refused.
    key : str or int, optional
        A column of X that identifies rows across sources; it is not a feature.  Kept rows carry it as ``core.keys``.
    random_state : int
        The choice of rows depends on it, the exactness does not.
    buffer_rows, buffer_bytes : int
        Rows wait until there are this many, or they fill this much memory.

    Examples
    --------
    >>> import numpy as np, karat
    >>> rng = np.random.default_rng(0)
    >>> sketch = karat.Sketch(karat.problems.LeastSquares())
    >>> for _ in range(20):
    ...     X = rng.standard_normal((500, 3))
    ...     sketch = sketch.update(X, X.sum(axis=1) + rng.standard_normal(500))
    >>> core = sketch.coreset()
    >>> len(core), core.n_rows, core.certificate.ok
    (15, 10000, True)
    """

    def __init__(
        self,
        problem: Problem,
        key: str | int | None = None,
        *,
        random_state: int = 0,
        buffer_rows: int = BUFFER_ROWS,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        check_problem(problem)
        if not problem.mergeable:
            raise NotExactError(
                f"A sketch of {problem.describe()} cannot be exact: its features depend on the full data. Build it in two "
                "passes over all rows, karat.coreset(X, problem=...), or karat.coreset_files(source, problem=...)."
            )
        for name, value, least in (
            ("random_state", random_state, 0), ("buffer_rows", buffer_rows, 1), ("buffer_bytes", buffer_bytes, 1)
        ):  # fmt: skip
            check_whole(name, value, least)
        self.problem, self.key = problem, key
        self.n_rows = 0
        self.random_state, self.buffer_rows, self.buffer_bytes = int(random_state), int(buffer_rows), int(buffer_bytes)
        self._sources = {uuid.uuid4().hex}
        self._watches_keys = True
        self._fingerprint: Fingerprint | None = None
        self._like: dict[str, Any] | None = None
        self._names: list[str] = []
        self._columns = self._targets = 0
        self._offsets: Offsets | None = None  # chosen for the first rows
        self._held: Piece | None = None
        self._peeled = np.zeros(0, dtype=bool)  # which of the held rows dominate a moment and are left out of the running sums
        self._proof_version = PROOF_VERSION  # of the rows held
        self._buffer = Buffer(self.buffer_rows, self.buffer_bytes)
        self._pending: list[Piece] = []
        self._waiting = (0, 0)  # rows and bytes of the pending pieces
        self._running: dict[Any, Running] = {}
        self._reductions: dict[Any, Reduction] = {}
        self._folds = 0
        self._seconds = 0.0

    def update(self, X: Any, y: Any = None, *, sample_weight: Any = None, groups: Any = None) -> Sketch:
        """Add rows; they are numbered on from those before.

        Parameters
        ----------
        X, y, sample_weight, groups
            As in :func:`karat.coreset`; every batch must have the same columns, and groups if the first had.
        """
        keys = None
        if self.key is not None:
            X, keys = frames.split_column(X, self.key)
        return self._update(X, y, sample_weight, groups, keys)

    def _update(self, X: Any, y: Any, sample_weight: Any, groups: Any, keys: np.ndarray | None) -> Sketch:
        start = time.perf_counter()
        X, y = containers.collected(X), containers.collected(y)
        if _adds_nothing(X, sample_weight):  # but the rows have numbers
            self.n_rows += containers.row_count(X)
            return self
        table = read_input(X, y, self.problem, sample_weight, groups, offsets=self._offsets)
        if not all(_harmless(part) for part in (table.X, table.y) if part is not None) and not self._summable(table):
            raise table.explain_non_finite()
        self._expect(table.columns, table.targets, frames.describe(X, y), table.names)
        numbers = np.arange(self.n_rows, self.n_rows + table.count)
        weights = None if table.weights is None else table.weights * table.unit
        self._take(Piece(table.parts, numbers, weights, table.groups, keys, table.offsets), owned=False)
        self.n_rows += table.count
        self._seconds += time.perf_counter() - start
        return self

    def _summable(self, table: Table) -> bool:
        """Whether the moments of a batch are finite in the coordinates of the rows before it.

        One whose moments overflow is refused before it waits among others.
        """
        block, weights = weighed(table.rows())
        if not np.isfinite(block).all():
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            if self._running:
                fitted = next(iter(self._running.values())).kernel
            else:
                kernel = self.problem.kernel(table.columns, table.targets)
                fitted = Running.fit(kernel, *(weighed(self._pending[0].rows()) if self._pending else (block, weights)))
            sums = fitted.statistic(block - np.concatenate([[0.0], fitted.shift]), weights)
        return all(np.isfinite(part).all() for part in sums)

    def _expect(self, columns: int, targets: int, like: dict[str, Any], names: list[str]) -> None:
        """The first batch says what rows look like; the others must agree."""
        if self._like is None:
            self.problem.kernel(columns, targets)  # refused here, if there are too many features
            self._columns, self._targets, self._like, self._names = columns, targets, like, names
        elif (columns, targets) != (self._columns, self._targets):
            raise InputError(
                f"The rows so far have {self._columns} columns and {self._targets} targets, these have {columns} and {targets}."
            )
        elif like["columns"] != self._like["columns"] or (like["container"] == "sparse") != (
            self._like["container"] == "sparse"
        ):
            raise InputError(
                f"The rows so far are {_kind(self._like)}, these are {_kind(like)}; every batch must have the same columns, in "
                "the same order and kind of container."
            )

    def _take(self, piece: Piece, *, owned: bool, seen: Fingerprint | None = None) -> None:
        """Let checked rows wait, and fold when there are enough; ``seen``: their keys and those that they stand for."""
        if self._absorbing and piece.groups is not None:
            raise InputError("absorb and groups do not go together: an absorbed coreset serves one fit of one alpha.")
        if self._absorbing and self._targets != 1:
            raise InputError(f"absorb needs exactly one target, y has {self._targets}.")
        before = self._pending[0] if self._pending else self._held
        if before is not None and (before.groups is None) != (piece.groups is None):
            raise InputError("Some batches have groups and some have not; pass groups with every batch or with none.")
        if before is not None and before.groups is not None and piece.groups is not None:
            same_kind(before.groups, piece.groups)
        if piece.keys is not None and self._watches_keys:
            seen = seen or Fingerprint.of(piece.keys)
            self._fingerprint = seen if self._fingerprint is None else self._fingerprint.plus(seen)
        if piece.weights is not None and not piece.weights.all():
            piece = piece.take(piece.weights > 0)
        if not len(piece):
            return
        piece = self._lowered(piece)
        for start in range(0, len(piece), self.buffer_rows):
            some = piece if len(piece) <= self.buffer_rows else piece.take(slice(start, start + self.buffer_rows))
            if not owned and self._waiting[0] + len(some) > self.buffer_rows:  # rows that wait in one array are read faster
                self._fold()
            self._pending.append(some if owned else self._buffer.hold(some))
            self._waiting = (self._waiting[0] + len(some), self._waiting[1] + some.nbytes)
            if self._waiting[0] >= self.buffer_rows or self._waiting[1] >= self.buffer_bytes:
                self._fold()

    def _lowered(self, piece: Piece) -> Piece:
        """The piece with the offsets of whole numbers too large for doubles, which the first rows fix."""
        if piece.offsets is None or piece.offsets != self._offsets:
            piece = replace(piece, offsets=find_offsets(piece.parts, self._names, self.problem, self._offsets))
        before = self._pending[0] if self._pending else self._held
        if piece.offsets and before is not None and _types(piece) != _types(before):
            column = self._names[min(piece.offsets)]
            raise InputError(f"Column {column} holds whole numbers beyond 2^53; every batch must have the types of the first.")
        if piece.offsets and isinstance(self._split(piece.take(slice(0, 1)))[1], containers.Columns):
            raise InputError("The targets mix whole numbers beyond 2^53 with other types; give them one type.")
        self._offsets = piece.offsets
        return piece

    @property
    def _absorbing(self) -> bool:
        return self.problem.absorb is not None

    def _fold(self) -> None:
        """Reduce held and waiting rows together.  Nothing changes until all groups are done."""
        if not self._pending:
            return
        waiting = self._buffer.gathered(self._pending)
        joint = stack(waiting if self._held is None else [self._held, *waiting])
        held = len(joint) - self._waiting[0]
        kernel = self.problem.kernel(self._columns, self._targets)
        rng = np.random.default_rng([self.random_state, self._folds])
        running, reductions = dict(self._running), dict(self._reductions)
        kept, weights, peeled = [], [], []
        try:
            for label in labels_of(joint):
                index = None if label is None else np.flatnonzero(joint.groups == label)
                rows = self.problem.view(joint.rows(index))
                new = self.problem.view(stacked_rows(waiting, None if index is None else index[index >= held] - held))
                before = self._peeled if index is None else self._peeled[index[index < held]]
                if len(new):
                    reductions[label], running[label] = fold(rows, new, kernel, running.get(label), rng, before)
                    chosen, mass, alone = (getattr(reductions[label], name) for name in ("positions", "weights", "peeled"))
                else:
                    chosen, mass, alone = np.arange(len(rows)), rows.weights, before
                kept.append(chosen if index is None else index[chosen])
                weights.append(mass)
                peeled.append(alone)
        except NonFiniteError:
            raise self._non_finite(joint) from None
        where = np.concatenate(kept)
        order = np.argsort(joint.numbers[where], kind="stable")
        self._held = joint.take(where[order], np.concatenate(weights)[order])
        self._peeled = np.concatenate(peeled)[order]
        self._running, self._reductions = running, reductions
        self._folded()

    def _folded(self) -> None:
        self._pending, self._waiting = [], (0, 0)
        self._buffer.used = 0
        self._folds += 1

    def _non_finite(self, piece: Piece) -> InputError:
        """Where rows are not finite, or their powers overflow."""
        X, y = self._split(piece.take(np.arange(len(piece))))
        return Table(X, y, None, None, self._names, len(piece)).explain_non_finite()

    def _split(self, piece: Piece) -> tuple[Any, Any]:
        """X and y of some rows."""
        y = piece.block(self._columns, self._columns + self._targets) if self._targets else None
        return piece.block(0, self._columns), y

    def merge(self, *others: Sketch) -> Sketch:
        """Add the rows that other sketches have seen; they are numbered on from those of this one.

        The same source merged twice is an error: each sketch remembers the sketches that went into it, and with a key
        column, a sample of the keys.
        """
        start = time.perf_counter()
        sources = set(self._sources)
        for other in others:
            if not isinstance(other, Sketch):
                raise InputError(f"merge takes another Sketch, not {type(other).__name__}.")
            if self.problem != other.problem:
                raise InputError(
                    f"These sketches keep different things, {self.problem.describe()} and {other.problem.describe()}; make "
                    "both for one problem."
                )
            if (self.key is None) != (other.key is None):
                raise InputError("One of the sketches has a key column and the other has not.")
            if sources & other._sources:
                raise InputError(
                    "The same source was merged twice: this sketch has seen the rows of the other, or is a copy of it."
                )
            sources |= other._sources
        self._fold()
        mine = {label: running.claim for label, running in self._running.items()}
        inherited = dict(mine)
        for other in others:
            other._fold()
            if other._held is not None:
                assert other._like is not None
                self._expect(other._columns, other._targets, other._like, other._names)
                numbers = other._held.numbers + self.n_rows
                self._take(replace(other._held, numbers=numbers), owned=True, seen=other._fingerprint)
            for label in other._running:  # what the other's rows are off by is inherited
                found = other._reduction(label)
                theirs = (found.handed_on, found.spent, found.inflation * found.proof.inflation)
                inherited[label] = larger(inherited.get(label, theirs), theirs)
            self.n_rows += other.n_rows
            self._seconds += other._seconds
        self._fold()
        for label, running in self._running.items():
            before = mine.get(label, NO_CLAIM)
            error, spent, inflation = grown(running.claim, before, inherited.get(label, before))
            self._running[label] = replace(running, inherited=error, spent=spent, inflation=inflation)
            if label in self._reductions:
                found = self._reductions[label]
                claim = grown((found.inherited, found.before, found.inflation), before, inherited.get(label, before))
                self._reductions[label] = replace(found, inherited=claim[0], before=claim[1], inflation=claim[2])
        self._proof_version = min(self._proof_version, *(other._proof_version for other in others))
        self._sources = sources
        self._seconds += time.perf_counter() - start
        return self

    def coreset(self) -> Coreset:
        """The coreset of all rows so far; the sketch goes on afterwards."""
        start = time.perf_counter()
        self._fold()
        held = self._held
        if held is None or self._like is None:
            raise InputError("The sketch has seen no row of positive weight; a coreset needs at least one.")
        labels = labels_of(held)
        reductions = [self._reduction(label) for label in labels]
        total = sum(self._running[label].total for label in labels)
        if held.weights is not None:
            total += float(held.weights[self._peeled].sum())
        correction = None
        if self._absorbing:
            assert held.weights is not None
            exact = replace(reductions[0], positions=np.arange(len(held)), weights=held.weights, peeled=self._peeled)
            reductions[0], correction = self.problem.absorb_rows(
                held.rows(), exact, self.random_state, None, inherited=exact.handed_on
            )
            held = held.take(reductions[0].positions, reductions[0].weights)
        seconds = self._seconds + time.perf_counter() - start
        notes = ["There were no more rows than the rank: all are kept, with their own weights."] * (len(held) == self.n_rows)
        if correction is not None and not correction:
            notes.append(NOTHING_ABSORBED)
        if self._proof_version < PROOF_VERSION:
            notes.append(f"The sketch went on from rows that were {OLDER}.")
        certificate = replace(
            certify(self.problem, reductions, total, self.n_rows, seconds, notes, size=len(held)),
            proof_version=self._proof_version,
        )
        require_proven(certificate, reductions, self._names)
        X, y = frames.restore(self._like, *self._split(held), held.numbers)
        assert held.weights is not None
        return Coreset(
            held.numbers,
            held.weights,
            X,
            y,
            held.groups,
            self.n_rows,
            self.problem,
            certificate,
            held.keys,
            absorbed=correction,
        )

    def _reduction(self, label: Any) -> Reduction:
        """The rows held of a group and their proof, which is made anew if the sketch was loaded."""
        if label not in self._reductions:
            held = self._held
            assert held is not None
            index = None if label is None else np.flatnonzero(held.groups == label)
            kernel = self.problem.kernel(self._columns, self._targets)
            peeled = self._peeled if index is None else self._peeled[index]
            self._reductions[label] = prove_held(self.problem.view(held.rows(index)), peeled, kernel, self._running[label])
        return self._reductions[label]

    def save(self, path: str | Path) -> None:
        """Write a checkpoint to an ``.npz`` file (arrays and JSON, no pickle), atomically; what waits is folded first."""
        from karat._stream.state import save

        save(self, Path(path))

    @staticmethod
    def load(path: str | Path, problem: Problem | None = None) -> Sketch:
        """Read a checkpoint; it goes on exactly as the sketch that was saved.

        Parameters
        ----------
        path : path
        problem : Problem, optional
            Needed where the problem holds a user's function, which is not saved.
        """
        from karat._stream.state import load

        return load(Path(path), problem)[0]

    def __repr__(self) -> str:
        held = 0 if self._held is None else len(self._held)
        return f"Sketch({self.problem.describe()}, {self.n_rows:,} rows seen, {held:,} held, {self._waiting[0]:,} waiting)"


def weighed(rows: Rows) -> tuple[Array, Array]:
    """Rows ``[1 | D]`` and their weights."""
    everything = np.arange(len(rows))
    return rows.take(everything, np.zeros(rows.columns)), own_weights(rows, everything)


def _harmless(part: Any) -> bool:
    """Whether a look at the sum of squares tells that all values are finite and far from overflow."""
    values = part.data if sparse.issparse(part) else part
    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.vdot(values, values) < HARMLESS)


def _adds_nothing(X: Any, sample_weight: Any) -> bool:
    """Whether a batch has no rows, or all of them have weight zero."""
    try:
        count = containers.row_count(X)
    except (TypeError, IndexError):  # no table at all
        return False
    if count == 0 or sample_weight is None:
        return count == 0
    weights = containers.as_table(sample_weight, "sample_weight")
    return bool(weights.shape == (count, 1) and not weights.any())


def _types(piece: Piece) -> list[Any]:
    return [(part.shape[1], part.dtype) for part in piece.parts]


def labels_of(piece: Piece) -> list[Any]:
    """The groups of some rows, in order; None alone if there are no groups."""
    if piece.groups is None:
        return [None]
    try:
        return list(np.unique(piece.groups))
    except TypeError as error:
        raise InputError("groups mixes types that cannot be ordered; use numbers or strings throughout.") from error


def _kind(like: dict[str, Any]) -> str:
    return f"a {like['container']} with columns {like['columns']}" if like["columns"] else f"a plain {like['container']}"
