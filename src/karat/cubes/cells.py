"""Cells: for every label of a cube a few weighted rows, and the certificate that they are exact.

Cells lie one after the other in the order of their labels; the rows of cell g are
``starts[g]:starts[g + 1]`` of every column. Rows of a cell are numbered from 0 on in the order in
which they came; rows of several cells are numbered one cell after the other.  Nothing here changes:
every operation gives new cells.

The :class:`Reducer` has the one operation, many groups of rows reduced at once, each with a
certificate of its own; so cells of equal labels become one.  Moments add up, so the coreset of the
kept rows of some cells is a coreset of all their rows.  Its certificate inherits what the kept rows
were off by (:mod:`karat.engine.claim`).  Nothing is ever subtracted.

Some rows cannot be reduced with a proof: tails so heavy that hardly a row can be spared, or kept
rows whose inherited error is all that their tolerance allows.  Such rows stay as they are.  Rows of
the data with their own weights are off by nothing, and kept rows by what their own certificates say
(``Certificate.union``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from karat.core.certify import Certificate, certify, require_proven
from karat.cubes.layout import joined_labels, label_keys
from karat.data.batch import RESCALE, find_offsets
from karat.data.containers import stack_rows
from karat.data.non_finite import explain_non_finite
from karat.engine.claim import Claim
from karat.engine.groups import reduce_many
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.reduce import NonFiniteError, Reduction, keep_all_rows
from karat.engine.rows import Rows
from karat.errors import InputError, NotExactError
from karat.problems import Problem

HUGE = 1e220  # weights of rows up to this size, and down to its inverse, are added as they are
WHOLE = 10_000  # rows up to which those of a cell stay as they are, if they cannot be reduced
STAY = "No reduction of these {} rows could be proven, so all of them are kept."
LOOSE = 4  # kept rows per feature up to which a union is left as it is, where that is asked for


@dataclass(frozen=True)
class Cells:
    """Weighted rows of cells.

    Attributes
    ----------
    labels : tuple of arrays
        For each column that labels cells, its value in every cell.
    starts : array of shape (cells + 1,)
    columns : tuple of arrays
        The features of the kept rows, then the targets, each of its own type.
    weights : array
    numbers : int64 array
        Of each kept row, within its cell.
    keys : array or None
        Values of a key column.
    certificates : tuple of Certificate
        One for each cell; ``n_rows`` says how many rows the cell has.
    origins : tuple of tuple of int
        For each cell, the changes of the cube that its rows came by.
    """

    labels: tuple[np.ndarray, ...]
    starts: Indices
    columns: tuple[np.ndarray, ...]
    weights: Array
    numbers: np.ndarray
    keys: np.ndarray | None
    certificates: tuple[Certificate, ...]
    origins: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.certificates)

    @property
    def sizes(self) -> Indices:
        """Kept rows of each cell."""
        return np.diff(self.starts)

    @property
    def counts(self) -> np.ndarray:
        """Rows that each cell stands for."""
        return np.array([certificate.n_rows for certificate in self.certificates], dtype=np.int64)

    @property
    def totals(self) -> Array:
        """The total weight of each cell."""
        return np.add.reduceat(self.weights, self.starts[:-1]) if len(self) else np.zeros(0)

    def rows_of(self, chosen: Indices) -> Indices:
        """The places of the kept rows of some cells, one cell after the other."""
        return ranges(self.starts[:-1][chosen], self.sizes[chosen])

    def identifiers(self, which: Indices) -> list[str]:
        """What tells cells from others, by their kept rows and weights: the same cell must not be
        merged twice.
        """
        rows, ends = self.rows_of(which), np.cumsum([0, *self.sizes[which]]).tolist()
        data = np.column_stack(
            [self.weights[rows], self.numbers[rows], self.columns[0][rows]]
        ).astype(float)
        return [sha256(data[a:b].tobytes()).hexdigest()[:32] for a, b in pairwise(ends)]

    def chosen(self, which: Indices) -> Cells:
        """Some of the cells, in a given order."""
        rows = self.rows_of(which)
        return Cells(
            tuple(values[which] for values in self.labels),
            starts_of(self.sizes[which]),
            tuple(column[rows] for column in self.columns),
            self.weights[rows],
            self.numbers[rows],
            None if self.keys is None else self.keys[rows],
            tuple(self.certificates[i] for i in which),
            tuple(self.origins[i] for i in which),
        )


def joined_cells(parts: Sequence[Cells]) -> Cells:
    """The cells of several parts, one part after the other; labels may occur several times."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    first = parts[0]
    if len(parts) == 1:
        return first
    return Cells(
        tuple(
            joined_labels(values) for values in zip(*(part.labels for part in parts), strict=True)
        ),
        starts_of(np.concatenate([part.sizes for part in parts])),
        tuple(
            stack_rows(*values) for values in zip(*(part.columns for part in parts), strict=True)
        ),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        None if first.keys is None else np.concatenate([np.asarray(part.keys) for part in parts]),
        tuple(certificate for part in parts for certificate in part.certificates),
        tuple(origin for part in parts for origin in part.origins),
    )


