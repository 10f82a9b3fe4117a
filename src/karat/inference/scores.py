"""Scores: the pass at the solution that sums squared residuals times rows, from which robust
covariances follow.

With weights u, residuals e = y - x'b, and W such that the rows z = W'x have sum u z z' = 1 (so W W'
is the inverse of X'UX),

    HC0      W (sum u^2 e^2 z z') W'                                   HC1 = n / (n - k) HC0
    HC2      the same with e^2 / (1 - h),  h = u z'z the leverage      HC3 with e^2 / (1 - h)^2
    cluster  W (sum_g s_g s_g') W',  s_g = sum over its rows of u e z  times G / (G - 1) (n - 1) /
    (n - k)
    CR2, 3   leaving out clusters (:mod:`.submodels`)

Sums of z z' lose no digits, whatever the scales of the columns.  Sums by cluster are linear in z:
the pass sums u e x and multiplies by W' at the end: G products instead of n.  Only sums travel
between workers: k x k numbers, and G x k for G clusters.  The same pass counts the rows and sums
u e^2 and u e z.  These must agree with the coreset, which detects other data.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from karat.core.regression import (
    ADJUSTED,
    BY_CLUSTER,
    CLUSTERED,
    JOINT,
    PLAIN,
    Regression,
    answers,
    stage_prefix,
    stage_sums,
)
from karat.data.batch import Batch
from karat.engine.least_squares import LeastSquaresSolution
from karat.engine.linalg import Array
from karat.engine.products import Products
from karat.errors import InputError, NotExactError
from karat.inference.cluster_sums import ClusterSums, SumsByWay
from karat.inference.covariance import WHITENING, turned
from karat.inference.options import STATSMODELS, UNCORRECTED, SmallSample
from karat.inference.submodels import ProductSums, adjusted
from karat.io.scan import Consumer
from karat.io.source import Chunk

BLOCK = 2**12  # rows that are summed at a time, so that they stay in the cache
KEPT = 2**26  # bytes of the sums of all clusters that a file stores
WAITING = 2**20  # scores that are collected before they are added to their clusters
LEVERAGE = 1e-10  # 1 - h below which a row is fitted exactly, and HC2 and HC3 are 0 / 0
EXACT = 1e-24  # residuals this small, relative to the squares of the response, are rounding
ROUNDING = 2**10 * np.finfo(float).eps  # of sums over rows, which the condition multiplies
NOTHING = 1e-9  # an error this small, relative to the classical one, is rounding
FEW = 10  # clusters for which errors are known to be too small
SAME = 1e-6  # relative difference of sums that other data would exceed


@dataclass(frozen=True)
class FullDataSolution:
    """A least-squares solution of all rows.

    Attributes
    ----------
    estimate : LeastSquaresSolution
        In shifted columns, which keep more digits.
    intercept : bool
        Whether the first column is the constant.
    observations : int
    """

    estimate: LeastSquaresSolution
    intercept: bool
    observations: int

    @property
    def width(self) -> int:
        """The number of parameters, with the intercept."""
        return len(self.estimate.params)

    @property
    def columns(self) -> int:
        """The number of columns of the pass; with instruments there are more than parameters."""
        return len(self.estimate.shifted)


@dataclass
class Scores(Consumer):
    """The sums of robust covariances, over the rows of a scan.

    Parameters
    ----------
    solution : FullDataSolution
    kinds : tuple of str
        Any of HC0, HC2, HC3, cluster, CR2 and CR3.
    ways : int
        The number of columns of cluster labels.
    frequencies : bool
        Whether weights count rows, each with an error of its own.
    submodels : bool
        Whether products are summed, from which follow covariances of submodels.
    """

    background = True

    solution: FullDataSolution
    kinds: tuple[str, ...]
    ways: int = 0  # columns of cluster labels
    frequencies: bool = False
    submodels: bool = False
    products: ProductSums | None = field(default=None, init=False)
    clusters: SumsByWay = field(init=False)
    rows: float = 0
    rss: float = 0.0
    size: float = 0.0  # the sum of squares of the response
    block: Array = field(init=False)  # columns of the current block of rows
    total: Array = field(init=False)
    sums: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        width, columns = self.solution.width, self.solution.columns
        self.total = np.zeros(columns)
        squares = [kind for kind in self.kinds if kind not in BY_CLUSTER]
        self.sums = {kind: np.zeros((width, width)) for kind in squares}
        places = range(self.ways)
        subsets = [s for size in places for s in combinations(places, size + 1)]
        self.clusters = SumsByWay(columns, subsets if CLUSTERED in self.kinds else [], WAITING)
        if self.submodels or not ADJUSTED.keys().isdisjoint(self.kinds):
            single = self.submodels and "HC0" in self.kinds
            self.products = ProductSums(self.solution, single, subsets, self.frequencies)
        self.block = np.empty((columns, BLOCK))

    def add(self, chunk: Chunk, batch: Batch) -> None:
        *design, response = batch.parts
        for start in range(0, len(batch), BLOCK):
            rows = slice(start, min(start + BLOCK, len(batch)))
            weights = None if batch.weights is None else batch.weights[rows]
            x, weighted = self._add_block(
                design, response[rows, 0].astype(float, copy=False), weights, rows
            )
            if self.sums or self.products is not None:
                z = self.solution.estimate.whitening.T @ x
            if self.sums:
                self._add_squares(z, weighted, weights, start, chunk)
            if self.products is not None:
                labels = None if batch.keys is None else batch.keys[rows].columns
                self.products.add(z, weighted, weights, labels)
            if self.clusters.by_way:
                assert batch.keys is not None
                labels = batch.keys[rows].columns
                np.multiply(x, weighted, out=self.clusters.place(labels, len(weighted)))
        counts = batch.weights if self.frequencies else None
        self.rows += len(batch) if counts is None else float(counts.sum())

    def __getstate__(self) -> dict[str, Any]:
        """For messages between workers: without the block."""
        return vars(self) | {"block": self.block[:, :0]}

    def _add_block(
        self, design: Sequence[Any], y: Array, weights: Array | None, rows: slice
    ) -> tuple[Array, Array]:
        """Add u e^2 and u e x of some rows to the sums; return their shifted columns x, and u e."""
        estimate, fixed = self.solution.estimate, int(self.solution.intercept)
        x = self.block[:, : len(y)]
        x[:fixed], place = 1.0, fixed
        for part in design:
            after = place + part.shape[1]
            np.subtract(part[rows].T, estimate.shift[place:after, None], out=x[place:after])
            place = after
        error = (y - estimate.centre) - estimate.shifted @ x
        weighted = error if weights is None else weights * error
        self.rss += float(error @ weighted)
        self.size += float(y @ (y if weights is None else weights * y))
        self.total += x @ weighted
        return x, weighted

    def _add_squares(
        self, z: Array, weighted: Array, weights: Array | None, start: int, chunk: Chunk
    ) -> None:
        """The sums of HC0, HC2 and HC3, of whitened columns."""
        factors: dict[str, Array | float] = {"HC0": 1.0}
        if "HC2" in self.sums or "HC3" in self.sums:
            leverage = np.einsum("ij,ij->j", z, z)
            single = weights is None or self.frequencies
            rest = 1.0 - (leverage if single else weights * leverage)
            if (rest < LEVERAGE).any():
                raise NotExactError(
                    f"{chunk.where(start + int(np.argmin(rest)))}, or a row near it, has leverage"
                    " 1: it is fitted exactly, and HC2 and HC3 are not defined; use HC0 or HC1, or"
                    " remove the term that only this row has."
                )
            factors |= {"HC2": 1 / np.sqrt(rest), "HC3": 1 / rest}
        if self.frequencies and weights is not None:
            weighted = weighted / np.sqrt(weights)
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
        for kind, value in other.sums.items():
            self.sums[kind] += value
        self.clusters.merge(other.clusters)
        if self.products is not None and other.products is not None:
            self.products.merge(other.products)

    def covariances(self) -> dict[str, Array]:
        """M of every kind in whitened coordinates, without small-sample corrections; raises if the
        rows are not those of the coreset.
        """
        self._check_same()
        self.clusters.flush()
        middles = dict(self.sums)
        if self.clusters.by_way:
            middles[CLUSTERED] = self._clustered(STATSMODELS)
            if self.ways > 1:
                middles[PLAIN] = self._clustered(UNCORRECTED)
        for kind in ADJUSTED.keys() & self.kinds:
            assert self.products is not None
            estimate, products = self.solution.estimate, self.products.of_clusters
            everything = products.choice(
                range(self.solution.width), estimate.shift, estimate.whitening
            )
            middles[kind] = adjusted(products, everything, kind)
        return middles

    def _clustered(self, ssc: SmallSample) -> Array:
        whitening = self.solution.estimate.whitening
        if self.ways == 1:
            return self.clusters.by_way[0,].outer(whitening)
        middle = np.zeros((self.solution.width, self.solution.width))
        for subset, factor in self._factors(ssc).items():
            middle += factor * self.clusters.by_way[subset].outer(whitening)
        return middle

    def _factors(self, ssc: SmallSample) -> dict[tuple[int, ...], float]:
        """Of the sums over several ways of clustering, as Cameron, Gelbach and Miller have them:
        each way and each combination of ways with its own G / (G - 1), combinations of two
        subtracted, of three added.
        """
        return {
            subset: (1 if len(subset) % 2 else -1) * ssc.clusters(sums.count, self.counts)
            for subset, sums in self._groups.items()
        }

    def stored_products(self) -> dict[str, Products]:
        """The products of the covariances, by their names."""
        stored: dict[str, Products] = {}
        if self.products is None:
            return stored
        if self.products.single:
            stored["HC0"] = self.products.of_rows()
        if self.ways == 1:
            stored[CLUSTERED] = self.products.of_clusters
            if ADJUSTED.keys().isdisjoint(self.kinds) or stored[CLUSTERED].clusters.nbytes > KEPT:
                stored[CLUSTERED] = stored[CLUSTERED].without_clusters()
        elif self.ways:
            for kind, ssc in ((CLUSTERED, STATSMODELS), (PLAIN, UNCORRECTED)):
                stored[kind] = self.products.of_ways(self._factors(ssc))
        return stored

    @property
    def _groups(self) -> dict[tuple[int, ...], ClusterSums]:
        products = {} if self.products is None else self.products.clusters.by_way
        return self.clusters.by_way or products

    @property
    def counts(self) -> list[int]:
        """The number of clusters of each way."""
        return [self._groups[place,].count for place in range(self.ways)]

    def _check_same(self) -> None:
        """Raise if these are not the rows of the solution: the residuals of others have another
        sum of squares, or are not orthogonal to the columns.
        """
        estimate, observations = self.solution.estimate, self.solution.observations
        expected = estimate.rss
        # residuals that are rounding errors tell nothing
        tiny = EXACT * max(self.rss, expected, self.size)
        drift = float(np.linalg.norm(estimate.whitening.T @ self.total)) ** 2
        if (
            abs(self.rows - observations) < 0.5
            and abs(self.rss - expected) <= SAME * expected + tiny
            and drift <= SAME**2 * expected + tiny
        ):
            return
        condition = estimate.condition
        if abs(self.rows - observations) < 0.5 and drift <= (ROUNDING * condition) ** 2 * self.size:
            raise NotExactError(
                "The columns of the formula are nearly collinear (scaled to length one, their"
                f" condition number is {condition:.1g}), so residuals have too few digits for"
                " robust errors. Remove a column that others nearly determine, or center what"
                " enters powers and products."
            )
        raise InputError(
            f"These are not the rows that the coreset was made from: {self.rows:,.0f} rows with a"
            f" residual sum of squares of {self.rss:.9g}, instead of {observations:,} with"
            f" {expected:.9g}. The data must be the same in every pass."
        )


def wanted_sums(kinds: Sequence[str]) -> tuple[str, ...]:
    """The sums that the covariances are computed from."""
    return tuple(
        dict.fromkeys("HC0" if kind == "HC1" else kind for kind in kinds if kind != "nonrobust")
    )


def check_clusters(
    solution: FullDataSolution,
    names: Sequence[str],
    middle: Array,
    counts: Sequence[int],
    columns: Sequence[str],
    kinds: Sequence[str],
) -> None:
    """Refuse a single cluster and errors that are rounding, and warn about few clusters."""
    for name, number in zip(columns, counts, strict=True):
        if number < 2:
            raise InputError(
                f"The column {name!r} has a single cluster; a clustered covariance needs two or"
                " more.",
                column=name,
            )
    count = min(counts)
    root, estimate = solution.estimate.root, solution.estimate
    labels = ", ".join(map(repr, columns))
    classical = estimate.rss / (solution.observations - solution.width) * np.square(root).sum(1)
    clustered = np.einsum("ij,jk,ik->i", root, middle, root)
    exact_fit = estimate.rss <= EXACT * estimate.explained
    nothing = np.flatnonzero(np.abs(clustered) <= NOTHING**2 * classical)
    if len(nothing) and not exact_fit:
        raise NotExactError(
            f"The standard error of {names[nothing[0]]!r}, clustered by {labels}, is zero up to"
            " rounding: the residuals of each cluster that it depends on sum to zero, because the"
            " formula has a level for these clusters. Cluster by another column, or use"
            " cov_type='HC1'."
        )
    if count <= solution.width or count < FEW:
        reason = (
            f"no more than the {solution.width} coefficients"
            if count <= solution.width
            else f"fewer than {FEW}"
        )
        adjusted = [kind for kind in ADJUSTED if kind in kinds]
        by_t = f"use_t=True (t with {count - 1} degrees of freedom)"
        if CLUSTERED not in kinds:
            advice = (
                f"; {' and '.join(adjusted)} errors allow for that, and tests do with {by_t} or"
            )
            advice += " by wild_bootstrap()"
        elif len(columns) == 1:
            advice = ": errors of cov_type='cluster' are too small. For few clusters there are"
            advice += f" cov_type='CR3' with {by_t}, and wild_bootstrap()"
        else:
            advice = (
                f": errors of cov_type='cluster' are too small; tests allow for a part with {by_t}"
            )
        warnings.warn(
            f"There are {count} clusters of {labels}, {reason}{advice}. Joint tests of more"
            " coefficients than clusters are not defined.",
            UserWarning,
            stacklevel=6,
        )


def with_sums(
    regression: Regression,
    consumer: Any,
    solutions: Sequence[LeastSquaresSolution],
    columns: Sequence[str],
) -> Regression:
    """The regression with new sums of robust covariances; sums of other kinds stay.

    ``solutions`` are those of the stages of the consumer, in columns of the data.
    """
    scores, *first = getattr(consumer, "stages", [consumer])
    sums, products = scores.covariances(), scores.stored_products()
    covariances: dict[str, Any] = {kind: {} for kind in [*sums, *products]}
    if columns:
        described = {
            "column": JOINT.join(columns), "clusters": min(scores.counts), "counts": scores.counts,
        }  # fmt: skip
        by_cluster = [kind for kind in BY_CLUSTER if kind in covariances]
        covariances |= dict.fromkeys(by_cluster, described)
        names, middle = (
            answers(regression)["columns"],
            next(sums[k] for k in BY_CLUSTER if k in sums),
        )
        check_clusters(scores.solution, names, middle, scores.counts, columns, scores.kinds)
    covariances = regression.facts["covariances"] | covariances
    stored: dict[str, Array] = {}
    for place, new in enumerate([sums, *(each.covariances() for each in first)]):
        solution = solutions[place]
        held = turned(stage_sums(regression.sums, place), solution) | new
        held[WHITENING] = solution.whitening
        stored |= {stage_prefix(place) + name: value for name, value in held.items()}
    facts = regression.facts | {"covariances": covariances}
    return Regression(facts, stored, regression.products | products)
