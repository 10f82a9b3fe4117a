"""Certificates: what a coreset keeps, to what error, at what size against which bound; and what it does not keep.

The proof is :mod:`karat.engine.proof`, its constants are :mod:`karat.engine.tolerances`.  Here it becomes a record that can be
printed and stored in files:

    certify(reductions)                                          of a new coreset
    certify_again(core, [measure_again(core, moments, ...)])     of a coreset that is compared with data
    certify_union(certificate, parts)                            of a coreset of coresets
    require_proven(certificate)                                  an error, unless it is proven
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from math import sqrt
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.proof import Terms, linear_class, measure, tolerance
from karat.engine.reduce import Reduction
from karat.engine.rows import Rows, own_weights
from karat.engine.tolerances import EPS, MEASURED, ROUNDING
from karat.errors import NotExactError
from karat.problems import LeastSquares, Problem, Ridge
from karat.problems.absorb.absorb import REFUTED

if TYPE_CHECKING:
    from karat._core.coreset import Coreset

PROOF_VERSION = 3  # 1: 0.1.0, which left directions out of the proof; 2: 0.2.0, whose claim was made row by row
OLDER = "proven by an older version: verify again"


@dataclass(frozen=True)
class Certificate:
    """Proof of a coreset, measured against the moments of all rows.

    For every query q that the problem serves, ``|f_c(q) - f(q)| <= loss_error * sum_i u_i |f_i(q)| + rounding * R(q)``, where
    R(q) is what rounding does to f(q) when all rows are evaluated in double precision.

    Attributes
    ----------
    loss_error : float
        The first term: the supremum for degree 2, a proven bound else.
    rounding : float
        The second term: 64 eps; more only for coresets of coresets that have spent more.  It does not depend on the data.
    spent : float
        What the reductions that the rows have been through have spent of the second term, in units of 64 eps.
    remainder : float
        The largest part of the second term that was needed, as a fraction of what one reduction may use.
    moment_error : float
        Largest error of a kernel moment, relative to the sum of absolute values.
    total_error : float
        Relative error of the total weight.
    rank : int
        Numerical rank of the kernel features: no exact coreset of generic data is smaller.
    size : int
        Rows kept; at most ``bound + peeled``.
    bound : int
        What the theory allows: the number of kernel features.
    peeled : int
        Rows that are kept unchanged in addition, because each dominates a moment.
    power : int
        Degree of the loss.
    condition : float
        Largest over smallest relative size of the directions of the columns, of those that the first term covers.
    excluded_directions : tuple of float
        Relative sizes of the directions of the columns that (nearly) vanish; along these only the second term holds.
    method : str
        How the coreset was found.
    passes : int
        Passes over all rows.
    seconds : float
        Wall time, from the raw input.
    keeps : str
        What is kept.
    excludes : tuple of str
        What is not.
    n_rows : int
        Rows of the input.
    notes : tuple of str
        Remarks, such as the number of rows that were left out.
    refuted : bool
        Whether something other than a moment contradicts it, such as kept rows that are not rows of the data.
    inflation : float
        Largest ratio of an absolute moment of the kept rows to that of all rows; it magnifies the second term of a coreset of
        this coreset.
    covered : float
        The part of ``loss_error`` that is rounding which the second term holds as well; a coreset of this coreset does not
        inherit it twice.
    proof_version : int
        The proof that was made; one of an older version does not count.
    standard_errors : float or None
        Least squares: the coefficients move by at most about so many standard errors, ``loss_error * sqrt(n)``.
    """

    loss_error: float
    rounding: float
    remainder: float
    moment_error: float
    total_error: float
    rank: int
    size: int
    bound: int
    condition: float
    excluded_directions: tuple[float, ...]
    method: str
    passes: int
    seconds: float
    keeps: str
    excludes: tuple[str, ...]
    n_rows: int
    peeled: int = 0
    power: int = 2
    notes: tuple[str, ...] = field(default=())
    refuted: bool = False
    spent: float = 1.0
    inflation: float = 1.0
    covered: float = 0.0
    proof_version: int = PROOF_VERSION
    standard_errors: float | None = None

    @property
    def tolerance(self) -> float:
        """The largest ``loss_error`` that counts as exact: 1e-10, up to 1e-8 where the columns are that ill-conditioned."""
        return tolerance(self.power, self.condition)

    @property
    def proven(self) -> bool:
        """Whether both terms are within their limits."""
        return bool(self.loss_error <= self.tolerance and self.remainder <= 1.0)

    @property
    def ok(self) -> bool:
        """Whether the coreset is exact: proven by the present version of the proof, and not refuted."""
        return self.proven and not self.refuted and self.proof_version == PROOF_VERSION

    def to_dict(self) -> dict[str, Any]:
        """All fields, ``tolerance`` and ``ok``, for JSON."""
        return asdict(self) | {"tolerance": self.tolerance, "ok": self.ok}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Certificate:
        """The certificate that :meth:`to_dict` wrote, in this version or another: unknown fields are left out."""
        names = {f.name for f in fields(Certificate)}
        known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names}
        known = {"proof_version": 1, "rounding": ROUNDING, "remainder": 0.0} | known  # 0.1.0 had none of them
        if known["proof_version"] < PROOF_VERSION and not any(OLDER in note for note in known.get("notes", ())):
            known["notes"] = (*known.get("notes", ()), f"The certificate was {OLDER}.")
        return Certificate(**known)

    def __str__(self) -> str:
        verdict = "exact" if self.ok else "NOT exact" if self.proof_version == PROOF_VERSION else "not proven"
        kept = f" and {self.peeled:,} peeled" if self.peeled else ""
        text = (
            f"{self.size:,} of {self.n_rows:,} rows, {verdict}: the worst relative loss error over every query is "
            f"{self.loss_error:.1e} (up to {self.tolerance:.0e} counts as exact), beside the rounding of all rows times "
            f"{self.rounding / EPS:.0f} eps (rank {self.rank}, bound {self.bound}{kept}, condition {self.condition:.1e}, "
            f"{self.method}, {self.passes} pass{'es' if self.passes != 1 else ''}, {self.seconds:.3g} s). Kept: {self.keeps}. "
            f"Not kept: {', '.join(self.excludes)}."
        )
        if self.standard_errors is not None:
            text += f" Coefficients move by at most about {self.standard_errors:.0e} standard errors."
        if self.excluded_directions:
            sizes = ", ".join(f"{size:.0e}" for size in sorted(self.excluded_directions, reverse=True)[:5])
            more = ", ..." if len(self.excluded_directions) > 5 else ""
            text += (
                f" {len(self.excluded_directions)} direction(s) of the columns vanish or nearly so (relative sizes "
                f"{sizes}{more}): there the loss is kept up to its rounding."
            )
        return " ".join([text, *self.notes])


def certify(
    problem: Problem,
    reductions: Sequence[Reduction],
    total: float,
    n_rows: int,
    seconds: float,
    notes: Sequence[str] = (),
    *,
    size: int | None = None,
) -> Certificate:
    """The certificate of a new coreset, from the reductions of its groups and the total weight of all rows.

    ``size`` is the number of rows kept, where it is not the sum over the groups.
    """
    proofs = [r.proof for r in reductions]
    kept = sum(float(r.weights.sum()) for r in reductions)
    error, spent = max(r.error for r in reductions), max(r.spent for r in reductions)
    handed_on = max(r.handed_on for r in reductions)
    return Certificate(
        loss_error=float(error),
        covered=float(error - handed_on) if np.isfinite(error) else 0.0,
        rounding=_rounding(spent),
        spent=spent,
        remainder=max(r.remainder for r in reductions),
        moment_error=max(p.moment_error for p in proofs),
        total_error=abs(kept / total - 1.0),
        rank=sum(r.rank for r in reductions),
        size=sum(len(r.positions) for r in reductions) if size is None else size,
        bound=sum(r.fitted.kernel.width for r in reductions),
        peeled=sum(int(r.peeled.sum()) for r in reductions),
        power=max(p.power for p in proofs),
        condition=max(p.condition for p in proofs),
        excluded_directions=tuple(x for p in proofs for x in p.excluded),
        method=" and ".join(sorted({r.method for r in reductions})),
        passes=max(r.passes for r in reductions) + (not problem.mergeable),  # the pass that finds the maps
        seconds=seconds,
        keeps=problem.keeps,
        excludes=problem.excludes,
        n_rows=n_rows,
        notes=tuple(notes),
        inflation=max(r.inflation * p.inflation for r, p in zip(reductions, proofs, strict=True)),
        standard_errors=_standard_errors(problem, float(error), n_rows),
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

    ``rows`` are all rows, if they can be read again; else ``witnesses`` are some of them.  Weights are in units of ``unit``.
    """
    positions = np.arange(len(kept))
    weights, terms = own_weights(kept, positions), Terms.claimed(core.certificate.rounding)
    proof = measure(rows, fitted, kept.take(positions, fitted.kernel.shift), weights, witnesses, terms)
    if core.absorbed:  # else the rows carry everything, with or without a regulariser
        assert rows is not None
        error = core.problem.absorbed_error(rows, fitted, kept, core.absorbed, unit)
        proof = replace(proof, loss_error=error, moment_error=error, remainder=0.0)
    method, before = "verified on the full data", (terms.measured - MEASURED) * proof.remainder / ROUNDING
    return Reduction(positions, weights, fitted, core.certificate.rank, proof, method, passes, before=before)


