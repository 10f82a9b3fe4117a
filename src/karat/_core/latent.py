"""Coresets of latent-variable problems: two passes in one call.

maps     = problem.maps(sample)                    # pass one: whitening and what else makes the statistics linear
coreset  = build(coordinates of the sample, ...)   # pass two: the ordinary pipeline, on a few coordinates per sample
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from karat._core.certify import Certificate, certify, claimed, require_proven
from karat._core.construct import Progress
from karat._core.coreset import Coreset
from karat._data import containers
from karat._data.checks import Table, _weights, explain_non_finite, read_input
from karat.engine.candidates import sample
from karat.engine.reduce import NonFiniteError, Reduction, build, settle
from karat.engine.tolerances import EXACT
from karat.errors import InputError
from karat.problems.latent import HiddenMarkov, Latent, MultiView
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample

Result = TypeVar("Result")
BASIS = ("centre", "axes")  # maps that only choose coordinates of a span, of which there are many


def read_tables(X: Any, problem: Latent) -> tuple[Table, ...]:
    """The table or the three tables of X, checked."""
    if not isinstance(problem, MultiView):
        if isinstance(X, tuple):
            raise InputError(f"{problem.describe()} takes one table, not a tuple of {len(X)}.")
        return (read_input(X, None, problem, None, None),)
    if not isinstance(X, tuple | list) or len(X) != 3:
        raise InputError("MultiView takes X as a tuple of three tables, one per view, with the same number of rows.")
    tables = tuple(read_input(view, None, problem, None, None) for view in X)
    if len({table.count for table in tables}) > 1:
        raise InputError(f"The three views have {', '.join(str(t.count) for t in tables)} rows; the numbers must be equal.")
    return tables


def read_sample(X: Any, problem: Latent, sample_weight: Any, lengths: Any) -> tuple[Sample, tuple[Table, ...]]:
    """X as the samples that the problem looks at."""
    if lengths is not None and not isinstance(problem, HiddenMarkov):
        raise InputError(f"{problem.describe()} does not look at sequences; lengths is for sequence models only.")
    tables = read_tables(X, problem)
    count = tables[0].count
    weights = _weights(sample_weight, count)
    steps = problem.steps(lengths, count) if isinstance(problem, HiddenMarkov) and lengths is not None else None
    found = problem.sample(tuple(t.X for t in tables), weights, steps)
    if not len(found):
        raise InputError(problem.nothing(found.inputs, found.dropped))
    return found, tables


def guarded(tables: tuple[Table, ...], action: Callable[[], Result]) -> Result:
    """Run an action; if it meets NaN or infinity, say where that is."""
    try:
        return action()
    except NonFiniteError:
        spoilt = [t for t in tables if not all(np.isfinite(np.asarray(abs(t.X).sum())).ravel())]
        raise explain_non_finite((spoilt or list(tables))[0], "its powers") from None


def kept_sample(core: Coreset) -> Sample:
    """The samples that a coreset keeps."""
    problem = core.problem
    assert isinstance(problem, Latent)
    views = core.X if isinstance(core.X, tuple) else (core.X,)
    return problem.kept_sample(tuple(containers.as_table(v, "X") for v in views), core.weights, core.maps)


def own_maps(core: Coreset, kept: Sample) -> Maps:
    """The stored maps of the full data; in mode C those of the kept rows, which are the same."""
    assert isinstance(core.problem, Latent)
    if core.maps is not None:
        return core.maps
    return core.problem.maps(kept) | {"n": np.array(float(core.n_rows))}  # sampling noise is that of all rows


def latent_coreset(
    X: Any, problem: Latent, sample_weight: Any, lengths: Any, method: str, seed: int, progress: Progress | None, start: float
) -> Coreset:
    """See :func:`karat.coreset`."""
    data, tables = read_sample(X, problem, sample_weight, lengths)

    def reduce() -> tuple[Maps, Reduction]:
        maps = problem.maps(data)
        rows, kernel = problem.kernelize(data, maps)
        return maps, build(rows, kernel, method, seed, progress)

    maps, reduction = guarded(tables, reduce)
    indices = reduction.positions if data.origin is None else data.origin[reduction.positions]
    indices = indices.astype(np.int64)
    notes = [*problem.notes(data.inputs, data.dropped), *problem.map_notes(maps)]
    if len(indices) == len(data):
        notes.append("There were no more samples than the rank: all are kept, with their own weights.")
    certificate = _proof(problem, reduction, data, len(indices), time.perf_counter() - start, notes)
    require_proven(certificate, [reduction], [])
    if isinstance(problem, MultiView):
        rows: Any = tuple(containers.take_rows(view, indices) for view in X)
    elif problem.reach > 1:  # rows of a window, side by side
        table = tables[0].X.toarray() if sparse.issparse(tables[0].X) else tables[0].X
        rows = np.hstack([np.asarray(table[indices + a]) for a in range(problem.reach)])
    else:
        rows = containers.take_rows(X, indices)
    return Coreset(
        indices=indices, weights=reduction.weights, X=rows, y=None, groups=None, n_rows=data.n_rows, problem=problem,
        certificate=certificate, maps=None if problem.keep == "all" else maps,
    )  # fmt: skip


def _proof(
    problem: Latent, reduction: Reduction, data: Sample, size: int, seconds: float, notes: list[str], refuted: bool = False
) -> Certificate:
    proof = certify(problem, [reduction], data.total, data.n_rows, seconds, notes, refuted=refuted, size=size)
    return replace(proof, passes=proof.passes + 1)


def verify_latent(core: Coreset, X: Any, sample_weight: Any, lengths: Any) -> Certificate:
    """See :meth:`karat.Coreset.verify`: maps and moments of the full data afresh, against the stored maps and kept rows."""
    start = time.perf_counter()
    problem = core.problem
    assert isinstance(problem, Latent)
    data, tables = read_sample(X, problem, sample_weight, lengths)
    kept = kept_sample(core)
    if kept.columns != data.columns:
        raise InputError(f"The coreset has {kept.columns} columns, the data {data.columns}.")

    def compare() -> tuple[Maps, Reduction]:
        maps = problem.maps(data)
        used = maps if core.maps is None else core.maps  # the rows keep the tensor of the stored maps
        rows, kernel = problem.kernelize(data, used)
        settled, passes = settle(rows, kernel, sample(np.random.default_rng(1), len(rows), 16384))
        own = kept.rows(problem.reader(used, problem.keep), kernel.columns)
        return maps, claimed(core.certificate, rows, settled, own, passes)

    maps, reduction = guarded(tables, compare)
    notes = list(problem.notes(data.inputs, data.dropped))
    apart = changed_maps(core, maps)
    notes, refuted = notes + apart, bool(apart)
    if not _same_samples(core, data, kept):
        notes.append("The kept rows are not the rows of this data at the stored indices.")
        refuted = True
    return _proof(problem, reduction, data, len(core), time.perf_counter() - start, notes, refuted)


def changed_maps(core: Coreset, maps: Maps) -> list[str]:
    """What is to be said if the stored maps of a coreset are not the ``maps`` of the data."""
    assert isinstance(core.problem, Latent)
    allowed = max(EXACT, 100 * core.problem.map_rounding(maps))
    compared = [name for name in core.maps or {} if name not in BASIS]
    apart = [name for name in compared if not _same_map((core.maps or {})[name], maps.get(name), allowed)]
    return [f"The stored maps are not those of this data ({', '.join(apart)} differ)."] if apart else []


def _same_map(stored: np.ndarray, fresh: np.ndarray | None, allowed: float) -> bool:
    if fresh is None or np.shape(stored) != np.shape(fresh):
        return False
    return bool(np.abs(stored - fresh).max(initial=0.0) <= allowed * max(np.abs(fresh).max(initial=0.0), 1e-300))


def _same_samples(core: Coreset, data: Sample, kept: Sample) -> bool:
    positions = core.indices if data.origin is None else np.searchsorted(data.origin, core.indices)
    if not len(core) or positions.max() >= len(data):
        return False
    if data.origin is not None and not np.array_equal(data.origin[positions], core.indices):
        return False
    return all(abs(full[positions] - own[:]).max() == 0 for full, own in zip(data.views, kept.views, strict=True))


def latent_loss(core: Coreset, query: Any) -> float:
    """See :meth:`karat.Coreset.loss`: the contraction of the whitened tensor at a vector of k numbers."""
    assert isinstance(core.problem, Latent)
    kept = kept_sample(core)
    return core.problem.contraction(kept, own_maps(core, kept), query)
