"""What a cell keeps of its rows: made rows, or some real ones, with a certificate.

The :class:`Reducer` reduces many groups of rows at once, each with its own certificate.

**Synthetic rows** (:mod:`karat.engine.synthetic`) are d + 2 rows with the total weight, the means
and the second moments of all rows.  A cell keeps real rows instead where it has no more than that,
where made rows are not exact, and where wild rows would be a stratum of their own.  Rows of both
kinds add up, so real rows are then reduced to keep what made rows keep: squares of affine forms of
all columns, whatever the problem.

Some rows cannot be reduced with a proof: those with very heavy tails, or kept rows whose inherited
error already reaches the tolerance.  Such rows are all kept.  Rows of the data with their original
weights have no error; kept rows have the error of their certificates (``Certificate.union``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from karat.core.certify import Certificate, certify, require_proven
from karat.core.synthetic import REAL, as_made, certify_made
from karat.cubes.cells import MADE, CellLayout, ranges, starts_of
from karat.data.advice import explain_non_finite
from karat.data.batch import RESCALE, find_offsets
from karat.data.containers import rounds
from karat.engine.claim import Claim, Reduction
from karat.engine.groups import reduce_many, synthesise_many
from karat.engine.kernel import Kernel, NonFiniteError
from karat.engine.linalg import Array, Indices, is_long, one_blas_thread
from karat.engine.parts import minus_offsets
from karat.engine.powers import Powers
from karat.engine.precise_proof import prove_precisely
from karat.engine.reduce import keep_all_rows
from karat.engine.rows import Rows, own_weights
from karat.engine.synthetic import ORDINARY, MadeRows
from karat.engine.tolerances import AFFORD, EXACT
from karat.errors import InputError, NotExactError
from karat.problems import Problem

HUGE = 1e220  # weights between 1 / HUGE and HUGE can be summed without scaling
WHOLE = 10_000  # a cell of up to so many rows keeps all of them if no reduction is proven
MUCH = (
    1 / 16
)  # of the loss error that counts as exact, from which on reductions are proven precisely
STAY = "No reduction of these {} rows could be proven, so all of them are kept."
TOO_LONG = (
    "Column {!r} has integers beyond 2**53, which synthetic rows do not have. Build the cube with"
    " rows='real', or subtract a number from the column."
)
Names = Callable[[int], str]


class ReducedCell(NamedTuple):
    """What is kept of a group of rows."""

    positions: Indices  # from the start of the group; of made rows, 0
    weights: Array
    certificate: Certificate
    values: Array | None = None  # the rows that were made, if they were


def too_long(columns: Sequence[np.ndarray]) -> int | None:
    """The first column whose integers doubles do not hold, if there is one."""
    return next((i for i, column in enumerate(columns) if rounds(column)), None)


def positions_of(kept: Sequence[ReducedCell], starts: Indices) -> Indices:
    """The positions of the kept rows of some cells, among rows in which cell g begins at
    ``starts[g]``.
    """
    places = [start + cell.positions for start, cell in zip(starts, kept, strict=True)]
    return np.concatenate([np.zeros(0, dtype=np.intp), *places])


def with_made(
    kept: Sequence[ReducedCell], columns: Sequence[np.ndarray], numbers: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Columns and numbers of the kept rows of some cells, with the values of those that were
    made.
    """
    values = [cell.values for cell in kept if cell.values is not None]
    if not values:
        return list(columns), numbers
    sizes = [len(cell.positions) for cell in kept]
    made = np.repeat([cell.values is not None for cell in kept], sizes)
    rows, filled = np.vstack(values), [column.copy() for column in columns]
    for column, mine in zip(filled, rows.T, strict=True):
        column[made] = mine
    return filled, np.where(made, MADE, numbers)


