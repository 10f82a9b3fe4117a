"""Weighted rows, and how far they may be from the rows that they represent, after any number of
reductions.

The two terms of a claim are those of :mod:`karat.engine.tolerances`.  Claims are combined in three
ways:

    Claim.union(parts)        rows of several parts, put together as they are: as exact as the least
                              exact part
    before.after(added)       a reduction, which has the claim ``added`` by itself, of rows that
                              have the claim ``before``
    parts.grown(before, now)  a sum that has taken in rows of other claims

**Union.**  Each loss error is relative to the loss of a part, which is at most that of all parts;
so is the second term.

**After.**  Loss errors add up (to first order: they are at most 1e-10).  The second term of a
reduction is relative to absolute moments of the rows that it was given.  If these stand for others,
their absolute moments may be larger by a factor of up to ``inflation``, which magnifies the term in
units of the data.  The factors of chained reductions multiply.

The rule by which a field of several parts becomes that of their union stands with the field.  A
certificate is a claim with a description, and adds fields with rules of their own
(:class:`karat.core.certify.Certificate`).

A :class:`Proof` is what one comparison with all rows has shown, and a :class:`Reduction` the rows
themselves, with their weights and their proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf, isnan
from typing import Any, Self

import numpy as np

from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.rows import Rows, own_weights
from karat.engine.tolerances import EXACT, MEASURED, PROOF_VERSION, ROUNDING


def united(rule: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """Metadata of a field: ``rule`` combines the values of parts into that of their union."""
    return {"union": rule}


@dataclass(frozen=True)
class Claim:
    """How exact weighted rows are.  The default says that they are the rows themselves."""

    loss_error: float = field(default=0.0, metadata=united(max))  # the first term
    spent: float = field(default=0.0, metadata=united(max))  # the second term, in units of ROUNDING
    # by how much absolute moments of these rows exceed those of the rows that they stand for
    inflation: float = field(default=1.0, metadata=united(max))
    # what a reduction used of the second term it may use
    remainder: float = field(default=0.0, metadata=united(max))
    # the largest ratio of a column's size to what is typical in it
    spread: float = field(default=1.0, metadata=united(max))
    # whether something other than a moment contradicts it
    refuted: bool = field(default=False, metadata=united(any))
    # the oldest proof that it relies on
    proof_version: int = field(default=PROOF_VERSION, metadata=united(min))

    @classmethod
    def union(cls, parts: Sequence[Self]) -> Self:
        """The claim of the rows of several parts together.

        ``Claim.union`` of instances of a subclass combines the fields of a claim only.
        """
        if len(parts) == 1:
            return parts[0]
        rules = {entry.name: entry.metadata["union"] for entry in fields(cls)}
        return cls(
            **{name: rule([getattr(part, name) for part in parts]) for name, rule in rules.items()}
        )

    def after(self, added: Claim) -> Claim:
        """The claim of a reduction of rows with this claim; ``added`` is that of the reduction by
        itself.
        """
        return Claim(
            self.loss_error + added.loss_error,
            self.spent + added.spent * self.inflation,
            self.inflation * added.inflation,
            max(self.remainder, added.remainder * self.inflation),
            max(self.spread, added.spread),
            self.refuted or added.refuted,
            min(self.proof_version, added.proof_version),
        )

    def grown(self, before: Claim, now: Claim) -> Claim:
        """This claim, plus what was added to another claim, which was ``before`` and is ``now``."""
        return Claim(
            self.loss_error + (now.loss_error - before.loss_error),
            self.spent + (now.spent - before.spent),
            self.inflation * (now.inflation / before.inflation),
        )


NO_ERROR = Claim()  # of the rows themselves


@dataclass(frozen=True)
class Proof:
    """How exact weighted rows are."""

    loss_error: float  # the first term of the claim; infinite if nothing could be proven
    # the part of the second term that is used, as a fraction of what one reduction may use
    remainder: float
    moment_error: float  # largest difference of a moment, relative to the sum of absolute values
    # largest ratio of the terms of a coordinate to the coordinate; 1 for the linear class
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
            if isnan(getattr(self, name)):
                object.__setattr__(self, name, inf)

    @property
    def rounding(self) -> float:
        """The second term of the claim."""
        return self.measured + self.derived

    @property
    def claim(self) -> Claim:
        """The claim of this reduction by itself."""
        return Claim(
            float(self.loss_error), self.rounding / ROUNDING, self.inflation, self.remainder
        )

    @property
    def ok(self) -> bool:
        return self.loss_error <= EXACT and self.remainder <= 1.0

    @property
    def merit(self) -> tuple[bool, float]:
        """Whether it is proven, and how well: larger is better."""
        return self.ok, -self.loss_error

    @staticmethod
    def trivial(power: int = 1, condition: float = 1.0) -> Proof:
        """The proof of rows without features, or of rows that are kept with their own weights."""
        return Proof(0.0, 0.0, 0.0, condition, (), 0.0, power, 0)


@dataclass(frozen=True)
class ErrorBudget:
    """How much of the second term a proof may measure: the share of one reduction or, when a
    coreset is verified, what its certificate claims.
    """

    rounding: float = ROUNDING
    features: float = MEASURED  # the same for a moment of the linear class
    # whether the best changes of weights are sought, if good ones are not enough
    patient: bool = False

    @staticmethod
    def claimed(rounding: float) -> ErrorBudget:
        """The budget of a certificate."""
        return ErrorBudget(max(rounding, ROUNDING), max(rounding, MEASURED), patient=True)


REDUCTION = ErrorBudget()


@dataclass(frozen=True)
class Reduction:
    """The rows kept, their weights, how they were found, and how exact they are."""

    positions: Indices  # the rows kept, increasing
    weights: Array
    fitted: FittedMoments  # the kernel in its final coordinates and the moments of all rows
    rank: int  # of the kernel features
    proof: Proof
    method: str
    passes: int  # over all rows
    # kept verbatim, because they dominate a moment
    peeled: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    inherited: Claim = NO_ERROR  # of the rows that were reduced, if they stand for others
    # dominate a moment, if nothing is exact
    dominating_rows: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    spread: float = 1.0  # the largest ratio of a column's size to what is typical in it
    levels: int = 1  # how many levels of rows were reduced by themselves

    def __post_init__(self) -> None:
        if len(self.peeled) != len(self.positions):
            object.__setattr__(self, "peeled", np.zeros(len(self.positions), dtype=bool))

    @property
    def claim(self) -> Claim:
        """How far the rows kept may be from all rows."""
        return self.inherited.after(replace(self.proof.claim, spread=self.spread))

    @property
    def bound(self) -> int:
        """The largest possible number of rows, without those that dominate a moment."""
        return self.levels * self.fitted.kernel.width

    def keeps_all(self, rows: Rows) -> bool:
        """Whether all rows are kept, with their own weights."""
        return len(self.positions) == len(rows) and np.array_equal(
            self.weights, own_weights(rows, self.positions)
        )

    def beside(self, other: Reduction, left: Indices, right: Indices) -> Reduction:
        """This reduction of the rows at ``left`` and another of the rows at ``right``: as exact as
        the worse.
        """
        joint = np.concatenate([left[self.positions], right[other.positions]])
        order = np.argsort(joint)
        worse = self if self.proof.merit <= other.proof.merit else other
        both = (self.proof, other.proof)
        proof = replace(
            worse.proof,
            **{
                name: max(getattr(part, name) for part in both)
                for name in ("remainder", "measured", "derived", "condition")
            },
        )
        return replace(
            worse,
            positions=joint[order],
            weights=np.concatenate([self.weights, other.weights])[order],
            peeled=np.concatenate([self.peeled, other.peeled])[order],
            proof=proof,
            rank=self.rank + other.rank,
            method=f"{self.method} by levels",
            passes=self.passes + other.passes + 2,
            spread=max(self.spread, other.spread),
            levels=self.levels + other.levels,
        )

    def with_peeled(self, rows: Rows, left: Indices, alone: Indices) -> Reduction:
        """This reduction of the rows at ``left``, with the rows ``alone`` kept as they are."""
        joint = np.concatenate([alone, left[self.positions]])
        weights = np.concatenate([own_weights(rows, alone), self.weights])
        peeled = np.concatenate([np.ones(len(alone), dtype=bool), self.peeled])
        order = np.argsort(joint)
        method = self.method if self.method.endswith("peeling") else f"{self.method} after peeling"
        return replace(
            self,
            positions=joint[order],
            weights=weights[order],
            peeled=peeled[order],
            method=method,
        )
