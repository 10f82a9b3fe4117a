"""The proof of :mod:`karat.engine.proof` for many groups at once: powers of degree 2, nothing
charged to the second term.

For each group, with M the second moments of all rows in the coordinates of its last pass and E
those of the kept rows less M,

    loss_error = | M^(-1/2) E M^(-1/2) |_2  +  rounding of the sums,
    rounding   = rounding of the coordinates,

term by term what :func:`karat.engine.proof.measure` says of that group (:mod:`karat.engine.frame`
has the formulas).  Without a proof here, a group is reduced by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine.claim import Proof
from karat.engine.coordinates import moved_columns
from karat.engine.group_moments import PIECE, each, second_moments
from karat.engine.linalg import Array, Flags
from karat.engine.sums import sum_rounding
from karat.engine.tolerances import COORDINATES, EPS, TINY

# by how much sums of all rows and of kept ones may be off
SUMS = 2 * sum_rounding(2**15, 3, 2 * PIECE)


@dataclass(frozen=True)
class KeptStack:
    """The rows kept of G groups that have the same v variables alive, and what they are compared
    with.
    """

    variables: Array  # (G, s, v): shifted rows; rows of weight zero fill up
    weights: Array  # (G, s)
    map: Array  # (G, v, v): from the variables to the coordinates of the last pass,
    plain: Flags  # (G,): which are the variables themselves
    gram: Array  # (G, v, v): second moments of all rows in these coordinates
    total: Array  # (G,): total weight of all rows
    affine: bool  # whether the first variable is the constant


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def measure_groups(kept: KeptStack, keeps_total: bool) -> list[Proof]:
    """One proof per group."""
    coordinates = np.where(kept.plain[:, None, None], kept.variables, kept.variables @ kept.map)
    difference = second_moments(coordinates, kept.weights) - kept.gram
    size = np.sqrt(np.einsum("gii->gi", kept.gram)).clip(TINY)
    gap = relative_norms(difference, kept.gram)
    if keeps_total:
        gap = np.maximum(gap, np.abs(kept.weights.sum(axis=1) / kept.total - 1.0))
    correlation = kept.gram / size[:, :, None] / size[:, None, :]
    sums = SUMS * np.abs(each(np.linalg.inv, correlation)).sum(axis=(1, 2))
    derived, also, condition = _rounded(kept)
    error = gap + sums + also
    error = np.where(
        np.isfinite(error) & np.isfinite(derived) & (kept.weights >= 0).all(axis=1), error, np.inf
    )
    off = np.abs(difference) / size[:, :, None] / size[:, None, :]
    worst = np.maximum(off.max(axis=2).argmax(axis=1) - int(kept.affine), 0)
    limit = COORDINATES * (kept.variables.shape[2] - int(kept.affine) + 2)
    columns = (
        error,
        derived / limit,
        off.max(axis=(1, 2), initial=0.0),
        condition,
        gap,
        worst,
        derived,
    )
    return [
        Proof(e, rest, m, c, (), g, 2, w, derived=d, in_columns=True)
        for e, rest, m, c, g, w, d in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _rounded(kept: KeptStack) -> tuple[Array, Array, Array]:
    """The rounding of coordinates as a change of the columns and of the loss, and the condition
    (``Frame.share``).
    """
    first = int(kept.affine)
    inverse = np.where(kept.plain[:, None, None], kept.map, each(np.linalg.inv, kept.map))
    mean_square = kept.gram / kept.total[:, None, None]
    means = (mean_square[:, :1] @ inverse)[:, 0] if first else np.zeros(inverse.shape[:2])
    sizes = np.sqrt(np.einsum("gkj,gkj->gj", inverse, mean_square @ inverse))
    held = np.sqrt(
        np.einsum("gs,gsj->gj", kept.weights, np.square(kept.variables)) / kept.total[:, None]
    )
    centred = inverse.copy()
    if first:
        centred[:, 0] -= means
    root = np.sqrt(np.einsum("gii->gi", mean_square))
    error = (SUMS + 4 * inverse.shape[1] * EPS) * np.square((root[:, None] @ np.abs(centred))[:, 0])
    spreads = np.sqrt(
        np.maximum(np.einsum("gkj,gkj->gj", centred, mean_square @ centred) - error, 0.0)
    )
    steps = first + np.where(kept.plain[:, None], 0, np.count_nonzero(kept.map, axis=1))
    terms = (np.maximum(sizes, held)[:, None] @ np.abs(kept.map))[:, 0]
    k = EPS * ((steps * terms)[:, None] @ np.abs(inverse))[:, 0]
    return (
        moved_columns(k, means, spreads, kept.affine).max(axis=1, initial=0.0),
        2 * k[:, 0] if first else np.zeros(len(k)),
        (terms / root).max(axis=1, initial=1.0),
    )


def relative_norms(difference: Array, base: Array) -> Array:
    """``|| B^(-1/2) E B^(-1/2) ||_2`` of every group; infinite where B is not positive definite."""
    size = np.sqrt(np.maximum(np.einsum("gii->gi", base), 0.0))
    scale = size[:, :, None] * size[:, None, :]
    fine = (
        (size > 0).all(axis=1)
        & np.isfinite(difference).all(axis=(1, 2))
        & np.isfinite(base).all(axis=(1, 2))
    )
    identity = np.eye(base.shape[1])
    factor = each(np.linalg.cholesky, np.where(fine[:, None, None], base / scale, identity))
    inverse = each(np.linalg.inv, np.where(np.isfinite(factor), factor, identity))
    left = (
        inverse
        @ np.where(fine[:, None, None], difference / scale, 0.0)
        @ inverse.transpose(0, 2, 1)
    )
    fine &= np.isfinite(factor).all(axis=(1, 2)) & np.isfinite(left).all(axis=(1, 2))
    left = np.where(fine[:, None, None], left + left.transpose(0, 2, 1), 0.0) / 2
    values = np.linalg.eigvalsh(left)
    return np.where(fine, np.abs(values).max(axis=1, initial=0.0), np.inf)
