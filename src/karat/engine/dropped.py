"""Directions that a rank decision dropped: they are looked at row by row, and restored if rows show them.

:mod:`karat.engine.coordinates` drops a direction whose root mean square over all rows is rounding of its terms.  That may hide
a few rows in which it is real.  It is *real* if the rows in which it is more than ROWWISE times its terms add more to the loss
than SHOWN times what the second term of the claim covers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from karat.engine.coordinates import Basis
from karat.engine.linalg import Array, Flags
from karat.engine.powers import Powers
from karat.engine.rows import Rows, column_sizes, sweep
from karat.engine.tolerances import NOTHING, ROUNDING, ROWWISE, SHOWN


def dropped(kernel: Powers, sizes: Array) -> Array:
    """The directions that were dropped (v, e), without entries that are rounding of zero; ``sizes`` of the variables."""
    vectors = kernel.basis.excluded.vectors
    terms = sizes[:, None] * np.abs(vectors)
    vectors = np.where(terms >= NOTHING * terms.max(axis=0, initial=0.0), vectors, 0.0)
    return np.asarray(vectors / np.abs(vectors).max(axis=0))


def look_again(kernel: Powers, rows: Rows) -> Powers | None:
    """The kernel with those dropped directions restored that a row shows; None if all of them vanish in every row."""
    vectors = dropped(kernel, np.concatenate([np.ones(int(kernel.affine)), column_sizes(rows, kernel.shift)]))

    def products(block: Array, weights: Array | None, _: int) -> Array:
        values = kernel.base_variables(block) @ vectors
        return kernel.coordinates(block).T @ (values if weights is None else values * weights[:, None])

    # What rounding has left of other directions in them would hide that they vanish where these are small.
    vectors = vectors - kernel.basis.map @ (sweep(rows, kernel.shift, products, np.add, vectors.shape) / rows.total)
    found = evidence(kernel, rows, vectors)
    shown = is_real(found)
    if not shown.any():
        return None
    basis = replace(kernel.basis, excluded=replace(kernel.basis.excluded, vectors=vectors))
    return kernel.within(restored(basis, shown, np.sqrt(found[2, shown] / rows.total)))


def unconfirmed_evidence(kernel: Powers, rows: Rows) -> Array:
    """What rows say about the coordinates that may still be dropped (3, r)."""
    unconfirmed = kernel.basis.unconfirmed
    found = np.zeros((3, len(unconfirmed)))
    if unconfirmed.any():
        found[:, unconfirmed] = evidence(kernel, rows, kernel.basis.map[:, unconfirmed])
    return found


def protected(kernel: Powers, found: Array) -> Powers:
    """The kernel that drops no direction but unconfirmed ones that no row shows."""
    return kernel.within(replace(kernel.basis, real=~kernel.basis.unconfirmed | is_real(found)), kernel.maps)


def is_real(found: Array) -> Flags:
    """Whether rows show a direction beyond the second term of the claim, by their :func:`evidence`."""
    return np.asarray(found[0] > SHOWN * ROUNDING * found[1])


def evidence(kernel: Powers, rows: Rows, vectors: Array) -> Array:
    """The evidence against dropping directions, summed over rows (3, e).

    The squares ``u (d.z)^2`` of rows in which a direction is more than rounding of its terms; the second term that the claim
    has for it, ``2 u |d.z| sum_j |z_j d_j|``; and all squares.
    """

    def visit(block: Array, weights: Array | None, _: int) -> Array:
        variables = kernel.base_variables(block)
        values, terms = np.abs(variables @ vectors), np.abs(variables) @ np.abs(vectors)
        squares = np.square(values)
        sums = np.stack([np.where(values > ROWWISE * terms, squares, 0.0), 2 * values * terms, squares])
        return np.asarray(sums.sum(axis=1) if weights is None else np.einsum("b,kbe->ke", weights, sums))

    return np.asarray(sweep(rows, kernel.shift, visit, np.add, vectors.shape))


def restored(basis: Basis, which: Flags, sizes: Array) -> Basis:
    """The basis with some of the dropped directions again, scaled by their root mean squares."""
    back, count = basis.excluded.chosen(which), basis.map.shape[1] - basis.separate_targets
    columns, own = back.vectors / sizes, back.separate
    real = [basis.real[:count], np.ones(len(own), dtype=bool), basis.real[count:]]
    return Basis(
        np.hstack([basis.map[:, :count], columns[:, ~own], columns[:, own], basis.map[:, count:]]),
        np.zeros(basis.map.shape[1] + len(own), dtype=bool),
        basis.separate_targets + int(own.sum()),
        basis.excluded.chosen(~which),
        np.concatenate(real),
    )
