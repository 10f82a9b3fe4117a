"""The pipeline: moments in one pass, a vertex among a few candidates, a proof.

    settled  = sum over rows of  weight * kernel features                # one pass, coordinates included
    vertex   = positive weights on at most rank rows, the same moments   # onepass | tree | caratheodory
    weights  = polish(vertex, settled.target)                            # the last digits
    proof    = worst relative loss error over every query                # karat.engine.proof

``onepass`` looks at uniform candidates first; whether they can meet the moments is decided by Newton's method, which fails
fast.  Then come more of them, candidates drawn by kernel leverage, rows found by pricing a Farkas direction, and last the tree.

If the proof fails, stronger means follow, each of which costs more passes or more rows: the tree, its rows before the last
elimination, features of single columns, the same for what is left when dominating rows are peeled, Caratheodory row by row,
and, where there are few rows, all of them with their own weights, which is exact by definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from karat.engine import linalg
from karat.engine.candidates import OUTSIDE, by_leverage, leverage, own_weights, sample
from karat.engine.caratheodory import reduce_points
from karat.engine.kernel import Flags, Kernel, Settled
from karat.engine.linalg import Array, Indices
from karat.engine.newton import meet
from karat.engine.peel import dominating, heaviest, lopsided
from karat.engine.points import Frame, frame
from karat.engine.polish import polish, polish_features
from karat.engine.powers import Powers
from karat.engine.proof import REDUCTION, WITNESSES, Proof, Terms, prove
from karat.engine.rows import Rows
from karat.engine.sweep import Progress, column_sizes, evaluate, pass_over
from karat.engine.tolerances import EXACT, MEASURED, MISSED, ROUNDING, SHARP, TINY, UNSEEN
from karat.engine.tree import chain, thin
from karat.errors import InputError

PILOT = 2048
COMPLETE = 16384  # up to this many rows the pilot is all of them
FIRST, SECOND = 2.5, 6.0  # uniform candidates, in units of m
BESIDE = 0.5  # the same, beside rows that carry most of the moments already
ROUNDS = 6
PEELED = 16  # most rows to peel, in units of m
LAST = ("tree", "caratheodory")  # ways after which there is no other
FEW = 4  # in units of m: so few rows may all be kept, if nothing else is exact
SLOW = 300  # in units of m: rows up to which Caratheodory's way is tried row by row


class NonFiniteError(ArithmeticError):
    """A pass met NaN or infinity; the caller knows the columns and says where."""


@dataclass(frozen=True)
class Reduction:
    """A vertex, how it was found, and how exact it is.

    Attributes
    ----------
    positions, weights : arrays
        The rows kept, increasing, and their positive weights.
    settled : Settled
        The kernel in its final coordinates and the moments of all rows.
    rank : int
        Numerical rank of the kernel features.
    proof : Proof
        How exact it is.
    method : str
        The way that led to it.
    passes : int
        Passes over all rows.
    peeled : bool array (size,)
        Rows that are kept verbatim with their own weights, because they dominate a moment.
    inherited : float
        Loss error of the rows that were reduced, if they stand for others.
    before : float
        What earlier reductions have spent of the second term, in units of ROUNDING.
    inflation : float
        That of the rows that were reduced, if they stand for others (:class:`karat.engine.proof.Proof`).
    in_the_way : int array
        If it is not exact: rows that dominate a moment.
    """

    positions: Indices
    weights: Array
    settled: Settled
    rank: int
    proof: Proof
    method: str
    passes: int
    peeled: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    inherited: float = 0.0
    before: float = 0.0
    inflation: float = 1.0
    in_the_way: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def __post_init__(self) -> None:
        if len(self.peeled) != len(self.positions):
            object.__setattr__(self, "peeled", np.zeros(len(self.positions), dtype=bool))

    @property
    def error(self) -> float:
        """The first term of the claim for all rows."""
        return self.inherited + self.proof.loss_error

    @property
    def handed_on(self) -> float:
        """What a later reduction of these rows inherits of that."""
        return self.inherited + self.proof.handed_on

    @property
    def remainder(self) -> float:
        """The part of the second term that is used, in units of that of all rows."""
        return self.proof.remainder * self.inflation

    @property
    def spent(self) -> float:
        """What all reductions so far have spent of the second term, in units of ROUNDING."""
        return self.before + (UNSEEN + MEASURED * self.remainder) / ROUNDING

    def with_peeled(self, rows: Rows, left: Indices, alone: Indices) -> Reduction:
        """The same, of the rows at ``left``, together with others that are kept as they are."""
        joint = np.concatenate([alone, left[self.positions]])
        weights = np.concatenate([own_weights(rows, alone), self.weights])
        order = np.argsort(joint)
        return replace(
            self, positions=joint[order], weights=weights[order], peeled=(np.arange(len(joint)) < len(alone))[order],
            method=f"{self.method} after peeling",
        )  # fmt: skip


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def build(rows: Rows, kernel: Kernel, method: str, seed: int, progress: Progress | None = None) -> Reduction:
    """Reduce weighted rows to a vertex with the same moments; ``method`` as in :func:`karat.coreset`."""
    rng = np.random.default_rng(seed)
    best = _attempt(rows, kernel, method, rng, progress)
    if not best.proof.ok and best.settled.linear is None and kernel.power > 2:
        best = better(best, _attempt(rows, kernel, method, rng, progress, unmixed=True))
    if not best.proof.ok or best.proof.small or (best.proof.dropped and lopsided(rows)):
        best = better(best, _peeled(rows, kernel, method, rng, best))
    width = best.settled.kernel.width
    if not best.proof.ok and method == "auto" and len(rows) <= SLOW * width and width <= SLOW:
        best = better(best, _attempt(rows, kernel, "caratheodory", rng, progress))
    if not best.proof.ok and len(rows) <= FEW * width:
        best = whole(rows, best)
    if not best.proof.ok:
        best = replace(best, in_the_way=heaviest(rows, kernel))
    return best


def better(first: Reduction, second: Reduction | None) -> Reduction:
    """The one that is proven; of two such, the one with fewer small directions; else the one with the smaller error."""
    if second is None or first.proof.merit >= second.proof.merit:
        return first
    return second


def whole(rows: Rows, found: Reduction) -> Reduction:
    """All rows with their own weights; the condition is that of the columns, whatever rows are kept."""
    everything = np.arange(len(rows))
    proof = replace(Proof.trivial(), power=found.proof.power, condition=found.proof.condition)
    return replace(found, positions=everything, weights=own_weights(rows, everything), proof=proof, method="all rows")


def _attempt(
    rows: Rows, kernel: Kernel, method: str, rng: np.random.Generator, progress: Progress | None, unmixed: bool = False
) -> Reduction:
    """The best vertex that the ways of a method lead to; it stops at the first that is exact.

    ``unmixed``: rows are sought in monomials of single columns, which tails do not make parallel.
    """
    size = len(rows) if len(rows) <= COMPLETE else max(PILOT, int(FIRST * kernel.width))
    pilot = sample(rng, len(rows), size)
    settled, passes = settle(rows, kernel, pilot, progress)
    if not settled.kernel.width:  # every feature vanishes on every row: any one row stands for all
        first = np.zeros(1, dtype=np.intp)
        return Reduction(first, np.array([rows.total]), settled, 0, Proof.trivial(), "onepass", passes)
    best: Reduction | None = None
    with linalg.few_threads(settled.kernel.width):
        searches = (settle(rows, kernel.unmixed(), pilot, progress)[0],) if unmixed else settled.searches
        ways = (way for search in searches for way in _ways(rows, search, method, pilot, rng, progress))
        for known, mass, way, more in ways:
            passes += more
            found = vertex(rows, settled, known, mass, way, passes)
            best = found if best is None else better(best, found)
            if not best.proof.ok and (way in LAST or settled.linear is not None):
                best = without_rank_decision(rows, settled, best, known, mass, way, passes, last=way in LAST)
            if best.proof.ok and best.proof.gap <= EXACT:
                break
    assert best is not None
    return best


def without_rank_decision(
    rows: Rows, settled: Settled, best: Reduction, known: Frame, mass: Array, way: str, passes: int,
    witnesses: Rows | None = None, last: bool = True,
) -> Reduction:  # fmt: skip
    """Eliminate in the features themselves, to as many rows as features; in the end, if need be, do not eliminate."""
    plain = frame(rows, known.search, known.positions, known.root**2)
    for eliminate in (True, False) if last else (True,):
        found = vertex(rows, settled, plain, mass, way, passes, witnesses, eliminate)
        best = better(best, replace(found, rank=known.rank))
        if best.proof.ok:
            break
    return best


def _peeled(rows: Rows, kernel: Kernel, method: str, rng: np.random.Generator, before: Reduction) -> Reduction | None:
    """Keep dominating rows as they are and reduce the others; None if there are no such rows, or too many."""
    width = before.settled.kernel.width
    positions = dominating(rows, kernel, PEELED * width)
    if positions is None or not len(positions):
        return None
    left = np.setdiff1d(np.arange(len(rows)), positions)
    if len(left) <= width:
        return whole(rows, before)
    rest = rows.subset(left)
    found = _attempt(rest, kernel, method, rng, None)
    if not found.proof.ok and len(left) <= FEW * width:
        found = whole(rest, found)
    found = replace(found.with_peeled(rows, left, positions), passes=before.passes + found.passes + 2)
    return _given_back(rows, before, found)


def _given_back(rows: Rows, before: Reduction, found: Reduction) -> Reduction:
    """Try to eliminate peeled rows as well, and keep that only if the proof is as good."""
    if not found.proof.ok:
        return found
    known = frame(rows, before.settled.searches[-1], found.positions, found.weights).resolve()
    fewer = vertex(rows, before.settled, known, known.root, found.method, found.passes)
    allowed = max(SHARP, found.proof.loss_error)
    same = fewer.proof.merit[:2] >= found.proof.merit[:2]
    return fewer if same and fewer.proof.loss_error <= allowed else found


def settle(rows: Rows, kernel: Kernel, pilot: Indices, progress: Progress | None = None) -> tuple[Settled, int]:
    """Fit the kernel's coordinates and sum its moments; also the number of passes it took."""
    block = rows.take(pilot, np.zeros(rows.columns))
    weights = None if rows.weights is None else rows.weights[pilot]
    if not np.isfinite(block).all():
        raise NonFiniteError
    with np.errstate(over="ignore", invalid="ignore"):
        kernel = kernel.prepare(block, weights, complete=len(pilot) == len(rows))
    if not np.isfinite(kernel.shift).all():
        raise NonFiniteError
    passes, looked = 0, False
    while True:
        statistic = pass_over(rows, kernel, progress)
        if not all(np.isfinite(part).all() for part in statistic):
            raise NonFiniteError
        passes += 1
        settled = kernel.settle(statistic, rows.total, last=passes >= ROUNDS)  # the proof says whether that was good enough
        if settled.vanished is not None and settled.vanished.any() and not looked:  # zero, or too small for its powers
            looked = True
            sizes = np.where(settled.vanished, column_sizes(rows, kernel.shift), 0.0)
            if sizes.any():
                kernel = kernel.rescaled(sizes)
                continue
        if not settled.again:
            more = _restored(rows, settled) if passes < ROUNDS else None
            if more is None:
                return settled, passes
            kernel = more
            continue
        kernel = settled.kernel


