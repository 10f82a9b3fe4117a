"""What the passes over a panel found: the solution, sums for covariances, and the effects."""

from __future__ import annotations

from dataclasses import dataclass

from karat.engine.least_squares import LeastSquaresSolution
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.products import Products
from karat.formulas.design import Design
from karat.panels.errors import ClusterMiddles, Parameters
from karat.panels.levels import JointLevels
from karat.panels.rows import PanelPlan
from karat.panels.solve import AbsorbedEffects


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
