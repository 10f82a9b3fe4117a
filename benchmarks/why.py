"""(h) "Why not just X'X?": the same models from all rows, from a coreset, and from a Gram matrix by
hand.

The times include the construction of the coreset and of the Gram matrix.  The rows of the Cholesky
factor of X'X can be passed to a solver that takes rows, as in :func:`root_rows`, which is hard to
beat for one kind of model.  X'X has no other powers or features, and every centring, scaling and
choice of columns must be derived by hand.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from data import correlated
from report import Line, Report
from sizes import Sizes
from sklearn.linear_model import Lasso, LinearRegression, Ridge, lasso_path
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from timing import interleaved

import karat
from karat.problems import Moments

Array = np.ndarray
Route = Callable[[], Array]
FULL, CORE, GRAM = "all rows", "karat, construction counted", "X'X by hand, product counted"
ALPHAS = np.geomspace(3.0, 3e-3, 100)
TOLERANCE = 1e-10


def why(report: Report, sizes: Sizes) -> None:
    X, y = correlated(sizes.rows, sizes.columns)
    subsets = [
        np.sort(np.random.default_rng(s).choice(sizes.columns, 5, replace=False)) for s in range(20)
    ]
    _compare(report, sizes, "least squares, once", _ols(X, y))
    _compare(report, sizes, "lasso path, 100 alphas", _path(X, y))
    _compare(report, sizes, "20 pipelines, 5 columns each", _pipelines(X, y, subsets))
    _compare(
        report,
        sizes,
        "degree 1 and 2, 8 pipelines",
        _polynomials(X[:, :5].copy(), y, [s % 5 for s in subsets[:4]]),
    )
    _compare(report, sizes, "third moments", _third(X))


def _compare(report: Report, sizes: Sizes, case: str, routes: dict[str, Route]) -> None:
    found = interleaved(routes, min(3, sizes.repeats), sizes.budget)
    base = found[FULL]
    for name, timing in found.items():
        off = float(np.max(np.abs(timing.result - base.result)) / np.max(np.abs(base.result)))
        report.add(
            Line(
                case,
                name,
                timing.seconds,
                timing.runs,
                ratio=timing.seconds / base.seconds,
                of="all rows",
                error=None if name == FULL else off,
            )
        )
    if GRAM not in routes:
        report.add(Line(case, GRAM, note="cannot: X'X has no third moments"))


def product(X: Array, y: Array) -> Array:
    """D'D of D = [1, X, y], without a copy of X."""
    columns = np.column_stack([np.ones(len(X)) @ X, X.T @ y])
    ends = np.array([[len(X), y.sum()], [y.sum(), y @ y]])
    gram = np.block(
        [
            [ends[:1, :1], columns[:, :1].T, ends[:1, 1:]],
            [columns[:, :1], X.T @ X, columns[:, 1:]],
            [ends[1:, :1], columns[:, 1:].T, ends[1:, 1:]],
        ]
    )
    return np.asarray(gram)


def root_rows(
    gram: Array, columns: Array | None = None, scale: bool = False
) -> tuple[Array, Array]:
    """Few centred (and scaled) rows (x, y) with the covariance in D'D of D = [1, X, y]."""
    keep = np.arange(1, len(gram)) if columns is None else np.append(columns + 1, len(gram) - 1)
    mean = gram[0, keep] / gram[0, 0]
    covariance = gram[np.ix_(keep, keep)] / gram[0, 0] - np.outer(mean, mean)
    if scale:
        size = np.append(np.sqrt(np.diag(covariance))[:-1], 1.0)
        covariance /= np.outer(size, size)
    rows = np.sqrt(len(keep)) * np.linalg.cholesky(covariance).T
    return rows[:, :-1], rows[:, -1]


def _ols(X: Array, y: Array) -> dict[str, Route]:
    def core() -> Array:
        few = _exact(karat.coreset(X, y))
        return LinearRegression().fit(few.X, few.y, few.weights).coef_

    def gram() -> Array:
        rows, target = root_rows(product(X, y))
        return np.linalg.lstsq(rows, target)[0]

    return {FULL: lambda: LinearRegression().fit(X, y).coef_, CORE: core, GRAM: gram}


