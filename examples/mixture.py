"""
A mixture learned from eleven rows
==================================

A Gaussian mixture is learned by moments from 100,000 rows and from the few rows that have the same
third moments. The means agree to rounding. The figure shows that the kept rows are extreme ones,
which contribute most to third moments.
"""

import matplotlib.pyplot as plt
import numpy as np

import karat


def main(n: int = 100_000) -> None:
    rng = np.random.default_rng(0)
    means = np.array([[4.0, 0, 0, 0, 0, 0], [0, 3.0, 1.0, 0, 0, 0], [-1.0, 0, 3.0, 2.0, 0, 0]])
    X = means[rng.choice(3, n, p=[0.5, 0.3, 0.2])] + rng.standard_normal((n, 6))

    core = karat.coreset(X, problem=karat.problems.GaussianMixture(3))
    few = karat.models.GaussianMixture(3).fit_coreset(core)
    full = karat.models.GaussianMixture(3).fit(X)
    change = np.abs(few.means_ - full.means_).max()
    print(
        f"{len(core)} of {n:,} rows; means differ by {change:.0e}, weights by"
        f" {np.abs(few.weights_ - full.weights_).max():.0e}"
    )
    print("mixing weights", few.weights_.round(3), "variance", few.covariances_[0].round(3))
    assert change < 1e-9

    _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    ax.scatter(*X[:5000, :2].T, s=2, color="0.7", label="5,000 of the rows")
    ax.scatter(
        *core.X[:, :2].T,
        s=20 + 200 * core.weights / core.weights.max(),
        color="#c98a00",
        alpha=0.8,
        label="kept rows",
    )
    ax.scatter(
        *full.means_[:, :2].T, marker="x", s=90, color="#2f7fd1", label="means from all rows"
    )
    ax.scatter(
        *few.means_[:, :2].T, marker="+", s=90, color="#d1495b", label="means from the kept rows"
    )
    ax.set(xlabel="first column", ylabel="second column")
    ax.legend(loc="upper right", fontsize=8)


if __name__ == "__main__":
    main()
    plt.show()
