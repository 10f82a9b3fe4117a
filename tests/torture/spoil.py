"""``python -m tests.torture.spoil``: a large rounding cannot hide; verify refuses what is off, and
accepts what is not.

Coresets are spoilt until their exact error (:mod:`.claim`) is twice what the claim allows at some
query, with delta = 1e-10 and rho = 64 eps, or the sum of that and the certificate's rounding if the
latter is larger: verify must say no to all of them. Spoilt by half, at most delta = 0.5e-10 and rho
= 32 eps, verify must say ok.

weight    one weight changed
directed  all weights changed such that one product of two directions alone is off, often of nearly
collinear columns
missing   a kept row left out
replaced  a kept row replaced by a neighbour in the data
bit       one bit of a kept row changed: never ok, however small
half      as weight and directed, to half of what is allowed

The largest value of a form of degree 4 is not computed but bounded, by a matrix: for p > 2 directed
changes must be accepted at an eighth of that half only.
"""

from __future__ import annotations

import argparse
import decimal
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from .arithmetic import EPS, extended
from .claim import Ascent, Claim, Pair
from .exact import CONTEXT
from .pool import ROOT

DELTA, RHO = 1e-10, 64 * EPS
LOOSE = 8  # bounds of forms of a higher degree
KINDS = ("weight", "directed", "missing", "replaced", "bit", "half", "half directed")


@dataclass
class Subject:
    """A coreset with its data, to be spoilt."""

    X: np.ndarray
    y: np.ndarray
    u: np.ndarray | None
    p: int
    affine: bool
    core: object
    claim: Claim
    about: str

    @property
    def verbatim(self) -> np.ndarray:
        flags = getattr(self.core, "verbatim", None)
        return (
            np.zeros(len(self.core.weights), dtype=bool)
            if flags is None
            else np.asarray(flags, dtype=bool)
        )

    def pair(self, rows: np.ndarray, weights: np.ndarray, verbatim: np.ndarray) -> Pair:
        kept = self.claim.kept(self.X[rows], self.y[rows], weights)
        return self.claim.pair(kept, verbatim, rows[verbatim])

    def verified(self, rows: np.ndarray, weights: np.ndarray, verbatim: np.ndarray, X=None, y=None):
        order = np.argsort(rows, kind="stable")
        changed = {"indices": rows[order], "weights": weights[order]}
        changed["X"] = (self.X[rows] if X is None else X)[order]
        changed["y"] = (self.y[rows] if y is None else y)[order]
        if (
            any(f.name == "verbatim" for f in fields(self.core))
            and getattr(self.core, "verbatim", None) is not None
        ):
            changed["verbatim"] = verbatim[order]
        return replace(self.core, **changed).verify(self.X, self.y, sample_weight=self.u)


def subject(rng: np.random.Generator) -> Subject | None:
    """A coreset of random data, half of it nearly collinear; None if it is refused."""
    import karat

    n, d = int(10.0 ** rng.uniform(2.3, 3.3)), int(rng.integers(2, 5))
    X = rng.standard_normal((n, d))
    near = 0.0
    if rng.random() < 0.6:
        near = 10.0 ** rng.uniform(-12, -5)
        X[:, -1] = X[:, 0] + near * X[:, -1]
    if rng.random() < 0.2:
        X += 10.0 ** rng.uniform(0, 3)
    y = X @ rng.standard_normal(d) + 10.0 ** rng.uniform(-4, 1) * rng.standard_normal(n)
    u = rng.uniform(0.5, 2.0, n) if rng.random() < 0.4 else None
    affine, p = bool(rng.random() < 0.5), 4 if d < 4 and rng.random() < 0.1 else 2
    problem = (
        karat.problems.LpRegression(p, fit_intercept=affine)
        if p > 2
        else karat.problems.LeastSquares(fit_intercept=affine)
    )
    try:
        core = karat.coreset(X, y, problem, sample_weight=u)
    except karat.NotExactError:
        return None
    about = (
        f"p = {p}, {n} x {d}, "
        + ("intercept" if affine else "none")
        + (f", near {near:.1e}" if near else "")
    )
    return Subject(X, y, u, p, affine, core, Claim(X, y, u, p, affine), about)


