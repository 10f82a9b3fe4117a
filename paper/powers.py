"""l_p regression for p = 4 and 6; the paper claims it and does not run it.

The features of the loss ``sum_i |x_i . w + b - y_i|^p + lambda |w|_p^p`` are all monomials of
degree p, binom(d+1+p, p) with an intercept.  The regulariser may absorb a part of the data, as for
ridge.  (The paper's sign tensor does not exist for p = 6: an odd number of orderings cannot be
split into as many +1 as -1.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

import karat
from karat.engine.linalg import Array
from karat.problems import LpRegression
from karat.problems.absorb.minimise import minimise_power
from karat.report.display import CORE, FULL, OTHER
from paper.data import CLASSES, Labelled
from paper.drawing import finish, new_drawing
from paper.measure import difference, seconds
from paper.result import Experiment, Figure, Table
from paper.settings import Settings

# power and number of columns
CASES = {"Iris": (4, 3), "Yeast": (4, 4), "Breast cancer": (4, 3), "Glass": (6, 2)}
LAMBDA = 1.0
SIZES = (1000, 10_000, 100_000, 1_000_000)  # numbers of rows; quick runs leave the last one out


def columns_of(data: Labelled, d: int) -> tuple[Array, Array]:
    """Take the d columns of largest relative spread, each divided by its standard deviation."""
    spread = data.X.std(axis=0) / np.abs(data.X).max(axis=0)
    X = data.X[:, np.sort(np.argsort(-spread, kind="stable")[:d])]
    return X / X.std(axis=0), data.y


def full_minimiser(X: Array, y: Array, p: int) -> Array:
    """Minimise the l_p loss of all rows."""
    solution = minimise_power(X, y, np.ones(len(y)), p, LAMBDA, True)
    return np.append(solution.coef, solution.intercept)


def compare(name: str, data: Labelled, p: int, d: int) -> list[Any]:
    """Compare sizes for the three values of absorb, coefficients and losses: a row of the table."""
    X, y = columns_of(data, d)
    expected = full_minimiser(X, y, p)
    sizes, worst = [], 0.0
    for absorb in (None, "diagonal", "box"):
        problem = LpRegression(p, LAMBDA, absorb=absorb)
        core = karat.coreset(X, y, problem)
        solution = problem.solve(core)
        worst = max(worst, difference(np.append(solution.coef, solution.intercept), expected))
        sizes.append(len(core))
        if absorb is None:
            kept, proof = core, core.certificate
    slow = seconds(lambda: full_minimiser(X, y, p))
    fast = seconds(lambda: LpRegression(p, LAMBDA).solve(kept))
    return [
        name,
        p,
        f"{len(y):,} x {d}",
        comb(d + 1 + p, p),
        *sizes,
        worst,
        proof.loss_error,
        f"{slow / fast:.1f} x",
    ]


def large(settings: Settings, sizes: Sequence[int]) -> tuple[Table, Figure]:
    """Measure sizes and times for growing n."""
    rng = np.random.default_rng(0)
    p, d = 4, 3
    rows: list[list[Any]] = []
    for n in sizes:
        settings.say(f"{n:,} rows")
        X = rng.standard_normal((n, d))
        y = X @ np.arange(1.0, d + 1) + rng.standard_t(9, n)
        core = karat.coreset(X, y, LpRegression(p, LAMBDA))
        solution, expected = LpRegression(p, LAMBDA).solve(core), full_minimiser(X, y, p)
        rows.append([
            n, len(core), difference(np.append(solution.coef, solution.intercept), expected),
            seconds(lambda: full_minimiser(X, y, p)),  # noqa: B023
            seconds(lambda: karat.coreset(X, y, LpRegression(p, LAMBDA))),  # noqa: B023
            seconds(lambda: LpRegression(p, LAMBDA).solve(core)),  # noqa: B023
        ])  # fmt: skip
    drawing = new_drawing(6.5, 4)
    panel = drawing.subplots()
    names = ["fit on all rows", "build the coreset", "fit on the coreset"]
    for place, (name, (colour, mark)) in enumerate(
        zip(names, ((FULL, "o"), (CORE, "s"), (OTHER[0], "^")), strict=True)
    ):
        panel.loglog(
            [row[0] for row in rows],
            [row[3 + place] for row in rows],
            marker=mark,
            color=colour,
            label=name,
        )
    finish(
        panel,
        f"l_{p} regression, d = {d}, {rows[-1][1]} rows kept",
        xlabel="rows",
        ylabel="seconds",
    )
    panel.legend(frameon=False)
    columns = [
        "rows",
        "rows kept",
        "difference of the coefficients",
        *(f"{name}, seconds" for name in names),
    ]
    return Table(
        "lp_large", f"l_{p} regression on Gaussian columns with heavy-tailed noise", columns, rows
    ), Figure("lp_large", f"l_{p} regression: time against n", drawing)


def run(settings: Settings, sizes: Sequence[int] = SIZES) -> Experiment:
    missing: list[str] = []
    rows = [
        compare(name, data, *CASES[name])
        for name, data in settings.each(CLASSES, settings.source.classes, missing)
    ]
    table, figure = large(settings, sizes[:-1] if settings.quick else sizes)
    columns = [
        "data set", "p", "full data", "bound, binom(d+1+p, p)", "rows", "rows, absorb='diagonal'",
        "rows, absorb='box'", "difference of the coefficients", "worst loss error, every query",
        "training speed-up",
    ]  # fmt: skip
    return Experiment(
        "l_p regression, p = 4 and 6",
        [
            (
                "The paper proves a coreset for l_p regression with an even p and does not run it."
                f" The minimiser of the regularised l_p loss (lambda = {LAMBDA:g}, with an"
                " intercept) from the coreset is that of all rows, for every value of absorb."
            ),
        ],
        [Table("lp", f"Real data, lambda = {LAMBDA:g}", columns, rows), table],
        [figure],
        [
            (
                "The columns are the few of largest spread, divided by their standard deviations."
                " With all 8 columns of Yeast the bound for p = 4 would be 715 rows."
            ),
            (
                "A size below the bound means that the features have a lower rank: a column with"
                " few different values has fewer independent powers."
            ),
        ],
        missing=missing,
    )
