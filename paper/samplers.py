"""Other methods that choose m of n rows with weights, for the comparison.

Each gets the same views of the rows and returns indices, and weights that sum to about n:

    uniform          without replacement, weights n / m
    leverage         with probabilities proportional to the leverage scores of the rows, weights 1 /
                     (m p_i)
    sensitivity      the same, with an upper bound of each row's largest share of the loss
    kernel thinning  goodpoints: m 2^j rows drawn uniformly and halved j times, Gaussian kernel
    kernel herding   coreax: greedy in the maximum mean discrepancy, its weights optimised; Gaussian
                     kernel, all rows
    recombination    coreax: TreeRecombination, given the kernel features of the task as a matrix
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from scipy.spatial.distance import cdist, pdist

from karat.engine.linalg import Array, Indices

THINNED = 4096  # rows that kernel thinning starts from at most; it needs their kernel matrix
Choice = tuple[Indices, Array]


@dataclass(frozen=True)
class Views:
    """The input of the samplers."""

    table: Array  # (n, q): standardised rows, the target among them
    leverage: Array  # (n,): scores, up to a factor
    sensitivity: Array
    # (n, m): the kernel features whose sums an exact coreset keeps, without the constant
    features: Array


Sampler = Callable[[Views, int, np.random.Generator], Choice]


def standardised(table: Array) -> Array:
    spread = table.std(axis=0)
    return np.asarray((table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def leverage_scores(table: Array) -> Array:
    """Squared norms of the rows of an orthonormal basis of the columns."""
    U, s, _ = np.linalg.svd(table, full_matrices=False)
    return np.asarray(np.square(U[:, s > 1e-10 * s[0]]).sum(axis=1))


def lightweight(table: Array) -> Array:
    """A bound of the sensitivities for clustering: half uniform, half by squared distance to the
    mean.
    """
    distance = np.square(table - table.mean(axis=0)).sum(axis=1)
    return np.asarray(0.5 / len(table) + 0.5 * distance / distance.sum())


def uniform(views: Views, m: int, rng: np.random.Generator) -> Choice:
    n = len(views.table)
    return rng.choice(n, m, replace=False), np.full(m, n / m)


def importance(scores: Array, m: int, rng: np.random.Generator) -> Choice:
    p = scores / scores.sum()
    index = rng.choice(len(p), m, p=p)
    return index, 1.0 / (m * p[index])


def bandwidth(table: Array) -> float:
    """The usual bandwidth: the median distance of some rows."""
    return float(np.median(pdist(table[:: max(1, len(table) // 500)])))


def kernel_thinning(views: Views, m: int, rng: np.random.Generator) -> Choice:
    from goodpoints import kt

    n = len(views.table)
    halvings = int(np.log2(max(1, min(n, THINNED) // m)))
    start = rng.choice(n, m << halvings, replace=False)
    rows = views.table[start]
    K = np.exp(-cdist(rows, rows, "sqeuclidean") / (2 * bandwidth(views.table) ** 2))
    kept = kt.thin_K(K, K, halvings, seed=int(rng.integers(2**31)), unique=True)
    return start[kept], np.full(m, n / m)


@contextmanager
def _jax() -> Iterator[None]:
    """Run JAX on the CPU and in 64 bits, as karat does, without its warnings."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        jax.config.update("jax_enable_x64", before)


def kernel_herding(views: Views, m: int, rng: np.random.Generator) -> Choice:
    with _jax():
        from coreax import Data
        from coreax.kernels import SquaredExponentialKernel
        from coreax.solvers import KernelHerding
        from coreax.weights import MMDWeightsOptimiser

        kernel = SquaredExponentialKernel(length_scale=bandwidth(views.table))
        kept, _ = KernelHerding(coreset_size=m, kernel=kernel, block_size=2000).reduce(
            Data(views.table)
        )
        weights = np.asarray(
            kept.solve_weights(MMDWeightsOptimiser(kernel), block_size=2000).points.weights
        )
        return np.asarray(kept.unweighted_indices), len(views.table) * weights / weights.sum()


def recombination(views: Views, m: int, rng: np.random.Generator) -> Choice:
    n = len(views.features)
    with _jax():
        from coreax import Data
        from coreax.solvers import TreeRecombination

        kept, _ = TreeRecombination().reduce(Data(views.features, np.ones(n)))
        index, weights = np.asarray(kept.unweighted_indices), np.asarray(kept.points.weights)
    return index[weights > 0], n * weights[weights > 0]


RANDOM: dict[str, Sampler] = {
    "uniform sampling": uniform,
    "leverage sampling": lambda views, m, rng: importance(views.leverage, m, rng),
    "sensitivity sampling": lambda views, m, rng: importance(views.sensitivity, m, rng),
    "kernel thinning (goodpoints)": kernel_thinning,
}
FIXED: dict[str, Sampler] = {
    "kernel herding (coreax)": kernel_herding,
    "TreeRecombination on ready features (coreax)": recombination,
}
PACKAGES = {"goodpoints": "kernel thinning", "coreax": "kernel herding and recombination"}


def _lacking() -> list[str]:
    return [package for package in PACKAGES if find_spec(package) is None]


def available(samplers: dict[str, Sampler]) -> dict[str, Sampler]:
    """The samplers whose package is installed."""
    return {
        name: sampler
        for name, sampler in samplers.items()
        if not any(f"({package})" in name for package in _lacking())
    }


def absent() -> list[str]:
    """A message for each package that is not installed."""
    left_out = "{0} is not installed, so {1} is left out: install it with  pip install {0}."
    return [left_out.format(package, PACKAGES[package]) for package in _lacking()]
