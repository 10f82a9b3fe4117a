"""Coordinates: shift, scale, whiten, and decide the rank of the base variables.

The span of the powers of linear forms does not change when the variables undergo an invertible
linear map (an affine one, if the constant is among them), but its conditioning does: degree p
amplifies a condition number kappa of the base variables to kappa^p.  So the variables are mapped to
nearly orthonormal ones before anything is multiplied:

    pilot   QR with column pivoting of the scaled columns of a sample:  map = R^-1, so that columns
            are mixed no more than they must be; directions that vanish in the sample stay unscaled
            ("unconfirmed");
    pass    Gram matrix G of the mapped variables over all rows;
    refine  G shows what the pilot could not see.  Unconfirmed directions are dropped if G confirms
            that they vanish, and scaled if it does not.  If G is well conditioned its sum is
            accurate and we are done; otherwise the map is improved by the eigenvectors of G and
            the pass repeated (as in CholeskyQR2).

A direction vanishes if columns that differ by at most NULL of their own size from the given ones do
not have it.  A single column vanishes only if it is zero in every row, however rare or small it is
elsewhere.  What is dropped is remembered with its size over all rows, which the proof charges to
its second term (:mod:`karat.engine.frame`).

Some variables may not be mixed with each other: the targets of a multi-output regression, of which
only the squares are kernel features.  They come last, ``separate_targets`` of them.  Each is only
residualised on the other variables, but not on small directions (GRADED): their coordinates have
large factors, and with them the rounding of the data, which must not spread.

Features are monomials of the coordinates (:mod:`karat.engine.kernel`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from karat.engine import linalg
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.sums import gram_matrix
from karat.engine.tolerances import (
    BLIND,
    EPS,
    EXPLAINED,
    GRADED,
    HALF_EXPLAINED,
    KAPPA,
    SMALL,
    SMALLISH,
    TINY,
    UNSCALED,
)

APART = 20  # binary digits by which units of directions may differ from those of coordinates


@dataclass(frozen=True)
class Directions:
    """Directions of the base variables that vanish on all rows, up to rounding."""

    # (v, e): each a combination of the shifted columns (the constant first, if it is a base
    # variable)
    vectors: Array
    sizes: Array  # (e,): their root mean square over all rows, relative to that of their terms
    # (e,): the same itself; for a loss of degree p, the p-th root of the mean p-th power
    norms: Array
    products: Array | None = None  # (e, e): mean products of their values, where they are known

    def __len__(self) -> int:
        return len(self.sizes)

    def plus(
        self, vectors: Array, sizes: Array, norms: Array, products: Array | None = None
    ) -> Directions:
        joint = None
        if not len(self) or not len(sizes):
            joint = products if not len(self) else self.products
        elif (
            self.products is not None
            and products is not None
            and not (self.norms.any() and norms.any())
        ):
            # products with directions that are zero are zero
            joint = block_diag(self.products, products)
        return Directions(
            np.hstack([self.vectors, vectors]),
            np.concatenate([self.sizes, sizes]),
            np.concatenate([self.norms, norms]),
            joint,
        )

    @staticmethod
    def none(variables: int) -> Directions:
        return Directions(np.zeros((variables, 0)), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Basis:
    """A linear map of the base variables to coordinates."""

    # (v, r): ``variables @ map`` are the coordinates; the last ``separate_targets`` of them belong
    # to the separate variables
    map: Array
    # (r,): directions that vanished in a sample; whether they vanish on all rows is not known yet
    unconfirmed: Flags
    separate_targets: int  # number of separate variables left
    excluded: Directions  # what was dropped
    inverse: Array | None = None  # of the map with what was dropped beside it, where that is known

    @staticmethod
    def of(map_: Array, separate_targets: int = 0, unconfirmed: Flags | None = None) -> Basis:
        """A basis from which nothing was dropped; by default, all of it is confirmed."""
        none = np.zeros(map_.shape[1], dtype=bool)
        return Basis(
            map_,
            none if unconfirmed is None else unconfirmed,
            separate_targets,
            Directions.none(len(map_)),
        )

    def sizes(self, block: Array) -> Array:
        """Root mean square of every coordinate of a block, relative to that of its terms (1 /
        condition of each direction).
        """
        terms = linalg.column_norms(block) @ np.abs(self.map)
        return np.asarray(linalg.column_norms(block @ self.map) / np.where(terms > 0, terms, 1.0))

    def joint_inverse(self) -> Array:
        """The inverse of the map with what was dropped beside it; infinite if it does not exist."""
        used = np.abs(self.map).max(axis=1, initial=0.0)
        beside = np.abs(self.excluded.vectors) / np.where(used > 0, used, np.inf)[:, None]
        # Directions in units far from those of the coordinates would hide these.
        unit = beside.max(axis=0, initial=0.0)
        exponents = np.log2(np.where(unit > 0, unit, 1.0))
        unit = np.where(np.abs(exponents) > APART, np.exp2(np.round(exponents)), 1.0)
        joint = np.hstack([self.map, self.excluded.vectors / unit])
        rows = np.abs(joint).max(axis=1, initial=0.0)
        rows[rows == 0] = 1.0
        joint = joint / rows[:, None]
        columns = np.abs(joint).max(axis=0, initial=0.0)
        columns[columns == 0] = 1.0
        try:
            inverse = np.linalg.inv(joint / columns) / columns[:, None] / rows
        except np.linalg.LinAlgError:
            return np.full(joint.shape, np.inf)
        inverse[self.map.shape[1] :] /= unit[:, None]
        return np.asarray(inverse)


def moved_columns(k: Array, means: Array, spreads: Array, affine: bool) -> Array:
    """An error ``sum_j k_j |z_j|`` as a change of every column, in units of its size; variables lie
    along the last axis.
    """
    first = int(affine)
    need = k[..., first:] + (k[..., :1] * np.abs(means[..., 1:]) if first else 0.0)
    return np.where(need > 0, need / np.maximum(spreads[..., first:], TINY), 0.0)


def condition_of(variables: Array, largest: Array) -> float:
    """Condition number of the columns scaled to unit norm; infinite if a column is zero.

    ``largest`` holds the largest absolute value of each column.
    """
    if not largest.all():
        return np.inf
    gram = gram_matrix(variables / largest, None)
    size = np.sqrt(np.diag(gram))
    values = linalg.eigenvalues(gram / np.outer(size, size))
    return float(np.sqrt(values[-1] / max(values[0], EPS**2)))


def pilot_basis(
    variables: Array, weights: Array | None, separate_targets: int, constant: bool, degree: int = 2
) -> Basis:
    """The whitening map of a sample of rows (k x v).

    The last ``separate_targets`` variables are separate.  If the first is the ``constant`` 1, it
    stays a coordinate, and the others are centred on it.
    """
    if weights is None:
        weights = np.ones(len(variables))
    share = weights / weights.sum()
    given = variables
    count = variables.shape[1] - separate_targets
    centre = np.zeros(variables.shape[1])
    if constant:
        centre[1:] = share @ variables[:, 1:]
    null = UNSCALED * variables.shape[1]
    root = np.sqrt(share)[:, None]
    raw = linalg.column_norms(root * variables)
    variables = root * (variables - centre)
    joint, targets = variables[:, constant:count], variables[:, count:]
    size = linalg.column_norms(joint)
    seen = np.flatnonzero(size > null * raw[constant:count])
    merit = 1.0 if degree == 2 else _tame(given - centre, share)[constant:count][seen]
    triangular, s = linalg.triangular_map(joint[:, seen], null, merit)
    gone = s <= null
    columns = np.zeros((joint.shape[1], len(seen)))
    columns[seen] = triangular
    # Columns that are constant in the sample stay unscaled until the pass.
    unseen = np.setdiff1d(np.arange(joint.shape[1]), seen)
    columns = np.hstack([columns, np.eye(joint.shape[1])[:, unseen]])
    gone = np.concatenate([gone, np.ones(len(unseen), dtype=bool)])
    clear = np.concatenate([s > SMALL, np.zeros(len(unseen), dtype=bool)])
    sight = columns[:, clear]
    white = joint @ sight
    size = linalg.column_norms(targets)
    unit = np.where(size > 0, size, 1.0)
    coefficients = _on_large(white.T @ (targets / unit), s[clear[: len(s)]]) * unit
    residual = linalg.column_norms(targets - white @ coefficients)
    flat = size <= null * raw[count:]
    vanish = flat | (residual <= null * size)
    size = np.where(flat, 1.0, np.where(vanish, size, residual))
    zeros = np.zeros((separate_targets, columns.shape[1]))
    columns = np.block([[columns, -(sight @ coefficients) / size], [zeros, np.diag(1 / size)]])
    unconfirmed = np.concatenate([gone, vanish])
    if constant:
        columns = np.block(
            [[np.ones((1, 1)), -centre[1:] @ columns], [np.zeros((len(columns), 1)), columns]]
        )
        unconfirmed = np.concatenate([[False], unconfirmed])
    confirmed = ~unconfirmed
    # The proof looks at one separate variable at a time: a coordinate with two of them would hide
    # errors.
    confirmed[len(confirmed) - separate_targets :] = False
    if unconfirmed.any() and confirmed.any():
        for _ in range(2):  # the first round leaves its own rounding
            columns[:, unconfirmed] = purified(
                columns[:, unconfirmed], columns[:, confirmed], given, share
            )
    return Basis.of(columns, separate_targets, unconfirmed)


def without(basis: Basis, gone: Flags, sizes: Array, gram: Array) -> Basis:
    """The basis without some directions, which it records as excluded."""
    if not gone.any():
        return replace(basis, inverse=None)
    last = np.arange(len(gone)) >= len(gone) - basis.separate_targets
    products = gram[np.ix_(gone, gone)]
    norms = np.sqrt(np.maximum(np.diag(products), 0.0))
    excluded = basis.excluded.plus(basis.map[:, gone], sizes[gone], norms, products)
    return Basis(basis.map[:, ~gone], basis.unconfirmed[~gone], int((last & ~gone).sum()), excluded)


def purified(small: Array, confirmed: Array, variables: Array, share: Array) -> Array:
    """Nearly vanishing directions, without the multiples of confirmed coordinates that rounding has
    left in them.

    The confirmed coordinates have unit size.  The values of the directions are small, so a
    regression of them on the coordinates is accurate to its own rounding.
    """
    return np.asarray(
        small - confirmed @ ((variables @ confirmed * share[:, None]).T @ (variables @ small))
    )


def vanishing(basis: Basis, gram: Array, null: float) -> tuple[Flags, Array]:
    """Which directions vanish, according to the mean square matrix of the coordinates over all
    rows; and the relative sizes of all directions.

    Column j has the entry ``back[e, j]`` along direction e.  Without the direction, the column
    changes by that entry times the root mean square of e.  The direction vanishes if this is at
    most ``null`` of the size of every column.
    """
    rms = np.sqrt(np.maximum(np.diag(gram), 0.0))
    if np.array_equal(basis.map, np.eye(len(rms))):  # the columns themselves
        return rms == 0, np.where(rms > 0, 1.0, 0.0)
    # columns of different sizes: none must seem small to the inverse
    unit = np.abs(basis.map).max(axis=1, initial=0.0)
    unit[unit == 0] = 1.0
    scaled = basis.map / unit[:, None]
    # and coordinates of small directions have large factors
    length = np.abs(scaled).max(axis=0, initial=0.0)
    length[length == 0] = 1.0
    back = _inverse(scaled / length) / length[:, None] / unit
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.abs(back).max(axis=0, initial=0.0)
        scaled = back / np.where(largest > 0, largest, 1.0)
        size = largest * np.sqrt(np.maximum(np.einsum("ij,ij->j", scaled, gram @ scaled), 0.0))
        change = rms * np.max(np.abs(back) / np.where(size > 0, size, np.inf), axis=1, initial=0.0)
    terms = size @ np.abs(basis.map)
    return (change <= null) | (rms == 0), rms / np.where(terms > 0, terms, 1.0)


def _inverse(matrix: Array) -> Array:
    """The inverse, or that on the span of the columns if there are fewer of these than rows.

    The factor of one small direction can be so large in all its columns that the others seem to
    vanish beside it.  Elimination keeps them apart, singular values do not.
    """
    if matrix.shape[0] == matrix.shape[1]:
        try:
            return np.asarray(np.linalg.inv(matrix))
        except np.linalg.LinAlgError:
            pass
    return np.asarray(np.linalg.pinv(matrix))


class Refined(NamedTuple):
    """What a pass shows about the coordinates in which it was made."""

    gone: Flags  # (r,): those that vanish
    left: Basis  # without them
    step: Array  # from the old coordinates to whitened ones
    basis: Basis  # the old map followed by the step
    # the old ones were too ill-conditioned for moments of this degree: pass again with the new ones
    poor: bool
    kappa: float  # their condition number, as far as the step improves it


def refine(basis: Basis, gram: Array, degree: int, constant: bool, null: float) -> Refined:
    """Improve the coordinates by their mean square matrix over all rows; directions up to ``null``
    vanish.
    """
    gone, sizes = vanishing(basis, gram, null)
    rms = np.sqrt(np.maximum(np.diag(gram), 0.0))
    first = np.arange(len(rms)) < constant
    gone &= ~first  # the constant is 1 in every row, however large the others are
    last = np.arange(len(rms)) >= len(rms) - basis.separate_targets
    # Three stages, each made orthogonal to those before it: the constant, the joint variables, the
    # separate ones.
    step = np.eye(len(rms))[:, first]
    unconfirmed, size = [np.zeros(int(constant), dtype=bool)], [1.0] * int(constant)
    kappa = 1.0
    for separate, stage in ((False, ~first & ~last & ~gone), (True, last & ~gone)):
        mine = np.flatnonzero(stage)
        if not len(mine):
            continue
        columns = np.eye(len(rms))[:, mine] / rms[mine]
        clear = ~np.concatenate(unconfirmed) & (np.array(size) >= SMALL)
        earlier = step[:, clear]
        coefficients = earlier.T @ gram @ columns
        columns -= earlier @ _on_large(coefficients, np.array(size)[clear])
        rest = columns.T @ gram @ columns
        rest = (rest + rest.T) / 2
        whitening, blind = _separately(rest) if separate else _gram_schmidt(rest, sizes[mine])
        step = np.hstack([step, columns @ whitening])
        unconfirmed.append(blind)
        # of what is left beside those before it
        size += (sizes[mine] / np.diag(whitening)).tolist()
        values = np.diag(rest) if separate else linalg.eigenvalues(rest)
        kappa = max(kappa, float(np.sqrt(max(1.0, values.max()) / max(values.min(), EPS**2))))
    flags = np.concatenate(unconfirmed)
    poor = bool(flags.any()) or (degree > 2 and kappa > KAPPA ** (2 / degree))
    left = without(basis, gone, sizes, gram)
    return Refined(
        gone, left, step, replace(left, map=basis.map @ step, unconfirmed=flags), poor, kappa
    )


def _tame(values: Array, share: Array) -> Array:
    """Factors a little below 1 for columns with large fourth moments, which a few light rows may
    dominate.
    """
    largest = np.abs(values).max(axis=0, initial=0.0)
    squares = np.square(values / np.where(largest > 0, largest, 1.0))
    second = share @ squares
    tails = share @ np.square(squares / np.where(second > TINY, second, 1.0))
    return np.asarray(np.maximum(tails, 1.0) ** (-1 / 256))


def _on_large(coefficients: Array, sizes: Array) -> Array:
    """Coefficients of variables on whitened directions; those on small directions that explain
    little are zero.
    """
    if not (sizes < SMALLISH).any():
        return coefficients
    unexplained = 1.0 - np.square(coefficients).sum(axis=0)  # of 1, the square of a variable
    kept = coefficients
    for most, share in ((SMALLISH, HALF_EXPLAINED), (GRADED, EXPLAINED)):
        small = sizes < most
        rest = 1.0 - np.square(coefficients[~small]).sum(axis=0)
        kept = np.where(small[:, None] & (unexplained > share * rest), 0.0, kept)
    return np.asarray(kept)


def _separately(rest: Array) -> tuple[Array, Flags]:
    """Scale variables that may not be mixed; also return which cannot be told from zero."""
    values = np.diag(rest)
    blind = values <= BLIND * max([1.0, *values])
    return np.diag(1.0 / np.sqrt(np.where(blind, 1.0, np.abs(values)))), blind


def _gram_schmidt(rest: Array, sizes: Array) -> tuple[Array, Flags]:
    """Whiten by Gram-Schmidt, largest directions first; also returns which directions cannot be
    told from zero.

    Small directions are made orthogonal to large ones, never the reverse.  Coordinates of small
    directions carry large factors, and with them the rounding of the data, which must not spread to
    the others.
    """
    if not len(rest):
        return rest, np.zeros(0, dtype=bool)
    order = np.argsort(-sizes, kind="stable")
    factor = linalg.cholesky(np.asfortranarray(rest[np.ix_(order, order)]))
    left = None if factor is None else sizes[order] * np.diag(factor)
    if left is None or (left > np.minimum.accumulate(left) / SMALLISH).any():
        order = _small_ones_last(rest, sizes, order.tolist())
        factor = linalg.cholesky(np.asfortranarray(rest[np.ix_(order, order)]))
    if factor is not None and (np.diag(factor) ** 2 > BLIND).all():
        whitening = np.zeros_like(rest)
        whitening[np.ix_(order, order)] = linalg.upper_inverse(factor)
        return whitening, np.zeros(len(rest), dtype=bool)
    whitening, blind = np.eye(len(rest)), np.zeros(len(rest), dtype=bool)
    earlier = np.zeros((len(rest), 0))
    for k in order:
        column = whitening[:, k] - earlier @ (earlier.T @ rest[:, k])
        value = float(column @ rest @ column)
        blind[k] = value <= BLIND
        whitening[:, k] = column if blind[k] else column / np.sqrt(value)
        if not blind[k]:
            earlier = np.column_stack([earlier, whitening[:, k]])
    return whitening, blind


def _small_ones_last(rest: Array, sizes: Array, order: list[int]) -> Indices:
    """The same order, but directions of which little is left beside the earlier ones come last.

    Rows that a sample has missed can make directions large and parallel that are neither on other
    rows.
    """
    rest = rest.copy()
    for place in range(len(order)):
        left = np.maximum(np.diag(rest)[order[place:]], 0.0) ** 0.5 * sizes[order[place:]]
        order.insert(place, order.pop(place + int((left >= SMALLISH * left.max()).argmax())))
        row = rest[order[place]]
        if row[order[place]] > BLIND:
            rest -= np.outer(row, row) / row[order[place]]
    return np.array(order)
