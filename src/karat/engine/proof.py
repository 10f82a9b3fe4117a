"""The proof: how far weighted rows are from all rows, over every query.

Used wherever a coreset is made or verified.

The linear class, sums of features, is proven in :mod:`karat.engine.linear_proof`.

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

    P  >=  inf_t  t f + (p rho / 2)^2 U^(2/p) S^2 f^((p-2)/p) / t  +  rho^p U S^p

(equal for p = 2), so rho is large enough if the norm of E relative to matrices below that
(:func:`_bounds`) is at most 1 at *every* t.  What is dropped or charged in this way is measured,
and limited by ROUNDING; the rounding of coordinates is derived, and limited by the number of
columns.  No direction is left out, however small.

Rows that are kept verbatim with their own weights cancel identically, so the rest is proven against
the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from karat.engine import linalg
from karat.engine.claim import REDUCTION, ErrorBudget, Proof
from karat.engine.forms import held, sharper_norm
from karat.engine.frame import Frame
from karat.engine.kernel import FittedMoments, monomials
from karat.engine.linalg import Array, Flags, one_blas_thread
from karat.engine.linear_proof import prove_linear
from karat.engine.powers import Powers
from karat.engine.rows import Rows, power_means
from karat.engine.small_kernels import MeanKernel
from karat.engine.sums import exact_sum
from karat.engine.tolerances import COORDINATES, EPS, EXACT, FLOOR_SHARES, ROUNDING, TINY
from karat.engine.wide_proof import moments_beside

TIMES = tuple(10.0 ** (k / 4) for k in range(-64, 13))  # the t at which a rho is tried,
BETWEEN = 10.0**0.25  # and their ratio
MOST_BOUNDS = 24  # bounds of S after which no more are sought; a quarter of them for p > 2,
SPREAD = 3  # and how many are sought at once for p = 2
HALVINGS = 6  # of the interval in which rho is sought, on a logarithmic scale
LEAST = ROUNDING / 1024
# the loss error that is left where rho takes a share; if that is too much, more of EXACT
SHARPER = 1e-12
# loss error of powers, beside sums of features, up to which it is added to theirs
BESIDE = EXACT / 8


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def measure(
    rows: Rows | None,
    fitted: FittedMoments,
    block: Array,
    weights: Array,
    witnesses: Rows | None = None,
    budget: ErrorBudget = REDUCTION,
    charges: bool = True,
) -> Proof:  # fmt: skip
    """Prove weighted rows (a block ``[1 | D - shift]``) against the moments of all rows, within an
    error budget.

    ``rows`` are all rows, if they can be read again; ``witnesses`` are some of them, by default a
    sample.  With ``charges``, the second term takes a share of what is too much for the first; that
    share takes long to find.
    """
    seen = rows if witnesses is None else witnesses
    kernel = fitted.kernel
    if isinstance(kernel, Powers):
        if fitted.also_linear is None:
            return _power(kernel, fitted, block, weights, budget.rounding, charges)
        linear = prove_linear(fitted.also_linear, block, weights, seen, rows, budget)
        if kernel.degree % 2:
            return linear
        power = _power(kernel, fitted, block, weights, budget.rounding)
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
    return prove_linear(fitted, block, weights, seen, rows, budget)


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
        charge = _charged(frame, difference, len(weights), lost + also, dropped, limit)
        if charge is not None:
            charged, extra, measured = charge[0], lost + also, charge[1]
    # What a certificate claims may be more than one reduction derives.
    room = COORDINATES * (kernel.columns + 2)
    off = np.abs(difference / (root := np.sqrt(np.diag(frame.half).clip(TINY)))) / root[:, None]
    if off.size and not dropped > limit:
        worst = frame.column_of(int(np.unravel_index(off.argmax(), off.shape)[0]))
    return Proof(
        float(charged + extra),
        float(max(measured / limit, derived / max(room, limit - measured))),
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
    """E, its norm relative to M (for p > 2, to the best K), and what rounding of the sums may add.

    If these are too much and ``patient`` is set, another matrix of the same form is tried.
    """
    if frame.many:
        return moments_beside(frame, coordinates, weights, allowed)
    difference = frame.difference(coordinates, weights)
    if not len(difference):
        return difference, 0.0, 0.0
    if frame.degree == 2:
        if len(frame.targets) == 1:
            return difference, frame.relative_norm(difference), frame.sums
        parts = [np.ix_(among, among) for among in frame.targets]
        return (
            difference,
            max(linalg.relative_norm(difference[part], frame.half[part]) for part in parts),
            frame.sums,
        )
    floors, error = frame.floors(FLOOR_SHARES), frame.sum_error_of(len(weights))
    bounds = [
        (linalg.relative_norm(difference, base), frame.rounding_of_sums(base, error))
        for base in floors
    ]
    best = min(bounds, key=sum)
    if not patient or not EXACT < sum(best) < np.inf:
        return difference, *best
    for (norm, rounding), base in sorted(zip(bounds, floors, strict=True), key=lambda b: sum(b[0])):
        other = sharper_norm(difference, base, len(frame.second), frame.degree // 2)
        best = min(best, (min(norm, other), rounding), key=sum)
        if sum(best) <= EXACT:
            break
    return difference, *best


def _charged(
    frame: Frame, difference: Array, kept: int, extra: float, dropped: float, limit: float
) -> tuple[float, float] | None:  # fmt: skip
    """The loss error and the rho that hold E, the rounding of the sums and what was dropped; None
    if there are none.
    """
    if not dropped < limit:
        return None
    if frame.degree == 2:
        parts = [
            (difference[np.ix_(among, among)], frame.base[np.ix_(among, among)], among)
            for among in frame.targets
        ]
        return _charge(frame, parts, kept, extra, dropped, limit)
    form, everything = _balanced(frame, difference), list(range(len(frame.second)))
    # The best bound of the loss for the largest errors need not be the best for those that matter.
    bases = sorted(frame.floors(FLOOR_SHARES), key=lambda base: linalg.relative_norm(form, base))
    charges = (
        _charge(frame, [(form, base, everything)], kept, extra, dropped, limit) for base in bases
    )
    return next((charge for charge in charges if charge is not None), None)


def _charge(
    frame: Frame, parts: list[tuple[Array, Array, list[int]]], kept: int, extra: float,
    dropped: float, limit: float
) -> tuple[float, float] | None:  # fmt: skip
    """The same of parts of E, each with a lower bound of the loss and its coordinates."""
    charge = None
    # If the largest loss error does not leave room enough, no other does.
    for error in (EXACT - extra, SHARPER, EXACT / 2):
        if not 0 < error <= EXACT - extra:
            continue
        rho = dropped + max(
            _small_rho(frame, *part, kept, error, limit - dropped) for part in parts
        )
        if rho <= limit:
            charge = error, rho
            if error < EXACT - extra:
                break
        elif charge is None:
            break
    return charge


def _small_rho(
    frame: Frame, difference: Array, base: Array, among: list[int], kept: int, error: float,
    limit: float
) -> float:  # fmt: skip
    """A small rho, up to ``limit``, that with a loss error holds E at every t; infinite if there is
    none.

    E is in the coordinates ``among``.  ``base`` is a lower bound of the loss, and ``kept`` the
    number of rows kept.  At every t, any lower bound of S will do.
    """
    # |v'E v| of the rounding of sums is at most sum_error (d.|v|)^2, d = diag(M)^(1/2).
    squares = np.diag(frame.half) if frame.degree > 2 else np.diag(base)
    sums = frame.sum_error_of(kept) * len(squares) * np.diag(squares)

    def failing(rho: float) -> Iterator[Array]:
        """For every t at which no bound of S holds E, the matrix of the newest."""
        factors = (frame.degree * rho / 2) ** 2 / BETWEEN, rho**frame.degree
        for t in times:
            # a thousandth of the error is left for the t below all of TIMES
            whole = (0.999 * error + t) * base - sums
            bounds = [whole + factors[0] / t * a + factors[1] * q for a, q in pairs]
            if not any(map(holds, bounds)):
                yield bounds[-1]

    def holds(bound: Array) -> bool:
        if linalg.definite(bound - difference) and linalg.definite(bound + difference):
            return True
        return frame.degree > 2 and held(difference, bound, len(among), frame.degree // 2)

    largest = linalg.relative_norm(difference, base) + linalg.relative_norm(sums, base)
    times = [t for t in TIMES if t < BETWEEN * largest]  # beyond, the loss error alone is enough
    pairs = list(_bounds(frame, difference, among))
    most = MOST_BOUNDS if frame.degree == 2 else MOST_BOUNDS // 4
    while unmet := list(islice(failing(limit), None if frame.degree == 2 else 1)):
        # The worst query, but for the loss error, tells a better bound of S.
        seen = unmet[:: max(1, len(unmet) // SPREAD)] if len(pairs) < most else []
        queries = [_relative_vector(difference, m + sums - 0.999 * error * base) for m in seen]
        better = [_bound_at(frame, query, among) for query in queries if query is not None]
        if limit <= LEAST or not any(pair is not None for pair in better):
            return np.inf
        for pair in better:
            if pair is not None:  # and its mean with the newest, for the queries of both
                mean = (pair[0] + pairs[-1][0]) / 2, (pair[1] + pairs[-1][1]) / 2
                pairs += [pair, mean]
    low, high = LEAST, limit
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if not any(True for _ in failing(middle)) else (middle, high)
    return high


def _bounds(frame: Frame, error: Array, among: list[int]) -> Iterator[tuple[Array, Array]]:
    """Matrices A, Q with ``v'A v <= U^(2/p) S^2 f^((p-2)/p)``, ``v'Q v <= U S^p`` for monomials v
    of the coordinates ``among``.

    They follow from ``S^2 >= sum_k theta_k (alpha_k / reach_k)^2``, with equal shares theta and
    with shares by ``error``.
    """
    near, size = 1.0 / frame.reach[among], np.zeros(len(among))
    indices = monomials(len(among), frame.degree // 2).indices
    np.maximum.at(size, indices, np.abs(np.diag(error))[:, None])
    need = np.where(near > 0, size / np.maximum(near, TINY) ** 2, 0.0)
    for share in _shares(near > 0, need):
        yield _raised(frame, share * near**2, np.zeros(len(among)))


def _bound_at(frame: Frame, query: Array, among: list[int]) -> tuple[Array, Array] | None:
    """The same from ``S >= |sum_j s_j sigma_j z_j|``, with the signs s of a query that has these
    monomials; None if there is none.
    """
    if len(frame.basis.excluded) or not np.isfinite(query).all():
        return None
    near, map_ = 1.0 / frame.reach[among], frame.basis.map[:, among]
    times, factor = monomials(len(among), frame.degree // 2).times
    alpha = linalg.svd(query[times] * factor)[0][:, 0]
    form = np.sign(map_ @ alpha) * frame.spreads
    form[: int(frame.affine)] = 0.0
    # a convex combination of two bounds, of which the first covers all directions but the constant
    return _raised(frame, 0.05 * near**2 / len(near), np.sqrt(0.95) * (form @ map_))


def _raised(frame: Frame, square: Array, form: Array) -> tuple[Array, Array]:
    """The matrices, from ``S^2 >= sum_k square_k alpha_k^2 + (form . alpha)^2``."""
    half = frame.degree // 2
    table = monomials(len(form), half)
    times, factor = table.times
    both, first = np.diag(square) + np.outer(form, form), np.zeros((len(table), len(table)))
    np.add.at(first, (times[:, None], times[None]), both[..., None] * factor[:, None] * factor)
    power = table.values(form[:, None])[:, 0] * np.sqrt(table.multinomials)
    last = np.diag(np.prod(square[table.indices], axis=1)) + np.outer(power, power)
    return frame.total * frame.lowest ** ((half - 1) / half) * first, frame.total * last


def _balanced(frame: Frame, error: Array) -> Array:
    """For p > 2: the same form of degree p as ``error``, with every product of coordinates cut into
    balanced halves.

    ``a^2 b^2`` is the product of ``a^2`` and ``b^2``, and also the square of ``a b``; a bound by
    squares needs the latter.
    """
    count = len(frame.second)
    whole, half = monomials(count, frame.degree), monomials(count, frame.degree // 2)
    root = np.sqrt(half.multinomials)
    (first, last), (left, right) = whole.split, whole.balanced
    values = (
        whole.multinomials
        * error[first, last]
        / (root[first] * root[last])
        / (2 * root[left] * root[right])
    )
    matrix = np.zeros_like(error)
    np.add.at(matrix, (left, right), values)
    return matrix + matrix.T


def _shares(among: Flags, need: Array) -> list[Array]:
    """Shares that add up to 1: equal ones, and ones by need."""
    even = among / max(1, int(among.sum()))
    total = float(need.sum())
    return [even] + ([0.9 * need / total + 0.1 * even] if 0 < total < np.inf else [])


def _relative_vector(difference: Array, base: Array) -> Array | None:
    """The vector at which a symmetric E is largest relative to a positive definite B; None if B is
    not.
    """
    size = np.sqrt(np.maximum(np.diag(base), TINY))
    factor = linalg.cholesky(np.asfortranarray(base / size / size[:, None]))
    if factor is None:
        return None
    left = linalg.solve_upper(factor, difference / size / size[:, None], transposed=True)
    values, vectors = linalg.eigh(linalg.solve_upper(factor, left.T, transposed=True))
    return np.asarray(linalg.solve_upper(factor, vectors[:, int(np.abs(values).argmax())]) / size)
