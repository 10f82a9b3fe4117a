"""The proof: how far weighted rows are from all rows, over every query.  Used wherever a coreset is made or verified.

Claimed is, for every query q (:mod:`karat.engine.tolerances`),

    |f_c(q) - f(q)|  <=  loss_error * sum_i u_i |f_i(q)|  +  rounding * R(q).

**Linear class** (f = <h, phi>, any h).  With rho the difference of moments and A_t = sum_i u_i |phi_t(i)|, any numbers c_i with

    sum_i u_i c_i phi_i = rho - r,      |r_t| <= MEASURED * A_t  for every feature t,

prove ``loss_error = max |c_i|``, since ``<h, rho> = sum_i u_i c_i f_i + <h, r>``: the coreset is exact for the data with its
weights changed by at most that much.  (The smallest such maximum is the supremum itself, by duality.)  Usually c = 0 does: the
moments agree to rounding, feature by feature.  If not, c is sought on witnesses, which are rows of the data with their own
weights, and if that bound is too loose, on all rows, ``c_i = phi_i . x`` with x from the witnesses.  If neither leaves a
remainder below rounding there is a direction of rho that no witness shows: nothing is proven, and loss_error is infinite.

**Power class** (f = (d.z)^p, p = 2h).  In whitened coordinates, with M the Gram matrix of the degree-h monomials over all rows,
E its error, v the monomials of the query, U the total weight and l the smallest eigenvalue of the second moments / U,

    f(q) = v' M v,      f_c - f = v' E v,      f(q) >= U l^h |v|^2        (Jensen),

so the relative error is at most the norm of E relative to ``(1 - s) M + s U l^h I`` for any s.  No direction of M is left out,
however small.  For p = 2 the Gram matrix is itself well conditioned and s = 0 gives the supremum.  Along a small direction of
the columns (RESOLVED) the coordinates themselves are rounding to many digits.  R(q) grows with the terms of the direction just
as that rounding does, so there the entries of E are first charged to the second term, and only what is left to the first.
Directions that were dropped as zero are rounding of their terms, row by row; what remains of their loss, over the kept rows
too, fits into half of the second term.

Rows that are kept verbatim with their own weights cancel identically, so the rest is proven against the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from karat.engine import linalg
from karat.engine.coordinates import Directions
from karat.engine.dropped import dropped
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array, Flags
from karat.engine.mean import MeanKernel
from karat.engine.powers import Powers, monomials
from karat.engine.rows import Rows, own_weights, sample, sweep
from karat.engine.sums import SMALLEST, exact_sum, exact_sum_rounding
from karat.engine.sums import sum_rounding as summed
from karat.engine.tolerances import EPS, EXACT, FLOOR_SHARES, LOOSEST, MEASURED, RESOLVED, ROUNDING, TINY, UNSEEN

REFINEMENTS = 3
WITNESSES = 2**21  # features of rows looked at,
MOST_WITNESSES = 16384  # and rows
CUTS = tuple(10.0**k for k in range(-14, -1, 2))  # relative singular values below which c leaves a direction to the remainder
OWN = 4 * EPS  # rounding of a coordinate itself, in units of its terms
FINE = 1024.0  # a derivative is taken by a step so much smaller
CHARGED = 0.25  # share of the second term that one entry of E may use


def tolerance(power: int, condition: float) -> float:
    """The largest ``loss_error`` that counts as exact; ``condition`` is 1 for sums of features."""
    return min(LOOSEST, max(EXACT, 100 * power * EPS * condition))


def sum_rounding(power: int, width: int) -> float:
    """What rounding may add to a measured loss error: 16 EPS per factor and entry, as the norm of a width x width matrix."""
    return 16 * power * EPS * float(np.sqrt(width))


def linear_class(fitted: FittedMoments) -> FittedMoments | None:
    """The moments in features of the linear class; None if there are none."""
    return fitted if fitted.absolute is not None else fitted.also_linear


@dataclass(frozen=True)
class Proof:
    """How exact weighted rows are."""

    loss_error: float  # the first term of the claim; infinite if nothing could be proven
    remainder: float  # the largest part of the second term that is used, as a fraction of what one reduction may use
    moment_error: float  # largest difference of a moment, relative to the sum of absolute values
    condition: float  # largest over smallest relative size of the directions that the first term covers; 1 for the linear class
    excluded: tuple[float, ...]  # relative sizes of the directions that only the second term covers
    # the part of ``loss_error`` that other rows or weights might lower; the rest is rounding of the sums
    reducible_error: float
    power: int  # degree of the loss, for the tolerance
    worst: int  # the feature whose moment is furthest off
    # largest ratio of an absolute moment of the weighted rows to that of all rows: by as much the second term of a later
    # reduction of these rows is larger than that of all rows
    inflation: float = 1.0
    small: int = 0  # how many of the excluded directions do not vanish, but are so small that only the second term covers them
    dropped: int = 0  # how many were dropped as zero
    # the part of ``loss_error`` that is rounding of coordinates within R(q).  It is there so that people see it; the second
    # term holds it as well, and that is inherited stage by stage.
    covered: float = 0.0
    # sums of features: what the sums that were compared may be off by, a bound, in the units of the claim's ``rounding``
    derived: float = 0.0

    @property
    def tolerance(self) -> float:
        return tolerance(self.power, self.condition)

    @property
    def ok(self) -> bool:
        return self.loss_error <= self.tolerance and self.remainder <= 1.0

    @property
    def handed_on(self) -> float:
        """What a later reduction of these rows inherits of the loss error."""
        return self.loss_error - self.covered

    @property
    def merit(self) -> tuple[bool, int, float]:
        """Proven, in how many directions only up to rounding, and how well: larger is better."""
        return self.ok, -(self.small + self.dropped) if self.ok else 0, -self.loss_error

    @staticmethod
    def trivial(power: int = 1, condition: float = 1.0) -> Proof:
        """The proof of rows without features, or of rows that are kept with their own weights."""
        return Proof(0.0, 0.0, 0.0, condition, (), 0.0, power, 0)


@dataclass(frozen=True)
class Terms:
    """What a proof may use: one reduction its own share, a coreset that is verified what it claims."""

    rounding: float = ROUNDING  # the second term
    # the part of it that a moment of the linear class may be off by; the rest is rounding of the sums compared
    measured: float = MEASURED

    @staticmethod
    def claimed(rounding: float) -> Terms:
        """Those of a certificate: all of its second term, but for what the sums of this proof are rounded by."""
        return Terms(rounding, rounding - UNSEEN)


REDUCTION = Terms()
Witnesses = Callable[[Kernel], tuple[Array, Array]]  # features of some rows of the data (N x m), and their own weights


@linalg.one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def measure(
    rows: Rows | None,
    fitted: FittedMoments,
    block: Array,
    weights: Array,
    witnesses: Rows | None = None,
    terms: Terms = REDUCTION,
) -> Proof:  # fmt: skip
    """Prove weighted rows (a block ``[1 | D - shift]``) against the moments of all rows, within ``terms``.

    ``rows`` are all rows, if they can be read again; ``witnesses`` are some of them, by default a sample.
    """
    seen = rows if witnesses is None else witnesses

    def features(kernel: Kernel) -> tuple[Array, Array]:  # called only if linear moments differ by more than rounding
        if seen is None:
            return np.zeros((0, kernel.width)), np.zeros(0)
        most = min(MOST_WITNESSES, max(4 * kernel.width, WITNESSES // kernel.width))
        chosen = sample(np.random.default_rng(0), len(seen), most)
        return kernel.features(seen.take(chosen, kernel.shift)), own_weights(seen, chosen)

    kernel = fitted.kernel
    if isinstance(kernel, Powers):
        if fitted.also_linear is None:
            return _power(kernel, fitted, block, weights, terms.rounding)
        linear = _linear(fitted.also_linear, block, weights, features, rows, terms.measured)
        if kernel.degree % 2:
            return linear
        power = _power(kernel, fitted, block, weights, terms.rounding)
        if linear.ok and not power.ok:
            return linear
        error = max(power.loss_error, linear.loss_error if linear.ok else np.inf)
        remainder = max(power.remainder, linear.remainder)
        gap = max(power.reducible_error, linear.reducible_error)
        covered = error - max(power.handed_on, linear.handed_on) if linear.ok else 0.0
        return replace(
            power, loss_error=error, reducible_error=gap, remainder=remainder, moment_error=linear.moment_error,
            worst=linear.worst, inflation=linear.inflation, covered=covered, derived=linear.derived,
        )  # fmt: skip
    if isinstance(kernel, MeanKernel):
        core = exact_sum(kernel.features(block), weights)
        gap = kernel.loss_error(fitted.target, core)
        error = gap + fitted.rounding + sum_rounding(2, 1)
        off = np.abs(core - fitted.target) / np.maximum(np.abs(fitted.target), fitted.total)
        return Proof(error, 0.0, float(off.max()), 1.0, (), gap, 2, int(off.argmax()))
    return _linear(fitted, block, weights, features, rows, terms.measured)


def _linear(
    fitted: FittedMoments, block: Array, weights: Array, witnesses: Witnesses, rows: Rows | None, limit: float
) -> Proof:
    absolute = fitted.absolute
    assert absolute is not None
    size = np.where(absolute > 0, absolute, TINY)
    features = fitted.kernel.features(block)
    rho = (exact_sum(features, weights) - fitted.target) / size
    inflation = float(np.max(weights @ np.abs(features) / size, initial=1.0))
    off = np.abs(rho)
    worst, power = int(off.argmax()), fitted.kernel.power
    largest = float(off[worst])
    own, count = fitted.kernel.roundings, fitted.summed if rows is None else len(rows)
    lost = own * (count + len(weights)) * SMALLEST / float(absolute[absolute > 0].min(initial=1.0))  # underflow
    sums, beside = summed(count, own), fitted.sizes
    if fitted.off is not None and beside is not None:
        sums = float(np.max(fitted.off / np.maximum(beside, TINY))) + EPS
    derived = sums + inflation * exact_sum_rounding(own) + lost
    if largest <= limit:  # the claim needs no first term, but others may evaluate the features a little otherwise
        error = largest + min(derived, summed(count, own) + inflation * exact_sum_rounding(own) + lost)
        return Proof(error, largest / limit, largest, 1.0, (), largest, power, worst, inflation, derived=derived)
    seen = witnesses(fitted.kernel)
    error, rest, x = _weight_changes(rho, size, *seen, limit)
    if rows is not None and (error > tolerance(power, 1.0) or rest > limit):
        spread = _spread(fitted, rho, size, x, rows, *seen, limit)
        error, rest = min((error, rest), spread, key=lambda found: (found[1] > limit, found[0]))
    if rest > limit:
        error = np.inf
    remainder = float(min(rest / limit, 1.0))
    return Proof(float(error), remainder, largest, 1.0, (), float(error), power, worst, inflation, derived=derived)


def _weight_changes(rho: Array, size: Array, features: Array, weights: Array, limit: float) -> tuple[float, float, Array]:
    """Small c on witnesses with ``sum u c phi`` close to rho: max |c|, the largest remainder, and x with c = phi . x."""
    best = (0.0, float(np.abs(rho).max()), np.zeros(len(rho)))  # no change at all
    if not len(weights):
        return best
    scaled = features / size
    root = np.sqrt(weights)[:, None]
    norm = np.linalg.norm(root * scaled, axis=0)
    norm[norm == 0] = 1.0
    s, v = linalg.right_svd(root * scaled / norm)
    for cut in CUTS:
        keep = s > cut * s[:1]
        inverse = v[:, keep] / s[keep]
        c, rest = np.zeros(len(weights)), rho
        total = np.zeros(len(rho))
        for _ in range(REFINEMENTS):
            x = inverse @ (inverse.T @ (rest / norm)) / norm
            total = total + x
            c = c + scaled @ x
            rest = rho - exact_sum(scaled, weights * c)
        found = (float(np.abs(c).max(initial=0.0)), float(np.abs(rest).max()), total)
        if (found[1] > limit, found[0]) < (best[1] > limit, best[0]):
            best = found
    return best


def _spread(
    fitted: FittedMoments, rho: Array, size: Array, x: Array, rows: Rows, features: Array, weights: Array, limit: float
) -> tuple[float, float]:
    """The same on all rows: the x of the witnesses, brought to the length that all rows need, then the rest on witnesses."""
    kernel = fitted.kernel
    share = float(weights.sum() / fitted.total)
    direction = x * share / size

    def visit(block: Array, u: Array | None, _: int) -> tuple[Array, float]:
        values = kernel.features(block)
        c = values @ direction
        return exact_sum(values, c if u is None else u * c), float(np.abs(c).max())

    carried, largest = sweep(rows, kernel.shift, visit, lambda a, b: (a[0] + b[0], max(a[1], b[1])), (kernel.width, 1))
    error, rest, _ = _weight_changes(rho - carried / size, size, features, weights, limit)
    return largest + error, rest


def _power(kernel: Powers, fitted: FittedMoments, block: Array, weights: Array, rounding: float) -> Proof:
    variables = kernel.base_variables(block) * np.sqrt(weights)[:, None]
    sizes = kernel.basis.sizes(variables)
    tiny = sizes < RESOLVED
    full = _full_gram(kernel, fitted)
    difference = kernel.half_gram(kernel.coordinates(block), weights) - full
    remainder = 0.0
    if tiny.any():
        allowed, unseen = _coordinate_rounding(kernel, block, weights, tiny, CHARGED * rounding)
        difference = difference + np.copysign(unseen, difference)
        charged = np.clip(difference, -allowed, allowed)
        remainder = float(np.max(np.abs(charged) / allowed.clip(TINY)))
        difference = difference - charged
    gap = _relative_error(kernel, fitted, difference, full)
    if kernel.total:
        gap = max(gap, abs(float(weights.sum()) / fitted.total - 1.0))
    condition = 1.0 / float(sizes[~tiny].min(initial=1.0))
    error = gap + fitted.rounding + sum_rounding(kernel.degree, len(full)) + kernel.degree * EPS * condition
    mixed = float(np.linalg.norm(kernel.basis.mixing(variables)[~tiny]))
    size = np.sqrt(np.diag(full)).clip(TINY)
    off = np.abs(difference) / size / size[:, None]
    worst = int(off[kernel.first, kernel.last].argmax()) if kernel.degree == 2 and off.size else 0
    excluded = fitted.excluded or Directions.none(len(kernel.basis.map))
    if len(excluded):
        remainder = max(remainder, _second_term(kernel, block, weights))
    small = (*sizes[tiny].tolist(), *excluded.sizes[excluded.sizes > 0].tolist())
    moment_error = float(off.max(initial=0.0))
    return Proof(
        float(error),
        remainder,
        moment_error,
        condition,
        small,
        float(gap),
        kernel.degree,
        worst,
        small=int(tiny.sum()),
        dropped=len(excluded),
        covered=kernel.degree * EPS * max(condition - 2 * mixed, 0.0),
    )


def _full_gram(kernel: Powers, fitted: FittedMoments) -> Array:
    """M, in isometric monomials."""
    full, half = fitted.statistic[-1], kernel.degree // 2
    root = np.sqrt(monomials(kernel.variables, half).multinomials)
    return full if half == 1 else full * np.outer(root, root)


def _coordinate_rounding(kernel: Powers, block: Array, weights: Array, tiny: Flags, share: float) -> tuple[Array, Array]:
    """By how much the entries of E may move, to first order, if every small coordinate moves by ``share`` times its terms.

    What is rounding in a coordinate does not count as its size: R(q) is small where the data vanishes.  Also the power of
    that rounding itself, which is all that a row adds whose terms are large and cancel.
    """
    terms = np.abs(kernel.base_variables(block)) @ np.abs(np.where(tiny, kernel.basis.map, 0.0))
    coordinates = np.maximum(np.abs(kernel.coordinates(block)) - OWN * terms, 0.0)
    moved = coordinates + (share / FINE) * terms
    allowed = FINE * (kernel.half_gram(moved, weights) - kernel.half_gram(coordinates, weights))
    return allowed, kernel.half_gram(EPS * terms, weights)


def _relative_error(kernel: Powers, fitted: FittedMoments, difference: Array, full: Array) -> float:
    """The norm of E relative to M; for p > 2, to M and its lower bound."""
    half = kernel.degree // 2
    if not len(full):
        return 0.0
    if half > 1:
        lowest = max(float(linalg.eigh(fitted.statistic[0] / fitted.total)[0][-1]), 0.0)
        floor = fitted.total * lowest**half * np.eye(len(full))
        return min(linalg.relative_norm(difference, (1 - share) * full + share * floor) for share in FLOOR_SHARES)
    inner = len(full) - kernel.separate_targets
    blocks = [[*range(inner), t] for t in range(inner, len(full))] if kernel.separate_targets else [list(range(len(full)))]
    return max((linalg.relative_norm(difference[np.ix_(b, b)], full[np.ix_(b, b)]) for b in blocks), default=0.0)


def _second_term(kernel: Powers, block: Array, weights: Array) -> float:
    """The loss of the kept rows along directions that were dropped as zero, relative to half of the second term.

    That they vanish in every row of the data was seen when they were dropped.
    """
    variables = kernel.base_variables(block)
    vectors = dropped(kernel, linalg.column_norms(variables))
    values, terms = np.abs(variables @ vectors), np.abs(variables) @ np.abs(vectors)
    loss = weights @ values**kernel.degree
    allowed = kernel.degree * weights @ (values ** (kernel.degree - 1) * terms)
    return float(np.max(loss / np.maximum(0.5 * ROUNDING * allowed, TINY)))
