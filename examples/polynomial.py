"""
Polynomial regression
=====================

Cross-validation chooses the degree; the kept rows are raw rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import karat


def main(n: int = 50_000) -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = 1.0 + X[:, 0] ** 3 - X[:, 0] * X[:, 1] + rng.standard_normal(n)
    steps = [("scale", StandardScaler()), ("powers", PolynomialFeatures()), ("model", Ridge())]
    grid = {"powers__degree": [1, 2, 3, 4], "model__alpha": [0.1, 10.0]}
    search = GridSearchCV(Pipeline(steps), grid, cv=KFold(5, shuffle=True, random_state=0))
    few = karat.CoresetRegressor(search).fit(X, y)
    full = search.fit(X, y)
    print(
        f"degree by all rows {full.best_params_['powers__degree']}, by coresets"
        f" {few.estimator_.best_params_['powers__degree']}"
    )
    gap = np.abs(
        few.estimator_.cv_results_["mean_test_score"] - full.cv_results_["mean_test_score"]
    ).max()
    print(
        f"{len(few.core_):,} of {n:,} rows, {few.core_.X.shape[1]} columns each; scores differ by"
        f" {gap:.0e}"
    )
    assert few.estimator_.best_params_ == full.best_params_
    assert gap < 1e-9

    _, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    degrees = full.cv_results_["param_powers__degree"].astype(int)
    first = full.cv_results_["param_model__alpha"].astype(float) == 0.1
    ax.plot(
        degrees[first],
        full.cv_results_["mean_test_score"][first],
        color="0.6",
        linewidth=5,
        label="all rows",
    )
    ax.plot(
        degrees[first],
        few.cv_results_["mean_test_score"][first],
        "o--",
        color="#c98a00",
        label="kept rows",
    )
    ax.axvline(
        full.best_params_["powers__degree"], color="#2f7fd1", linestyle=":", label="chosen by both"
    )
    ax.set(xlabel="degree", ylabel="R2, cross-validated", xticks=[1, 2, 3, 4])
    ax.legend()


if __name__ == "__main__":
    main()
    plt.show()