def certify_again(
    core: Coreset, reductions: Sequence[Reduction], total: float, n_rows: int, seconds: float, refutations: Sequence[str],
    notes: Sequence[str] = (),
) -> Certificate:  # fmt: skip
    """A fresh certificate of a coreset, from what :func:`measure_again` found; the rank is not measured again.

    ``refutations`` are facts other than moments that contradict the coreset.
    """
    refutations = list(refutations)
    if core.absorbed and not max(r.proof.loss_error for r in reductions) <= REFUTED:
        refutations.append(f"Rows and correction of an absorbed coreset must agree with the data to {REFUTED:.0e}.")
    fresh = certify(core.problem, reductions, total, n_rows, seconds, [*notes, *refutations], size=len(core))
    return replace(fresh, refuted=bool(refutations), rank=core.certificate.rank, peeled=core.certificate.peeled)


def centred_kernel(found: Reduction) -> Kernel | None:
    """The features, about the means, in which to measure again what could not be proven; None if there are no others."""
    linear = None if found.proof.ok else linear_class(found.fitted)
    return None if linear is None else linear.kernel.centred(linear)


class Part(Protocol):
    """A coreset, or a cell of a cube, whose kept rows are reduced together with others."""

    @property
    def certificate(self) -> Certificate: ...
    @property
    def problem(self) -> Problem: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def absorbed(self) -> Any: ...


