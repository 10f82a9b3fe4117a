"""What problems have in common: which of them keep all second moments."""

from __future__ import annotations

from karat.problems.base import Problem
from karat.problems.moments import Moments
from karat.problems.regression import LeastSquares, LpRegression, Ridge


def keeps_squares(problem: Problem) -> bool:
    """Whether all second moments of columns and target are kept."""
    if isinstance(problem, LpRegression):
        return problem.p == 2 or problem.fit_intercept  # degree <= p in (x, y) includes the squares
    return isinstance(problem, LeastSquares | Ridge) or (isinstance(problem, Moments) and problem.degree >= 2)
