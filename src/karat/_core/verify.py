"""Verification: the kept rows of a coreset, measured against full data."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from karat._core.certify import Certificate, centred_kernel, certify_again, measure_again
from karat._core.construct import read_rows
from karat._core.coreset import Coreset
from karat._core.latent import Samples
from karat._data.checks import Table
from karat._data.frames import aligned
from karat.engine.groups import measure_many
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Flags, Indices
from karat.engine.peel import PEELED, wild_rows
from karat.engine.powers import Powers
from karat.engine.proof import Proof
from karat.engine.reduce import NonFiniteError, Reduction, better, fit_moments
from karat.engine.rows import Rows, own_weights, pass_over, sample
from karat.errors import InputError

NOTHING = replace(Proof.trivial(2), loss_error=np.inf)  # proven


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite is noticed, and explained
def verify(core: Coreset, X: Any, y: Any, sample_weight: Any, groups: Any, lengths: Any) -> Certificate:
    """See :meth:`karat.Coreset.verify`."""
    start = time.perf_counter()
    data = read_rows(aligned(X, core.X), y, core.problem, sample_weight, groups, lengths, core.maps)
    if (core.groups is None) != (groups is None):
        raise InputError(
            "The coreset " + ("has no groups" if core.groups is None else "was built with groups") + "; verify it likewise."
        )
    own: Any = data.kept(core)
    if own.shape != data.shape:
        raise InputError(f"The coreset has {own.shape}, the data has {data.shape}.")
    known, refutations = shared_groups(core, data.labels)
    reductions = measured(core, data, own, known)
    refutations += data.differences(core, own)
    seconds = time.perf_counter() - start
    return certify_again(core, reductions, data.total, data.n_rows, seconds, refutations, data.notes)


def measured(core: Coreset, data: Table | Samples, own: Any, labels: list[Any]) -> list[Reduction]:
    """The kept rows of every group, which are ``own`` as ``data`` reads them, against all rows of the group."""
    stacked = _in_stacks(core, data, own, labels)
    return [stacked.get(place) or _group(core, data, own, label) for place, label in enumerate(labels)]


def shared_groups(core: Coreset, labels: list[Any]) -> tuple[list[Any], list[str]]:
    """Those groups of the data that the coreset has, and a refutation if they are not the same."""
    if core.groups is None:
        return labels, []
    own = set(np.unique(core.groups))
    known = [label for label in labels if label in own]
    if not known:
        raise InputError("None of the groups of this data is a group of the coreset.")
    return known, [] if len(known) == len(labels) == len(own) else ["The groups are not those of the coreset."]


def _in_stacks(core: Coreset, data: Any, own: Any, labels: list[Any]) -> dict[int, Reduction]:
    """What stacks of groups prove, by the places of their labels."""
    if len(labels) == 1 or data.grouping is None:
        return {}
    (rows, starts), (kept, kept_starts) = data.grouped_rows(), own.grouped_rows()
    places, kept_places = (part.grouping.places(labels) for part in (data, own))
    counts, kept_counts = np.diff(starts)[places], np.diff(kept_starts)[kept_places]
    kernel = data.kernel(core.problem)
    found = measure_many(rows, starts[places], counts, kept, kept_starts[kept_places], kept_counts, kernel)
    rank = core.certificate.rank
    return {place: replace(one, rank=rank, method="verified on the full data") for place, one in found.items()}


def _group(core: Coreset, table: Table | Samples, own: Table | Samples, label: Any) -> Reduction:
    """The coreset measured against the full data of one group."""
    rows, kept = table.rows(label), own.rows(label)
    among, index = own.index(label), table.index(label)
    numbers = core.indices if among is None else core.indices[among]
    places = np.clip(numbers if index is None else np.searchsorted(index, numbers), 0, len(rows) - 1)
    if core.certificate.levels > 1:  # all levels together would be a weaker claim
        return _by_levels(core, table, rows, kept, places)
    found = _against(core, table, rows, kept)
    if found.proof.ok or core.absorbed:
        return found
    found = better(found, _by_levels(core, table, rows, kept, places))  # a merged coreset may be one of levels too
    if found.proof.ok:
        return found
    # Rows that are kept with their own weights cancel exactly.  Without them the rest may be provable.
    alone, where = _verbatim(rows, kept, numbers, index)
    if alone.all() and len(where) == len(rows):
        return replace(found, proof=Proof.trivial(found.proof.power))
    if not alone.any() or len(where) == len(rows) or alone.all():
        return found
    rest = _against(core, table, rows.subset(np.setdiff1d(np.arange(len(rows)), where)), kept.subset(np.flatnonzero(~alone)))
    weights = np.concatenate([rest.weights, own_weights(kept, np.flatnonzero(alone))])
    return replace(rest, positions=np.arange(len(kept)), weights=weights) if rest.proof.ok else found


def _by_levels(core: Coreset, table: Table | Samples, rows: Rows, kept: Rows, places: Indices) -> Reduction:
    """Kept rows, at ``places`` of all rows, measured level by level; the worst of what is found."""
    fitted, _ = _fitted(table, rows, table.kernel(core.problem))
    _, wild = wild_rows(rows, fitted)
    if not 0 < len(wild) < len(rows):
        return _against(core, table, rows, kept)
    beyond = np.isin(places, wild)
    if beyond.all():
        return replace(_against(core, table, rows, kept), proof=NOTHING)
    rest = np.setdiff1d(np.arange(len(rows)), wild)
    inner, outer = kept.subset(np.flatnonzero(~beyond)), kept.subset(np.flatnonzero(beyond))
    found = _by_levels(core, table, rows.subset(rest), inner, np.searchsorted(rest, places[~beyond]))
    if len(wild) <= PEELED * max(1, found.fitted.kernel.width):  # kept as they are
        same = np.array_equal(places[beyond], wild)
        same = same and np.array_equal(own_weights(outer, np.arange(len(outer))), own_weights(rows, wild))
        worst = found if same else replace(found, proof=NOTHING)
    else:
        other = _by_levels(core, table, rows.subset(wild), outer, np.searchsorted(wild, places[beyond]))
        worst = min(found, other, key=lambda one: one.proof.merit)
    everything = np.arange(len(kept))
    return replace(worst, positions=everything, weights=own_weights(kept, everything), levels=core.certificate.levels)


def _fitted(table: Table | Samples, rows: Rows, kernel: Kernel) -> tuple[FittedMoments, int]:
    """Moments of all rows, in coordinates fitted to a sample, and passes."""
    try:
        return fit_moments(rows, kernel, sample(np.random.default_rng(1), len(rows), 16384))
    except NonFiniteError:
        raise table.explain_non_finite() from None


def _against(core: Coreset, table: Table | Samples, rows: Rows, kept: Rows) -> Reduction:
    """Kept rows measured against all rows, in any coordinates in which that is a proof."""
    fitted, passes = _fitted(table, rows, table.kernel(core.problem))
    found = measure_again(core, rows, fitted, kept, passes, table.unit)
    if core.absorbed:
        return found
    kernel = centred_kernel(found)
    if kernel is not None:
        centred = kernel.fitted_moments(pass_over(rows, kernel), rows.total, last=True)
        found = better(found, measure_again(core, rows, centred, kept, passes + 1))
    plain = table.kernel(core.problem)
    if not found.proof.ok and found.proof.excluded and isinstance(plain, Powers):
        restored, more = _fitted(table, rows, plain.keeping_all())
        found, passes = better(found, measure_again(core, rows, restored, kept, passes + more)), passes + more
    return found


def _verbatim(rows: Rows, kept: Rows, numbers: np.ndarray, index: Indices | None) -> tuple[Flags, Indices]:
    """Which kept rows are rows of the data with their own weights, and their positions in the data."""
    where = numbers if index is None else np.searchsorted(index, numbers)
    there = where < len(rows)
    if index is not None:
        there[there] = index[where[there]] == numbers[there]
    places, everything, zeros = np.where(there, where, 0), np.arange(len(kept)), np.zeros(rows.columns)
    same = (rows.take(places, zeros) == kept.take(everything, zeros)).all(axis=1)
    alone = there & same & (own_weights(rows, places) == own_weights(kept, everything))
    return alone, where[alone]
