"""What a sketch knows of its rows: the few held, the moments of all, and the proof that the one carries the other.

This is the state of a sketch without the batches that wait; :mod:`karat._stream.state` stores it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from karat._data import containers
from karat._data.batch import Batch, stack, stacked_rows
from karat._data.non_finite import explain_non_finite
from karat._stream.fingerprint import Fingerprint
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Flags
from karat.engine.parts import Offsets
from karat.engine.reduce import NonFiniteError, Reduction
from karat.engine.rows import Rows, own_weights
from karat.engine.stream import Running, fold, prove_held
from karat.errors import InputError
from karat.problems import Problem


class Summary:
    """The rows held of a stream, and the running moments of all of its rows.

    Attributes
    ----------
    n_rows : int
        Rows seen.
    columns, targets : int
    like : dict or None
        The container of the first batch (:func:`karat._data.containers.describe`); None before it.
    names : list of str
        Names of the columns, for error messages.
    offsets : mapping of column to int, or None
        Of whole numbers too large for doubles; chosen for the first rows.
    held : Batch or None
        At most rank rows per group, and the peeled ones.
    peeled : array of bool
        Which of the held rows dominate a moment and are left out of the running sums.
    running, reductions : dict
        By group: the moments of all rows, and the held rows with their proof.
    sources : set of str
        The sketches that went into this one.
    fingerprint : Fingerprint or None
        A sample of the keys seen.
    taken, folded : int
        Rows of positive weight that came in, and those among them that were folded; equal when nothing waits.
    mass : float
        Total weight of the rows that came in.
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
        """The same, to return to if something fails: what :meth:`fold` replaces is not copied."""
        other = copy(self)
        other.running, other.reductions, other.sources = dict(self.running), dict(self.reductions), set(self.sources)
        return other

    @property
    def kernel(self) -> Kernel:
        return self.problem.kernel(self.columns, self.targets)

    def expect(self, columns: int, targets: int, like: dict[str, Any], names: list[str]) -> None:
        """The first batch says what rows look like; the others must agree."""
        if self.like is None:
            self.problem.kernel(columns, targets)  # refused here, if there are too many features
            self.columns, self.targets, self.like, self.names = columns, targets, like, names
        elif (columns, targets) != (self.columns, self.targets):
            raise InputError(
                f"The rows so far have {self.columns} columns and {self.targets} targets, these have {columns} and {targets}."
            )
        elif like["columns"] != self.like["columns"] or (like["container"] == "sparse") != (self.like["container"] == "sparse"):
            raise InputError(
                f"The rows so far are {_kind(self.like)}, these are {_kind(like)}; every batch must have the same columns, in "
                "the same order and kind of container."
            )
        elif like.get("types") != self.like.get("types"):
            self.like = self.like | {"types": containers.common_types(self.like.get("types"), like.get("types"))}

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
                new = self.problem.view(stacked_rows(waiting, None if index is None else index[index >= held] - held))
                before = self.peeled if index is None else self.peeled[index[index < held]]
                if len(new):
                    reductions[label], running[label] = fold(rows, new, self.kernel, running.get(label), rng, before)
                    chosen, mass, alone = (getattr(reductions[label], name) for name in ("positions", "weights", "peeled"))
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
        """The rows held of a group and their proof, which is made anew if the sketch was loaded."""
        if label not in self.reductions:
            self.reductions[label] = prove_held(*self.held_rows(label), self.kernel, self.running[label])
        return self.reductions[label]

    def held_rows(self, label: Any) -> tuple[Rows, Flags]:
        """The rows held of a group, as the kernel reads them, and which of them are peeled."""
        assert self.held is not None
        index = self.held.index(label)
        return self.problem.view(self.held.stored_rows(index)), self.peeled if index is None else self.peeled[index]

    def split(self, batch: Batch) -> tuple[Any, Any]:
        """X and y of some rows."""
        y = batch.block(self.columns, self.columns + self.targets) if self.targets else None
        return batch.block(0, self.columns), y

    def restored(self, batch: Batch) -> tuple[Any, Any]:
        """X and y of some rows, in the containers of the first batch."""
        assert self.like is not None
        return containers.in_container(self.like, *self.split(batch), batch.numbers)


def weighed(rows: Rows) -> tuple[Array, Array]:
    """Rows ``[1 | D]`` and their weights."""
    everything = np.arange(len(rows))
    return rows.take(everything, np.zeros(rows.columns)), own_weights(rows, everything)


def _kind(like: dict[str, Any]) -> str:
    if like["columns"]:
        return f"a {like['container']} frame with columns {', '.join(map(str, like['columns']))}"
    return "a sparse matrix" if like["container"] == "sparse" else "a plain array"
