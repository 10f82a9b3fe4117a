"""The pipeline: moments in one pass, a vertex among a few candidates, a proof; and the policy that
chooses between the methods.

    fitted   = sum over rows of weight * kernel features         # one pass, with coordinates
    vertex   = weights on at most rank rows, the same moments    # onepass | tree | caratheodory
    weights  = polish(vertex, fitted.target)                     # the last digits
    proof    = worst relative loss error over every query        # karat.engine.proof

**The policy** of ``method="auto"``.  A step is taken only if the steps before it did not lead to a
proof.

1. onepass: a few more than twice as many candidates as features, then SECOND times as many (all
   rows, if there are no more), then rare rows and others by importance among all rows.  Newton's
   method decides whether weights on them can meet the moments, and fails fast.
2. tree: every row is looked at, two more readings.
3. The rows of the tree before the last elimination, in features whose rank has not been decided.
4. Features of single columns, for degrees above 2.
5. Coordinates from which no direction is dropped, if some were.
6. Rows that dominate a moment are peeled: kept verbatim, with the rest reduced as above.  Then rows
   of hardly any weight.
7. caratheodory, row by row, where there are few rows.
8. All rows with their own weights, where there are very few.  That is exact by definition.

Before all this, wild rows are kept apart (:mod:`karat.engine.points`).  The other methods leave out
7; ``"tree"`` leaves out 1, and ``"caratheodory"`` goes row by row in place of 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from karat.engine.claim import Proof, Reduction
from karat.engine.exhaustive import informed, reduce_by_tree, reduce_sequentially
from karat.engine.kernel import FittedMoments, Kernel, fit_moments, pilot_size, searches
from karat.engine.linalg import Array, Indices, one_blas_thread
from karat.engine.points import (
    PEELED,
    CandidatePoints,
    candidate_points,
    dominating,
    enough,
    heaviest,
    light_rows,
    wild_rows,
)
from karat.engine.polynomial import unmixed
from karat.engine.powers import Powers
from karat.engine.proof import measure
from karat.engine.rows import Progress, Rows, own_weights, pass_over, sample
from karat.engine.tolerances import CONTENT, EXACT, SHARP
from karat.engine.weights import SECOND, check_any, polish, polish_features, refined_vertex, sampled

LAST = ("tree", "caratheodory")  # methods that look at every row: no stronger one follows
# the largest factor by which a proof about a shift close to the means is charged for the difference
CLOSE = 2.0
FEW = 4  # rows per feature: so few may all be kept, if nothing else is exact
# orders of the rows in which they are eliminated, beside their own, if nothing else is exact
ORDERS = 8
SLOW = 300  # rows per feature, and features, up to which rows are eliminated one by one


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def build(
    rows: Rows, kernel: Kernel, method: str, seed: int, progress: Progress | None = None,
    levels: bool = True
) -> Reduction:  # fmt: skip
    """Reduce weighted rows to a vertex with the same moments; ``method`` as in
    :func:`karat.coreset`.

    Wild rows are kept apart or, with ``levels``, reduced by themselves.
    """
    rng = np.random.default_rng(seed)
    pilot = sample(rng, len(rows), pilot_size(len(rows)))
    fitted, passes = fit_moments(rows, kernel, pilot, progress)
    spread, wild = wild_rows(rows, fitted)
    if 0 < len(wild) < len(rows) and levels:
        reduction = _by_levels(rows, kernel, method, seed, wild)
        if reduction.proof.ok and not reduction.keeps_all(rows):
            return reduction
    # Steps 1 to 3 of the policy; the numbers below are those of the other steps.
    best = replace(_attempt(rows, method, rng, progress, pilot, fitted, passes), spread=spread)
    if not best.proof.ok and fitted.linear is None and kernel.power > 2:  # 4
        best = better(best, _anew(rows, kernel, method, rng, progress, pilot, single_columns=True))
    if not best.proof.ok and isinstance(kernel, Powers) and best.proof.excluded:  # 5
        best = better(best, _anew(rows, kernel.keeping_all(), method, rng, progress, pilot))
    if not best.proof.ok:  # 6
        best = better(best, _peeled(rows, kernel, method, rng, best))
    width, light = best.fitted.kernel.width, light_rows(rows)
    if not best.proof.ok and levels and 0 < len(light) <= PEELED * width:
        rest = np.setdiff1d(np.arange(len(rows)), light)
        heavier = build(rows.subset(rest), kernel, method, seed, levels=False)
        passes = best.passes + heavier.passes
        beside_light = with_peeled(rows, rest, light, heavier)
        best = better(best, replace(beside_light, passes=passes))
    if not best.proof.ok and method == "auto" and len(rows) <= SLOW * width and width <= SLOW:  # 7
        best = better(best, _anew(rows, kernel, "caratheodory", rng, progress, pilot))
    if not best.proof.ok and len(rows) <= FEW * width:  # 8
        best = keep_all_rows(rows, best)
    if not best.proof.ok:
        best = replace(best, dominating_rows=heaviest(rows, kernel))
    return best


def _by_levels(rows: Rows, kernel: Kernel, method: str, seed: int, wild: Indices) -> Reduction:
    """Reduce wild rows and the others separately; a few wild rows are kept as they are."""
    rest = np.setdiff1d(np.arange(len(rows)), wild)
    ordinary = build(rows.subset(rest), kernel, method, seed, levels=False)
    if len(wild) <= PEELED * max(1, ordinary.fitted.kernel.width) or not ordinary.proof.ok:
        return replace(with_peeled(rows, rest, wild, ordinary), passes=ordinary.passes + 2)
    return ordinary.beside(build(rows.subset(wild), kernel, method, seed, levels=False), rest, wild)


def better(first: Reduction | None, second: Reduction | None) -> Reduction:
    """The proven one; if both are proven, or neither, the one with the smaller error."""
    if first is None or second is None:
        only = first or second
        assert only is not None
        return only
    return first if first.proof.merit >= second.proof.merit else second


def keep_all_rows(rows: Rows, reduction: Reduction) -> Reduction:
    """All rows with their own weights.  The condition stays: it depends on the columns only."""
    everything = np.arange(len(rows))
    weights, nothing = own_weights(rows, everything), np.zeros(0, dtype=np.intp)
    return replace(
        reduction,
        positions=everything,
        weights=weights,
        proof=Proof.trivial(reduction.proof.power, reduction.proof.condition),
        method="all rows",
        dominating_rows=nothing,
    )


def _anew(
    rows: Rows, kernel: Kernel, method: str, rng: np.random.Generator, progress: Progress | None,
    pilot: Indices, single_columns: bool = False,
) -> Reduction:  # fmt: skip
    """The best vertex that a method finds in newly fitted coordinates."""
    fitted, passes = fit_moments(rows, kernel, pilot, progress)
    sought = fit_moments(rows, unmixed(kernel), pilot, progress)[0] if single_columns else None
    return _attempt(rows, method, rng, progress, pilot, fitted, passes, sought)


def _attempt(
    rows: Rows, method: str, rng: np.random.Generator, progress: Progress | None, pilot: Indices,
    fitted: FittedMoments, passes: int, sought: FittedMoments | None = None,
) -> Reduction:  # fmt: skip
    """The best vertex that a method finds; the search stops at the first that is exact.

    ``sought`` has the features in which rows are sought, if not the fitted ones.  Features of
    single columns are not made parallel by heavy tails.
    """
    if not fitted.kernel.width:  # every feature vanishes on every row: any one row will do
        first = np.zeros(1, dtype=np.intp)
        return Reduction(
            first, np.array([rows.total]), fitted, 0, Proof.trivial(), "onepass", passes
        )
    best: Reduction | None = None
    # Of higher powers a bound is measured, which may be twice as large in the coordinates of
    # another sample.
    content = CONTENT if fitted.kernel.power > 2 and fitted.linear is None else np.inf
    features = searches(fitted) if sought is None else (sought,)
    attempts = (
        attempt
        for search in features
        for attempt in feasible_weights(rows, search, method, pilot, rng, progress)
    )
    for candidates, mass, reducer, more in attempts:
        passes += more
        best = better(best, vertex(rows, fitted, candidates, mass, reducer, passes))
        settled = best.proof.ok and best.proof.reducible_error <= content
        if not settled and (reducer in LAST or fitted.linear is not None):
            best = without_rank_decision(
                rows, fitted, best, candidates, mass, reducer, passes, last=reducer in LAST
            )
        if best.proof.ok and best.proof.reducible_error <= min(content, EXACT):
            break
    assert best is not None
    return about_means(rows, best)


def about_means(rows: Rows, reduction: Reduction) -> Reduction:
    """The reduction with a proof about the means of the columns, as the claim is stated.

    With heavy tails, sums of absolute values about another shift may be larger, and a proof by them
    says too little.  Where they are known to be close to each other, the difference is charged;
    otherwise it takes a pass.
    """
    linear, proof = reduction.fitted.linear if reduction.proof.ok else None, reduction.proof
    kernel = None if linear is None else linear.kernel.centred(linear)
    if linear is None or kernel is None:
        return reduction
    factor = linear.kernel.off_centre(linear)
    if factor <= CLOSE and factor * proof.remainder <= 1.0:
        terms = {
            name: factor * getattr(proof, name) for name in ("remainder", "measured", "derived")
        }
        return replace(reduction, proof=replace(proof, **terms))
    centred = kernel.fitted_moments(pass_over(rows, kernel), rows.total, last=True)
    return replace(proven_as_well(rows, reduction, centred), passes=reduction.passes + 1)


def with_peeled(rows: Rows, left: Indices, alone: Indices, reduction: Reduction) -> Reduction:
    """The reduction of the rows at ``left``, proven about the means of all rows, with the rows
    ``alone`` kept as they are.
    """
    beside = replace(reduction, fitted=reduction.fitted.beside(rows, alone))
    return about_means(rows.subset(left), beside).with_peeled(rows, left, alone)


def proven_as_well(
    rows: Rows,
    reduction: Reduction,
    fitted: FittedMoments,
    witnesses: Rows | None = None,
    polishes: bool = True,
) -> Reduction:
    """The reduction, proven in other features as well.  If that fails and ``polishes`` is set, its
    weights are polished in them.
    """
    weights, data = reduction.weights, rows if witnesses is None else None
    block = rows.take(reduction.positions, fitted.kernel.shift)
    proof, before = measure(data, fitted, block, weights, witnesses), reduction.proof
    if not proof.ok and polishes:
        weights = polish_features(fitted, block, weights)
        proof = measure(data, fitted, block, weights, witnesses)
        block = rows.take(reduction.positions, reduction.fitted.kernel.shift)
        before = measure(data, reduction.fitted, block, weights, witnesses)
    worst = {
        name: max(getattr(part, name) for part in (proof, before))
        for name in ("loss_error", "remainder", "measured")
    }
    return replace(
        reduction, weights=weights, proof=replace(before, derived=proof.derived, **worst)
    )


def without_rank_decision(
    rows: Rows, fitted: FittedMoments, best: Reduction, candidates: CandidatePoints, mass: Array,
    method: str, passes: int, witnesses: Rows | None = None, last: bool = True,
) -> Reduction:  # fmt: skip
    """Eliminate in the features themselves, to as many rows as features.  With ``last``, try at the
    end not to eliminate.

    Where rounding leaves little room the result depends on the order of the rows, so several are
    tried.
    """
    rng, forward = np.random.default_rng(0), np.arange(len(mass))
    more = ORDERS if last and candidates.rank <= SLOW else 0
    orders = [forward, *(rng.permutation(len(mass)) for _ in range(more))]
    for order, eliminate in [
        *((order, True) for order in orders),
        *([(forward, False)] if last else []),
    ]:
        plain = candidate_points(
            rows, candidates.fitted, candidates.positions[order], candidates.root[order] ** 2
        )
        reduction = vertex(rows, fitted, plain, mass[order], method, passes, witnesses, eliminate)
        best = better(best, replace(reduction, rank=candidates.rank))
        if best.proof.ok:
            break
    return best


def _peeled(
    rows: Rows, kernel: Kernel, method: str, rng: np.random.Generator, before: Reduction
) -> Reduction | None:
    """Keep dominating rows as they are and reduce the others; None if there are no such rows, or
    too many.
    """
    width = before.fitted.kernel.width
    positions = dominating(rows, kernel, PEELED * width)
    if positions is None or not len(positions):
        return None
    left = np.setdiff1d(np.arange(len(rows)), positions)
    rest = rows.subset(left)
    if len(left) <= width:
        return keep_all_rows(rows, before)
    pilot = sample(rng, len(rest), pilot_size(len(rest)))
    reduction = _anew(rest, kernel, method, rng, None, pilot)
    if not reduction.proof.ok and len(left) <= FEW * width:
        reduction = keep_all_rows(rest, reduction)
    reduction = replace(
        with_peeled(rows, left, positions, reduction), passes=before.passes + reduction.passes + 2
    )
    return _given_back(rows, before, reduction)


def _given_back(rows: Rows, before: Reduction, peeled: Reduction) -> Reduction:
    """Try to eliminate peeled rows as well, and keep that only if the proof is as good."""
    if not peeled.proof.ok:
        return peeled
    candidates = candidate_points(
        rows, searches(before.fitted)[-1], peeled.positions, peeled.weights
    ).resolve()
    fewer = about_means(
        rows, vertex(rows, before.fitted, candidates, candidates.root, peeled.method, peeled.passes)
    )
    return (
        fewer
        if fewer.proof.ok and fewer.proof.loss_error <= max(SHARP, peeled.proof.loss_error)
        else peeled
    )


# candidates, weights on them that meet the moments, the method that found them, its passes
Feasible = tuple[CandidatePoints, Array, str, int]


def feasible_weights(
    rows: Rows,
    fitted: FittedMoments,
    method: str,
    pilot: Indices,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Iterator[Feasible]:
    """Weights on a few rows that meet the moments, by stronger and stronger means: steps 1 and 2 of
    the policy.
    """
    if method in ("auto", "onepass"):
        if first_candidates(len(rows), fitted.kernel) == len(rows):
            everything = np.arange(len(rows))
            candidates = candidate_points(
                rows, fitted, everything, own_weights(rows, everything)
            ).resolve()
            yield candidates, candidates.root, "onepass", 0
        else:
            candidates, mass = sampled(rows, fitted, pilot, rng)
            if mass is not None:
                yield candidates, mass, "onepass", 0
            elif by_importance := informed(rows, fitted, candidates, rng):
                candidates, mass, more = by_importance
                yield candidates, mass, "onepass", more
    sequentially = method == "caratheodory"
    positions, weights = (reduce_sequentially if sequentially else reduce_by_tree)(
        rows, fitted, progress
    )
    check_any(positions)
    candidates = candidate_points(rows, fitted, positions, weights).resolve()
    yield candidates, candidates.root, *(("caratheodory", 1) if sequentially else ("tree", 2))


def first_candidates(count: int, kernel: Kernel) -> int:
    """How many of ``count`` rows are candidates at first: all if there are few, else a sample."""
    return count if count <= SECOND * kernel.width else enough(kernel)


def vertex(
    rows: Rows, fitted: FittedMoments, candidates: CandidatePoints, mass: Array, method: str,
    passes: int, witnesses: Rows | None = None, eliminate: bool = True,
) -> Reduction:  # fmt: skip
    """Eliminate to a vertex (or keep all points), polish it, and prove it; ``witnesses`` as in
    :func:`measure`.
    """
    if len(rows) <= candidates.rank:  # nothing to reduce: the rows with their own weights
        positions = np.arange(len(rows))
        weights = own_weights(rows, positions)
    else:
        if eliminate:
            support, refined = refined_vertex(candidates, mass)
        else:
            support = np.flatnonzero(mass > 0)
            refined = polish(candidates.points[support], mass[support], candidates.target)
        order = np.argsort(candidates.positions[support])
        support, refined = support[order], refined[order]
        weights = refined * candidates.root[support]
        positions = candidates.positions[support]
    block = rows.take(positions, fitted.kernel.shift)
    proof = measure(rows if witnesses is None else None, fitted, block, weights, witnesses)
    linear = fitted.linear
    if not proof.ok and linear is not None:
        weights = polish_features(linear, block, weights)
        proof = measure(rows if witnesses is None else None, fitted, block, weights, witnesses)
    return Reduction(
        positions, weights, fitted, min(candidates.rank, len(positions)), proof, method, passes
    )
