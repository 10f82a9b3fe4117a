"""How far a claim about the loss lets the coefficients of least squares move."""

from __future__ import annotations

import numpy as np

from karat.engine import linalg
from karat.engine.frame import Frame
from karat.engine.linalg import Array
from karat.engine.tolerances import TINY

# part of a target in a combination of columns that vanishes, from which on the others explain it
INVOLVED = 1e-4


def coefficient_terms(frame: Frame, targets: int) -> tuple[float, float]:
    """How much a change of the columns by rho moves coefficients of least squares, per rho and in
    residuals; p = 2.

    With G the second moments / U, t the row of T of a target, z* the residual as a query and r its
    root mean square,

        H = G^-1 - G^-1 t t'G^-1 / (t'G^-1 t),     r^2 = 1 / (t'G^-1 t),     z* = -T G^-1 t r^2,

    the fitted values move by at most ``4 (loss_error + rho (a + b)) r`` (docs/mathematics.md) with

        a = sum_j sigma_j (T H T')_jj^(1/2)  (of columns that others explain),  b = S(z*) / r
        (signal to noise).

    Returns the largest a + b and the largest b of the last ``targets`` columns.  They are infinite
    if a residual vanishes, and a is if a direction was dropped: coefficients along it are rounding.
    """
    if frame.null is not None:
        return np.inf, 0.0
    lost = frame.basis.excluded.norms > 0
    parts = np.abs(frame.basis.excluded.vectors[:, lost]) * frame.sizes[:, None]
    if (parts[-targets:] > INVOLVED * parts.max(axis=0, initial=0.0)).any():
        return np.inf, np.inf
    worst = (np.inf if lost.any() else 0.0, 0.0)
    units = np.where(frame.spreads > 0, frame.spreads, 1.0)  # z_j sigma_j in place of z_j
    first = int(frame.affine)
    if len(frame.targets) < targets:  # a target was dropped
        return np.inf, np.inf
    for number, among in zip(range(-targets, 0), frame.targets, strict=True):
        explained = _explained(frame, among, units, number)
        if explained is None or not explained[1][number] > 0:
            return np.inf, np.inf
        diagonal, column = explained
        left = diagonal - column**2 / column[number]
        mixed = float(np.sqrt(np.maximum(left[first:], 0.0)).sum())
        signal = float(np.abs(column[first:]).sum() / np.sqrt(column[number]))
        worst = max(worst[0], mixed + signal), max(worst[1], signal)
    return worst


def _explained(
    frame: Frame, among: list[int], units: Array, number: int
) -> tuple[Array, Array] | None:
    """The diagonal and one column of ``T G^-1 T'`` in these coordinates and units; None if G is
    singular.
    """
    if frame.many:
        if frame.factor is None:
            return None
        # G = D R'R D / U, so that all of it is products of columns of R'^-1 D^-1 T' with each
        # other.
        root = np.sqrt(np.maximum(np.diag(frame.base), TINY) / frame.total)
        half = (
            linalg.product_with_unit_rows(
                linalg.upper_inverse(frame.factor).T / root, frame.basis.map
            )
            * units
        )
        return np.einsum("ij,ij->j", half, half), half[:, number] @ half
    map_ = (frame.basis.map * units[:, None])[:, among]
    try:
        # G^-1 T'
        explained = np.linalg.solve(frame.second[np.ix_(among, among)] / frame.total, map_.T)
    except np.linalg.LinAlgError:
        return None
    return np.einsum("jk,kj->j", map_, explained), map_ @ explained[:, number]
