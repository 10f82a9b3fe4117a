"""What the passes over a panel found: the solution, the effects, and what its covariances need.

With n rows, k regressors, and L levels of F effects in all (singletons left out):

    effects      sum L - (F - 1); with k_fixef_exact the rank of their indicators, which for two
                 effects is sum L - components of the graph of pairs
    K            k + effects; clustered: less the levels of nested effects, plus their number
    classical    RSS / (n - K);   HC1  n / (n - K)
    clustered    G / (G - 1) (n - 1) / (n - K);  t with G - 1, the smallest G of several ways

These are the conventions of fixest and pyfixest (:mod:`karat.inference.options` has the switches).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from karat.engine.least_squares import LeastSquaresSolution
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.products import Products
from karat.errors import InputError, NotExactError
from karat.formulas.design import Design
from karat.inference.options import SmallSample
from karat.panels.levels import JointLevels
from karat.panels.rows import PanelPlan
from karat.panels.scores import ClusterScores
from karat.panels.solve import AbsorbedEffects

MOST_DENSE = 2_000  # levels of three or more effects whose rank can be found


@dataclass(frozen=True)
class Parameters:
    """How many parameters a panel has.

    Attributes
    ----------
    rows : int
    regressors : int
    levels : tuple of int
        Of each effect.
    nested : tuple of bool
        Whether each effect is nested in clusters.
    rank : int or None
        The rank of the indicators of all levels, where it is known.
    """

    rows: int
    regressors: int
    levels: tuple[int, ...]
    nested: tuple[bool, ...]
    rank: int | None

    def absorbed(self, exact: bool) -> int:
        """The parameters that effects count as."""
        if not exact:
            return sum(self.levels) - (len(self.levels) - 1)
        if self.rank is None:
            raise NotExactError(
                "k_fixef_exact=True needs the rank of the indicators of three or more fixed"
                f" effects, which is computed up to {MOST_DENSE:,} levels; leave it out."
            )
        return self.rank

    def count(self, ssc: SmallSample, clustered: bool) -> int:
        """K: the parameters that corrections count."""
        if ssc.k_fixef == "none":
            return self.regressors
        absorbed = self.absorbed(ssc.k_fixef_exact)
        if clustered and ssc.k_fixef == "nonnested":
            inside = [size for size, nested in zip(self.levels, self.nested, strict=True) if nested]
            absorbed += len(inside) - sum(inside)
        return self.regressors + absorbed

    def residual_degrees(self, ssc: SmallSample) -> int:
        """n - k - effects."""
        return self.rows - self.count(ssc, clustered=False)


@dataclass(frozen=True)
class ClusterMiddles:
    """The sums over clusters of each combination of ways, and the numbers of clusters."""

    middles: dict[tuple[int, ...], Array]
    counts: dict[tuple[int, ...], int]

    @staticmethod
    def of(clusters: dict[tuple[int, ...], ClusterScores], turn: Array) -> ClusterMiddles:
        """From the sums of a pass; ``turn`` changes their coordinates."""
        return ClusterMiddles(
            {ways: turn.T @ sums.middle @ turn for ways, sums in clusters.items()},
            {ways: sums.count for ways, sums in clusters.items()},
        )

    @property
    def ways(self) -> list[int]:
        """The number of clusters of each way."""
        return [count for ways, count in self.counts.items() if len(ways) == 1]

    def middle(self, ssc: SmallSample) -> Array:
        """The sum over all combinations, with the factors G / (G - 1)."""
        parts = [
            (1 if len(ways) % 2 else -1) * ssc.clusters(self.counts[ways], self.ways) * middle
            for ways, middle in self.middles.items()
        ]
        return np.asarray(sum(parts))


def check_cluster_counts(names: Sequence[str], clusters: ClusterMiddles) -> None:
    """Raise if a way of clustering has a single cluster."""
    for name, count in zip(names, clusters.ways, strict=True):
        if count < 2:
            raise InputError(
                f"The column {name!r} has a single cluster; a clustered covariance needs two or"
                " more.",
                column=name,
            )


@dataclass(frozen=True)
class PanelModel:
    """What the passes found.

    Attributes
    ----------
    names, dropped : list of str
        Regressors with a coefficient, and those left out as combinations.
    solution : LeastSquaresSolution
        Of the columns less their effects.
    middles : dict of arrays
        Of HC0, HC2, HC3, CR2 and CR3, in whitened coordinates.
    products : Products or None
        The sums of every cluster, for the wild bootstrap.
    singletons, missing : int
        Rows that were left out: alone in a level, or without a value.
    total, within : float
        Sums of squares of the response less its mean, and less its effects.
    levels, counts : lists
        The levels of every effect, and the rows of each; 0 where it was left out.
    components : array or None
        Of two effects, the connected component of each level (-1 where it was left out).
    absorbed : AbsorbedEffects
        The effects of all columns, the response last.
    shift : array
        Subtracted from all columns first.
    chosen : array of bool
        Which columns are used: the regressors, and the response last.
    """

    formula: str
    design: Design
    plan: PanelPlan
    names: list[str]
    dropped: tuple[str, ...]
    solution: LeastSquaresSolution
    middles: dict[str, Array]
    products: Products | None
    clusters: ClusterMiddles
    parameters: Parameters
    total: float
    within: float
    log_weights: float
    singletons: int
    missing: int
    absorbed: AbsorbedEffects
    levels: list[JointLevels]
    counts: list[Indices]
    components: Indices | None
    shift: Array
    chosen: Flags