def direction(rng: np.random.Generator, own: Subject) -> np.ndarray | None:
    """A change of weights, relative to them, that moves one product of two directions and no other
    moment.
    """
    rows, keep = own.core.indices, ~own.verbatim
    with decimal.localcontext(CONTEXT):
        pair = own.pair(rows, own.core.weights, own.verbatim)
        ascent = Ascent(pair, DELTA, RHO)
    phi = ascent.own.astype(float)
    powers = ascent.powers
    features = np.prod(phi.T[:, None, :] ** powers[None], axis=2)  # kept rows x monomials
    w = np.asarray(own.core.weights)[keep]
    smallest = int(np.argmin(pair.d))
    pure = int(np.flatnonzero(powers[:, smallest] == own.p)[0])
    target = pure if rng.random() < 0.6 else int(rng.integers(len(powers)))
    goal = np.zeros(len(powers))
    goal[target] = 1.0
    change, *_ = np.linalg.lstsq((features * w[:, None]).T, goal, rcond=1e-13)
    if not np.abs(change).max() > 0:
        return None
    full = np.zeros(len(rows))
    full[keep] = change / np.abs(change).max()
    return full * rng.choice([-1, 1])


def spoilt(
    own: Subject, change: np.ndarray, goal: float, delta: float, rho: float
) -> tuple[np.ndarray, float] | None:
    """Weights changed so far that the worst ratio is the goal, or just above it (below it, if it is
    at most 1).
    """
    rows, weights = own.core.indices, np.asarray(own.core.weights)
    size, low, high, best = 1e-9, 0.0, 0.99, None
    inside = (
        (lambda r: goal <= r <= 1.1 * goal) if goal > 1 else (lambda r: 0.8 * goal <= r <= goal)
    )
    aim = goal * (1.05 if goal > 1 else 0.9)
    for _ in range(40):
        changed = weights * (1 + size * change)
        ratio = own.pair(rows, changed, own.verbatim).worst(delta, rho).ratio
        if inside(ratio):
            return changed, ratio
        low, high = (size, high) if ratio < aim else (low, size)
        guess = size * aim / ratio if ratio > 0 else 1e3 * size
        if low and not low < guess < high:
            guess = np.sqrt(low * high)
        size = float(np.clip(guess, 1e-17, 0.99)) if not low else guess
        if low and high / low < 1 + 1e-6:
            break
    return best


def judged(
    kind: str, own: Subject, rng: np.random.Generator, share: float = 0.5
) -> tuple[str, str]:
    """("good" | "bad" | "skipped", what was seen)."""
    core = own.core
    rows, weights, alone = core.indices, np.array(core.weights), own.verbatim
    rounding = float(core.certificate.rounding)
    rho = RHO + rounding if rounding > RHO else RHO
    free = np.flatnonzero(~alone)
    if not len(free):
        return "skipped", "all rows are verbatim"
    k = int(rng.choice(free))
    if kind == "bit":
        X, y = own.X[rows].copy(), own.y[rows].copy()
        if rng.random() < 0.8:
            j = int(rng.integers(X.shape[1]))
            X[k, j] = np.nextafter(X[k, j], rng.choice([-np.inf, np.inf]))
        else:
            y[k] = np.nextafter(y[k], np.inf)
        seen = own.verified(rows, weights, alone, X, y)
        return ("bad", "one bit of a kept row, accepted") if seen.ok else ("good", "")
    if kind in ("missing", "replaced"):
        if kind == "missing":
            keep = np.arange(len(rows)) != k
            some = rows[keep], weights[keep], alone[keep]
        else:
            D = np.column_stack([own.X, own.y])
            distance = np.abs((D - D[rows[k]]) / D.std(axis=0)).max(axis=1)
            distance[rows] = np.inf
            other = rows.copy()
            other[k] = int(np.argmin(distance))
            some = other, weights, alone
        if not len(some[0]):
            return "skipped", "nothing left"
        ratio = own.pair(*some).worst(DELTA, rho).ratio
        if ratio < 2:
            return "skipped", f"ratio {ratio:.2g}"
        return answer(own.verified(*some), own.pair(*some), ratio, refuse=True)
    if kind in ("weight", "half"):
        change = np.zeros(len(rows))
        change[k] = rng.choice([-1.0, 1.0])
    else:
        change = direction(rng, own)
        if change is None:
            return "skipped", "no direction"
    refuse = kind in ("weight", "directed")
    share = share / LOOSE if own.p > 2 and kind == "half directed" else share
    found = spoilt(
        own, change, *((2.0, DELTA, rho) if refuse else (1.0, DELTA * share, RHO * share))
    )
    if found is None:
        return "skipped", "not reached"
    return answer(
        own.verified(rows, found[0], alone), own.pair(rows, found[0], alone), found[1], refuse
    )


