"""The loss of every line: of all rows, of the coreset, and of as many random rows."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import karat

GOLD, BLUE, GREY = "#c98a00", "#2f7fd1", "#8a8a8a"


def draw(ink: str) -> Figure:
    rng = np.random.default_rng(7)
    n = 20_000
    x = rng.gamma(2.0, 1.0, n)
    y = 1.5 * x + rng.standard_normal(n) * (0.5 + 0.5 * x)
    core = karat.coreset(x[:, None], y)
    k, u = len(core), core.weights
    slopes = np.linspace(0.5, 2.5, 200)
    intercept = 0.2
    full = np.array([np.mean((s * x + intercept - y) ** 2) for s in slopes])
    few = (
        np.array([u @ (s * core.X[:, 0] + intercept - core.y) ** 2 for s in slopes]) / n
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    left.scatter(x[:3000], y[:3000], s=2, color=GREY, alpha=0.5, rasterized=True)
    left.scatter(
        core.X[:, 0],
        core.y,
        s=25 + 300 * u / u.max(),
        color=GOLD,
        alpha=0.85,
        linewidths=0,
    )
    ends = np.array([0.0, x.max()])
    slope, offset = np.polyfit(x, y, 1)
    left.plot(ends, slope * ends + offset, color=BLUE)
    left.set(
        xlabel="x", ylabel="y", title=f"{n:,} rows (grey) and the {k} that are kept"
    )
    for i in range(8):
        drawn = rng.choice(n, k, replace=False)
        some = [np.mean((s * x[drawn] + intercept - y[drawn]) ** 2) for s in slopes]
        right.plot(
            slopes,
            some,
            color=GREY,
            linewidth=0.9,
            alpha=0.8,
            label=f"{k} at random, 8 times" if not i else None,
        )
    right.plot(slopes, full, color=BLUE, linewidth=4, alpha=0.5, label="all rows")
    right.plot(slopes, few, color=GOLD, linewidth=1.5, label=f"the {k} kept")
    right.set(
        xlabel="slope of the line",
        title="mean squared error of every line",
        ylim=(0, 1.7 * full.max()),
    )
    right.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=3,
        fontsize=8,
        columnspacing=1.0,
        handlelength=1.4,
    )
    plt.close(figure)
    return figure
