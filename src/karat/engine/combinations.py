"""Columns that are nearly combinations of others, found from their second moments.

Cholesky's factorisation of the correlations C with pivoting, ``P'C P = R'R``, orders the columns by
what the earlier ones do not explain.  Those behind a cut are ``w_K = w_J A + rest`` with
``A = R_JJ^-1 R_JK``.  A rest that vanishes is a null direction: the data does not have it.

If no cut leaves columns that are far from combinations of each other, each is replaced by what all
columns before it leave of it: by Cholesky's factorisation ``C = R'R`` in the given order, ``rests =
w R^-1 diag(R)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from karat.engine import linalg
from karat.engine.coordinates import Directions
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.sums import BLOCK

# relative pivots below which columns may be replaced
CUTS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1)
BLIND = 1e-13  # and below which a pivot is rounding
LATE = 0.5  # factor of the last column where columns compete to be chosen
WHOLE = 1e-7  # distance from an integer within which a coefficient is one: levels add up


class Combinations(NamedTuple):
    """Columns K as combinations of columns J."""

    first: Indices  # J, the constant first
    last: Indices  # K
    coefficients: Array  # A, J x K
    enough: bool  # whether the columns J are far enough from combinations of each other
    root: Array | None  # a square root of the moments about the means, if the rests vanish


def nearly_combined(
    gram: Array, size: Array, alive: Flags, rounding: float, replaced: Indices
) -> Combinations | None:
    """The fewest columns to replace so that the others are far enough from combinations of each
    other; None if no column must be replaced.

    The least eigenvalue of the others must exceed ``rounding`` of the sums times the number of
    columns.  Columns that were ``replaced`` before keep their rests, however small.
    """
    among = np.flatnonzero(alive)
    scaled = gram / size if len(among) == len(gram) else gram[np.ix_(among, among)] / size[among]
    scaled /= (size[among] * gram[0, 0])[:, None]
    means, rest = scaled[0, 1:].copy(), scaled[1:, 1:].copy()
    for i in range(0, len(rest), BLOCK):  # without a matrix of products
        rest[i : i + BLOCK] -= means[i : i + BLOCK, None] * means
    # The last column mostly is a target, which others explain better than it explains any of them.
    rest[-1] *= LATE
    rest[:, -1] *= LATE
    factor, order, rank = linalg.pivoted_cholesky(rest, BLIND)
    factor[:, order == len(rest) - 1] /= LATE
    pivots = np.square(np.diag(factor)[:rank])
    needed = len(among) * rounding
    counts = list(dict.fromkeys(int(np.searchsorted(-pivots, -cut)) for cut in CUTS))
    few = next((c for c in counts if linalg.near_least_eigenvalue(factor[:c, :c]) >= needed), 0)
    enough, few = few > 0, few or counts[-1]
    if few == len(rest):
        return None
    first, last = among[1:][order[:few]], among[1:][order[few:]]
    raw = linalg.solve_upper(factor[:few, :few], factor[:few, few:])
    mean = means[order[few:]] - means[order[:few]] @ raw  # what the constant has in the rests
    first, raw = np.concatenate([among[:1], first]), np.vstack([mean, raw])
    coefficients = raw * size[last] / size[first][:, None]
    # Levels add up to integers.  What is left in a rest after that is removed as it is,
    # however small.
    whole, again = np.rint(coefficients), np.isin(last, replaced)
    coefficients = np.where((np.abs(coefficients - whole) < WHOLE) & ~again, whole, coefficients)
    root = None
    if few == rank and len(among) == len(gram):
        root = np.zeros((few, len(rest)))
        root[:, order] = np.triu(factor[:few])
        root *= size[1:]
    return Combinations(first, last, coefficients, enough, root)


def successive_rests(gram: Array, size: Array, alive: Flags) -> tuple[Array, Array] | None:
    """The map from columns to what those before leave of each, and its inverse; None if the moments
    are singular up to rounding.

    The rests are uncorrelated: where many columns depend on each other, none needs to be left out.
    """
    among = np.ix_(alive, alive)
    units = size[alive] * np.sqrt(gram[0, 0])
    factor = linalg.cholesky(
        gram[among] / units / units[:, None], linalg.lost_by_factoring(int(alive.sum()))
    )
    if factor is None:
        return None
    map_, back = np.eye(len(gram)), np.eye(len(gram))
    pivots = np.diag(factor)
    map_[among] = linalg.upper_inverse(factor) * pivots * units / units[:, None]
    back[among] = factor / pivots[:, None] * units / units[:, None]
    return map_, back


def null_directions(
    map_: Array, back: Array, gram: Array, directions: Array, products: Array
) -> tuple[Array, Directions, Array]:  # fmt: skip
    """Null directions as orthonormal vectors in scaled coordinates, as directions of the variables,
    and ``[V; W]``.
    """
    size = np.sqrt(np.maximum(np.diag(gram), 0.0))
    size[size == 0] = 1.0
    orthonormal, triangle = np.linalg.qr((back @ directions) * size[:, None])
    mixed = np.linalg.inv(triangle)
    along = (orthonormal * size[:, None]).T @ back
    inverse = np.vstack([back, along])
    inverse[: len(back)] -= (orthonormal / size[:, None]) @ along
    products = mixed.T @ products @ mixed
    norms = np.sqrt(np.maximum(np.diag(products), 0.0))
    terms = size @ np.abs(orthonormal / size[:, None])
    vectors = map_ @ (orthonormal / size[:, None])
    return orthonormal, Directions(vectors, norms / terms, norms, products), inverse
