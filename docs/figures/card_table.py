"""Coefficients with their intervals."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure


def draw(ink: str) -> Figure:
    figure, axes = plt.subplots(figsize=(2.4, 1.2))
    for place, (value, half) in enumerate(
        [(0.6, 0.25), (-0.5, 0.35), (0.2, 0.15), (1.0, 0.3)]
    ):
        axes.plot([value - half, value + half], [place, place], color="#c98a1b", lw=2.5)
        axes.plot(value, place, "o", color=ink, ms=5)
    axes.axvline(0, color=ink, lw=0.8, ls=":")
    axes.set(xlim=(-1.1, 1.5), ylim=(-0.7, 3.7))
    axes.axis("off")
    plt.close(figure)
    return figure
