"""Rows kept against alpha, for the three values of absorb; and the bound that the paper claims, which is wrong."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import karat
from karat.problems import Ridge


def claimed(D: np.ndarray, alpha: float) -> float:
    """The bound of the paper's theorem, 1 + sum_i 1 / (1 + alpha^2 / sigma_i^2)."""
    unfolded = np.einsum("ia,ib->iab", D, D).reshape(len(D), -1)
    sigma = np.linalg.svd(unfolded, compute_uv=False)
    return 1 + float(np.sum(1 / (1 + alpha**2 / sigma[sigma > 1e-9 * sigma[0]] ** 2)))


def draw(ink: str) -> Figure:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 4)) @ rng.standard_normal((4, 4))
    y = X @ rng.standard_normal(4) + rng.standard_normal(1000)
    D = np.column_stack([X, y])
    alphas = np.geomspace(0.1, 1e4, 11)
    figure, ax = plt.subplots(figsize=(7, 3.4))
    for absorb, colour, marker in (
        (None, "#8a8a8a", "s"),
        ("diagonal", "#2f7fd1", "^"),
        ("box", "#c98a00", "o"),
    ):
        rows = [
            len(karat.coreset(X, y, Ridge(a, fit_intercept=False, absorb=absorb)))
            for a in alphas
        ]
        ax.semilogx(
            alphas, rows, marker=marker, ms=5, color=colour, label=f"absorb={absorb!r}"
        )
    ax.semilogx(
        alphas,
        [claimed(D, a) for a in alphas],
        "--",
        color="#d1495b",
        label="the paper's claim: at most",
    )
    ax.set(
        xlabel="alpha",
        ylabel="rows kept",
        ylim=(0, 18),
        title="1,000 rows, 4 columns, no intercept",
    )
    ax.legend(fontsize=8.5)
    plt.close(figure)
    return figure
