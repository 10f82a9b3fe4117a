"""Problems as the judges see them: which base variables, which power, whether the total weight is
kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from factory import Data, data
from oracles import EPS, PowerJudge, White, monomials, rank, whiten

from karat import problems
from karat.problems import Problem

METHODS = ("auto", "onepass", "tree", "caratheodory")


def half(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Every second combination of three or more axes: any values of two of them still meet."""
    numbered = product(*(list(enumerate(axis)) for axis in axes))
    return [tuple(value for _, value in one) for one in numbered if sum(i for i, _ in one) % 2 == 0]


def by_turns(tags: Iterable[str], cases: Iterable[str]) -> list[tuple[str, str, str]]:
    """Every data set with every problem, reduced as users do it and in one of the other ways by
    turns.
    """
    pairs = [(i + j, tag, case) for i, tag in enumerate(tags) for j, case in enumerate(cases)]
    return [
        (tag, case, method)
        for turn, tag, case in pairs
        for method in ("auto", METHODS[1 + turn % 3])
    ]


@dataclass(frozen=True)
class Case:
    problem: Problem
    degree: int
    affine: bool
    total: bool
    target: bool

    def table(self, made: Data) -> np.ndarray:
        return np.column_stack([made.dense, made.y]) if self.target else made.dense

    def kept(self, core) -> np.ndarray:
        X, y = core.arrays()
        return np.column_stack([X, y]) if self.target else X


def regression(problem: Problem, degree: int) -> Case:
    return Case(problem, degree, problem.fit_intercept, problem.total_weight is not False, True)


CASES: dict[str, Case] = {
    "least_squares": regression(problems.LeastSquares(), 2),
    "least_squares_no_intercept": regression(problems.LeastSquares(fit_intercept=False), 2),
    "least_squares_conic": regression(
        problems.LeastSquares(fit_intercept=False, total_weight=False), 2
    ),
    "ridge": regression(problems.Ridge(3.0), 2),
    "moments_1": Case(problems.Moments(1), 1, True, True, False),
    "moments_2": Case(problems.Moments(2), 2, True, True, False),
    "moments_3": Case(problems.Moments(3), 3, True, True, False),
    "contraction_2": Case(problems.TensorContraction(2), 2, False, True, False),
    "contraction_3": Case(problems.TensorContraction(3), 3, False, True, False),
    "contraction_3_conic": Case(
        problems.TensorContraction(3, total_weight=False), 3, False, False, False
    ),
    "l4": regression(problems.LpRegression(4), 4),
    "l4_no_intercept": regression(problems.LpRegression(4, fit_intercept=False), 4),
    "l6_no_intercept": regression(problems.LpRegression(6, fit_intercept=False), 6),
    "l6_conic": regression(problems.LpRegression(6, fit_intercept=False, total_weight=False), 6),
}


@cache
def whitened(tag: str, case: str) -> White:
    made, spec = data(tag), CASES[case]
    return whiten(spec.table(made), made.mass, spec.affine)


@cache
def independent_rank(tag: str, case: str) -> int:
    made, spec = data(tag), CASES[case]
    features = monomials(whitened(tag, case)(spec.table(made)), spec.degree)
    return rank(features, made.mass, spec.total)


@cache
def judge(tag: str, case: str) -> PowerJudge:
    made, spec = data(tag), CASES[case]
    return PowerJudge(
        whitened(tag, case),
        spec.table(made),
        made.mass,
        spec.degree,
        3000 if len(made.y) < 5000 else 400,
    )


def allowed_error(white: White, degree: int) -> float:
    """1e-12 for degree 2, 1e-10 above; but no less than what the rounding of the data itself does.

    With a constant that is one unit in the last place of shifted data; without one nothing may be
    shifted, and it is more.
    """
    floor = 1e-12 if degree <= 2 else 1e-10
    return max(floor, (1 if white.affine else 100) * EPS * white.condition)
