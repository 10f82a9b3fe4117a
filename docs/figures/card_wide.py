"""Made rows around a cloud: the corners of a simplex."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure


def draw(ink: str) -> Figure:
    figure, axes = plt.subplots(figsize=(2.4, 1.2))
    cloud = np.random.default_rng(1).standard_normal((400, 2)) @ [
        [1.5, 0.3],
        [0.0, 0.5],
    ]
    axes.plot(*cloud.T, ".", color=ink, ms=1.5, alpha=0.45)
    mean, root = cloud.mean(axis=0), np.linalg.cholesky(np.cov(cloud.T))
    corners = np.sqrt(2) * np.array(
        [[0, 1], [-np.sqrt(0.75), -0.5], [np.sqrt(0.75), -0.5]]
    )
    made = mean + corners @ root.T
    axes.fill(*made.T, fc="#c98a1b22", ec="#c98a1b", lw=1.5)
    axes.plot(*made.T, "o", color="#c98a1b", ms=8)
    axes.axis("off")
    plt.close(figure)
    return figure
