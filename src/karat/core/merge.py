"""Merging: the coreset of a union, from the coresets of its parts.

It is exact because moments add up.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.core import regression
from karat.core.construct import assembled, reduced
from karat.core.provenance import Provenance, merged_provenance, same_source
from karat.core.synthetic import SYNTHETIC, in_doubles, merge_made
from karat.data.batch import Table, read_input
from karat.data.containers import stack_rows, take_rows
from karat.data.labels import same_kind
from karat.engine.claim import Claim
from karat.engine.reduce import NonFiniteError, Reduction, keep_all_rows
from karat.engine.tolerances import EXACT
from karat.errors import InputError, NotExactError

if TYPE_CHECKING:
    from karat.core.coreset import Coreset


def merge(first: Coreset, second: Coreset, seed: int) -> Coreset:
    """See :meth:`karat.Coreset.merge`."""
    start = time.perf_counter()
    if not isinstance(second, type(first)):
        raise InputError(f"merge takes another Coreset, not {type(second).__name__}.")
    if first.problem != second.problem:
        raise InputError(
            f"These coresets keep different things, {first.problem.describe()} and"
            f" {second.problem.describe()}; build both for one problem."
        )
    if not first.problem.mergeable:
        raise NotExactError(
            f"Coresets of {first.problem.describe()} do not merge: their features depend on the"
            " full data. Build one coreset in two passes over all of it: karat.coreset(X,"
            " problem=...) or karat.coreset_files(source, problem=...). Coresets of Moments(3)"
            " merge, and keep enough for mixtures and views."
        )
    if same_source(first.provenance, second.provenance):
        raise InputError(
            "Both coresets are of the same data: merged, every row would count twice. Merge each"
            " source once."
        )
    made = SYNTHETIC in (first.rows, second.rows)
    if made:
        first, second = in_doubles(first), in_doubles(second)
    if type(first.X) is not type(second.X):
        raise InputError(
            f"The rows are a {type(first.X).__name__} and a {type(second.X).__name__}; convert one"
            " of them."
        )
    keyed = (first.keys is None) != (second.keys is None) and not made
    if (first.groups is None) != (second.groups is None) or keyed:
        raise InputError("One of the coresets has groups or keys and the other has not.")
    if (
        first.keys is not None
        and second.keys is not None
        and np.isin(first.keys, second.keys).any()
    ):
        twice = first.keys[np.isin(first.keys, second.keys)][0]
        raise InputError(f"Key {twice!r} is in both coresets: the same source was merged twice.")
    X, y = stack_rows(first.X, second.X), stack_rows(first.y, second.y)
    weights = np.concatenate([first.weights, second.weights])
    if first.groups is not None and second.groups is not None:
        same_kind(first.groups, second.groups)
    groups = None if first.groups is None else np.concatenate([first.groups, second.groups])
    table = read_input(X, y, first.problem, weights, groups)
    if made:
        try:
            return replace(
                first,
                **merge_made(first, second, table, X, y, seed, start),
                keys=None,
                regression=None,
            )
        except NonFiniteError:
            raise table.explain_non_finite() from None
    kernel = table.kernel.sharper()
    inherited = Claim.union([first.certificate, second.certificate])
    # each error is relative to a loss that has the regulariser in it: they add up
    if first.absorbed or second.absorbed:
        inherited = replace(
            inherited, loss_error=first.certificate.loss_error + second.certificate.loss_error
        )
    try:
        found = reduced(table, kernel, "auto", seed)
    except NonFiniteError:
        raise table.explain_non_finite() from None
    reductions = [
        _with_inherited_claim(table, label, one, inherited)
        for label, one in zip(table.labels, found, strict=True)
    ]
    correction = None
    if first.absorbed is not None and second.absorbed is not None:
        carried = first.absorbed + second.absorbed
        reductions[0], correction = first.problem.absorb_rows(
            table.rows(), reductions[0], seed, None, carried if carried else None, table.unit
        )
    merged = replace(first, **assembled(first.problem, table, X, y, reductions, correction, start))
    assert first.indices is not None
    assert second.indices is not None
    assert merged.indices is not None
    origin = np.concatenate([first.indices, second.indices + first.n_rows])
    keys = None if first.keys is None else np.concatenate([first.keys, second.keys])[merged.indices]
    provenance = merged_provenance(first.provenance, second.provenance)
    notes = dict.fromkeys([*merged.certificate.notes, *Provenance.read(provenance).notes])
    merged = replace(
        merged,
        verbatim=None,
        certificate=replace(merged.certificate.of_coresets(), notes=tuple(notes)),
        provenance=provenance,
        regression=regression.merged_regression(first.regression, second.regression),
    )
    return _renumbered(merged, origin[merged.indices], first.n_rows + second.n_rows, keys)


def _with_inherited_claim(
    table: Table, label: Any, found: Reduction, inherited: Claim
) -> Reduction:
    """A reduction of the rows of both parts; all of them, which adds nothing to what they claim, if
    it is not exact enough.
    """
    found = replace(found, inherited=inherited)
    within = found.claim.loss_error <= EXACT and found.claim.remainder <= 1.0
    return found if found.proof.ok and within else keep_all_rows(table.rows(label), found)


def _renumbered(
    core: Coreset, indices: np.ndarray, n_rows: int, keys: np.ndarray | None
) -> Coreset:
    """The same rows with other indices: those in a larger source."""
    order = np.argsort(indices, kind="stable")
    return replace(
        core,
        indices=indices[order],
        weights=core.weights[order],
        X=take_rows(core.X, order),
        y=take_rows(core.y, order),
        groups=None if core.groups is None else core.groups[order],
        keys=None if keys is None else keys[order],
        n_rows=n_rows,
        certificate=replace(core.certificate, n_rows=n_rows),
    )