def _restored(rows: Rows, settled: Settled) -> Kernel | None:
    """The kernel with dropped directions that a row shows after all; None if there are none."""
    kernel = settled.kernel
    if not isinstance(kernel, Powers) or not kernel.basis.excluded.vectors.shape[1]:
        return None
    return kernel.look_again(rows)


Way = tuple[Frame, Array, str, int]  # points, weights on them that meet the moments, the way's name, passes it took


def _ways(
    rows: Rows, settled: Settled, method: str, pilot: Indices, rng: np.random.Generator, progress: Progress | None
) -> Iterator[Way]:
    """Feasible weights on a few rows, by ever stronger means."""
    width = settled.kernel.width
    if method in ("auto", "onepass"):
        if len(rows) <= SECOND * width:
            known = frame(rows, settled, np.arange(len(rows)), own_weights(rows, np.arange(len(rows)))).resolve()
            yield known, known.root, "onepass", 0
        else:
            yield from _onepass(rows, settled, pilot, rng, patient=method == "onepass")
    reducer, way, passes = (chain, "caratheodory", 1) if method == "caratheodory" else (thin, "tree", 2)
    positions, weights = reducer(rows, settled, progress)
    check_any(positions)
    known = frame(rows, settled, positions, weights).resolve()
    yield known, known.root, way, passes


