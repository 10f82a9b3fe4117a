"""The thumbnail of examples without a figure: three weighted points and their mean."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

GOLD, BLUE, GREY = "#c98a00", "#2f7fd1", "#8a8a8a"


def draw(ink: str) -> Figure:
    step = runpy.run_path(str(Path(__file__).with_name("caratheodory.py")))["step"]
    angle = np.array([0.1, 0.9, 1.5, 2.5, 3.3, 3.9, 4.8, 5.5])
    radius = np.array([1.0, 0.6, 0.9, 0.8, 1.0, 0.6, 0.9, 0.7])
    points = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    weights = np.full(8, 1 / 8)
    mean = weights @ points
    while np.count_nonzero(weights) > 3:
        weights = step(points, weights)
    kept = weights > 0
    figure, ax = plt.subplots(figsize=(4, 2.8))
    ax.scatter(*points[~kept].T, s=60, facecolors="none", edgecolors=GREY)
    ax.fill(*points[kept].T, color=GOLD, alpha=0.15, linewidth=0)
    ax.scatter(*points[kept].T, s=1600 * weights[kept], color=GOLD)
    ax.scatter(*mean, marker="x", s=120, color=BLUE, linewidths=3)
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.15, 1.15))
    ax.axis("off")
    plt.close(figure)
    return figure
