"""Moments of the coreset and of a random sample of the same size against those of all rows."""

from itertools import combinations_with_replacement

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import karat

GOLD, GREY = "#c98a00", "#8a8a8a"


def moments(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """All weighted sums of products of two columns."""
    return np.array(
        [
            weights @ (X[:, a] * X[:, b])
            for a, b in combinations_with_replacement(range(X.shape[1]), 2)
        ]
    )


def draw(ink: str) -> Figure:
    rng = np.random.default_rng(2)
    n = 50_000
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 6)) + rng.uniform(
        -1, 1, 6
    )
    core = karat.coreset(X, problem=karat.problems.Moments(2))
    drawn = rng.choice(n, len(core), replace=False)
    full = moments(X, np.full(n, 1 / n))
    kept = moments(core.X, core.weights / n)
    some = moments(X[drawn], np.full(len(core), 1 / len(core)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    ends = [full.min(), full.max()]
    left.plot(ends, ends, color=ink, linewidth=0.6)
    left.scatter(full, some, s=16, color=GREY, label=f"{len(core)} rows at random")
    left.scatter(full, kept, s=16, color=GOLD, label=f"the {len(core)} kept rows")
    left.set(xlabel="second moments of all rows", ylabel="of the few rows")
    left.legend(fontsize=8)
    size = np.abs(full).max()
    for values, colour in ((some, GREY), (kept, GOLD)):
        right.semilogy(
            np.maximum(np.abs(values - full) / size, 1e-17), "o", color=colour, ms=4
        )
    right.set(xlabel="moment", ylabel="relative error", ylim=(1e-17, 3))
    plt.close(figure)
    return figure
