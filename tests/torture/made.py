"""The judge of synthetic rows: one claim about squares of affine forms of *all* columns, whatever
the problem (:mod:`.claim`).

Targets are columns like others, and there is a constant even if the problem has no intercept:
whatever a problem asks for is among these queries.  Rows that are kept as they are must be rows of
the data, each with its own weight.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import ways
from .arithmetic import EPS, dense
from .cases import Case
from .claim import Claim, Worst
from .families import FAMILIES
from .solved import moved

TRUE, TOLERANCE = 1e-8, 1e-10
SMALLEST = np.finfo(float).tiny
# how families begin whose problems are no squares
NOT_SQUARES = ("absorb", "kernel", "mixture", "ica", "topics", "blockwise")
SQUARES = tuple(name for name in FAMILIES if not name.startswith(NOT_SQUARES))


def real(case: Case) -> str:
    """What becomes of the same case with real rows: "exact" (by its certificate), "refused" or
    "crashed".
    """
    from karat import InputError, NotExactError

    try:
        return "exact" if ways.build(replace(case, rows="real")).certificate.ok else "refused"
    except (InputError, NotExactError):
        return "refused"
    except Exception:
        return "crashed"


def shape(case: Case, core) -> str:
    """What is wrong about a coreset of made rows beside its claim; empty if nothing is."""
    certificate, w = core.certificate, np.asarray(core.weights)
    X, y = core.arrays()
    if (
        core.rows != "synthetic"
        or certificate.rows != "synthetic"
        or core.indices is not None
        or core.keys is not None
    ):
        return "the coreset says that its rows are rows of the data"
    if (
        core.strata is None
        or len(core.strata) != len(w)
        or not np.array_equal(core.verbatim, core.strata == 2)
    ):
        return "strata that do not fit"
    if certificate.verbatim != int(core.verbatim.sum()) or certificate.peeled:
        return (
            f"{certificate.verbatim} rows are said to be kept as they are, of"
            f" {int(core.verbatim.sum())}"
        )
    if not len(w) == certificate.size <= certificate.bound:
        return f"{len(w)} rows, said to be {certificate.size}, of at most {certificate.bound}"
    if not ((w >= SMALLEST) & np.isfinite(w)).all():
        return f"weights from {w.min():.1e} to {w.max():.1e}: not all are positive, normal numbers"
    if not np.isfinite(X).all() or (y is not None and not np.isfinite(y).all()):
        return "rows that are not finite"
    if certificate.loss_error > certificate.tolerance or certificate.tolerance > TOLERANCE:
        return (
            f"ok, with {certificate.loss_error:.1e} and a tolerance of {certificate.tolerance:.1e}"
        )
    if (set() if case.groups is None else set(ways.kept_groups(case, core))) != labels(case):
        return "other groups"
    return ""


def labels(case: Case) -> set:
    """The groups with a row of positive weight."""
    if case.groups is None:
        return set()
    return set(np.unique(case.groups if case.weights is None else case.groups[case.weights > 0]))


def places(rows: np.ndarray, kept: np.ndarray) -> np.ndarray | None:
    """Where kept rows (with their weights) are among all, each once; None if one is nowhere."""
    by_value: dict[bytes, list[int]] = {}
    rows, kept = rows + 0.0, kept + 0.0  # 0 and -0 are the same number
    for place, row in enumerate(rows):
        by_value.setdefault(row.tobytes(), []).append(place)
    found = [by_value[row.tobytes()].pop() if by_value.get(row.tobytes()) else -1 for row in kept]
    return None if -1 in found else np.array(found, dtype=np.intp)


def compare(case: Case, core, verdict) -> None:
    """The claim against the oracle, in every group; ``error`` becomes the largest ratio of error to
    claim.
    """
    said = shape(case, core)
    if said:
        verdict.verdict, verdict.detail, verdict.error = "wrong", said, np.inf
        return
    X, Y = (
        dense(case.X),
        np.zeros((case.count, 0)) if case.y is None else case.y.reshape(case.count, -1),
    )
    own_X, own_y = core.arrays()
    own_Y = np.zeros((len(own_X), 0)) if own_y is None else own_y.reshape(len(own_X), -1)
    u, w = np.ones(case.count) if case.weights is None else case.weights, np.asarray(core.weights)
    rounding, heavy = float(core.certificate.rounding), int(np.argmax(w))
    worst, allowed, place = Worst(0.0), 0.0, ""
    for label in [None] if case.groups is None else sorted(labels(case)):
        rows = np.flatnonzero((u > 0) if label is None else (case.groups == label) & (u > 0))
        some = (
            np.arange(len(w))
            if label is None
            else np.flatnonzero(ways.kept_groups(case, core) == label)
        )
        alone = core.verbatim[some]
        table = np.column_stack([X[rows].astype(float), Y[rows], u[rows]])
        apart = places(table, np.column_stack([own_X, own_Y, w])[some[alone]])
        if apart is None:
            verdict.verdict, verdict.error = "wrong", np.inf
            verdict.detail = (
                "a row that is called verbatim is no row of the data, or has another weight"
            )
            return
        claim = Claim(X[rows], Y[rows] if Y.size else None, u[rows], 2, affine=True)

        def pair(weights: np.ndarray, claim=claim, some=some, alone=alone, apart=apart):
            return claim.pair(
                claim.kept(own_X[some], own_Y[some] if Y.size else None, weights), alone, apart
            )

        both = pair(w[some])
        seen = both.worst(verdict.claimed, rounding)
        if seen.ratio > worst.ratio:
            worst, place = seen, f" of group {label!r}" * (label is not None)
            allowed = both.worst(TOLERANCE, rounding).ratio if seen.ratio > 1 else 0.0
        if heavy in some and not alone[list(some).index(heavy)]:
            changed = np.array(w[some])
            changed[list(some).index(heavy)] *= 1 + 1e-6
            if pair(changed).worst(TRUE, rounding).ratio > 1:
                verdict.notes.append("sabotage")
        if case.spec["name"] == "LeastSquares":
            _standard_errors(case, core, verdict, rows, some)
    verdict.error = worst.ratio
    if worst.ratio > 1:
        verdict.verdict = "wrong" if allowed > 1 else "understated"
        verdict.detail = (
            f"{worst}{place}, claimed {verdict.claimed:.1e} and {rounding / EPS:.0f} eps"
        )


def _standard_errors(case: Case, core, verdict, rows: np.ndarray, some: np.ndarray) -> None:
    """Coefficients of the made rows against those of all rows, where the certificate says how far
    they move.
    """
    claimed = core.certificate.standard_errors
    if claimed is None:
        return
    (own_X, own_y), Y = core.arrays(), case.y.reshape(case.count, -1)
    u = np.ones(case.count) if case.weights is None else case.weights
    own_Y, X = own_y.reshape(len(own_X), -1), dense(case.X)
    for t in range(min(Y.shape[1], 3)):
        claim = Claim(X[rows], Y[rows, t], u[rows], 2, case.spec.get("fit_intercept", True))
        both = claim.pair(claim.kept(own_X[some], own_Y[some, t], np.asarray(core.weights)[some]))
        seen = moved(both, len(rows), 1e-7 if len(core.certificate.excluded_directions) else 0.0)
        if seen is not None and seen > claimed:
            verdict.verdict = "understated"
            verdict.detail = (
                f"coefficients move by {seen:.1e} standard errors, claimed {claimed:.1e}"
            )
