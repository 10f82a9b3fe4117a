"""What sums of features may be off by, feature by feature, and how that is carried to other
coordinates.

The claim of a stream is about the means of all columns, which wander, while the shift of its sums
does not.  So sums are carried to the means, ``(w + m)^p`` term by term
(:meth:`karat.engine.polynomial.Polynomials.carried`), and the rows held are proven there as well.
Their error bounds are carried with them, as one absolute number per feature: the error of an early
start is small compared with the sums of a long stream.  The bounds are kept as a few **debts**,
each about the means of the rows that caused it, because converting a bound there and back would let
it grow twice.

A conversion over a few standard deviations makes rounding grow by 10^p and more.  So rows that are
mostly on one side of the shift, and small batches, are summed and converted in extended precision
where the machine has one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from karat.engine.claim import NO_ERROR, Claim, Reduction
from karat.engine.kernel import FittedMoments, Kernel, NonFiniteError
from karat.engine.linalg import Array, Flags
from karat.engine.polynomial import Polynomials
from karat.engine.powers import Powers
from karat.engine.reduce import proven_as_well
from karat.engine.rows import Rows, Statistic, own_weights, pass_over, sweep
from karat.engine.sums import WIDE, exact_sum, exact_sum_rounding, sum_rounding, two_sum
from karat.engine.tolerances import EPS, EXACT, MEASURED, ROUNDING, TINY

FEW = 2**20  # features of rows that are summed in extended precision in any case
DEBTS = 16  # more than these are combined
# distance of a mean from the shift, in units of the mean absolute value, from which on rows are on
# one side of it
ASIDE = 0.7


def serves_powers(fitted: FittedMoments) -> bool:
    """Whether the claim covers powers of linear forms, with or without sums of features."""
    return fitted.linear is None or (
        isinstance(fitted.kernel, Powers) and fitted.kernel.degree % 2 == 0
    )


def linear_kernel(kernel: Kernel) -> Kernel | None:
    """The kernel of single columns, if sums of its features are claimed; its statistic is last."""
    return kernel.single if isinstance(kernel, Powers) else kernel


def debt(shift: Array, sizes: Array) -> Array:
    """One row of debts: a shift, and error bounds of sums of features about it."""
    return np.concatenate([shift, sizes])[None]


def with_debt(debts: Array | None, more: Array, kernel: Kernel) -> Array:
    """Append a debt.  If there are too many, the two oldest after the first are combined."""
    if debts is None:
        return more
    if len(debts) > DEBTS:
        first, second = (_read(row, kernel) for row in debts[1:3])
        both = debt(second[0].shift, second[1] + first[0].sizes_in(first[1], second[0]))
        debts = np.vstack([debts[:1], both, debts[3:]])
    return np.vstack([debts, more])


def _read(row: Array, kernel: Kernel) -> tuple[Kernel, Array]:
    columns = len(kernel.shift)
    return kernel.at(row[:columns]), row[columns:]


def off_by(debts: Array | None, kernel: Kernel | None, other: Kernel | None = None) -> Array | None:
    """The total of debts, which are in the units of ``kernel``, in the coordinates of ``other`` (by
    default ``kernel``).
    """
    if debts is None or kernel is None:
        return None
    goal = kernel if other is None else other
    return np.asarray(
        sum(source.sizes_in(sizes, goal) for source, sizes in (_read(row, kernel) for row in debts))
    )


def summed(rows: Rows, kernel: Kernel, new: Statistic) -> tuple[Statistic, Statistic, Array | None]:
    """The statistic ``new`` of some rows, summed more accurately if needed; its low part; its error
    bound.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for non-finite sums
        new, exact = tuple(part.astype(float, copy=False) for part in new), new
        low = tuple(
            (whole - part).astype(float, copy=False) for whole, part in zip(exact, new, strict=True)
        )
    single = linear_kernel(kernel)
    if single is None or len(new) < 2 or new[-1].shape != new[-2].shape:
        return new, low, None
    fitted = single.fitted_moments(new[-2:], rows.total, last=True)
    assert fitted.absolute is not None
    rounding = sum_rounding(len(rows), single.roundings)
    few = len(rows) * single.width <= FEW
    if isinstance(single, Polynomials) and single.affine and (few or single.aside(fitted, ASIDE)):
        rounding *= WIDE / np.finfo(float).eps
        extended = sweep(
            rows,
            np.zeros(rows.columns),
            lambda b, u, _: single.extended(b, u),
            np.add,
            (single.width, 1),
        )
        high = extended.astype(float)
        new[-2][single.first, single.last] = high
        low[-2][single.first, single.last] = (extended - high).astype(float)
    return new, low, rounding * fitted.absolute


