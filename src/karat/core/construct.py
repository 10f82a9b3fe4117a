"""Construction of a coreset: checked inputs, one reduction per group, and a certificate.

Merging takes the same steps.

data        = read_rows(X, y, ...)               # a Table; a latent problem is lowered first
reductions  = build(data.rows(), data.kernel)    # few rows, the same moments, a proof
              (or reduce_many, where there are groups)
fields      = assembled(reductions)              # certified, or NotExactError
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from karat.core.certify import certify, require_proven
from karat.core.latent import lowered_table
from karat.data import containers
from karat.data.arguments import check_taken
from karat.data.batch import Table, read_input, stored_weights
from karat.engine.groups import reduce_many
from karat.engine.kernel import Kernel
from karat.engine.linalg import Indices
from karat.engine.reduce import Reduction, build
from karat.engine.rows import Progress
from karat.problems import Problem
from karat.problems.absorb.correction import Correction
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps

NOTHING_ABSORBED = (
    "Nothing could be absorbed: the rows carry the loss by themselves, and the correction is zero."
)


def reduced(
    data: Table, kernel: Kernel, method: str, seed: int, progress: Progress | None = None
) -> list[Reduction]:
    """One reduction per group, in the order of ``data.labels``."""
    if len(data.labels) == 1:
        return [build(data.rows(label), kernel, method, seed, progress) for label in data.labels]
    return reduce_many(*data.grouped_rows(), kernel, method, seed, progress)


def read_rows(
    X: Any,
    y: Any,
    problem: Problem,
    sample_weight: Any,
    groups: Any,
    lengths: Any,
    maps: Maps | None = None,
) -> Table:
    """Check the inputs; lower a latent-variable problem by ``maps``, or by those of the rows."""
    check_taken(problem, y=y, groups=groups, lengths=lengths)
    if isinstance(problem, Latent):
        return lowered_table(X, problem, sample_weight, lengths, maps)
    return read_input(X, y, problem, sample_weight, groups)


def assembled(
    problem: Problem, table: Table, X: Any, y: Any, reductions: list[Reduction],
    correction: Correction | None, start: float,
) -> dict[str, Any]:  # fmt: skip
    """The fields of the coreset that joins the reductions of all groups; raise unless exact."""
    origins, heavy = [], []
    for reduction, label in zip(reductions, table.labels, strict=True):
        numbers = table.numbers_of(label)
        origins.append(reduction.positions if numbers is None else numbers[reduction.positions])
        heavy += (
            reduction.dominating_rows if numbers is None else numbers[reduction.dominating_rows]
        ).tolist()
    indices = np.concatenate(origins)
    order = np.argsort(indices, kind="stable")
    weights = stored_weights(np.concatenate([r.weights for r in reductions])[order], table.unit)
    indices = indices[order].astype(np.int64)
    notes = list(table.notes)
    if correction is not None and not correction:
        notes.append(NOTHING_ABSORBED)
    if not correction and len(indices) == len(table):
        above_rank = any(len(r.positions) > r.rank for r in reductions)
        why = "Nothing smaller was exact" if above_rank else "There were no more rows than the rank"
        notes.append(f"{why}: all are kept, with their own weights.")
    seconds = time.perf_counter() - start
    more = any(
        len(r.positions) > r.levels * r.fitted.kernel.width + r.peeled.sum() for r in reductions
    )
    if more and len(indices) < len(table):
        notes.append(
            "More rows than features are kept: a further elimination would have cost accuracy."
        )
    certificate = certify(problem, reductions, table.total, table.n_rows, seconds, notes)
    require_proven(certificate, reductions, table.names, heavy)
    return {
        "indices": indices,
        "weights": weights,
        "X": _take_samples(X, indices, problem),
        "y": containers.take_rows(y, indices),
        "groups": None if table.groups is None else table.groups[indices],
        "n_rows": table.n_rows,
        "problem": problem,
        "certificate": certificate,
        "maps": table.problem.stored_maps,
        "absorbed": correction,
        "verbatim": np.concatenate([r.peeled for r in reductions])[order],
    }


def _take_samples(X: Any, indices: Indices, problem: Problem) -> Any:
    """Rows of X in a container of its type; the rows of a window side by side, in one array."""
    if problem.input_tables > 1:
        return tuple(containers.take_rows(view, indices) for view in X)
    if problem.rows_per_sample == 1:
        return containers.take_rows(X, indices)
    table = containers.as_table(X, "X")
    table = table.toarray() if containers.is_sparse(table) else table
    return np.hstack([np.asarray(table[indices + a]) for a in range(problem.rows_per_sample)])
