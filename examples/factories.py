"""
Several factories, one model
============================

Each site sends a coreset. The merged coreset gives the regression table of all rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Lasso

import karat


def factory(site: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(site)
    X = rng.normal(site, 1.0 + site, (n, 6))
    return X, X @ [1.0, 0.0, -2.0, 0.5, 0.0, 0.0] + site + rng.standard_normal(n)


def draw(sites: list[tuple[np.ndarray, np.ndarray]], cores: list[karat.Coreset]) -> None:
    _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for number, ((X, y), core) in enumerate(zip(sites, cores, strict=True)):
        ax.scatter(X[:1500, 2], y[:1500], s=3, color=f"C{number}", alpha=0.3, linewidths=0)
        ax.scatter(
            core.X[:, 2],
            core.y,
            s=35,
            color=f"C{number}",
            edgecolors="black",
            label=f"site {number}: {len(core)} rows sent",
        )
    ax.set(xlabel="third column", ylabel="target")
    ax.legend()


def main(n: int = 40_000) -> None:
    sites = [factory(site, n) for site in range(4)]
    cores = [karat.coreset(X, y) for X, y in sites]  # made at each site, then sent
    merged = cores[0]
    for core in cores[1:]:
        merged = merged.merge(core)
    X, y = np.vstack([X for X, _ in sites]), np.concatenate([y for _, y in sites])
    few, full = merged.fit(Lasso(0.1)), Lasso(0.1).fit(X, y)
    change = np.abs(few.coef_ - full.coef_).max()
    print(f"{[len(core) for core in cores]} rows sent for {len(y):,}; merged: {len(merged)}")
    print(f"lasso coefficients differ by {change:.0e}")
    assert change < 1e-8
    draw(sites, cores)

    try:
        from karat.inference import ols

        print(ols(merged).summary().tables[1])
    except karat.MissingExtraError as missing:
        print(missing)


if __name__ == "__main__":
    main()
    plt.show()