def inherited_error(parts: Sequence[Part]) -> float:
    """What a coreset of kept rows inherits of the loss errors of its parts.

    Each is relative to a loss that is smaller than that of the union.  With a correction each of them is relative to a loss
    that has the regulariser in it, so that they add up.
    """
    errors = [core.certificate.loss_error - (0.0 if core.absorbed else core.certificate.covered) for core in parts]
    return sum(errors) if any(core.absorbed for core in parts) else max(errors)


def certify_union(fresh: Certificate, parts: Sequence[Part], notes: Sequence[str]) -> Certificate:
    """The certificate of a coreset of kept rows, with what it inherits from the reductions of its parts."""
    proofs = [core.certificate for core in parts]
    inherited = inherited_error(parts)
    spent = fresh.spent + max(proof.spent for proof in proofs)
    return replace(
        fresh,
        loss_error=fresh.loss_error + inherited,
        standard_errors=_standard_errors(parts[0].problem, fresh.loss_error + inherited, sum(core.n_rows for core in parts)),
        rounding=_rounding(spent),
        spent=spent,
        notes=tuple(notes),
        proof_version=min(fresh.proof_version, *(proof.proof_version for proof in proofs)),
    )


def _standard_errors(problem: Problem, loss_error: float, n_rows: int) -> float | None:
    """About the largest number of standard errors by which the coefficients of least squares move."""
    return loss_error * sqrt(n_rows) if isinstance(problem, LeastSquares | Ridge) else None


def _rounding(spent: float) -> float:
    """The second term of a certificate whose reductions have spent so much of it, in units of ROUNDING."""
    return ROUNDING * max(1.0, spent)


def require_proven(
    certificate: Certificate, reductions: Sequence[Reduction], names: list[str], rows: Sequence[int] = ()
) -> None:
    """Raise unless the coreset is proven; the error names the worst moment and ``rows`` that dominate one."""
    if certificate.proven:
        return
    worst = max(reductions, key=lambda r: (not r.proof.ok, r.proof.loss_error))
    moment = worst.fitted.kernel.feature_name(worst.proof.worst, names)
    several = f"rows {', '.join(map(str, rows[:5]))}{' and others' if len(rows) > 5 else ''}"
    heavy = f" Each of {several} holds more than a tenth of a moment." if len(rows) else ""
    raise NotExactError(
        f"No exact coreset was found. The best has a relative loss error of {certificate.loss_error:.1e} (up to "
        f"{certificate.tolerance:.0e} counts as exact); {moment} is furthest off, by {worst.proof.moment_error:.1e} of the sum "
        f"of absolute values.{heavy} The columns have condition {certificate.condition:.1e}. Scale or centre the columns, drop "
        "nearly collinear ones and extreme rows, or lower the degree."
    )
