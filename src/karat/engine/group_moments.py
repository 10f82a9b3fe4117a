"""Second moments of many groups at once, each in whitened coordinates of its own.

Rows of G groups of nearly the same size are read as one stack (G, n, v).  Groups with fewer rows repeat their first one with
weight zero.  As in :mod:`karat.engine.coordinates`, with all rows as the pilot:

    shift     the mean of every column, or its value where it has only one;
    Gram      V'UV of the shifted variables of every group, one matrix product each;
    whiten    columns scaled to unit size, the constant split off, the Cholesky factor of what is left inverted;
    again     where the condition number kappa of the Gram matrix exceeds KAPPA, in the coordinates found.

Columns that are zero in every row of a group (a constant one, after the shift) are left out of its coordinates.  Everything else
that the ordinary way has an answer to is left to it, ``good`` says where: columns of extreme size, directions that nearly
vanish, numbers that are not finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine.group_weights import each
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.rows import Rows
from karat.engine.tolerances import EPS, EXTREME, KAPPA

PIECE = 512  # rows that BLAS adds up by itself; such sums are added pairwise
NARROW = 1e-9  # standard deviation over mean below which a column may be constant
STEEP = 1e5  # condition number that is left to the ordinary way


@dataclass(frozen=True)
class GroupMoments:
    """Coordinates and second moments of G groups."""

    shift: Array  # (G, c): subtracted from the columns
    total: Array  # (G,): total weight
    map: Array  # (G, v, v): shifted variables @ map are the coordinates of the last pass,
    step: Array  # (G, v, v): and these @ step the final ones
    gram: Array  # (G, v, v): second moments in the final coordinates
    kappa: Array  # (G,): condition number in the coordinates of the last pass
    alive: Flags  # (G, v): variables, and coordinates, that are not zero in every row
    twice: Flags  # (G,): the groups that were summed twice
    good: Flags  # (G,): the groups for which all this holds

    def chosen(self, which: Indices) -> GroupMoments:
        return GroupMoments(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    @staticmethod
    def joined(parts: list[GroupMoments]) -> GroupMoments:
        names = GroupMoments.__dataclass_fields__
        return GroupMoments(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def stacked_rows(rows: Rows, starts: Indices, counts: Indices, size: int) -> tuple[Array, Array]:
    """Rows of groups as a stack of blocks ``[1 | D]`` (G, size, 1 + c), and their weights, zero where a row is filled in."""
    places = np.arange(size)
    inside = places < counts[:, None]
    positions = starts[:, None] + np.where(inside, places, 0)
    return block_of(rows, positions), weights_of(rows, positions, inside)


def block_of(rows: Rows, positions: Indices) -> Array:
    """The rows at positions (G, N), as blocks ``[1 | D]`` (G, N, 1 + c)."""
    flat = positions.reshape(-1)
    run = len(flat) and flat[-1] - flat[0] + 1 == len(flat) and bool((np.diff(flat) == 1).all())
    block = np.ones((len(flat), rows.columns + 1))
    if rows.index is not None:
        rows.fill(rows.index[slice(flat[0], flat[-1] + 1) if run else flat], block)
    else:
        rows.fill(slice(int(flat[0]), int(flat[-1]) + 1) if run else flat, block)
    return block.reshape(*positions.shape, -1)


def weights_of(rows: Rows, positions: Indices, inside: Flags) -> Array:
    """The weights of rows at positions; zero outside."""
    return inside.astype(float) if rows.weights is None else np.where(inside, rows.weights[positions], 0.0)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def fit_groups(block: Array, weights: Array, affine: bool) -> GroupMoments:
    """Coordinates and moments of a stack of blocks ``[1 | D]``, which are shifted in place."""
    total = weights.sum(axis=1)
    shift = np.zeros((len(block), block.shape[2] - 1))
    if affine:
        shift = _shifts(block, weights, total)
        block[:, :, 1:] -= shift[:, None, :]
    lead = int(affine)
    variables = block[:, :, 1 - lead :]
    sums = second_moments(variables, weights)
    squares = np.einsum("gii->gi", sums).copy()
    alive = squares > 0
    step, kappa, clear = whitened(sums / total[:, None, None], alive, lead)
    again = clear & (kappa > KAPPA) & (kappa <= STEEP)
    map_ = np.broadcast_to(np.eye(variables.shape[2]), step.shape).copy()
    if again.any():
        map_[again] = step[again]
        mapped = variables[again] @ map_[again]
        sums[again] = second_moments(mapped, weights[again])
        step[again], kappa[again], clear[again] = whitened(sums[again] / total[again, None, None], alive[again], lead)
    gram = step.transpose(0, 2, 1) @ sums @ step
    lightest = np.where(weights > 0, weights, np.inf).min(axis=1)
    tame = (squares.max(axis=1) < EXTREME**2 * lightest) & (np.where(alive, squares, np.inf).min(axis=1) > total / EXTREME**2)
    good = clear & (kappa <= KAPPA) & tame & np.isfinite(gram).all(axis=(1, 2))
    return GroupMoments(shift, total, map_, step, gram, kappa, alive, again, good)


def _shifts(block: Array, weights: Array, total: Array) -> Array:
    """The means of columns; the value of a column that has only one; the heaviest row, where it outweighs the others."""
    values = block[:, :, 1:]
    mean = (weights[:, None, :] @ values)[:, 0] / total[:, None]
    heaviest = weights.argmax(axis=1)
    lone = 2 * weights.max(axis=1) > total
    mean[lone] = values[lone, heaviest[lone]]
    away = values[:, :: max(1, values.shape[1] // 8)] - mean[:, None, :]  # a few rows tell most columns from constant ones
    narrow = np.abs(away).max(axis=1) <= NARROW * np.abs(mean)
    group, column = np.nonzero(narrow)
    first = values[group, 0, column]
    same = (values[group, :, column] == first[:, None]).all(axis=1)
    mean[group[same], column[same]] = first[same]
    return np.asarray(mean)


def second_moments(variables: Array, weights: Array) -> Array:
    """``V' diag(weights) V`` of every group (G, v, v)."""
    groups, count, width = variables.shape
    weighted = variables * weights[:, :, None]
    if count < 2 * PIECE:
        return np.asarray(variables.transpose(0, 2, 1) @ weighted)
    pieces = count // PIECE
    whole = pieces * PIECE
    left, right = (part[:, :whole].reshape(groups, pieces, PIECE, width) for part in (variables, weighted))
    products = left.transpose(0, 1, 3, 2) @ right
    total = np.ascontiguousarray(products.transpose(0, 2, 3, 1)).sum(axis=3)  # along contiguous numbers, so pairwise
    if whole < count:
        total += variables[:, whole:].transpose(0, 2, 1) @ weighted[:, whole:]
    return np.asarray(total)


