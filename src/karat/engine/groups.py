"""Many groups of rows, each reduced (or made, as synthetic rows) and proven by itself: small ones
in stacks, all others one by one.

:func:`karat.engine.reduce.build` takes some 3 ms for a group of a hundred rows, nearly all of it in
the interpreter.  Here groups of nearly the same size share every call:

    fit_groups        coordinates and second moments                group_moments.py
    candidates        all rows of a small group, else a sample, as  group_points.py
                      points in coordinates of their span
    match, eliminate  weights on at most rank rows                  group_weights.py
    measure_groups    the proof                                     group_proof.py

These are the first steps of the policy of :mod:`karat.engine.reduce`, for losses of degree 2.  A
group for which they do not lead to a proof (tails, collinear columns, ...) is reduced by itself,
from the first step on, as are large groups and groups of other kernels.

Synthetic rows of a group are one layer of :mod:`karat.engine.synthetic`, in the coordinates of
``fit_groups``.  Where this gives no proof (offsets, collinear columns, wild rows) it is treated by
itself, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeGuard

import numpy as np

from karat.engine.blocked import share
from karat.engine.claim import Reduction
from karat.engine.group_moments import (
    GroupMoments,
    drawn_rows,
    each,
    fit_by_pass,
    fit_groups,
    row_stack,
)
from karat.engine.group_points import Stack, kept_whole
from karat.engine.group_proof import KeptStack, measure_groups
from karat.engine.kernel import COMPLETE, Kernel
from karat.engine.linalg import Array, Flags, Indices, one_blas_thread, threads
from karat.engine.powers import Powers
from karat.engine.reduce import build
from karat.engine.rows import Progress, Rows
from karat.engine.second_moments import SecondMoments
from karat.engine.synthetic import GOAL, SHARP, SYNTHETIC, MadeRows, simplex_rows, synthesise
from karat.engine.weights import SECOND

WIDE = 120  # features up to which stacks are faster
# groups of one size that a thread takes at a time; it must not depend on the number of threads
MANY = 256
STACK = 2**20  # numbers of one stack
# sizes of groups are rounded up to a multiple of 8, larger ones to one of a sixteenth of their size
STEP, SHARE = 8, 16
TIERS = (3.0, SECOND)  # sampled candidates per feature: a stack that fails half is costly
NARROW = 64  # columns up to which synthetic rows are made in stacks
FRAMES = 100  # groups up to which their frames are kept
PILOT = 256  # rows that tell the coordinates of a group
LARGE = 2048  # rows beyond which a pass over a group costs more than its calls


def reduce_many(
    rows: Rows,
    starts: Indices,
    kernel: Kernel,
    method: str = "auto",
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Reduction]:
    """Reduce every group of rows by itself.

    Parameters
    ----------
    rows : Rows
        In the order of their groups.
    starts : array of shape (G + 1,)
        Group g has the rows ``starts[g]:starts[g + 1]``, at least one.
    kernel, method, seed, progress
        As in :func:`karat.engine.reduce.build`.

    Returns
    -------
    list of Reduction
        Positions are counted from the start of each group.
    """
    reductions: dict[int, Reduction] = {}
    done = 0
    if stackable(kernel, method) and len(starts) > 2:
        with one_blas_thread():
            for group, reduction in in_stacks(rows, np.asarray(starts), kernel, seed):
                reductions[group] = reduction
                done += int(starts[group + 1] - starts[group])
                if progress is not None:
                    progress(done, len(rows))
    for group in range(len(starts) - 1):
        if group not in reductions:
            group_rows = rows.run(int(starts[group]), int(starts[group + 1]))
            reductions[group] = build(
                group_rows, kernel, method, seed, _further(progress, done, len(rows))
            )
            done += len(group_rows)
    return [reductions[group] for group in range(len(starts) - 1)]


def synthesise_many(
    rows: Rows, starts: Indices, seed: int = 0, progress: Progress | None = None,
    origin: Array | None = None, sharp: bool = False,
) -> list[MadeRows]:  # fmt: skip
    """Make rows for every group; the arguments are those of :func:`reduce_many` and of
    :func:`karat.engine.synthetic.synthesise`.
    """
    made_rows: dict[int, MadeRows] = {}
    kernel, counts = SecondMoments(rows.columns), np.diff(starts)
    frames = len(counts) <= FRAMES

    def do(part: tuple[int, Indices]) -> list[tuple[int, MadeRows]]:
        size, batch = part
        fitted = Groups(rows, kernel, starts[batch], counts[batch], size, seed).moments(
            np.arange(len(batch))
        )
        return [
            (int(batch[members[place]]), made)
            for alive, members in _alike(fitted)
            for place, made in made_in_stacks(kernel, fitted.chosen(members), alive, frames, sharp)
        ]

    if rows.columns < NARROW and len(counts) > 1 and (origin is None or not origin.any()):
        with one_blas_thread():
            made_rows |= dict(chain.from_iterable(share(do, batches(counts), threads())))
    done = int(counts[list(made_rows)].sum())
    for group in range(len(counts)):
        if group not in made_rows:
            group_rows = rows.run(int(starts[group]), int(starts[group + 1]))
            made_rows[group] = synthesise(
                group_rows, seed, _further(progress, done, len(rows)), origin=origin, sharp=sharp
            )
            done += len(group_rows)
    return [made_rows[group] for group in range(len(counts))]


def measure_many(
    rows: Rows,
    starts: Indices,
    counts: Indices,
    kept: Rows,
    kept_starts: Indices,
    kept_counts: Indices,
    kernel: Kernel,
) -> dict[int, Reduction]:
    """Prove kept rows of groups against all rows of each group, in stacks; return the groups for
    which this succeeds.

    Group g has ``counts[g]`` rows from ``starts[g]`` on, and likewise for the kept rows.
    """
    proven: dict[int, Reduction] = {}
    if not stackable(kernel, "auto"):
        return proven
    with one_blas_thread():
        for size, same in by_size(counts):
            fitted = Groups(rows, kernel, starts[same], counts[same], size, 0).moments(
                np.arange(len(same))
            )
            for alive, members in _alike(fitted):
                stack = Stack(kept, kernel, alive)
                for piece in _pieces(members, int(kept_counts.max()) * (kept.columns + 1)):
                    groups = same[piece]
                    for place, reduction in stack.measured(
                        kept, kept_starts[groups], kept_counts[groups], fitted.chosen(piece)
                    ):
                        proven[int(groups[place])] = reduction
    return proven


def _further(progress: Progress | None, done: int, count: int) -> Progress | None:
    """The progress of one group, if ``done`` of ``count`` rows were finished before it."""
    return None if progress is None else lambda here, _: progress(done + here, count)


def stackable(kernel: Kernel, method: str) -> TypeGuard[Powers]:
    """Whether the groups of a problem can be reduced in stacks."""
    fits = (
        isinstance(kernel, Powers)
        and kernel.degree == 2
        and kernel.single is None
        and not kernel.separate_targets
    )
    return fits and kernel.width <= WIDE and method in ("auto", "onepass")


def rounded_up(counts: Indices) -> Indices:
    """Sizes of groups, rounded up so that groups of similar size have the same size."""
    step = np.exp2(np.floor(np.log2(np.maximum(counts / SHARE, STEP)))).astype(np.intp)
    return np.asarray((counts + step - 1) // step * step)


def by_size(counts: Indices) -> Iterator[tuple[int, Indices]]:
    """The groups that are not large, by rounded size."""
    sizes = np.where(counts <= COMPLETE, rounded_up(counts), 0)
    return ((size, np.flatnonzero(sizes == size)) for size in np.unique(sizes[sizes > 0]).tolist())


def batches(counts: Indices) -> Iterator[tuple[int, Indices]]:
    """The same in parts, which threads take one after the other."""
    for size, same in by_size(counts):
        for batch in np.array_split(same, 1 + len(same) // MANY):
            yield size, batch


def in_stacks(
    rows: Rows, starts: Indices, kernel: Powers, seed: int
) -> Iterator[tuple[int, Reduction]]:
    """The groups that are proven in stacks."""
    counts = np.diff(starts)

    def do(part: tuple[int, Indices]) -> list[tuple[int, Reduction]]:
        size, batch = part
        reductions = Groups(rows, kernel, starts[batch], counts[batch], size, seed).reduced()
        return [(int(batch[place]), reduction) for place, reduction in reductions]

    yield from chain.from_iterable(share(do, batches(counts), threads()))


class Groups:
    """Groups of similar size, to be reduced in stacks."""

    def __init__(
        self, rows: Rows, kernel: Powers, starts: Indices, counts: Indices, size: int, seed: int
    ) -> None:
        self.rows, self.kernel, self.starts, self.counts, self.size, self.seed = (
            rows,
            kernel,
            starts,
            counts,
            size,
            seed,
        )

    def _drawn(self, count: int) -> Array:
        return np.random.default_rng(self.seed).random(count)

    def reduced(self) -> Iterator[tuple[int, Reduction]]:
        """The groups for which a proof is found, with their places."""
        done = np.zeros(len(self.starts), dtype=bool)
        small = np.flatnonzero(self.counts <= self.kernel.width)
        for piece in _pieces(small, self.size * self.size):
            for place, reduction in kept_whole(
                self.rows, self.kernel, self.starts[piece], self.counts[piece], self.size
            ):
                done[piece[place]] = True
                yield int(piece[place]), reduction
        left = np.flatnonzero(~done)
        if not len(left):
            return
        fitted = self.moments(left)
        for alive, members in _alike(fitted):
            stack = Stack(self.rows, self.kernel, alive)
            # 0: all rows of small groups; then larger and larger samples of the others
            for times in (0.0, *TIERS):
                few = self.counts[left[members]] <= SECOND * stack.width
                waiting = members[(few if not times else ~few) & ~done[left[members]]]
                candidates = int(times * stack.width) or self.size
                drawn = self._drawn(candidates) if times else None
                for piece in _pieces(waiting, candidates * stack.width):
                    groups, moments = left[piece], fitted.chosen(piece)
                    for place, reduction in stack.reduced(
                        self.starts[groups], self.counts[groups], moments, candidates, drawn
                    ):
                        done[groups[place]] = True
                        yield int(groups[place]), reduction

    def moments(self, groups: Indices) -> GroupMoments:
        """Coordinates and moments of groups, from stacks of all rows or by a pass over each larger
        group.
        """
        starts, counts = self.starts[groups], self.counts[groups]
        if self.size > LARGE:
            count = int(TIERS[0] * self.kernel.width) or PILOT  # no features: for coordinates alone
            pilot = drawn_rows(starts, counts, self._drawn(count))
            return fit_by_pass(self.rows, starts, counts, pilot, self.kernel.affine)
        pieces = _pieces(np.arange(len(groups)), self.size * (self.rows.columns + 1))
        read = (row_stack(self.rows, starts[piece], counts[piece], self.size) for piece in pieces)
        return GroupMoments.joined([fit_groups(*stack, self.kernel.affine) for stack in read])


def _pieces(groups: Indices, numbers: int) -> Iterator[Indices]:
    """Groups in pieces that fit into one stack; each group makes that many ``numbers``."""
    most = max(1, STACK // numbers)
    return (groups[i : i + most] for i in range(0, len(groups), most))


def _alike(fitted: GroupMoments) -> Iterator[tuple[Flags, Indices]]:
    """The groups whose moments are good, collected by the variables that do not vanish in them."""
    good = np.flatnonzero(fitted.good)
    if len(good):
        patterns, pattern_of = np.unique(fitted.alive[good], axis=0, return_inverse=True)
        for i, alive in enumerate(patterns):
            yield alive, good[pattern_of.ravel() == i]


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def made_in_stacks(
    kernel: SecondMoments, moments: GroupMoments, alive: Flags, frames: bool, sharp: bool
) -> Iterator[tuple[int, MadeRows]]:  # fmt: skip
    """Made rows of the groups for which they are proven, with their places.

    ``alive`` flags the variables that are not zero.  With ``frames``, the moments hold the frame
    from which standard errors of coefficients are computed.  ``sharp`` as in
    :func:`karat.engine.synthetic.synthesise`.
    """
    groups, goal = len(moments.total), SHARP if sharp else GOAL
    inner = np.ix_(np.arange(groups), alive, alive)
    sums, map_ = moments.sums[inner], moments.map[inner]
    mean_square = sums / moments.total[:, None, None]
    mean, rank = mean_square[:, 0, 1:], int(alive.sum()) - 1
    spread = mean_square[:, 1:, 1:] - mean[:, :, None] * mean[:, None, :]
    root = each(np.linalg.cholesky, spread).transpose(0, 2, 1) if rank else spread
    coordinates = np.ones((groups, rank + 1, rank + 1))
    coordinates[:, :, 1:] = mean[:, None, :] + simplex_rows(np.eye(rank)) @ root
    mapped = ~moments.plain
    variables = coordinates.copy()
    if mapped.any():
        variables[mapped] = coordinates[mapped] @ each(np.linalg.inv, map_[mapped])
    # The rows as they are stored, and read again.
    values = np.repeat(moments.shift[:, None, :], rank + 1, axis=1)
    values[:, :, alive[1:]] += variables[:, :, 1:]
    variables[:, :, 1:] = (values - moments.shift[:, None, :])[:, :, alive[1:]]
    variables[:, :, 0] = 1.0
    weights = np.repeat(moments.total[:, None] / (rank + 1), rank + 1, axis=1)
    kept = KeptStack(variables, weights, map_, moments.plain, sums, moments.total, True)
    positions, peeled = np.arange(rank + 1), np.zeros(rank + 1, dtype=bool)
    for place, proof in enumerate(measure_groups(kept, False)):
        if proof.ok and proof.reducible_error <= goal:
            fitted = kernel.no_moments(float(moments.total[place]))
            if frames:
                frame = moments.frame(place, alive, True)
                fitted = replace(fitted, statistic=(frame.second,), frame=frame)
            yield place, MadeRows(
                positions, weights[place], fitted, rank, proof, SYNTHETIC,
                1 + int(moments.twice[place]), peeled, values=values[place], most=rank + 1,
            )  # fmt: skip