@dataclass(frozen=True)
class Reducer:
    """Reduces groups of rows of the same columns.

    Attributes
    ----------
    problem : Problem
    names : tuple of str
        Of the columns: features, then targets.
    targets : int
    seed : int
    makes_rows : bool
        Whether rows are made, where made rows are exact; all columns are doubles then.
    """

    problem: Problem
    names: tuple[str, ...]
    targets: int
    seed: int = 0
    makes_rows: bool = False

    @staticmethod
    def of(problem: Problem, layout: CellLayout, seed: int) -> Reducer:
        """For the rows of a layout that knows its columns."""
        features, targets = layout.roles.features, layout.roles.targets
        return Reducer(problem, features + targets, len(targets), seed, layout.makes_rows)

    @property
    def kernel(self) -> Kernel:
        """What real rows keep."""
        if self.makes_rows:
            return Powers(len(self.names), 2, affine=True)
        return self.problem.kernel(len(self.names) - self.targets, self.targets)

    @property
    def width(self) -> int:
        """The number of rows that are kept of a group, apart from those of special cases."""
        return len(self.names) + 1 if self.makes_rows else self.kernel.width

    @one_blas_thread()
    def reduce(
        self, rows: Rows, starts: Indices, counts: np.ndarray,
        claims: Sequence[Sequence[Certificate]], name: Names | None = None,
    ) -> list[ReducedCell]:  # fmt: skip
        """Reduce groups of rows, one after the other.

        Parameters
        ----------
        rows : Rows
            In the order of their groups; every weight is positive.
        starts : array of shape (groups + 1,)
        counts : array of shape (groups,)
            Rows of the data that each group stands for.
        claims : sequence of sequences of Certificate
            For each group, the certificates of its kept rows; empty if all rows are rows of the
            data.
        name : function, optional
            The name of a group in error messages.
        """
        weights = rows.weights
        if (
            weights is not None
            and len(weights)
            and not (weights.min() >= 1 / HUGE and weights.max() <= HUGE)
        ):
            raise InputError(
                f"A cube takes weights from {1 / HUGE:.0e} to {HUGE:.0e}. {RESCALE}",
                argument="sample_weight",
            )
        sizes, shown = np.diff(starts), [repr(name) for name in self.names]
        everything = np.arange(len(sizes))
        try:
            made = self._made(rows, starts, counts, claims) if self.makes_rows else {}
            left = np.setdiff1d(everything, list(made)) if made else everything
            if made:
                rows = rows.subset(ranges(starts[left], sizes[left]))
            real = self._real(
                rows, starts_of(sizes[left]), counts[left], [claims[g] for g in left],
                None if name is None else lambda g: name(int(left[g])),
            ) if len(left) else []  # fmt: skip
        except NonFiniteError:
            raise explain_non_finite(rows.parts, shown) from None
        kept = made | dict(zip(left.tolist(), real, strict=True))
        return [kept[g] for g in everything.tolist()]

    # Made rows

    def _made(
        self, rows: Rows, starts: Indices, counts: np.ndarray,
        claims: Sequence[Sequence[Certificate]],
    ) -> dict[int, ReducedCell]:  # fmt: skip
        """The groups of which exact rows are made that are fewer."""
        sizes = np.diff(starts)
        many = np.flatnonzero(sizes > self.width)
        if not len(many):
            return {}
        if len(many) < len(sizes):
            rows = rows.subset(ranges(starts[many], sizes[many]))
        sharp = any(len(claims[g]) for g in many.tolist())
        made_rows = synthesise_many(rows, starts_of(sizes[many]), self.seed, sharp=sharp)
        first, kept = starts_of(sizes[many])[:-1], {}
        totals = sizes[many] if rows.weights is None else np.add.reduceat(rows.weights, first)
        for g, found, start, total in zip(
            many.tolist(), made_rows, first.tolist(), totals.tolist(), strict=True
        ):
            made = _proven_precisely(found, claims[g], rows, start, start + int(sizes[g]))
            if len(made.values) < sizes[g] and made.proof.ok and (made.strata == ORDINARY).all():
                certificate = self._certificate_of_made(made, claims[g], total, int(counts[g]))
                if certificate.proven:
                    positions = np.zeros(len(made.values), dtype=np.intp)
                    kept[g] = ReducedCell(positions, made.weights, certificate, made.values)
        return kept

    def _certificate_of_made(
        self, made: MadeRows, claims: Sequence[Certificate], total: float, count: int
    ) -> Certificate:
        if not claims:
            return self._of_targets(certify_made(self.problem, [made], total, count, 0.0))
        made = replace(made, inherited=Claim.union(claims))
        return certify_made(self.problem, [made], total, count, 0.0).of_coresets()

    def _of_targets(self, certificate: Certificate) -> Certificate:
        """Standard errors are those of the last column; nothing is said of other targets."""
        if self.targets <= 1:
            return certificate
        return replace(certificate, standard_errors=None)

    # Real rows

    def _real(
        self, rows: Rows, starts: Indices, counts: np.ndarray,
        claims: Sequence[Sequence[Certificate]], name: Names | None,
    ) -> list[ReducedCell]:  # fmt: skip
        """Some of the rows of every group."""
        shown = [repr(name) for name in self.names]
        if any(is_long(part.dtype) for part in rows.parts):
            used = [part if rows.index is None else part[rows.index] for part in rows.parts]
            offsets = find_offsets(used, shown, self.problem)
            rows = rows.replaced(minus_offsets(rows.parts, offsets))
        rows = self.problem.view(rows)
        kernel = self.kernel.sharper() if any(claims) else self.kernel
        reductions = reduce_many(rows, starts, kernel, "auto", self.seed)
        kept = []
        for g, reduction in enumerate(reductions):
            group_rows = rows.run(int(starts[g]), int(starts[g + 1]))
            try:
                kept.append(
                    self._certified(group_rows, reduction, claims[g], int(counts[g]), shown)
                )
            except NotExactError as error:
                raise NotExactError(
                    f"{name(g)}: {error}" if name is not None else str(error)
                ) from None
        return kept

    def _certified(
        self,
        rows: Rows,
        reduction: Reduction,
        claims: Sequence[Certificate],
        count: int,
        names: list[str],
    ) -> ReducedCell:
        certificate = self.certificate(reduction, claims, rows.total, count)
        if not (certificate.proven and reduction.proof.ok):
            fresh = count > sum(claim.n_rows for claim in claims)  # some are rows of the data
            if not fresh or len(rows) <= WHOLE:
                return self._stay(rows, reduction, claims, count, fresh)
        require_proven(certificate, [reduction], names, reduction.dominating_rows.tolist())
        return ReducedCell(reduction.positions, reduction.weights, certificate)

    def certificate(
        self,
        reduction: Reduction,
        claims: Sequence[Certificate],
        total: float,
        count: int,
        notes: Sequence[str] = (),
    ) -> Certificate:
        """The certificate of a reduction of kept rows with certificates ``claims``, or of rows of
        the data.
        """
        if not claims:
            certificate = certify(self.problem, [reduction], total, count, 0.0, notes)
            return self._of_targets(certificate) if self.makes_rows else certificate
        reduction = replace(reduction, inherited=Claim.union(claims))
        found = certify(self.problem, [reduction], total, count, 0.0, notes).of_coresets()
        made = any(claim.rows != REAL for claim in claims)
        return as_made(found, self.problem) if made else found

    def _stay(
        self,
        rows: Rows,
        reduction: Reduction,
        claims: Sequence[Certificate],
        count: int,
        fresh: bool,
    ) -> ReducedCell:
        """Keep all rows; ``claims`` are the certificates of kept rows among them, and ``fresh``
        says whether there are rows of the data, too.
        """
        everything = keep_all_rows(rows, reduction)
        fresh_claim = [certify(self.problem, [everything], rows.total, count, 0.0)] if fresh else []
        united = Certificate.union([*claims, *fresh_claim])
        bound = reduction.fitted.kernel.width
        certificate = replace(
            united,
            n_rows=count,
            size=len(rows),
            rank=reduction.rank,
            bound=bound,
            peeled=max(0, len(rows) - bound),
            standard_errors=None,
            notes=(STAY.format(f"{len(rows):,}"),),
        )
        if certificate.rows != REAL:
            certificate = as_made(certificate, self.problem)
        return ReducedCell(everything.positions, everything.weights, certificate)


def _proven_precisely(
    made: MadeRows, claims: Sequence[Certificate], rows: Rows, start: int, stop: int
) -> MadeRows:
    """Rows made of some others with a precise proof, where the claim of those and that of the
    reduction add up to much.
    """
    if not claims:
        return made
    claim = Claim.union(claims).after(made.proof.claim)
    if claim.loss_error <= MUCH * EXACT and claim.spent <= AFFORD:
        return made
    few, everything = rows.run(start, stop), np.arange(stop - start)
    values = few.take(everything, np.zeros(rows.columns))[:, 1:]
    proof = prove_precisely(values, own_weights(few, everything), made.values, made.weights)
    return made if proof is None or proof.merit <= made.proof.merit else replace(made, proof=proof)
