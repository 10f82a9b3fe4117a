"""Coordinates: shift, scale, whiten, and decide the rank of the base variables.

A polynomial kernel's span does not change when its variables undergo an invertible linear map (an affine one, if the
constant is among them), but its conditioning does: degree p amplifies a condition number kappa of the base variables to
kappa^p.  So the variables are mapped to nearly orthonormal ones before anything is multiplied:

    pilot    scaled columns of a sample, thin SVD:  map = V / s; directions with s <= 1e-10 s_1 stay unscaled ("loose");
    pass     Gram matrix G of the mapped variables over all rows;
    refine   G tells what the pilot could not see.  Loose directions are dropped if G confirms that they vanish, and
             scaled if it does not.  If G is well conditioned its sum is accurate and we are done; otherwise the map is
             improved by the eigenvectors of G and the pass repeated (as in CholeskyQR2).

Some variables may not be mixed with each other: the targets of a multi-output regression, of which only the squares are
kernel features.  They stand last, ``apart`` of them, and each is only residualised on the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karat.engine import linalg
from karat.engine.linalg import Array

NULL = 1e-10  # relative singular value of the scaled base variables that counts as zero
KAPPA = 50.0  # condition up to which a second-moment matrix sums accurately (kappa^2 eps < 1e-12)
BLIND = 1e-13  # relative eigenvalue of a Gram matrix below which it cannot tell a direction from zero

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Basis:
    """A linear map of the base variables to coordinates.

    Attributes
    ----------
    map : array (v, r)
        ``variables @ map`` are the coordinates; the last ``apart`` of them belong to the separate variables.
    loose : bool array (r,)
        Directions that vanished when last looked at, not yet confirmed on all rows.
    apart : int
        Number of separate variables left.
    excluded : tuple of float
        Relative norms of the directions dropped as null.
    """

    map: Array
    loose: Flags
    apart: int = 0
    excluded: tuple[float, ...] = ()

    @staticmethod
    def identity(variables: int, apart: int) -> Basis:
        return Basis(np.eye(variables), np.zeros(variables, dtype=bool), apart)

    def condition(self, block: Array) -> float:
        """By how much the map magnifies rounding: largest ``|variables| |map|`` against the coordinates it gives."""
        coordinates = linalg.column_norms(block @ self.map)
        size = linalg.column_norms(block)
        terms = np.linalg.norm(size[:, None] * self.map, axis=0)
        return float(np.max(terms[coordinates > 0] / coordinates[coordinates > 0], initial=1.0))


def condition_of(variables: Array) -> float:
    """Condition number of the columns scaled to unit norm; infinite if one of them is zero."""
    largest = np.abs(variables).max(axis=0)
    if not largest.all():
        return np.inf
    gram = linalg.gram(variables / largest, None)
    size = np.sqrt(np.diag(gram))
    values, _ = linalg.eigh(gram / np.outer(size, size))
    return float(np.sqrt(values[0] / max(values[-1], linalg.EPS**2)))


def pilot_basis(variables: Array, weights: Array | None, apart: int, constant: bool, complete: bool, noise: Array) -> Basis:
    """The whitening map of a sample of rows (k x v).

    Parameters
    ----------
    variables : array (k, v)
    weights : array (k,) or None
    apart : int
        Separate variables, the last ones.
    constant : bool
        Whether the first variable is the constant 1; it stays a coordinate, and the others are centred on it.
    complete : bool
        Whether the sample is all there is, so that what vanishes in it may be dropped at once.
    noise : array (v,)
        Rounding left by the shift: a column no larger than this is constant.
    """
    if weights is None:
        weights = np.ones(len(variables))
    share = weights / weights.sum()
    count = variables.shape[1] - apart
    centre = np.zeros(variables.shape[1])
    if constant:
        centre[1:] = share @ variables[:, 1:]
    variables = np.sqrt(share)[:, None] * (variables - centre)
    joint, targets = variables[:, constant:count], variables[:, count:]
    size = linalg.column_norms(joint)
    seen = np.flatnonzero(size > noise[constant:count])
    s, v = linalg.right_svd(joint[:, seen] / size[seen])
    null = s <= NULL * s[:1]
    columns = np.zeros((joint.shape[1], len(seen)))
    columns[seen] = v / np.where(null, 1.0, s) / size[seen, None]
    excluded: tuple[float, ...] = ()
    if complete:
        excluded = tuple(float(x / s[0]) for x in s[null] if x > 0)
        columns, null = columns[:, ~null], null[~null]
    else:
        # Columns that are constant in the sample wait in such units that their rounding is below NULL.
        unseen = np.setdiff1d(np.arange(joint.shape[1]), seen)
        columns = np.hstack([columns, np.diag(_waiting(noise[constant:count]))[:, unseen]])
        null = np.concatenate([null, np.ones(len(unseen), dtype=bool)])
    sight = columns[:, ~null]
    white = joint @ sight
    coefficients = white.T @ targets
    residual = linalg.column_norms(targets - white @ coefficients)
    size = linalg.column_norms(targets)
    flat = size <= noise[count:]
    vanish = flat | (residual <= NULL * size)
    size = np.where(flat, 1 / _waiting(noise[count:]), np.where(vanish, size, residual))
    columns = np.block([[columns, -(sight @ coefficients) / size], [np.zeros((apart, columns.shape[1])), np.diag(1 / size)]])
    loose = np.concatenate([null, vanish])
    if constant:
        columns = np.block([[np.ones((1, 1)), -centre[1:] @ columns], [np.zeros((len(columns), 1)), columns]])
        loose = np.concatenate([[False], loose])
    return Basis(columns, loose, apart, excluded)


def _waiting(noise: Array) -> Array:
    return np.where(noise > 0, NULL / np.where(noise > 0, noise, 1.0), 1.0)


def refine(basis: Basis, gram: Array, degree: int, constant: bool) -> tuple[Array, Basis, bool, float]:
    """Improve the coordinates by their mean square matrix over all rows.

    Returns
    -------
    step : array (r, r')
        From the old coordinates to whitened ones.
    basis : Basis
        The old map followed by ``step``.
    poor : bool
        The old coordinates were too ill-conditioned for moments of this degree: pass again with the new ones.
    kappa : float
        Their condition number.
    """
    rms = np.sqrt(np.maximum(np.diag(gram), 0.0))
    gone = (basis.loose & (rms <= NULL)) | (rms == 0)
    excluded = basis.excluded + tuple(float(x) for x in rms[gone & (rms > 0)])
    first = np.arange(len(rms)) < constant
    last = np.arange(len(rms)) >= len(rms) - basis.apart
    # Three stages, each made orthogonal to those before it: the constant, the joint variables, the separate ones.
    step = np.eye(len(rms))[:, first]
    loose = [np.zeros(int(constant), dtype=bool)]
    kappa = 1.0
    for separate, stage in ((False, ~first & ~last & ~gone), (True, last & ~gone)):
        mine = np.flatnonzero(stage)
        columns = np.eye(len(rms))[:, mine] / rms[mine]
        known = step[:, ~np.concatenate(loose)]
        columns -= known @ (known.T @ gram @ columns)
        rest = columns.T @ gram @ columns
        if separate:
            values, vectors = np.diag(rest), np.eye(len(rest))
        else:
            values, vectors = linalg.eigh((rest + rest.T) / 2)
        blind = values <= BLIND * max([1.0, *values])
        step = np.hstack([step, columns @ vectors / np.sqrt(np.where(blind, 1.0, np.abs(values)))])
        loose.append(blind)
        if len(values):
            kappa = max(kappa, float(np.sqrt(max(1.0, values.max()) / max(values.min(), linalg.EPS**2))))
    flags = np.concatenate(loose)
    poor = bool(flags.any()) or kappa > KAPPA ** (2 / degree)
    return step, Basis(basis.map @ step, flags, int((last & ~gone).sum()), excluded), poor, kappa
