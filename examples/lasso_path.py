"""
One lasso path, twice
=====================

A path of 40 penalties on all rows and on the few dozen rows that karat keeps. The curves coincide.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Lasso

import karat


def lasso_path(
    X: np.ndarray, y: np.ndarray, alphas: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    model = Lasso(warm_start=True, tol=1e-12, max_iter=100_000)
    return np.array(
        [
            model.set_params(alpha=alpha).fit(X, y, sample_weight=weights).coef_.copy()
            for alpha in alphas
        ]
    )


def main(n: int = 300_000) -> None:
    rng = np.random.default_rng(0)
    d = 10
    X = np.exp(0.5 * rng.standard_normal((n, d))) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)))
    y = X @ np.where(np.arange(d) % 2, rng.standard_normal(d), 0.0) + 3.0 + rng.standard_t(5, n)
    alphas = np.geomspace(2.0, 0.002, 40)

    start = time.perf_counter()
    core = karat.coreset(X, y)
    few = lasso_path(core.X, core.y, alphas, core.weights)
    middle = time.perf_counter()
    full = lasso_path(X, y, alphas)
    end = time.perf_counter()
    print(core.certificate)
    print(
        f"all rows: {end - middle:.2f} s; {len(core)} rows: {middle - start:.2f} s, building"
        " included"
    )
    print(f"largest difference of a coefficient: {np.abs(few - full).max():.0e}")
    assert np.abs(few - full).max() < 1e-9

    _, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    lines = ax.semilogx(alphas, full, color="0.6", linewidth=3)
    dots = ax.semilogx(alphas, few, ".", color="#c98a00")
    ax.legend([lines[0], dots[0]], ["all rows", f"{len(core)} kept rows"])
    ax.set(xlabel="penalty", ylabel="coefficients")


if __name__ == "__main__":
    main()
    plt.show()
