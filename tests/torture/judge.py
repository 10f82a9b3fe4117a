"""The verdict on a case.

exact       certificate ok, and the claim holds at every query tried
understated ok, but the error is above the claim (and below that of the tolerance)
wrong       ok, and the error is above that of the tolerance; or the kept rows are not rows of the
            data, or weights no numbers
verify      exact, but verify or a reloaded copy disagrees, or verify accepts a weight that is off
            by 1e-6
refused     NotExactError or InputError; ``harmless`` if plain double precision evaluates the
            moments to 1e-8 (in the newer families: if Householder QR of all rows in doubles has not
            lost the fitted values)
crashed     any other exception, a warning, or something printed
slow        more than a minute
"""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import absorbed, latent, made, ways
from .arithmetic import EPS, dense, wide
from .cases import Case
from .claim import Claim, Worst
from .functions import function
from .linear import Function, Linear, Monomials
from .mean import Mean
from .power import Power
from .solved import answered, moved

LIMIT = 60.0
TRUE = 1e-8
TOLERANCE = 1e-10  # the largest loss_error of powers
SMALLEST = np.finfo(float).tiny
POWERS = ("LeastSquares", "Ridge", "LpRegression")
BAD = ("understated", "wrong", "verify", "crashed", "slow")


@dataclass
class Verdict:
    """What is said about a case."""

    name: str
    verdict: str
    detail: str = ""
    harmless: bool = False
    error: float = 0.0
    claimed: float = 0.0
    tolerance: float = 0.0
    seconds: float = 0.0
    about: str = ""
    notes: list[str] = field(default_factory=list)
    real: str = ""  # synthetic rows: what becomes of real ones

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def oracles(case: Case, core=None):
    """The full data's side, for each group: (its label or None, what to judge of a table, oracle,
    table).
    """
    spec = case.spec
    u = np.ones(case.count, dtype=wide) if case.weights is None else case.weights.astype(wide)
    X = dense(case.X)
    labels = labels_of(case)
    for label in labels:
        rows = slice(None) if label is None else case.groups == label
        some, mass = X[rows], u[rows]
        if spec["name"] in ("LeastSquares", "Ridge", "LpRegression"):
            targets = case.y.reshape(case.count, -1)
            for t in range(targets.shape[1]):
                alpha = spec.get("alpha", 0.0) if "absorb" in spec else 0.0
                table = joined(some, targets[rows][:, t])
                p, affine = spec.get("p", 2), spec.get("fit_intercept", True)
                yield (
                    label,
                    (lambda A, b, t=t: joined(A, b[:, t])),
                    Power(table, mass, p, affine, alpha),
                    table,
                )
        elif spec["name"] in latent.NAMES:
            yield (
                label,
                (lambda A, b: A),
                Linear(latent.Tensor(spec["name"], core.maps), some, mass),
                some,
            )
        elif spec["name"] == "Mean":
            yield label, (lambda A, b: A), Mean(some, mass), some
        elif spec["name"] == "Kernel":
            settings = {k: v for k, v in spec.items() if k not in ("name", "function")}
            yield (
                label,
                (lambda A, b: A),
                Linear(Function(function(spec["function"], **settings)), some, mass),
                some,
            )
        else:
            affine = spec["name"] == "Moments"
            features = Monomials(some, mass, spec["degree"] if affine else spec["p"], affine)
            yield label, (lambda A, b: A), Linear(features, some, mass), some


def labels_of(case: Case) -> list:
    """The groups with a row of positive weight: the others have no loss, and streams leave them
    out.
    """
    return [None] if case.groups is None else sorted(made.labels(case))


def most(case: Case) -> float:
    """The largest rounding that a certificate may print."""
    targets = 0 if case.y is None else case.y.reshape(case.count, -1).shape[1]
    return (64 + 256 * (case.X.shape[1] + targets + 2)) * EPS * reductions(case)


