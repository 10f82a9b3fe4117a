"""Recombination by random cones (Cosentino, Oberhauser, Abate) and by the tree of Tchernychova and
Lyons; for comparison.

F. Cosentino, H. Oberhauser and A. Abate, *A randomized algorithm to reduce the support of discrete
measures*, NeurIPS 2020. For points of mean zero in R^m:

    1.  m random points span a cone, with coordinates ``A = (basis)^-1``;
    2. a point with ``A x <= 0`` lies in the opposite cone: it and the basis have zero in their
       hull, which is the answer;
    3. otherwise points inside the cone (``A x > 0``) are of no use and are dropped, and one point
       of the basis is replaced by
        the point whose direction is farthest from the mean direction of the others; A x changes by
        a rank-one formula.

Steps 2 and 3 are repeated at most 2 m times.  If they fail, the deterministic algorithm of M.
Tchernychova and T. Lyons (*Caratheodory cubature measures*, Oxford 2016) takes over: groups of
points, of which null vectors eliminate half at once. Both work on the centres of 50 (m + 1) groups
first, until few points are left: the authors' *combined* algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from karat.engine.linalg import Array, Flags, Indices

GROUPS = 50  # per point of the answer
TRIES = 2  # steps per dimension before the deterministic algorithm takes over
Reducer = Callable[[Array, Array], Array]  # points and weights -> new weights, most of them zero


def recombine_randomly(points: Array, weights: Array, seed: int = 0) -> tuple[Indices, Array, int]:
    """Indices and weights of at most m + 1 points with the same mean and total weight; and how
    often the cones succeeded.
    """
    rng, found = np.random.default_rng(seed), 0

    def reduce(centres: Array, mass: Array) -> Array:
        nonlocal found
        mean = mass @ centres / mass.sum()
        shares = random_cone(centres - mean, rng)
        if shares is None:
            return recombine(centres, mass)
        found += 1
        return np.asarray(shares * mass.sum())

    left = _by_groups(points, weights, GROUPS * (points.shape[1] + 1), reduce)
    return np.flatnonzero(left), left[left > 0], found


def recombine(points: Array, weights: Array) -> Array:
    """The tree of Tchernychova and Lyons: new weights, at most m + 1 of them positive."""
    return _by_groups(points, weights, 2 * (points.shape[1] + 1), eliminate)


def _by_groups(points: Array, weights: Array, groups: int, reduce: Reducer) -> Array:
    """Reduce the centres of groups of points, drop the points of those that are left out, and go on
    with the others.
    """
    weights = weights.astype(float)
    while True:
        alive = np.flatnonzero(weights > 0)
        if len(alive) <= points.shape[1] + 1:
            return weights
        if len(alive) <= groups:
            weights[alive] = reduce(points[alive], weights[alive])
            return weights
        bounds = np.linspace(0, len(alive), groups + 1).astype(int)
        mass = np.add.reduceat(weights[alive], bounds[:-1])
        sums = np.array([weights[alive[a:b]] @ points[alive[a:b]] for a, b in pairwise(bounds)])
        weights[alive] *= np.repeat(reduce(sums / mass[:, None], mass) / mass, np.diff(bounds))


def eliminate(points: Array, weights: Array) -> Array:
    """Move the weights along the null vectors of (points, 1), one after the other, each time to the
    first that becomes zero.
    """
    rows = np.column_stack([np.ones(len(points)), points])
    values = np.linalg.svd(rows.T, full_matrices=True)
    rank = int(np.sum(values[1] > len(points) * np.finfo(float).eps * values[1][0]))
    null, weights = values[2][rank:].T.copy(), weights.astype(float)
    while null.shape[1]:
        direction = null[:, 0]
        ratios = np.full(len(weights), np.inf)
        np.divide(weights, direction, out=ratios, where=direction > 0)
        out = int(ratios.argmin())
        weights = np.maximum(weights - ratios[out] * direction, 0.0)
        weights[out] = 0.0
        null = null[:, 1:] - np.outer(direction, null[out, 1:] / direction[out])
        null[out] = 0.0
    return weights


def random_cone(points: Array, rng: np.random.Generator) -> Array | None:
    """Weights of sum 1 on m + 1 points of mean zero; None if no such points were found."""
    n, m = points.shape
    if n <= m + 1:
        return None
    basis = np.asarray(rng.choice(n, m, replace=False))
    if np.linalg.matrix_rank(points[basis]) < m:
        return None
    length = np.linalg.norm(points, axis=1)
    directions = points / np.where(length > 0, length, 1.0)[:, None]
    coordinates = np.linalg.solve(points[basis].T, points.T)  # A X, m x n
    alive = np.ones(n, dtype=bool)
    for step in range(TRIES * m):
        opposite = np.flatnonzero(np.all(coordinates <= 0, axis=0) & alive)
        if len(opposite):
            return _completed(coordinates[:, opposite[0]], basis, int(opposite[0]), n)
        alive &= ~np.all(coordinates > 0, axis=0)
        place = step % m
        new = _farthest(directions, basis, place, alive)
        pivot = coordinates[place, new]
        if abs(pivot) < 1e-12:
            return None
        entering = coordinates[:, new].copy()
        line = coordinates[place] / pivot
        coordinates -= np.outer(entering, line)
        coordinates[place] = line
        basis[place] = new
    return None


def _farthest(directions: Array, basis: Indices, place: int, alive: Flags) -> int:
    """The point whose direction is farthest from the mean direction of the basis without the place
    to be changed.
    """
    others = basis[1:] if place == 0 else basis[:place]
    mean = directions[others].mean(axis=0)
    distance = np.abs(directions @ (mean / np.linalg.norm(mean)) - 1.0)
    distance[basis] = -1.0
    return int(np.argmax(np.where(alive, distance, -1.0)))


def _completed(coordinates: Array, basis: Indices, last: int, n: int) -> Array:
    """Zero as a convex combination of the basis and of a point in the opposite cone."""
    shares = np.zeros(n)
    shares[basis] = -coordinates
    shares[last] = 1.0
    return np.asarray(shares / shares.sum())
