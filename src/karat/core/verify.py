"""Verification: the kept rows of a coreset, measured against full data."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.core.certify import Certificate, certify_again
from karat.core.construct import read_rows
from karat.core.provenance import Provenance
from karat.core.synthetic import SYNTHETIC, readable_by_doubles
from karat.core.verify_synthetic import measured_again, verified
from karat.data import containers
from karat.data.arguments import aligned, named_columns
from karat.data.batch import Table, read_input
from karat.data.labels import like_stored
from karat.engine.claim import ErrorBudget, Proof, Reduction
from karat.engine.groups import measure_many
from karat.engine.kernel import FittedMoments, Kernel, NonFiniteError, fit_moments
from karat.engine.linalg import Flags, Indices
from karat.engine.parts import Offsets
from karat.engine.points import PEELED, wild_rows
from karat.engine.powers import Powers
from karat.engine.precise_proof import PreciseFrame, prove_precisely
from karat.engine.proof import measure
from karat.engine.reduce import better
from karat.engine.rows import Rows, own_weights, pass_over, sample
from karat.engine.tolerances import EXACT
from karat.errors import InputError
from karat.problems import Problem

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

FEW = 2**22  # numbers whose second moments are summed in twice the precision, if need be
COMPARED = 2**22  # numbers of kept rows that are compared with the data at a time
OTHER_ROWS = "The kept rows are not the rows of this data at the stored indices."
SAME_WEIGHT = 1e-6  # relative difference of total weights up to which a level was reduced by itself


# what is not finite is noticed, and explained
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def verify(
    core: Coreset, X: Any, y: Any, sample_weight: Any, groups: Any, lengths: Any
) -> Certificate:
    """See :meth:`karat.Coreset.verify`."""
    start = time.perf_counter()
    y = target_among(core, X) if y is None else y
    X, y, sample_weight, groups, _ = named_columns(X, y, sample_weight, groups)
    data = read_rows(aligned(X, core.X), y, core.problem, sample_weight, groups, lengths, core.maps)
    if core.rows == SYNTHETIC:
        data = readable_by_doubles(data)
    if (core.groups is None) != (groups is None):
        raise InputError(
            "The coreset "
            + ("has no groups" if core.groups is None else "was built with groups")
            + "; verify it the same way."
        )
    if core.groups is not None and data.groups is not None:
        data = replace(data, groups=like_stored(data.groups, np.asarray(core.groups)))
    kept = kept_like(data, core)
    if kept.shape != data.shape:
        raise InputError(f"The coreset has {kept.shape}, the data has {data.shape}.")
    labels, refutations = shared_groups(core, data.labels)
    if core.rows == SYNTHETIC:
        reductions, missing = measured_again(core, data, kept, labels)
        refutations += [*missing, *_other_size(data, core)]
        seconds = time.perf_counter() - start
        return verified(core, reductions, data.total, data.n_rows, seconds, refutations, data.notes)
    reductions = measured(core, data, kept, labels)
    refutations += _contradictions(data, core, kept)
    seconds = time.perf_counter() - start
    return certify_again(
        core, reductions, data.total, data.n_rows, seconds, refutations, data.notes
    )


def measured(core: Coreset, data: Table, kept: Table, labels: list[Any]) -> list[Reduction]:
    """The kept rows of every group, read as ``data`` is, measured against all rows of the group."""
    stacked = _in_stacks(core, data, kept, labels)
    return [
        stacked.get(place) or _group(core, data, kept, label) for place, label in enumerate(labels)
    ]


def shared_groups(core: Coreset, labels: list[Any]) -> tuple[list[Any], list[str]]:
    """The groups that data and coreset share, and a refutation if either has others."""
    if core.groups is None:
        return labels, []
    core_labels = set(np.unique(core.groups))
    shared = [label for label in labels if label in core_labels]
    if not shared:
        raise InputError("None of the groups of this data is a group of the coreset.")
    return shared, (
        []
        if len(shared) == len(labels) == len(core_labels)
        else ["The groups are not those of the coreset."]
    )


def _in_stacks(
    core: Coreset, data: Table, own_table: Table, labels: list[Any]
) -> dict[int, Reduction]:
    """The reductions that stacks of groups prove, by the places of their labels."""
    if len(labels) == 1 or data.grouping is None or own_table.grouping is None:
        return {}
    (rows, starts), (kept_rows, kept_starts) = data.grouped_rows(), own_table.grouped_rows()
    places, kept_places = data.grouping.places(labels), own_table.grouping.places(labels)
    counts, kept_counts = np.diff(starts)[places], np.diff(kept_starts)[kept_places]
    kernel = data.kernel
    reductions = measure_many(
        rows, starts[places], counts, kept_rows, kept_starts[kept_places], kept_counts, kernel
    )
    rank = core.certificate.rank
    return {
        place: replace(reduction, rank=rank, method="verified on the full data")
        for place, reduction in reductions.items()
    }


def _group(core: Coreset, table: Table, own_table: Table, label: Any) -> Reduction:
    """The coreset measured against the full data of one group."""
    rows, kept = table.rows(label), own_table.rows(label)
    among, index = own_table.index(label), table.numbers_of(label)
    assert core.indices is not None
    numbers = core.indices if among is None else core.indices[among]
    places = np.clip(
        numbers if index is None else np.searchsorted(index, numbers), 0, len(rows) - 1
    )
    if core.absorbed:
        return _against(core, table, rows, kept, *_fit_all_rows(table, rows, table.kernel))
    verbatim = core.verbatim if core.verbatim is None or among is None else core.verbatim[among]
    claimed = core.certificate.peeled if core.groups is None else 0
    peeled = claimed if verbatim is None else int(verbatim.sum())
    return _measure_by_levels(core, table, rows, kept, places, peeled, verbatim)


def _measure_by_levels(
    core: Coreset, table: Table, rows: Rows, kept: Rows, places: Indices, peeled: int,
    verbatim: Flags | None
) -> Reduction:  # fmt: skip
    """Kept rows, at ``places`` of all rows, measured level by level if they were made so; the worst
    reduction of all levels.

    All rows together would be a weaker claim, relative to the size of the largest rows.  ``peeled``
    rows are kept as they are; ``verbatim`` says which, where that is known.
    """
    fitted, passes = _fit_all_rows(table, rows, table.kernel)
    _, wild = wild_rows(rows, fitted)
    beyond, weights = np.isin(places, wild), own_weights(kept, np.arange(len(kept)))
    together = partial(
        _one_level, core, table, rows, kept, places, fitted, passes, peeled > 0, verbatim
    )
    if not core.certificate.levels:  # the levels of merged coresets are not those of all rows
        reduction = _against(core, table, rows, kept, fitted, passes)
        if reduction.proof.ok:
            return reduction
    if not 0 < len(wild) < len(rows) or beyond.all():
        return together()
    wild_weights, few = own_weights(rows, wild), len(wild) <= PEELED * max(1, fitted.kernel.width)
    if few:  # kept as they are, and on purpose?  A large row may have its own weight by chance
        apart = np.array_equal(places[beyond], wild) and np.array_equal(
            weights[beyond], wild_weights
        )
        apart &= verbatim is None or bool(verbatim[beyond].all())
    else:  # in some group; a level keeps its total weight
        apart = core.certificate.levels != 1 and bool(
            abs(weights[beyond].sum() / wild_weights.sum() - 1.0) <= SAME_WEIGHT
        )
    if not apart:
        return together()
    worst: Reduction | None = None
    for members, among in (
        (np.setdiff1d(np.arange(len(rows)), wild), ~beyond),
        *(() if few else ((wild, beyond),)),
    ):
        part, kept_part = rows.subset(members), kept.subset(np.flatnonzero(among))
        fitted, passes = _fit_all_rows(table, part, table.kernel)
        others = peeled > (len(wild) if few else 0)  # peeled as well
        flags = None if verbatim is None else verbatim[among]
        reduction = _one_level(
            core,
            table,
            part,
            kept_part,
            np.searchsorted(members, places[among]),
            fitted,
            passes,
            others,
            flags,
        )
        worst = reduction if worst is None else min(worst, reduction, key=lambda r: r.proof.merit)
    assert worst is not None
    return replace(worst, positions=np.arange(len(kept)), weights=weights, levels=1 if few else 2)


def _one_level(
    core: Coreset, table: Table, rows: Rows, kept: Rows, places: Indices, fitted: FittedMoments,
    passes: int, peeled: bool, verbatim: Flags | None,
) -> Reduction:  # fmt: skip
    """Kept rows against all rows; without those that have their own values and weights, if some
    were kept so or it must be.

    First without those that were kept so on purpose: others may have their own weights by chance,
    and errors are relative to what is left.
    """
    found = None if peeled else _against(core, table, rows, kept, fitted, passes)
    if found is not None and found.proof.ok:
        return found
    everything, zero = np.arange(len(kept)), np.zeros(rows.columns)
    own = (rows.take(places, zero) == kept.take(everything, zero)).all(axis=1)
    own &= own_weights(rows, places) == own_weights(kept, everything)
    own &= np.isin(everything, np.unique(places, return_index=True)[1])  # each counts once
    some = own if verbatim is None else own & verbatim
    for left_out in (own,) if not some.any() or (some == own).all() else (some, own):
        others = np.setdiff1d(np.arange(len(rows)), places[left_out])
        if not left_out.any() or left_out.all() != (not len(others)):
            continue
        if left_out.all():  # all rows, as they are
            measured = replace(
                _against(core, table, rows, kept, fitted, passes),
                proof=Proof.trivial(core.certificate.power),
            )
        else:
            rest = rows.subset(others), kept.subset(np.flatnonzero(~left_out))
            try:
                fitted_rest = _fit(rest[0], table.kernel)
            except NonFiniteError:  # powers of the rest alone leave the doubles: no proof there
                continue
            measured = _against(core, table, *rest, *fitted_rest)
        found = better(
            found, replace(measured, positions=everything, weights=own_weights(kept, everything))
        )
        if found.proof.ok:
            return found
    return _against(core, table, rows, kept, fitted, passes) if found is None else found


def _fit(rows: Rows, kernel: Kernel) -> tuple[FittedMoments, int]:
    """Moments of these rows, in coordinates fitted to a sample, and passes."""
    return fit_moments(rows, kernel, sample(np.random.default_rng(1), len(rows), 16384))


def _fit_all_rows(table: Table, rows: Rows, kernel: Kernel) -> tuple[FittedMoments, int]:
    """The same of all rows of a table, which are named where that is not possible."""
    try:
        return _fit(rows, kernel)
    except NonFiniteError:
        raise table.explain_non_finite() from None


def _against(
    core: Coreset, table: Table, rows: Rows, kept: Rows, fitted: FittedMoments, passes: int
) -> Reduction:  # fmt: skip
    """Kept rows measured against all rows, in any coordinates in which that is a proof."""
    found = measure_again(core, rows, fitted, kept, passes, table.unit)
    if core.absorbed:
        return found
    kernel = centred_kernel(found)
    if kernel is not None:
        try:
            centred = kernel.fitted_moments(pass_over(rows, kernel), rows.total, last=True)
            found = better(found, measure_again(core, rows, centred, kept, passes + 1))
        except NonFiniteError:  # other coordinates are tried, and prove nothing here
            pass
    plain = table.kernel
    if not found.proof.ok and found.proof.excluded and isinstance(plain, Powers):
        try:
            restored, more = _fit(rows, plain.keeping_all())
        except NonFiniteError:  # a dropped direction so small that its powers are not numbers
            return found
        found = better(found, measure_again(core, rows, restored, kept, passes + more))
    if found.proof.ok or found.proof.reducible_error > EXACT or len(rows) * rows.columns > FEW:
        return found
    if found.fitted.frame is not None and found.fitted.frame.degree > 2:
        return better(found, _measured_in_pairs(core, found, rows, kept))
    return better(found, _measured_precisely(found, plain, rows, kept))


def _measured_in_pairs(core: Coreset, found: Reduction, rows: Rows, kept: Rows) -> Reduction:
    """The same where the rounding of sums of powers above 2 prevents a proof: these in twice the
    precision.
    """
    fitted, everything = found.fitted, np.arange(len(rows))
    if not isinstance(fitted.kernel, Powers) or fitted.kernel.single or fitted.frame is None:
        return found
    variables = fitted.kernel.base_variables(rows.take(everything, fitted.kernel.shift))
    frame = PreciseFrame.of(
        fitted.frame, fitted.frame.coordinates(variables), own_weights(rows, everything)
    )
    return measure_again(core, rows, replace(fitted, frame=frame), kept, found.passes)


def _measured_precisely(found: Reduction, kernel: Kernel, rows: Rows, kept: Rows) -> Reduction:
    """The same in twice the precision, where only the rounding of coordinates prevents a proof of
    squared losses.
    """
    if not isinstance(kernel, Powers) or kernel.degree != 2 or not kernel.affine or kernel.single:
        return found
    (values, weights), (kept_values, kept_weights) = (
        (some.take(everything, np.zeros(some.columns))[:, 1:], own_weights(some, everything))
        for some, everything in ((rows, np.arange(len(rows))), (kept, np.arange(len(kept))))
    )
    targets = max(1, kernel.separate_targets)  # their squares are kept, not their products
    inner = list(range(rows.columns - targets))
    proofs = [
        prove_precisely(values[:, part], weights, kept_values[:, part], kept_weights)
        for part in ([*inner, len(inner) + target] for target in range(targets))
    ]
    proven = [proof for proof in proofs if proof is not None]
    if len(proven) < targets:
        return found
    return replace(found, proof=max(proven, key=lambda proof: proof.loss_error))


def kept_like(data: Table, core: Coreset) -> Table:
    """The rows that a coreset keeps, read as those of ``data`` are."""
    return kept_table(core, data.problem, data.unit, data.offsets)


def kept_table(
    core: Coreset, problem: Problem, unit: float = 1.0, offsets: Offsets | None = None
) -> Table:
    """The rows of a coreset, numbered by its indices, as the rows of its data are read;
    ``problem``: its own, lowered.
    """
    parts = problem.kept_parts(core)
    if parts is None:
        table = read_input(core.X, core.y, problem, core.weights, core.groups, unit, offsets)
    else:
        widths = [int(part.shape[1]) for part in parts]
        table = Table(
            parts, None, core.weights, names=[str(i) for i in range(sum(widths))],
            n_rows=core.n_rows, problem=problem, shape=f"{', '.join(map(str, widths))} columns",
        )  # fmt: skip
    return replace(table, numbers=core.indices, keys=core.keys)


def _contradictions(data: Table, core: Coreset, kept: Table) -> list[str]:
    """Differences to a coreset other than in moments: other maps or rows, or ``kept`` rows not at
    their indices.
    """
    other_size = _other_size(data, core)
    changes = [*data.problem.changed_maps(core.maps, data.maps), *other_size]
    assert core.indices is not None
    same_rows = other_size or _has_rows(data, kept, core.indices)
    return changes if same_rows else [*changes, OTHER_ROWS]


def _other_size(data: Table, core: Coreset) -> list[str]:
    """A sentence if the coreset was made of another number of rows than the data has."""
    if core.n_rows == data.n_rows:
        return []
    return [f"The coreset was made of {core.n_rows:,} rows, the data has {data.n_rows:,}."]


def _has_rows(data: Table, kept: Table, indices: Indices) -> bool:
    """Whether kept rows are the rows of the input at ``indices``."""
    places = indices if data.numbers is None else np.searchsorted(data.numbers, indices)
    if not len(places) or places.max() >= len(data):
        return False
    if data.numbers is not None and not np.array_equal(data.numbers[places], indices):
        return False
    zeros, everything = np.zeros(data.columns + data.targets), np.arange(len(places))
    full, few = (Rows(table.parts, offsets=table.offsets) for table in (data, kept))
    step = max(1, COMPARED // len(zeros))  # sparse rows may have many columns
    return all(
        np.array_equal(full.take(places[block], zeros), few.take(everything[block], zeros))
        for block in (slice(start, start + step) for start in range(0, len(places), step))
    )


def measure_again(
    core: Coreset,
    rows: Rows | None,
    fitted: FittedMoments,
    kept: Rows,
    passes: int,
    unit: float = 1.0,
    witnesses: Rows | None = None,
) -> Reduction:
    """The kept rows of a coreset measured against the fitted moments of all rows.

    ``rows`` are all rows, if they can be read again; else ``witnesses`` are some of them.  Weights
    are in units of ``unit``.
    """
    positions = np.arange(len(kept))
    weights, budget = own_weights(kept, positions), ErrorBudget.claimed(core.certificate.rounding)
    proof = measure(
        rows, fitted, kept.take(positions, fitted.kernel.shift), weights, witnesses, budget
    )
    if core.absorbed:  # else the rows carry everything, with or without a regulariser
        assert rows is not None
        error = core.problem.absorbed_error(rows, fitted, kept, core.absorbed, unit)
        proof = replace(proof, loss_error=error, moment_error=error, remainder=0.0)
    return Reduction(
        positions,
        weights,
        fitted,
        core.certificate.rank,
        proof,
        "verified on the full data",
        passes,
    )


def centred_kernel(reduction: Reduction) -> Kernel | None:
    """The kernel of features about the means, in which an unproven reduction is measured again;
    None if it is proven or there is no such kernel.
    """
    linear = None if reduction.proof.ok else reduction.fitted.linear
    return None if linear is None else linear.kernel.centred(linear)


def own_targets(core: Coreset) -> list[str] | None:
    """The names of the target columns of a coreset itself; None if they have none."""
    names = list(containers.columns_of(core.y)) if containers.is_frame(core.y) else []
    return names if names and not {"", "None"} & set(names) else None


def target_among(core: Coreset, X: Any) -> Any:
    """The target of a coreset by name, where X is a frame that has its column; else None."""
    if core.y is None or not containers.is_frame(X) or containers.dimensions(X) != 2:
        return None
    names = Provenance.read(core.provenance).targets or own_targets(core)
    if not names or not set(names) <= set(containers.as_narwhals(X).columns):
        return None
    return names[0] if len(names) == 1 else names
