"""The proof of :mod:`karat.engine.proof` for many groups at once: powers of degree 2, every direction resolved.

For each group, with M the second moments of all rows in whitened coordinates and E those of the kept rows less M,

    loss_error = | M^(-1/2) E M^(-1/2) |_2  +  rounding of the sums  +  rounding of the coordinates,

term by term what :func:`karat.engine.proof.measure` says of that group.  Directions so small that the second term of the claim
has to cover them are not for this module: where there is one, the loss error is infinite, and the group goes the ordinary
way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine.group_weights import each
from karat.engine.linalg import Array, Indices
from karat.engine.proof import Proof, sum_rounding
from karat.engine.tolerances import EPS, RESOLVED, TINY


@dataclass(frozen=True)
class Kept:
    """The rows kept of G groups that have the same coordinates alive, and what they are compared with."""

    variables: Array  # (G, s, v): shifted rows; rows of weight zero fill up
    weights: Array  # (G, s)
    coordinates: Array  # (G, s, r)
    map: Array  # (G, v, r): from the variables to the coordinates
    gram: Array  # (G, r, r): second moments of all rows in these coordinates
    total: Array  # (G,): total weight of all rows
    rounding: Array  # (G,): relative error that the sums over all rows may carry


def _norms(stack: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("gsk,gsk->gk", stack, stack)))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def measure_groups(kept: Kept, keeps_total: bool, dropped: int) -> list[Proof]:
    """One proof per group; ``dropped`` columns are zero in every row of it."""
    root = np.sqrt(kept.weights)[:, :, None]
    weighted, mapped = _norms(root * kept.variables), _norms(root * (kept.variables @ kept.map))
    terms = (weighted[:, None, :] @ np.abs(kept.map))[:, 0]
    sizes = mapped / np.where(terms > 0, terms, 1.0)
    difference = kept.coordinates.transpose(0, 2, 1) @ (kept.coordinates * kept.weights[:, :, None]) - kept.gram
    gap = relative_norms(difference, kept.gram)
    if keeps_total:
        gap = np.maximum(gap, np.abs(kept.weights.sum(axis=1) / kept.total - 1.0))
    condition = 1.0 / sizes.min(axis=1, initial=1.0)
    error = gap + kept.rounding + sum_rounding(2, kept.gram.shape[1]) + 2 * EPS * condition
    error = np.where(np.isfinite(error) & (sizes >= RESOLVED).all(axis=1) & (kept.weights >= 0).all(axis=1), error, np.inf)
    mixed = np.linalg.norm(_mixing(kept.map, weighted, mapped), axis=1)
    covered = 2 * EPS * np.maximum(condition - 2 * mixed, 0.0)
    size = np.sqrt(np.einsum("gii->gi", kept.gram)).clip(TINY)
    off = np.abs(difference) / size[:, :, None] / size[:, None, :]
    worst = off[:, *np.triu_indices(off.shape[1])].argmax(axis=1)
    furthest = off.max(axis=(1, 2), initial=0.0)
    columns = (error, furthest, condition, gap, worst, covered)
    return [
        Proof(e, 0.0, m, c, (), g, 2, w, dropped=dropped, covered=cov)
        for e, m, c, g, w, cov in zip(*(column.tolist() for column in columns), strict=True)
    ]


def relative_norms(difference: Array, base: Array) -> Array:
    """``|| B^(-1/2) E B^(-1/2) ||_2`` of every group; infinite where B is not positive definite."""
    size = np.sqrt(np.maximum(np.einsum("gii->gi", base), 0.0))
    scale = size[:, :, None] * size[:, None, :]
    fine = (size > 0).all(axis=1) & np.isfinite(difference).all(axis=(1, 2)) & np.isfinite(base).all(axis=(1, 2))
    one = np.eye(base.shape[1])
    factor = each(np.linalg.cholesky, np.where(fine[:, None, None], base / scale, one))
    inverse = each(np.linalg.inv, np.where(np.isfinite(factor), factor, one))
    left = inverse @ np.where(fine[:, None, None], difference / scale, 0.0) @ inverse.transpose(0, 2, 1)
    fine &= np.isfinite(factor).all(axis=(1, 2)) & np.isfinite(left).all(axis=(1, 2))
    left = np.where(fine[:, None, None], left + left.transpose(0, 2, 1), 0.0) / 2
    values = np.linalg.eigvalsh(left)
    return np.where(fine, np.abs(values).max(axis=1, initial=0.0), np.inf)


def _mixing(maps: Array, weighted: Array, mapped: Array) -> Array:
    """``Basis.mixing`` of every group (G, r)."""
    entries = np.abs(maps) / np.where(mapped > 0, mapped, 1.0)[:, None, :]
    largest: Indices = entries.argmax(axis=2)[:, :, None]
    np.put_along_axis(entries, largest, 0.0, axis=2)
    return np.asarray((weighted[:, None, :] @ entries)[:, 0])
