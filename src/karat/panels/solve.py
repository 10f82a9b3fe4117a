"""The effects of all columns: a = (D'UD)^+ D'UZ, from sums by level and pairs of levels.

    one effect     a division
    several        the largest is eliminated: with B the pairs of its levels with the others,
                       (A - B'W^-1 B) x = s - B'W^-1 s_1,     a_1 = W^-1 (s_1 - B x)
                   Thirty steps of conjugate gradients, which only apply this matrix, are enough
                   where levels are well connected.  Else it is formed, unless that costs much
                   (sum of d^2 > 20 pairs, d the pairs of a level), and solved by
                   :mod:`.elimination`.
    refined        with what is left, D'U(Z - Da), until its mean in every level is small
    certified      a mean above 1e-8 standard deviations is an error

What is left errs by the energy of the error of a, so sums of its squares have twice as many digits
as a has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from karat.engine.linalg import Array, Indices
from karat.errors import NotExactError, several
from karat.panels.elimination import conjugate_gradients, diagonal_of, solve_graph
from karat.panels.sums import PanelSums

FILL = 20  # products per pair for which the matrix is formed
CERTIFIED = 1e-8  # standard deviations: the largest mean of a level that is allowed
AIM = 1e-11  # standard deviations of what is left: the mean that refinement aims at
LEAST = 1e-6  # of the deviations of a column; what is left of it may be rounding
REFINEMENTS = 4
RANK = 1e-10  # eigenvalues below are zero; those of all levels are between 0 and 8
TRIAL = 30  # steps of conjugate gradients before the matrix is formed
MORE_STEPS = 5_000  # where it is not formed


@dataclass(frozen=True)
class AbsorbedEffects:
    """The effects of all columns.

    Attributes
    ----------
    values : list of arrays of shape (levels, columns)
        By effect; levels that were left out have 0.
    level_mean : float
        The largest mean of what is left in a level, in standard deviations of the column.
    method : str
    """

    values: list[Array]
    level_mean: float
    method: str


class NormalEquations:
    """D'UD, as the weights of levels and of pairs of levels."""

    def __init__(self, sums: PanelSums) -> None:
        self.weights = [by.weights for by in sums.by_level]
        self.counts = [by.counts for by in sums.by_level]
        sizes = [len(weights) for weights in self.weights]
        self.effects = range(len(sizes))
        self.largest = int(np.argmax(sizes))
        self.others = [effect for effect in self.effects if effect != self.largest]
        self.inverse = [_inverse(weights) for weights in self.weights]
        self.blocks = {
            (a, b): pairs.matrix((sizes[a], sizes[b]))
            for (a, b), pairs in sums.pairs.items()
            if b < len(sizes)
        }
        self.starts = np.cumsum([0, *(sizes[effect] for effect in self.others)])
        self.method = "division"
        self.well_connected = bool(self.others)  # until a trial fails
        if not self.others:
            return
        blocks = [self.block(self.largest, other) for other in self.others]
        self.across = blocks[0] if len(blocks) == 1 else sparse.csr_array(sparse.hstack(blocks))

    def block(self, a: int, b: int) -> Any:
        """The pairs of two effects."""
        return self.blocks[a, b] if a < b else sparse.csr_array(self.blocks[b, a].T)

    def _rest(self) -> Any:
        """The equations of the effects that are not eliminated first."""
        rows = [
            [
                sparse.diags_array(self.weights[a]) if a == b else self.block(a, b)
                for b in self.others
            ]
            for a in self.others
        ]
        return sparse.csr_array(sparse.block_array(rows))

    @cached_property
    def matrix(self) -> Any:
        """The matrix after the largest effect is eliminated; None if it would cost too much."""
        degrees = np.diff(self.across.indptr).astype(float)
        if degrees @ degrees > FILL * max(self.across.nnz, 1):
            return None
        scaled = sparse.csr_array(sparse.diags_array(self.inverse[self.largest]) @ self.across)
        return sparse.csr_array(self._rest() - sparse.csr_array(self.across.T) @ scaled)

    def solve(self, right: list[Array]) -> list[Array]:
        """A solution for sums by level."""
        first, inverse = right[self.largest], self.inverse[self.largest][:, None]
        if not self.others:
            return [inverse * first]
        b = np.vstack([right[other] for other in self.others]) - self.across.T @ (inverse * first)
        x = self._by_steps(b, TRIAL) if self.well_connected else None
        if x is None:
            self.well_connected = False
            if self.matrix is not None:
                x, self.method = solve_graph(self.matrix, b)
            else:
                x = self._by_steps(b, MORE_STEPS, True)
        assert x is not None
        values = [np.empty(0)] * len(right)
        values[self.largest] = inverse * (first - self.across @ x)
        for place, other in enumerate(self.others):
            values[other] = x[self.starts[place] : self.starts[place + 1]]
        return values

    def _by_steps(self, b: Array, most: int, last: bool = False) -> Array | None:
        """Conjugate gradients without forming the matrix; None if they have not converged, unless
        this is the ``last`` resort.
        """
        inverse, rest = self.inverse[self.largest][:, None], self._rest()
        diagonal = np.concatenate([self.weights[other] for other in self.others])
        x, steps, done = conjugate_gradients(
            lambda x: rest @ x - self.across.T @ (inverse * (self.across @ x)),
            b, diagonal_of(_inverse(diagonal)), diagonal, most,
        )  # fmt: skip
        self.method = f"{several(steps, 'step')} of conjugate gradients"
        return x if done or last else None

    def left(self, right: list[Array], values: list[Array]) -> list[Array]:
        """Sums by level of what is left."""
        rest = [
            right[effect] - self.weights[effect][:, None] * values[effect]
            for effect in self.effects
        ]
        for (a, b), block in self.blocks.items():
            rest[a] = rest[a] - block @ values[b]
            rest[b] = rest[b] - block.T @ values[a]
        return rest

    def rank(self) -> int:
        """The number of linearly independent levels, from the eigenvalues of all of them."""
        blocks = [
            [
                np.diag(self.weights[a]) if a == b else self.block(a, b).toarray()
                for b in self.effects
            ]
            for a in self.effects
        ]
        scale = np.sqrt(np.concatenate(self.inverse))
        matrix = np.block(blocks) * scale[:, None] * scale
        return int((np.linalg.eigvalsh(matrix) > RANK).sum())

    @cached_property
    def components(self) -> Indices:
        """For two effects, the number of the connected component of each level, of the first and
        then of the second; -1 for a level without rows.
        """
        block = self.blocks[0, 1]
        rows, columns = block.shape
        indptr = np.concatenate([block.indptr, np.full(columns, block.indptr[-1])])
        graph = sparse.csr_array(
            (block.data, block.indices + rows, indptr), shape=(rows + columns,) * 2
        )
        labels = connected_components(graph, directed=True, connection="weak")[1]
        return np.where(np.concatenate(self.counts) > 0, labels, -1)


