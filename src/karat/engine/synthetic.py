"""Synthetic rows: rank + 1 made rows with the total weight, the means and the second moments of all
rows.

A loss of degree 2 depends on the rows D (q columns) through their total weight U, means mu and
covariance S alone.  Real rows with the same moments need up to (q + 1)(q + 2) / 2 of them, because
their places are given.  Rows that are *made* need r + 1, r the rank of S: with S = R'R,

    z_i = mu + sqrt(r + 1) (V R)_i,     weights U / (r + 1),     V'V = I,  V'1 = 0    (V: r + 1 x r)

have ``sum w z = U mu`` and ``sum w (z - mu)(z - mu)' = U R'V'V R = U S`` (docs/mathematics.md,
Proposition 17).  V is Helmert's matrix, whose product with R is a running sum.  These are the sigma
points of the unscented transform (S. Julier, *The spherical simplex unscented transformation*,
2003), taken as a data set.

They are made in the coordinates w = (1, D - shift) T of the sums (:mod:`karat.engine.frame`),
mapped back by ``[T N]^-1``, and rounded.  What they are off by is measured on the rows as they are
stored.

**Layers, against rounding.**  If the stored rows are off by h, relative to the moments G, a share
``eta = max(32 h, 1e-6)`` of them is kept back: rows are made of (1 - eta) G, and r + 1 more of what
is left, G - (moments of the rows as stored).  The error goes from h to about 32 h^2.

**A row at the mean.**  Where columns differ from their means by so few units in the last place that
layers do not suffice (they need h < 1/64), one row at the mean takes the weight 1 - t^-2, and the
others lie t times as far from it, where a unit in the last place is t times less.

**Wild rows** (:mod:`karat.engine.points`) are kept as they are, or made by themselves if they are
many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from karat.engine import linalg
from karat.engine.blocked import share
from karat.engine.claim import Claim, Reduction
from karat.engine.combinations import BLIND
from karat.engine.frame import NEGLIGIBLE
from karat.engine.kernel import FittedMoments, fit_moments, pilot_size
from karat.engine.linalg import Array, Flags, Indices, one_blas_thread
from karat.engine.points import PEELED, looked_at, wild_rows
from karat.engine.proof import measure
from karat.engine.rows import Progress, Rows, own_weights, sample, typical
from karat.engine.second_moments import SecondMoments
from karat.engine.tolerances import TINY
from karat.engine.wide_proof import RANK, prove_by_rotations

SYNTHETIC = "synthetic"  # how rows were found
ORDINARY, WILD, VERBATIM = 0, 1, 2  # strata
GOAL = 1e-12  # relative error of the moments of stored rows up to which there is one layer,
SHARP = 1e-14  # and the same for rows that stand for others: what they are off by adds up
KEPT_BACK = 32.0  # times that error: the share of the moments that is left for the next layer,
LEAST_SHARE = 2.0**-20  # and its smallest
# rows per column, and numbers, up to which the proof of rotations is tried as well
MANY, FEW = 4, 2**22
INDEFINITE = -0.05  # smallest relative eigenvalue of a rest that still is a rest, up to rounding
# (distance of the rows from one at the mean, in spreads; layers): what is tried, in this order
ATTEMPTS = ((1.0, 2), (2.0**10, 2), (2.0**20, 3), (1.0, 4))


@dataclass(frozen=True)
class MadeRows(Reduction):
    """Made rows, with the weights and the proof of a reduction; ``positions`` count them."""

    # (k, q): made rows, then those kept as they are
    values: Array = field(default_factory=lambda: np.zeros((0, 0)))
    most: int = 0  # rows that may be made: rank + 1 in every layer of every level
    # (k,): what each row was made of
    strata: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    # the rows of the data kept as they are
    kept: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.strata) != len(self.values):
            object.__setattr__(self, "strata", np.full(len(self.values), ORDINARY))

    @property
    def bound(self) -> int:
        """The largest possible number of rows, including those that are kept as they are."""
        return self.most + int(self.peeled.sum())

    def with_verbatim(self, rows: Rows, alone: Indices) -> MadeRows:
        """These rows, made of the others, and the rows at ``alone`` as they are."""
        values = rows.take(alone, np.zeros(rows.columns))[:, 1:]
        joint = np.vstack([self.values, values])
        return replace(
            self,
            positions=np.arange(len(joint)),
            values=joint,
            weights=np.concatenate([self.weights, own_weights(rows, alone)]),
            peeled=np.concatenate([self.peeled, np.ones(len(alone), dtype=bool)]),
            strata=np.concatenate([self.strata, np.full(len(alone), VERBATIM)]),
            kept=alone,
        )

    def chosen(self, keep: Flags) -> MadeRows:
        """A selection of the rows, with the same bound on their number."""
        return replace(
            self, positions=np.arange(int(keep.sum())), values=self.values[keep],
            weights=self.weights[keep], peeled=self.peeled[keep], strata=self.strata[keep],
        )  # fmt: skip

    def as_wild(self) -> MadeRows:
        """The same rows, marked as made of wild rows."""
        return replace(self, strata=np.full(len(self.values), WILD))

    def beside(self, other: Reduction, left: Indices, right: Indices) -> MadeRows:
        """These rows and others, made of two parts of the data: as exact as the worse."""
        assert isinstance(other, MadeRows)
        both = super().beside(
            other, np.arange(len(self.values)), len(self.values) + np.arange(len(other.values))
        )
        assert isinstance(both, MadeRows)
        return replace(
            both,
            values=np.vstack([self.values, other.values]),
            strata=np.concatenate([self.strata, other.strata]),
            most=self.most + other.most,
            inherited=Claim.union([self.inherited, other.inherited]),
        )


def simplex_rows(root: Array) -> Array:
    """``sqrt(r + 1) V R`` for a square root R (r x c): r + 1 rows with sum zero and squares (r + 1)
    R'R.
    """
    count = len(root) + 1
    steps = np.arange(1.0, count)[:, None]
    rows = np.zeros((count, root.shape[1]))
    np.divide(root, np.sqrt(steps * (steps + 1)), out=rows[:-1])
    np.cumsum(rows[-2::-1], axis=0, out=rows[-2::-1])
    rows[1:] -= np.sqrt(steps / (steps + 1)) * root
    rows *= np.sqrt(count)
    return rows


def square_root(matrix: Array, rank: int) -> Array | None:
    """R with ``rank`` rows and ``R'R = matrix``, up to rounding; None if the matrix is clearly not
    positive.
    """
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    size[size == 0] = 1.0
    scaled = matrix / size / size[:, None]
    if rank < len(matrix):
        factor, order, _ = linalg.pivoted_cholesky(scaled, BLIND)
        root = np.zeros((rank, len(matrix)))
        root[:, order] = np.triu(factor[:rank])
        return root * size
    triangle = linalg.cholesky(np.asfortranarray(scaled))
    if triangle is not None:
        return np.asarray(triangle * size)
    values, vectors = linalg.eigh(scaled)
    if not len(values) or values[-1] < INDEFINITE:
        return None
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T * size)


def variables_of(coordinates: Array, map_: Array, alive: Flags) -> Array:
    """Rows of variables whose products with a map are given; those that are not ``alive`` are zero.

    Most columns of the map are unit vectors, so that most variables are coordinates, and the others
    follow from these.  (Beside redundant coordinates, hardly an entry of ``[V; W]`` is zero.)
    """
    places, mixed = linalg.unit_columns(map_)
    values = np.zeros((len(coordinates), len(map_)))
    values[:, places[~mixed]] = coordinates[:, ~mixed]
    rest = np.setdiff1d(np.flatnonzero(alive), places[~mixed])
    left = coordinates[:, mixed] - values @ map_[:, mixed]
    values[:, rest] = np.linalg.solve(map_[np.ix_(rest, mixed)].T, left.T).T
    return values


class Maker:
    """Makes rows with the moments of a frame."""

    def __init__(self, fitted: FittedMoments, origin: Array | None, goal: float) -> None:
        assert fitted.frame is not None
        self.goal = goal
        self.origin = origin  # what rows are stored beside, of long integers; None if nothing
        self.fitted, self.frame = fitted, fitted.frame
        self.kernel, self.shift = fitted.kernel, fitted.kernel.shift
        self.moments = self.frame.half / self.frame.total
        null = self.frame.null
        self.rank = len(self.moments) - 1 - (0 if null is None else null.shape[1])

    def stored(self, coordinates: Array) -> Array:
        """Rows D with these coordinates, rounded."""
        frame = self.frame
        if frame.plain:
            values = np.zeros((len(coordinates), len(self.shift)))
            values[:, frame.basis.map[1:].any(axis=1)] = coordinates[:, 1:]
        elif frame.null is not None:
            alive = np.asarray(frame.inverse[: len(frame.second)].any(axis=0))
            values = variables_of(coordinates, frame.basis.map, alive)[:, 1:]
        else:
            values = linalg.product_with_units(coordinates, frame.inverse[: len(frame.second), 1:])
        values += self.shift
        return as_stored(values, self.origin)

    def block(self, values: Array) -> Array:
        """Rows as the kernel reads them."""
        block = np.ones((len(values), 1 + len(self.shift)))
        np.subtract(values, self.shift, out=block[:, 1:])
        return block

    def rest(self, values: Array, weights: Array) -> Array:
        """The moments minus those of rows whose weights add up to less than 1."""
        coordinates = self.frame.coordinates(self.block(values))
        return -self.frame.difference(coordinates, weights * self.frame.total) / self.frame.total

    def made(self, moments: Array, share: float) -> tuple[Array, Array] | None:
        """Rows and weights with a part of the moments; the weights add up to ``share``."""
        mean, root = moments[0, 1:] / share, None
        if moments is self.moments:
            root = self.frame.covariance_root
        if root is None or len(root) != self.rank:
            root = square_root(moments[1:, 1:] / share - np.outer(mean, mean), self.rank)
        if root is None:
            return None
        count = len(root) + 1
        coordinates = np.ones((count, 1 + len(mean)))
        np.add(simplex_rows(root), mean, out=coordinates[:, 1:])
        return self.stored(self.without_null(coordinates)), np.full(count, share / count)

    def without_null(self, coordinates: Array) -> Array:
        """The coordinates without what rounding has left along null directions."""
        if self.frame.null is None:
            return coordinates
        size = np.sqrt(np.diag(self.moments))
        left = coordinates @ (self.frame.null / size[:, None])
        coordinates[:, 1:] -= left @ (np.linalg.pinv(self.frame.null[1:]) * size[1:])
        return coordinates

    def attempt(self, distance: float, layers: int) -> MadeRows | None:
        """The best of up to ``layers`` layers, without or with a row at the mean."""
        values, weights = np.zeros((0, len(self.shift))), np.zeros(0)
        rest, share, best, centre = self.moments, 1.0, None, distance > 1
        if distance > 1:
            values = self.stored(np.concatenate([[1.0], self.moments[0, 1:]])[None])
            off = np.abs(
                self.frame.coordinates(self.block(values))[0, 1:] - self.moments[0, 1:]
            ).max(initial=0.0)
            if off > 0:
                distance = min(distance, 2.0 ** np.floor(np.log2(1 / (64 * off))))
            if distance < 4:
                return None
            share = distance**-2
            weights = np.array([1.0 - share])
            rest = self.rest(values, weights)
        for layer in range(1, layers + 1):
            more = self.made(rest, share)
            if more is None:
                break
            made_rows = self.proven(
                np.vstack([values, more[0]]), np.concatenate([weights, more[1]]), layer, centre
            )
            if best is None or made_rows.proof.merit > best.proof.merit:
                best = made_rows
            error = made_rows.proof.reducible_error
            if (made_rows.proof.ok and error <= self.goal) or layer == layers:
                break
            size = float(np.trace(rest[1:, 1:]) / max(np.trace(self.moments[1:, 1:]), TINY))
            back = max(KEPT_BACK * error / max(size, TINY), LEAST_SHARE)
            more = self.made(rest * (1 - back), share * (1 - back)) if back <= 0.5 else None
            if more is None:
                break
            values, weights = np.vstack([values, more[0]]), np.concatenate([weights, more[1]])
            share *= back
            rest = self.rest(values, weights)
        return best

    def proven(self, values: Array, weights: Array, layers: int, centre: bool) -> MadeRows:
        """Made rows with their proof."""
        weights = weights * self.frame.total
        proof = measure(None, self.fitted, self.block(values), weights, charges=False)
        most = layers * (self.rank + 1) + centre
        positions = np.arange(len(values))
        return MadeRows(
            positions,
            weights,
            self.fitted,
            self.rank,
            proof,
            SYNTHETIC,
            1,
            values=values,
            most=most,
        )


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def make_rows(fitted: FittedMoments, origin: Array | None = None, sharp: bool = False) -> MadeRows:
    """Rows with given moments; the proof says whether they are exact.

    ``sharp`` as in :func:`synthesise`.
    """
    assert fitted.frame is not None
    # of many coordinates a simple bound of the error is taken, which has a floor of its own
    goal = NEGLIGIBLE if fitted.frame.many else GOAL
    maker = Maker(fitted, origin, SHARP if sharp else goal)
    best: MadeRows | None = None
    for distance, layers in ATTEMPTS:
        attempt = maker.attempt(distance, layers)
        if attempt is not None and (best is None or attempt.proof.merit > best.proof.merit):
            best = attempt
        if best is not None and best.proof.ok:
            break
    assert best is not None
    if not best.proof.ok:
        best = replace(best, proof=measure(None, fitted, maker.block(best.values), best.weights))
    return best


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def synthesise(
    rows: Rows, seed: int, progress: Progress | None = None, levels: bool = True,
    origin: Array | None = None, sharp: bool = False,
) -> MadeRows:  # fmt: skip
    """Make rows with the moments of all rows.  With ``levels``, wild rows are treated by
    themselves.

    ``origin`` was subtracted from the columns when they were read, and is added when rows are
    stored.  ``sharp``: the rows represent others, or will, so that errors add up and each should be
    small.
    """
    origin = None if origin is None or not origin.any() else origin
    rng = np.random.default_rng(seed)
    kernel = SecondMoments.of(rows)
    kernel = kernel.sharper() if sharp else kernel
    looked = looked_at(rows)
    among = rows.take(looked, np.zeros(rows.columns))
    pilot = sample(rng, len(rows), pilot_size(len(rows))) if kernel.sampled else looked
    work: list[Callable[[], Any]] = [
        partial(fit_moments, rows, kernel, pilot, progress, None if kernel.sampled else among),
        partial(typical, among[:, 1:].T, centred=True),
    ]
    # the host looks at the sample while an accelerator sums all rows
    (fitted, passes), usual = share(lambda do: do(), work, 2 if rows.on_device else 1)
    spread, wild = wild_rows(rows, fitted, among, usual)
    if 0 < len(wild) < len(rows) and levels:
        made = _wild_apart(rows, seed, wild, origin)
        if made.proof.ok:
            return made
    made = replace(make_rows(fitted, origin, sharp), passes=passes, spread=spread)
    if not made.proof.ok and (piloted := fitted.kernel.piloted()) is not None:
        fitted, more = fit_moments(rows, piloted, sample(rng, len(rows), pilot_size(len(rows))))
        again = replace(make_rows(fitted, origin, sharp), passes=passes + more, spread=spread)
        made = again if again.proof.ok else made
    if (
        not made.proof.ok
        and len(rows) <= MANY * (rows.columns + 1)
        and len(rows) * rows.columns <= FEW
    ):
        made = _by_rotations(rows, made, origin)
    return made


def as_stored(values: Array, origin: Array | None) -> Array:
    """Rows minus an origin, after adding and subtracting it: what is stored and read again."""
    return values if origin is None else (values + origin) - origin


def doubles_hold(values: Array, origin: Array | None) -> bool:
    """Whether rows minus an origin can be stored without rounding."""
    return bool((as_stored(values, origin) == values).all())


def _by_rotations(rows: Rows, before: MadeRows, origin: Array | None) -> MadeRows:
    """For few rows: the made rows, or a rotation of the rows themselves, with the proof by
    rotations.
    """
    shift, everything = before.fitted.kernel.shift, np.arange(len(rows))
    block, data_weights = rows.take(everything, shift), own_weights(rows, everything)
    total = float(data_weights.sum())
    mean = data_weights @ block[:, 1:] / total
    spread = (block[:, 1:] - mean) * np.sqrt(data_weights / total)[:, None]
    size = linalg.column_norms(spread)
    _, sizes, vectors = linalg.svd(spread / np.where(size > 0, size, 1.0), full_matrices=False)
    keep = sizes > RANK * sizes[:1]
    values = as_stored(
        shift + mean + simplex_rows(sizes[keep, None] * vectors[keep] * size), origin
    )
    rotated = replace(
        before,
        values=values,
        weights=np.full(len(values), total / len(values)),
        positions=np.arange(len(values)),
        peeled=np.zeros(len(values), dtype=bool),
        rank=int(keep.sum()),
        most=len(values),
    )
    best = before
    for candidate in (before, rotated):
        made = np.column_stack([np.ones(len(candidate.values)), candidate.values - shift])
        proof = prove_by_rotations(block, data_weights, made, candidate.weights)
        if proof.merit > best.proof.merit:
            best = replace(candidate, proof=proof)
    return best


def _wild_apart(rows: Rows, seed: int, wild: Indices, origin: Array | None) -> MadeRows:
    """Make rows of wild rows and of the others separately; a few wild rows are kept as they are."""
    rest = np.setdiff1d(np.arange(len(rows)), wild)
    ordinary = synthesise(rows.subset(rest), seed, levels=False, origin=origin)
    few = len(wild) <= PEELED * (rows.columns + 1) and doubles_hold(
        rows.take(wild, np.zeros(rows.columns))[:, 1:], origin
    )
    if few or not ordinary.proof.ok:
        return replace(ordinary.with_verbatim(rows, wild), passes=ordinary.passes + 2)
    other = synthesise(rows.subset(wild), seed, levels=False, origin=origin).as_wild()
    return ordinary.beside(other, rest, wild)