def owed_by(
    rows: Rows, weights: Array, linear: FittedMoments | None, goal: Kernel | None
) -> Array | None:
    """Error bound of held rows in the coordinates of ``goal``, if they represent the sums
    ``linear``.
    """
    if linear is None or goal is None or linear.absolute is None or linear.off is None:
        return None
    features = goal.features(rows.take(np.arange(len(rows)), goal.shift))
    kept = weights @ np.abs(features)
    source, off = linear.kernel, off_by(linear.debts, linear.kernel, goal)
    assert off is not None
    if not isinstance(source, Polynomials) or not isinstance(goal, Polynomials):
        target = linear.target
    else:
        about, low = (
            source.at(goal.shift),
            np.zeros(source.width) if linear.low is None else linear.low,
        )
        target, terms = (
            source.carried(linear.target, low, linear.absolute, goal.shift)
            if source.affine
            else (linear.target, kept)
        )
        factor = (
            about.sizes_in(np.ones(source.width), goal)
            if (about.scale != goal.scale).any()
            else 1.0
        )
        target, off = target * factor, off + source.carrying * WIDE * terms * factor
    if isinstance(goal, Polynomials) and goal.affine:
        plain = rows.take(np.arange(len(rows)), np.zeros(rows.columns))
        total, rounding = (
            (goal.extended(plain, weights) * goal.root).astype(float),
            EPS + WIDE * goal.roundings,
        )
    else:
        total, rounding = exact_sum(features, weights), exact_sum_rounding(source.roundings)
    # What the proof of the rows left to its second term, unless it is less than all that they miss.
    left = source.sizes_in(MEASURED * linear.absolute, goal)
    return np.asarray(off + np.minimum(np.abs(total - target), left) + rounding * kept)


def carried_moments(rows: Rows, reduction: Reduction) -> FittedMoments | None:
    """The sums of features about the means; unchanged if their shift is close to the means."""
    linear = reduction.fitted.linear
    if linear is None or linear.absolute is None:
        return linear
    kernel = linear.kernel.centred(linear)
    if (
        not isinstance(kernel, Polynomials)
        or not isinstance(linear.kernel, Polynomials)
        or linear.off is None
    ):
        return linear
    low = np.zeros(len(linear.target)) if linear.low is None else linear.low
    target, terms = linear.kernel.carried(linear.target, low, linear.absolute, kernel.shift)
    features = np.abs(kernel.features(rows.take(reduction.positions, kernel.shift)))
    # The rows held have about the absolute sums of all rows; about the shift they exceed them by
    # ``inflation`` at most.
    absolute = np.maximum(np.abs(target), reduction.weights @ features / reduction.proof.inflation)
    off = off_by(linear.debts, linear.kernel, kernel)
    assert off is not None
    off = off + kernel.carrying * WIDE * terms
    return replace(
        linear,
        kernel=kernel,
        target=target,
        statistic=(),
        absolute=absolute,
        off=off,
        low=None,
        debts=None,
    )


def about_the_means(
    rows: Rows, reduction: Reduction, held: int, polishes: bool = True
) -> Reduction:
    """A reduction of ``held`` and new rows, proven about the means as well."""
    centred = carried_moments(rows, reduction) if reduction.proof.ok else None
    if centred is None or centred is reduction.fitted.linear:
        return reduction
    return proven_as_well(
        rows, reduction, centred, rows.subset(np.arange(held, len(rows))), polishes
    )


def owed_share(owed: Array | None, kernel: Kernel | None, about: FittedMoments | None) -> float:
    """Error bound of sums in the coordinates of a kernel, relative to absolute sums ``about``."""
    if owed is None or kernel is None or about is None or about.absolute is None:
        return 0.0
    sizes = about.sizes
    assert sizes is not None
    return float(np.max(kernel.sizes_in(owed, about.kernel) / np.maximum(sizes, TINY), initial=0.0))