def reductions(case: Case) -> int:
    """How many reductions at most there are between the rows and the result; each adds its own
    rounding.
    """
    way = case.way
    # files: a sketch holds as many rows as a batch has
    buffer = way.get("buffer_rows", way.get("batch_rows", case.count))
    folds, parts = 1 + case.count // max(1, buffer), way.get("parts", 1)
    return {"memory": 1, "saved": 1, "merge": parts}.get(way["kind"], 1 + folds + parts)


def of_powers(case: Case) -> bool:
    return case.spec["name"] in POWERS


def joined(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """X and a target side by side; extended if X has integers, which doubles might not hold."""
    kind = wide if X.dtype.kind in "iu" else float
    return np.column_stack([X.astype(kind), y.astype(kind)])


def judge(case: Case, printed: Path | None = None, keep: Path | None = None) -> Verdict:
    """Build, compare, verify, sabotage."""
    verdict = Verdict(
        case.name,
        "exact",
        about=case.describe(),
        real="" if case.rows == "real" else made.real(case),
    )
    start = time.process_time()  # other work on the machine is not karat's fault
    try:
        core = quietly(lambda: ways.build(case), printed)
    except Exception as error:
        return failed(case, verdict, error, time.process_time() - start)
    verdict.seconds = time.process_time() - start
    certificate = core.certificate
    verdict.claimed, verdict.tolerance = float(certificate.loss_error), float(certificate.tolerance)
    if case.refusal and certificate.ok:
        verdict.verdict, verdict.detail = "wrong", f"accepted, but must be refused: {case.refusal}"
        return verdict
    if not certificate.ok:
        verdict.verdict, verdict.detail = "refused", "returned with ok=False"
        verdict.harmless = harmless(case)
        return verdict
    (compare if case.rows == "real" else made.compare)(case, core, verdict)
    if keep is not None and verdict.verdict == "wrong":
        save(core, case, keep)
    check_verify(case, core, verdict, printed)
    if verdict.seconds > LIMIT:
        verdict.verdict, verdict.detail = "slow", f"{verdict.seconds:.0f} s"
    return verdict


def quietly(action, printed: Path | None):
    """Run something of karat's: a warning is an error, and so is a line printed by a library
    below.
    """
    before = printed.stat().st_size if printed else 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = action()
    if printed and printed.stat().st_size > before:
        raise RuntimeError(f"printed: {printed.read_text(errors='replace')[before:][:120]!r}")
    return result


def failed(case: Case, verdict: Verdict, error: Exception, seconds: float) -> Verdict:
    from karat import InputError, NotExactError

    verdict.seconds = seconds
    text = " ".join(str(error).split())
    if case.refusal and not isinstance(error, InputError):
        verdict.verdict, verdict.detail = (
            "crashed",
            f"{type(error).__name__} in place of an InputError: {text[:120]}",
        )
    elif isinstance(error, NotExactError | InputError) and text:
        asked = case.lax or case.refusal or (isinstance(error, InputError) and weightless(case))
        verdict.verdict, verdict.harmless = "refused", not asked and harmless(case)
        verdict.detail = f"{type(error).__name__}: {text[:160]}"
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        verdict.verdict = "crashed"
        verdict.detail = (
            f"{type(error).__name__}: {text[:120]} ({Path(place.filename).name}:{place.lineno})"
        )
    return verdict


def weightless(case: Case) -> bool:
    """Whether a part, or a group in it, has no row of positive weight, which karat must refuse."""
    if case.weights is None:
        return False
    parts = ways.cuts(case) if "parts" in case.way else [slice(None)]
    groups = (
        np.zeros(case.count, dtype=int)
        if case.groups is None
        else np.unique(case.groups, return_inverse=True)[1]
    )
    return any(
        (np.bincount(groups[p], case.weights[p])[np.unique(groups[p])] == 0).any() for p in parts
    )


def harmless(case: Case) -> bool:
    """Whether the oracle itself could do with double precision."""
    if case.spec["name"] in latent.NAMES:
        u = np.ones(case.count, dtype=wide) if case.weights is None else case.weights.astype(wide)
        return latent.supports(case.X, u, case.spec.get("n_components", case.spec.get("n_topics")))
    if case.newer and of_powers(case):
        return answered(case)
    return all(oracle.evaluable(table) for _, _, oracle, table in oracles(case))


def compare(case: Case, core, verdict: Verdict) -> None:
    """The claim against the oracle, in every group; the largest error is noted."""
    rows = dense(case.X)[core.indices]
    own, own_y = core.arrays()
    if len(np.unique(core.indices)) < len(core.indices) or not np.array_equal(
        own, np.asarray(rows, dtype=float)
    ):
        verdict.verdict, verdict.detail, verdict.error = (
            "wrong",
            "the kept rows are not rows of the data",
            np.inf,
        )
        return
    y = None if case.y is None else case.y.reshape(case.count, -1)[core.indices]
    if y is not None and not np.array_equal(own_y.reshape(len(y), -1), y):
        verdict.verdict, verdict.detail, verdict.error = (
            "wrong",
            "the kept targets are not targets of the data",
            np.inf,
        )
        return
    w = np.asarray(core.weights).astype(wide)
    if not ((w >= SMALLEST) & np.isfinite(w)).all():
        verdict.verdict, verdict.error = "wrong", np.inf
        verdict.detail = (
            f"weights from {w.min():.1e} to {w.max():.1e}: not all are positive, normal numbers"
        )
        return
    rounding = float(getattr(core.certificate, "rounding", 64 * EPS))
    if not rounding <= most(case):
        verdict.verdict, verdict.error = "wrong", np.inf
        verdict.detail = f"rounding is {rounding / EPS:.0f} eps, of at most {most(case) / EPS:.0f}"
        return
    # for p = 2 a matrix and a vector, else which products of coefficients, and how much of each
    stored = (
        ()
        if "absorb" not in case.spec or core.correction is None
        else core.correction[int(case.spec.get("p", 2) > 2) :]
    )
    absorbs = any(np.any(part) for part in stored)
    if of_powers(case) and not absorbs:
        powers(case, core, verdict)
        if "absorb" not in case.spec or verdict.verdict != "exact":
            return
        # nothing was absorbed: what is left to look at are the loss and the solution
        verdict.error = 0.0
    correction = core.correction if "absorb" in case.spec else None
    verdict.notes = []
    heavy = int(np.argmax(w))
    for label, view, oracle, table in oracles(case, core):
        some = (
            np.ones(len(w), dtype=bool) if label is None else ways.kept_groups(case, core) == label
        )
        base = oracle.kept(view(rows[some], None if y is None else y[some]))
        extra = {"correction": correction} if "absorb" in case.spec else {}
        error, where = (
            oracle.error(base, w[some], rounding, **extra)
            if absorbs or not of_powers(case)
            else (0.0, "")
        )
        if error > verdict.error:
            verdict.error, verdict.detail = error, f"off by {error:.1e} at {where}"
        if some[heavy] and not verdict.notes:  # does a sabotaged weight matter at all?
            changed = w.copy()
            changed[heavy] *= 1 + 1e-6
            if oracle.error(base, changed[some], rounding, **extra)[0] > TRUE:
                verdict.notes.append("sabotage")
        if "absorb" in case.spec and not verdict.error > verdict.claimed:
            said = absorbed.check(oracle, core, lambda action: quietly(action, None))
            if said:
                verdict.error, verdict.detail = np.inf, said
        if case.spec["name"] in latent.NAMES and not verdict.error > verdict.claimed:
            said = latent.check_loss(core, oracle.features, table, oracle.u)
            if said:
                verdict.error, verdict.detail = np.inf, said
    if verdict.verdict != "exact":
        return
    total(case, core, w, verdict)
    if verdict.error > verdict.claimed * (1 + 1e-6):
        verdict.verdict = "wrong" if verdict.error > min(verdict.tolerance, TRUE) else "understated"
    elif verdict.error > TRUE:
        verdict.verdict = "wrong"
    if verdict.verdict != "exact":
        verdict.detail += f", claimed {verdict.claimed:.1e}, tolerance {verdict.tolerance:.1e}"


def powers(case: Case, core, verdict: Verdict) -> None:
    """The claim of powers, in every group and for every target: see :mod:`.claim`.

    ``error`` becomes the largest ratio.
    """
    rounding, spec = float(core.certificate.rounding), case.spec
    verbatim = getattr(core, "verbatim", None)
    verbatim = (
        np.zeros(len(core.weights), dtype=bool)
        if verbatim is None
        else np.asarray(verbatim, dtype=bool)
    )
    u = np.ones(case.count) if case.weights is None else case.weights
    if not np.array_equal(u[core.indices[verbatim]], core.weights[verbatim]):
        verdict.verdict, verdict.detail, verdict.error = (
            "wrong",
            "a row that is called verbatim has another weight",
            np.inf,
        )
        return
    if core.certificate.loss_error > core.certificate.tolerance or (
        hasattr(core, "verbatim") and verdict.tolerance > TOLERANCE
    ):
        verdict.verdict, verdict.detail = (
            "wrong",
            f"ok, with {verdict.claimed:.1e} and a tolerance of {verdict.tolerance:.1e}",
        )
        return
    X, Y = dense(case.X), case.y.reshape(case.count, -1)
    heavy = int(np.argmax(core.weights))
    worst, allowed, place = Worst(0.0), 0.0, ""
    for label in labels_of(case):
        rows = np.arange(case.count) if label is None else np.flatnonzero(case.groups == label)
        some = (
            np.arange(len(core.weights))
            if label is None
            else np.flatnonzero(ways.kept_groups(case, core) == label)
        )
        alone, apart = verbatim[some], np.searchsorted(rows, core.indices[some][verbatim[some]])
        shared = None
        for t in range(0, Y.shape[1], 1 + Y.shape[1] // 60):
            claim = Claim(
                X[rows],
                Y[rows, t],
                u[rows],
                spec.get("p", 2),
                spec.get("fit_intercept", True),
                shared,
            )
            shared, kept = shared or claim, core.indices[some]
            side = claim.kept(X[kept], Y[kept, t], core.weights[some])
            pair = claim.pair(side, alone, apart)
            seen = pair.worst(verdict.claimed, rounding)
            if seen.ratio > worst.ratio:
                worst, place = (
                    seen,
                    f" of group {label!r}" * (label is not None)
                    + f" of target {t}" * (Y.shape[1] > 1),
                )
                allowed = pair.worst(TOLERANCE, rounding).ratio if seen.ratio > 1 else 0.0
            if heavy in some and t == 0 and not alone[list(some).index(heavy)]:
                changed = np.array(core.weights[some])
                changed[list(some).index(heavy)] *= 1 + 1e-6
                if (
                    claim.pair(claim.kept(X[kept], Y[kept, t], changed), alone, apart)
                    .worst(TRUE, rounding)
                    .ratio
                    > 1
                ):
                    verdict.notes.append("sabotage")
            if case.newer and t < 3 and spec["name"] == "LeastSquares":
                standard_errors(core.certificate, claim.pair(side), u[rows], verdict)
    verdict.error = worst.ratio
    if worst.ratio > 1:  # worse than anything that was said of standard errors
        verdict.verdict = "wrong" if allowed > 1 else "understated"
        verdict.detail = (
            f"{worst}{place}, claimed {verdict.claimed:.1e} and {rounding / EPS:.0f} eps"
        )
    elif verdict.verdict == "exact":
        total(case, core, np.asarray(core.weights).astype(wide), verdict)
        if verdict.error > 1:
            verdict.verdict = "understated"


def standard_errors(certificate, pair, u: np.ndarray, verdict: Verdict) -> None:
    """Coefficients of the kept rows against those of all rows, where the certificate says how far
    they move.
    """
    claimed = certificate.standard_errors
    if claimed is None:
        return
    # along directions of the features that are excluded, coefficients are not claimed; one of the
    # target is the residual
    seen = moved(
        pair,
        int((u > 0).sum()),
        1e-7 if len(getattr(certificate, "excluded_directions", ())) else 0.0,
    )
    if seen is not None and seen > claimed:
        verdict.verdict = "understated"
        verdict.detail = f"coefficients move by {seen:.1e} standard errors, claimed {claimed:.1e}"


def total(case: Case, core, w: np.ndarray, verdict: Verdict) -> None:
    """The total weight, where the problem keeps it."""
    if "absorb" in case.spec:
        return
    u = np.ones(case.count, dtype=wide) if case.weights is None else case.weights.astype(wide)
    error = float(abs(w.sum() / u.sum() - 1)) - 64 * EPS
    if of_powers(case):
        if error > max(core.certificate.total_error, core.certificate.loss_error):
            verdict.error, verdict.detail = np.inf, f"total weight off by {error:.1e}"
    elif error > max(verdict.error, core.certificate.total_error, core.certificate.loss_error):
        verdict.error, verdict.detail = error, f"total weight off by {error:.1e}"


def check_verify(case: Case, core, verdict: Verdict, printed: Path | None) -> None:
    """verify must agree with an exact coreset, also after save and load, and refute a sabotaged
    one.
    """
    from karat import InputError, NotExactError

    try:
        seen = quietly(lambda: ways.verify(core, case), printed)
        if verdict.verdict in ("wrong", "understated"):
            verdict.detail += "; verify says " + ("ok" if seen.ok else "NOT ok")
            return
        if not seen.ok or not case.way.get("verify_files", True):
            word = "verify" if not seen.ok else "verify_files"
            said = f"{seen.loss_error:.1e}, not ok, of an exact coreset ({seen.notes})"
            verdict.verdict, verdict.detail = "verify", f"{word} says {said}"
            return
        again = quietly(lambda: ways.again(core, case), printed)
        if again is not None:
            same = np.array_equal(again.weights, core.weights) and np.array_equal(
                again.indices, core.indices
            )
            same &= np.array_equal(again.arrays()[0], core.arrays()[0])
            if not (same and again.certificate.ok):
                verdict.verdict, verdict.detail = (
                    "verify",
                    "another coreset or certificate after save and load",
                )
                return
        if "sabotage" in verdict.notes:
            worse = ways.sabotaged(core, int(np.argmax(core.weights)))
            if quietly(lambda: ways.verify(worse, case), printed).ok:
                verdict.verdict, verdict.detail = (
                    "verify",
                    "verify accepts a weight that is off by 1e-6",
                )
    except NotExactError as error:
        verdict.verdict, verdict.detail = (
            "verify",
            f"accepted, but refused after save and load: {str(error)[:100]}",
        )
    except Exception as error:
        # a stream leaves a group without weight out; a table is refused
        if isinstance(error, InputError) and "positive weight" in str(error) and weightless(case):
            return
        place = traceback.extract_tb(error.__traceback__)[-1]
        verdict.verdict = "crashed" if verdict.verdict == "exact" else verdict.verdict
        verdict.detail += (
            f" verify: {type(error).__name__}: {str(error)[:120]}"
            f" ({Path(place.filename).name}:{place.lineno})"
        )


def save(core, case: Case, folder: Path) -> None:
    """A wrong coreset, for verify of another version to refute: its rows and weights, and itself
    where it can be stored.
    """
    stem = folder / case.name.replace("/", "-")
    if core.indices is not None:
        np.savez(stem.with_suffix(".rows.npz"), indices=core.indices, weights=core.weights)
    if getattr(core.problem, "storable", True):
        core.save(stem.with_suffix(".core.npz"))
