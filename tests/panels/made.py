"""Four hundred small panels, made from seeds only, with the same bits on every machine.

Every number is a whole multiple of a power of two and sums stay below 2**53, so no operation
rounds; whole numbers are drawn from the raw words of PCG64, which NumPy does not change.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

Array = np.ndarray
UNIT = 2**15  # numbers are multiples of 1 / UNIT, before they are scaled


class Draws:
    """Whole numbers from the raw words of a generator."""

    def __init__(self, seed: int) -> None:
        self.bits = np.random.PCG64(seed)

    def below(self, bound: int, n: int) -> Array:
        """Whole numbers in [0, bound)."""
        high = self.bits.random_raw(n) >> np.uint64(32)
        return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)

    def number(self, low: int, high: int) -> int:
        """A whole number in [low, high)."""
        return low + int(self.below(high - low, 1)[0])

    def chance(self, numerator: int, denominator: int, n: int) -> Array:
        return self.below(denominator, n) < numerator

    def noise(self, n: int) -> Array:
        """Sums of four uniform numbers: between -4 and 4, with a variance of 4 / 3."""
        words = self.bits.random_raw(n)
        parts = [(words >> np.uint64(16 * i)) & np.uint64(0xFFFF) for i in range(4)]
        return (sum(part.astype(np.int64) for part in parts) - 2 * 0xFFFF) / UNIT

    def skewed(self, bound: int, n: int) -> Array:
        """Whole numbers in [0, bound), small ones more often: the last levels are rare."""
        high = [self.bits.random_raw(n) >> np.uint64(32) for _ in range(2)]
        product = (high[0] * high[1]) >> np.uint64(32)
        return ((product * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


@dataclass
class Panel:
    """Columns, the absorbed factors, and the columns of clusters (of one way, and of two)."""

    kind: str
    seed: int
    x: Array
    y: Array
    factors: list[Array]
    clusters: dict[str, Array]
    weights: Array | None = None
    effects: str = ""
    two_ways: tuple[str, str] = ("c0", "c1")
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = [f"x{j + 1}" for j in range(self.x.shape[1])]
        self.effects = self.effects or " + ".join(f"f{j}" for j in range(len(self.factors)))

    @property
    def formula(self) -> str:
        return f"y ~ {' + '.join(self.names)} | {self.effects}"

    @property
    def absorbed(self) -> list[Array]:
        """The codes of the terms behind the bar, where ``f0^f1`` is one term."""
        found = []
        for term in self.effects.split(" + "):
            parts = [self.factors[int(name[1:])] for name in term.split("^")]
            found.append(reduce(lambda a, b: a * (int(b.max()) + 1) + b, parts))
        return found

    def columns(self) -> dict[str, Array]:
        """By name; labels of factors are numbers, numbers with gaps, or text."""
        labels: list[Callable[[Array], Array]] = [
            lambda codes: codes,
            lambda codes: codes * 7 - 1000,
            lambda codes: np.array([f"level {code}" for code in codes]),
        ]
        columns = {"y": self.y, **dict(zip(self.names, self.x.T, strict=True))}
        for j, codes in enumerate(self.factors):
            columns[f"f{j}"] = labels[(self.seed + j) % 3](codes)
        columns |= self.clusters
        return columns if self.weights is None else columns | {"w": self.weights}

    def digest(self) -> int:
        """Of all numbers, to notice a panel that is not the one of the references."""
        numbers = [self.x.ravel(), self.y, *self.factors, *self.clusters.values()]
        if self.weights is not None:
            numbers.append(self.weights)
        return zlib.crc32(np.concatenate(numbers).astype("<f8").tobytes())


def grid(rows: int, columns: int) -> list[Array]:
    """The factors of a balanced panel."""
    return list(np.divmod(np.arange(rows * columns), columns))


def some(draws: Draws, factors: list[Array], numerator: int, denominator: int) -> list[Array]:
    """A part of the rows, by chance."""
    kept = draws.chance(numerator, denominator, len(factors[0]))
    return [codes[kept] for codes in factors]


def balanced(draws: Draws) -> list[Array]:
    return grid(draws.number(8, 30), draws.number(4, 10))


def unbalanced(draws: Draws) -> list[Array]:
    return some(draws, grid(draws.number(10, 40), draws.number(5, 12)), 6, 10)


def one_factor(draws: Draws) -> list[Array]:
    return unbalanced(draws)[:1]


def nested(draws: Draws) -> list[Array]:
    """Firms in industries, and years."""
    firm, year = unbalanced(draws)
    return [firm, firm // 4] if draws.number(0, 2) else [firm // 4, firm, year]


def disconnected(draws: Draws) -> list[Array]:
    """Groups of firms that never share a year."""
    firm, year = unbalanced(draws)
    return [firm, year + 20 * (firm % draws.number(2, 4))]


def singletons(draws: Draws) -> list[Array]:
    """Levels with one row, whose removal leaves others with one row."""
    n = draws.number(120, 260)
    return [draws.skewed(draws.number(20, 50), n) for _ in range(draws.number(1, 4))]


def three_factors(draws: Draws) -> list[Array]:
    firm, year = unbalanced(draws)
    return [firm, year, draws.below(draws.number(3, 9), len(firm))]


def cohorts(draws: Draws) -> list[Array]:
    """Age, period and cohort, of which each is determined by the other two."""
    cohort, age = some(draws, grid(draws.number(6, 12), draws.number(6, 12)), 8, 10)
    again = draws.number(2, 5)
    cohort, age = np.repeat(cohort, again), np.repeat(age, again)
    return [age, age + cohort, cohort]


def chain(draws: Draws) -> list[Array]:
    """Workers who join one employer to the next: a chain or a ring."""
    employers = draws.number(8, 24)
    worker = np.repeat(np.arange(employers), 2)
    employer = worker + np.arange(2 * employers) % 2
    if draws.number(0, 2):
        employer %= employers
    again = draws.number(2, 5)
    return [np.repeat(worker, again), np.repeat(employer, again)]


def joined(draws: Draws) -> list[Array]:
    """Factors of which two are joined: region^year."""
    firm, year = unbalanced(draws)
    return [draws.below(3, len(firm)), year // 2, firm]


KINDS: dict[str, Callable[[Draws], list[Array]]] = {
    "one factor": one_factor,
    "balanced": balanced,
    "unbalanced": unbalanced,
    "nested": nested,
    "disconnected": disconnected,
    "singletons": singletons,
    "weights": unbalanced,
    "three factors": three_factors,
    "three factors and weights": three_factors,
    "age, period, cohort": cohorts,
    "chain": chain,
    "joined": joined,
    "high between": unbalanced,
    "far from zero": balanced,
    "negative variance": balanced,
    "few clusters": unbalanced,
}
NAMES = list(KINDS)
COUNT = 400
TWO_WAYS = {1: ("c0", "c1"), 2: ("f0", "f1"), 3: ("f0", "c1")}


def panel(seed: int) -> Panel:
    """The panel of a seed, below ``COUNT``."""
    kind, draws = NAMES[seed % len(NAMES)], Draws(seed)
    factors = KINDS[kind](draws)
    n, k = len(factors[0]), draws.number(1, 4)
    between = 2.0 ** draws.number(4, 11) if kind == "high between" else 1.0
    x = np.column_stack([draws.noise(n) for _ in range(k)])
    noise = draws.noise(n)
    for codes in factors:  # regressors and effects go together, else nothing is to be absorbed
        levels = int(codes.max()) + 1
        effect = draws.noise(levels)
        noise = noise + between * effect[codes]
        x = x + between * np.stack([draws.noise(levels) + effect for _ in range(k)], 1)[codes]
    slopes = np.array([1.0, -0.5, 0.25])[:k]
    if kind == "negative variance":  # the scores of each firm and each year sum to nearly zero
        sign = 1 - 2 * ((factors[0] + factors[1]) % 2)
        y = x @ slopes + x[:, 0] * sign * 2 + noise / 8
    else:
        y = x @ slopes + noise
    if kind == "far from zero":
        x, y = x + 2.0**20, y - 2.0**20
    few = kind == "few clusters"
    clusters = {f"c{j}": draws.below(3 if few else draws.number(6, 25), n) for j in range(2)}
    weights = (1 + draws.below(64, n)) / 16 if "weights" in kind else None
    ways = ("c0", "c1") if len(factors) < 2 or few else TWO_WAYS[1 + seed // len(NAMES) % 3]
    if kind == "negative variance":
        ways = ("f0", "f1")
    effects = "f0^f1 + f2" if kind == "joined" else ""
    return Panel(kind, seed, x, y, factors, clusters, weights, effects, ways)


def late_entrants() -> Panel:
    """Firms that enter late are larger, and are treated soon after: an unbalanced panel on which
    ``x - mean of firm - mean of year + mean`` is far from what is left of x.
    """
    draws = Draws(1000)
    firm, year = grid(200, 10)
    entry = draws.below(8, 200)
    start = entry + 1 + draws.below(3, 200)
    kept = year >= entry[firm]
    firm, year = firm[kept], year[kept]
    treated = (year >= start[firm]).astype(float)
    effect = draws.noise(200) / 4 + entry / 2
    y = treated / 2 + effect[firm] + draws.noise(len(firm)) / 4
    none: dict[str, Array] = {}
    return Panel(
        "late entrants", 0, treated[:, None], y, [firm, year], none, None, "", ("f0", "f1")
    )
