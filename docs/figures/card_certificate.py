"""The losses of all rows and of the few: one curve on the other, within a bound."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure


def draw(ink: str) -> Figure:
    figure, axes = plt.subplots(figsize=(2.4, 1.2))
    place = np.linspace(-2, 2, 100)
    loss = 0.4 * place**2 + 0.3
    axes.fill_between(place, loss - 0.18, loss + 0.18, color="#c98a1b", alpha=0.3, lw=0)
    axes.plot(place, loss, color=ink, lw=2.5)
    axes.plot(place, loss, color="#c98a1b", lw=1.6, ls=(0, (3, 3)))
    axes.axis("off")
    plt.close(figure)
    return figure
