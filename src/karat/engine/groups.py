"""Many groups of rows, each reduced and proven by itself: small ones in stacks, all others one by one.

:func:`karat.engine.reduce.build` takes some 3 ms for a group of a hundred rows, nearly all of it in the interpreter.  Here groups
of nearly the same size share every call:

    fit_groups        coordinates and second moments                   :mod:`karat.engine.group_moments`
    candidates        all rows of a small group, else a sample, as points in coordinates of their span
    match, eliminate  weights on at most rank rows                     :mod:`karat.engine.group_weights`
    measure_groups    the proof                                        :mod:`karat.engine.group_proof`

These are the first steps of the policy of :mod:`karat.engine.reduce`, for losses of degree 2.  A group for which they do not lead to a
proof (tails, collinear columns, ...) goes the ordinary way, from its beginning, as do large groups and other kernels.  What is
found for a group depends on its own rows alone, whatever other groups there are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from karat.engine import linalg
from karat.engine.group_moments import GroupMoments, fit_groups, stacked_rows
from karat.engine.group_points import Stack, kept_whole
from karat.engine.kernel import Kernel
from karat.engine.linalg import Flags, Indices
from karat.engine.powers import Powers
from karat.engine.reduce import COMPLETE, Reduction, build
from karat.engine.rows import Progress, Rows
from karat.engine.weights import FIRST, SECOND

WIDE = 200  # features up to which stacks are worth it
STACK = 2**18  # numbers of one stack
STEP, SHARE = 8, 16  # sizes of groups are rounded up to a multiple of 8, larger ones to one of a sixteenth of their size
ROW_RANK = 1e-6  # relative eigenvalue of a matrix of inner products above which rows are independent beyond doubt


def reduce_many(
    rows: Rows, starts: Indices, kernel: Kernel, method: str = "auto", seed: int = 0, progress: Progress | None = None
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
    found: list[Reduction | None] = [None] * (len(starts) - 1)
    done = 0
    if stackable(kernel, method) and len(starts) > 2:
        assert isinstance(kernel, Powers)
        with linalg.few_threads(kernel.width):
            for group, reduction in _stacked(rows, np.asarray(starts), kernel, seed):
                found[group] = reduction
                done += int(starts[group + 1] - starts[group])
                if progress is not None:
                    progress(done, len(rows))
    for group, reduction in enumerate(found):
        if reduction is None:
            one = rows.run(int(starts[group]), int(starts[group + 1]))
            found[group] = build(one, kernel, method, seed, _further(progress, done, len(rows)))
            done += len(one)
    return [reduction for reduction in found if reduction is not None]


def _further(progress: Progress | None, done: int, count: int) -> Progress | None:
    """The progress of one group among ``count`` rows, of which some are done."""
    return None if progress is None else lambda here, _: progress(done + here, count)


def stackable(kernel: Kernel, method: str) -> bool:
    """Whether the groups of a problem can be reduced in stacks."""
    fits = isinstance(kernel, Powers) and kernel.degree == 2 and kernel.single is None and not kernel.separate_targets
    return fits and kernel.width <= WIDE and method in ("auto", "onepass")


def rounded_up(counts: Indices) -> Indices:
    """Sizes of groups, rounded up so that groups of nearly the same size have the same."""
    step = np.exp2(np.floor(np.log2(np.maximum(counts / SHARE, STEP)))).astype(np.intp)
    return np.asarray((counts + step - 1) // step * step)


def _stacked(rows: Rows, starts: Indices, kernel: Powers, seed: int) -> Iterator[tuple[int, Reduction]]:
    """The groups for which stacks lead to a proof."""
    counts = np.diff(starts)
    sizes = rounded_up(counts)
    for size in np.unique(sizes[counts <= COMPLETE]).tolist():
        same = np.flatnonzero((sizes == size) & (counts <= COMPLETE))
        yield from _of_one_size(rows, starts[:-1], counts, same, size, kernel, seed)


def _of_one_size(
    rows: Rows, starts: Indices, counts: Indices, same: Indices, size: int, kernel: Powers, seed: int
) -> Iterator[tuple[int, Reduction]]:
    small = same[counts[same] <= kernel.width]
    kept = np.zeros(len(starts), dtype=bool)
    for some in _pieces(small, size * size):
        found = kept_whole(rows, kernel, starts[some], counts[some], size, ROW_RANK)
        for group, reduction in zip(some.tolist(), found, strict=True):
            if reduction is not None:
                kept[group] = True
                yield group, reduction
    left = same[~kept[same]]
    if not len(left):
        return
    fitted = GroupMoments.joined(
        [
            fit_groups(*stacked_rows(rows, starts[some], counts[some], size), kernel.affine)
            for some in _pieces(left, size * (rows.columns + 1))
        ]
    )
    for alive, members in _alike(fitted):
        stack = Stack(rows, kernel, alive)
        few = counts[left[members]] <= SECOND * stack.width
        for times, which in ((0.0, few), (FIRST, ~few), (SECOND, ~few)):
            waiting = members[which & ~kept[left[members]]]
            candidates = int(times * stack.width) or size
            drawn = np.random.default_rng(seed).random(candidates) if times else None
            for some in _pieces(waiting, candidates * stack.width):
                groups = left[some]
                for place, reduction in stack.reduced(starts[groups], counts[groups], fitted.chosen(some), candidates, drawn):
                    kept[groups[place]] = True
                    yield int(groups[place]), reduction


def _pieces(groups: Indices, numbers: int) -> Iterator[Indices]:
    """Groups, each of which makes so many numbers, in pieces of one stack."""
    most = max(1, STACK // numbers)
    return (groups[i : i + most] for i in range(0, len(groups), most))


def _alike(fitted: GroupMoments) -> Iterator[tuple[Flags, Indices]]:
    """The groups whose moments are good, by the variables that do not vanish in them."""
    good = np.flatnonzero(fitted.good)
    if len(good):
        patterns, which = np.unique(fitted.alive[good], axis=0, return_inverse=True)
        for i, alive in enumerate(patterns):
            yield alive, good[which.ravel() == i]
