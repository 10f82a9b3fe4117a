"""Kernels of latent-variable models: a few *terms* over a few coordinates per sample.

Once the maps of the full data are fixed, a sample is a handful of coordinates (z = M'x, ...), and
what must be kept is a sum of polynomials of them.  A term has its features per sample, and how to
get their sum from products of blocks (BLAS-3), so that the n x k^3 features are never formed:

    Power      z^t, |t| = p                              Gram matrix of lower monomials
    Cubes      z^t, |t| = 3, the last z the constant 1   (z^s, |s| = 2, of the others) z', and sum z
    Cubic      z (x) z (x) z - q [z | G]                 as Cubes or Power, and sum q z
    Symmetric  mean over the orders of a (x) b (x) c     (a (x) b) c'
    Product    a_i b_j                                   a b'
    LinearTerm the coordinates themselves                their sum

with ``[a | S] = a_i S_jl + a_j S_il + a_l S_ij``.  Symmetric tensors are held by their unique
entries times ``sqrt(c_t)``, c_t the number of orders of the multiset t, which keeps inner products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import permutations
from typing import ClassVar, final

import numpy as np

from karat.engine.kernel import Kernel, monomials
from karat.engine.linalg import Array
from karat.engine.rows import Statistic
from karat.engine.sums import SHORT, summed_product


def expand(unique: Array, variables: int, order: int) -> Array:
    """The full symmetric tensor (k, .., k) of unique entries scaled by ``sqrt(c_t)``."""
    table = monomials(variables, order)
    entries = unique / np.sqrt(table.multinomials)
    grid = np.sort(np.indices((variables,) * order).reshape(order, -1), axis=0)
    codes = np.ravel_multi_index(tuple(table.indices.T), (variables,) * order)
    places = np.searchsorted(codes, np.ravel_multi_index(tuple(grid), (variables,) * order))
    return np.asarray(entries[places].reshape((variables,) * order))


def bracket(metric: Array) -> Array:
    """The matrix L with ``L a = [a | S]`` in scaled unique entries, for a fixed symmetric S."""
    k = len(metric)
    table = monomials(k, 3)
    i, j, m = table.indices.T
    L = np.zeros((len(table), k))
    rows = np.arange(len(table))
    for first, second, third in ((i, j, m), (j, i, m), (m, i, j)):
        np.add.at(L, (rows, first), metric[second, third])
    return L * np.sqrt(table.multinomials)[:, None]


class Term(ABC):
    """Some features of a sample, polynomials of its coordinates; blocks come as columns, c (q x
    b).
    """

    name: str
    width: int
    shape: tuple[int, int]

    @abstractmethod
    def features(self, c: Array) -> Array:
        """The features (width x b)."""

    @abstractmethod
    def statistic(self, c: Array, weights: Array | None) -> Statistic:
        """What a block adds to the sum."""

    @abstractmethod
    def moments(self, statistic: Statistic) -> Array:
        """The summed features, from the summed statistic."""

    def sums(self, c: Array, weights: Array | None) -> tuple[Array, Array]:
        """The summed features of a block, and the sums of their absolute values."""
        values = self.features(c)
        values = np.ascontiguousarray(_weighted(values, weights))
        # along contiguous rows, so pairwise
        return values.sum(axis=1), np.abs(values, out=values).sum(axis=1)


def _accurate(left: Array, right: Array) -> Array:
    """``left right'`` of blocks that come as columns."""
    return summed_product(np.ascontiguousarray(left.T), np.ascontiguousarray(right.T), SHORT)


def _weighted(values: Array, weights: Array | None) -> Array:
    return values if weights is None else values * weights


@final
class LinearTerm(Term):
    """Coordinates as they are; with no columns, the constant 1."""

    def __init__(self, name: str, columns: slice | None) -> None:
        self.name, self.columns = name, columns
        self.width = 1 if columns is None else columns.stop - columns.start
        self.shape = (self.width, 1)

    def features(self, c: Array) -> Array:
        return np.ones((1, c.shape[1])) if self.columns is None else c[self.columns]

    def statistic(self, c: Array, weights: Array | None) -> Statistic:
        features = np.ascontiguousarray(_weighted(self.features(c), weights))
        return (features.sum(axis=1),)

    def moments(self, statistic: Statistic) -> Array:
        return statistic[0]

    def sums(self, c: Array, weights: Array | None) -> tuple[Array, Array]:
        return self.statistic(c, weights)[0], np.abs(_weighted(self.features(c), weights)).sum(
            axis=1
        )


