"""From moments to proven rows, for a stack of groups of nearly one size: candidates as points, a
vertex, the proof.

All groups of a stack have the same variables alive, so their coordinates have one number r and
their features one number m. Where features depend on each other (a column of zeros and ones: x^2 =
x), points are expressed in orthonormal coordinates of their span, by SVD of the features
themselves.  Groups of the same rank are then processed together.  See :mod:`karat.engine.points`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from karat.engine.claim import Proof, Reduction
from karat.engine.group_moments import (
    GroupMoments,
    block_of,
    drawn_rows,
    each,
    group_positions,
    row_stack,
    subtract,
    weights_of,
)
from karat.engine.group_proof import KeptStack, measure_groups
from karat.engine.group_weights import (
    match_group_moments,
    polish_groups,
    reduce_group_points,
    take_rows,
)
from karat.engine.kernel import FittedMoments, monomials
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.powers import Powers
from karat.engine.rows import Rows
from karat.engine.tolerances import EPS, EXACT, MISSED, PIVOT, RANK_WHITENED, TINY

METHOD = "onepass"
# relative eigenvalue of a matrix of inner products above which rows are independent beyond doubt
ROW_RANK = 1e-6


@dataclass(frozen=True)
class Candidates:
    """Candidate rows of G groups."""

    positions: Indices  # (G, N): in all rows
    nominal: Array  # (G, N): nominal weights, zero where a row fills up
    variables: Array  # (G, N, v): shifted
    coordinates: Array  # (G, N, r)


@dataclass(frozen=True)
class Points:
    """The candidates of groups as points in independent coordinates; see ``CandidatePoints``."""

    groups: Indices  # which groups of the stack
    points: Array  # (G, N, r)
    target: Array  # (G, r)
    gram: Array  # (G, r, r): of the points


class Stack:
    """Reduces groups in which the same variables are alive.

    Parameters
    ----------
    rows : Rows
        The rows of all groups.
    kernel : Powers
        Of degree 2, in no coordinates yet.
    alive : array of bool
        The variables that do not vanish.
    """

    def __init__(self, rows: Rows, kernel: Powers, alive: Flags) -> None:
        self.rows, self.kernel, self.alive = rows, kernel, alive
        self.variables = int(alive.sum())
        self.root = np.sqrt(monomials(self.variables, 2).multinomials)
        self.first, self.last = np.triu_indices(self.variables)
        self.width = len(self.root) + kernel.total

    def reduced(
        self, starts: Indices, counts: Indices, fitted: GroupMoments, size: int, drawn: Array | None
    ) -> Iterator[tuple[int, Reduction]]:
        """The groups for which a proof is found, with their places in the stack.

        Candidates are all rows of a group, up to ``size``; with ``drawn``, one row for each of its
        numbers in [0, 1).
        """
        candidates = self._candidates(starts, counts, fitted, size, drawn)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for resolved in self._points(candidates, fitted):
                yield from self._vertices(
                    resolved, candidates, fitted, starts, counts, drawn is not None
                )

    def _candidates(
        self, starts: Indices, counts: Indices, fitted: GroupMoments, size: int, drawn: Array | None
    ) -> Candidates:
        if drawn is None:
            positions, inside = group_positions(starts, counts, size)
            nominal = weights_of(self.rows, positions, inside)
        else:
            positions = drawn_rows(starts, counts, drawn)
            nominal = weights_of(self.rows, positions, np.ones(positions.shape, dtype=bool))
            nominal *= (fitted.total / nominal.sum(axis=1))[:, None]
        return self._in_coordinates(positions, nominal, block_of(self.rows, positions), fitted)

    def _in_coordinates(
        self, positions: Indices, nominal: Array, block: Array, fitted: GroupMoments
    ) -> Candidates:
        subtract(block, fitted.shift)
        variables = block if self.kernel.affine else block[:, :, 1:]
        return Candidates(
            positions, nominal, variables, variables @ fitted.map @ fitted.step[:, :, self.alive]
        )

    def measured(
        self, kept: Rows, starts: Indices, counts: Indices, fitted: GroupMoments
    ) -> Iterator[tuple[int, Reduction]]:  # fmt: skip
        """The groups whose kept rows are proven against the moments of all their rows, with their
        places.
        """
        block, weights = row_stack(kept, starts, counts, int(counts.max()))
        positions = np.tile(np.arange(block.shape[1]), (len(starts), 1))
        candidates = self._in_coordinates(positions, weights, block, fitted)
        zero = (candidates.variables[:, :, ~self.alive] == 0).all(axis=(1, 2))  # where all rows are
        groups = np.flatnonzero(zero & np.isfinite(candidates.variables).all(axis=(1, 2)))
        if len(groups):
            none = np.zeros(len(starts), dtype=np.intp)
            yield from self._proven(
                groups, positions[groups], weights[groups], self.width, candidates, fitted, none
            )

    def _features(self, coordinates: Array) -> Array:
        """Isometric monomials of degree 2, and the constant if the total weight is a feature of its
        own.
        """
        features = np.empty((*coordinates.shape[:2], self.width))
        begin = 0
        for i in range(self.variables):
            end = begin + self.variables - i
            np.multiply(
                coordinates[:, :, i : i + 1], coordinates[:, :, i:], out=features[:, :, begin:end]
            )
            begin = end
        features[:, :, :begin] *= self.root
        features[:, :, begin:] = 1.0
        return features

    def _targets(self, fitted: GroupMoments) -> Array:
        gram = fitted.gram[:, self.alive][:, :, self.alive]
        targets = self.root * gram[:, self.first, self.last]
        return np.column_stack([targets, fitted.total]) if self.kernel.total else targets

    def _points(self, candidates: Candidates, fitted: GroupMoments) -> Iterator[Points]:
        """Points in independent coordinates; groups of one rank together."""
        points = self._features(candidates.coordinates)
        points *= np.sqrt(candidates.nominal)[:, :, None]
        scale = np.sqrt(
            np.einsum("gnm,gnm->gm", points, points) / candidates.nominal.sum(axis=1)[:, None]
        )
        scale[scale <= 16 * EPS] = 1.0
        points /= scale[:, None, :]
        target = self._targets(fitted) / scale
        independent = np.zeros(len(points), dtype=bool)
        if points.shape[1] >= self.width:
            gram = points.transpose(0, 2, 1) @ points.copy()
            diagonal = np.einsum("gii->gi", gram)
            fine = np.isfinite(gram).all(axis=(1, 2)) & (diagonal > 0).all(axis=1)
            factor = each(
                np.linalg.cholesky, np.where(fine[:, None, None], gram, np.eye(self.width))
            )
            pivots = np.square(np.einsum("gii->gi", factor)) / diagonal
            independent = fine & (pivots >= PIVOT).all(axis=1)
        clear = np.flatnonzero(independent)
        if len(clear):
            whole = len(clear) == len(points)
            yield Points(
                clear, *(part if whole else part[clear] for part in (points, target, gram))
            )
        rest = np.flatnonzero(
            ~independent & np.isfinite(points).all(axis=(1, 2)) & np.isfinite(target).all(axis=1)
        )
        if len(rest):
            yield from _spanned(points[rest], target[rest], rest)

    def _vertices(
        self,
        resolved: Points,
        candidates: Candidates,
        fitted: GroupMoments,
        starts: Indices,
        counts: Indices,
        sampled: bool,
    ) -> Iterator[tuple[int, Reduction]]:
        """Weights on at most rank rows of each group, and their proofs."""
        groups, points, target = resolved.groups, resolved.points, resolved.target
        root, rank = np.sqrt(candidates.nominal[groups]), resolved.points.shape[2]
        mass = root
        if sampled:
            mass = root * match_group_moments(points, root, target, resolved.gram)
            met = np.isfinite(mass).all(axis=1)
            if not met.all():
                groups, points, target, root, mass = (
                    groups[met],
                    points[met],
                    target[met],
                    root[met],
                    mass[met],
                )
            if not len(groups):
                return
        reduced = reduce_group_points(points, mass)
        support = np.argsort(~(reduced > 0), axis=1, kind="stable")[:, :rank]
        held, held_points = np.take_along_axis(reduced, support, axis=1), take_rows(points, support)
        full = held.shape[1] == rank and (held > 0).all(axis=1) & (counts[groups] > rank)
        if np.any(full):
            held[full] = polish_groups(held_points[full], held[full], target[full])
        weights = held * np.take_along_axis(root, support, axis=1)
        few = counts[groups] <= rank  # nothing to reduce: the rows with their own weights
        weights[few] = np.take_along_axis(candidates.nominal[groups], support, axis=1)[few]
        yield from self._proven(groups, support, weights, rank, candidates, fitted, starts)

    def _proven(
        self, groups: Indices, support: Indices, weights: Array, rank: int, candidates: Candidates,
        fitted: GroupMoments, starts: Indices,
    ) -> Iterator[tuple[int, Reduction]]:  # fmt: skip
        chosen = fitted.chosen(groups)
        alive = np.ix_(np.arange(len(groups)), self.alive, self.alive)
        kept = KeptStack(
            take_rows(candidates.variables[groups], support)[:, :, self.alive],
            weights,
            chosen.map[alive],
            chosen.plain,
            chosen.sums[alive],
            chosen.total,
            self.kernel.affine,
        )
        proofs = measure_groups(kept, self.kernel.total)
        positions = (
            np.take_along_axis(candidates.positions[groups], support, axis=1) - starts[groups, None]
        )
        for i, (place, proof) in enumerate(zip(groups.tolist(), proofs, strict=True)):
            if proof.ok and proof.reducible_error <= EXACT:
                inside = weights[i] > 0
                order = np.argsort(positions[i, inside])
                moments = self._fitted(chosen, i)
                yield place, Reduction(
                    positions[i, inside][order], weights[i, inside][order], moments,
                    min(rank, len(order)), proof, METHOD, passes=1 + int(chosen.twice[i]),
                )  # fmt: skip

    def _fitted(self, moments: GroupMoments, i: int) -> FittedMoments:
        """The moments of one group, with the kernel in its coordinates."""
        frame, total = moments.frame(i, self.alive, self.kernel.affine), float(moments.total[i])
        step, gram = moments.step[i][:, self.alive], moments.gram[i][np.ix_(self.alive, self.alive)]
        maps = (step,) if moments.plain[i] else (moments.map[i], step)
        kernel = self.kernel.within(replace(frame.basis, map=moments.map[i] @ step), maps)
        kernel.shift = moments.shift[i]
        vanished = ~self.alive[int(self.kernel.affine) :]
        target = kernel.read_moments(gram, total)
        return FittedMoments(kernel, target, (gram,), total, frame=frame, vanished=vanished)


def _spanned(points: Array, target: Array, groups: Indices) -> Iterator[Points]:
    """Points in orthonormal coordinates of their numerical span, where it holds the target."""
    norm = np.sqrt(np.einsum("gnm,gnm->gm", points, points))
    norm[norm == 0] = 1.0
    scaled = points / norm[:, None, :]
    matrix = np.linalg.qr(scaled, mode="r") if points.shape[1] > points.shape[2] else scaled
    try:
        _, s, right = np.linalg.svd(matrix, full_matrices=False)
    # One of them does not converge.  Reduced by themselves, groups have a slower driver as well.
    except np.linalg.LinAlgError:
        return
    ranks = (s > RANK_WHITENED * s[:, :1]).sum(axis=1)
    for rank in np.unique(ranks[ranks > 0]).tolist():
        same = np.flatnonzero(ranks == rank)
        basis, values = right[same, :rank].transpose(0, 2, 1), s[same, None, :rank]
        aim = target[same] / norm[same]
        within = aim[:, None, :] @ basis
        outside = np.abs(target[same] - norm[same] * (within @ basis.transpose(0, 2, 1))[:, 0]).max(
            axis=1
        )
        reached = outside <= MISSED * np.abs(target[same]).max(axis=1).clip(TINY)
        same, basis, values, within = (part[reached] for part in (same, basis, values, within))
        if len(same):
            span = basis / values / norm[same][:, :, None]
            identity = np.broadcast_to(np.eye(rank), (len(same), rank, rank)).copy()
            yield Points(groups[same], points[same] @ span, (within / values)[:, 0], identity)


def kept_whole(
    rows: Rows, kernel: Powers, starts: Indices, counts: Indices, size: int
) -> Iterator[tuple[int, Reduction]]:
    """All rows of groups in which they are independent beyond doubt, with their own weights.

    Features of degree 2 have the inner products ``(a . b)^2``.  Rows are independent if that
    matrix, with unit diagonal, has no eigenvalue below ROW_RANK.
    """
    _, inside = group_positions(starts, counts, size)
    block, weights = row_stack(rows, starts, counts, size)
    variables = block if kernel.affine else block[:, :, 1:]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moved = variables.copy()
        if kernel.affine:
            moved[:, :, 1:] -= variables[:, :, 1:].mean(axis=1, keepdims=True)
        largest = np.abs(moved).max(axis=1, keepdims=True)
        moved /= np.where(largest > 0, largest, 1.0)
        products = np.square(moved @ moved.transpose(0, 2, 1))
        length = np.sqrt(np.einsum("gii->gi", products))
        products /= length[:, :, None] * length[:, None, :]
        products[~(inside[:, :, None] & inside[:, None, :])] = 0.0
        np.einsum("gii->gi", products)[~inside] = 1.0
        fine = np.isfinite(products).all(axis=(1, 2)) & np.isfinite(variables).all(axis=(1, 2))
        products[~fine] = 0.0
        lowest = np.linalg.eigvalsh(products)[:, 0]
        gram = variables.transpose(0, 2, 1) @ (variables * weights[:, :, None])
    finite = np.isfinite(gram).all(axis=(1, 2))
    for i in np.flatnonzero((lowest > ROW_RANK) & finite).tolist():
        count, total = int(counts[i]), float(weights[i].sum())
        moments = FittedMoments(kernel, kernel.read_moments(gram[i], total), (gram[i],), total)
        yield (
            i,
            Reduction(
                np.arange(count),
                weights[i, :count],
                moments,
                count,
                Proof.trivial(2),
                "all rows",
                passes=1,
            ),
        )
