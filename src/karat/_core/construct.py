"""Construction of a coreset: checked inputs, one reduction per group, and a certificate.  Merging takes the same steps.

data        = read_rows(X, y, ...)                           # a Table of rows, or Samples of a latent-variable problem
reductions  = build(data.rows(), data.kernel(problem))       # karat.engine.reduce: few rows, the same moments, a proof
              (reduce_many, karat.engine.groups, where there are groups)
fields      = assembled(reductions)                          # certified, or NotExactError
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from karat._core.certify import certify, require_proven
from karat._core.latent import Samples
from karat._data import containers
from karat._data.checks import Table, check_taken, read_input, stored_weights
from karat.engine.groups import reduce_many
from karat.engine.kernel import Kernel
from karat.engine.reduce import Reduction, build
from karat.engine.rows import Progress
from karat.problems import Problem
from karat.problems.absorb.correction import Correction
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps

NOTHING_ABSORBED = "Nothing could be absorbed: the rows carry the loss by themselves, and the correction is zero."


def reduced(data: Table | Samples, kernel: Kernel, method: str, seed: int, progress: Progress | None = None) -> list[Reduction]:
    """One reduction per group, in the order of ``data.labels``."""
    if len(data.labels) == 1 or isinstance(data, Samples):
        return [build(data.rows(label), kernel, method, seed, progress) for label in data.labels]
    return reduce_many(*data.grouped_rows(), kernel, method, seed, progress)


def read_rows(
    X: Any, y: Any, problem: Problem, sample_weight: Any, groups: Any, lengths: Any, maps: Maps | None = None
) -> Table | Samples:
    """Check the inputs; latent-variable problems get samples, in the coordinates of ``maps`` or of their own maps."""
    check_taken(problem, y=y, groups=groups, lengths=lengths)
    if isinstance(problem, Latent):
        return Samples.of(X, problem, sample_weight, lengths, maps)
    return read_input(X, y, problem, sample_weight, groups)


def assembled(
    problem: Problem, table: Table | Samples, X: Any, y: Any, reductions: list[Reduction], correction: Correction | None,
    start: float,
) -> dict[str, Any]:  # fmt: skip
    """The fields of one coreset of the reductions of the groups; raise if it is not exact."""
    origins, heavy = [], []
    for reduction, label in zip(reductions, table.labels, strict=True):
        index = table.index(label)
        origins.append(reduction.positions if index is None else index[reduction.positions])
        heavy += (reduction.in_the_way if index is None else index[reduction.in_the_way]).tolist()
    indices = np.concatenate(origins)
    order = np.argsort(indices, kind="stable")
    weights = stored_weights(np.concatenate([r.weights for r in reductions])[order], table.unit)
    indices = indices[order].astype(np.int64)
    notes = list(table.notes)
    if correction is not None and not correction:
        notes.append(NOTHING_ABSORBED)
    if not correction and len(indices) == table.count:
        fewer = any(len(r.positions) > r.rank for r in reductions)
        why = "Nothing smaller was exact" if fewer else "There were no more rows than the rank"
        notes.append(f"{why}: all are kept, with their own weights.")
    seconds = time.perf_counter() - start
    if any(len(r.positions) > r.fitted.kernel.width + r.peeled.sum() for r in reductions) and len(indices) < table.count:
        notes.append("More rows than features are kept: a further elimination would have cost accuracy.")
    certificate = certify(problem, reductions, table.total, table.n_rows, seconds, notes)
    require_proven(certificate, reductions, table.names, heavy)
    return {
        "indices": indices,
        "weights": weights,
        "X": table.take(X, indices),
        "y": containers.take_rows(y, indices),
        "groups": None if table.groups is None else table.groups[indices],
        "n_rows": table.n_rows,
        "problem": problem,
        "certificate": certificate,
        "maps": table.maps,
        "absorbed": correction,
        "verbatim": np.concatenate([r.peeled for r in reductions])[order],
    }