def sampled(rows: Rows, settled: Settled, pool: Indices, rng: np.random.Generator, held: int = 0) -> tuple[Frame, Array | None]:
    """The first ``held`` rows and a uniform sample of the others (from ``pool`` while it lasts), as candidates.

    Also the weights on them that meet the moments; None if Newton's method finds that there are none.
    """
    always = np.arange(held)
    share = rows.total - float(own_weights(rows, always).sum())
    for times in (FIRST, SECOND) if not held else (BESIDE, FIRST, SECOND):
        size = int(times * settled.kernel.width)
        chosen = pool[sample(rng, len(pool), size)] if size <= len(pool) else held + sample(rng, len(rows) - held, size)
        nominal = own_weights(rows, chosen) * (share / max(own_weights(rows, chosen).sum(), TINY))
        positions, weights = np.concatenate([always, chosen]), np.concatenate([own_weights(rows, always), nominal])
        known = frame(rows, settled, positions, weights).resolve()
        if known.missed > MISSED:
            break
        outcome = meet(known)
        if outcome.met:
            return known, known.root * outcome.factors
    return known, None


def _onepass(rows: Rows, settled: Settled, pilot: Indices, rng: np.random.Generator, patient: bool) -> Iterator[Way]:
    known, mass = sampled(rows, settled, pilot, rng)
    if mass is not None:
        yield known, mass, "onepass", 0
    if not patient:
        return
    passes = 0
    for _ in range(ROUNDS):  # until the candidates span what all rows span
        known = known if known.span is not None else known.independent()
        scores = leverage(rows, settled, known, rng)
        passes += 1
        outside = np.flatnonzero(scores > OUTSIDE)
        if not len(outside):
            break
        known = _extended(rows, settled, known, outside[sample(rng, len(outside), 2 * known.rank)])
    known = frame(rows, settled, *by_leverage(rows, scores, 6 * known.rank, rng)).resolve()
    for _ in range(ROUNDS):  # until they can meet the moments
        outcome = meet(known)
        if outcome.met and known.missed <= MISSED:
            yield known, known.root * outcome.factors, "onepass with leverage candidates", passes
            return
        prices = evaluate(rows, settled.kernel, known.direction(outcome.direction)[:, None])[:, 0]
        passes += 1
        prices[known.positions] = -np.inf
        entering = np.argpartition(prices, -known.rank)[-known.rank :]
        entering = entering[prices[entering] > 0]
        if not len(entering):
            return
        known = _extended(rows, settled, known, entering)