def no_cells(labels: int, columns: int) -> Cells:
    """Those of rows of which none is left, with so many columns of labels and of numbers."""
    none, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
    return Cells((none,) * labels, starts_of(whole), (none,) * columns, none, whole, None, (), ())


def no_weight(problem: Problem, count: int) -> Certificate:
    """That of a cell of ``count`` rows, of which none has a weight: nothing is kept, and nothing is
    off.

    Rows of the same label may have weights in other partitions of the data.
    """
    return Certificate(
        loss_error=0.0, rounding=0.0, remainder=0.0, moment_error=0.0, total_error=0.0, rank=0,
        size=0, bound=0, condition=1.0, excluded_directions=(), method="no row", passes=1,
        seconds=0.0, keeps=problem.keeps, excludes=problem.excludes, n_rows=count, spent=0.0,
    )  # fmt: skip


def starts_of(sizes: Indices) -> Indices:
    """Where the rows of cells of these sizes begin, and where the last of them ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def ranges(starts: Indices, sizes: Indices) -> Indices:
    """The numbers ``start, start + 1, ..., start + size - 1`` for every start, one after the
    other.
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - sizes), sizes))


def in_order(labels: Sequence[np.ndarray], count: int) -> tuple[Indices, Indices]:
    """The order of labels, and where a new one begins in that order (with the end)."""
    if not labels:
        return np.arange(count), np.array([0, count] if count else [0])
    order = np.lexsort(tuple(reversed(labels)))
    new = np.zeros(count, dtype=bool)
    for values in labels:
        sorted_values = values[order]
        new[1:] |= sorted_values[1:] != sorted_values[:-1]
    new[:1] = True
    return order, np.append(np.flatnonzero(new), count)


def label_list(cells: Cells) -> list[tuple[Any, ...]]:
    """The label of every cell; dates as they are in NumPy, in microseconds."""
    if not cells.labels:
        return [()] * len(cells)
    values = (v.astype("datetime64[us]") if v.dtype.kind == "M" else v for v in cells.labels)
    return list(zip(*map(label_keys, values), strict=True))


class ReducedCell(NamedTuple):
    """What is kept of a group of rows."""

    positions: Indices  # from the start of the group
    weights: Array
    certificate: Certificate


