"""Construction of a coreset: checked inputs, one reduction per group, and a certificate.

Merging takes the same steps.

data        = read_rows(X, y, ...)               # a Table; a latent problem is lowered first
reductions  = build(data.rows(), data.kernel)    # few rows, the same moments, a proof
              (or reduce_many, where there are groups)
fields      = assembled(reductions)              # certified, or NotExactError

A latent problem is lowered as in files:

sample      = what the problem looks at: rows, documents, windows of three steps, triples of views
maps        = problem.maps(sample)    # one pass: whitening, and the rest that makes it linear
data        = the views of the sample, which KnownMaps(problem, maps), an ordinary problem, reads
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from karat.core.certify import certify, require_proven
from karat.data import containers
from karat.data.arguments import check_taken
from karat.data.batch import Table, check_weights, read_input, stored_weights
from karat.data.non_finite import explain_non_finite
from karat.engine.claim import Reduction
from karat.engine.groups import reduce_many
from karat.engine.kernel import Kernel, NonFiniteError
from karat.engine.linalg import Indices
from karat.engine.reduce import build
from karat.engine.rows import Progress
from karat.errors import InputError
from karat.problems import Problem
from karat.problems.absorb.correction import Correction
from karat.problems.latent import KnownMaps, Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, sequence_steps

Result = TypeVar("Result")

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
        return _lowered_table(X, problem, sample_weight, lengths, maps)
    return read_input(X, y, problem, sample_weight, groups)


def _lowered_table(
    X: Any, problem: Latent, sample_weight: Any, lengths: Any, stored: Maps | None = None
) -> Table:
    """Samples for the problem lowered by stored maps, or by the maps of these rows (one pass)."""
    sample, tables = read_sample(X, problem, sample_weight, lengths)
    maps = explaining_nan(tables, lambda: problem.maps(sample))
    return Table(
        list(sample.views),
        sample.origin,
        sample.weights,
        names=[name for table in tables for name in table.names] * problem.rows_per_sample,
        n_rows=sample.n_rows,
        problem=KnownMaps(problem, maps if stored is None else stored, of_views=True),
        shape=f"{', '.join(map(str, sample.columns))} columns",
        notes=(*problem.notes(sample.inputs, sample.dropped), *problem.map_notes(maps)),
        maps=maps,
    )


def _read_tables(X: Any, problem: Latent) -> tuple[Table, ...]:
    """The table or the three tables of X, checked; their sizes first."""
    for table in X if isinstance(X, tuple | list) else (X,):
        shape: Any = getattr(table, "shape", ())
        if isinstance(shape, tuple) and len(shape) == 2:
            problem.check_size(int(shape[1]))
    if problem.input_tables == 1:
        if isinstance(X, tuple):
            raise InputError(f"{problem.describe()} takes one table, not a tuple of {len(X)}.")
        return (read_input(X, None, problem, None, None),)
    if not isinstance(X, tuple | list) or len(X) != problem.input_tables:
        raise InputError(
            "MultiView takes X as a tuple of three tables, one per view, with the same number of"
            " rows."
        )
    tables = tuple(read_input(view, None, problem, None, None) for view in X)
    if len({len(table) for table in tables}) > 1:
        raise InputError(
            f"The three views have {', '.join(str(len(t)) for t in tables)} rows; they must have"
            " equally many."
        )
    return tables


def read_sample(
    X: Any, problem: Latent, sample_weight: Any, lengths: Any
) -> tuple[Sample, tuple[Table, ...]]:
    """The samples of the problem in X, and its checked tables."""
    check_taken(problem, lengths=lengths)
    tables = _read_tables(X, problem)
    count = len(tables[0])
    weights = check_weights(sample_weight, count)
    steps = None if lengths is None else sequence_steps(lengths, count)
    sample = problem.sample(tuple(table.parts[0] for table in tables), weights, steps)
    if not len(sample):
        raise InputError(problem.empty_message(sample.inputs, sample.dropped))
    return sample, tables


def explaining_nan(tables: tuple[Table, ...], action: Callable[[], Result]) -> Result:
    """The result of an action; if it meets NaN or infinity, raise an error that locates them."""
    try:
        return action()
    except NonFiniteError:
        names = [name for table in tables for name in table.names]
        raise explain_non_finite([table.parts[0] for table in tables], names) from None


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
    # the groups come one after the other; a coreset lists its rows in the order of the input
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
    # every level of sizes keeps at most one row per feature
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
