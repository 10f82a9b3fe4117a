"""``python -m tests.torture.wide``: synthetic rows of wide tables, judged by their claim
(:mod:`.claim`, p = 2).

Second moments are sums of products of slices: every number is cut into pieces of so few bits that
BLAS adds their products without rounding.  The sums are integers then, and nothing is lost.
Where the error of the made rows is largest beside the claim is sought in doubles, by eigenvectors
as in :class:`.claim.Pair`; at what is found, both losses are exact.
"""

from __future__ import annotations

import argparse
import decimal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from scipy import linalg as sla
from scipy import sparse

from .claim import Worst
from .exact import CONTEXT, lowest, whole
from .made import places

GRID = 10.0 ** np.arange(-17.0, 1.1, 2.0)


def exact_gram(table: np.ndarray, lows: list[int]) -> np.ndarray:
    """``D'D`` as integers, column j in units of ``2^lows[j]``."""
    bits = (53 - int(np.ceil(np.log2(max(2, len(table)))))) // 2
    numbers = [whole(column, low) for column, low in zip(table.T, lows, strict=True)]
    length = max(int(abs(v)).bit_length() for column in numbers for v in column)
    slices = []
    for k in range(-(-length // bits)):
        mask = (1 << bits) - 1
        cut = [
            [((abs(int(v)) >> (k * bits)) & mask) * (1 if v >= 0 else -1) for v in column]
            for column in numbers
        ]
        slices.append(np.array(cut, dtype=float).T)
    total = np.full((table.shape[1], table.shape[1]), 0, dtype=object)
    for a, left in enumerate(slices):
        for b, right in enumerate(slices):
            part = left.T @ right
            assert np.abs(part).max() <= 2.0**53
            total += part.astype(np.int64).astype(object) << ((a + b) * bits)
    return total


class Wide:
    """All rows, with whole weights or none, against weighted rows, few of whose weights differ."""

    def __init__(self, table: np.ndarray, weights: np.ndarray | None = None) -> None:
        self.D = np.column_stack([np.ones(len(table)), np.asarray(table, dtype=float)])
        self.u = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=float)

    def worst(self, made: np.ndarray, weights: np.ndarray, delta: float, rho: float) -> Worst:
        """The query at which the error is largest beside the claim, of those that are tried."""
        C = np.column_stack([np.ones(len(made)), made])
        lows = [min(lowest(a), lowest(b)) for a, b in zip(self.D.T, C.T, strict=True)]
        low = min(lowest(self.u), lowest(weights))
        M, G = (
            self._weighted(rows, own, lows, low) for rows, own in ((self.D, self.u), (C, weights))
        )
        E = G - M
        # about the means, in doubles of exact numbers
        total = M[0, 0]
        mean = [Fraction(int(M[0, j]), int(total)) for j in range(len(M))]
        move = np.array([Fraction(0), *mean[1:]], dtype=object)
        scale = np.empty(len(M))
        centred, change = (np.empty(M.shape) for _ in range(2))
        spread = np.array([M[j, j] * total - M[0, j] ** 2 for j in range(len(M))], dtype=object)
        spread[0] = total * total
        for j in range(len(M)):
            scale[j] = float(Fraction(int(spread[j]), int(total))) ** 0.5 if spread[j] else 0.0
        used = np.flatnonzero(scale > 0)
        flat = np.flatnonzero(scale == 0)
        if any(G[j, k] * total != M[0, j] * G[0, k] for j in flat for k in range(len(M))):
            return Worst(np.inf, np.inf)
        for a in used:
            for b in used:
                value = (
                    M[a, b] * total - M[0, a] * M[0, b]
                    if a and b
                    else (total * total if a == b else 0)
                )
                centred[a, b] = float(Fraction(int(value), int(total))) / scale[a] / scale[b]
                change[a, b] = float(
                    E[a, b] - move[a] * E[0, b] - move[b] * E[0, a] + move[a] * move[b] * E[0, 0]
                )
                change[a, b] /= scale[a] * scale[b]
        found = queries(centred[np.ix_(used, used)], change[np.ix_(used, used)], delta, rho)
        best = Worst(0.0)
        with decimal.localcontext(CONTEXT):
            for scaled in found:
                seen = self._ratio(scaled, used, scale, mean, M, E, delta, rho)
                best = seen if seen.ratio > best.ratio else best
        return best

    def _weighted(
        self, rows: np.ndarray, weights: np.ndarray, lows: list[int], low: int
    ) -> np.ndarray:
        total = np.full((rows.shape[1], rows.shape[1]), 0, dtype=object)
        for value in np.unique(weights):
            total += exact_gram(rows[weights == value], lows) * int(
                whole(np.array([value]), low)[0]
            )
        return total

    def _ratio(self, scaled, used, scale, mean, M, E, delta, rho) -> Worst:
        """The claim at one query, with 60 bits for each coefficient: both losses exact."""
        top = float(np.abs(scaled).max())
        z = [Fraction(0)] * len(M)
        for k, j in enumerate(used):
            z[j] = Fraction(float(scaled[k] / top)) / Fraction(float(scale[j]))
        z[0] -= sum(z[j] * mean[j] for j in used if j)
        common = 1 << 400
        q = np.array([int(v * common) for v in z], dtype=object)
        f, error = int(q.dot(M).dot(q)), int(q.dot(E).dot(q))
        reach = Decimal(0)
        total = int(M[0, 0])
        for j in used[1:]:
            square = Decimal(int(M[j, j] * total - M[0, j] ** 2)) / Decimal(total)
            reach += abs(Decimal(int(q[j]))) * square.sqrt()
        value, change = CONTEXT.create_decimal(f), abs(CONTEXT.create_decimal(error))
        allowed = (
            Decimal(delta) * value
            + 2 * Decimal(rho) * reach * value.sqrt()
            + (Decimal(rho) * reach) ** 2
        )
        if not change:
            return Worst(0.0)
        share = (float(v / value) if f else np.inf for v in (change, allowed))
        return Worst(float(change / allowed) if allowed else np.inf, *share)


def queries(G: np.ndarray, E: np.ndarray, delta: float, rho: float) -> list[np.ndarray]:
    """Both ends of the spectrum of the error relative to what the claim allows at several t, and
    single columns.
    """
    size, found = len(G), [np.eye(len(G))[0]]
    free = np.eye(size)
    free[0, 0] = 0.0
    for t in GRID:
        B = (
            (delta + t) * G
            + rho**2 * (1 + 1 / t) * (size - 1) * free
            + 1e-14 * max(delta, t) * np.eye(size)
        )
        try:
            _, vectors = sla.eigh(E, B, check_finite=False)
        except (np.linalg.LinAlgError, ValueError):
            continue
        for k in (0, size - 1):
            vector = vectors[:, k]
            found.append(vector)
            share = np.abs(vector) / np.abs(vector).max()
            found += [np.where(share > cut, vector, 0.0) for cut in (1e-3, 0.1)]
    worst = np.argsort(-np.abs(np.diag(E)))[:5]
    return found + list(np.eye(size)[worst])


Maker = Callable[[np.random.Generator, int, int], np.ndarray]
KINDS: dict[str, Maker] = {}


def kind(function: Maker) -> Maker:
    KINDS[function.__name__.replace("_", "-")] = function
    return function


def normal(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.standard_normal((n, d))


@kind
def plain(rng, n, d):
    return normal(rng, n, d) @ (np.eye(d) + 0.3 * normal(rng, d, d) / np.sqrt(d))


@kind
def levels(rng, n, d):
    """All levels of several factors, some of them rare, beside numbers."""
    blocks, left = [], d
    while left > 3:
        count = min(left, int(rng.integers(2, 40)))
        chances = rng.dirichlet(np.full(count, rng.choice([0.3, 1.0, 10.0])))
        blocks.append(np.eye(count)[rng.choice(count, n, p=chances)])
        left -= count
        if rng.random() < 0.3 and left > 6:
            blocks.append(normal(rng, n, 3))
            left -= 3
    return np.hstack([*blocks, normal(rng, n, left)]) if left else np.hstack(blocks)


@kind
def combinations(rng, n, d):
    """Columns that are combinations of others: of integers exactly, of others up to
    rounding.
    """
    base = (
        rng.integers(-9, 10, (n, d // 2)).astype(float)
        if rng.random() < 0.5
        else normal(rng, n, d // 2)
    )
    mix = rng.integers(-3, 4, (d // 2, d - d // 2)) * (rng.random((d // 2, d - d // 2)) < 3 / d)
    return np.hstack([base, base @ mix])


@kind
def near_copies(rng, n, d):
    X, some = normal(rng, n, d), rng.choice(d, d // 3, replace=False)
    size = 10.0 ** rng.uniform(-15, -2, len(some))
    X[:, some] = X[:, (some + 1) % d] + size * X[:, some]
    return X


@kind
def chains(rng, n, d):
    """Each column is nearly the one before."""
    return np.cumsum(normal(rng, n, d) * 10.0 ** rng.uniform(-6, 0, d), axis=1)


@kind
def offsets(rng, n, d):
    return normal(rng, n, d) + 10.0 ** rng.uniform(0, 8, d) * rng.choice([-1, 0, 1], d)


@kind
def tails(rng, n, d):
    return rng.standard_t(rng.choice([1.2, 2.0, 3.0]), (n, d))


@kind
def sentinels(rng, n, d):
    X, some = normal(rng, n, d), rng.choice(d, 3, replace=False)
    X[np.ix_(rng.choice(n, int(rng.integers(1, 4)), replace=False), some)] = rng.choice(
        [-999.0, 1e9, 1e20]
    )
    return X


@kind
def units(rng, n, d):
    return (normal(rng, n, d) + rng.choice([0.0, 3.0])) * 10.0 ** rng.uniform(
        *rng.choice([[-8, 8], [-150, 140]]), d
    )


@kind
def constants(rng, n, d):
    X = normal(rng, n, d)
    X[:, rng.choice(d, d // 4, replace=False)] = rng.choice([0.0, 7.3, 1e6])
    X[:, rng.integers(d)] = rng.random(n) < 3 / n
    return X


@kind
def repeated(rng, n, d):
    """Few different rows."""
    count = int(rng.choice([1, 2, rng.integers(2, d // 2)]))
    return normal(rng, count, d)[rng.integers(0, count, n)]


@kind
def counts(rng, n, d):
    """Rare integers, as of words in documents."""
    return rng.poisson(rng.gamma(0.3, 1.0, d), (n, d)).astype(float)


@dataclass
class Table:
    """A table with its way in."""

    table: np.ndarray
    weights: np.ndarray | None
    way: str
    about: str


def draw(number: int, seed: int, only: str | None = None) -> Table:
    rng = np.random.default_rng([seed, number])
    name = only or list(KINDS)[number % len(KINDS)]
    d = int(
        rng.choice(
            [rng.integers(30, 64), rng.integers(64, 130), rng.integers(256, 290)],
            p=[0.3, 0.45, 0.25],
        )
    )
    n = int(rng.choice([d - 3, d + 2, d + 20, 3 * d, 6 * d], p=[0.1, 0.1, 0.15, 0.35, 0.3]))
    table = KINDS[name](rng, n, d)
    weights = rng.choice(10.0 ** rng.uniform(-12, 12, 3), n) if rng.random() < 0.2 else None
    way = str(
        rng.choice(
            ["memory", "sparse", "sketch", "merge", "sketches", "groups"],
            p=[0.45, 0.15, 0.15, 0.1, 0.05, 0.1],
        )
    )
    about = f"{name} {number}, {n} x {d}, {way}" + ("" if weights is None else ", weights")
    return Table(table, weights, way, about)


def build(case: Table):
    """The coreset of all columns (no target), by its way in."""
    import karat

    X, u, n = case.table, case.weights, len(case.table)
    problem, kind = karat.problems.Moments(2), {"rows": "synthetic"}
    halves = [slice(0, n // 2), slice(n // 2, n)]

    def own(part):
        return {} if u is None else {"sample_weight": u[part]}

    if case.way == "sparse":
        return karat.coreset(sparse.csr_array(X), problem=problem, **own(slice(None)), **kind)
    if case.way == "merge":
        first, second = (
            karat.coreset(X[part], problem=problem, **own(part), **kind) for part in halves
        )
        return first.merge(second)
    if case.way in ("sketch", "sketches"):
        sketches = [
            karat.Sketch(problem, buffer_rows=max(50, n // 4), **kind)
            for _ in range(1 + (case.way == "sketches"))
        ]
        for start in range(0, n, 40):
            part = slice(start, min(start + 40, n))
            sketches[(start // 40) % len(sketches)].update(X[part], **own(part))
        return (
            sketches[0].merge(*sketches[1:]).coreset()
            if len(sketches) > 1
            else sketches[0].coreset()
        )
    if case.way == "groups":
        return karat.coreset(
            X, problem=problem, groups=np.arange(n) % 2, **own(slice(None)), **kind
        )
    return karat.coreset(X, problem=problem, **own(slice(None)), **kind)


def judged(case: Table) -> tuple[str, str]:
    """The verdict and what was seen."""
    import karat

    u = np.ones(len(case.table)) if case.weights is None else case.weights
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            core = build(case)
        except (karat.InputError, karat.NotExactError) as error:
            return "refused", f"{type(error).__name__}: {str(error)[:150]}"
        except Exception as error:
            return "crashed", f"{type(error).__name__}: {str(error)[:150]}"
        made, claim = core.arrays()[0], core.certificate
        parity = (
            np.arange(len(case.table)) % 2
            if case.way == "groups"
            else np.zeros(len(case.table), dtype=int)
        )
        for label in np.unique(parity):
            rows = np.flatnonzero(parity == label)
            some = (
                np.flatnonzero(core.groups == label)
                if case.way == "groups"
                else np.arange(len(made))
            )
            alone = core.verbatim[some]
            apart = places(
                np.column_stack([case.table, u])[rows],
                np.column_stack([made, core.weights])[some[alone]],
            )
            if apart is None:
                return "wrong", "a row that is called verbatim is no row of the data"
            rest = np.setdiff1d(np.arange(len(rows)), apart)
            judge = Wide(case.table[rows[rest]], u[rows[rest]])
            worst = judge.worst(
                made[some[~alone]], core.weights[some[~alone]], claim.loss_error, claim.rounding
            )
            if worst.ratio > 1:
                return "wrong", str(worst)
        own = {} if case.weights is None else {"sample_weight": u}
        if case.way == "groups":
            own["groups"] = parity
        X = sparse.csr_array(case.table) if case.way == "sparse" else case.table
        seen = core.verify(X, **own)
    if not seen.ok:
        return "verify", str(seen)[:200]
    said = (
        f"{len(core)} rows, claims {claim.loss_error:.1e} and {claim.rounding / 2**-52:.0f} eps,"
        f" ratio {worst.ratio:.1e}"
    )
    return "exact", said


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.wide",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of a single table")
    parser.add_argument("--kind", help=f"one of {', '.join(KINDS)}")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    start, counted = time.monotonic(), Counter()
    for number in range(options.count) if options.only is None else [options.only]:
        case = draw(number, options.seed, options.kind)
        verdict, said = judged(case)
        counted[case.about.split()[0], verdict] += 1
        if verdict not in ("exact",) or options.verbose or options.only is not None:
            print(
                f"{verdict:8} {said}  [{case.about}]  --seed {options.seed} --only {number}",
                flush=True,
            )
    words = ("exact", "refused", "wrong", "verify", "crashed")
    print(f"\n{'kind':16}" + "".join(f"{word:>10}" for word in words))
    for name in KINDS:
        print(f"{name:16}" + "".join(f"{counted[name, word] or '.':>10}" for word in words))
    bad = sum(number for (_, word), number in counted.items() if word not in ("exact", "refused"))
    print(f"\n{sum(counted.values())} tables, {bad} bad, {time.monotonic() - start:.0f} s")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
