"""
Exact grid search
=================

The same scores, the same choice, the same coefficients, from sixty synthetic rows.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Lasso
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import karat


def main(n: int = 100_000) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10)) * rng.uniform(0.1, 10.0, 10)
    y = X @ np.where(np.arange(10) % 3, 0.0, 1.0) + 5.0 * rng.standard_normal(n)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Lasso()), {"lasso__alpha": np.logspace(-3, 1, 20)}, cv=5
    )

    start = time.perf_counter()
    few = karat.CoresetRegressor(search).fit(X, y)  # folds of all rows, one coreset each
    middle = time.perf_counter()
    full = search.fit(X, y)
    end = time.perf_counter()

    mine = few.estimator_
    gap = np.abs(mine.cv_results_["mean_test_score"] - full.cv_results_["mean_test_score"]).max()
    change = np.abs(mine.best_estimator_[-1].coef_ - full.best_estimator_[-1].coef_).max()
    for name, seconds, rows, fit in (
        ("all rows", end - middle, n, full),
        ("coresets", middle - start, len(few.core_), mine),
    ):
        alpha = fit.best_params_["lasso__alpha"]
        print(f"{name}: {seconds:6.2f} s, {rows:7,} rows, best alpha {alpha:.4f}")
    print(f"scores differ by {gap:.0e}, coefficients by {change:.0e}")
    assert mine.best_params_ == full.best_params_
    assert gap < 1e-9
    assert change < 1e-8

    _, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    alphas = full.cv_results_["param_lasso__alpha"].astype(float)
    for results, style in (
        (full.cv_results_, {"color": "0.6", "linewidth": 4}),
        (mine.cv_results_, {"color": "#c98a00"}),
    ):
        scores = [results[f"split{fold}_test_score"] for fold in range(5)]
        ax.semilogx(
            alphas,
            np.transpose(scores),
            "o-" if results is mine.cv_results_ else "-",
            ms=3,
            **style,
        )
    lines = ax.get_lines()
    ax.legend([lines[0], lines[-1]], ["all rows", f"{len(few.core_)} synthetic rows"])
    ax.set(xlabel="penalty", ylabel="R2 of each fold")


if __name__ == "__main__":
    main()
    plt.show()