class MonomialTerm(Term):
    """All monomials of one degree >= 2 in some coordinates, each times the root of the number of
    its orderings.
    """

    def __init__(self, name: str, columns: slice, degree: int) -> None:
        self.name, self.columns = name, columns
        self.table = monomials(columns.stop - columns.start, degree)
        self.width = len(self.table)
        self.root = np.sqrt(self.table.multinomials)

    def features(self, c: Array) -> Array:
        values = self.table.values(c[self.columns])
        values *= self.root[:, None]
        return values


@final
class Power(MonomialTerm):
    """Monomials whose moments are products of two lower ones."""

    def __init__(self, name: str, columns: slice, degree: int) -> None:
        super().__init__(name, columns, degree)
        self.first, self.last = self.table.split
        high = (degree + 1) // 2
        self.left, self.right = (monomials(self.table.variables, h) for h in (high, degree - high))
        self.shape = (len(self.left), len(self.right))

    def statistic(self, c: Array, weights: Array | None) -> Statistic:
        z = c[self.columns]
        return (summed_product(self.left.values(z).T, _weighted(self.right.values(z), weights).T),)

    def moments(self, statistic: Statistic) -> Array:
        return np.asarray(self.root * statistic[0][self.first, self.last])

    def sums(self, c: Array, weights: Array | None) -> tuple[Array, Array]:
        """A monomial is a product of two lower ones, and so is its absolute value: no feature of a
        single sample is formed.
        """
        z = c[self.columns]
        left, right = self.left.values(z), _weighted(self.right.values(z), weights)
        products = (_accurate(a, b) for a, b in ((left, right), (np.abs(left), np.abs(right))))
        total, absolute = (self.moments((product,)) for product in products)
        return total, absolute


@final
class Cubes(MonomialTerm):
    """Monomials of degree 3 in coordinates of which the last is the constant 1: fewer products than
    of any three.
    """

    def __init__(self, name: str, columns: slice) -> None:
        super().__init__(name, columns, 3)
        k = self.table.variables
        self.pairs = monomials(k - 1, 2)
        self.shape = (k, max(len(self.pairs), 1))
        # increasing: either two of three are no constants, or the last two are
        i, j, m = self.table.indices.T
        inside = [
            self.pairs.position.get(pair, 0) for pair in zip(i.tolist(), j.tolist(), strict=True)
        ]
        self.where = np.where(
            j < k - 1, m * len(self.pairs) + np.array(inside), len(self.pairs) * k + i
        )

    def statistic(self, c: Array, weights: Array | None) -> Statistic:
        z = c[self.columns]
        z, pairs = _weighted(z, weights), self.pairs.values(z[:-1])
        return (np.concatenate([summed_product(z.T, pairs.T).ravel(), z.sum(axis=1)]),)

    @staticmethod
    def _products(pairs: Array, z: Array) -> Array:
        return np.concatenate([_accurate(z, pairs).ravel(), np.ascontiguousarray(z).sum(axis=1)])

    def moments(self, statistic: Statistic) -> Array:
        return np.asarray(self.root * statistic[0][self.where])

    def sums(self, c: Array, weights: Array | None) -> tuple[Array, Array]:
        z = c[self.columns]
        pairs, z = self.pairs.values(z[:-1]), _weighted(z, weights)
        total = self.moments((self._products(pairs, z),))
        return total, self.moments((self._products(np.abs(pairs, out=pairs), np.abs(z)),))


@final
class Cubic(Term):
    """``z (x) z (x) z - q [z | G]``, with q one number for all samples or a coordinate of each;
    ``lifted``: the last z is 1.
    """

    def __init__(
        self, name: str, columns: slice, metric: Array, q: float | int, lifted: bool = True
    ) -> None:
        self.cube = Cubes(name, columns) if lifted else Power(name, columns, 3)
        self.name, self.columns, self.width, self.shape = (
            name,
            columns,
            self.cube.width,
            self.cube.shape,
        )
        self.minus, self.q = bracket(metric), q

    def _scaled(self, c: Array) -> Array:
        return c[self.columns] * (c[self.q] if isinstance(self.q, int) else self.q)

    def features(self, c: Array) -> Array:
        values = self.cube.features(c)
        values -= self.minus @ self._scaled(c)
        return values

    def statistic(self, c: Array, weights: Array | None) -> Statistic:
        qz = self._scaled(c)
        return *self.cube.statistic(c, weights), np.ascontiguousarray(_weighted(qz, weights)).sum(
            axis=1
        )

    def moments(self, statistic: Statistic) -> Array:
        return self.cube.moments(statistic[:1]) - self.minus @ statistic[1]


