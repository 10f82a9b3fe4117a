"""Parts, merged in a tree."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure


def draw(ink: str) -> Figure:
    figure, axes = plt.subplots(figsize=(2.4, 1.2))
    for level, count in enumerate([8, 4, 2, 1]):
        width = 8 / count
        for place in range(count):
            centre = (place + 0.5) * width
            if level:
                for below in (-0.25, 0.25):
                    axes.plot(
                        [centre, centre + below * width],
                        [level, level - 1],
                        color=ink,
                        lw=0.8,
                    )
            axes.plot(centre, level, "s", color="#c98a1b", ms=4 + 2 * level)
    axes.set(xlim=(0, 8), ylim=(-0.5, 3.6))
    axes.axis("off")
    plt.close(figure)
    return figure
