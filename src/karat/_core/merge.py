"""The coreset of a union from the coresets of its parts: exact, because moments add up."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from karat._core.certify import require_proven, rounding_of, standard_errors
from karat._core.construct import absorb_into, assemble, kernel_of
from karat._core.coreset import Coreset
from karat._core.provenance import joined, same_source
from karat._data import containers
from karat._data.checks import group_labels, read_input, same_kind
from karat.engine.kernel import Kernel
from karat.engine.reduce import Reduction, build, whole
from karat.engine.rows import Rows
from karat.engine.tolerances import handed_on
from karat.errors import InputError, NotExactError
from karat.problems import LpRegression, Ridge


def merge(first: Coreset, second: Coreset, seed: int) -> Coreset:
    """See :meth:`karat.Coreset.merge`."""
    start = time.perf_counter()
    if not isinstance(second, Coreset):
        raise InputError(f"merge takes another Coreset, not {type(second).__name__}.")
    if first.problem != second.problem:
        raise InputError(
            f"These coresets keep different things, {first.problem.describe()} and {second.problem.describe()}; build both "
            "for one problem."
        )
    if not first.problem.mergeable:
        raise NotExactError(
            f"Coresets of {first.problem.describe()} do not merge: their features depend on the full data. "
            "Build one coreset in two passes over all of it: karat.coreset(X, problem=...) or "
            "karat.coreset_files(source, problem=...) (Moments(3) does merge)."
        )
    if same_source(first.provenance, second.provenance):
        raise InputError("Both coresets are of the same data: merged, every row would count twice. Merge each source once.")
    if type(first.X) is not type(second.X):
        raise InputError(f"The rows are a {type(first.X).__name__} and a {type(second.X).__name__}; convert one of them.")
    if (first.groups is None) != (second.groups is None) or (first.keys is None) != (second.keys is None):
        raise InputError("One of the coresets has groups or keys and the other has not.")
    if first.keys is not None and second.keys is not None and np.isin(first.keys, second.keys).any():
        twice = first.keys[np.isin(first.keys, second.keys)][0]
        raise InputError(f"Key {twice!r} is in both coresets: the same source was merged twice.")
    X, y = containers.stack_rows(first.X, second.X), containers.stack_rows(first.y, second.y)
    weights = np.concatenate([first.weights, second.weights])
    if first.groups is not None and second.groups is not None:
        same_kind(first.groups, second.groups)
    groups = None if first.groups is None else np.concatenate([first.groups, second.groups])
    table = read_input(X, y, first.problem, weights, groups)
    kernel = kernel_of(first.problem, table)
    inflation = max(first.certificate.inflation, second.certificate.inflation)
    reductions = [_reduced(table.rows(label), kernel, seed, inflation) for label in group_labels(table)]
    correction = None
    if first.absorbed is not None and second.absorbed is not None:
        assert isinstance(first.problem, Ridge | LpRegression)
        carried = first.absorbed + second.absorbed
        reductions, correction = absorb_into(
            first.problem, table.rows(), reductions[0], seed, None, carried if carried else None, table.unit
        )
    merged = assemble(first.problem, table, X, y, reductions, correction, start)
    origin = np.concatenate([first.indices, second.indices + first.n_rows])
    keys = None if first.keys is None else np.concatenate([first.keys, second.keys])[merged.indices]
    # The parts may be off by what their own certificates say, relative to a smaller loss than that of the union.
    # With a correction each of them is relative to a loss that has the regulariser in it, so that they add up.
    errors = [_handed_on(core) for core in (first, second)]
    inherited = sum(errors) if first.absorbed or second.absorbed else max(errors)
    left_out = [note for core in (first, second) for note in core.certificate.notes if "left out" in note]
    notes = tuple(dict.fromkeys([*merged.certificate.notes, *left_out]))
    proof = merged.certificate
    error = proof.loss_error + inherited
    spent = proof.spent + max(first.certificate.spent, second.certificate.spent)
    version = min(proof.proof_version, first.certificate.proof_version, second.certificate.proof_version)
    certificate = replace(
        proof,
        loss_error=error,
        standard_errors=standard_errors(first.problem, error, first.n_rows + second.n_rows),
        rounding=rounding_of(spent),
        spent=spent,
        notes=notes,
        proof_version=version,
    )
    require_proven(certificate, reductions, table.names)
    merged = replace(merged, certificate=certificate, provenance=joined(first.provenance, second.provenance))
    return merged._renumbered(origin[merged.indices], first.n_rows + second.n_rows, keys)


def _handed_on(core: Coreset) -> float:
    proof = core.certificate
    return proof.loss_error if core.absorbed else handed_on(proof.loss_error, proof.power, proof.condition)


def _reduced(rows: Rows, kernel: Kernel, seed: int, inflation: float) -> Reduction:
    """The rows of both parts reduced again, or all of them, which is exact by definition."""
    found = replace(build(rows, kernel, "auto", seed), inflation=inflation)
    return found if found.proof.ok and found.remainder <= 1.0 else replace(whole(rows, found), inflation=inflation)
