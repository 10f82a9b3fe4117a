"""The state of a sketch: the few rows held, the moments of all rows, and the proof that they agree.

is_summable  whether the moments of a batch are finite
Buffer       batches that wait to be folded, copied if the caller may overwrite them
Summary      the rows held and the running moments, which :mod:`karat.stream.state` stores
coreset_of   the rows held as a coreset, with its certificate
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from karat.core.certify import certify, require_proven
from karat.core.construct import NOTHING_ABSORBED
from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.advice import explain_non_finite
from karat.data.batch import Batch, Table, stack, stacked_rows, stored_weights
from karat.engine.carried import Running
from karat.engine.claim import Reduction
from karat.engine.device import DevicePart
from karat.engine.kernel import Kernel, NonFiniteError
from karat.engine.linalg import Array, Flags, one_blas_thread
from karat.engine.parts import Offsets
from karat.engine.rows import Rows, own_weights
from karat.engine.stream import fold, prove_held
from karat.errors import InputError, NotExactError, several
from karat.problems import Problem

if TYPE_CHECKING:
    from karat.stream.merge import Fingerprint

MOST = 2**28  # bytes of a buffer's arrays, which are reused after every fold
# Moments of a batch are computed, to see whether they are finite, if its sum of squares is larger.
HARMLESS = 1e30
TOTAL = 1e-9  # relative difference of total weights; the order of a sum changes it by less


class Buffer:
    """The batches that wait; it is :attr:`full` from ``rows`` rows or ``size`` bytes on.

    Copying into memory used before takes half the time, so the same arrays are filled after every
    fold.
    """

    def __init__(self, rows: int, size: int) -> None:
        self.most_rows, self.most_bytes = rows, size
        self.batches: list[Batch] = []
        self.rows = self.nbytes = 0
        self._used = 0
        self._arrays: list[Any] = []

    @property
    def full(self) -> bool:
        return self.rows >= self.most_rows or self.nbytes >= self.most_bytes

    def add(self, batch: Batch, owned: bool) -> None:
        """Add a batch; it is copied unless ``owned``, that is, if others may overwrite it."""
        self.batches.append(batch if owned else self._copied(batch))
        self.rows, self.nbytes = self.rows + len(batch), self.nbytes + batch.nbytes

    def _copied(self, batch: Batch) -> Batch:
        """A copy of the batch, if possible in the arrays of the buffer."""
        weights, groups, keys = (
            None if a is None else a.copy() for a in (batch.weights, batch.groups, batch.keys)
        )
        batch = replace(batch, weights=weights, groups=groups, keys=keys)
        if not self._arrays and not any(sparse.issparse(p) for p in batch.parts):
            rows = min(
                self.most_rows,
                max(1, min(self.most_bytes, MOST) // max(1, batch.nbytes // len(batch))),
            )
            self._arrays = [np.empty((rows, p.shape[1]), p.dtype) for p in batch.parts]
        end = self._used + len(batch)
        fits = [
            end <= len(a) and a.dtype == p.dtype
            for a, p in zip(self._arrays, batch.parts, strict=False)
        ]
        if not fits or not all(fits):
            return replace(batch, parts=[p.copy() for p in batch.parts])
        views = [a[self._used : end] for a in self._arrays]
        for view, part in zip(views, batch.parts, strict=True):
            view[...] = part
        self._used = end
        return replace(batch, parts=views)

    def gathered(self) -> list[Batch]:
        """The batches that wait; as a single one, without a copy, if all of them are held here."""
        if self.rows != self._used:
            return self.batches
        return [replace(stack(self.batches), parts=[a[: self._used] for a in self._arrays])]

    def clear(self) -> None:
        self.batches, self.rows, self.nbytes, self._used = [], 0, 0, 0

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: without arrays that hold only rows of earlier folds."""
        return vars(self) | {"_arrays": self._arrays if self._used else []}


