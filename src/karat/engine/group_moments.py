"""Second moments of many groups at once, each in whitened coordinates of its own.

Rows of G groups of nearly the same size are read as one stack (G, n, v).  Groups with fewer rows
repeat their first one with weight zero.  As in :mod:`karat.engine.coordinates`, with all rows as
the pilot:

    shift   the mean of every column, or its value where it has only one;
    Gram    V'UV of the shifted variables of every group, one matrix product each;
    whiten  columns scaled to unit size, the constant split off, the Cholesky factor of what is left
            inverted;
    again   where the condition number kappa of the Gram matrix exceeds AGAIN, in the coordinates
            found.

Larger groups are summed by a pass over each, with shift and map from a sample.

Columns that are zero in every row of a group (a constant one, after the shift) are left out of its
coordinates.  Groups with other difficulties are not ``good`` and are reduced by themselves: columns
of extreme size, directions that nearly vanish, numbers that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from karat.engine.coordinates import Basis, Directions
from karat.engine.frame import Frame
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.rows import Blocks, Rows, column_sizes, consecutive, typical
from karat.engine.sums import gram_matrix, gram_with_ones, tree_sum
from karat.engine.tolerances import EPS, EXTREME, KAPPA, WILD

PASS = 8192  # rows of a larger group that are read at a time
NARROW = 1e-9  # standard deviation over mean below which a column may be constant
# condition number of the variables from which on they are summed again in other coordinates
AGAIN = 15.0
# condition number of a pilot from which on its map is used: that of all rows may be larger
PILOT_KAPPA = 25.0
STEEP = 1e5  # condition number beyond which a group is reduced by itself
FEW = 9  # rows that tell what is typical
# rows that BLAS adds up by itself, or up to twice as many; such sums are added in a tree
PIECE = 32


@dataclass(frozen=True)
class GroupMoments:
    """Coordinates and second moments of G groups."""

    shift: Array  # (G, c): subtracted from the columns
    total: Array  # (G,): total weight
    map: Array  # (G, v, v): shifted variables @ map are the coordinates of the last pass,
    step: Array  # (G, v, v): and these @ step the final ones
    sums: Array  # (G, v, v): second moments in the coordinates of the last pass
    gram: Array  # (G, v, v): and in the final ones
    plain: Flags  # (G,): the coordinates of the last pass are the variables themselves
    alive: Flags  # (G, v): variables, and coordinates, that are not zero in every row
    twice: Flags  # (G,): the groups that were summed twice
    good: Flags  # (G,): the groups for which all this holds

    def chosen(self, groups: Indices) -> GroupMoments:
        return GroupMoments(*(getattr(self, name)[groups] for name in self.__dataclass_fields__))

    def frame(self, place: int, alive: Flags, affine: bool) -> Frame:
        """The coordinates of the last pass over one group, in which these variables are alive."""
        dead, none = ~alive, np.zeros(int(alive.sum()), dtype=bool)
        zero = np.zeros(int(dead.sum()))
        excluded = Directions(np.eye(len(dead))[:, dead], zero, zero)
        basis = Basis(self.map[place][:, alive], none, 0, excluded)
        sums = self.sums[place][np.ix_(alive, alive)]
        total = float(self.total[place])
        return Frame(basis, bool(self.plain[place]), sums, sums, total, 2, affine)

    @staticmethod
    def joined(parts: list[GroupMoments]) -> GroupMoments:
        names = GroupMoments.__dataclass_fields__
        return GroupMoments(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in names)
        )


def each(function: Callable[..., Array], *stacks: Array) -> Array:
    """Apply a function of ``numpy.linalg`` to a stack; NaN for a group on which it fails, where
    NumPy would raise for all.
    """
    try:
        return np.asarray(function(*stacks))
    except np.linalg.LinAlgError:
        if len(stacks[0]) == 1:
            return np.full_like(stacks[-1], np.nan)
        half = len(stacks[0]) // 2
        return np.concatenate(
            [
                each(function, *(s[:half] for s in stacks)),
                each(function, *(s[half:] for s in stacks)),
            ]
        )


def second_moments(variables: Array, weights: Array) -> Array:
    """``V' diag(weights) V`` of every group (G, v, v)."""
    groups, count, width = variables.shape
    weighted = (
        variables.copy()
        if weights.min() == weights.max() == 1.0
        else variables * weights[:, :, None]
    )
    if count < 2 * PIECE:
        return np.asarray(variables.transpose(0, 2, 1) @ weighted)
    pieces = count // PIECE
    whole = pieces * PIECE
    left, right = (
        part[:, :whole].reshape(groups, pieces, PIECE, width) for part in (variables, weighted)
    )
    total = tree_sum((left.transpose(0, 1, 3, 2) @ right).swapaxes(0, 1))
    if whole < count:
        total += variables[:, whole:].transpose(0, 2, 1) @ weighted[:, whole:]
    return np.asarray(total)


