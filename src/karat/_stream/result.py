"""From a sketch to a coreset: the rows held, with the certificate of what they carry."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from karat._core.certify import certify, require_proven
from karat._core.construct import NOTHING_ABSORBED
from karat._core.coreset import Coreset
from karat._data.batch import stored_weights
from karat._stream.summary import Summary
from karat.engine.blas import one_blas_thread
from karat.errors import InputError, NotExactError

TOTAL = 1e-9  # relative; sums of weights in another order differ by less


@one_blas_thread()
def coreset_of(summary: Summary, seed: int) -> Coreset:
    """The coreset of all rows seen; the summary stays as it is."""
    start = time.perf_counter()
    held = summary.held
    if held is None:
        raise InputError("The sketch has seen no row of positive weight; a coreset needs at least one.")
    reductions = [summary.reduction(label) for label in held.labels]
    total = total_weight(summary)
    require_all_rows(summary)
    correction = None
    if summary.problem.absorb is not None:
        assert held.weights is not None
        exact = replace(reductions[0], positions=np.arange(len(held)), weights=held.weights, peeled=summary.peeled)
        inherited = replace(exact.inherited, loss_error=exact.claim.loss_error)  # absorbing is measured against the rows held
        reductions[0], correction = summary.problem.absorb_rows(held.stored_rows(), exact, seed, None, inherited=inherited)
        held = held.take(reductions[0].positions, reductions[0].weights)
    seconds = summary.seconds + time.perf_counter() - start
    notes = ["There were no more rows than the rank: all are kept, with their own weights."] * (len(held) == summary.n_rows)
    if correction is not None and not correction:
        notes.append(NOTHING_ABSORBED)
    if correction is None:  # what a sketch that went on from a checkpoint knows as well
        sums = [summary.running[label].fitted_moments(last=True) for label in held.labels]
        reductions = [replace(found, fitted=fitted) for found, fitted in zip(reductions, sums, strict=True)]
    certificate = certify(summary.problem, reductions, total, summary.n_rows, seconds, notes, size=len(held))
    require_proven(certificate, reductions, summary.names)
    X, y = summary.restored(held)
    assert held.weights is not None
    stored_weights(held.weights)
    return Coreset(
        held.numbers,
        held.weights,
        X,
        y,
        held.groups,
        summary.n_rows,
        summary.problem,
        certificate,
        held.keys,
        absorbed=correction,
        # A row that has been reduced before stands for others.
        verbatim=summary.peeled & (held.weights == 1.0) if len(summary.peeled) == len(held) else None,
    )


def total_weight(summary: Summary) -> float:
    """Of all rows that were summed, and of those that are peeled."""
    held = summary.held
    assert held is not None
    assert held.weights is not None
    return sum(summary.running[label].total for label in held.labels) + float(held.weights[summary.peeled].sum())


def require_all_rows(summary: Summary) -> None:
    """Refuse a certificate if rows that came in are not among those that were summed: moments alone could not tell."""
    total = total_weight(summary)
    if summary.taken != summary.folded:
        raise NotExactError(
            f"The sketch took {summary.taken:,} rows and has summed {summary.folded:,}; rows were lost, so there is no "
            "coreset. Please report this."
        )
    plain = summary.problem.mergeable and not summary.problem.has_view and summary.problem.keeps_total
    if plain and not abs(total - summary.mass) <= TOTAL * summary.mass:
        raise NotExactError(
            f"The rows taken have a total weight of {summary.mass!r}, those summed {total!r}; there is no coreset. Please "
            "report this."
        )