def _extended(rows: Rows, settled: Settled, known: Frame, entering: Indices) -> Frame:
    positions = np.concatenate([known.positions, entering])
    return frame(rows, settled, positions, np.concatenate([known.root**2, own_weights(rows, entering)])).resolve()


def vertex(
    rows: Rows, settled: Settled, known: Frame, mass: Array, way: str, passes: int, witnesses: Rows | None = None,
    eliminate: bool = True,
) -> Reduction:  # fmt: skip
    """Eliminate to a vertex (or keep all points), polish it, and prove it; ``witnesses`` as in :func:`measure`."""
    if len(rows) <= known.rank:  # nothing to reduce: the rows with their own weights
        support, refined = np.arange(len(mass)), mass
    else:
        mass = reduce_points(known.points, mass) if eliminate else mass
        support = np.flatnonzero(mass > 0)
        check_any(support)
        refined = polish(known.points[support], mass[support], known.target)
    order = np.argsort(known.positions[support])
    support, refined = support[order], refined[order]
    weights = refined * known.root[support]
    positions = known.positions[support]
    block = rows.take(positions, settled.kernel.shift)
    proof = measure(rows if witnesses is None else None, settled, block, weights, witnesses)
    linear = settled.linear
    if not proof.ok and linear is not None:
        assert linear.absolute is not None
        size = np.where(linear.absolute > 0, linear.absolute, 1.0)
        weights = polish_features(linear.kernel.features(block) / size, weights, linear.target / size)
        proof = measure(rows if witnesses is None else None, settled, block, weights, witnesses)
    return Reduction(positions, weights, settled, min(known.rank, len(positions)), proof, way, passes)


def check_any(support: Indices) -> None:
    if not len(support):
        raise InputError(
            "The moments of this data are all zero, so an empty coreset would do; keep the total weight: total_weight=True."
        )


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def measure(
    rows: Rows | None, settled: Settled, block: Array, weights: Array, witnesses: Rows | None = None, terms: Terms = REDUCTION
) -> Proof:
    """Prove weighted rows (a block in the coordinates of the kernel) against all rows.

    Parameters
    ----------
    rows : Rows or None
        All rows, if they can be read again.
    witnesses : Rows, optional
        Some rows of the data with their own weights; by default a sample of all.
    terms : Terms
        What the weighted rows may use.
    """
    seen = rows if witnesses is None else witnesses

    def features(kernel: Kernel) -> tuple[Array, Array]:
        if seen is None:
            return np.zeros((0, kernel.width)), np.zeros(0)
        chosen = sample(np.random.default_rng(0), len(seen), min(COMPLETE, max(4 * kernel.width, WITNESSES // kernel.width)))
        return kernel.features(seen.take(chosen, kernel.shift)), own_weights(seen, chosen)

    return prove(settled, block, weights, features, rows, terms)
