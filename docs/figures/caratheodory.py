"""Eight weighted points in the plane are reduced to three with the same mean, one point per step."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

GOLD, BLUE, GREY = "#c98a00", "#2f7fd1", "#8a8a8a"


def step(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One step of Caratheodory: move the weights along a null vector until the first of them is zero."""
    alive = np.flatnonzero(weights)
    lifted = np.vstack(
        [points[alive].T, np.ones(len(alive))]
    )  # sum v_i p_i = 0 and sum v_i = 0
    v = np.linalg.svd(lifted)[2][-1]
    positive = v > 0
    ratios = np.where(positive, weights[alive] / np.where(positive, v, 1.0), np.inf)
    moved = weights.copy()
    moved[alive] -= ratios.min() * v
    moved[alive[np.argmin(ratios)]] = 0.0
    return moved


def draw(ink: str) -> Figure:
    rng = np.random.default_rng(4)
    angle = np.linspace(0, 2 * np.pi, 8, endpoint=False) + rng.uniform(-0.3, 0.3, 8)
    points = np.column_stack([np.cos(angle), np.sin(angle)]) * rng.uniform(
        0.5, 1.0, (8, 1)
    )
    weights = np.full(8, 1 / 8)
    mean = weights @ points
    figure, axes = plt.subplots(2, 3, figsize=(8.4, 5.2), layout="constrained")
    before = weights
    for number, ax in enumerate(axes.flat):
        gone = (before > 0) & (weights == 0)
        dead = (weights == 0) & ~gone
        ax.scatter(
            *points[dead].T,
            s=18,
            facecolors="none",
            edgecolors=GREY,
            linewidths=0.8,
            alpha=0.6,
        )
        ax.scatter(
            *points[gone].T,
            s=60,
            facecolors="none",
            edgecolors="#d1495b",
            linewidths=1.6,
        )
        kept = weights > 0
        ax.scatter(
            *points[kept].T,
            s=1400 * weights[kept],
            color=GOLD,
            alpha=0.85,
            linewidths=0,
        )
        ax.scatter(*mean, marker="x", s=70, color=BLUE, linewidths=2, zorder=3)
        error = np.abs(weights @ points - mean).max()
        ax.set_title(
            f"{kept.sum()} points"
            + (f", mean off by {error:.0e}" if number else ", equal weights")
        )
        if kept.sum() == 3:
            ax.fill(*points[kept].T, color=GOLD, alpha=0.15, linewidth=0)
        ax.set(
            xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), xticks=[], yticks=[], aspect="equal"
        )
        for spine in ax.spines.values():
            spine.set_visible(False)
        before, weights = weights, step(points, weights) if kept.sum() > 3 else weights
    plt.close(figure)
    return figure
