"""``python -m tests.torture.merges``: a thousand merges of synthetic rows, each inside its printed
claim.

The moments of all rows, and of the rows made, are sums of fractions.  After every merge the error
is compared with the claim; at the end with the rounding that a sum could have, 4e-16 a merge, times
the condition kappa.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .wide import queries

KINDS = ("plain", "offset", "collinear", "wild", "real", "groups")
EACH = 4e-16


def exact_moments(table: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Second moments with the constant, as fractions."""
    rows = [[Fraction(1), *(Fraction(float(v)) for v in row)] for row in table]
    mass = [Fraction(float(w)) for w in weights]
    size = table.shape[1] + 1
    found = np.empty((size, size), dtype=object)
    for a in range(size):
        for b in range(a, size):
            found[a, b] = found[b, a] = sum(
                (u * row[a] * row[b] for u, row in zip(mass, rows, strict=True)), Fraction(0)
            )
    return found


def centred(full: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moments about the means, and their error, in units of the columns: exact up to the last
    rounding.
    """
    mean = full[0] / full[0, 0]
    move = np.array(
        [[Fraction(int(i == j)) for j in range(len(full))] for i in range(len(full))], dtype=object
    )
    move[0, 1:] = -mean[1:]
    M, E = (move.T.dot(part).dot(move) for part in (full, other - full))
    size = np.sqrt(np.diag(M).astype(float))
    return M.astype(float) / size / size[:, None], E.astype(float) / size / size[:, None]


def judged(M: np.ndarray, E: np.ndarray, delta: float, rho: float) -> float:
    """The largest ratio of error to claim at the queries of :mod:`.wide`."""
    found = [0.0]
    for v in queries(M, E, delta, rho):
        f, reach = float(v @ M @ v), float(np.abs(v[1:]).sum())
        found.append(
            abs(float(v @ E @ v)) / (delta * f + 2 * rho * reach * np.sqrt(f) + (rho * reach) ** 2)
        )
    return max(found)


@dataclass
class Outcome:
    """What a chain of merges has shown."""

    ratio: float  # largest error over claim, at any step
    error: float  # at the end
    kappa: float
    count: int
    said: str = ""

    @property
    def good(self) -> bool:
        return self.ratio <= 1 and self.error <= self.allowed

    @property
    def allowed(self) -> float:
        return self.count * EACH * self.kappa


def part(rng: np.random.Generator, kind: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((16, 2))
    if kind == "offset":
        X += [1e4, 0.0]
    if kind == "collinear":
        X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    if kind == "wild" and number % 50 == 3:
        X[5] *= 1e9
    X = X.round(9)
    return X, (X @ [1.0, -2.0] + rng.standard_normal(16)).round(9)


def chain(kind: str, count: int, seed: int = 0) -> Outcome:
    """Merge so many parts, one after the other."""
    import karat

    rng, merged, total, worst = np.random.default_rng(seed), None, 0, Outcome(0.0, 0.0, 1.0, count)
    alone: list[np.ndarray] = []
    for number in range(count):
        X, y = part(rng, kind, number)
        labels = {"groups": np.arange(16) % 2} if kind == "groups" else {}
        rows = "real" if kind == "real" and number % 2 else "synthetic"
        core = karat.coreset(X, y, rows=rows, **labels)
        own = np.column_stack([X, y])
        if kind == "groups":
            own = own[::2]  # the group that is looked at
        if core.certificate.verbatim:
            alone += [own[5]]
            own = np.delete(own, 5, axis=0)
        total = total + exact_moments(own, np.ones(len(own)))
        merged = core if merged is None else merged.merge(core)
        mine = merged.groups == 0 if kind == "groups" else np.ones(len(merged), dtype=bool)
        mine &= ~merged.verbatim
        table = np.column_stack([*merged.arrays()])
        M, E = centred(total, exact_moments(table[mine], merged.weights[mine]))
        claim, inverse = merged.certificate, np.linalg.inv(np.linalg.cholesky(M))
        error, kappa = (
            float(np.abs(np.linalg.eigvalsh(inverse @ E @ inverse.T)).max()),
            float(np.sqrt(np.linalg.cond(M))),
        )
        worst = Outcome(
            max(worst.ratio, judged(M, E, claim.loss_error, claim.rounding)), error, kappa, count
        )
        if kind == "wild" and not np.array_equal(
            np.array(alone).reshape(-1, 3), table[merged.verbatim]
        ):
            return Outcome(np.inf, error, kappa, count, "a wild row was changed")
    worst.said = f"{len(merged)} rows, claims {merged.certificate.loss_error:.1e}"
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.merges",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", help=f"one or several, by commas: {', '.join(KINDS)}")
    options = parser.parse_args()
    start, bad = time.monotonic(), 0
    print(f"{'kind':12}{'error / claim':>14}{'error':>10}{'allowed':>10}{'kappa':>10}")
    for kind in options.kind.split(",") if options.kind else KINDS:
        seen = chain(kind, options.count, options.seed)
        bad += not seen.good
        numbers = f"{seen.ratio:>14.1e}{seen.error:>10.1e}{seen.allowed:>10.1e}{seen.kappa:>10.1e}"
        print(f"{kind:12}{numbers}  {seen.said}", flush=True)
    print(f"\n{options.count} merges each, {bad} bad, {time.monotonic() - start:.0f} s")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
