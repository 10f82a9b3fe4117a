"""
A new problem in 30 lines
=========================

A problem that keeps the sum of every trigonometric polynomial of angles, up to an order. A problem
is a frozen dataclass with a kernel, a loss and a description of what it keeps. Everything else
(reducers, certificates, groups, merging, streams) works with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import matplotlib.pyplot as plt
import numpy as np

import karat
from karat.problems import Kernel, Problem


# start
@final
@dataclass(frozen=True)
class Circular(Problem):
    """The sum of every trigonometric polynomial of the angles in the first column.

    Parameters
    ----------
    order : int
        The highest frequency.
    """

    order: int = 2
    total_weight: bool = True
    storable: ClassVar[bool] = False  # load it with karat.load(path, problem=Circular(3))
    keeps: ClassVar[str] = "every trigonometric moment up to the order"

    def features(self, X: np.ndarray) -> np.ndarray:
        angles = X[:, :1] * np.arange(1, self.order + 1)
        return np.hstack([np.cos(angles), np.sin(angles)])

    def kernel(self, columns: int, targets: int) -> Any:
        return Kernel(self.features, total_weight=self.total_weight).kernel(columns, targets)

    def loss(self, X: np.ndarray, y: Any, weights: np.ndarray, query: Any) -> float:
        return float(weights @ self.features(X) @ np.asarray(query, dtype=float))


# end


def main(n: int = 100_000) -> None:
    rng = np.random.default_rng(0)
    angles = rng.vonmises(1.0, 2.0, (n, 1))
    core = karat.coreset(angles, problem=Circular(3))
    print(core.certificate)
    query = rng.standard_normal(6)
    right = float(
        (np.hstack([np.cos(angles * [1, 2, 3]), np.sin(angles * [1, 2, 3])]) @ query).sum()
    )
    print(f"{len(core)} of {n:,} angles; loss {core.loss(query):.12g}, on all rows {right:.12g}")
    assert len(core) == 7
    assert abs(core.loss(query) - right) < 1e-9 * abs(right)
    halves = [karat.coreset(half, problem=Circular(3)) for half in np.array_split(angles, 2)]
    assert abs(halves[0].merge(halves[1]).loss(query) - right) < 1e-9 * abs(right)

    _, ax = plt.subplots(
        figsize=(4.6, 4.2), subplot_kw={"projection": "polar"}, layout="constrained"
    )
    counts, edges = np.histogram(angles, bins=72)
    ax.bar(
        edges[:-1],
        counts / counts.max(),
        np.diff(edges),
        align="edge",
        color="0.8",
        label="all angles",
    )
    ax.vlines(
        core.X[:, 0],
        0,
        core.weights / core.weights.max(),
        color="#c98a00",
        linewidth=3,
        label="kept angles, by weight",
    )
    ax.set_yticklabels([])
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=2, fontsize=8)


if __name__ == "__main__":
    main()
    plt.show()
