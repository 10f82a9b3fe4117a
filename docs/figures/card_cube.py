"""Cells, and a slice of them."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def draw(ink: str) -> Figure:
    figure, axes = plt.subplots(figsize=(2.4, 1.2))
    for row in range(4):
        for column in range(9):
            chosen = row == 1 or 3 <= column <= 5
            axes.add_patch(
                Rectangle(
                    (column, row), 0.86, 0.86, lw=0.8, ec=ink,
                    fc="#c98a1b" if chosen else "none", alpha=0.9 if chosen else 0.5,
                )
            )  # fmt: skip
    axes.set(xlim=(-0.2, 9.1), ylim=(-0.2, 4.1))
    axes.axis("off")
    plt.close(figure)
    return figure
