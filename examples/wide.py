"""
Three hundred columns
=====================

Of real rows a table with 300 columns needs up to 45,753. 302 made rows (``rows="synthetic"``) have
the same second moments, and so the same lasso path, the same grid search and the same principal
components as all rows.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Lasso, lasso_path
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

import karat

FOLDS, ALPHAS = 5, np.geomspace(10.0, 0.1, 8)


def sensors(n: int, d: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Columns that a few common causes drive, in units of their own."""
    rng = np.random.default_rng(3)
    causes = rng.standard_normal((n, 8)) @ rng.standard_normal((8, d))
    X = (0.2 * causes + rng.standard_normal((n, d)) + 5.0) * rng.uniform(0.1, 10.0, d)
    return X, X[:, ::30] @ rng.standard_normal(10) + 30.0 * rng.standard_normal(n)


def path(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of scaled columns; the rows are multiplied by the roots of their weights, since
    lasso_path takes none.
    """
    share = weights / weights.sum()
    root = np.sqrt(share * len(share))[:, None]
    scale = np.sqrt(share @ np.square(X - share @ X))
    return lasso_path(
        root * (X - share @ X) / scale, root[:, 0] * (y - share @ y), alphas=ALPHAS, tol=1e-10
    )[1]


def scores(X: np.ndarray, y: np.ndarray, weights: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """R2 of a scaled lasso for every penalty (rows) and fold (columns)."""
    found = np.zeros((len(ALPHAS), FOLDS))
    for k in range(FOLDS):
        train, test = fold != k, fold == k
        scaler = StandardScaler().fit(X[train], sample_weight=weights[train])
        model, scaled = Lasso(warm_start=True), scaler.transform(X)
        for i, alpha in enumerate(ALPHAS):
            model.set_params(alpha=alpha).fit(scaled[train], y[train], sample_weight=weights[train])
            found[i, k] = r2_score(
                y[test], model.predict(scaled[test]), sample_weight=weights[test]
            )
    return found


def main(n: int = 30_000) -> None:
    X, y = sensors(n)
    fold, ones = np.arange(n) % FOLDS, np.ones(n)

    start = time.perf_counter()
    core = karat.coreset(X, y, rows="synthetic")
    few = path(core.X, core.y, core.weights)
    parts = karat.coreset(X, y, groups=fold, rows="synthetic")  # made rows of every fold
    mine = scores(parts.X, parts.y, parts.weights, np.asarray(parts.groups))
    middle = time.perf_counter()
    full = path(X, y, ones)
    theirs = scores(X, y, ones, fold)
    end = time.perf_counter()
    print(f"{core}\nfolds: {parts}")
    print(
        f"path and grid search: {end - middle:.1f} s on all rows, {middle - start:.1f} s with made"
        " rows, making counted"
    )
    print(
        f"coefficients differ by {np.abs(few - full).max():.0e}, scores by"
        f" {np.abs(mine - theirs).max():.0e}"
    )
    best, chosen = ALPHAS[mine.mean(axis=1).argmax()], ALPHAS[theirs.mean(axis=1).argmax()]
    print(f"best penalty {best:.3g}, by all rows {chosen:.3g}")
    assert best == chosen
    assert np.abs(few - full).max() < 1e-8 * np.abs(full).max()
    assert np.abs(mine - theirs).max() < 1e-9

    made = karat.models.PCA(20).fit(core.X, sample_weight=core.weights)
    real = karat.models.PCA(20).fit(X)
    gap = np.abs(made.explained_variance_ / real.explained_variance_ - 1).max()
    print(f"variances of 20 principal components differ by {gap:.0e}")
    assert gap < 1e-10

    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    largest = np.argsort(-np.abs(full[:, -1]))[:12]
    lines = left.semilogx(ALPHAS, full[largest].T, color="0.6", linewidth=3)
    dots = left.semilogx(ALPHAS, few[largest].T, ".", color="#c98a00")
    left.legend([lines[0], dots[0]], [f"{n:,} rows", f"{len(core)} made rows"])
    left.set(xlabel="penalty", ylabel="the 12 largest coefficients")
    right.semilogx(ALPHAS, theirs, color="0.6", linewidth=3)
    right.semilogx(ALPHAS, mine, ".", color="#c98a00")
    right.set(xlabel="penalty", ylabel="R2 of each fold")


if __name__ == "__main__":
    main()
    plt.show()
