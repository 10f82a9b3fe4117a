"""Verification: a coreset measured afresh against full data."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from karat._core.certify import Certificate, about_means, certify, claimed
from karat._core.construct import kernel_of, refuse_for_latent, refuse_lengths
from karat._core.coreset import Coreset
from karat._data import containers
from karat._data.checks import Table, explain_non_finite, group_labels, read_input
from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Flags, Indices
from karat.engine.proof import Proof
from karat.engine.reduce import NonFiniteError, Reduction, better, fit_moments
from karat.engine.rows import Rows, own_weights, pass_over, sample
from karat.errors import InputError
from karat.problems import LpRegression, Ridge
from karat.problems.absorb.absorb import REFUTED, measure_absorbed
from karat.problems.latent import Latent


def verify(core: Coreset, X: Any, y: Any, sample_weight: Any, groups: Any, lengths: Any) -> Certificate:
    """See :meth:`karat.Coreset.verify`."""
    X = containers.aligned(X, core.X)
    if isinstance(core.problem, Latent):
        from karat._core.latent import verify_latent

        refuse_for_latent(core.problem, y, groups)
        return verify_latent(core, X, sample_weight, lengths)
    refuse_lengths(core.problem, lengths)
    start = time.perf_counter()
    table = read_input(X, y, core.problem, sample_weight, groups)
    if (core.groups is None) != (groups is None):
        raise InputError(
            "The coreset " + ("has no groups" if core.groups is None else "was built with groups") + "; verify it likewise."
        )
    labels = group_labels(table)
    own = read_input(core.X, core.y, core.problem, core.weights, core.groups, table.unit, table.offsets)
    if own.columns != table.columns or own.targets != table.targets:
        raise InputError(
            f"The coreset has {own.columns} columns and {own.targets} targets, the data has {table.columns} and "
            f"{table.targets}."
        )
    known, notes = shared_groups(core, labels)
    refuted = bool(notes)
    reductions = [_group(core, table, own, label) for label in known]
    if not core.absorbed and core.n_rows == table.count and not _same_rows(core, table, own):
        notes.append("The kept rows are not the rows of this data at the stored indices.")
        refuted = True
    if core.n_rows != table.count:
        notes.append(f"The coreset stands for {core.n_rows:,} rows, the data has {table.count:,}.")
        refuted = True
    return proof(core, reductions, table.total, table.count, start, notes, refuted)


def proof(
    core: Coreset, reductions: list[Reduction], total: float, n_rows: int, start: float, notes: list[str], refuted: bool
) -> Certificate:
    """A fresh certificate; the rank, that of all groups, is not measured again."""
    if core.absorbed and not max(r.proof.loss_error for r in reductions) <= REFUTED:
        notes = [*notes, f"Rows and correction of an absorbed coreset must agree with the data to {REFUTED:.0e}."]
        refuted = True
    seconds = time.perf_counter() - start
    fresh = certify(core.problem, reductions, total, n_rows, seconds, notes, refuted=refuted, size=len(core))
    return replace(fresh, rank=core.certificate.rank, peeled=core.certificate.peeled)


def shared_groups(core: Coreset, labels: list[Any]) -> tuple[list[Any], list[str]]:
    """Those groups of the data that the coreset has, and what is to be said if they are not the same."""
    if core.groups is None:
        return labels, []
    own = set(np.unique(core.groups))
    known = [label for label in labels if label in own]
    if not known:
        raise InputError("None of the groups of this data is a group of the coreset.")
    return known, [] if len(known) == len(labels) == len(own) else ["The groups are not those of the coreset."]


def _group(core: Coreset, table: Table, own: Table, label: Any) -> Reduction:
    """The coreset measured against the full data of one group."""
    rows, kept = table.rows(label), own.rows(label)
    found = _against(core, table, rows, kept)
    if found.proof.ok or core.absorbed:
        return found
    # Rows that are kept with their own weights cancel identically: what is left of both sides may be provable.
    among = own.index(label)
    numbers = core.indices if among is None else core.indices[among]
    alone, where = _verbatim(rows, kept, numbers, table.index(label))
    if alone.all() and len(where) == len(rows):
        return replace(found, proof=replace(Proof.trivial(), power=found.proof.power))
    if not alone.any() or len(where) == len(rows) or alone.all():
        return found
    rest = _against(core, table, rows.subset(np.setdiff1d(np.arange(len(rows)), where)), kept.subset(np.flatnonzero(~alone)))
    weights = np.concatenate([rest.weights, own_weights(kept, np.flatnonzero(alone))])
    return replace(rest, positions=np.arange(len(kept)), weights=weights) if rest.proof.ok else found


def _against(core: Coreset, table: Table, rows: Rows, kept: Rows) -> Reduction:
    """Weighted rows measured against all rows: in any coordinates in which that is a proof."""
    try:
        pilot = sample(np.random.default_rng(1), len(rows), 16384)
        fitted, passes = fit_moments(rows, kernel_of(core.problem, table), pilot)
    except NonFiniteError:
        raise explain_non_finite(table, "its powers") from None
    found = measured(core, rows, fitted, kept, passes, table.unit)
    kernel = None if core.absorbed else about_means(found)
    if kernel is None:
        return found
    centred = kernel.fitted_moments(pass_over(rows, kernel), rows.total, last=True)
    return better(found, claimed(core.certificate, rows, centred, kept, passes + 1))


def _verbatim(rows: Rows, kept: Rows, numbers: np.ndarray, index: Indices | None) -> tuple[Flags, Indices]:
    """Which kept rows are rows of the data with their own weights, and the positions of these among the data's rows."""
    where = numbers if index is None else np.searchsorted(index, numbers)
    there = where < len(rows)
    if index is not None:
        there[there] = index[where[there]] == numbers[there]
    places, everything, zeros = np.where(there, where, 0), np.arange(len(kept)), np.zeros(rows.columns)
    same = (rows.take(places, zeros) == kept.take(everything, zeros)).all(axis=1)
    alone = there & same & (own_weights(rows, places) == own_weights(kept, everything))
    return alone, where[alone]


def measured(
    core: Coreset,
    rows: Rows | None,
    fitted: FittedMoments,
    kept: Rows,
    passes: int,
    unit: float = 1.0,
    witnesses: Rows | None = None,
) -> Reduction:
    """The reduction that a coreset claims to be, against fitted moments; ``rows`` have them, and show what rows look like.

    ``unit`` is that of the weights of both.
    """
    found = claimed(core.certificate, rows, fitted, kept, passes, witnesses)
    if not core.absorbed:  # the rows carry everything, with or without a regulariser
        return found
    problem = core.problem
    assert isinstance(problem, Ridge | LpRegression)
    assert rows is not None
    gap = measure_absorbed(
        rows, fitted, problem.power, problem.fit_intercept, problem.penalty / unit, kept, core.absorbed.over(unit)
    )
    absorbed = replace(found.proof, loss_error=gap, moment_error=gap, remainder=0.0)
    return replace(found, proof=absorbed)


def _same_rows(core: Coreset, table: Table, own: Table) -> bool:
    if not len(core) or core.indices[-1] >= table.count:
        return False
    zeros = np.zeros(table.columns + table.targets)
    full, kept = (Rows(t.parts, offsets=t.offsets) for t in (table, own))
    return bool(np.array_equal(full.take(core.indices, zeros), kept.take(np.arange(len(core)), zeros)))
