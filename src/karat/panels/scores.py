"""The passes at the solution: products of what is left, and sums of scores for robust errors.

With what is left of the rows in orthonormal coordinates (:mod:`.whiten`), v of the regressors and e
of the response less its fit, and weights u, the scores are s = u e v, and

    HC0      sum s s'
    HC2, 3   s over (1 - h)^(1/2), or 1 - h, with the leverage h = u (1 / W_level + v'v), which
             several effects do not have in closed form
    cluster  sum over clusters of (sum s)(sum s)'

    CR2, 3   from sums of products of v and of s by cluster (:mod:`karat.inference.submodels`).
             These are exact where every effect is nested in clusters: then what is left of the
             rows of other clusters is the same without a cluster

Several ways of clustering need sums by combinations of clusters, nearly all of which may have one
row.  These go into the sum of s s' directly; the first pass knows the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from karat.core.regression import ADJUSTED
from karat.engine.linalg import Array, Indices
from karat.engine.products import product_count, products
from karat.errors import NotExactError
from karat.inference.submodels import BUDGET
from karat.panels.levels import JointLevels, Levels, packed
from karat.panels.rows import PanelPass
from karat.panels.singletons import Singletons
from karat.panels.state import joined_state, part_state, require_shape
from karat.panels.sums import LevelSums
from karat.storage.archive import Stored

NUMBERS = 2**22  # products of rows that are made at a time
NONE = -1  # no cluster yet
SEVERAL = -2
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits that look random
LEVERAGE = 1e-10  # 1 - h below which a row is fitted exactly, and HC2 and HC3 are 0 / 0
SIEVE_BITS = 27  # at most
SIEVE_SHARE = 5  # bits more than there are keys have


class Sieve:
    """Finds the places of keys among few known ones, most of which are none of these."""

    def __init__(self, known: np.ndarray) -> None:
        self.known = known
        bits = min(max(len(known).bit_length() + SIEVE_SHARE, 10), SIEVE_BITS)
        self.drop = np.uint64(64 - bits)
        self.present = np.zeros(2**bits, dtype=bool)
        self.present[self._slots(known)] = True

    def _slots(self, keys: np.ndarray) -> np.ndarray:
        return (keys.view(np.uint64) * MULTIPLIER) >> self.drop

    def find(self, keys: np.ndarray) -> Indices:
        """The place of each key, -1 if it is not known."""
        places = np.full(len(keys), -1, dtype=np.intp)
        maybe = np.flatnonzero(self.present[self._slots(keys)])
        if len(maybe):
            at = np.searchsorted(self.known, keys[maybe])
            at[at == len(self.known)] = 0
            places[maybe] = np.where(self.known[at] == keys[maybe], at, -1)
        return places


class ClusterScores:
    """Sums of scores by cluster, or by combination of clusters.

    Parameters
    ----------
    ways : tuple of int
        Places of the codes.
    width : int
    sieve : Sieve or None
        The combinations of the first two ways that have several rows.
    """

    def __init__(self, ways: tuple[int, ...], width: int, sieve: Sieve | None) -> None:
        self.ways, self.sieve = ways, sieve
        self.sums = LevelSums(width)
        self.direct = np.zeros((width, width))
        self.alone = 0
        self.levels = [Levels() for _ in ways[2:]]

    def add(self, scores: Array, codes: list[Indices]) -> None:
        """Add the scores of rows with these codes."""
        places = codes[self.ways[0]]
        if self.sieve is not None:
            places = self.sieve.find(packed([places, codes[self.ways[1]]]))
            single = places < 0
            alone = scores[:, single]
            self.direct += alone @ alone.T
            self.alone += alone.shape[1]
            scores, places = scores[:, ~single], places[~single]
            for way, levels in zip(self.ways[2:], self.levels, strict=True):
                places = levels.codes(packed([places, codes[way][~single]]))
        if len(places):
            self.sums.add(places, scores, None)

    def merge(self, other: ClusterScores) -> None:
        """Add the sums of other rows."""
        self.direct += other.direct
        self.alone += other.alone
        joint = 0 if self.sieve is None or not self.levels else len(self.sieve.known)
        theirs = np.arange(joint or len(other.sums.counts))  # unless joint, codes are those here
        for mine, level in zip(self.levels, other.levels, strict=True):
            pairs = np.array(level.labels(), dtype=np.int64)
            theirs = mine.codes(packed([theirs[pairs >> 32], pairs & 0xFFFFFFFF]))
        self.sums.merge(other.sums, theirs)

    def state(self) -> Stored:
        """For a checkpoint."""
        return joined_state(
            [
                ("own", ({"alone": self.alone}, {"direct": self.direct})),
                ("sums", self.sums.state()),
                *((f"levels {place}", each.state()) for place, each in enumerate(self.levels)),
            ]
        )

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        numbers, own = part_state("own", header, arrays)
        self.alone, self.direct = numbers["alone"], require_shape(own["direct"], *self.direct.shape)
        self.sums.restore(*part_state("sums", header, arrays))
        for place, each in enumerate(self.levels):
            each.restore(*part_state(f"levels {place}", header, arrays))

    @property
    def count(self) -> int:
        """The number of clusters."""
        return self.alone + int((self.sums.counts > 0).sum())

    @property
    def middle(self) -> Array:
        """The sum of the outer products of the sums of each cluster."""
        return np.asarray(self.direct + self.sums.values @ self.sums.values.T)


@dataclass
class PanelScores(PanelPass):
    """Sums over what is left of the rows, in the coordinates ``turn``.

    Parameters
    ----------
    levels : list of JointLevels
    effects : list of arrays of shape (levels, columns)
    singletons : Singletons
    turn : array of shape (columns, q)
    kinds : tuple of str
        Any of HC0, HC2, HC3, cluster, CR2 and CR3; the last two with cluster.
    level_weights : array
        The weights of the levels, for leverages.
    repeated : dict
        The combinations of two ways of clustering that have several rows.
    """

    levels: list[JointLevels]
    effects: list[Array]
    singletons: Singletons
    turn: Array
    kinds: tuple[str, ...] = ()
    level_weights: Array | None = None
    repeated: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    rows: int = field(default=0, init=False)
    gram: Array = field(init=False)
    middles: dict[str, Array] = field(init=False)
    clusters: dict[tuple[int, ...], ClusterScores] = field(init=False)
    homes: dict[tuple[int, int], np.ndarray] = field(init=False)
    by_cluster: LevelSums | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        width, ways = self.turn.shape[1] - 1, self.plan.ways
        self.gram = np.zeros((width + 1, width + 1))
        self.middles = {
            kind: np.zeros((width, width)) for kind in self.kinds if kind.startswith("HC")
        }
        self.clusters, self.homes = {}, {}
        if "cluster" not in self.kinds:
            return
        sieves = {pair: Sieve(keys) for pair, keys in self.repeated.items()}
        for size in range(1, len(ways) + 1):
            for chosen in combinations(range(len(ways)), size):
                places = sorted(ways[way] for way in chosen)
                sieve = sieves[places[0], places[1]] if size > 1 else None
                self.clusters[chosen] = ClusterScores(tuple(places), width, sieve)
        if not ADJUSTED.keys().isdisjoint(self.kinds):
            size, count = product_count(width), self.levels[ways[0]].count
            if 8 * size * count > BUDGET:
                raise NotExactError(
                    f"CR2 and CR3 need {size:,} sums of each of {count:,} clusters, more than"
                    f" {BUDGET / 2**30:.0f} GiB in all. With so many clusters cov_type='cluster' is"
                    " enough; use it."
                )
            self.by_cluster = LevelSums(size)
        for effect in range(len(self.plan.effects)):
            for way in ways:
                if way != effect:
                    size = self.levels[effect].count
                    self.homes[effect, way] = np.full(size, NONE, dtype=np.int32)

    def add_rows(self, z: Array, weights: Array | None, codes: list[Indices]) -> None:
        z, weights, codes = self.singletons.without(z, weights, codes)
        for values, places in zip(self.effects, codes, strict=False):
            z -= values.take(places, axis=0).T
        v = self.turn.T @ z
        weighted = v if weights is None else v * weights
        self.rows += v.shape[1]
        self.gram += weighted @ v.T
        if not self.kinds:
            return
        scores = v[:-1] * weighted[-1]
        for kind in self.middles:
            scaled = scores
            if kind != "HC0":
                rest = self._rest(v[:-1], weights, codes[0])
                scaled = scores / (np.sqrt(rest) if kind == "HC2" else rest)
            self.middles[kind] += scaled @ scaled.T
        for sums in self.clusters.values():
            sums.add(scores, codes)
        if self.by_cluster is not None:
            self._add_products(v[:-1], weights, weighted[-1], codes[self.plan.ways[0]])
        for (effect, way), homes in self.homes.items():
            _find_homes(homes, codes[effect], codes[way])

    def _add_products(self, v: Array, weights: Array | None, e: Array, codes: Indices) -> None:
        assert self.by_cluster is not None
        size = len(self.by_cluster.values)
        step = max(1, NUMBERS // size)
        for start in range(0, len(codes), step):
            some = slice(start, start + step)
            u = None if weights is None else weights[some]
            part = products(v[:, some], u, e[some], np.empty((size, len(codes[some]))))
            self.by_cluster.add(codes[some], part, None)

    def _rest(self, v: Array, weights: Array | None, codes: Indices) -> Array:
        """1 less the leverages."""
        assert self.level_weights is not None
        leverage = 1 / self.level_weights[codes] + np.einsum("ij,ij->j", v, v)
        rest = np.asarray(1.0 - (leverage if weights is None else weights * leverage))
        if (rest < LEVERAGE).any():
            raise NotExactError(
                "A row has leverage 1: it is fitted exactly, and HC2 and HC3 are not defined; use"
                " HC1, or cluster the errors."
            )
        return rest

    def parts_of_state(self) -> list[tuple[str, Stored]]:
        homes = {f"{effect} {way}": homes for (effect, way), homes in self.homes.items()}
        clusters = self.clusters.items()
        return [
            ("totals", ({"n": self.rows}, {"gram": self.gram} | self.middles)),
            ("homes", ({}, homes)),
            *(("ways " + " ".join(map(str, ways)), sums.state()) for ways, sums in clusters),
            *([] if self.by_cluster is None else [("products", self.by_cluster.state())]),
        ]

    def restore_parts(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        numbers, totals = part_state("totals", header, arrays)
        self.rows, self.gram = numbers["n"], require_shape(totals["gram"], *self.gram.shape)
        for kind, middle in self.middles.items():
            self.middles[kind] = require_shape(totals[kind], *middle.shape)
        stored = part_state("homes", header, arrays)[1]
        for (effect, way), homes in self.homes.items():
            self.homes[effect, way] = require_shape(stored[f"{effect} {way}"], *homes.shape)
        for ways, sums in self.clusters.items():
            sums.restore(*part_state("ways " + " ".join(map(str, ways)), header, arrays))
        if self.by_cluster is not None:
            self.by_cluster.restore(*part_state("products", header, arrays))

    def merge(self, other: PanelScores) -> None:
        """Add the sums of other rows."""
        self.flush()
        other.flush()
        self.rows += other.rows
        self.gram += other.gram
        for kind, middle in other.middles.items():
            self.middles[kind] += middle
        for ways, sums in other.clusters.items():
            self.clusters[ways].merge(sums)
        if self.by_cluster is not None and other.by_cluster is not None:
            self.by_cluster.merge(other.by_cluster)
        for pair, homes in other.homes.items():
            known = np.flatnonzero(homes != NONE)
            _find_homes(self.homes[pair], known, homes[known])

    def nested(self) -> list[bool]:
        """Whether all levels of an effect lie in one cluster of some way, for each effect."""
        return [
            any(
                effect == way or bool((self.homes[effect, way] != SEVERAL).all())
                for way in self.plan.ways
            )
            for effect in range(len(self.plan.effects))
        ]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return state | {"effects": [], "levels": [], "repeated": {}} if self.rows else state


def _find_homes(homes: np.ndarray, levels: Indices, clusters: np.ndarray) -> None:
    """Note the cluster of each level of some rows, ``SEVERAL`` if there are several."""
    if len(homes) and homes[0] == SEVERAL:
        return  # one level decides, and is noted at the first place
    held = homes[levels]
    new = held == NONE
    homes[levels[new]] = clusters[new]
    if (homes[levels] != clusters).any():
        homes[0] = SEVERAL
