"""The packages of karat; imports point downwards only."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

GOLD = "#c98a00"
LAYERS = [
    (
        "user interfaces",
        [
            ("cli", "the command"),
            ("report", "pictures, HTML page"),
        ],
    ),
    (
        "sources of rows",
        [("dask, spark", "partitions"), ("io", "files, checkpoints")],
    ),
    (
        "models",
        [
            ("estimators", "scikit-learn, folds, registry"),
            ("models", "learners that take weights"),
        ],
    ),
    (
        "the core (NumPy, SciPy)",
        [
            ("Sketch", "update, merge"),
            ("Coreset", "rows, weights"),
            ("Certificate", "the proof"),
            ("plan", "before any data"),
        ],
    ),
    (
        "problems and data",
        [
            ("problems", "kernel(), loss(), keeps, excludes"),
            ("frames", "pandas, polars, arrow, sparse"),
        ],
    ),
    ("engine", [("engine", "moments → candidates → vertex → polish → proof")]),
]


def draw(ink: str) -> Figure:
    figure, ax = plt.subplots(figsize=(9, 5.0))
    ax.set(xlim=(0, 10), ylim=(-6.05, 0.1))
    ax.axis("off")
    for row, (what, boxes) in enumerate(LAYERS):
        y = -row - 0.85
        ax.text(0, y + 0.36, what, va="center", fontsize=9, alpha=0.8)
        width = 7.7 / len(boxes)
        for column, (name, text) in enumerate(boxes):
            x = 2.3 + column * width
            core = row >= 3
            ax.add_patch(
                plt.Rectangle(
                    (x, y),
                    width - 0.12,
                    0.72,
                    facecolor=GOLD,
                    alpha=0.2 if core else 0.06,
                    linewidth=0,
                )
            )
            ax.add_patch(
                plt.Rectangle(
                    (x, y), width - 0.12, 0.72, fill=False, edgecolor=ink, linewidth=0.7
                )
            )
            ax.text(
                x + width / 2 - 0.06,
                y + 0.46,
                name,
                ha="center",
                va="center",
                weight="bold",
            )
            ax.text(
                x + width / 2 - 0.06,
                y + 0.2,
                text,
                ha="center",
                va="center",
                fontsize=7.5,
            )
        if row < len(LAYERS) - 1:
            ax.annotate(
                "",
                (6.1, y - 0.14),
                (6.1, y),
                arrowprops={"arrowstyle": "->", "color": ink, "linewidth": 0.8},
            )
    plt.close(figure)
    return figure