def sums_about_means(rows: Rows, reduction: Reduction) -> FittedMoments | None:
    """The sums of features of these rows about their means."""
    linear = reduction.fitted.linear
    kernel = None if linear is None else linear.kernel.centred(linear)
    return (
        linear
        if kernel is None
        else kernel.fitted_moments(pass_over(rows, kernel), rows.total, last=True)
    )


def claimed_again(
    rows: Rows, peeled: Flags, reduction: Reduction, more: Array | None, kernel: Kernel
) -> Reduction:
    """The reduction to the held rows, after it is known that their sum is off by ``more`` in the
    coordinates of a kernel.
    """
    proof, left, linear = reduction.proof, np.flatnonzero(~peeled), reduction.fitted.linear
    if linear is None or more is None:
        return reduction
    absolute = (
        own_weights(rows, left)
        @ np.abs(kernel.features(rows.take(left, kernel.shift)))
        / proof.inflation
    )
    about = replace(linear, kernel=kernel, absolute=absolute).beside(rows, np.flatnonzero(peeled))
    added = owed_share(more, kernel, about)
    return replace(
        reduction,
        proof=replace(proof, derived=proof.derived + added, loss_error=proof.loss_error + added),
    )


def means_kernel(linear: FittedMoments | None) -> Kernel | None:
    """The kernel of sums of features, about the means of the rows that were summed."""
    return None if linear is None else linear.kernel.centred(linear) or linear.kernel


Sums = tuple[Array, ...]