def _inverse(weights: Array) -> Array:
    """1 / weights, and 0 for a level without rows."""
    return np.where(weights > 0, 1 / np.where(weights > 0, weights, 1.0), 0.0)


def absorb_effects(sums: PanelSums, equations: NormalEquations) -> AbsorbedEffects:
    """The effects, with a certificate; raises if what is left has a mean in some level."""
    right = [np.ascontiguousarray(by.values.T) for by in sums.by_level]
    whole = np.sqrt(np.maximum(np.diag(sums.centred_products()), 0.0) / sums.weight)
    whole = np.where(whole > 0, whole, 1.0)
    values = equations.solve(right)
    method = equations.method
    rest = equations.left(right, values)
    within = np.diag(within_products(sums, values)) / sums.weight
    within = np.sqrt(np.maximum(within, np.square(LEAST * whole)))
    worst = _largest_mean(equations, rest, within)
    for _ in range(REFINEMENTS):
        if worst <= AIM:
            break
        more = [a + b for a, b in zip(values, equations.solve(rest), strict=True)]
        left = equations.left(right, more)
        after = _largest_mean(equations, left, within)
        if after < worst / 2:
            values, rest, worst = more, left, after
        elif equations.well_connected:
            equations.well_connected = False  # factorise
        else:
            break
    worst = _largest_mean(equations, rest, whole)
    if not worst <= CERTIFIED:
        raise NotExactError(
            f"The fixed effects were not found: the mean of what is left in some level is"
            f" {worst:.1g} standard deviations, and should be below {CERTIFIED:g}. The levels are"
            f" too poorly connected ({method}); use fewer fixed effects, or join levels."
        )
    return AbsorbedEffects(values, worst, method)


def within_products(sums: PanelSums, values: list[Array]) -> Array:
    """The products of what is left, Z'U(Z - Da), with the digits that this difference has."""
    products = sums.products - sum(
        by.values @ effects for by, effects in zip(sums.by_level, values, strict=True)
    )
    return np.asarray((products + products.T) / 2)


def _largest_mean(equations: NormalEquations, rest: list[Array], deviations: Array) -> float:
    """Of what is left, in any level and column, in standard deviations."""
    return max(
        float((np.abs(part) * inverse[:, None] / deviations).max(initial=0.0))
        for part, inverse in zip(rest, equations.inverse, strict=True)
    )
