"""Certificates: what a coreset keeps and what not, its error, and its size against the bound.

:mod:`karat.engine.proof` makes the proof, with the constants of :mod:`karat.engine.tolerances`.
Here it becomes a record that can be printed and stored in files:

    certify(reductions)                                       of a new coreset
    certify_again(core, [measure_again(core, moments, ...)])  of a coreset measured on data
    require_proven(certificate)                               raises unless it is proven

:mod:`karat.engine.claim` says which errors rows of several coresets inherit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from math import sqrt
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.core.wording import certificate_text, readable
from karat.engine.claim import PROOF_VERSION, Claim, ErrorBudget, united
from karat.engine.coefficients import coefficient_terms
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linear_proof import linear_class
from karat.engine.proof import measure
from karat.engine.reduce import Reduction
from karat.engine.rows import Rows, own_weights
from karat.engine.threads import one_blas_thread
from karat.engine.tolerances import EXACT, ROUNDING
from karat.errors import NotExactError
from karat.problems import LeastSquares, Problem, Ridge
from karat.problems.absorb.absorb import REFUTED

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

OLDER = "proven by an older version: verify again"
# relative change of the residual, by rounding of the columns, up to which there are standard errors
NOISE = 0.01
NO_NOISE = (
    " (not R2, standard errors or likelihoods: rounding of the columns moves the residual by more"
    " than a hundredth of itself)"
)
MANY_GROUPS = 100  # beyond so many groups, standard errors are not worth the time


def _all_once(values: list[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(values)))


def _all(values: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(chain.from_iterable(values))


def _names(values: list[str]) -> str:
    return " and ".join(sorted(set(values)))


def _kept_by_all(values: list[str]) -> str:
    """What every part keeps: all have the same problem, but some may have no standard errors."""
    return next((text for text in values if text.endswith(NO_NOISE)), values[0])


@dataclass(frozen=True, kw_only=True)
class Certificate(Claim):
    """Proof of a coreset, measured against the moments of all rows.

    A coreset is exact, up to a relative ``loss_error``, for data whose columns differ from the
    given ones by at most ``rounding`` of their own size (their norm about the mean).  In formulas,
    for every query of a loss of even degree p,

        ``|f_c - f| <= loss_error f + (f^(1/p) + rounding U^(1/p) sum_j |z_j| sigma_j)^p - f``;

    for sums of features ``|f_c - f| <= loss_error sum_i u_i |f_i| + rounding sum_t |h_t| sum_i u_i
    |phi_t(x_i)|``.

    Attributes
    ----------
    loss_error : float
        The first term: for degree 2 the supremum plus what rounding of the sums may add, for
        higher degrees a proven bound.
    rounding : float
        The second term.  The part of it that was measured is at most 64 eps in each reduction; the
        rest is a bound on the rounding of the proof itself, of at most 256 eps times the number of
        columns and 2.
    spent : float
        ``rounding`` in units of 64 eps.
    remainder : float
        The share of the allowed second term that a reduction has used, at most 1.
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
        Additional rows that are kept unchanged, because each dominates a moment.
    power : int
        Degree of the loss.
    condition : float
        The ratio of the largest to the smallest scale among directions of the columns.
    excluded_directions : tuple of float
        Relative sizes of the directions of the columns that vanish up to rounding; along them only
        the second term holds.
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
        Whether anything but a moment contradicts it, such as kept rows that are not in the data.
    inflation : float
        Largest ratio of an absolute moment of the kept rows to that of all rows; it magnifies the
        second term of a coreset of this coreset.
    proof_version : int
        The version of the proof; proofs of an older version do not count.
    standard_errors : float or None
        Least squares: no coefficient moves by more than so many of its standard errors.  None for
        other problems, for rows of several coresets or levels together, and where the residual is
        rounding of the columns (R2 of nearly 1).
    in_columns : bool
        Whether ``rounding`` is relative to the sizes of columns; else, to sums of absolute values
        of features.
    spread : float
        The largest ratio of a column's size to what is typical in it.
    rows : str
        "real" for rows of the input, "synthetic" for rows that were made.
    verbatim : int
        Made rows: how many of them are rows of the data, kept because they are far larger than the
        others.
    levels : int
        How many levels of rows, by their size, were reduced separately: 1 for all but the wildest
        data, 0 for coresets of coresets.
    """

    loss_error: float = field(metadata=united(max))  # no default: a file without it is damaged
    spent: float = field(metadata=united(max))
    remainder: float = field(metadata=united(max))
    rounding: float = field(metadata=united(max))
    moment_error: float = field(metadata=united(max))
    total_error: float = field(metadata=united(max))
    rank: int = field(metadata=united(sum))
    size: int = field(metadata=united(sum))
    bound: int = field(metadata=united(sum))
    condition: float = field(metadata=united(max))
    excluded_directions: tuple[float, ...] = field(metadata=united(_all))
    method: str = field(metadata=united(_names))
    passes: int = field(metadata=united(max))
    seconds: float = field(metadata=united(sum))
    keeps: str = field(metadata=united(_kept_by_all))
    excludes: tuple[str, ...] = field(metadata=united(itemgetter(0)))  # the problem says it
    n_rows: int = field(metadata=united(sum))
    peeled: int = field(default=0, metadata=united(sum))
    power: int = field(default=2, metadata=united(max))
    notes: tuple[str, ...] = field(default=(), metadata=united(_all_once))
    standard_errors: float | None = field(default=None, metadata=united(lambda _: None))
    in_columns: bool = field(default=False, metadata=united(any))
    rows: str = field(default="real", metadata=united(_names))
    verbatim: int = field(default=0, metadata=united(sum))
    levels: int = field(default=1, metadata=united(lambda _: 0))

    @property
    def tolerance(self) -> float:
        """The largest ``loss_error`` that counts as exact: 1e-10."""
        return EXACT

    @property
    def proven(self) -> bool:
        """Whether both terms are within their limits."""
        return bool(self.loss_error <= self.tolerance and self.remainder <= 1.0)

    @property
    def ok(self) -> bool:
        """Whether the coreset is exact: proven by the current version, and not refuted."""
        return self.proven and not self.refuted and self.proof_version == PROOF_VERSION

    def of_coresets(self) -> Certificate:
        """The same for a coreset of coresets, which has no levels or standard errors of its own."""
        return replace(self, standard_errors=None, levels=0)

    def to_dict(self) -> dict[str, Any]:
        """All fields, ``tolerance`` and ``ok``, for JSON."""
        return asdict(self) | {"tolerance": self.tolerance, "ok": self.ok}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Certificate:
        """The certificate that :meth:`to_dict` wrote; fields of other versions are ignored."""
        names = {f.name for f in fields(Certificate)}
        present: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names
        }
        if values["proof_version"] < PROOF_VERSION and not any(
            OLDER in note for note in present.get("notes", ())
        ):
            present["notes"] = (*present.get("notes", ()), f"The certificate was {OLDER}.")
        return Certificate(**present)

    def __str__(self) -> str:
        return certificate_text(self)


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
    """The certificate of a new coreset.

    ``reductions`` are those of its groups, and ``total`` is the weight of all rows.  ``size`` is
    the number of rows kept, if it is not the sum over the groups.
    """
    proofs = [r.proof for r in reductions]
    kept = sum(float(r.weights.sum()) for r in reductions)
    claim = Claim.union([r.claim for r in reductions])
    rounding = ROUNDING * claim.spent
    standard_errors, noise = _standard_errors(
        problem, reductions, claim.loss_error, rounding, n_rows
    )
    return Certificate(
        **vars(claim),
        rounding=rounding,
        moment_error=max(p.moment_error for p in proofs),
        total_error=abs(kept / total - 1.0),
        rank=sum(r.rank for r in reductions),
        size=sum(len(r.positions) for r in reductions) if size is None else size,
        bound=sum(r.bound for r in reductions),
        peeled=sum(int(r.peeled.sum()) for r in reductions),
        power=max(p.power for p in proofs),
        condition=max(p.condition for p in proofs),
        excluded_directions=tuple(x for p in proofs for x in p.excluded),
        method=" and ".join(sorted({r.method for r in reductions})),
        # a latent problem has read all rows once more, for its maps
        passes=max(r.passes for r in reductions) + (not problem.mergeable),
        seconds=seconds,
        keeps=problem.keeps if noise else problem.keeps.split(", R2,")[0] + NO_NOISE,
        excludes=problem.excludes,
        n_rows=n_rows,
        notes=tuple(notes),
        standard_errors=standard_errors,
        in_columns=any(p.in_columns for p in proofs),
        levels=max(r.levels for r in reductions),
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


def certify_again(
    core: Coreset, reductions: Sequence[Reduction], total: float, n_rows: int, seconds: float,
    refutations: Sequence[str], notes: Sequence[str] = (),
) -> Certificate:  # fmt: skip
    """A new certificate of a coreset, from the results of :func:`measure_again`; the rank stays.

    ``refutations`` are facts other than moments that contradict the coreset.
    """
    refutations = list(refutations)
    if core.absorbed and not max(r.proof.loss_error for r in reductions) <= REFUTED:
        refutations.append(
            f"Rows and correction of an absorbed coreset must match the data to {REFUTED:.0e}."
        )
    fresh = certify(
        core.problem, reductions, total, n_rows, seconds, [*notes, *refutations], size=len(core)
    )
    return replace(
        fresh, refuted=bool(refutations), rank=core.certificate.rank, peeled=core.certificate.peeled
    )


def centred_kernel(reduction: Reduction) -> Kernel | None:
    """The kernel of features about the means, in which an unproven reduction is measured again;
    None if it is proven or there is no such kernel.
    """
    linear = None if reduction.proof.ok else linear_class(reduction.fitted)
    return None if linear is None else linear.kernel.centred(linear)


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _standard_errors(
    problem: Problem, reductions: Sequence[Reduction], error: float, rounding: float, n_rows: int
) -> tuple[float | None, bool]:  # fmt: skip
    """A bound on how far coefficients move, in standard errors; whether the residual is more than
    rounding.
    """
    if not isinstance(problem, LeastSquares | Ridge) or problem.absorb is not None:
        return None, True
    if len(reductions) > MANY_GROUPS:
        return None, True
    worst, signal = 0.0, 0.0
    for reduction in reductions:
        frame = reduction.fitted.frame
        if frame is None:  # all rows, or so few of them that nothing was summed
            return None, True
        # the frame describes one level; columns of the others differ by orders of magnitude
        if reduction.levels > 1:
            return None, True
        count = max(1, reduction.fitted.kernel.separate_targets)  # type: ignore[attr-defined]
        terms, noise = coefficient_terms(frame, count)
        worst, signal = max(worst, terms), max(signal, noise)
    if not rounding * signal <= NOISE:
        return None, False
    return 4 * sqrt(n_rows) * (error + rounding * worst) if worst < np.inf else None, True


def require_proven(
    certificate: Certificate,
    reductions: Sequence[Reduction],
    names: list[str],
    rows: Sequence[int] = (),
) -> None:
    """Raise unless the coreset is proven, with the worst moment and the ``rows`` that dominate."""
    if certificate.proven:
        return
    worst = max(reductions, key=lambda r: (not r.proof.ok, r.proof.loss_error))
    features = linear_class(worst.fitted)
    kernel = worst.fitted.kernel if features is None or worst.proof.in_columns else features.kernel
    moment = kernel.feature_name(worst.proof.worst, names)
    heavy = ""
    if len(rows):
        others = " and others" if len(rows) > 5 else ""
        several = f"Each of rows {', '.join(map(str, rows[:5]))}{others}"
        subject = several if len(rows) > 1 else f"Row {rows[0]}"
        heavy = f" {subject} holds more than a tenth of a moment."
    if not certificate.loss_error <= certificate.tolerance:
        reason = (
            "The best has a relative loss error of"
            f" {readable(certificate.loss_error, certificate.tolerance)} (up to"
            f" {certificate.tolerance:.0e} counts as exact); {moment} is furthest off."
        )
    else:
        reason = (
            "The best is exact only for columns that differ from the given ones by"
            f" {readable(certificate.remainder, 1.0, 'g')} times the rounding that counts as exact;"
            f" {moment} is furthest off."
        )
    raise NotExactError(
        f"No exact coreset was found. {reason}{heavy} The columns have condition"
        f" {certificate.condition:.1e}. Scale or centre the columns, drop nearly collinear columns"
        " and extreme rows, or lower the degree."
    )
