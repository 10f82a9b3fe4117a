"""A stream of rows from which synthetic rows are made: no row is held, only sums.

    sums += second moments of new rows           # in coordinates that stay fixed, compensated
    rows  = made of the sums, whenever they are asked for

Coordinates come from the first rows.  No direction is dropped, not even one that has vanished so
far, because later rows may need it.  If the data moves so that the coordinates become poor, rows
are made of the sums, and these begin again with them and the new rows; the claim of the made rows
is inherited. That happens a logarithmic number of times.

**Few rows.**  Second moments of about as many rows as columns are too ill-conditioned to make rows
of.  So up to MANY rows per column, rows are made at once of the new ones and those made before.

**Wild rows** (:mod:`karat.engine.points`) are held as they are; if there are many, they have sums
of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from karat.engine.claim import NO_ERROR, Claim
from karat.engine.coordinates import Basis
from karat.engine.kernel import FittedMoments, NonFiniteError, pilot_size
from karat.engine.linalg import Array, one_blas_thread
from karat.engine.points import PEELED, wild_rows
from karat.engine.rows import Rows, own_weights, pass_over, sample
from karat.engine.second_moments import SecondMoments
from karat.engine.sums import two_sum
from karat.engine.synthetic import MANY, MadeRows, doubles_hold, make_rows, synthesise

LARGER = (1, 8, 32)  # times the rows of a pilot, if coordinates fitted to it are poor


@dataclass(frozen=True)
class Sums:
    """Second moments of all rows so far, in fixed coordinates: high + low."""

    kernel: SecondMoments
    high: Array
    low: Array
    counts: Array  # total weight, what it lost by rounding, number of rows
    inherited: Claim = NO_ERROR  # of rows among them that stand for others

    @staticmethod
    def start(parts: Sequence[Rows], inherited: Claim, seed: int) -> Sums:
        """Sums of some rows, in coordinates fitted to them.  No direction is dropped."""
        columns, count = parts[0].columns, sum(map(len, parts))
        rng, zero = np.random.default_rng(seed), np.zeros(parts[0].columns)
        for times in LARGER:
            kernel = SecondMoments(columns, count, SecondMoments.of(parts[-1]).sparse)
            chosen = [sample(rng, len(rows), times * pilot_size(len(rows))) for rows in parts]
            block = np.vstack(
                [rows.take(positions, zero) for rows, positions in zip(parts, chosen, strict=True)]
            )
            if not np.isfinite(block).all():
                raise NonFiniteError
            weights = np.concatenate(
                [
                    own_weights(rows, positions)
                    for rows, positions in zip(parts, chosen, strict=True)
                ]
            )
            sums = Sums.within(kernel.prepare(block, weights), parts, inherited)
            fitted = sums.fitted_moments(last=False)
            better = fitted.kernel if fitted.needs_pass else None
            # better coordinates, unless a direction was dropped: later rows may need it
            if isinstance(better, SecondMoments) and better.basis.map.shape[1] == columns + 1:
                sums = Sums.within(better.for_other_rows(), parts, inherited)
                fitted = sums.fitted_moments(last=False)
            if not fitted.needs_pass or len(block) == count:
                break
        return sums

    @staticmethod
    def within(kernel: SecondMoments, parts: Sequence[Rows], inherited: Claim) -> Sums:
        """Sums of some rows in given coordinates."""
        nothing = np.zeros(kernel.product_shape)
        sums = Sums(kernel, nothing, nothing, np.zeros(3), inherited)
        for rows in parts:
            sums = sums.plus(rows)
        return sums

    def plus(self, rows: Rows) -> Sums:
        """The sums after more rows."""
        if not len(rows):
            return self
        (new,) = pass_over(rows, self.kernel)
        if not np.isfinite(new).all():
            raise NonFiniteError
        high, lost = two_sum(self.high, new)
        (total,), (rest,) = two_sum(self.counts[:1], np.array([rows.total]))
        counts = np.array([total, self.counts[1] + rest, self.counts[2] + len(rows)])
        return replace(self, high=high, low=self.low + lost, counts=counts)

    def grown(self, rows: Rows, origin: Array | None, seed: int, inherited: Claim) -> Sums:
        """The sums after more rows, which may represent others; in other coordinates if needed."""
        try:
            sums = replace(self.plus(rows), inherited=Claim.union([self.inherited, inherited]))
            if not sums.fitted_moments(last=False).needs_pass:
                return sums
        except NonFiniteError:  # in these coordinates: units of a column that was tiny so far
            sums = None
        made = self.made(origin, sharp=True)
        if sums is not None and not made.proof.ok:
            return sums
        return Sums.start(
            [Rows([made.values], made.weights), rows], Claim.union([made.claim, inherited]), seed
        )

    @property
    def total(self) -> float:
        return float(self.counts[0] + self.counts[1])

    def fitted_moments(self, last: bool = True) -> FittedMoments:
        """The moments so far.  Unless ``last``, they may ask for better coordinates."""
        kernel = self.kernel.over(int(self.counts[2]))
        return kernel.fitted_moments((self.high + self.low,), self.total, last)

    def made(self, origin: Array | None, sharp: bool = False) -> MadeRows:
        """Rows with these moments; ``sharp`` if they will represent all rows so far."""
        return replace(make_rows(self.fitted_moments(), origin, sharp), inherited=self.inherited)


@dataclass(frozen=True)
class MomentStream:
    """All that is held of a stream of rows."""

    columns: int
    sums: Sums | None = None
    few: MadeRows | None = None  # made rows, while there are too few for sums
    wild: Sums | None = None  # of wild rows, if they are many
    # (k, q): wild rows, if they are few,
    verbatim: Array = field(default_factory=lambda: np.zeros((0, 0)))
    weights: Array = field(default_factory=lambda: np.zeros(0))  # and their weights
    seen: int = 0  # rows

    @one_blas_thread()
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def plus(
        self, rows: Rows, origin: Array | None, seed: int, inherited: Claim = NO_ERROR,
        levels: bool = True
    ) -> MomentStream:  # fmt: skip
        """The stream after more rows.

        If the rows represent others, ``inherited`` is their claim.  Without ``levels``, no row
        counts as wild.
        """
        seen = self.seen + len(rows)
        if self.sums is None and seen <= MANY * (self.columns + 1):
            return replace(self._few(rows, origin, seed, inherited, levels), seen=seen)
        sums = self._begun(rows, origin, seed, inherited)
        if not levels:
            return replace(self, sums=sums, few=None, seen=seen)
        _, wild = wild_rows(rows, sums.fitted_moments())
        if not 0 < len(wild) < len(rows):
            return replace(self, sums=sums, few=None, seen=seen)
        rest = np.setdiff1d(np.arange(len(rows)), wild)
        sums = self._begun(rows.subset(rest), origin, seed, inherited)
        return replace(self, sums=sums, few=None, seen=seen)._with_wild(
            rows.subset(wild), origin, seed
        )

    def _few(
        self, rows: Rows, origin: Array | None, seed: int, inherited: Claim, levels: bool
    ) -> MomentStream:
        """Make rows from those made before and the new ones."""
        before = self.few
        if before is not None:
            block = rows.take(np.arange(len(rows)), np.zeros(rows.columns))[:, 1:]
            joint = np.concatenate([before.weights, own_weights(rows, np.arange(len(rows)))])
            rows = Rows([np.vstack([before.values, block])], joint)
            inherited = Claim.union([before.claim, inherited])
        joint_rows = synthesise(rows, seed, levels=levels, origin=origin, sharp=True)
        # A made row is not a record of the data and must not be kept verbatim.
        if before is not None and (joint_rows.kept < len(before.values)).any():
            joint_rows = synthesise(rows, seed, levels=False, origin=origin, sharp=True)
        apart = joint_rows.peeled
        made = replace(joint_rows.chosen(~apart), inherited=inherited)
        verbatim, weights = (
            self._with_verbatim(joint_rows.values[apart]),
            np.append(self.weights, joint_rows.weights[apart]),
        )
        return replace(self, few=made, verbatim=verbatim, weights=weights)

    def _with_verbatim(self, values: Array) -> Array:
        return np.vstack([self.verbatim.reshape(-1, self.columns), values])

    def _begun(self, rows: Rows, origin: Array | None, seed: int, inherited: Claim) -> Sums:
        """The sums after more rows, in other coordinates if needed."""
        before = [] if self.few is None else [Rows([self.few.values], self.few.weights)]
        claims = [inherited, *([] if self.few is None else [self.few.claim])]
        if self.sums is None:
            return Sums.start([*before, rows], Claim.union(claims), seed)
        return self.sums.grown(rows, origin, seed, inherited)

    def _with_wild(self, rows: Rows, origin: Array | None, seed: int) -> MomentStream:
        """The stream after adding wild rows."""
        if self.wild is not None:
            return replace(self, wild=self.wild.grown(rows, origin, seed, NO_ERROR))
        everything = np.arange(len(rows))
        values = self._with_verbatim(rows.take(everything, np.zeros(rows.columns))[:, 1:])
        weights = np.append(self.weights, own_weights(rows, everything))
        if len(values) <= PEELED * (self.columns + 1) and doubles_hold(values, origin):
            return replace(self, verbatim=values, weights=weights)
        wild = Sums.start([Rows([values], weights)], NO_ERROR, seed)
        return replace(self, wild=wild, verbatim=values[:0], weights=weights[:0])

    @one_blas_thread()
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def made(self, origin: Array | None = None) -> MadeRows:
        """Rows with the moments of all rows so far."""
        made = self.few if self.sums is None else self.sums.made(origin)
        assert made is not None
        if self.wild is not None:
            other = self.wild.made(origin).as_wild()
            made = made.beside(other, np.arange(0), np.arange(0))
        if len(self.weights):
            alone = Rows([self.verbatim], self.weights)
            made = made.with_verbatim(alone, np.arange(len(alone)))
        return made

    def merged(self, other: MomentStream, origin: Array | None, seed: int) -> MomentStream:
        """The stream of the rows of both."""
        theirs = other.few if other.sums is None else other.sums.made(origin, sharp=True)
        stream = self
        if theirs is not None:
            rows = Rows([theirs.values], theirs.weights)
            stream = stream.plus(rows, origin, seed, theirs.claim, levels=False)
            stream = replace(stream, seen=self.seen + other.seen)
        if other.wild is not None:
            made = other.wild.made(origin, sharp=True)
            wild = Rows([made.values], made.weights)
            sums = (
                stream.wild.grown(wild, origin, seed, made.claim)
                if stream.wild is not None
                else Sums.start([wild], made.claim, seed)
            )
            stream = replace(stream, wild=sums)
        if len(other.weights):
            stream = stream._with_wild(Rows([other.verbatim], other.weights), origin, seed)
        return stream

    @property
    def total(self) -> float:
        """Total weight of all rows."""
        parts = [sums.total for sums in (self.sums, self.wild) if sums is not None]
        few = 0.0 if self.few is None else float(self.few.weights.sum())
        return float(sum(parts) + few + self.weights.sum())


def kernel_state(kernel: SecondMoments) -> dict[str, np.ndarray]:
    """The coordinates as arrays, to be stored in files.  No row is among them."""
    arrays = {
        "shift": kernel.shift,
        "map": kernel.basis.map,
        "unconfirmed": kernel.basis.unconfirmed,
        "scale": kernel.scale,
    }
    arrays |= {
        "replaced": kernel.replaced,
        "kind": np.array([kernel.wide, bool(kernel.maps), kernel.exact]),
    }
    if kernel.back is not None:
        arrays["back"] = kernel.back
    if kernel.plain_moments is not None:
        arrays["plain_moments"] = np.stack(kernel.plain_moments)
    return arrays


def restored_kernel(arrays: Mapping[str, np.ndarray]) -> SecondMoments:
    """The kernel restored from the arrays of :func:`kernel_state`."""
    kernel = SecondMoments(len(arrays["shift"]))
    kernel.wide, mapped, kernel.exact = map(bool, arrays["kind"])
    kernel = kernel.within(
        Basis.of(arrays["map"], 0, arrays["unconfirmed"]), None if mapped else ()
    )
    kernel.shift, kernel.scale, kernel.back = (
        arrays["shift"],
        arrays["scale"],
        arrays.get("back"),
    )
    kernel.replaced = arrays["replaced"].astype(np.intp)
    if "plain_moments" in arrays:
        means, squares = arrays["plain_moments"]
        kernel.plain_moments = means, squares
    return kernel
