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
from karat.data.containers import take_rows
from karat.data.labels import same_kind
from karat.data.stacking import stack_rows
from karat.engine.claim import Claim, Reduction
from karat.engine.kernel import NonFiniteError
from karat.engine.reduce import keep_all_rows
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
            f"The coresets are for {first.problem.describe()} and {second.problem.describe()};"
            " build both for the same problem."
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
            "Both coresets have rows of the same data, which would count twice. Merge each source"
            " once."
        )
    made = SYNTHETIC in (first.rows, second.rows)
    if made:
        first, second = in_doubles(first), in_doubles(second)
    if type(first.X) is not type(second.X):
        raise InputError(
            f"The rows are in a {type(first.X).__name__} and in a {type(second.X).__name__};"
            " convert one of them."
        )
    keyed = (first.keys is None) != (second.keys is None) and not made
    if (first.groups is None) != (second.groups is None) or keyed:
        raise InputError("One coreset has groups or keys, the other has none; build both alike.")
    if first.keys is not None and second.keys is not None:
        same_kind(first.keys, second.keys, "keys")
    if (
        first.keys is not None
        and second.keys is not None
        and np.isin(first.keys, second.keys, kind="sort").any()
    ):
        repeated = first.keys[np.isin(first.keys, second.keys, kind="sort")][0]
        raise InputError(f"Key {repeated!r} is in both coresets; merge each source once.")
    X, y = stack_rows(first.X, second.X), stack_rows(first.y, second.y)
    weights = np.concatenate([first.weights, second.weights])
    if first.groups is not None and second.groups is not None:
        same_kind(first.groups, second.groups)
    groups = None if first.groups is None else np.concatenate([first.groups, second.groups])
    table = read_input(X, y, first.problem, weights, groups)
    if made:
        try:
            union = replace(
                first,
                **merge_made(first, second, table, X, y, seed, start),
                keys=None,
                regression=regression.merged_regression(first.regression, second.regression),
            )
        except NonFiniteError:
            raise table.explain_non_finite() from None
        lost = regression.notes_of_merging(first.regression, second.regression)
        said = tuple(dict.fromkeys([*union.certificate.notes, *lost]))
        return replace(union, certificate=replace(union.certificate, notes=said))
    kernel = table.kernel.sharper()  # the errors of both parts are inherited, so add little
    inherited = Claim.union([first.certificate, second.certificate])
    # errors add up, because each is relative to a loss that includes the regulariser
    if first.absorbed or second.absorbed:
        inherited = replace(
            inherited, loss_error=first.certificate.loss_error + second.certificate.loss_error
        )
    try:
        reductions = reduced(table, kernel, "auto", seed)
    except NonFiniteError:
        raise table.explain_non_finite() from None
    reductions = [
        _with_inherited_claim(table, label, reduction, inherited)
        for label, reduction in zip(table.labels, reductions, strict=True)
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
    # merged.indices counts the kept rows of both; origin translates them to rows of the inputs
    origin = np.concatenate([first.indices, second.indices + first.n_rows])
    keys = None if first.keys is None else np.concatenate([first.keys, second.keys])[merged.indices]
    provenance = merged_provenance(first.provenance, second.provenance)
    notes = dict.fromkeys(
        [
            *merged.certificate.notes,
            *Provenance.read(provenance).notes,
            *regression.notes_of_merging(first.regression, second.regression),
        ]
    )
    merged = replace(
        merged,
        verbatim=None,
        certificate=replace(merged.certificate.of_coresets(), notes=tuple(notes)),
        provenance=provenance,
        regression=regression.merged_regression(first.regression, second.regression),
    )
    return _renumbered(merged, origin[merged.indices], first.n_rows + second.n_rows, keys)


def _with_inherited_claim(
    table: Table, label: Any, reduction: Reduction, inherited: Claim
) -> Reduction:
    """The reduction with the error of its parts; all rows, which adds no error, if it is not exact
    enough.
    """
    reduction = replace(reduction, inherited=inherited)
    within = reduction.claim.loss_error <= EXACT and reduction.claim.remainder <= 1.0
    if reduction.proof.ok and within:
        return reduction
    return keep_all_rows(table.rows(label), reduction)


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
