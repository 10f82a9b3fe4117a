"""Certificates: what a coreset keeps and what not, its error, and its size against the bound.

:mod:`karat.engine.proof` makes the proof, with the constants of :mod:`karat.engine.tolerances`.
Here it becomes a record that can be printed and stored in files:

    certify(reductions)                                       of a new coreset
    certify_again(core, reductions)  of a coreset that core/verify.py measured on data
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

from karat.core.wording import certificate_facts, certificate_text, notebook_box, readable
from karat.engine import linalg
from karat.engine.claim import Claim, Reduction, united
from karat.engine.frame import Frame
from karat.engine.linalg import Array, one_blas_thread
from karat.engine.tolerances import EXACT, PROOF_VERSION, ROUNDING, TINY
from karat.errors import NotExactError
from karat.problems import LeastSquares, Problem, Ridge
from karat.problems.absorb.absorb import REFUTED

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

OLDER = "proven by an older version: verify again"
# relative change of the residual, by rounding of the columns, up to which there are standard errors
# part of a target in a combination of columns that vanishes, from which on the others explain it
INVOLVED = 1e-4
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
        The largest ratio of the terms of a coordinate, a combination of columns, to the coordinate
        itself.  1 where the columns themselves are the coordinates, and for sums of features.
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
    n_rows, left_out : int
        Rows of the input, and how many of them were left out because a value was missing.
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
    left_out: int = field(default=0, metadata=united(sum))

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

    def _repr_html_(self) -> str:
        return notebook_box("Certificate", certificate_facts(self), ok=self.ok)


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


def certify_again(
    core: Coreset, reductions: Sequence[Reduction], total: float, n_rows: int, seconds: float,
    refutations: Sequence[str], notes: Sequence[str] = (),
) -> Certificate:  # fmt: skip
    """A new certificate of a coreset that was measured again; the rank stays.

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
        terms, noise = _coefficient_terms(frame, count)
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
    features = worst.fitted.linear
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


def _coefficient_terms(frame: Frame, targets: int) -> tuple[float, float]:
    """How much a change of the columns by rho moves coefficients of least squares, per rho and in
    residuals; p = 2.

    With G the second moments / U, t the row of T of a target, z* the residual as a query and r its
    root mean square,

        H = G^-1 - G^-1 t t'G^-1 / (t'G^-1 t),     r^2 = 1 / (t'G^-1 t),     z* = -T G^-1 t r^2,

    the fitted values move by at most ``4 (loss_error + rho (a + b)) r`` (docs/mathematics.md) with

        a = sum_j sigma_j (T H T')_jj^(1/2)  (of columns that others explain),  b = S(z*) / r
        (signal to noise).

    Returns the largest a + b and the largest b of the last ``targets`` columns.  They are infinite
    if a residual vanishes, and a is if a direction was dropped: coefficients along it are rounding.
    """
    if frame.null is not None:
        return np.inf, 0.0
    lost = frame.basis.excluded.norms > 0
    parts = np.abs(frame.basis.excluded.vectors[:, lost]) * frame.sizes[:, None]
    if (parts[-targets:] > INVOLVED * parts.max(axis=0, initial=0.0)).any():
        return np.inf, np.inf
    worst = (np.inf if lost.any() else 0.0, 0.0)
    units = np.where(frame.spreads > 0, frame.spreads, 1.0)  # z_j sigma_j in place of z_j
    first = int(frame.affine)
    if len(frame.targets) < targets:  # a target was dropped
        return np.inf, np.inf
    for number, among in zip(range(-targets, 0), frame.targets, strict=True):
        explained = _explained(frame, among, units, number)
        if explained is None or not explained[1][number] > 0:
            return np.inf, np.inf
        diagonal, column = explained
        left = diagonal - column**2 / column[number]
        mixed = float(np.sqrt(np.maximum(left[first:], 0.0)).sum())
        signal = float(np.abs(column[first:]).sum() / np.sqrt(column[number]))
        worst = max(worst[0], mixed + signal), max(worst[1], signal)
    return worst


def _explained(
    frame: Frame, among: list[int], units: Array, number: int
) -> tuple[Array, Array] | None:
    """The diagonal and one column of ``T G^-1 T'`` in these coordinates and units; None if G is
    singular.
    """
    if frame.many:
        if frame.factor is None:
            return None
        # G = D R'R D / U, so that all of it is products of columns of R'^-1 D^-1 T' with each
        # other.
        root = np.sqrt(np.maximum(np.diag(frame.base), TINY) / frame.total)
        half = (
            _product_with_unit_rows(linalg.upper_inverse(frame.factor).T / root, frame.basis.map)
            * units
        )
        return np.einsum("ij,ij->j", half, half), half[:, number] @ half
    map_ = (frame.basis.map * units[:, None])[:, among]
    try:
        # G^-1 T'
        explained = np.linalg.solve(frame.second[np.ix_(among, among)] / frame.total, map_.T)
    except np.linalg.LinAlgError:
        return None
    return np.einsum("jk,kj->j", map_, explained), map_ @ explained[:, number]


def _product_with_unit_rows(left: Array, right: Array) -> Array:
    """``left @ right'``, where most columns of ``right`` are distinct unit vectors."""
    places, mixed = linalg.unit_columns(right)
    products = np.zeros((len(left), len(right)))
    products[:, places[~mixed]] = left[:, ~mixed]
    if mixed.any():
        products += left[:, mixed] @ right[:, mixed].T
    return products
