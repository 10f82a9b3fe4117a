"""The pass that sums products of columns by cluster, from which follow covariances of any submodel
(:mod:`karat.engine.products`), the wild bootstrap (:mod:`.bootstrap`) and the jackknife of
clusters.

In orthonormal columns let A_g be the products of the columns in cluster g, and s_g their scores, so
that sum A_g = 1 and sum s_g = 0.  The parameters without cluster g differ from those of all by
d_g = (1 - A_g)^-1 s_g, up to the sign, whatever the rows of g are; and CR3 is sum over g d_g d_g'.
CR2 has (1 - A_g)^-1/2 there: with X_g the orthonormal columns of the rows of g and their leverages
H_g = X_g X_g', the adjusted scores X_g'(1 - H_g)^-1/2 e_g are (1 - X_g'X_g)^-1/2 X_g'e_g.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from karat.core.regression import ADJUSTED
from karat.engine.linalg import Array
from karat.engine.products import EPS, Choice, Products, product_count, products
from karat.errors import NotExactError
from karat.inference.cluster_sums import SumsByWay

BUDGET = 2**30  # bytes of sums of clusters, or of their products
WAITING = 2**23  # sums that are collected before they are added to their clusters
MOST_SINGLE = 13  # columns for which products of single rows are summed
BLOCK = 2**12  # clusters whose matrices are made at a time
ALONE = 1e-7  # 1 - eigenvalue of A_g below which a coefficient is not defined without the cluster
LEAST = 1e-8  # relative error of a variance from which on it is refused


@dataclass
class ProductSums:
    """Sums of products at a solution.

    Parameters
    ----------
    solution : FullDataSolution
    single : bool
        Whether every row is a cluster, for HC0 and HC1.
    subsets : sequence of tuples
        The ways of clustering, and their combinations.
    frequencies : bool
        Whether weights count rows.
    """

    solution: Any
    single: bool
    subsets: Sequence[tuple[int, ...]]
    frequencies: bool
    clusters: SumsByWay = field(init=False)
    totals: Array = field(init=False)
    squares: Array = field(init=False)

    def __post_init__(self) -> None:
        width = self.solution.width
        size = product_count(width)
        if self.single:
            self._check_single()
        self._check_memory(size, size)
        self.totals = np.zeros(size)
        self.squares = np.zeros((size, size) if self.single else (0, 0))
        check = partial(self._check_memory, size)
        self.clusters = SumsByWay(size, self.subsets, WAITING // size, near=False, check=check)

    def _check_single(self) -> None:
        if self.solution.width > MOST_SINGLE:
            raise NotExactError(
                f"submodels=True with HC0 or HC1 is for up to {MOST_SINGLE} columns, and there are"
                f" {self.solution.width}: the products of all of them would be squared for every"
                " row. Use cov_type='cluster', or remove terms."
            )

    def put_single(self, totals: Array, squares: Array) -> None:
        """Take the sums over single rows, of residuals as they are."""
        self._check_single()
        size = np.ones(len(totals))
        size[-self.solution.width :] /= self.scale
        self.single, self.totals = True, totals * size
        self.squares = squares * size[:, None] * size

    @staticmethod
    def _check_memory(size: int, many: int) -> None:
        if size * many * 8 > BUDGET:
            raise NotExactError(
                f"The sums of products of {many:,} clusters have {size:,} numbers each, more than"
                f" {BUDGET / 2**30:.0f} GiB in all. Use fewer terms or larger clusters, or leave"
                " out submodels=True, CR2 and CR3."
            )

    def add(self, z: Array, weighted: Array, weights: Array | None, labels: Any) -> None:
        """Add rows: their whitened columns, u e, u, and labels of clusters."""
        part = products(z, weights, weighted / self.scale, self.clusters.place(labels, z.shape[1]))
        self.totals += part.sum(axis=1)
        if self.single:
            if self.frequencies and weights is not None:
                part = part / np.sqrt(weights)
            self.squares += part @ part.T

    def merge(self, other: ProductSums) -> None:
        """Add the sums of other rows."""
        self.totals += other.totals
        self.squares += other.squares
        self.clusters.merge(other.clusters)

    @property
    def scale(self) -> float:
        """The length of the residuals, or of the response where these are rounding."""
        estimate = self.solution.estimate
        return float(np.sqrt(max(estimate.rss, 1e-24 * estimate.explained)) or 1)

    def of_rows(self) -> Products:
        """The products of single rows."""
        return self._products(self.squares, np.empty((len(self.totals), 0)))

    @cached_property
    def of_clusters(self) -> Products:
        """The products of the clusters of one way, with the sums of each."""
        self.clusters.flush()
        (clusters,) = self.clusters.by_way.values()
        return self._products(clusters.outer(), clusters.sums[:, clusters.seen])

    def of_ways(self, factors: dict[tuple[int, ...], float]) -> Products:
        """The sum of the products of several ways, each with its sign and factor."""
        self.clusters.flush()
        size = len(self.totals)
        squares = np.zeros((size, size))
        for subset, factor in factors.items():
            squares += factor * self.clusters.by_way[subset].outer()
        return self._products(squares, np.empty((size, 0)))

    def _products(self, squares: Array, clusters: Array) -> Products:
        estimate, width = self.solution.estimate, self.solution.width
        basis = np.zeros((width + 1, width + 1))
        basis[:width, :width] = estimate.whitening
        basis[:width, width] = -estimate.shifted / self.scale
        basis[width, width] = 1 / self.scale
        return Products(
            np.append(estimate.shift, estimate.centre), basis, self.totals, squares, clusters
        )


def adjusted(products: Products, choice: Choice, kind: str) -> Array:
    """The sum of CR2 or CR3 over clusters, for the whitened columns of a choice."""
    size = choice.columns.shape[1]
    total = np.zeros((size, size))
    for start in range(0, products.clusters.shape[1], BLOCK):
        squares, scores = products.scores(choice, slice(start, start + BLOCK))
        values, vectors = np.linalg.eigh(squares)
        rest = 1.0 - values
        if (rest < ALONE).any():
            raise NotExactError(
                f"{kind} leaves out one cluster at a time, and without one of them a coefficient is"
                " not defined, as where a column is zero in all other clusters. Use"
                " cov_type='cluster', or remove the column."
            )
        if EPS * choice.condition > LEAST * rest.min():
            raise NotExactError(
                "The columns are nearly collinear, or the residuals are rounding errors, so"
                f" {kind} has too few digits. Remove a column that others nearly determine."
            )
        turned = np.einsum("gij,gi->gj", vectors, scores) * rest ** ADJUSTED[kind]
        moved = np.einsum("gij,gj->gi", vectors, turned)
        total += moved.T @ moved
    return np.asarray(choice.turn @ total @ choice.turn.T)