class Summary:
    """The rows held of a stream, and the running moments of all of its rows.

    Attributes
    ----------
    n_rows : int
        Rows seen.
    columns, targets : int
    like : dict or None
        The container of the first batch (:func:`karat.data.containers.describe`); None before it.
    names : list of str
        Names of the columns, for error messages.
    offsets : mapping of column to int, or None
        Subtracted from integers too large for doubles; chosen for the first rows.
    held : Batch or None
        At most rank rows per group, and the peeled ones.
    peeled : array of bool
        Which of the held rows dominate a moment and are left out of the running sums.
    running, reductions : dict
        By group: the moments of all rows, and the held rows with their proof.
    sources : set of str
        Identifiers of the sketches that were merged into this one.
    fingerprint : Fingerprint or None
        A sample of the keys seen.
    taken, folded : int
        Rows of positive weight that were added, and those of them that were folded; equal when the
        buffer is empty.
    mass : float
        Total weight of the rows that were added.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.n_rows = self.columns = self.targets = self.folds = 0
        self.seconds = 0.0
        self.like: dict[str, Any] | None = None
        self.names: list[str] = []
        self.offsets: Offsets | None = None
        self.held: Batch | None = None
        self.peeled = np.zeros(0, dtype=bool)
        self.running: dict[Any, Running] = {}
        self.reductions: dict[Any, Reduction] = {}
        self.sources = {uuid.uuid4().hex}
        self.fingerprint: Fingerprint | None = None
        self.taken = self.folded = 0
        self.mass = 0.0

    def copied(self) -> Summary:
        """A copy to return to if a merge fails; :meth:`fold` replaces arrays, so it shares them."""
        other = copy(self)
        other.running, other.reductions, other.sources = (
            dict(self.running),
            dict(self.reductions),
            set(self.sources),
        )
        return other

    @property
    def kernel(self) -> Kernel:
        return self.problem.kernel(self.columns, self.targets)

    def expect(self, columns: int, targets: int, like: dict[str, Any], names: list[str]) -> None:
        """Take the columns of the first batch; raise if those of a later one differ."""
        if self.like is None:
            self.check_features(columns, targets)
            self.columns, self.targets, self.like, self.names = columns, targets, like, names
        elif (columns, targets) != (self.columns, self.targets):
            raise InputError(
                f"The batch has {several(columns, 'column')} and {several(targets, 'target')},"
                " earlier rows have"
                f" {self.columns} and {self.targets}; every batch must have the same."
            )
        elif like["columns"] != self.like["columns"] or (like["container"] == "sparse") != (
            self.like["container"] == "sparse"
        ):
            raise InputError(
                f"The batch is {_kind(like)}, earlier rows are {_kind(self.like)}; every batch must"
                " have the same columns, in the same order and kind of container."
            )
        elif like.get("types") != self.like.get("types"):
            self.like = self.like | {
                "types": containers.common_types(self.like.get("types"), like.get("types"))
            }

    def summing_kernel(self, table: Table, label: Any, pilot: tuple[Array, Array]) -> Kernel:
        """The kernel that sums the next rows of a group, of which ``pilot`` may be the first."""
        running = self.running.get(label)
        return table.kernel.prepare(*pilot) if running is None else running.kernel

    def check_features(self, columns: int, targets: int) -> None:
        """Raise if there would be too many features."""
        self.problem.kernel(columns, targets)

    def fold(self, waiting: Sequence[Batch], seed: int) -> None:
        """Reduce held and waiting rows together.  Nothing changes until all groups are done."""
        joint = stack(waiting if self.held is None else [self.held, *waiting])
        held = len(joint) - sum(map(len, waiting))
        rng = np.random.default_rng([seed, self.folds])
        running, reductions = dict(self.running), dict(self.reductions)
        kept, weights, peeled = [], [], []
        try:
            for label in joint.labels:
                index = joint.index(label)
                rows = self.problem.view(joint.stored_rows(index))
                new = self.problem.view(
                    stacked_rows(waiting, None if index is None else index[index >= held] - held)
                )
                before = self.peeled if index is None else self.peeled[index[index < held]]
                if len(new):
                    reductions[label], running[label] = fold(
                        rows, new, self.kernel, running.get(label), rng, before
                    )
                    chosen, mass, alone = (
                        getattr(reductions[label], name)
                        for name in ("positions", "weights", "peeled")
                    )
                else:
                    chosen, mass, alone = np.arange(len(rows)), rows.weights, before
                kept.append(chosen if index is None else index[chosen])
                weights.append(mass)
                peeled.append(alone)
        except NonFiniteError:
            raise explain_non_finite(joint.parts, self.names) from None
        where = np.concatenate(kept)
        order = np.argsort(joint.numbers[where], kind="stable")
        self.held = joint.take(where[order], np.concatenate(weights)[order])
        self.peeled = np.concatenate(peeled)[order]
        self.running, self.reductions = running, reductions
        self.folds += 1
        self.folded += len(joint) - held

    def reduction(self, label: Any) -> Reduction:
        """The rows held of a group and their proof, which is made again if it is missing."""
        if label not in self.reductions:
            self.reductions[label] = prove_held(
                *self.held_rows(label), self.kernel, self.running[label]
            )
        return self.reductions[label]

    def held_rows(self, label: Any) -> tuple[Rows, Flags]:
        """The rows held of a group, as the kernel reads them, and which of them are peeled."""
        assert self.held is not None
        index = self.held.index(label)
        return self.problem.view(self.held.stored_rows(index)), (
            self.peeled if index is None else self.peeled[index]
        )

    def split(self, batch: Batch) -> tuple[Any, Any]:
        """X and y of some rows."""
        y = batch.block(self.columns, self.columns + self.targets) if self.targets else None
        return batch.block(0, self.columns), y

    def restored(self, batch: Batch) -> tuple[Any, Any]:
        """X and y of some rows, in the containers of the first batch."""
        assert self.like is not None
        return containers.in_container(self.like, *self.split(batch), batch.numbers)


def dense_with_weights(rows: Rows) -> tuple[Array, Array]:
    """Rows ``[1 | D]`` and their weights."""
    everything = np.arange(len(rows))
    return rows.take(everything, np.zeros(rows.columns)), own_weights(rows, everything)


def _kind(like: dict[str, Any]) -> str:
    if like["columns"]:
        return f"a {like['container']} frame with columns {', '.join(map(str, like['columns']))}"
    return "a sparse matrix" if like["container"] == "sparse" else "a plain array"


def adds_nothing(X: Any, sample_weight: Any) -> bool:
    """Whether a batch has no rows, or all of them have weight zero."""
    try:
        count = containers.row_count(X)
    except (TypeError, IndexError):  # no table at all
        return False
    if count == 0 or sample_weight is None:
        return count == 0
    weights = containers.as_numpy(containers.as_table(sample_weight, "sample_weight"))
    return bool(weights.shape == (count, 1) and not weights.any())


def is_summable(table: Table, summary: Summary, waiting: Sequence[Batch]) -> bool:
    """Whether the moments of a batch are finite, group by group, in the coordinates of the earlier
    rows.

    A batch whose moments overflow must not enter the buffer, where it would spoil the others.
    """
    if all(_harmless(part) for part in table.parts):
        return True
    for label in table.labels:
        block, weights = dense_with_weights(table.rows(label))
        if not np.isfinite(block).all():
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            before = next(
                (b.stored_rows(b.index(label)) for b in waiting if len(b) and label in b.labels),
                None,
            )
            pilot = (
                (block, weights)
                if before is None
                else dense_with_weights(summary.problem.view(before))
            )
            fitted = summary.summing_kernel(table, label, pilot)
            sums = fitted.statistic(block - np.concatenate([[0.0], fitted.shift]), weights)
        if not all(np.isfinite(part).all() for part in sums):
            return False
    return True


def _harmless(part: Any) -> bool:
    """Whether the sum of squares shows that all values are finite and far from overflow."""
    if isinstance(part, DevicePart):
        return part.sum_of_squares() < HARMLESS
    values = part.data if sparse.issparse(part) else part
    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.vdot(values, values) < HARMLESS)


@one_blas_thread()
def coreset_of(summary: Summary, seed: int) -> Coreset:
    """The coreset of all rows seen; the summary stays as it is."""
    start = time.perf_counter()
    held = summary.held
    if held is None:
        raise InputError(
            "The sketch has seen no row of positive weight; a coreset needs at least one."
        )
    # The moments as a sketch that was loaded from a checkpoint has them, so that both give the
    # same bits.
    reductions = [
        replace(summary.reduction(label), fitted=summary.running[label].fitted_moments(last=True))
        for label in held.labels
    ]
    total = total_weight(summary)
    require_taken(summary, total)
    correction = None
    if summary.problem.absorb is not None:
        assert held.weights is not None
        exact = replace(
            reductions[0],
            positions=np.arange(len(held)),
            weights=held.weights,
            peeled=summary.peeled,
        )
        # the error of absorbing is measured against the rows held, so their own error is inherited
        inherited = replace(exact.inherited, loss_error=exact.claim.loss_error)
        reductions[0], correction = summary.problem.absorb_rows(
            held.stored_rows(), exact, seed, None, inherited=inherited
        )
        held = held.take(reductions[0].positions, reductions[0].weights)
    seconds = summary.seconds + time.perf_counter() - start
    notes = ["There were no more rows than the rank: all are kept, with their own weights."] * (
        len(held) == summary.n_rows
    )
    if correction is not None and not correction:
        notes.append(NOTHING_ABSORBED)
    certificate = certify(
        summary.problem, reductions, total, summary.n_rows, seconds, notes, size=len(held)
    )
    require_proven(certificate, reductions, summary.names)
    X, y = summary.restored(held)
    assert held.weights is not None
    stored_weights(held.weights)
    return Coreset(
        held.numbers,
        held.weights,
        X,
        y,
        held.groups,
        summary.n_rows,
        summary.problem,
        certificate,
        held.keys,
        absorbed=correction,
        # A row of another weight has been reduced before and represents others.
        verbatim=(
            summary.peeled & (held.weights == 1.0) if len(summary.peeled) == len(held) else None
        ),
    )


def total_weight(summary: Summary) -> float:
    """Of all rows that were summed, and of those that are peeled."""
    held = summary.held
    assert held is not None
    assert held.weights is not None
    return sum(summary.running[label].total for label in held.labels) + float(
        held.weights[summary.peeled].sum()
    )


def require_taken(summary: Summary, total: float) -> None:
    """Raise if some rows that were added were never summed, which moments alone could not show."""
    if summary.taken != summary.folded:
        raise NotExactError(
            f"The sketch took {summary.taken:,} rows but summed {summary.folded:,}: rows were lost,"
            " so there is no coreset. Please report this bug."
        )
    plain = (
        summary.problem.mergeable and not summary.problem.has_view and summary.problem.keeps_total
    )
    if plain and not abs(total - summary.mass) <= TOTAL * summary.mass:
        raise NotExactError(
            f"The rows taken have a total weight of {summary.mass!r}, those summed {total!r}, so"
            " there is no coreset. Please report this bug."
        )