@dataclass(frozen=True)
class Reducer:
    """Reduces groups of rows of the same columns.

    Attributes
    ----------
    problem : Problem
    names : tuple of str
        Of the columns: features, then targets.
    targets : int
    seed : int
    """

    problem: Problem
    names: tuple[str, ...]
    targets: int
    seed: int = 0

    @property
    def kernel(self) -> Kernel:
        """Its ``width`` is the number of rows that are kept of a group, apart from peeled ones."""
        return self.problem.kernel(len(self.names) - self.targets, self.targets)

    def reduce(
        self, columns: Sequence[np.ndarray], weights: Array | None, starts: Indices,
        counts: np.ndarray, claims: Sequence[Sequence[Certificate]],
        name: Callable[[int], str] | None = None,
    ) -> list[ReducedCell]:  # fmt: skip
        """Reduce groups of rows, one after the other in ``columns``.

        Parameters
        ----------
        columns, weights
            Of rows in the order of their groups; every weight is positive.
        starts : array of shape (groups + 1,)
        counts : array of shape (groups,)
            Rows of the data that each group stands for.
        claims : sequence of sequences of Certificate
            For each group, those of the kept rows in it; none, if all rows are rows of the data.
        name : function, optional
            What a group is called in an error message.
        """
        shown = [repr(name) for name in self.names]
        parts = [column[:, None] for column in columns]
        if all(column.dtype == np.float64 for column in columns):
            parts = [np.column_stack(columns)]
        if (
            weights is not None
            and len(weights)
            and not (weights.min() >= 1 / HUGE and weights.max() <= HUGE)
        ):
            raise InputError(
                f"A cube takes weights from {1 / HUGE:.0e} to {HUGE:.0e}. {RESCALE}",
                argument="sample_weight",
            )
        rows = self.problem.view(
            Rows(parts, weights, offsets=find_offsets(parts, shown, self.problem))
        )
        try:
            kernel = self.kernel.sharper() if any(claims) else self.kernel
            found = reduce_many(rows, starts, kernel, "auto", self.seed)
        except NonFiniteError:
            raise explain_non_finite(parts, shown) from None
        kept = []
        for g, reduction in enumerate(found):
            some = rows.run(int(starts[g]), int(starts[g + 1]))
            try:
                kept.append(self._certified(some, reduction, claims[g], int(counts[g]), shown))
            except NotExactError as error:
                raise NotExactError(
                    f"{name(g)}: {error}" if name is not None else str(error)
                ) from None
        return kept

    def _certified(
        self,
        rows: Rows,
        found: Reduction,
        claims: Sequence[Certificate],
        count: int,
        names: list[str],
    ) -> ReducedCell:
        certificate = self.certificate(found, claims, rows.total, count)
        if not (certificate.proven and found.proof.ok):
            fresh = count > sum(claim.n_rows for claim in claims)  # some are rows of the data
            if not fresh or len(rows) <= WHOLE:
                return self._stay(rows, found, claims, count, fresh)
        require_proven(certificate, [found], names, found.dominating_rows.tolist())
        return ReducedCell(found.positions, found.weights, certificate)

    def certificate(
        self,
        found: Reduction,
        claims: Sequence[Certificate],
        total: float,
        count: int,
        notes: Sequence[str] = (),
    ) -> Certificate:
        """That of kept rows which are off by ``found`` from rows of certificates ``claims``, or
        else from rows of the data.
        """
        if not claims:
            return certify(self.problem, [found], total, count, 0.0, notes)
        found = replace(found, inherited=Claim.union(claims))
        return certify(self.problem, [found], total, count, 0.0, notes).of_coresets()

    def _stay(
        self, rows: Rows, found: Reduction, claims: Sequence[Certificate], count: int, fresh: bool
    ) -> ReducedCell:
        """All rows as they are; ``claims`` are those of the kept rows, and ``fresh`` says whether
        there are others.
        """
        everything = keep_all_rows(rows, found)
        own = [certify(self.problem, [everything], rows.total, count, 0.0)] if fresh else []
        united = Certificate.union([*claims, *own])
        bound = found.fitted.kernel.width
        certificate = replace(
            united,
            n_rows=count,
            size=len(rows),
            rank=found.rank,
            bound=bound,
            peeled=max(0, len(rows) - bound),
            standard_errors=None,
            notes=(STAY.format(f"{len(rows):,}"),),
        )
        return ReducedCell(everything.positions, everything.weights, certificate)

    def added(self, cells: Cells, new: Cells) -> Cells:
        """Cells with the rows of new ones."""
        return self.merged(joined_cells([cells, new]))

    def replaced(self, cells: Cells, new: Cells) -> Cells:
        """Cells with those of the same labels replaced by new ones."""
        both = joined_cells([cells, new])  # whose labels are of one type
        labels = label_list(both)
        known, count = set(labels[len(cells) :]), len(cells)
        kept = [i for i, label in enumerate(labels) if i >= count or label not in known]
        return self.merged(both.chosen(np.array(kept, dtype=np.intp)))

    def merged(self, cells: Cells, loose: bool = False) -> Cells:
        """Cells of equal labels made one, in the order of their labels; a cell that has its label
        alone stays as it is.

        With ``loose``, rows are only put together where there are few of them.
        """
        order, edges = in_order(cells.labels, len(cells))
        if len(edges) - 1 == len(cells):
            return cells if np.array_equal(order, np.arange(len(cells))) else cells.chosen(order)
        firsts, several = order[edges[:-1]], np.diff(edges) > 1
        members = [order[a:b] for a, b in zip(edges[:-1][several], edges[1:][several], strict=True)]
        together = self._together(
            cells, members, tuple(values[firsts[several]] for values in cells.labels), loose
        )
        alone = cells.chosen(firsts[~several])
        both = joined_cells([alone, together])
        return both.chosen(
            np.argsort(np.concatenate([np.flatnonzero(~several), np.flatnonzero(several)]))
        )

    def _together(
        self, cells: Cells, members: list[Indices], labels: tuple[np.ndarray, ...], loose: bool
    ) -> Cells:
        """One cell from each list of cells."""
        which = np.concatenate(members)
        counts, sizes = cells.counts, cells.sizes
        before = np.concatenate([np.cumsum(counts[some]) - counts[some] for some in members])
        rows = cells.rows_of(which)
        numbers = cells.numbers[rows] + np.repeat(before, sizes[which])
        lengths = np.array([int(sizes[some].sum()) for some in members])
        united = Cells(
            labels, starts_of(lengths), tuple(column[rows] for column in cells.columns),
            cells.weights[rows], numbers, None if cells.keys is None else cells.keys[rows],
            tuple(self._united(cells, some) for some in members),
            tuple(tuple(sorted({o for i in some for o in cells.origins[i]})) for some in members),
        )  # fmt: skip
        much = np.flatnonzero(lengths > (LOOSE if loose else 1) * self.kernel.width)
        if not len(much):
            return united
        claims = [[cells.certificates[i] for i in members[g]] for g in much]
        reduced = self.reduced(united.chosen(much), claims)
        rest = np.setdiff1d(np.arange(len(united)), much)
        return joined_cells([united.chosen(rest), reduced]).chosen(
            np.argsort(np.concatenate([rest, much]))
        )

    def _united(self, cells: Cells, some: Indices) -> Certificate:
        """The certificate of several cells together; one without rows has nothing to say, but its
        rows count.
        """
        claims = [cells.certificates[i] for i in some if cells.certificates[i].size] or [
            cells.certificates[some[0]]
        ]
        return replace(
            Certificate.union(claims), n_rows=sum(cells.certificates[i].n_rows for i in some)
        )

    def reduced(self, cells: Cells, claims: Sequence[Sequence[Certificate]]) -> Cells:
        """Every cell reduced; ``claims`` are those of the rows in it."""
        kept = self.reduce(cells.columns, cells.weights, cells.starts, cells.counts, claims)
        sizes = np.array([len(one.positions) for one in kept])
        rows = np.concatenate(
            [start + one.positions for start, one in zip(cells.starts[:-1], kept, strict=True)]
        )
        return Cells(
            cells.labels, starts_of(sizes), tuple(column[rows] for column in cells.columns),
            np.concatenate([one.weights for one in kept]), cells.numbers[rows],
            None if cells.keys is None else cells.keys[rows],
            tuple(one.certificate for one in kept), cells.origins,
        )  # fmt: skip
