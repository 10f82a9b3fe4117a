"""Verification of synthetic rows: those of each stratum are measured against the rows that they
were made of.

The rows of the data that are kept as they are must be among its rows, with their weights.  The
others are compared by second moments, of all rows read again (:func:`measured_again`) or of a
stream that has summed them (:func:`measured_by_moments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.core.certify import Certificate, certify_again
from karat.core.synthetic import SYNTHETIC
from karat.data.batch import Table
from karat.engine.claim import ErrorBudget, Reduction
from karat.engine.kernel import FittedMoments, NonFiniteError, fit_moments
from karat.engine.linalg import Array, Flags, Indices, one_blas_thread
from karat.engine.moment_stream import MomentStream
from karat.engine.points import wild_rows
from karat.engine.proof import measure
from karat.engine.rows import Rows, own_weights, sample, sweep
from karat.engine.second_moments import SecondMoments
from karat.engine.synthetic import FEW, MANY, ORDINARY, VERBATIM, WILD
from karat.engine.wide_proof import prove_by_rotations

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

VERIFIED = "verified on the full data"


def measured_again(
    core: Coreset, data: Table, own: Table, labels: list[Any]
) -> tuple[list[Reduction], list[str]]:
    """The made rows of every group, read as ``data`` is, against all rows of the group; and what
    refutes them.
    """
    found = [_measured_group(core, data, own, label) for label in labels]
    wrong = any(refuted for _, refuted in found)
    return [one for one, _ in found], (
        ["Rows that are kept as they are, are not rows of this data."] if wrong else []
    )


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _measured_group(core: Coreset, data: Table, own: Table, label: Any) -> tuple[Reduction, bool]:
    rows, kept, among = data.rows(label), own.rows(label), own.index(label)
    assert core.strata is not None
    strata = core.strata if among is None else core.strata[among]
    alone = np.flatnonzero(strata == VERBATIM)
    places = _places_of_kept(rows, kept.subset(alone)) if len(alone) else alone
    refuted = places is None
    # the rows that were not kept as they are; None means all
    left = None if places is None or not len(places) else np.setdiff1d(np.arange(len(rows)), places)
    parts: list[tuple[Flags, Indices | None]] = [(strata != VERBATIM, left)]
    # of streams and merged coresets, other rows were wild
    if core.certificate.levels and (strata == WILD).any():
        _, wild = wild_rows(rows, _moments_of(rows)[0])
        left = np.arange(len(rows)) if left is None else left
        parts = [
            (strata == ORDINARY, np.setdiff1d(left, wild)),
            (strata == WILD, np.intersect1d(left, wild)),
        ]
    worst: Reduction | None = None
    for which, some in parts:
        mine = kept.subset(np.flatnonzero(which))
        one = _measured_stratum(core, data, rows if some is None else rows.subset(some), mine)
        worst = one if worst is None or one.proof.merit < worst.proof.merit else worst
    assert worst is not None
    everything = np.arange(len(kept))
    weights = own_weights(kept, everything)
    return (
        replace(
            worst,
            positions=everything,
            weights=weights,
            peeled=strata == VERBATIM,
            levels=len(parts),
        ),
        refuted,
    )


def _moments_of(rows: Rows, kernel: SecondMoments | None = None) -> tuple[FittedMoments, int]:
    return fit_moments(
        rows, kernel or SecondMoments.of(rows), sample(np.random.default_rng(1), len(rows), 16384)
    )


def _places_of_kept(rows: Rows, kept: Rows) -> Indices | None:
    """Where kept rows are among all, with their weights, each of them once; None if one is
    nowhere.
    """
    everything, zero = np.arange(len(kept)), np.zeros(rows.columns)
    block = kept.take(everything, zero)
    # a column that tells the rows from most others
    first = int(np.argmax((block[:, 1:] != 0).any(axis=0)))

    def visit(block: Array, _: Array | None, start: int) -> list[Indices]:
        return [start + np.flatnonzero(np.isin(block[:, 1 + first], known))]

    known = block[:, 1 + first]
    near = np.concatenate(sweep(rows, zero, visit, lambda a, b: a + b, (rows.columns + 1, 1)))
    by_value: dict[bytes, list[int]] = {}
    for place, row in zip(
        near.tolist(), as_bytes(rows.take(near, zero), own_weights(rows, near)), strict=True
    ):
        by_value.setdefault(row, []).append(place)
    found = [
        by_value[row].pop() if by_value.get(row) else -1
        for row in as_bytes(block, own_weights(kept, everything))
    ]
    return None if -1 in found else np.sort(np.array(found, dtype=np.intp))


def as_bytes(block: Array, weights: Array) -> list[bytes]:
    """Rows with their weights, to be compared; 0 and -0 are the same number."""
    return [row.tobytes() for row in np.column_stack([block, weights]) + 0.0]


def _measured_stratum(core: Coreset, data: Table, rows: Rows, kept: Rows) -> Reduction:
    """Made rows against those that they were made of."""
    try:
        return _measured_rows(core, rows, kept)
    except NonFiniteError:
        raise data.explain_non_finite() from None


def _measured_rows(core: Coreset, rows: Rows, kept: Rows, before: int = 0) -> Reduction:
    everything = np.arange(len(kept))
    weights, budget = own_weights(kept, everything), ErrorBudget.claimed(core.certificate.rounding)
    fitted, passes = _moments_of(rows)
    shift = fitted.kernel.shift
    block = kept.take(everything, shift)
    proof = measure(None, fitted, block, weights, budget=budget)
    piloted = None if proof.ok else fitted.kernel.piloted()  # type: ignore[attr-defined]
    if piloted is not None:  # as where the rows were made
        again, more = _moments_of(rows, piloted)
        other = measure(
            None, again, kept.take(everything, again.kernel.shift), weights, budget=budget
        )
        if other.ok:
            return Reduction(
                everything,
                weights,
                again,
                core.certificate.rank,
                other,
                VERIFIED,
                before + passes + more,
            )
    if not proof.ok and len(rows) <= MANY * (rows.columns + 1) and len(rows) * rows.columns <= FEW:
        some = np.arange(len(rows))
        other = prove_by_rotations(rows.take(some, shift), own_weights(rows, some), block, weights)
        proof = other if other.merit > proof.merit else proof
    return Reduction(
        everything, weights, fitted, core.certificate.rank, proof, VERIFIED, before + passes
    )


def measured_by_moments(
    core: Coreset, stream: MomentStream, kept: Rows, strata: Indices, passes: int
) -> Reduction:
    """The made rows of a group against the moments of all of its rows but those kept as they are,
    from a stream of them.

    Wild rows are among them: which are wild depends on the order of a stream.
    """
    everything, made = np.arange(len(kept)), kept.subset(np.flatnonzero(strata != VERBATIM))
    some = np.arange(len(made))
    weights = own_weights(made, some)
    if stream.sums is not None:
        fitted = stream.sums.fitted_moments()
        budget = ErrorBudget.claimed(core.certificate.rounding)
        proof = measure(None, fitted, made.take(some, fitted.kernel.shift), weights, budget=budget)
        found = Reduction(
            some, weights, fitted, 0, proof, VERIFIED, passes, inherited=stream.sums.inherited
        )
    else:
        assert stream.few is not None
        found = _measured_rows(core, Rows([stream.few.values], stream.few.weights), made, passes)
        found = replace(found, inherited=stream.few.claim)
    weights, rank = own_weights(kept, everything), core.certificate.rank
    return replace(
        found, positions=everything, weights=weights, peeled=strata == VERBATIM, rank=rank
    )


def verified(
    core: Coreset, reductions: Sequence[Reduction], total: float, n_rows: int, seconds: float,
    refutations: Sequence[str], notes: Sequence[str] = (),
) -> Certificate:  # fmt: skip
    """A fresh certificate of made rows."""
    found = certify_again(core, reductions, total, n_rows, seconds, refutations, notes)
    return replace(
        found, rows=SYNTHETIC, excludes=core.certificate.excludes,
        verbatim=core.certificate.verbatim, peeled=0, bound=core.certificate.bound,
    )  # fmt: skip
