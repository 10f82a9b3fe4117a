"""Construction of a coreset: checked inputs, one reduction per group, and a certificate; and the
coreset of a union, from those of its parts, which takes the same steps.

data        = read_rows(X, y, ...)               # a Table; a latent problem is lowered first
reductions  = build(data.rows(), data.kernel)    # few rows, the same moments, a proof
              (or reduce_many, where there are groups)
fields      = assembled(reductions)              # certified, or NotExactError

A latent problem is lowered as in files:

sample      = what the problem looks at: rows, documents, windows of three steps, triples of views
maps        = problem.maps(sample)    # one pass: whitening, and the rest that makes it linear
data        = the views of the sample, which KnownMaps(problem, maps), an ordinary problem, reads

Merging is exact because moments add up: the rows of both parts are reduced again.  Frames with
categories and missing values are handed to karat.coreset_files, which learns levels and means in a
pass of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from karat.core import regression
from karat.core.certify import certify, require_proven
from karat.core.provenance import merged_provenance, same_source, with_provenance
from karat.core.synthetic import SYNTHETIC, in_doubles, merge_made
from karat.data import containers
from karat.data.advice import explain_non_finite
from karat.data.arguments import check_taken
from karat.data.batch import Table, check_weights, read_input, stored_weights
from karat.data.containers import take_rows
from karat.data.labels import same_kind
from karat.data.stacking import stack_rows
from karat.engine.claim import Claim, Reduction
from karat.engine.fourth_moments import FourthSums
from karat.engine.groups import reduce_many
from karat.engine.kernel import Kernel, NonFiniteError
from karat.engine.linalg import Indices
from karat.engine.reduce import build, keep_all_rows
from karat.engine.rows import Progress
from karat.engine.tolerances import EXACT
from karat.errors import InputError, NotExactError
from karat.problems import Problem
from karat.problems.absorb.correction import Correction
from karat.problems.latent import KnownMaps, Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, sequence_steps

if TYPE_CHECKING:
    from karat.core.coreset import Coreset
from importlib import import_module
from typing import TYPE_CHECKING

from karat.data.containers import is_frame

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

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
    check_equal_rows([len(table) for table in tables])
    return tables


def check_equal_rows(counts: list[int]) -> None:
    """Raise unless three views have equally many rows."""
    if len(set(counts)) > 1:
        raise InputError(
            f"The three views have {', '.join(map(str, counts))} rows; they must have equally many."
        )


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
        if len(tables) > 1:
            views = enumerate(tables, 1)
            names = [f"{name} of view {view}" for view, table in views for name in table.names]
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
            f"The rows of one coreset are of type {type(first.X).__name__}, those of the other of"
            f" type {type(second.X).__name__}; build both from the same kind of table."
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
                fourth=_joined_fourth(first, second),
            )
        except NonFiniteError:
            raise table.explain_non_finite() from None
        lost = regression.notes_of_merging(first.regression, second.regression)
        said = tuple(dict.fromkeys([*union.certificate.notes, *lost]))
        union = replace(union, certificate=replace(union.certificate, notes=said))
        return with_provenance(union, union.provenance)
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
    merged = replace(
        merged,
        verbatim=None,
        certificate=merged.certificate.of_coresets(),
        regression=regression.merged_regression(first.regression, second.regression),
        fourth=_joined_fourth(first, second),
    )
    lost = regression.notes_of_merging(first.regression, second.regression)
    merged = with_provenance(merged, provenance, lost)
    return _renumbered(merged, origin[merged.indices], first.n_rows + second.n_rows, keys)


def _joined_fourth(first: Coreset, second: Coreset) -> FourthSums | None:
    """The fourth moments of both, where both have them."""
    if first.fourth is None or second.fourth is None:
        return None
    return FourthSums.joined([first.fourth, second.fourth])


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


def encoded_coreset(
    X: Any, y: Any, problem: Any, lengths: Any, method: str, **options: Any
) -> Coreset:
    """The coreset of a frame with encoded columns."""
    _check_encoded(X, y, options["sample_weight"], options["groups"], lengths, method)
    # imported by name, because files are read above this room
    core: Coreset = import_module("karat.io").coreset_files(X, y, problem, **options)
    return core


def _check_encoded(
    X: Any, y: Any, sample_weight: Any, groups: Any, lengths: Any, method: str
) -> None:
    """Raise unless columns can be encoded: of a frame whose other columns are given by name."""
    for argument, value in {"y": y, "sample_weight": sample_weight, "groups": groups}.items():
        if not (value is None or isinstance(value, str) or (argument == "y" and _are_names(value))):
            raise InputError(
                f"one_hot and on_missing read columns by name; put {argument} into the frame, and"
                f" pass {argument}= the name of its column.",
                argument=argument,
            )
    if not (is_frame(X) or hasattr(X, "__arrow_c_stream__")):
        raise InputError(
            "one_hot and on_missing need a frame with named columns; X is of type"
            f" {type(X).__name__}.",
            argument="X",
        )
    if lengths is not None or method != "auto":
        raise InputError("one_hot and on_missing cannot be combined with lengths or method.")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
