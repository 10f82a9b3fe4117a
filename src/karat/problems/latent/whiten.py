"""Whitening: M with ``M' M2 M = I_k`` and its dual B, from the k largest eigenpairs (e, U) of a
second-moment matrix.

    M = U diag(e)^(-1/2),    B = U diag(e)^(1/2),    B' M = I_k.

Features that hold all moments up to the third at once (modes B and C) nearly depend on each other
when 1 is nearly a combination of the z, as for word counts.  :func:`unit_axes` gives better
coordinates z* = (z - centre) axes of the same span.

(The paper asks for the same; the formula of its Algorithm 4, ``V' sqrt(Sigma)``, gives ``Sigma^2``
in place of I.  And singular values would accept negative eigenvalues.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg as sla
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from karat.engine.linalg import Array
from karat.errors import InputError

OFFSET = 1e8  # ratio of the first two eigenvalues beyond which the first hides the others
COMMON_OFFSET = " A large common offset of the columns hides the rest: subtract it."
FAR_ROW = (
    " One direction hides the rest: look for a row far away from all others, or a column of another"
    " unit."
)
POSITIVE = 1e-12  # smallest eigenvalue, relative to the largest, that counts as positive


@dataclass(frozen=True)
class Whitening:
    """M, B, and the spectrum they come from.

    Attributes
    ----------
    M, B : arrays (d, k)
    spectrum : array
        The k largest eigenvalues, and the next ones as far as they are known.
    """

    M: Array
    B: Array
    spectrum: Array

    @property
    def magnify(self) -> float:
        """By how much ``M'x`` magnifies the rounding of x."""
        k = self.M.shape[1]
        return float(np.sqrt(self.spectrum[0] / self.spectrum[k - 1])) if k else 1.0


def largest_eigenpairs(matrix: Any, count: int) -> tuple[Array, Array]:
    """The ``count`` algebraically largest eigenpairs, in decreasing order, of a symmetric array or
    LinearOperator.
    """
    d = matrix.shape[0]
    if isinstance(matrix, LinearOperator):
        values, vectors = _lanczos(matrix, min(count, d - 1), 1e-10)
    else:
        values, vectors = sla.eigh(matrix, subset_by_index=[d - count, d - 1], check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    return values, vectors * np.where(vectors[largest, np.arange(count)] < 0, -1.0, 1.0)


def _lanczos(matrix: LinearOperator, count: int, tolerance: float) -> tuple[Array, Array]:
    d = matrix.shape[0]
    start = np.random.default_rng(0).standard_normal(d)
    try:
        values, vectors = eigsh(
            matrix, k=count, which="LA", v0=start, ncv=min(d, max(3 * count, 40)), tol=tolerance
        )
    except ArpackError as error:
        raise InputError(
            f"The {count} largest eigenpairs of the second-moment matrix were not found ({error})."
        ) from error
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def orthogonal_part(vectors: Array, basis: Array) -> Array:
    """The part of a vector, or of columns, that is orthogonal to the columns of an orthonormal
    basis.
    """
    return np.asarray(vectors - basis @ (basis.T @ vectors))


def whiten(matrix: Any, k: int, parts: str, more: int = 0) -> Whitening:
    """Whiten a symmetric d x d matrix (array or LinearOperator); ``parts`` and ``more`` as in
    :func:`whitened`.
    """
    d = matrix.shape[0]
    # the next eigenvalue lies among many: two digits of it are enough, and cheap
    if isinstance(matrix, LinearOperator):
        spectrum, U = largest_eigenpairs(matrix, k)
        rest = LinearOperator(
            (d, d),
            matvec=lambda v: orthogonal_part(matrix.matvec(orthogonal_part(v.ravel(), U)), U),
            dtype=float,
        )
        spectrum = np.append(spectrum, _lanczos(rest, 1, 1e-2)[0])
    else:
        spectrum, U = largest_eigenpairs(matrix, min(k + 1, d))
    return whitened(spectrum, U, k, parts, more)


def whitened(spectrum: Array, U: Array, k: int, parts: str, more: int = 0) -> Whitening:
    """The whitening of the k largest eigenpairs; messages call them ``parts``, and there are
    ``more`` besides them.
    """
    e = spectrum[:k]
    if k and not e[-1] > POSITIVE * max(e[0], 0.0):
        good = int(np.sum(e > POSITIVE * max(e[0], 0.0))) + more
        listed = ", ".join(f"{x:.3g}" for x in e)
        hidden = (
            "" if k < 2 or not e[0] > OFFSET * abs(e[1]) else FAR_ROW if more else COMMON_OFFSET
        )
        raise InputError(
            f"The data support {good} {parts}, not {k + more}: the {k} largest eigenvalues of the"
            f" second-moment matrix must be positive to rounding, and they are {listed}. Ask for"
            f" {max(good, 1)}, or give more data.{hidden}"
        )
    root = np.sqrt(e)
    return Whitening(U[:, :k] / root, U[:, :k] * root, spectrum)


def unit_axes(cov: Array) -> Array:
    """Axes in which a covariance becomes I; directions of no variance are left as they are.

    The symmetric root: unlike eigenvectors, it moves little when the covariance does, whatever its
    eigenvalues.
    """
    if not len(cov):
        return cov
    values, vectors = sla.eigh(cov, check_finite=False)
    seen = values > POSITIVE * values[-1]
    return np.asarray((vectors / np.sqrt(np.where(seen, values, 1.0))) @ vectors.T)


def standardise(z: Array, weights: Array | None) -> tuple[Array, Array]:
    """Centre and axes with which the rows of z get mean 0 and covariance I."""
    share = np.full(len(z), 1.0 / len(z)) if weights is None else weights / weights.sum()
    centre = share @ z
    return centre, unit_axes((z - centre).T @ ((z - centre) * share[:, None]))
