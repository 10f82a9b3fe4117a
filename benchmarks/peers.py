"""Other reducers.  Each peer gets a ready feature matrix F (n x m, constant first) and weights.

``peer(F, weights)`` prepares a peer; conversions and compilation are not timed.  It returns the
function that is timed, which returns indices and weights.  The time of karat includes its features.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from random_cones import recombine, recombine_randomly
from tchakaloff import dcatch

sys.path.append(str(Path(__file__).parents[1]))
from paper.literal import caratheodory, fast_caratheodory

Array = np.ndarray
Answer = tuple[Array, Array]
Peer = Callable[[Array, Array], Callable[[], Answer]]


def coreax_tree(F: Array, weights: Array) -> Callable[[], Answer]:
    """coreax's TreeRecombination in 64 bits, compiled; it adds the constant and normalises the
    weights to 1.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import equinox
    import jax

    jax.config.update("jax_enable_x64", True)
    from coreax import Data
    from coreax.solvers import TreeRecombination

    data = Data(jax.numpy.asarray(F[:, 1:]), jax.numpy.asarray(weights))
    total = weights.sum()

    @equinox.filter_jit
    # returns indices and weights only, so that the data is not copied
    def reduce(data: Data) -> tuple[jax.Array, jax.Array]:
        kept, _ = TreeRecombination().reduce(data)
        return kept.unweighted_indices, kept.points.weights

    def solve() -> Answer:
        index, mass = (np.asarray(part) for part in jax.block_until_ready(reduce(data)))
        return index[mass > 0], mass[mass > 0] * total

    return solve


def pyrecombine(F: Array, weights: Array) -> Callable[[], Answer]:
    """PyRecombine (C++ with MKL); it keeps the total mass without a constant."""
    from pyrecombine import recombine

    points, selector = np.ascontiguousarray(F[:, 1:]), np.arange(len(F))
    return lambda: recombine(points, selector, weights)


def nnls(F: Array, weights: Array) -> Callable[[], Answer]:
    """scipy.optimize.nnls: active-set non-negative least squares, whose solution is a vertex."""
    from scipy.optimize import nnls as solve_nnls

    size = np.linalg.norm(F, axis=0)
    matrix = np.asfortranarray((F / size).T)
    target = (weights @ F) / size

    def solve() -> Answer:
        mass = solve_nnls(matrix, target, maxiter=30 * F.shape[1])[0]
        return np.flatnonzero(mass), mass[mass > 0]

    return solve


def highs(F: Array, weights: Array) -> Callable[[], Answer]:
    """A vertex by the dual simplex of HiGHS, with zero cost."""
    from scipy.optimize import linprog

    # Columns of unit size and a total weight of 1 are the fastest of four scalings tried.
    size, total = np.linalg.norm(F, axis=0) / np.sqrt(len(F)), weights.sum()
    matrix, target, cost = (F / size).T, (weights @ F) / size / total, np.zeros(len(F))

    def solve() -> Answer:
        mass = np.maximum(linprog(cost, A_eq=matrix, b_eq=target, method="highs-ds").x, 0.0)
        return np.flatnonzero(mass), mass[mass > 0] * total

    return solve


def literal_5(F: Array, weights: Array) -> Callable[[], Answer]:
    """The paper's Algorithm 5; it keeps the total weight without a constant."""
    points = np.ascontiguousarray(F[:, 1:])
    return lambda: fast_caratheodory(points, weights)


def literal_6(F: Array, weights: Array) -> Callable[[], Answer]:
    """The paper's Algorithm 6 alone."""
    points = np.ascontiguousarray(F[:, 1:])

    def solve() -> Answer:
        mass = caratheodory(points, weights)
        return np.flatnonzero(mass), mass[mass > 0]

    return solve


def random_cones(F: Array, weights: Array) -> Callable[[], Answer]:
    """Cosentino, Oberhauser and Abate's combined algorithm; it keeps the total weight without a
    constant.
    """
    points = np.ascontiguousarray(F[:, 1:])
    return lambda: recombine_randomly(points, weights)[:2]


def tchernychova_lyons(F: Array, weights: Array) -> Callable[[], Answer]:
    """Tchernychova and Lyons' tree; it keeps the total weight without a constant."""
    points = np.ascontiguousarray(F[:, 1:])

    def solve() -> Answer:
        mass = recombine(points, weights)
        return np.flatnonzero(mass), mass[mass > 0]

    return solve


def tchakaloff(F: Array, weights: Array) -> Callable[[], Answer]:
    """dCATCH: non-negative least squares with deviation maximisation on an orthonormal basis."""
    return lambda: dcatch(F, weights)


COREAX, RECOMBINE = "coreax TreeRecombination, x64", "PyRecombine"
NNLS, HIGHS = "scipy nnls", "HiGHS vertex"
LITERAL_5, LITERAL_6 = "paper's Algorithm 5, literal", "paper's Algorithm 6, literal"
CONES, TREE, DCATCH = (
    "random cones, Cosentino et al., literal",
    "tree of Tchernychova and Lyons, literal",
    "dCATCH, literal",
)

PEERS: dict[str, tuple[Peer, str]] = {
    COREAX: (coreax_tree, "coreax"),
    RECOMBINE: (pyrecombine, "pyrecombine"),
    NNLS: (nnls, "scipy"),
    HIGHS: (highs, "scipy"),
    LITERAL_5: (literal_5, "numpy"),
    LITERAL_6: (literal_6, "numpy"),
    CONES: (random_cones, "numpy"),
    TREE: (tchernychova_lyons, "numpy"),
    DCATCH: (tchakaloff, "scipy"),
}


def prepare(name: str, F: Array, weights: Array) -> Callable[[], Answer] | None:
    """Prepare a peer for timing; None if its package is not installed."""
    peer, package = PEERS[name]
    return peer(F, weights) if find_spec(package) else None


def moment_error(F: Array, weights: Array, answer: Answer) -> float:
    """Largest error of a moment, relative to the sum of the absolute values of its terms."""
    index, mass = answer
    full, size = np.zeros(F.shape[1]), np.zeros(F.shape[1])
    for start in range(0, len(F), 65536):
        block, part = F[start : start + 65536], weights[start : start + 65536]
        full += part @ block
        size += part @ np.abs(block)
    return float(np.max(np.abs(mass @ F[index] - full) / size))