def _path(X: Array, y: Array) -> dict[str, Route]:
    def path(rows: Array, target: Array) -> Array:
        return lasso_path(rows, target, alphas=ALPHAS, tol=TOLERANCE)[1]

    def core() -> Array:
        few = _exact(karat.coreset(X, y))
        share = few.weights / few.weights.sum()
        root = np.sqrt(share * len(few))  # the solver divides by the number of rows
        return path(root[:, None] * (few.X - share @ few.X), root * (few.y - share @ few.y))

    routes = {FULL: lambda: path(X - X.mean(axis=0), y - y.mean()), CORE: core}
    return routes | {GRAM: lambda: path(*root_rows(product(X, y)))}


def _pipelines(X: Array, y: Array, subsets: list[Array]) -> dict[str, Route]:
    def full() -> Array:
        model = make_pipeline(StandardScaler(), Lasso(0.05, precompute=True, tol=TOLERANCE))
        return np.array([model.fit(X[:, s], y)[-1].coef_ for s in subsets])

    def core() -> Array:
        few = _exact(karat.coreset(X, y))
        model, w = make_pipeline(StandardScaler(), Lasso(0.05, tol=TOLERANCE)), few.weights
        weights = {"standardscaler__sample_weight": w, "lasso__sample_weight": w}
        return np.array([model.fit(few.X[:, s], few.y, **weights)[-1].coef_ for s in subsets])

    def gram() -> Array:
        matrix, model = product(X, y), Lasso(0.05, fit_intercept=False, tol=TOLERANCE)
        return np.array([model.fit(*root_rows(matrix, s, scale=True)).coef_ for s in subsets])

    return {FULL: full, CORE: core, GRAM: gram}


def _polynomials(X: Array, y: Array, subsets: list[Array]) -> dict[str, Route]:
    """Ridge on polynomials of degree 1 and 2 of some columns: one degree-4 coreset of (X, y) is
    enough for all.
    """
    jobs = [(np.unique(s), degree) for s in subsets for degree in (1, 2)]

    def fit(X: Array, y: Array, columns: Array, degree: int, w: Array | None = None) -> Array:
        model = make_pipeline(
            PolynomialFeatures(degree, include_bias=False), StandardScaler(), Ridge(1.0)
        )
        weights = (
            {} if w is None else {"standardscaler__sample_weight": w, "ridge__sample_weight": w}
        )
        return model.fit(X[:, columns], y, **weights)[-1].coef_

    def core() -> Array:
        few = _exact(karat.coreset(np.column_stack([X, y]), problem=Moments(4)))
        return np.concatenate([fit(few.X[:, :-1], few.X[:, -1], *job, few.weights) for job in jobs])

    def gram() -> Array:
        expand = PolynomialFeatures(2, include_bias=False).fit(X)
        matrix, powers = product(expand.transform(X), y), expand.powers_
        result = []
        for columns, degree in jobs:
            others = np.setdiff1d(np.arange(X.shape[1]), columns)
            keep = np.flatnonzero(
                (powers[:, others].sum(axis=1) == 0) & (powers.sum(axis=1) <= degree)
            )
            rows, target = root_rows(matrix, keep, scale=True)
            result.append(Ridge(len(rows) / len(X), fit_intercept=False).fit(rows, target).coef_)
        return np.concatenate(result)

    return {FULL: lambda: np.concatenate([fit(X, y, *job) for job in jobs]), CORE: core, GRAM: gram}


def _third(X: Array) -> dict[str, Route]:
    first, second = np.triu_indices(X.shape[1])

    def tensor(rows: Array, weights: Array | None = None) -> Array:
        total = np.zeros((len(first), rows.shape[1]))
        for start in range(0, len(rows), 4096):
            block = rows[start : start + 4096]
            right = block if weights is None else weights[start : start + 4096, None] * block
            total += (block[:, first] * block[:, second]).T @ right
        return total

    def core() -> Array:
        few = _exact(karat.coreset(X, problem=Moments(3)))
        return tensor(few.X, few.weights)

    return {FULL: lambda: tensor(X), CORE: core}


def _exact(core: karat.Coreset) -> karat.Coreset:
    assert core.certificate.ok, core.certificate
    return core