@dataclass(frozen=True)
class Running:
    """The running sum of a stream's statistic, in fixed coordinates; the last entry holds the total
    weight.
    """

    # its coordinates are a function of ``pilot`` and ``weights`` alone, so a checkpoint stores
    # those
    kernel: Kernel
    pilot: Array  # the rows ``[1 | D]`` on which the coordinates were fitted,
    weights: Array  # and their weights
    high: Sums  # the sum is high + low
    low: Sums
    # of the held rows from which the sum was started: loss error, spent and inflation
    inherited: Claim = NO_ERROR
    held_error: float = 0.0  # relative loss error of the rows held now, against this sum
    used: float = 0.0  # what the last reduction to these rows has spent, in units of ROUNDING
    # sums of features: what they may be off by (:mod:`karat.engine.carried`)
    debts: Array | None = None
    needs_tree: bool = False  # a sample of candidates was not enough before: begin with the tree

    @staticmethod
    def start(kernel: Kernel, pilot: Array, weights: Array) -> Running:
        """Start a sum with weighted rows ``[1 | D]``, in coordinates from which no direction is
        dropped.
        """
        return Running.within(kernel.prepare(pilot, weights), pilot, weights)

    @staticmethod
    def within(fitted: Kernel, pilot: Array, weights: Array) -> Running:
        """Start a sum with weighted rows, in given coordinates."""
        block = pilot - np.concatenate([[0.0], fitted.shift])
        rows = Rows([pilot[:, 1:]], weights)
        high, low, off = summed(rows, fitted, fitted.over(len(weights)).statistic(block, weights))
        few = len(weights) if fitted.adapts else 0  # rows that a checkpoint needs
        high, low = (
            (*high, feature_counts(fitted, len(weights), float(weights.sum()))),
            (*low, np.zeros(3)),
        )
        return Running(
            fitted, pilot[:few], weights[:few], high, low, debts=summed_debts(fitted, off)
        )

    def emptied(self) -> Running:
        """An empty sum in the same coordinates."""
        zero = tuple(np.zeros_like(part) for part in self.high)
        return replace(self, high=zero, low=zero, debts=None)

    def plus(self, rows: Rows) -> Running:
        """The sum after adding more rows."""
        if not len(rows):
            return self
        new, lower, off = summed(rows, self.kernel, pass_over(rows, self.kernel))
        new, lower = (
            (*new, feature_counts(self.kernel, len(rows), rows.total)),
            (*lower, np.zeros(3)),
        )
        if not all(np.isfinite(part).all() for part in new):
            raise NonFiniteError
        pairs = [two_sum(a, b) for a, b in zip(self.high, new, strict=True)]
        low = tuple(a + b + e for a, b, (_, e) in zip(self.low, lower, pairs, strict=True))
        return replace(self, high=tuple(s for s, _ in pairs), low=low, debts=self._with(off))

    def _with(self, off: Array | None) -> Array | None:
        """The debts after adding rows whose sum has the error bound ``off``."""
        if self.debts is None or off is None:
            return summed_debts(self.kernel, off)
        debts = self.debts.copy()
        debts[0, -len(off) :] += off
        return debts

    @property
    def held(self) -> Claim:
        """The claim of the rows held now.  A sum that starts again from them inherits it."""
        error, spent = self.inherited.loss_error + self.held_error, self.inherited.spent + self.used
        return replace(self.inherited, loss_error=error, spent=spent)

    @property
    def total(self) -> float:
        return float((self.high[-1] + self.low[-1])[0])

    def after(self, reduction: Reduction, needs_tree: bool) -> Running:
        """This sum, after a reduction has chosen the rows that are held."""
        # for sums of features, the debts hold the derived part
        rounding = (
            reduction.proof.rounding
            if serves_powers(reduction.fitted)
            else reduction.proof.measured
        )
        used = rounding * reduction.inherited.inflation / ROUNDING
        return replace(
            self, held_error=reduction.proof.loss_error, used=used, needs_tree=needs_tree
        )

    def claimed(self, reduction: Reduction) -> Reduction:
        """The reduction with the claim that this sum inherits.  The proof already includes the
        debts.
        """
        return inheriting(reduction, self.inherited)

    @property
    def linear(self) -> FittedMoments | None:
        """The sums of features, if they are claimed."""
        return self.fitted_moments(last=True).linear

    def owing(self, more: Array | None, kernel: Kernel | None) -> Running:
        """The sum after adding rows with the error bound ``more``, in the coordinates of
        ``kernel``.
        """
        single = linear_kernel(self.kernel)
        if more is None or kernel is None or single is None:
            return self
        sizes = kernel.sizes_in(more, single.at(kernel.shift))  # in the same units
        debts = (
            summed_debts(self.kernel, np.zeros(len(sizes))) if self.debts is None else self.debts
        )
        return replace(self, debts=with_debt(debts, debt(kernel.shift, sizes), single))

    def fitted_moments(self, last: bool = False, keeping_all: bool = False) -> FittedMoments:
        """Final coordinates and the moments of the stream so far; with ``last``, the coordinates
        stay as they are.

        ``keeping_all``: drop only directions that are zero in every row.
        """
        pairs = [two_sum(a, b) for a, b in zip(self.high, self.low, strict=True)]
        *statistic, total = (s for s, _ in pairs)
        kernel, single = self.kernel, linear_kernel(self.kernel)
        if isinstance(kernel, Powers) and keeping_all:
            kernel = kernel.keeping_all()
        low = single.low_part(*pairs[-3]) if isinstance(single, Polynomials) else None
        # all powers were summed in extended precision
        if isinstance(kernel, Powers) and kernel.degree > 2 and total[2] == 0:
            statistic[1] = cast(Array, statistic[1].astype(np.longdouble) + pairs[1][1])
        fitted = kernel.fitted_moments(tuple(statistic), float(total[0]), last).over(int(total[1]))
        return fitted.with_sum_errors(off_by(self.debts, single), low, self.debts)


# total weight, rows, and those rows that are summed in double precision only
def feature_counts(kernel: Kernel, rows: int, total: float) -> Array:
    return np.array([total, rows, 0 if kernel.over(rows).in_extended else rows])


def summed_debts(kernel: Kernel, off: Array | None) -> Array | None:
    return None if off is None else debt(kernel.shift, off)


def inheriting(reduction: Reduction, claim: Claim) -> Reduction:
    """A reduction of rows that have a claim.

    For sums of features, the debts hold what was spent of the second term, of which there is room
    for EXACT.
    """
    if reduction.proof.derived * claim.inflation > EXACT:
        reduction = replace(reduction, proof=replace(reduction.proof, loss_error=np.inf))
    return replace(
        reduction, inherited=claim if serves_powers(reduction.fitted) else replace(claim, spent=0.0)
    )