def row_stack(rows: Rows, starts: Indices, counts: Indices, size: int) -> tuple[Array, Array]:
    """Rows of groups as a stack of blocks ``[1 | D]`` (G, size, 1 + c), and their weights, which
    are zero for padding rows.
    """
    positions, inside = group_positions(starts, counts, size)
    return block_of(rows, positions), weights_of(rows, positions, inside)


def group_positions(starts: Indices, counts: Indices, size: int) -> tuple[Indices, Flags]:
    """Positions (G, size) of all rows of groups, and which of them are no padding: a smaller group
    is padded with its first row.
    """
    inside = np.arange(size) < counts[:, None]
    return starts[:, None] + np.where(inside, np.arange(size), 0), inside


def drawn_rows(starts: Indices, counts: Indices, drawn: Array) -> Indices:
    """Positions (G, k) of one row from each of k runs into which a group is cut; no row comes
    twice.

    ``drawn`` (k,) holds numbers in [0, 1).  They are the same for every group, so that the rows
    drawn do not depend on other groups.
    """
    edges = np.arange(len(drawn) + 1) * counts[:, None] // len(drawn)
    return np.asarray(
        starts[:, None] + edges[:, :-1] + np.floor(drawn * np.diff(edges, axis=1)).astype(np.intp)
    )


def block_of(rows: Rows, positions: Indices) -> Array:
    """The rows at positions (G, N), as blocks ``[1 | D]`` (G, N, 1 + c)."""
    flat = positions.reshape(-1)
    block = np.empty((len(flat), rows.columns + 1))
    block[:, 0] = 1.0
    rows.fill(consecutive(flat) or flat, block)
    return block.reshape(*positions.shape, -1)


