"""The second pass: sums of squared residuals and rows at the solution, from which robust
covariances follow.

With weights u, residuals e = y - x'b, and W such that the rows z = W'x have sum u z z' = 1 (so W W'
is the inverse of X'UX),

    HC0      W (sum u^2 e^2 z z') W'                                   HC1 = n / (n - k) HC0
    HC2      the same with e^2 / (1 - h),  h = u z'z the leverage      HC3 with e^2 / (1 - h)^2
    cluster  W (sum_g s_g s_g') W',  s_g = sum over its rows of u e z  times G / (G - 1) (n - 1) /
    (n - k)

Sums of z z' lose no digits however the columns are scaled.  Sums by cluster are linear in z, so
they are taken of u e x, and W' comes last: G products instead of n.  Only sums travel: k x k
numbers, and G x k for G clusters.  The same pass counts the rows and sums u e^2 and u e z, which
must be those of the coreset: other data is noticed.

Sums by cluster are added to as rows arrive in any order.  Integers that lie close together are
their own addresses among these sums; other labels get addresses from a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from karat.data.batch import Batch
from karat.data.labels import encode
from karat.engine.least_squares import LeastSquaresSolution
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError
from karat.io.scan import Consumer
from karat.io.source import Chunk

SPAN = 2**20  # addresses that are taken without asking how many rows there are
SPARE = 8  # addresses per row
SOME = 2**12  # clusters that are squared at a time
BLOCK = 2**12  # rows that are summed at a time: they stay in the cache
WAITING = 2**20  # scores that wait to be added to their clusters
LEVERAGE = 1e-10  # 1 - h below which a row is fitted exactly, and HC2 and HC3 are 0 / 0
EXACT = 1e-24  # of the response's sum of squares: residuals of that size are rounding
SAME = 1e-6  # relative: the sums of other data differ by more


class ClusterSums:
    """Sums of k numbers by label.

    Parameters
    ----------
    width : int
        The numbers of a row.
    """

    def __init__(self, width: int) -> None:
        self.sums = np.zeros((width, 0))
        self.seen = np.zeros(0, dtype=bool)
        self.low: int | None = None  # the label at address 0, where labels are addresses
        self.places: dict[Any, int] | None = None  # of other labels
        self.rows = 0

    def add(self, labels: np.ndarray, values: Array) -> None:
        """Add the columns of ``values`` to the sums of their labels."""
        self.rows += len(labels)
        codes = self._codes(labels)
        first, last = int(codes.min()), int(codes.max())
        if first:
            codes = codes - first
        for row, value in zip(self.sums, values, strict=True):
            row[first : last + 1] += np.bincount(codes, value, last + 1 - first)
        self.seen[first : last + 1][codes] = True

    def _codes(self, labels: np.ndarray) -> np.ndarray:
        if self.places is None and labels.dtype.kind in "iu":
            low, high = int(labels.min()), int(labels.max())
            start = low if self.low is None else min(low, self.low)
            end = high if self.low is None else max(high, self.low + len(self.seen) - 1)
            if end - start < max(SPAN, SPARE * self.rows):
                self._cover(start, end)
                assert self.low is not None
                return _differences(labels, self.low)
        if self.places is None:
            self._tabulate()
        assert self.places is not None
        distinct, codes = encode(labels)
        places = self.places
        known = np.array(
            [places.setdefault(label, len(places)) for label in distinct.tolist()], dtype=np.intp
        )
        if len(places) > len(self.seen):
            self._move(0, max(len(places), 3 * len(self.seen) // 2))
        return np.asarray(known[codes])

    def _cover(self, start: int, end: int) -> None:
        """Make labels from ``start`` to ``end`` addresses, and some beside them: the next rows hold
        others.
        """
        if self.low is not None and self.low <= start and end < self.low + len(self.seen):
            return
        beside = (end - start) // 8
        low = start - beside
        low = low if self.low is None else min(low, self.low)
        self._move(0 if self.low is None else self.low - low, end + beside - low + 1)
        self.low = low

    def _move(self, before: int, size: int) -> None:
        """Take ``size`` addresses, ``before`` of them in front of those there are."""
        sums, seen = np.zeros((len(self.sums), size)), np.zeros(size, dtype=bool)
        held = len(self.seen)
        sums[:, before : before + held], seen[before : before + held] = self.sums, self.seen
        self.sums, self.seen = sums, seen

    def _tabulate(self) -> None:
        """Go over from addresses to a table."""
        labels = self.labels()
        self.sums, self.places, self.low = (
            self.sums[:, self.seen],
            {label: i for i, label in enumerate(labels)},
            None,
        )
        self.seen = np.ones(len(labels), dtype=bool)

    def labels(self) -> list[Any]:
        """The labels that were seen, in the order of their addresses."""
        if self.places is not None:
            return list(self.places)
        return (
            []
            if self.low is None
            else [self.low + place for place in np.flatnonzero(self.seen).tolist()]
        )

    def merge(self, other: ClusterSums) -> None:
        """Add the sums of other rows."""
        labels = other.labels()
        if labels:
            # labels of a table stay what they are: an array of -1 and 2**63 would be one of doubles
            self.add(
                np.asarray(labels, dtype=None if other.places is None else object),
                other.sums[:, other.seen],
            )

    @property
    def count(self) -> int:
        """Clusters that were seen."""
        return int(self.seen.sum())

    def outer(self, turn: Array) -> Array:
        """The sum over the clusters of s s', s the sums of a cluster times ``turn``."""
        total = np.zeros((turn.shape[1], turn.shape[1]))
        for start in range(0, self.sums.shape[1], SOME):
            some = turn.T @ self.sums[:, start : start + SOME]
            total += some @ some.T
        return total