def quietly(kind: str, own: Subject, rng: np.random.Generator, share: float) -> tuple[str, str]:
    """The same; a warning or an exception is wrong too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return judged(kind, own, rng, share)
    except Exception as error:
        return "bad", f"{type(error).__name__}: {str(error)[:120]}"


def answer(seen, pair: Pair, ratio: float, refuse: bool) -> tuple[str, str]:
    said = (
        f"ratio {ratio:.3g}, verify says {'ok' if seen.ok else 'no'} ({seen.loss_error:.1e},"
        f" {seen.rounding / EPS:.0f} eps)"
    )
    if seen.ok:
        own = pair.worst(seen.loss_error, seen.rounding).ratio
        said += f", {own:.3g} times its own claim"
        if own > 1 and not refuse:
            return "bad", said + ": FALSE"
    return ("good" if bool(seen.ok) != refuse else "bad"), said


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.spoil",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", help=f"one or several, by commas: {', '.join(KINDS)}")
    parser.add_argument(
        "--half",
        type=float,
        default=0.5,
        help="the share of delta and of 64 eps that must be accepted",
    )
    parser.add_argument("--only", type=int, help="the number of a single coreset")
    parser.add_argument(
        "--src", type=Path, default=ROOT / "src", help="the source tree of the karat to judge"
    )
    options = parser.parse_args()
    src = str(options.src.resolve())
    if os.environ.get("PYTHONPATH", "").split(os.pathsep)[0] != src:  # start again with that karat
        env = os.environ | {"PYTHONPATH": f"{src}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
        return subprocess.run(
            [sys.executable, "-m", "tests.torture.spoil", *sys.argv[1:]], env=env, check=False
        ).returncode
    if not extended():
        print("The oracles need a long double of 64 bits; this machine has none.")
        return 2
    import karat

    kinds = options.kind.split(",") if options.kind else KINDS
    print(f"karat {karat.__version__} in {Path(karat.__file__).parent}", flush=True)
    start, counts, done, number, refused = time.monotonic(), Counter(), 0, options.only or 0, 0
    while done < options.count:
        rng = np.random.default_rng([options.seed, number])
        own = subject(rng)
        if own is None:
            refused += 1
        else:
            for kind in kinds:
                verdict, said = quietly(
                    kind,
                    own,
                    np.random.default_rng([options.seed, number, KINDS.index(kind)]),
                    options.half,
                )
                counts[kind, verdict] += 1
                done += verdict != "skipped"
                if verdict == "bad" or options.only is not None:
                    print(
                        f"{verdict:8}{kind:14} {said}  [{own.about}]  --seed {options.seed} --only"
                        f" {number}",
                        flush=True,
                    )
        if options.only is not None:
            break
        number += 1
    print(f"\n{'spoilt by':16}{'as it must':>12}{'wrong':>8}{'skipped':>9}")
    for kind in kinds:
        good, bad, skipped = (counts[kind, word] for word in ("good", "bad", "skipped"))
        print(f"{kind:16}{good:>12}{bad:>8}{skipped:>9}")
    bad = sum(counts[kind, "bad"] for kind in kinds)
    print(
        f"\n{done} in {number} coresets ({refused} refused), {bad} wrong,"
        f" {time.monotonic() - start:.0f} s"
    )
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