@final
class Product(Term):
    """Products ``a_i b_j`` of two groups of coordinates."""

    def __init__(self, name: str, a: slice, b: slice) -> None:
        self.name, self.a, self.b = name, a, b
        self.shape = (a.stop - a.start, b.stop - b.start)
        self.width = self.shape[0] * self.shape[1]

    def features(self, c: Array) -> Array:
        return np.asarray((c[self.a][:, None] * c[self.b][None]).reshape(self.width, -1))

    def statistic(self, c: Array, weights: Array | None) -> Statistic:
        return (summed_product(c[self.a].T, _weighted(c[self.b], weights).T),)

    def moments(self, statistic: Statistic) -> Array:
        return statistic[0].ravel()

    def sums(self, c: Array, weights: Array | None) -> tuple[Array, Array]:
        total, absolute = (
            _accurate(block[self.a], _weighted(block[self.b], weights)).ravel()
            for block in (c, np.abs(c))
        )
        return total, absolute


@final
class Symmetric(Term):
    """The symmetric part of ``a (x) b (x) c``: the mean over its six orders."""

    def __init__(self, name: str, a: slice, b: slice, c: slice) -> None:
        self.name, self.views = name, (a, b, c)
        k = a.stop - a.start
        table = monomials(k, 3)
        self.width, self.shape = len(table), (k * k, k)
        self.root = np.sqrt(table.multinomials)
        self.orders = [table.indices[:, order] for order in permutations(range(3))]

    def features(self, c: Array) -> Array:
        a, b, d = (c[view] for view in self.views)
        total = sum(a[t[:, 0]] * b[t[:, 1]] * d[t[:, 2]] for t in self.orders)
        return np.asarray(total * (self.root / 6.0)[:, None])

    def statistic(self, c: Array, weights: Array | None) -> Statistic:
        a, b, d = (c[view] for view in self.views)
        pairs = (a[:, None] * b[None]).reshape(self.shape[0], -1)
        return (summed_product(pairs.T, _weighted(d, weights).T),)

    def moments(self, statistic: Statistic) -> Array:
        k = self.shape[1]
        tensor = statistic[0].reshape(k, k, k)
        return np.asarray(self.root / 6.0 * sum(tensor[tuple(t.T)] for t in self.orders))


@final
class TermKernel(Kernel):
    """The terms side by side; whitening has been done by the maps.

    Parameters
    ----------
    terms : sequence of Term
    columns : int
        Number of coordinates.
    reading : int
        Cost of making the coordinates of a sample, in multiplications; it enters the choice of
        block sizes.
    """

    adapts: ClassVar[bool] = False

    def __init__(self, terms: Sequence[Term], columns: int, reading: int) -> None:
        self.terms, self.columns = list(terms), columns
        self.width = sum(term.width for term in terms)
        self.shift = np.zeros(columns)
        left, right = max((term.shape for term in terms), key=lambda s: s[0] * s[1])
        self.product_shape = (left, max(right, -(-reading // left)))

    @property
    def roundings(self) -> int:
        return 8  # of four coordinates at most, which are taken as they are

    @property
    def statistic_size(self) -> int:
        return 2 * self.width

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        c = np.ascontiguousarray(block[:, 1:].T)
        sums, absolute = zip(*(term.sums(c, weights) for term in self.terms), strict=True)
        return np.concatenate(sums), np.concatenate(absolute)

    def sums(self, block: Array, weights: Array | None) -> Statistic:
        """The statistic of a pass that only learns: neither features of single samples nor absolute
        values are formed.
        """
        c = np.ascontiguousarray(block[:, 1:].T)
        return tuple(part for term in self.terms for part in term.statistic(c, weights))

    def learned(self, sums: Statistic) -> Array:
        """The moments, from the sum of :meth:`sums`."""
        rest, moments = list(sums), []
        for term in self.terms:
            size = 2 if isinstance(term, Cubic) else 1
            moments.append(term.moments(tuple(rest[:size])))
            del rest[:size]
        return np.concatenate(moments)

    def features(self, block: Array) -> Array:
        c = np.ascontiguousarray(block[:, 1:].T)
        return np.concatenate([term.features(c) for term in self.terms]).T

    def parts(self, moments: Array) -> dict[str, Array]:
        """Moments by the names of their terms."""
        edges = np.cumsum([term.width for term in self.terms])[:-1]
        return dict(zip([term.name for term in self.terms], np.split(moments, edges), strict=True))
