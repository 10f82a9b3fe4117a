"""Coresets of synthetic rows: how they are made and merged (:mod:`karat.engine.synthetic`).

A made row is no row of the data: it has no number and no key, only a weight and a *stratum*, which
says what it was made of:

    ORDINARY  rows of the data
    WILD      rows that are far larger than the others, if they are many; these are made by
              themselves
    VERBATIM  one such row, as it is, if they are few

The claim of the certificate is that of squares of affine forms of all columns, whatever the
problem.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from karat.compat import array_api
from karat.core.certify import Certificate, certify
from karat.core.provenance import Provenance, merged_provenance
from karat.core.wording import readable
from karat.data import containers
from karat.data.batch import Table, stored_weights
from karat.engine.claim import Claim, Reduction
from karat.engine.groups import synthesise_many
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.points import PEELED
from karat.engine.rows import Progress
from karat.engine.synthetic import ORDINARY, VERBATIM, WILD, MadeRows, synthesise
from karat.engine.tolerances import EXACT
from karat.errors import InputError, NotExactError, check_choice, several
from karat.problems import Problem

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

RowKind = Literal["real", "synthetic"]
Verbatim = Literal["keep", "error"]
REAL, SYNTHETIC = "real", "synthetic"
KEEP, REFUSE = "keep", "error"
AT_ONCE = 2**16  # rows of a group on an accelerator that are worth sums of their own there
# ulps of its values by which a column may differ from a combination of others, and not be to blame
RESOLVED = 2.0**24
# What made rows do not keep, in place of what is said of real ones.
NOT_LINEAR = "anything that is not linear in the columns as they stand"
NOT_PRIVATE = (
    "differential privacy (second moments of few rows, or of many columns, tell about single rows)"
)


class RowChoice(NamedTuple):
    """The arguments ``rows`` and ``verbatim`` of :func:`karat.coreset`."""

    rows: Any = REAL
    verbatim: Any = KEEP


def made_memory(columns: int) -> tuple[int, int]:
    """Bytes of a pass that sums second moments: those that do not depend on its rows, and bytes per
    row.
    """
    return 8 * 8 * (columns + 1) ** 2, 8 * (8 * columns + 4)


def check_rows_argument(rows: str, problem: Problem, method: str, verbatim: str) -> None:
    """Raise unless rows of that kind can be made for the problem."""
    check_choice("rows", rows, REAL, SYNTHETIC)
    check_choice("verbatim", verbatim, KEEP, REFUSE)
    if rows == REAL:
        if verbatim != KEEP:
            raise InputError(
                "verbatim='error' is for rows='synthetic': real rows are records of the data"
                " anyway.",
                argument="verbatim",
            )
        return
    if problem.needs_real_rows:
        raise InputError(
            f"rows='synthetic' serves squared losses only. {problem.needs_real_rows}",
            argument="rows",
        )
    if method != "auto":
        raise InputError(
            f"rows='synthetic' has one method; leave out method={method!r}, or take rows='real'.",
            argument="method",
        )


def readable_by_doubles(table: Table) -> Table:
    """The table with offsets of long integers that doubles hold: made rows are stored as
    doubles.
    """
    offsets = {column: int(float(offset)) for column, offset in (table.offsets or {}).items()}
    return replace(table, offsets=offsets) if offsets else table


def synthesised(table: Table, seed: int, progress: Progress | None = None) -> list[MadeRows]:
    """Made rows of every group, in the order of ``table.labels``."""
    one, large = len(table.labels) == 1, table.n_rows >= AT_ONCE * len(table.labels)
    if one or (large and table.rows(table.labels[0]).on_device):
        return [
            synthesise(table.rows(label), seed, progress, origin=table.origin)
            for label in table.labels
        ]
    return synthesise_many(*table.grouped_rows(), seed, progress, origin=table.origin)


def made_fields(
    problem: Problem, table: Table, X: Any, y: Any, reductions: list[MadeRows], start: float,
    verbatim: str
) -> dict[str, Any]:  # fmt: skip
    """The fields of a coreset of made rows; raise if it is not exact, or keeps rows that it must
    not.
    """
    strata = np.concatenate([made.strata for made in reductions])
    if verbatim == REFUSE and (strata == VERBATIM).any():
        raise _records_would_leave(table, reductions)
    weights = stored_weights(np.concatenate([made.weights for made in reductions]), table.unit)
    seconds = time.perf_counter() - start
    notes = [
        *table.notes,
        *note_on_few([len(table.rows(label)) for label in table.labels], verbatim),
    ]
    certificate = certify_made(problem, reductions, table.total, table.n_rows, seconds, notes)
    require_exact(certificate, reductions, table.names, table.origin)
    values = np.vstack([made.values for made in reductions]) + table.origin
    columns = table.columns
    sizes = [len(made.values) for made in reductions]
    return {
        "indices": None,
        "weights": weights,
        "X": made_like(X, values[:, :columns]),
        "y": None if y is None else made_like(y, values[:, columns:]),
        "groups": None if table.groups is None else np.repeat(np.array(table.labels), sizes),
        "n_rows": table.n_rows,
        "problem": problem,
        "certificate": certificate,
        "verbatim": strata == VERBATIM,
        "rows": SYNTHETIC,
        "strata": strata,
    }


def made_like(table: Any, values: np.ndarray) -> Any:
    """Other rows, as doubles, in a container like that of a table: a frame of its library with its
    names; else an array.
    """
    flat = containers.dimensions(table) == 1
    if containers.is_foreign(table):
        return array_api.from_host(values[:, 0] if flat else values, table)
    library = containers.frame_library(table)
    if library is None:
        return values[:, 0] if flat else values
    labels = ["None" if label is None else label for label in containers.column_labels(table)]
    return containers.frame_of(library, dict(zip(labels, values.T, strict=True)), flat, None)


def certify_made(
    problem: Problem, reductions: Sequence[Reduction], total: float, n_rows: int, seconds: float,
    notes: Sequence[str] = ()
) -> Certificate:  # fmt: skip
    """The certificate of made rows."""
    found = certify(problem, reductions, total, n_rows, seconds, notes)
    excludes = _not_kept(problem)
    return replace(found, rows=SYNTHETIC, excludes=excludes, verbatim=found.peeled, peeled=0)


def as_made(certificate: Certificate, problem: Problem) -> Certificate:
    """The certificate of rows of which some are made."""
    return replace(certificate, rows=SYNTHETIC, excludes=_not_kept(problem))


def _not_kept(problem: Problem) -> tuple[str, ...]:
    kept = tuple(what for what in problem.excludes if not what.startswith("privacy"))
    return (*kept, NOT_LINEAR, NOT_PRIVATE)


def require_exact(
    certificate: Certificate, reductions: Sequence[Reduction], names: list[str], origin: Array
) -> None:  # fmt: skip
    """Raise unless made rows are proven; the error says why, and names the column that doubles do
    not resolve.
    """
    if certificate.proven:
        return
    if certificate.loss_error <= certificate.tolerance:
        times = readable(certificate.remainder, 1.0, "g")
        off = (
            f"they are exact only for columns that differ by {times} times the rounding that counts"
            " as exact"
        )
    else:
        error = readable(certificate.loss_error, certificate.tolerance)
        off = f"their loss is off by {error}, and up to {certificate.tolerance:.0e} counts as exact"
    worst = min(reductions, key=lambda made: made.proof.merit)
    if worst.proof.ok:
        raise NotExactError(
            "Rows were made of few rows, and of made ones, several times, and all that adds up:"
            f" {off}. Give more rows at a time (buffer_rows, or larger parts), or take real rows"
            " (rows='real')."
        )
    column, ulps = _unresolved(worst, origin)
    if ulps > RESOLVED:
        raise NotExactError(
            f"The made rows cannot be proven: {off}. Column {names[worst.proof.worst]} is furthest"
            " off. Take real rows (rows='real'), or leave out columns that are combinations of"
            " others."
        )
    raise NotExactError(
        f"Column {names[column]} differs from its mean (or from a combination of others) by only"
        f" {ulps:,.3g} ulps of its values; made rows would need more digits than doubles have"
        f" ({off}): subtract a constant, or take real rows (rows='real')."
    )


def _unresolved(made: Reduction, origin: Array) -> tuple[int, float]:
    """The column whose smallest direction is least above the rounding of its values, in units of
    that.
    """
    frame, shift = made.fitted.frame, made.fitted.kernel.shift
    if frame is None:
        return made.proof.worst, 0.0
    rounding = np.spacing(np.abs(shift + origin) + frame.spreads[1:])
    size = np.sqrt(np.maximum(np.diag(frame.second), 0.0) / frame.total)
    parts = np.abs(frame.basis.map[1:]) * rounding[:, None]
    share = parts / np.where(size > 0, size, 1.0)
    column = int(share.max(axis=1).argmax())
    return column, float(1.0 / max(share[column].max(), np.finfo(float).tiny))


def _records_would_leave(table: Table, reductions: list[MadeRows]) -> InputError:
    """The error for rows that would be kept as they are."""
    places = []
    for made, label in zip(reductions, table.labels, strict=True):
        numbers = table.numbers_of(label)
        places += (made.kept if numbers is None else numbers[made.kept]).tolist()
    shown = ", ".join(map(str, sorted(places)[:5])) + (" and others" if len(places) > 5 else "")
    return InputError(
        f"{several(len(places), 'row')} of the data, far from all others, would be kept as "
        f"{'they are (rows' if len(places) > 1 else 'it is (row'} {shown}); "
        "correct or leave out such rows, or allow it with verbatim='keep'.",
        argument="verbatim",
    )


def note_on_few(counts: Sequence[int], verbatim: str) -> list[str]:
    """That rows made of one row or two are these rows, if there are such groups; raise if that must
    not be.
    """
    few = sum(count <= 2 for count in counts)
    if not few:
        return []
    which = (
        "The data has"
        if len(counts) == 1
        else f"{several(few, 'group')} have"
        if few > 1
        else "One group has"
    )
    said = f"{which} one or two rows, and made rows of so few are the rows themselves"
    if verbatim == REFUSE:
        raise InputError(
            f"{said}; leave them out, or allow it with verbatim='keep'.", argument="verbatim"
        )
    return [f"{said}."]


def require_no_records(verbatim: str, count: int) -> None:
    """Raise if rows of a stream would be kept as they are, and must not."""
    if verbatim == REFUSE and count:
        raise InputError(
            f"{several(count, 'row')} of the data, far from all others, would be kept as"
            f" {'they are' if count > 1 else 'it is'}; leave such rows out, or allow it with"
            " verbatim='keep'.",
            argument="verbatim",
        )


def strata_of(core: Coreset) -> Indices:
    """The strata of the rows of a coreset; real rows are ordinary, but for those kept as they
    are.
    """
    if core.strata is not None:
        return core.strata
    verbatim = np.zeros(len(core), dtype=bool) if core.verbatim is None else core.verbatim
    return np.where(verbatim, VERBATIM, ORDINARY)


def in_doubles(core: Coreset) -> Coreset:
    """The coreset with its rows as doubles, as made rows are; a sparse matrix becomes an array."""
    if any(core.minus_offsets()[2]):
        raise NotExactError(
            "The real rows hold integers beyond 2^53, which doubles cannot tell apart; make"
            " both coresets with rows='synthetic', or subtract an offset first."
        )
    X, y = core.arrays()
    y = None if y is None else y.reshape(len(y), -1)
    return replace(
        core, X=made_like(core.X, X),
        y=None if y is None else made_like(core.y, y)
    )  # fmt: skip


def require_affine_squares(core: Coreset) -> None:
    """Raise unless real rows keep what made ones claim: squares of affine forms of all columns."""
    claim, problem = core.certificate, core.problem
    targets = 0 if core.y is None else core.y.shape[1] if containers.dimensions(core.y) > 1 else 1
    whole = len(core) == core.n_rows  # all rows, with their own weights
    if core.rows == SYNTHETIC or whole or (claim.in_columns and problem.shifts and targets == 1):
        return
    lost = (
        "products of different targets"
        if claim.in_columns and problem.shifts
        else "squares of all affine forms"
    )
    raise NotExactError(
        f"Real rows of {problem.describe()} do not keep {lost}, which synthetic rows have: make"
        " both coresets with rows='synthetic'."
    )


def merge_made(
    first: Coreset, second: Coreset, table: Table, X: Any, y: Any, seed: int, start: float
) -> dict[str, Any]:
    """The fields of the coreset of made rows of a union; ``table`` has the rows of both."""
    for core in (first, second):
        require_affine_squares(core)
    strata = np.concatenate([strata_of(first), strata_of(second)])
    inherited = Claim.union([first.certificate, second.certificate])
    reductions = [_merged_group(table, label, strata, seed, inherited) for label in table.labels]
    fields = made_fields(table.problem, table, X, y, reductions, start, KEEP)
    provenance = merged_provenance(first.provenance, second.provenance)
    certificate = fields["certificate"]
    notes = tuple(dict.fromkeys([*certificate.notes, *Provenance.read(provenance).notes]))
    certificate = replace(
        certificate.of_coresets(), notes=notes, n_rows=first.n_rows + second.n_rows
    )
    return fields | {
        "certificate": certificate,
        "provenance": provenance,
        "n_rows": first.n_rows + second.n_rows,
    }


def _merged_group(
    table: Table, label: Any, strata: Indices, seed: int, inherited: Claim
) -> MadeRows:
    """Ordinary rows with ordinary ones, wild ones with wild ones; those kept as they are stay so
    while they are few.
    """
    rows, index = table.rows(label), table.index(label)
    strata = strata if index is None else strata[index]
    alone = np.flatnonzero(strata == VERBATIM)
    if len(alone) > PEELED * (rows.columns + 1):
        strata, alone = np.where(strata == VERBATIM, WILD, strata), alone[:0]

    def made(which: Flags) -> MadeRows:
        found = synthesise(
            rows.subset(np.flatnonzero(which)), seed, levels=False, origin=table.origin, sharp=True
        )
        return replace(found, inherited=inherited)

    found: MadeRows | None = made(strata == ORDINARY) if (strata == ORDINARY).any() else None
    if (strata == WILD).any():
        wild = made(strata == WILD).as_wild()
        found = wild if found is None else found.beside(wild, alone, alone)
    if found is None:
        raise NotExactError("Every row is kept as it is; merge the data itself.")
    if found.proof.ok and not (found.claim.loss_error <= EXACT and found.claim.remainder <= 1.0):
        raise NotExactError(
            f"After this merge the loss may be off by {found.claim.loss_error:.1e} of it, what the"
            " parts inherit included; up to 1e-10 counts as exact. Merge more parts at a time, or"
            " build them from the data."
        )
    return found.with_verbatim(rows, alone) if len(alone) else found
