"""A stream of rows: after every fold, few rows carry the moments of everything seen, without drift.

    moments += statistic(new rows)                       # compensated, in fixed coordinates
    rows     = vertex(held rows and new rows, moments)   # at most rank rows again

If a fold aimed at the sum of the held rows only, rounding errors would add up from fold to fold.
Here every fold aims at the running sum of the stream itself, so nothing accumulates.
The sum is kept as an unevaluated pair high + low (Knuth's two-sum: ``s = a + b`` and its exact
error), so its own error does not grow with the number of folds.

Coordinates come from the rows held when the sum was started: they have the second moments of all
rows before them, so the map whitens exactly.  No direction is dropped, not even one that has
vanished so far, because later rows may need it.  If the mean or scale of the stream moves by orders
of magnitude, the kernel asks for better coordinates.  Earlier rows are gone, but the held ones
represent them: the sum starts again from these.  That happens a logarithmic number of times; the
claim of the held rows is then inherited, and both of its terms are added to that of the result.

The claim is about the means of all columns, which wander with the stream.  Sums of features are
converted to the current means, together with their error bounds (:mod:`karat.engine.carried`).  If
these bounds exceed what the second term has room for, the sum starts again.

A row that dominates a moment is peeled on arrival: it is held verbatim and left out of the sum, so
that its rounding does not spoil what the others contribute.  Its share can only fall while rows
arrive, and every fold tries first to give peeled rows back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from karat.engine.carried import (
    Running,
    about_the_means,
    inheriting,
    means_kernel,
    owed_by,
    owed_share,
    serves_powers,
    sums_about_means,
)
from karat.engine.claim import NO_ERROR, Proof, Reduction
from karat.engine.exhaustive import informed, reduce_by_tree
from karat.engine.kernel import (
    FittedMoments,
    Kernel,
    NonFiniteError,
    fit_moments,
    pilot_size,
    searches,
)
from karat.engine.linalg import Array, Flags, Indices, one_blas_thread
from karat.engine.points import apart, candidate_points
from karat.engine.powers import Powers
from karat.engine.proof import measure
from karat.engine.reduce import (
    FEW,
    about_means,
    better,
    keep_all_rows,
    vertex,
    with_peeled,
    without_rank_decision,
)
from karat.engine.rows import Rows, own_weights, sample
from karat.engine.tolerances import AFFORD, CONTENT, EXACT, ROUNDING, SHARP, TINY
from karat.engine.weights import sampled

METHOD = "sketch"
FOLD = 2**20  # rows between folds
# about what a sum and the rows held spend of the second term anew, in units of ROUNDING
LEAST = 0.5


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def fold(
    rows: Rows,
    new: Rows,
    kernel: Kernel,
    running: Running | None,
    rng: np.random.Generator,
    peeled: Flags | None = None,
) -> tuple[Reduction, Running]:
    """Reduce held and new rows to at most rank rows that carry the moments of the whole stream.

    ``rows`` are the held rows followed by the ``new`` ones, which are read faster where they have
    no weights.  ``peeled`` flags the held rows that are peeled.  The kernel has no coordinates yet.
    ``running`` is the sum without the new and the peeled rows, None at the first fold.
    """
    held = len(rows) - len(new)
    peeled = np.zeros(held, dtype=bool) if peeled is None else peeled
    continued: Reduction | None = None
    if running is not None:
        continued, grown, again = _continued(rows, new, kernel, running, rng, peeled)
        # A restart spends a part of both terms of the claim, so there must be room for it.
        afford = again <= AFFORD and running.held.loss_error <= EXACT / 4
        room = continued is not None and continued.claim.spent <= max(AFFORD, again + LEAST)
        if (
            continued is not None
            and continued.proof.ok
            and room
            and (continued.proof.reducible_error <= CONTENT or not afford)
        ):
            return continued, grown
    fresh, started = _afresh(rows, peeled, kernel, running, rng)
    if continued is not None and _merit(continued) >= _merit(fresh):
        return continued, grown
    return fresh, started


def _merit(reduction: Reduction) -> tuple[bool, float, float]:
    """Whether it is proven, how much of the second term is spent, and how well it is proven: larger
    is better.
    """
    return reduction.proof.ok, -max(AFFORD, reduction.claim.spent), -reduction.claim.loss_error


def _continued(
    rows: Rows, new: Rows, kernel: Kernel, running: Running, rng: np.random.Generator, peeled: Flags
) -> tuple[Reduction | None, Running, float]:
    """Add the new rows, and peeled rows that no longer dominate, to the running sum, and find rows
    that meet it.

    The reduction is None if the sum needs other coordinates.  Also returns what a restart of the
    sum would spend of the second term.
    """

    def claimed(
        sum_: Running, part: Reduction, all_: Reduction
    ) -> tuple[Reduction, Running, float]:
        powers = serves_powers(part.fitted)
        spent = (
            running.held.spent
            if powers
            else part.proof.derived * running.inherited.inflation / ROUNDING
        )
        return running.claimed(all_), sum_.after(part, needs_tree), spent

    held = len(peeled)
    back = (
        new
        if not peeled.any()
        else rows.subset(np.concatenate([np.flatnonzero(peeled), np.arange(held, len(rows))]))
    )
    try:
        grown = running.plus(back)
    except NonFiniteError:  # sums overflow in these coordinates
        return None, running, 0.0
    fitted = grown.fitted_moments()
    if fitted.needs_pass:
        return None, running, 0.0
    reduction, needs_tree = _reduce(rows, fitted, held, np.arange(0), rng, running.needs_tree)
    if not reduction.proof.ok and reduction.proof.excluded:
        restored = grown.fitted_moments(keeping_all=True)
        if not restored.needs_pass:
            again, needs_tree = _reduce(rows, restored, held, np.arange(0), rng, running.needs_tree)
            reduction = better(reduction, again)
    reduction = about_the_means(rows, reduction, held)
    # No row was replaced since the sum began, so the rows are exact.
    if not running.held_error and not running.used and reduction.keeps_all(rows):
        reduction = replace(
            reduction, proof=Proof.trivial(reduction.proof.power, reduction.proof.condition)
        )
    spread, heavy = apart(
        rows, kernel, fitted, running.pilot if len(running.pilot) else None, reduction.proof.ok
    )
    reduction = replace(reduction, spread=spread)
    if not len(heavy):
        return claimed(grown, reduction, reduction)
    alone = np.zeros(len(rows), dtype=bool)
    alone[heavy] = True
    alone[:held] &= peeled  # the others are in the sum already
    left = np.flatnonzero(~alone)
    without = running.plus(
        rows.subset(left[(left >= held) | np.isin(left, np.flatnonzero(peeled))])
    )
    fitted = without.fitted_moments().beside(rows, np.flatnonzero(alone))
    if fitted.needs_pass or not alone.any():
        return claimed(grown, reduction, reduction)
    others, among = rows.subset(left), int((left < held).sum())
    rest, needs_tree = _reduce(others, fitted, among, np.arange(0), rng, running.needs_tree)
    rest = about_the_means(others, rest, among)
    if not rest.proof.ok and reduction.proof.ok:
        return claimed(grown, reduction, reduction)
    return claimed(without, rest, rest.with_peeled(rows, left, np.flatnonzero(alone)))


def _afresh(
    rows: Rows, peeled: Flags, kernel: Kernel, running: Running | None, rng: np.random.Generator
) -> tuple[Reduction, Running]:
    """Fit coordinates to held and new rows, and start a sum with them."""
    held, needs_tree = len(peeled), running is not None and running.needs_tree
    inherited = (
        NO_ERROR
        if running is None
        else replace(running.held, inflation=_inflation(rows, peeled, running))
    )
    fresh, needs_tree = _fitted(rows, held, kernel, rng, needs_tree)
    spread, heavy = apart(rows, kernel, fresh.fitted, None, fresh.proof.ok)
    fresh = replace(fresh, spread=spread)
    if 0 < len(heavy) < len(rows):
        left = np.setdiff1d(np.arange(len(rows)), heavy)
        rest, needs_tree = _fitted(
            rows.subset(left), int((left < held).sum()), kernel, rng, needs_tree
        )
        rest = with_peeled(rows, left, heavy, rest)
        fresh = rest if rest.proof.ok else better(fresh, rest)
    if not fresh.proof.ok and len(rows) <= FEW * fresh.fitted.kernel.width:
        fresh = keep_all_rows(rows, fresh)
    if fresh.keeps_all(rows):
        fresh = replace(fresh, proof=Proof.trivial(fresh.proof.power, fresh.proof.condition))
    alone = fresh.positions[fresh.peeled]
    summed_now = rows.subset(np.setdiff1d(np.arange(len(rows)), alone)) if len(alone) else rows
    about = None if running is None else sums_about_means(summed_now, fresh)
    about = None if about is None else about.beside(rows, alone)
    before_now = rows.subset(np.flatnonzero(~peeled))
    if running is not None and about is not None:
        owed = owed_share(held_debt(before_now, running, about.kernel), about.kernel, about)
        fresh = replace(fresh, proof=replace(fresh.proof, derived=fresh.proof.derived + owed))
    fresh = inheriting(fresh, inherited)
    kept = fresh.positions[~fresh.peeled]
    started = Running.start(
        kernel, rows.take(kept, np.zeros(rows.columns)), fresh.weights[~fresh.peeled]
    )
    # The kept rows are close enough to all rows for a sum to start from them alone.
    if fresh.fitted.linear is None and fresh.proof.reducible_error <= SHARP:
        claim = replace(inherited, loss_error=fresh.claim.loss_error, spent=fresh.claim.spent)
        return fresh, replace(started, inherited=claim, needs_tree=needs_tree)
    # Worth another pass: the sum of all these rows, so that later folds can do better.
    started = replace(started.emptied().plus(summed_now), inherited=inherited)
    goal = means_kernel(started.linear)
    owing = None if running is None else held_debt(before_now, running, goal)
    return fresh, started.owing(owing, goal).after(fresh, needs_tree)


def held_debt(rows: Rows, running: Running, goal: Kernel | None = None) -> Array | None:
    """Error bound of held rows that are not peeled, in the coordinates of a kernel, if they
    represent a running sum.
    """
    return owed_by(rows, own_weights(rows, np.arange(len(rows))), running.linear, goal)


def _inflation(rows: Rows, peeled: Flags, running: Running) -> float:
    """The factor by which absolute moments of the held rows exceed those of the rows that they
    represent, without peeled rows.
    """
    linear = running.fitted_moments().linear
    among = np.flatnonzero(~peeled)
    if linear is None or linear.absolute is None or not len(among):
        return running.inherited.inflation
    sums = own_weights(rows, among) @ np.abs(
        linear.kernel.features(rows.take(among, linear.kernel.shift))
    )
    return running.inherited.inflation * float(
        np.max(sums / np.maximum(linear.absolute, TINY), initial=1.0)
    )


def _fitted(
    rows: Rows, held: int, kernel: Kernel, rng: np.random.Generator, needs_tree: bool
) -> tuple[Reduction, bool]:
    """Reduce in coordinates fitted to these rows; also whether it needed the tree."""
    pool = held + sample(rng, len(rows) - held, pilot_size(len(rows)))
    fitted, passes = fit_moments(rows, kernel.sharper(), np.concatenate([np.arange(held), pool]))
    fitted = fitted.over(len(rows))
    if not fitted.kernel.width:  # every feature vanishes on every row: any one row will do
        first = np.zeros(1, dtype=np.intp)
        return (
            Reduction(first, np.array([rows.total]), fitted, 0, Proof.trivial(), METHOD, passes),
            needs_tree,
        )
    fresh, needs_tree = _reduce(rows, fitted, held, pool, rng, needs_tree)
    if not fresh.proof.ok and fresh.proof.excluded and isinstance(kernel, Powers):
        fitted, more = fit_moments(
            rows, kernel.keeping_all(), np.concatenate([np.arange(held), pool])
        )
        again, needs_tree = _reduce(rows, fitted, held, pool, rng, needs_tree)
        fresh, passes = better(fresh, again), passes + more
    return about_means(rows, replace(fresh, passes=passes)), needs_tree


def _reduce(
    rows: Rows,
    fitted: FittedMoments,
    held: int,
    pool: Indices,
    rng: np.random.Generator,
    needs_tree: bool,
) -> tuple[Reduction, bool]:
    """A vertex among the held rows and a sample of the new ones, or by the tree if that is not
    enough; and whether the tree was used.
    """
    best: Reduction | None = None
    # witnesses: rows with weights of their own; the held ones represent other rows
    fresh = rows.subset(np.arange(held, len(rows))) if held else rows
    if not needs_tree:
        candidates, mass = sampled(rows, fitted, pool, rng, held)
        rows = rows if mass is not None else rows.gathered()
        meeting = (
            informed(rows, fitted, candidates, rng, held) if mass is None else (candidates, mass, 0)
        )
        if meeting is not None:
            best = vertex(rows, fitted, *meeting[:2], METHOD, 1, fresh)
            if best.proof.ok:
                return best, False
    rows = rows.gathered()
    method = f"{METHOD} by the tree"
    for search in searches(fitted):
        candidates = candidate_points(rows, search, *reduce_by_tree(rows, search)).resolve()
        best = better(best, vertex(rows, fitted, candidates, candidates.root, method, 1, fresh))
        if not best.proof.ok:
            best = without_rank_decision(
                rows, fitted, best, candidates, candidates.root, method, 1, fresh
            )
        if best.proof.ok:
            break
    assert best is not None
    return best, True


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def prove_held(rows: Rows, peeled: Flags, kernel: Kernel, running: Running) -> Reduction:
    """Measure held rows, with the weights they have, against the running sum."""
    everything = np.arange(len(rows))
    rest = rows.subset(everything[~peeled]) if peeled.any() else rows
    among = np.arange(len(rest))
    fitted = running.fitted_moments().beside(rows, everything[peeled])
    if fitted.needs_pass:
        fitted, _ = fit_moments(rest, kernel, among)
    weights = own_weights(rest, among)
    proof = measure(None, fitted, rest.take(among, fitted.kernel.shift), weights)
    rank = (
        candidate_points(rest, fitted, among, weights).resolve().rank if fitted.kernel.width else 0
    )
    reduction = about_the_means(
        rest, Reduction(among, weights, fitted, rank, proof, METHOD, 1), 0, polishes=False
    )
    return running.claimed(
        replace(
            reduction, positions=everything, weights=own_weights(rows, everything), peeled=peeled
        )
    )