def weights_of(rows: Rows, positions: Indices, inside: Flags) -> Array:
    """The weights of rows at positions; zero outside."""
    return (
        inside.astype(float)
        if rows.weights is None
        else np.where(inside, rows.weights[positions], 0.0)
    )


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def fit_groups(block: Array, weights: Array, affine: bool) -> GroupMoments:
    """Coordinates and moments of a stack of blocks ``[1 | D]`` with all rows of their groups.  The
    blocks are shifted in place.
    """
    usual = typical(block[:, :: max(1, block.shape[1] // FEW), 1:].transpose(0, 2, 1), affine)[1]
    variables, shift, sums, squares, map_, again = _first_look(block, weights, affine, AGAIN)
    if again.any():
        sums[again] = second_moments(variables[again] @ map_[again], weights[again])
    lightest = np.where(weights > 0, weights, np.inf).min(axis=1)
    vanished = np.einsum("gii->gi", sums) == 0
    lost = np.zeros(len(sums), dtype=bool)
    suspects = np.flatnonzero(vanished.any(axis=1))
    there = ((variables[suspects] != 0) & (weights[suspects] > 0)[:, :, None]).any(axis=1)
    lost[suspects] = (vanished[suspects] & there).any(axis=1)
    return _moments_from_sums(
        sums,
        squares,
        shift,
        map_,
        weights.sum(axis=1),
        lightest,
        usual,
        ~again,
        again,
        lost,
        int(affine),
    )


def _first_look(
    block: Array, weights: Array, affine: bool, limit: float
) -> tuple[Array, Array, Array, Array, Array, Flags]:  # fmt: skip
    """Shifted variables, the shift, second moments and squares, maps to whitened coordinates, and
    where the maps are needed.

    A map is needed where the condition number exceeds ``limit``; elsewhere it is the identity.
    """
    total = weights.sum(axis=1)
    variables, shift = shifted(block, weights, total, affine)
    sums = second_moments(variables, weights)
    squares = np.einsum("gii->gi", sums).copy()
    step, kappa, clear = whitening_steps(sums / total[:, None, None], squares > 0, int(affine))
    needed = clear & (kappa > limit) & (kappa <= STEEP)
    return (
        variables,
        shift,
        sums,
        squares,
        np.where(needed[:, None, None], step, np.eye(variables.shape[2])),
        needed,
    )


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def fit_by_pass(
    rows: Rows, starts: Indices, counts: Indices, pilot: Indices, affine: bool
) -> GroupMoments:
    """The same for larger groups, by a pass over each.  Shift and map come from the rows at
    ``pilot`` (G, k).
    """
    weights = weights_of(rows, pilot, np.ones(pilot.shape, dtype=bool))
    block = block_of(rows, pilot)
    usual = typical(block[:, :: max(1, block.shape[1] // FEW), 1:].transpose(0, 2, 1), affine)[1]
    _, shift, seen, squares, map_, mapped = _first_look(block, weights, affine, PILOT_KAPPA)
    # without a map, means that spoil no product are not worth a subtraction in every row
    if affine:
        harmless = np.square(shift) * weights.sum(axis=1)[:, None] <= squares[:, 1:]
        shift[harmless & ~mapped[:, None]] = 0.0
    sums, total, lightest = np.empty_like(seen), counts.astype(float), np.ones(len(starts))
    lost = np.zeros(len(starts), dtype=bool)
    for g, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        group_rows = rows.run(start, start + count)
        sums[g] = _summed(group_rows, shift[g], map_[g] if mapped[g] else None, affine)
        vanished = np.diag(sums[g])[int(affine) :] == 0
        lost[g] = vanished.any() and bool((column_sizes(group_rows, shift[g])[vanished] > 0).any())
        if group_rows.weights is not None:
            total[g], lightest[g] = group_rows.weights.sum(), group_rows.weights.min()
    squares = np.where(mapped[:, None], squares, np.einsum("gii->gi", sums))
    return _moments_from_sums(
        sums,
        squares,
        shift,
        map_,
        total,
        lightest,
        usual,
        ~mapped,
        np.zeros(len(starts), dtype=bool),
        lost,
        int(affine),
    )


def _summed(rows: Rows, shift: Array, map_: Array | None, affine: bool) -> Array:
    """Second moments of one group in mapped variables, by a pass over its rows."""
    blocks, sums = Blocks(rows, shift, min(len(rows), PASS)), list[Array]()
    for start in range(0, len(rows), PASS):
        stop = min(start + PASS, len(rows))
        block = blocks.read(start, stop)
        weights = None if rows.weights is None else rows.weights[start:stop]
        if map_ is not None:
            sums.append(gram_matrix((block if affine else block[:, 1:]) @ map_, weights))
        else:
            gram = gram_with_ones(block, weights)
            sums.append(gram if affine else gram[1:, 1:])
    return sums[0] if len(sums) == 1 else np.asarray(sum(sums))


def _moments_from_sums(
    sums: Array, squares: Array, shift: Array, map_: Array, total: Array, lightest: Array,
    usual: Array, plain: Flags, twice: Flags, lost: Flags, lead: int,
) -> GroupMoments:  # fmt: skip
    """The moments of groups from their sums in mapped variables.

    ``squares`` are the sums of squares of the variables before the map.  ``lost`` flags groups in
    which the squares of a variable underflow to zero.
    """
    alive = np.einsum("gii->gi", sums) > 0
    step, kappa, clear = whitening_steps(sums / total[:, None, None], alive, lead)
    gram = step.transpose(0, 2, 1) @ sums @ step
    smallest = np.where(alive & (squares > 0), squares, np.inf).min(axis=1)
    tame = (squares.max(axis=1) < EXTREME**2 * lightest) & (smallest > total / EXTREME**2)
    wild = (squares[:, lead:] > np.square(WILD * usual) * total[:, None]) & (usual > 0)
    good = (
        clear
        & (kappa <= KAPPA)
        & tame
        & ~lost
        & ~wild.any(axis=1)
        & np.isfinite(gram).all(axis=(1, 2))
    )
    return GroupMoments(shift, total, map_, step, sums, gram, plain, alive, twice, good)


def shifted(block: Array, weights: Array, total: Array, affine: bool) -> tuple[Array, Array]:
    """The variables of blocks ``[1 | D]``, and the shift.  If the constant is a variable, the
    blocks are shifted in place.
    """
    if not affine:
        return block[:, :, 1:], np.zeros((len(block), block.shape[2] - 1))
    shift = _shifts(block, weights, total)
    subtract(block, shift)
    return block, shift


def subtract(block: Array, shift: Array) -> None:
    """Shift a stack of blocks ``[1 | D]`` in place, column by column, which is faster than row by
    row.
    """
    for column in range(shift.shape[1]):
        block[:, :, column + 1] -= shift[:, column, None]


def _shifts(block: Array, weights: Array, total: Array) -> Array:
    """The shift of every column: its mean, its value if it is constant, or the heaviest row if that
    outweighs all others.
    """
    values = block[:, :, 1:]
    mean = (weights[:, None, :] @ values)[:, 0] / total[:, None]
    heaviest = weights.argmax(axis=1)
    lone = 2 * weights.max(axis=1) > total
    mean[lone] = values[lone, heaviest[lone]]
    # a few rows tell most columns from constant ones
    away = values[:, :: max(1, values.shape[1] // 8)] - mean[:, None, :]
    narrow = np.abs(away).max(axis=1) <= NARROW * np.abs(mean)
    group, column = np.nonzero(narrow)
    first = values[group, 0, column]
    same = (values[group, :, column] == first[:, None]).all(axis=1)
    mean[group[same], column[same]] = first[same]
    return np.asarray(mean)


def whitening_steps(gram: Array, alive: Flags, lead: int) -> tuple[Array, Array, Flags]:
    """Steps to whitened coordinates (G, v, v) from mean square matrices, their condition numbers,
    and where this succeeded.

    If ``lead`` is 1, the first variable is the constant.  It stays a coordinate, and the others are
    made orthogonal to it.
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
