"""Systems of equations of graphs of levels: A x = b with A symmetric, positive semidefinite.

    eliminate    vertices of degree at most 4, in rounds of independent sets.  Exact, and enough for
                 chains, rings and trees
    eigenvalues  of a core of at most 300 vertices
    gradients    conjugate gradients on a larger core, at most 300 steps.  Enough for graphs that
                 are well connected
    factorise    where they do not converge, a sparse factorisation of the core (plus 1e-11 of its
                 diagonal, because A is singular), by which the gradients are preconditioned

Gradients stop where the last five steps gain less than 1e-20 of the energy b'x of all steps: sums
of squares of what is left err by the energy that is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from karat.engine.linalg import Array, Flags, Indices
from karat.errors import several

DEGREE = 4  # of vertices that are eliminated
FEW = 200  # vertices for which a round is not worth its time
SHARE = 0.02  # of the vertices, at least, for one more round
ROUNDS = 200
STEPS = 300
DENSE = 300  # vertices of a core that is solved by its eigenvalues
ZERO = 1e-11  # eigenvalues, of a matrix whose diagonal is 1, that are rounding
GAIN = 1e-20  # of the energy, below which steps stop
FLAT = 1e-13  # curvature, of that of the diagonal, which is rounding
NO_ENERGY = 1e-28  # of the first residual: more steps would drift where the matrix is singular
LAST = 5  # steps whose gain is compared
RIDGE = 1e-11  # of the diagonal
NOTHING = 1e-12  # of the diagonal before, below which a pivot is rounding

Operator = Callable[[Array], Array]


@dataclass(frozen=True)
class Round:
    """One round: vertices that were eliminated, and those that stayed."""

    gone: Indices
    stayed: Indices
    inverse: Array  # of their pivots
    edges: Any  # from those gone to those that stayed
    right: Array

    def restore(self, x: Array) -> Array:
        """The solution of all vertices from that of those that stayed."""
        whole = np.empty((len(self.gone) + len(self.stayed), x.shape[1]))
        whole[self.stayed] = x
        whole[self.gone] = self.inverse[:, None] * (self.right - self.edges @ x)
        return whole


def solve_graph(matrix: Any, right: Array) -> tuple[Array, str]:
    """A solution of a consistent system, and how it was found."""
    full = matrix.diagonal()
    core, b, rounds, diagonal = eliminated(matrix, right, full)
    pivots = core.diagonal()
    inverse = inverse_pivots(pivots, diagonal)
    if core.shape[0] <= DENSE:
        x, how, done = _by_eigenvalues(core.toarray(), b, inverse), "eigenvalues", True
    else:
        x, steps, done = conjugate_gradients(
            core.__matmul__, b, diagonal_of(inverse), pivots, STEPS
        )
        how = f"{several(steps, 'step')} of conjugate gradients"
    if not done:
        ridge = sparse.diags_array(np.where(inverse > 0, RIDGE, 1.0) * diagonal)
        factor = sparse_linalg.splu(
            sparse.csc_array(core + ridge), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )  # fmt: skip
        x, steps, _ = conjugate_gradients(core.__matmul__, b, factor.solve, pivots, STEPS)
        how = f"a factorisation and {several(steps, 'step')} of conjugate gradients"
    for last in reversed(rounds):
        x = last.restore(x)
    return x, f"{several(matrix.shape[0] - core.shape[0], 'level')} eliminated, {how}"


def _by_eigenvalues(matrix: Array, right: Array, inverse: Array) -> Array:
    """The solution of a small system, without the directions that are zero up to rounding."""
    scale = np.sqrt(inverse)[:, None]
    eigenvalues, vectors = np.linalg.eigh(scale * matrix * scale.T)
    pivots = inverse_pivots(eigenvalues, np.full(len(eigenvalues), ZERO / NOTHING))
    return np.asarray(scale * (vectors @ (pivots[:, None] * (vectors.T @ (scale * right)))))


def diagonal_of(inverse: Array) -> Operator:
    """Multiplication by a diagonal matrix."""
    return lambda r: inverse[:, None] * r


def inverse_pivots(pivots: Array, before: Array) -> Array:
    """1 / pivot, and 0 where the pivot is rounding."""
    safe = pivots > NOTHING * before
    return np.where(safe, 1 / np.where(safe, pivots, 1.0), 0.0)


def eliminated(matrix: Any, right: Array, full: Array) -> tuple[Any, Array, list[Round], Array]:
    """The core, its right-hand side, the rounds of elimination, and the first diagonal of the
    core.
    """
    rng, rounds = np.random.default_rng(0), list[Round]()
    matrix = sparse.csr_array(matrix)
    while len(rounds) < ROUNDS:
        gone = _without_neighbours(matrix, rng)
        if matrix.shape[0] < FEW or gone.sum() < SHARE / 2 * matrix.shape[0]:
            break
        out, stay = np.flatnonzero(gone), np.flatnonzero(~gone)
        edges = sparse.csr_array(matrix[out][:, stay])
        inverse = inverse_pivots(matrix.diagonal()[out], full[out])
        rounds.append(Round(out, stay, inverse, edges, right[out]))
        scaled = sparse.diags_array(inverse) @ edges
        right = right[stay] - scaled.T @ right[out]
        matrix = sparse.csr_array(matrix[stay][:, stay] - edges.T @ scaled)
        full = full[stay]
    return matrix, right, rounds, full


def _without_neighbours(matrix: Any, rng: np.random.Generator) -> Flags:
    """Vertices of low degree no two of which are neighbours."""
    count = matrix.shape[0]
    lengths = np.diff(matrix.indptr)
    degrees = lengths - 1
    low = degrees <= DEGREE
    priority = np.where(low, rng.random(count) + (DEGREE + 1 - np.minimum(degrees, DEGREE)), -1.0)
    rows = np.repeat(np.arange(count), lengths)
    around = np.where(matrix.indices != rows, priority[matrix.indices], -1.0)
    highest = np.full(count, -1.0)
    some = lengths > 0
    highest[some] = np.maximum.reduceat(around, matrix.indptr[:-1][some])
    return np.asarray(low & (priority > highest))


def conjugate_gradients(
    operator: Operator, right: Array, precondition: Operator, diagonal: Array, most: int
) -> tuple[Array, int, bool]:
    """Solve for several right-hand sides, each until it gains nothing more.

    Returns the solutions, the number of steps, and whether all have converged.
    """
    x, residual = np.zeros_like(right), right.copy()
    z = precondition(residual)
    direction, energy = z.copy(), _inner(residual, z)
    gains: list[Array] = []
    first = energy
    total, live = np.zeros(right.shape[1]), energy > 0
    for step in range(most):
        if not live.any():
            return x, step, True
        image = operator(direction)
        curvature = _inner(direction, image)
        # a direction of no curvature is one in which the matrix is singular
        live &= curvature > FLAT * (diagonal @ np.square(direction))
        length = np.where(live, energy / np.where(curvature > 0, curvature, 1.0), 0.0)
        x += length * direction
        residual -= length * image
        gains.append(length * energy)
        total += gains[-1]
        z = precondition(residual)
        after = _inner(residual, z)
        turn = np.where(live, after / np.where(energy > 0, energy, 1.0), 0.0)
        energy = np.where(live, after, energy)
        direction = z + turn * direction
        live &= after > NO_ENERGY * first
        if len(gains) >= LAST:
            live &= sum(gains[-LAST:]) > GAIN * total
    return x, most, not live.any()


def _inner(left: Array, right: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", left, right))
