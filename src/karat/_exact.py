"""Which estimators give the full data's answer on a coreset: only those listed, for the problems listed.

An estimator belongs here if its fitted answer depends on the data only through moments that the problem keeps.  Everything
else is refused: a Huber fit on a least-squares coreset is silently 13 % off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import NotExactError
from karat.problems import LeastSquares, LpRegression, Moments, Ridge

if TYPE_CHECKING:
    from karat._coreset import Coreset

SECOND_MOMENTS = {"LinearRegression", "Ridge", "Lasso", "ElasticNet"}
STOCHASTIC = {"sag", "saga"}


def fit_exactly(core: Coreset, estimator: Any) -> Any:
    """Fit on the kept rows with their weights, or refuse with a sentence."""
    name = type(estimator).__name__
    home = type(estimator).__module__.split(".")[0]
    problem = core.problem
    if home != "sklearn" or name not in SECOND_MOMENTS:
        raise NotExactError(
            f"{name} is not known to depend on kept moments only, so its fit on a coreset may differ from the full data's. "
            f"Known: {', '.join(sorted(SECOND_MOMENTS))}. To accept that, fit it with sample_weight=core.weights."
        )
    if core.y is None:
        raise NotExactError(f"{name} needs a target, but the coreset was built without y.")
    if not _keeps_squares(core):
        raise NotExactError(
            f"{name} needs the squared loss, which a coreset of {problem.describe()} does not keep; use LeastSquares()."
        )
    if core._correction is not None:
        raise NotExactError(f"A part of the data was absorbed into the regulariser; use problem.solve(core) instead of {name}.")
    if getattr(estimator, "solver", None) in STOCHASTIC:
        raise NotExactError(
            f"{name} with solver={estimator.solver!r} visits rows at random and diverges on uneven weights; "
            "choose another solver."
        )
    if getattr(estimator, "fit_intercept", False) and not getattr(problem, "fit_intercept", True):
        raise NotExactError(
            f"{name} fits an intercept, but {problem.describe()} kept no first moments; build with fit_intercept=True."
        )
    if not problem.keeps_total and name in ("Lasso", "ElasticNet"):
        raise NotExactError(
            f"{name} divides its loss by the total weight, which this coreset does not keep; build with total_weight=True."
        )
    return estimator.fit(core.X, core.y, sample_weight=core.weights)


def _keeps_squares(core: Coreset) -> bool:
    problem = core.problem
    if isinstance(problem, LpRegression):
        return problem.p == 2 or problem.fit_intercept  # degree <= p in (x, y) includes the squares
    return isinstance(problem, LeastSquares | Ridge) or (isinstance(problem, Moments) and problem.degree >= 2)
