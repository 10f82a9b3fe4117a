"""The proof of the linear class: sums of features, any linear combination of which is a query.

With f = <h, phi>, any h, claimed is ``|f_c - f| <= loss_error sum_i u_i |f_i| +
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
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from karat.engine import linalg
from karat.engine.claim import ErrorBudget, Proof
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Rows, own_weights, sample, sweep
from karat.engine.sums import SMALLEST, exact_sum, exact_sum_rounding, sum_rounding
from karat.engine.tolerances import COORDINATES, EPS, EXACT, TINY

REFINEMENTS = 3
WITNESSES = 2**21  # features of rows looked at,
HEAVY = 8  # rows with the largest values of each feature that are witnesses as well
MOST_WITNESSES = 16384  # and rows
# relative singular values below which c leaves a direction to the remainder
CUTS = tuple(10.0**k for k in range(-14, -1, 2))
PROGRAMME = 2**16  # features of rows in a linear programme


def prove_linear(
    fitted: FittedMoments,
    block: Array,
    weights: Array,
    witnesses: Rows | None,
    rows: Rows | None,
    budget: ErrorBudget,
) -> Proof:
    absolute, limit = fitted.absolute, budget.features
    assert absolute is not None
    size = np.where(absolute > 0, absolute, TINY)
    features = fitted.kernel.features(block)
    rho = (exact_sum(features, weights) - fitted.target) / size
    inflation = float(np.max(weights @ np.abs(features) / size, initial=1.0))
    off = np.abs(rho)
    worst, power = int(off.argmax()), fitted.kernel.power
    largest = float(off[worst])
    roundings, count = fitted.kernel.roundings, fitted.summed if rows is None else len(rows)
    # what terms that underflow may add up to
    lost = (
        roundings
        * (count + len(weights))
        * SMALLEST
        / float(absolute[absolute > 0].min(initial=1.0))
    )
    derived = sum_rounding(count, roundings) + inflation * exact_sum_rounding(roundings) + lost
    derived_share, fresh, beside = (
        derived / (COORDINATES * (len(fitted.kernel.shift) + 2)),
        derived,
        fitted.sizes,
    )
    if fitted.off is not None and beside is not None:  # with what is carried along from earlier
        derived = (
            float(np.max(fitted.off / np.maximum(beside, TINY)))
            + EPS
            + inflation * exact_sum_rounding(roundings)
            + lost
        )
    # The claim needs no first term, but other code may round the features differently.
    if largest <= limit:
        error = largest + min(derived, fresh)
        return Proof(
            error, max(largest / limit, derived_share), largest, 1.0, (), largest, power, worst,
            inflation, measured=largest, derived=derived,
        )  # fmt: skip
    chosen = _witnesses(fitted.kernel, witnesses)
    seen = _features_of(fitted.kernel, witnesses, chosen)
    error, rest, x = _weight_changes(rho, size, *seen, limit)
    if rows is not None and (error > EXACT or rest > limit):
        if witnesses is not rows:  # which rows they are is not known
            chosen = _witnesses(fitted.kernel, rows)
        spread = _spread(fitted, rho, size, x, rows, chosen, limit)
        error, rest = min((error, rest), spread, key=lambda bound: (bound[1] > limit, bound[0]))
    # |rho_t| <= max |c| + limit: no changes of weights are small enough for larger ones
    if budget.patient and (error > EXACT or rest > limit) and largest <= EXACT + limit:
        best = smallest_changes(rho, size, *seen, limit)
        error, rest = min((error, rest), best, key=lambda bound: (bound[1] > limit, bound[0]))
    if rest > limit:
        error = np.inf
    remainder = float(max(min(rest / limit, 1.0), derived_share))
    return Proof(
        float(error), remainder, largest, 1.0, (), float(error), power, worst, inflation,
        measured=float(min(rest, limit)), derived=derived,
    )  # fmt: skip


def _witnesses(kernel: Kernel, rows: Rows | None) -> Indices:
    """Positions of the rows that are looked at, each once: the change of a row that came twice
    would count twice.
    """
    most = min(MOST_WITNESSES, max(4 * kernel.width, WITNESSES // kernel.width))
    return sample(np.random.default_rng(0), 0 if rows is None else len(rows), most)


def _features_of(kernel: Kernel, rows: Rows | None, chosen: Indices) -> tuple[Array, Array]:
    """Features of some rows of the data (N x m), and their own weights."""
    if rows is None:
        return np.zeros((0, kernel.width)), np.zeros(0)
    return kernel.features(rows.take(chosen, kernel.shift)), own_weights(rows, chosen)


def _weight_changes(
    rho: Array, size: Array, features: Array, weights: Array, limit: float
) -> tuple[float, float, Array]:
    """Small changes c of the witnesses with ``sum u c phi`` close to rho: max |c|, the largest
    remainder, and x with c = phi . x.
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
            trial = (float(np.abs(c).max(initial=0.0)), float(np.abs(rest).max()), total)
            if (trial[1] > limit, trial[0]) < (best[1] > limit, best[0]):
                best = trial
        if best[1] <= limit:
            break
    return best


def smallest_changes(
    rho: Array, size: Array, features: Array, weights: Array, limit: float
) -> tuple[float, float]:
    """The smallest max |c| that leaves at most the limit, by a linear programme; and what it
    leaves.

    Over all rows this is the supremum itself.
    """
    from scipy.optimize import linprog  # 0.1 s that hardly any verification needs

    first = slice(0, PROGRAMME // max(1, len(rho)))
    scaled, weights = (features / size)[first], weights[first]
    count, unit = len(weights), float(np.abs(rho).max())
    if not count:
        return np.inf, np.inf
    terms, identity = sparse.csr_array((scaled * weights[:, None]).T), sparse.eye_array(count)
    bound, none = np.ones((count, 1)), np.zeros((len(rho), 1))
    solution = linprog(  # 0.9: a margin, since the remainder is computed again below
        np.append(np.zeros(count), 1.0),
        A_ub=sparse.block_array(
            [[terms, none], [-terms, none], [identity, -bound], [-identity, -bound]], format="csr"
        ),
        b_ub=np.concatenate([rho + 0.9 * limit, 0.9 * limit - rho, np.zeros(2 * count)]) / unit,
        bounds=[(None, None)] * count + [(0, None)],
        options={"time_limit": 10.0},
    )
    if solution.x is None:
        return np.inf, np.inf
    c = solution.x[:count] * unit
    return float(np.abs(c).max(initial=0.0)), float(
        np.abs(rho - exact_sum(scaled, weights * c)).max()
    )


def _spread(
    fitted: FittedMoments,
    rho: Array,
    size: Array,
    x: Array,
    rows: Rows,
    chosen: Indices,
    limit: float,
) -> tuple[float, float]:
    """The same on all rows: the x of the witnesses, scaled to the length that all rows need, then
    the rest on witnesses.

    Rows with large features, which a sample may miss, become witnesses too.
    """
    kernel = fitted.kernel
    share = float(own_weights(rows, chosen).sum() / fitted.total)
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
    extra = np.take_along_axis(heavy[:, 0], order, axis=0).astype(np.intp)
    features, weights = _features_of(kernel, rows, np.union1d(chosen, extra))
    plain, rest, _ = _weight_changes(rho, size, features, weights, limit)
    if rest <= limit and plain <= EXACT:
        return plain, rest
    error, rest, _ = _weight_changes(rho - carried / size, size, features, weights, limit)
    return most + error, rest
