"""The dimension of the span of the losses of n rows, for four losses."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

STYLES = {
    "absolute": {"color": "#8a8a8a", "linewidth": 5, "alpha": 0.6},
    "hinge": {"color": "#2e9e5b", "linewidth": 1.5},
    "logistic": {"color": "#2f7fd1", "linestyle": "", "marker": "o", "markersize": 5},
    "squared": {"color": "#c98a00", "linewidth": 2.5},
}


def losses(rng: np.random.Generator, n: int, queries: int) -> dict[str, np.ndarray]:
    """Each loss of n rows (x, 1) in two dimensions at many queries."""
    X = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)])
    sign, y = rng.choice([-1.0, 1.0], (n, 1)), rng.standard_normal((n, 1))
    size = 10.0 ** rng.uniform(-1, 2.5, (queries, 1))
    eta = X @ (size * rng.standard_normal((queries, 3))).T
    return {
        "absolute": np.abs(eta - y),
        "hinge": np.maximum(0.0, 1.0 - sign * eta),
        "logistic": np.logaddexp(0.0, -sign * eta),
        "squared": (eta - y) ** 2,
    }


def draw(ink: str) -> Figure:
    rng = np.random.default_rng(0)
    sizes = np.arange(2, 41, 2)
    figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for name, values in losses(rng, sizes[-1], 4000).items():
        scaled = values / (np.linalg.norm(values, axis=0) + 1e-100)
        scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
        triangle = np.linalg.qr(scaled.T, mode="r")  # of n rows: its first n columns
        ranks = [np.linalg.matrix_rank(triangle[:, :n], tol=1e-8) for n in sizes]
        axis.plot(sizes, ranks, label=name, **STYLES[name])
    axis.set(xlabel="distinct rows", ylabel="dimension of the span of their losses")
    axis.legend()
    plt.close(figure)
    return figure
