"""Time model selection: scikit-learn on all rows, karat with its construction, and hand-written
code on a Gram matrix.

    python benchmarks/estimators.py            n = 100,000, under a minute
    python benchmarks/estimators.py --full     n = 1,000,000: minutes, nearly all for scikit-learn

``--correlation 0.9`` draws columns with that correlation between neighbours.  Coordinate descent
then needs 10 to 70 sweeps over all rows instead of 3, while the time with a coreset stays the same:
mostly overhead of scikit-learn, about 2.5 ms per candidate and fold.

All times are from one run; their ratios matter.  The hand-written code is what an expert would
write without karat: one Gram matrix of [1, X, y] per fold, sums of them for training parts,
coordinate descent on the Cholesky factor.  It is different for each task; with karat the code of
scikit-learn is unchanged.
"""

import argparse
import itertools
import os
import time

import numpy as np
from sklearn.linear_model import ElasticNetCV, Lasso, LinearRegression, Ridge, enet_path
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import karat

FOLDS, RATIOS = 5, [0.1, 0.5, 0.7, 0.9, 1.0]


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def typical(function):
    """Time a job; the median of three runs."""
    return sorted((timed(function) for _ in range(3)), key=lambda pair: pair[0])[1]


def fold_grams(X, y):
    """Second moments of [1, X, y] of each fold."""
    n = len(y)
    edges = [n * k // FOLDS for k in range(FOLDS + 1)]
    grams = []
    for low, high in itertools.pairwise(edges):
        gram = np.zeros((X.shape[1] + 2,) * 2)
        for start in range(low, high, 4096):
            stop = min(start + 4096, high)
            block = np.column_stack([np.ones(stop - start), X[start:stop], y[start:stop]])
            gram += block.T @ block
        grams.append(gram)
    return grams


def centred_rows(gram):
    """A few rows with the centred second moments of a part: count, means, pseudo X, pseudo y."""
    count, means = gram[0, 0], gram[0, 1:] / gram[0, 0]
    root = np.linalg.cholesky(gram[1:, 1:] - count * np.outer(means, means)).T * np.sqrt(
        len(means) / count
    )
    return means, np.asfortranarray(root[:, :-1]), root[:, -1].copy()


def test_error(gram, coef, intercept):
    """Mean squared error of models (columns of coef) on a part."""
    query = np.vstack([intercept, coef, -np.ones(coef.shape[1])])
    return np.einsum("ij,ik,kj->j", query, gram, query) / gram[0, 0]


def by_hand_elastic_net(X, y):
    grams = fold_grams(X, y)
    _, A, b = centred_rows(sum(grams))
    best = (np.inf, None)
    for ratio in RATIOS:
        alphas = np.geomspace(1.0, 1e-3, 100) * np.abs(A.T @ b).max() / len(b) / ratio
        errors = np.zeros(100)
        for test in grams:
            centre, P, q = centred_rows(sum(g for g in grams if g is not test))
            _, coefs, _ = enet_path(
                P, q, l1_ratio=ratio, alphas=alphas, precompute=P.T @ P, Xy=P.T @ q
            )
            errors += test_error(test, coefs, centre[-1] - centre[:-1] @ coefs) / FOLDS
        best = min(best, (errors.min(), (ratio, alphas[errors.argmin()])))
    ratio, alpha = best[1]
    _, coef, _ = enet_path(A, b, l1_ratio=ratio, alphas=[alpha], precompute=A.T @ A, Xy=A.T @ b)
    return coef[:, 0]


def by_hand_scaled_lasso(X, y, alphas):
    grams = fold_grams(X, y)
    scores = np.zeros((len(alphas), FOLDS))
    for k, test in enumerate(grams):
        centre, P, q = centred_rows(sum(g for g in grams if g is not test))
        scale = np.sqrt(np.square(P).sum(axis=0) / len(q))
        Z = np.asfortranarray(P / scale)
        _, coefs, _ = enet_path(Z, q, l1_ratio=1.0, alphas=alphas, precompute=Z.T @ Z, Xy=Z.T @ q)
        coefs = coefs[:, ::-1] / scale[:, None]  # the path starts at the largest alpha
        variance = test[-1, -1] / test[0, 0] - (test[0, -1] / test[0, 0]) ** 2
        scores[:, k] = 1 - test_error(test, coefs, centre[-1] - centre[:-1] @ coefs) / variance
    return scores


def by_hand_ridge(X, y, alpha):
    means, A, b = centred_rows(sum(fold_grams(X, y)))
    coef = np.linalg.solve(A.T @ A + np.eye(A.shape[1]) * alpha * len(b) / len(y), A.T @ b)
    return np.append(coef, means[-1] - means[:-1] @ coef)


def show(title, rows, agreement):
    print(f"\n{title}")
    full = rows[0][1]
    for name, seconds in rows:
        print(f"  {name:44}{seconds:10.3f} s{full / seconds:10.1f} x")
    print(f"  {agreement}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="a million rows")
    parser.add_argument(
        "--correlation", type=float, default=0.0, help="correlation of neighbouring columns"
    )
    options = parser.parse_args()
    n, d = (1_000_000 if options.full else 100_000), 20
    rng = np.random.default_rng(0)
    distance = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    X = rng.standard_normal((n, d)) @ np.linalg.cholesky(options.correlation**distance).T + 1.0
    y = X @ np.where(np.arange(d) % 2, rng.standard_normal(d), 0.0) + 3.0 * rng.standard_normal(n)
    # imports and thread pools
    karat.CoresetRegressor(ElasticNetCV(cv=FOLDS)).fit(X[:2000], y[:2000])
    print(f"n = {n:,}, d = {d}, correlation {options.correlation:g}, {FOLDS} folds")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")

    net = ElasticNetCV(l1_ratio=RATIOS, alphas=100, cv=FOLDS)
    few_time, few = typical(lambda: karat.CoresetRegressor(net).fit(X, y))
    hand_time, hand = typical(lambda: by_hand_elastic_net(X, y))
    full_time, full = timed(lambda: net.fit(X, y))
    mine = few.estimator_
    show(
        f"ElasticNetCV, 100 alphas x {len(RATIOS)} l1_ratios x {FOLDS} folds",
        [
            ("scikit-learn, all rows", full_time),
            ("karat, construction included", few_time),
            ("by hand", hand_time),
        ],
        "same choice:"
        f" {mine.l1_ratio_ == full.l1_ratio_ and np.isclose(mine.alpha_, full.alpha_, rtol=1e-12)};"
        f" mse_path_ differs by {np.abs(mine.mse_path_ / full.mse_path_ - 1).max():.0e} (relative),"
        f" coef_ by {np.abs(mine.coef_ - full.coef_).max():.0e} (by hand"
        f" {np.abs(hand - full.coef_).max():.0e}); {len(few.core_):,} rows",
    )

    alphas = np.logspace(-3, 0, 20)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Lasso()), {"lasso__alpha": alphas}, cv=FOLDS
    )
    few_time, few = typical(lambda: karat.CoresetRegressor(search).fit(X, y))
    hand_time, hand = typical(lambda: by_hand_scaled_lasso(X, y, alphas))
    full_time, full = timed(lambda: search.fit(X, y))
    mine, names = few.estimator_, [f"split{k}_test_score" for k in range(FOLDS)]
    theirs = np.column_stack([full.cv_results_[name] for name in names])
    show(
        f"GridSearchCV over a scaled Lasso, {len(alphas)} alphas x {FOLDS} folds",
        [
            ("scikit-learn, all rows", full_time),
            ("karat, construction included", few_time),
            ("by hand", hand_time),
        ],
        f"same choice: {mine.best_params_ == full.best_params_}; scores differ by"
        f" {np.abs(np.column_stack([mine.cv_results_[name] for name in names]) - theirs).max():.0e}"
        f" (by hand {np.abs(hand - theirs).max():.0e}), coef_ by"
        f" {np.abs(mine.best_estimator_[-1].coef_ - full.best_estimator_[-1].coef_).max():.0e}",
    )

    for model in (LinearRegression(), Ridge()):
        few_time, _ = typical(lambda m=model: karat.CoresetRegressor(m).fit(X, y))
        full_time, _ = typical(lambda m=model: m.fit(X, y))
        alpha = model.get_params().get("alpha", 0.0)
        hand_time, hand = typical(lambda a=alpha: by_hand_ridge(X, y, a))
        assert np.allclose(hand, np.append(model.coef_, model.intercept_), rtol=1e-6, atol=1e-9)
        show(
            f"One {type(model).__name__} fit: a coreset gains nothing, because it costs one pass,"
            " like a Gram matrix",
            [
                ("scikit-learn, all rows", full_time),
                ("karat, construction included", few_time),
                ("hand-written Gram", hand_time),
            ],
            "(LinearRegression takes the SVD of all rows; Ridge solves the normal equations.)",
        )


if __name__ == "__main__":
    main()