def _differences(labels: np.ndarray, low: int) -> np.ndarray:
    """``labels - low``, which is between 0 and 2**63, for integers of any width: modulo 2**64
    nothing overflows.
    """
    if labels.dtype.kind == "i":
        labels = labels.astype(np.int64, copy=False).view(np.uint64)
    return np.asarray(labels.astype(np.uint64, copy=False) - np.uint64(low % 2**64), dtype=np.intp)


@dataclass(frozen=True)
class FullDataSolution:
    """A least-squares solution of all rows.

    Attributes
    ----------
    found : LeastSquaresSolution
        In shifted columns, which keep more digits.
    intercept : bool
        Whether the first column is the constant.
    observations : int
    """

    found: LeastSquaresSolution
    intercept: bool
    observations: int

    @property
    def width(self) -> int:
        """Columns, with the intercept."""
        return len(self.found.params)


@dataclass
class Scores(Consumer):
    """Sums of a scan at a solution.

    Parameters
    ----------
    solution : Solution
    kinds : tuple of str
        Of HC0, HC2, HC3 and cluster.
    """

    background = True

    solution: FullDataSolution
    kinds: tuple[str, ...]
    clusters: ClusterSums | None = field(default=None, init=False)
    rows: int = 0
    rss: float = 0.0
    size: float = 0.0  # the sum of squares of the response
    block: Array = field(init=False)  # x of the rows in work
    room: Array = field(init=False)  # scores that wait
    held: int = 0
    labels: list[np.ndarray] = field(default_factory=list, init=False)  # their clusters
    total: Array = field(init=False)
    sums: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        width = self.solution.width
        self.total = np.zeros(width)
        self.sums = {kind: np.zeros((width, width)) for kind in self.kinds if kind != "cluster"}
        if "cluster" in self.kinds:
            self.clusters = ClusterSums(width)
        self.block = np.empty((width, BLOCK))
        self.room = np.empty((width, 0 if self.clusters is None else WAITING))

    def add(self, chunk: Chunk, batch: Batch) -> None:
        *design, response = batch.parts
        for start in range(0, len(batch), BLOCK):
            some = slice(start, min(start + BLOCK, len(batch)))
            weights = None if batch.weights is None else batch.weights[some]
            x, weighted = self._add_block(
                design, response[some, 0].astype(float, copy=False), weights, some
            )
            if self.sums:
                self._add_squares(x, weighted, weights, some.start, chunk)
            if self.clusters is not None:
                assert batch.keys is not None
                if self.held + len(weighted) > self.room.shape[1]:
                    self.flush()
                np.multiply(x, weighted, out=self.room[:, self.held : self.held + len(weighted)])
                self.labels.append(batch.keys[some])
                self.held += len(weighted)
        self.rows += len(batch)

    def flush(self) -> None:
        """Add the scores that wait to their clusters: many at a time, because each time costs as
        much as there are clusters.
        """
        if self.clusters is not None and self.held:
            self.clusters.add(np.concatenate(self.labels), self.room[:, : self.held])
        self.held, self.labels = 0, []

    def __getstate__(self) -> dict[str, Any]:
        """For messages: without the room for scores that wait."""
        self.flush()
        return vars(self) | {"room": self.room[:, :0], "block": self.block[:, :0]}

    def _add_block(
        self, design: Sequence[Any], y: Array, weights: Array | None, some: slice
    ) -> tuple[Array, Array]:
        """The shifted columns x of some rows, and u e; their plain sums are added."""
        found, fixed = self.solution.found, int(self.solution.intercept)
        x = self.block[:, : len(y)]
        x[:fixed], place = 1.0, fixed
        for part in design:
            after = place + part.shape[1]
            np.subtract(part[some].T, found.shift[place:after, None], out=x[place:after])
            place = after
        first = found.shifted[0] if self.solution.intercept else 0.0
        error = y - first - found.shifted[fixed:] @ x[fixed:]
        weighted = error if weights is None else weights * error
        self.rss += float(error @ weighted)
        self.size += float(y @ (y if weights is None else weights * y))
        self.total += x @ weighted
        return x, weighted

    def _add_squares(
        self, x: Array, weighted: Array, weights: Array | None, start: int, chunk: Chunk
    ) -> None:
        """The sums of HC0, HC2 and HC3."""
        z = self.solution.found.whitening.T @ x
        factors: dict[str, Array | float] = {"HC0": 1.0}
        if "HC2" in self.sums or "HC3" in self.sums:
            leverage = np.einsum("ij,ij->j", z, z)
            rest = 1.0 - (leverage if weights is None else weights * leverage)
            if (rest < LEVERAGE).any():
                raise NotExactError(
                    f"{chunk.where(start + int(np.argmin(rest)))}, or a row near it, has leverage"
                    " 1: it is fitted exactly, and HC2 and HC3 are not defined; use HC0 or HC1, or"
                    " leave the term out that only this row has."
                )
            factors |= {"HC2": 1 / np.sqrt(rest), "HC3": 1 / rest}
        for kind in self.sums:
            scaled = z * (weighted * factors[kind])
            self.sums[kind] += scaled @ scaled.T

    def merge(self, other: Scores) -> None:
        """Add the sums of other rows."""
        self.rows, self.rss, self.total = (
            self.rows + other.rows,
            self.rss + other.rss,
            self.total + other.total,
        )
        self.size += other.size
        self.flush()
        other.flush()
        for kind, value in other.sums.items():
            self.sums[kind] += value
        if self.clusters is not None and other.clusters is not None:
            self.clusters.merge(other.clusters)

    def covariances(self) -> dict[str, Array]:
        """W M W' of every kind, without the corrections for small samples; refused if the rows were
        other ones.
        """
        self._check_same()
        self.flush()
        found = dict(self.sums)
        if self.clusters is not None:
            found["cluster"] = self.clusters.outer(self.solution.found.whitening)
        root = self.solution.found.root
        return {kind: root @ value @ root.T for kind, value in found.items()}

    def _check_same(self) -> None:
        """Refuse other rows than those of the solution: their residuals have another size, or do
        not cancel.
        """
        expected, observations = self.solution.found.rss, self.solution.observations
        # residuals that are rounding only say nothing
        tiny = EXACT * max(self.rss, expected, self.size)
        drift = float(np.linalg.norm(self.solution.found.whitening.T @ self.total)) ** 2
        if (
            self.rows == observations
            and abs(self.rss - expected) <= SAME * expected + tiny
            and drift <= SAME**2 * expected + tiny
        ):
            return
        raise InputError(
            f"These are not the rows that the coreset was made of: {self.rows:,} rows with a"
            f" residual sum of squares of {self.rss:.9g}, instead of {observations:,} with"
            f" {expected:.9g}. The data must be the same in every pass."
        )


def wanted_sums(kinds: Sequence[str]) -> tuple[str, ...]:
    """The sums that some covariances are made of."""
    return tuple(
        dict.fromkeys("HC0" if kind == "HC1" else kind for kind in kinds if kind != "nonrobust")
    )
