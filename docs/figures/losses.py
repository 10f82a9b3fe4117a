"""The loss of every line: of all rows, of the coreset, and of as many random rows."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import karat

GOLD, BLUE, GREY = "#c98a00", "#2f7fd1", "#8a8a8a"


class Losses:
    """A data set, its coreset, and the loss of lines of every slope."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.n = 20_000
        self.x = self.rng.gamma(2.0, 1.0, self.n)
        self.y = 1.5 * self.x + self.rng.standard_normal(self.n) * (0.5 + 0.5 * self.x)
        self.core = karat.coreset(self.x[:, None], self.y)
        self.slopes = np.linspace(0.5, 2.5, 200)

    def errors(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The mean squared error of every line."""
        lines = self.slopes[:, None] * x + 0.2
        return np.square(lines - y) @ weights / weights.sum()

    def rows(self, axes: Axes) -> None:
        weights = self.core.weights
        axes.scatter(
            self.x[:3000], self.y[:3000], s=2, color=GREY, alpha=0.5, rasterized=True
        )
        sizes = 25 + 300 * weights / weights.max()
        axes.scatter(
            self.core.X[:, 0],
            self.core.y,
            s=sizes,
            color=GOLD,
            alpha=0.85,
            linewidths=0,
        )
        ends = np.array([0.0, self.x.max()])
        slope, offset = np.polyfit(self.x, self.y, 1)
        axes.plot(ends, slope * ends + offset, color=BLUE)
        title = f"{self.n:,} rows (grey) and the {len(self.core)} that are kept"
        axes.set(xlabel="x", ylabel="y", title=title)

    def curves(self, axes: Axes) -> None:
        kept = len(self.core)
        for i in range(8):
            drawn = self.rng.choice(self.n, kept, replace=False)
            some = self.errors(self.x[drawn], self.y[drawn], np.ones(kept))
            label = f"{kept} at random, 8 times" if not i else None
            axes.plot(
                self.slopes, some, color=GREY, linewidth=0.9, alpha=0.7, label=label
            )
        full = self.errors(self.x, self.y, np.ones(self.n))
        few = self.errors(self.core.X[:, 0], self.core.y, self.core.weights)
        axes.plot(self.slopes, full, color=BLUE, linewidth=3.5, label="all rows")
        dashes = {"linewidth": 1.8, "linestyle": (0, (4, 3))}
        axes.plot(self.slopes, few, color=GOLD, label=f"the {kept} kept", **dashes)
        title = "mean squared error of every line"
        axes.set(xlabel="slope of the line", title=title, ylim=(0, 1.7 * full.max()))
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, fontsize=8,
            columnspacing=1.0, handlelength=2.0,
        )  # fmt: skip


def draw(ink: str) -> Figure:
    losses = Losses()
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    losses.rows(left)
    losses.curves(right)
    plt.close(figure)
    return figure


def panels(ink: str) -> list[Figure]:
    """The two halves, each by itself."""
    losses, figures = Losses(), []
    for part in (losses.rows, losses.curves):
        figure, axes = plt.subplots(figsize=(4.2, 3.3), layout="constrained")
        part(axes)
        plt.close(figure)
        figures.append(figure)
    return figures
