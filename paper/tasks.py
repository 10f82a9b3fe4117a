"""The tasks of the comparison: data, karat's coreset, and the error of a model trained on some
weighted rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import karat
from karat import models, problems
from karat.core.construct import read_sample
from karat.engine.linalg import Array, Indices
from karat.errors import InputError
from karat.problems.absorb.minimise import minimise_power
from karat.report.latent import relative_error
from paper import ica, mixtures, topics
from paper.data import MissingDataError
from paper.measure import difference, real_data
from paper.samplers import Choice, Views, leverage_scores, lightweight, standardised
from paper.settings import Settings

ROWS = 10_000


@dataclass(frozen=True)
class Task:
    """A model to train, with its data."""

    title: str
    views: Views
    build: Callable[[], Choice]  # builds karat's coreset: indices and weights
    # from indices and weights to the relative error of the model's parameters against those of all
    # rows, and the excess of its loss on all rows over the minimum (NaN for models without a loss)
    error: Callable[[Indices, Array], tuple[float, float]]


def choice(core: karat.Coreset) -> Choice:
    """The kept rows and their weights."""
    assert core.indices is not None
    return core.indices, core.weights


def products(table: Array, degree: int) -> Array:
    """All monomials of the columns up to a degree, the constant first."""
    from sklearn.preprocessing import PolynomialFeatures

    return np.asarray(PolynomialFeatures(degree).fit_transform(table))


def regression(p: int, X: Array, y: Array, title: str) -> Task:
    """Make a task of l_p regression with an intercept; p = 2 is ridge regression."""
    problem = problems.LpRegression(p, 1.0) if p > 2 else problems.Ridge(1.0)
    X, y = standardised(X), standardised(y[:, None])[:, 0]
    table = np.column_stack([X, y])

    def train(rows: Array, targets: Array, weights: Array) -> Array:
        solution = minimise_power(rows, targets, weights, p, 1.0, True)
        return np.append(solution.coef, solution.intercept)

    def loss(coefficients: Array) -> float:
        return problem.loss(X, y, np.ones(len(y)), coefficients)

    expected = train(X, y, np.ones(len(y)))
    least = loss(expected)

    def error(index: Indices, weights: Array) -> tuple[float, float]:
        found = train(X[index], y[index], weights)
        # a negative excess is rounding
        return difference(found, expected), max(0.0, loss(found) / least - 1.0)

    affine = np.column_stack([np.ones(len(y)), table])
    # The largest share of a row in an l_p loss is at most its leverage among the monomials of
    # degree p/2.
    views = Views(
        table,
        leverage_scores(affine[:, :-1]),
        leverage_scores(products(table, p // 2)),
        products(table, p)[:, 1:],
    )
    return Task(title, views, lambda: choice(karat.coreset(X, y, problem)), error)


def latent(
    X: Array, problem: Any, learner: Any, components: Callable[[Any], Array], title: str
) -> Task:
    """Make a task of a latent-variable model; every sampler is given the whitening of the full
    data.
    """
    core = karat.coreset(X, problem=problem)
    with real_data():
        expected = components(learner().fit(X))

    def error(index: Indices, weights: Array) -> tuple[float, float]:
        rows, place = np.unique(index, return_inverse=True)
        merged = np.bincount(place, weights).astype(float)
        with real_data():
            try:
                found = learner().fit_coreset(
                    replace(core, indices=rows, weights=merged, X=X[rows])
                )
            except InputError:  # the rows have too few components
                return float("nan"), float("nan")
        return relative_error(expected, components(found)), float("nan")

    sample, _ = read_sample(X, problem, None, None)
    kernel = problem.known_kernel(core.maps)
    rows = sample.rows(problem.reader(core.maps, problem.keep), kernel.columns)
    # the last one is the constant
    features = kernel.features(rows.take(np.arange(len(X)), np.zeros(rows.columns)))[:, :-1]
    views = Views(standardised(X), leverage_scores(X - X.mean(axis=0)), lightweight(X), features)
    return Task(title, views, lambda: choice(karat.coreset(X, problem=problem)), error)


def regression_rows(settings: Settings, columns: int) -> tuple[Array, Array, str]:
    """Draw 10,000 rows of Covertype, Elevation against other numeric columns; synthetic rows if it
    is missing.
    """
    rng = np.random.default_rng(0)
    try:
        table = settings.source.covertype()
    except MissingDataError:
        X = rng.standard_normal((ROWS, columns)) @ (
            np.eye(columns) + 0.5 * rng.standard_normal((columns, columns))
        )
        return X, X.sum(axis=1) + rng.standard_t(5, ROWS), "made-up rows"
    table = table[rng.permutation(len(table))[:ROWS], :10]
    return table[:, 1 : 1 + columns], table[:, 0], "Covertype"


def _regression(settings: Settings, p: int, columns: int, name: str) -> Task:
    X, y, source = regression_rows(settings, columns)
    return regression(p, X, y, f"{name}, d = {columns}, {source}")


def _topics(settings: Settings) -> Task:
    X, _, _ = topics.counts(settings.source.documents())
    X = X[X.sum(axis=1) >= 3]  # shorter documents have no triple of words
    return latent(
        X,
        problems.SingleTopic(3),
        lambda: models.SingleTopic(3),
        lambda model: np.asarray(model.topics_),
        "topics, k = 3, arXiv",
    )


TASKS: dict[str, Callable[[Settings], Task]] = {
    "ridge": lambda settings: _regression(settings, 2, 9, "ridge regression"),
    "l4": lambda settings: _regression(settings, 4, 3, "l_4 regression"),
    "mixture": lambda _: latent(
        mixtures.synthetic(),
        problems.GaussianMixture(3),
        lambda: models.GaussianMixture(3, refine=None),
        lambda model: np.asarray(model.means_),
        "mixture, k = 3, d = 30, synthetic",
    ),
    "topics": _topics,
    "ica": lambda _: latent(
        ica.signals(ROWS, np.random.default_rng(2))[0],
        ica.MODEL.problem(),
        ica.MODEL.learner,
        ica.MODEL.components,
        "independent components, k = 4, synthetic",
    ),
}