def whitened(gram: Array, alive: Flags, lead: int) -> tuple[Array, Array, Flags]:
    """Steps to whitened coordinates (G, v, v) by mean square matrices, their condition numbers, and where this went well.

    The first ``lead`` variable is the constant: it stays a coordinate, and the others are made orthogonal to it.
    """
    groups, width = alive.shape
    size = np.sqrt(np.where(alive, np.einsum("gii->gi", gram), 1.0))
    scaled = gram / size[:, :, None] / size[:, None, :]
    means = scaled[:, lead - 1, lead:] if lead else np.zeros((groups, width))
    rest = scaled[:, lead:, lead:] - (means[:, :, None] * means[:, None, :] if lead else 0.0)
    dead = ~alive[:, lead:]
    rest[dead[:, :, None] | dead[:, None, :]] = 0.0
    np.einsum("gii->gi", rest)[dead] = 1.0
    finite = np.isfinite(rest).all(axis=(1, 2))
    rest[~finite] = np.eye(width - lead)
    values = np.linalg.eigvalsh(rest)
    kappa = np.sqrt(np.maximum(1.0, values[:, -1]) / np.maximum(values[:, 0], EPS**2))
    clear = finite & (values[:, 0] > width * EPS)
    rest[~clear] = np.eye(width - lead)
    inverse = each(np.linalg.inv, each(np.linalg.cholesky, rest))
    step = np.zeros(gram.shape)
    step[:, lead:, lead:] = inverse.transpose(0, 2, 1) / size[:, lead:, None]
    if lead:
        step[:, 0, 0] = 1.0 / size[:, 0]
        step[:, 0, 1:] = -(means[:, None, :] @ inverse.transpose(0, 2, 1))[:, 0] / size[:, :1]
    return step, kappa, clear & np.isfinite(step).all(axis=(1, 2))
