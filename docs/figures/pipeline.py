"""The steps from rows to a certificate."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

GOLD, BLUE = "#c98a00", "#2f7fd1"
BOXES = [
    ("rows", "n of them,\nany container", None),
    ("moments", "one pass:\nsum of w φ(row)", GOLD),
    ("candidates", "2.5 m rows;\nNewton weighs them", None),
    ("vertex", "elimination:\nat most rank rows", None),
    ("polish", "one solve:\nthe last digits", None),
    ("certificate", "worst error over\nevery query", GOLD),
]


def draw(ink: str) -> Figure:
    figure, ax = plt.subplots(figsize=(10, 1.9))
    ax.set(xlim=(-0.1, 6.0), ylim=(-0.55, 1.05))
    ax.axis("off")
    for i, (title, text, colour) in enumerate(BOXES):
        ax.add_patch(
            plt.Rectangle(
                (i, 0),
                0.86,
                0.95,
                facecolor=colour or "none",
                alpha=0.22 if colour else 1,
                linewidth=0,
            )
        )
        ax.add_patch(
            plt.Rectangle((i, 0), 0.86, 0.95, fill=False, edgecolor=ink, linewidth=0.8)
        )
        ax.text(i + 0.43, 0.74, title, ha="center", va="center", weight="bold")
        ax.text(i + 0.43, 0.33, text, ha="center", va="center", fontsize=7.6)
        if i < len(BOXES) - 1:
            ax.annotate(
                "",
                (i + 0.99, 0.48),
                (i + 0.87, 0.48),
                arrowprops={"arrowstyle": "->", "color": ink},
            )
    arrow = {"arrowstyle": "->", "color": BLUE, "connectionstyle": "arc3,rad=0.35"}
    ax.annotate("", (3.3, -0.02), (2.55, -0.02), arrowprops=arrow)
    ax.text(
        2.93,
        -0.42,
        "if no weights exist: more candidates, then the tree",
        ha="center",
        fontsize=8.5,
        color=BLUE,
    )
    plt.close(figure)
    return figure
