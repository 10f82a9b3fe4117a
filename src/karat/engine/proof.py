"""The proof: how far weighted rows are from all rows, over every query.

Used wherever a coreset is made or verified.

**Linear class** (f = <h, phi>, any h).  Claimed is ``|f_c - f| <= loss_error sum_i u_i |f_i| +
rounding sum_t |h_t| A_t`` with A_t = sum_i u_i |phi_t(i)|.  With rho the difference of moments, any
numbers c_i with

    sum_i u_i c_i phi_i = rho - r,      |r_t| <= MEASURED * A_t  for every feature t,

prove ``loss_error = max |c_i|``, since ``<h, rho> = sum_i u_i c_i f_i + <h, r>``: the coreset is
exact for the data with its weights changed by at most that much.  (The smallest such maximum is the
supremum itself, by duality.)  Usually c = 0 does: the moments agree to rounding, feature by
feature.  If not, c is sought on witnesses, which are rows of the data with their own weights, and
if that bound is too loose, on all rows, ``c_i = phi_i . x`` with x from the witnesses.  If neither
leaves a remainder below rounding there is a direction of rho that no witness shows: nothing is
proven, and loss_error is infinite.

**Power class** (f = sum_i u_i (d_i.z)^p, p = 2h).  Claimed is

    |f_c - f|  <=  loss_error f + P(rounding),
    P(rho) = (f^(1/p) + rho U^(1/p) S)^p - f,      S = sum_j |z_j| sigma_j,

where P is exactly what f can change by if every column j moves by at most rho of its size sigma_j
about its mean (Minkowski). Such claims compose: loss errors multiply up as 1 + delta, and the rhos
add (docs/mathematics.md).  So the proof is a chain,

    f  --  loss of computed coordinates  --  the same of kept rows  --  f_c.

The first and the last link are dropped directions and rounding of coordinates
(:mod:`karat.engine.frame`).  In the middle, with M the Gram matrix of the degree-h monomials over
all rows, E its error and v the monomials of the query in coordinates,

    f = v'M v,     f_c - f = v'E v,  f >= U lambda |v|^2  (:attr:`karat.engine.frame.Frame.lowest`),

so the relative error is at most the norm of E relative to ``K = (1 - s) M + s U lambda I`` for any
s; for p = 2, K = M gives the supremum.  Where that is too much, along small directions of the
columns, rho takes a share: by the first and last order,

    P  >=  inf_t  t f + (p rho / 2)^2 U^(2/p) S^2 f^((p-2)/p) / t  +  rho^p U S^p  (equal for p =
    2),

so rho will do if the norm of E relative to matrices below that
(:meth:`karat.engine.frame.Frame.bounds`) is at most 1 at *every* t.  What is dropped or charged in
this way is measured, and limited by ROUNDING; the rounding of coordinates is derived, and limited
by the number of columns.  No direction is left out, however small.

Rows that are kept verbatim with their own weights cancel identically, so the rest is proven against
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from karat.engine import linalg
from karat.engine.claim import Claim
from karat.engine.forms import held, sharper_norm
from karat.engine.frame import Frame, power_means
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array
from karat.engine.many import moments_beside
from karat.engine.mean import MeanKernel
from karat.engine.powers import Powers
from karat.engine.programme import smallest_changes
from karat.engine.rows import Rows, own_weights, sample, sweep
from karat.engine.sums import SMALLEST, exact_sum, exact_sum_rounding, sum_rounding
from karat.engine.threads import one_blas_thread
from karat.engine.tolerances import COORDINATES, EPS, EXACT, FLOOR_SHARES, MEASURED, ROUNDING, TINY

REFINEMENTS = 3
WITNESSES = 2**21  # features of rows looked at,
HEAVY = 8  # rows with the largest values of each feature that are witnesses as well
MOST_WITNESSES = 16384  # and rows
# relative singular values below which c leaves a direction to the remainder
CUTS = tuple(10.0**k for k in range(-14, -1, 2))
TIMES = tuple(10.0 ** (k / 4) for k in range(-64, 13))  # the t at which a rho is tried,
BETWEEN = 10.0**0.25  # and their ratio
WAYS = 6  # bounds of S after which no more are sought,
SPREAD = 3  # and how many are sought at once for p = 2
HALVINGS = 6  # of the interval in which rho is sought, on a logarithmic scale
LEAST = ROUNDING / 1024
# loss error of powers, beside sums of features, up to which it is added to theirs
BESIDE = EXACT / 8
# the loss error that is left where rho takes a share; if that is too much, more of EXACT
SHARPER = 1e-12


def linear_class(fitted: FittedMoments) -> FittedMoments | None:
    """The moments in features of the linear class; None if there are none."""
    return fitted if fitted.absolute is not None else fitted.also_linear


@dataclass(frozen=True)
class Proof:
    """How exact weighted rows are."""

    loss_error: float  # the first term of the claim; infinite if nothing could be proven
    # the part of the second term that is used, as a fraction of what one reduction may use
    remainder: float
    moment_error: float  # largest difference of a moment, relative to the sum of absolute values
    # largest over smallest relative size of the directions of the columns; 1 for the linear class
    condition: float
    excluded: tuple[float, ...]  # relative sizes of the directions that only the second term covers
    # the part of ``loss_error`` that other rows or weights might lower; the rest is rounding of the
    # sums
    reducible_error: float
    power: int  # degree of the loss
    worst: int  # the feature, or for the power class the column, that is furthest off
    # largest ratio of an absolute moment of the weighted rows to that of all rows: by as much the
    # second term of a later reduction of these rows is larger than that of all rows
    inflation: float = 1.0
    measured: float = 0.0  # the second term: what is measured of it,
    derived: float = 0.0  # and what is added for rounding in the proof itself
    in_columns: bool = False  # whether it is the claim of the power class

    def __post_init__(self) -> None:
        # what cannot be computed is not proven
        for name in ("loss_error", "remainder", "reducible_error"):
            if np.isnan(getattr(self, name)):
                object.__setattr__(self, name, np.inf)

    @property
    def rounding(self) -> float:
        """The second term of the claim."""
        return self.measured + self.derived

    @property
    def claim(self) -> Claim:
        """What is proven, as the claim of this reduction by itself."""
        return Claim(
            float(self.loss_error), self.rounding / ROUNDING, self.inflation, self.remainder
        )

    @property
    def ok(self) -> bool:
        return self.loss_error <= EXACT and self.remainder <= 1.0

    @property
    def merit(self) -> tuple[bool, float]:
        """Proven, and how well: larger is better."""
        return self.ok, -self.loss_error

    @staticmethod
    def trivial(power: int = 1, condition: float = 1.0) -> Proof:
        """The proof of rows without features, or of rows that are kept with their own weights."""
        return Proof(0.0, 0.0, 0.0, condition, (), 0.0, power, 0)


@dataclass(frozen=True)
class ErrorBudget:
    """What a proof may measure of the second term: one reduction its own share, a coreset that is
    verified what it claims.
    """

    rounding: float = ROUNDING
    features: float = MEASURED  # the same for a moment of the linear class
    # whether the best changes of weights are sought, if good ones are not enough
    patient: bool = False

    @staticmethod
    def claimed(rounding: float) -> ErrorBudget:
        """Those of a certificate."""
        return ErrorBudget(max(rounding, ROUNDING), max(rounding, MEASURED), patient=True)


REDUCTION = ErrorBudget()
# features of some rows of the data (N x m), and their own weights
Witnesses = Callable[[Kernel], tuple[Array, Array]]


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def measure(
    rows: Rows | None,
    fitted: FittedMoments,
    block: Array,
    weights: Array,
    witnesses: Rows | None = None,
    terms: ErrorBudget = REDUCTION,
    charges: bool = True,
) -> Proof:  # fmt: skip
    """Prove weighted rows (a block ``[1 | D - shift]``) against the moments of all rows, within
    ``terms``.

    ``rows`` are all rows, if they can be read again; ``witnesses`` are some of them, by default a
    sample.  Unless it ``charges``, the second term takes no share of what is too much for the
    first, which takes long to find.
    """
    seen = rows if witnesses is None else witnesses

    # called only if linear moments differ by more than rounding
    def features(kernel: Kernel) -> tuple[Array, Array]:
        if seen is None:
            return np.zeros((0, kernel.width)), np.zeros(0)
        most = min(MOST_WITNESSES, max(4 * kernel.width, WITNESSES // kernel.width))
        chosen = sample(np.random.default_rng(0), len(seen), most)
        return kernel.features(seen.take(chosen, kernel.shift)), own_weights(seen, chosen)

    kernel = fitted.kernel
    if isinstance(kernel, Powers):
        if fitted.also_linear is None:
            return _power(kernel, fitted, block, weights, terms.rounding, charges)
        linear = _linear(fitted.also_linear, block, weights, features, rows, terms)
        if kernel.degree % 2:
            return linear
        power = _power(kernel, fitted, block, weights, terms.rounding)
        # sums of features are what is claimed
        if linear.ok and not (power.ok and power.loss_error <= BESIDE):
            return linear
        return replace(
            linear,
            loss_error=max(power.loss_error, linear.loss_error if linear.ok else np.inf),
            reducible_error=max(power.reducible_error, linear.reducible_error),
            remainder=max(power.remainder, linear.remainder),
            measured=max(power.measured, linear.measured),
            derived=max(power.derived, linear.derived),
            condition=power.condition,
            excluded=power.excluded,
        )
    if isinstance(kernel, MeanKernel):
        core = exact_sum(kernel.features(block), weights)
        gap = kernel.loss_error(fitted.target, core)
        error = gap + kernel.rounding + 32 * EPS
        off = np.abs(core - fitted.target) / np.maximum(np.abs(fitted.target), fitted.total)
        return Proof(error, 0.0, float(off.max()), 1.0, (), gap, 2, int(off.argmax()))
    return _linear(fitted, block, weights, features, rows, terms)


def _linear(
    fitted: FittedMoments,
    block: Array,
    weights: Array,
    witnesses: Witnesses,
    rows: Rows | None,
    terms: ErrorBudget,
) -> Proof:
    absolute, limit = fitted.absolute, terms.features
    assert absolute is not None
    size = np.where(absolute > 0, absolute, TINY)
    features = fitted.kernel.features(block)
    rho = (exact_sum(features, weights) - fitted.target) / size
    inflation = float(np.max(weights @ np.abs(features) / size, initial=1.0))
    off = np.abs(rho)
    worst, power = int(off.argmax()), fitted.kernel.power
    largest = float(off[worst])
    own, count = fitted.kernel.roundings, fitted.summed if rows is None else len(rows)
    # underflow
    lost = own * (count + len(weights)) * SMALLEST / float(absolute[absolute > 0].min(initial=1.0))
    derived = sum_rounding(count, own) + inflation * exact_sum_rounding(own) + lost
    known, fresh, beside = (
        derived / (COORDINATES * (len(fitted.kernel.shift) + 2)),
        derived,
        fitted.sizes,
    )
    if fitted.off is not None and beside is not None:  # with what is carried along from earlier
        derived = (
            float(np.max(fitted.off / np.maximum(beside, TINY)))
            + EPS
            + inflation * exact_sum_rounding(own)
            + lost
        )
    # the claim needs no first term, but others may evaluate the features a little otherwise
    if largest <= limit:
        error = largest + min(derived, fresh)
        return Proof(
            error, max(largest / limit, known), largest, 1.0, (), largest, power, worst, inflation,
            measured=largest, derived=derived,
        )  # fmt: skip
    seen = witnesses(fitted.kernel)
    error, rest, x = _weight_changes(rho, size, *seen, limit)
    if rows is not None and (error > EXACT or rest > limit):
        spread = _spread(fitted, rho, size, x, rows, *seen, limit)
        error, rest = min((error, rest), spread, key=lambda found: (found[1] > limit, found[0]))
    # |rho_t| <= max |c| + limit: no changes of weights are small enough for larger ones
    if terms.patient and (error > EXACT or rest > limit) and largest <= EXACT + limit:
        best = smallest_changes(rho, size, *seen, limit)
        error, rest = min((error, rest), best, key=lambda found: (found[1] > limit, found[0]))
    if rest > limit:
        error = np.inf
    remainder = float(max(min(rest / limit, 1.0), known))
    return Proof(
        float(error), remainder, largest, 1.0, (), float(error), power, worst, inflation,
        measured=float(min(rest, limit)), derived=derived,
    )  # fmt: skip


def _weight_changes(
    rho: Array, size: Array, features: Array, weights: Array, limit: float
) -> tuple[float, float, Array]:
    """Small c on witnesses with ``sum u c phi`` close to rho: max |c|, the largest remainder, and x
    with c = phi . x.
    """
    best = (0.0, float(np.abs(rho).max()), np.zeros(len(rho)))  # no change at all
    if not len(weights):
        return best
    scaled = features / size
    root = np.sqrt(weights)[:, None]
    norm = np.linalg.norm(root * scaled, axis=0)
    # Features alike, and each in units of its absolute moment: one row may hold most of one.
    for unit in (np.where(norm == 0, 1.0, norm), np.ones(len(rho))):
        s, v = linalg.right_svd(root * scaled / unit)
        for cut in CUTS:
            keep = s > cut * s[:1]
            inverse = v[:, keep] / s[keep]
            c, rest = np.zeros(len(weights)), rho
            total = np.zeros(len(rho))
            for _ in range(REFINEMENTS):
                x = inverse @ (inverse.T @ (rest / unit)) / unit
                total = total + x
                c = c + scaled @ x
                rest = rho - exact_sum(scaled, weights * c)
            found = (float(np.abs(c).max(initial=0.0)), float(np.abs(rest).max()), total)
            if (found[1] > limit, found[0]) < (best[1] > limit, best[0]):
                best = found
        if best[1] <= limit:
            break
    return best


def _spread(
    fitted: FittedMoments,
    rho: Array,
    size: Array,
    x: Array,
    rows: Rows,
    features: Array,
    weights: Array,
    limit: float,
) -> tuple[float, float]:
    """The same on all rows: the x of the witnesses, brought to the length that all rows need, then
    the rest on witnesses.

    Rows with large features, which a sample may miss, are witnesses as well.
    """
    kernel = fitted.kernel
    share = float(weights.sum() / fitted.total)
    direction = x * share / size

    def visit(block: Array, u: Array | None, start: int) -> tuple[Array, float, Array]:
        values = kernel.features(block)
        c = values @ direction
        heavy = np.abs(values / size if u is None else values * u[:, None] / size)
        largest = np.array([start + heavy.argmax(axis=0), heavy.max(axis=0)])
        return exact_sum(values, c if u is None else u * c), float(np.abs(c).max()), largest[None]

    def combine(
        a: tuple[Array, float, Array], b: tuple[Array, float, Array]
    ) -> tuple[Array, float, Array]:
        return a[0] + b[0], max(a[1], b[1]), np.concatenate([a[2], b[2]])

    carried, most, heavy = sweep(rows, kernel.shift, visit, combine, (kernel.width, 1))
    order = np.argsort(-heavy[:, 1], axis=0)[:HEAVY]
    extra = np.unique(np.take_along_axis(heavy[:, 0], order, axis=0).astype(np.intp))
    features = np.vstack([features, kernel.features(rows.take(extra, kernel.shift))])
    weights = np.concatenate([weights, own_weights(rows, extra)])
    plain, rest, _ = _weight_changes(rho, size, features, weights, limit)
    if rest <= limit and plain <= EXACT:
        return plain, rest
    error, rest, _ = _weight_changes(rho - carried / size, size, features, weights, limit)
    return most + error, rest


def _power(
    kernel: Powers, fitted: FittedMoments, block: Array, weights: Array, limit: float,
    charges: bool = True
) -> Proof:  # fmt: skip
    frame = fitted.frame
    assert frame is not None
    variables = kernel.base_variables(block)
    sizes = np.maximum(frame.sizes, power_means(variables, weights, frame.total, frame.degree))
    dropped, lost, worst = frame.share(frame.dropped(variables, weights))
    derived, also, _ = frame.share(frame.rounded(sizes))
    coordinates = frame.coordinates(variables)
    allowed = 0.0 if kernel.sharp else EXACT - lost - also
    difference, gap, sums = _error_beside(frame, coordinates, weights, allowed, charges)
    if kernel.total:
        gap = max(gap, abs(float(weights.sum()) / fitted.total - 1.0))
    extra = sums + lost + also
    charged, measured = gap, dropped
    if charges and gap + extra > EXACT and np.isfinite(difference).all():
        found = _charged(frame, difference, len(weights), lost + also, dropped, limit)
        if found is not None:
            charged, extra, measured = found[0], lost + also, found[1]
    off = np.abs(difference / (root := np.sqrt(np.diag(frame.half).clip(TINY)))) / root[:, None]
    if off.size and not dropped > limit:
        worst = frame.column_of(int(np.unravel_index(off.argmax(), off.shape)[0]))
    return Proof(
        float(charged + extra),
        float(max(measured / limit, derived / (COORDINATES * (kernel.columns + 2)))),
        float(off.max(initial=0.0)),
        frame.condition,
        tuple(frame.basis.excluded.sizes[frame.basis.excluded.sizes > 0].tolist()),
        float(gap),
        frame.degree,
        worst,
        measured=float(measured),
        derived=derived,
        in_columns=True,
    )


def _error_beside(
    frame: Frame, coordinates: Array, weights: Array, allowed: float, patient: bool
) -> tuple[Array, float, float]:
    """E, its norm relative to M (for p > 2 to the best K), and what rounding of the sums may add.

    If that is too much, and it is ``patient``, the norm of another matrix of the same form.
    """
    if frame.many:
        return moments_beside(frame, coordinates, weights, allowed)
    difference = frame.difference(coordinates, weights)
    if not len(difference):
        return difference, 0.0, 0.0
    if frame.degree == 2:
        if len(frame.targets) == 1:
            return difference, frame.relative_norm(difference), frame.sums
        parts = [np.ix_(some, some) for some in frame.targets]
        return (
            difference,
            max(linalg.relative_norm(difference[part], frame.half[part]) for part in parts),
            frame.sums,
        )
    floors, error = frame.floors(FLOOR_SHARES), frame.sum_error_of(len(weights))
    found = [
        (linalg.relative_norm(difference, base), frame.rounding_of_sums(base, error))
        for base in floors
    ]
    best = min(found, key=sum)
    if not patient or not EXACT < sum(best) < np.inf:
        return difference, *best
    base = floors[found.index(best)]
    other = sharper_norm(difference, base, len(frame.second), frame.degree // 2)
    return difference, min(best[0], other), best[1]


def _charged(
    frame: Frame, difference: Array, kept: int, extra: float, dropped: float, limit: float
) -> tuple[float, float] | None:  # fmt: skip
    """The loss error and the rho that hold E and the rounding of the sums, with what was dropped;
    None if there are none.
    """
    found = None
    parts = [
        (difference[np.ix_(some, some)], frame.base[np.ix_(some, some)], some)
        for some in frame.targets
    ]
    if frame.degree > 2:
        form = frame.balanced(difference)
        base = min(frame.floors(FLOOR_SHARES), key=lambda floor: linalg.relative_norm(form, floor))
        parts = [(form, base, list(range(len(frame.second))))]
    # If the largest loss error does not leave room enough, no other does.
    for error in (EXACT - extra, SHARPER, EXACT / 2):
        if not 0 < error <= EXACT - extra:
            continue
        rho = dropped + max(
            _small_rho(frame, *part, kept, error, limit - dropped) for part in parts
        )
        if rho <= limit:
            found = error, rho
            if error < EXACT - extra:
                break
        elif found is None:
            break
    return found


def _small_rho(
    frame: Frame, difference: Array, base: Array, some: list[int], kept: int, error: float,
    limit: float
) -> float:  # fmt: skip
    """A small rho, up to ``limit``, that with a loss error holds E in ``some`` coordinates at every
    t; else infinite.

    ``base`` is a lower bound of the loss, ``kept`` the number of rows kept.  The first bound of S
    that has such a rho is taken.
    """
    # |v'E v| of the rounding of sums is at most sum_error (d.|v|)^2, d = diag(M)^(1/2).
    squares = np.diag(frame.half) if frame.degree > 2 else np.diag(base)
    sums = frame.sum_error_of(kept) * len(squares) * np.diag(squares)

    def failing(rho: float, first: Array, last: Array) -> Iterator[Array]:
        """The matrices that do not hold E."""
        first, last = (frame.degree * rho / 2) ** 2 / BETWEEN * first, rho**frame.degree * last
        bounds = ((0.999 * error + t) * base + first / t + last - sums for t in times)
        return (b for b in bounds if not holds(b))

    def holds(bound: Array) -> bool:
        if linalg.definite(bound - difference) and linalg.definite(bound + difference):
            return True
        return frame.degree > 2 and held(difference, bound, len(some), frame.degree // 2)

    largest = linalg.relative_norm(difference, base) + linalg.relative_norm(sums, base)
    times = [t for t in TIMES if t < BETWEEN * largest]  # beyond, the loss error alone is enough
    untried, tried = list(frame.bounds(difference, some)) if limit > LEAST else [], 0
    while untried:
        way, tried = untried.pop(0), tried + 1
        unmet = list(islice(failing(limit, *way), None if frame.degree == 2 else 1))
        if not unmet:
            break
        for matrix in unmet[:: max(1, len(unmet) // SPREAD)] if tried + len(untried) < WAYS else ():
            # The worst query, but for the loss error, tells a better bound of S.
            query = linalg.relative_vector(difference, matrix + sums - 0.999 * error * base)
            better = None if query is None else frame.bound_at(query, some)
            untried += [] if better is None else [better]
    else:
        return np.inf
    low, high = LEAST, limit
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (
            (low, middle) if not any(True for _ in failing(middle, *way)) else (middle, high)
        )
    return high
