"""Fourth moments of a mixture along its components, against those that the lower moments give.

Means and covariance, the third moments in the whitened space and the variance across it fix all
parameters of a mixture of spherical Gaussians.  Of two components in two columns nothing is left to
compare at these orders.  At the fourth there is: let y_i = v_i . z be the whitened coordinate along
component i, q the mean square across (:mod:`karat.problems.latent.mixture`).  If y_i has the mean
a_ij and the variance s_j^2 G_ii in component j of weight g_j, then

    E y_i^4 = sum_j g_j (a_ij^4 + 6 a_ij^2 s_j^2 G_ii + 3 s_j^4 G_ii^2)           (peaks)
    E q y_i^2 = sum_j g_j s_j^2 (a_ij^2 + s_j^2 G_ii),   E q^2 = (1 + 2/p) sum_j g_j s_j^4   (sizes)
    E q y_i = s^2 E y_i   if the variances are equal                              (sizes)
    E exp(-q/r) = sum_j g_j (1 + 2 s_j^2 / (p r))^(-p/2),   r = s^2               (tails)
    E c^3 = E c y_i^2 = E c y_i^3 = 0   if only one direction c is across (p = 1)  (across)

The bounded function tells heavy tails, of which the fourth moments themselves are mostly noise.
Errors of the parameters move these numbers as much as noise of the moments does.  The jackknife
measures both: blocks of samples are left out in turn, and everything is found again from the
moments of the rest, in the few dimensions of the whitened space.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from karat.engine.linalg import Array
from karat.models import misfit
from karat.models.misfit import JACKKNIFE as BLOCKS
from karat.models.tensor import follow, tensor_eigenvalues, transformed_axes

MOST = 10  # components; the fourth moments of more have too many entries
STEPS = 60  # of the power method, from the components found


class FourthMoments(NamedTuple):
    """Means over samples; u are the coordinates in the whitened space (unscaled), and 1; if only
    one direction is across, u holds it as well.

    Attributes
    ----------
    fourth : array (p, p, p, p)
        E u (x) u (x) u (x) u.
    spread : array (p, p)
        E q u (x) u.
    square : float
        E q^2.
    bell : float
        E exp(-q), in units in which q has the mean 1.
    """

    fourth: Array
    spread: Array
    square: float
    bell: float


def fourth_moments_p_value(x: Array, top: Array, M: Array, V: Array, shared: bool) -> float | None:
    """The p-value of "the fourth moments are those of the mixture"; None if it is unknown.

    Parameters
    ----------
    x : array (n, d)
        Samples about their mean.
    top : array (d, k - 1)
        The directions in which the components differ.
    M : array (d, k - 1)
        The whitening.
    V : array (k, k)
        The components in the whitened space (rows).
    shared : bool
        Whether all components have one variance.
    """
    (n, d), k = x.shape, len(V)
    free = d - k + 1
    if not 1 < k <= MOST or n < 2 * BLOCKS:
        return None
    inside = x @ top
    if free == 1:  # the direction across, whose third moments can be compared as well
        inside = np.column_stack([inside, x @ np.linalg.svd(top)[0][:, -1]])
        whitening = np.vstack([top.T @ M, np.zeros(k - 1)])
    else:
        whitening = top.T @ M
    q = np.maximum(np.square(x).sum(axis=1) - np.square(x @ top).sum(axis=1), 0.0) / free
    unit = float(np.sqrt(q.mean()))
    if not 0 < unit < np.inf:
        return None
    blocks = block_moments(inside / unit, q / unit**2)
    whole = FourthMoments(*(np.mean(parts, axis=0) for parts in zip(*blocks, strict=True)))
    parts = deviations(whole, whitening * unit, V, free, shared)
    if parts is None:
        return None
    left_out = []
    for block in blocks:
        pairs: Any = zip(whole, block, strict=True)
        rest = FourthMoments(*((BLOCKS * a - b) / (BLOCKS - 1) for a, b in pairs))
        found = deviations(rest, whitening * unit, V, free, shared)
        if found is None:
            return None
        left_out.append(found)
    p_values = [
        misfit.jackknife_p_value(measured, np.array([found[group] for found in left_out]))
        for group, measured in enumerate(parts)
    ]
    known = [p for p in p_values if p is not None]
    return min(1.0, len(known) * min(known)) if known else None


def block_moments(inside: Array, q: Array) -> list[FourthMoments]:
    """FourthMoments of every BLOCKS-th sample, from each of the first BLOCKS on."""
    moments = []
    for start in range(BLOCKS):
        u, size = inside[start::BLOCKS], q[start::BLOCKS]
        u = np.column_stack([u, np.ones(len(u))])
        p, n = u.shape[1], len(u)
        pairs = (u[:, :, None] * u[:, None, :]).reshape(n, -1)
        fourth = (pairs.T @ pairs / n).reshape((p,) * 4)
        moments.append(
            FourthMoments(
                fourth,
                (size[:, None] * u).T @ u / n,
                float(size @ size) / n,
                float(np.exp(-size).mean()),
            )
        )
    return moments


def deviations(
    moments: FourthMoments, whitening: Array, V: Array, free: int, shared: bool
) -> list[Array] | None:
    """Fourth moments less those of the model with the parameters of these moments, in groups; None
    if they give no model.

    ``whitening`` and ``V`` are those of all samples, from which those of these are not far.
    """
    fourth, spread, square, bell = moments
    k, far = len(V), 1 if free == 1 else 0
    second = fourth[:, :, -1, -1]
    mean = second[:-1, -1]
    covariance = second[:-1, :-1] - np.outer(mean, mean)
    if far:
        values, vectors = np.linalg.eigh(covariance)
        sigma2, across, along = float(values[0]), vectors[:, 0], vectors[:, 1:]
        start = along @ (along.T @ whitening)
    else:
        sigma2, start = float(spread[-1, -1]), whitening
    between = covariance - sigma2 * np.eye(len(covariance))
    values, vectors = np.linalg.eigh(start.T @ between @ start)
    if not values[0] > 0 or not sigma2 > 0:
        return None
    M = start @ (vectors / np.sqrt(values)) @ vectors.T
    A = with_constant(M, mean)
    metric = np.zeros((k, k))
    metric[:-1, :-1] = M.T @ M
    if far:
        c = with_constant(across[:, None], mean)[:, 0]
        spread = fourth @ c @ c
        square = float(c @ spread @ c)
    sizes = A.T @ spread @ A
    constant = np.eye(k)[-1]
    noise = sigma2 * constant if shared else sizes[:, -1]
    tensor = transformed_axes(fourth[:, :, :, -1], A)
    for axis in range(3):  # the noise in one place, the metric in the two others
        tensor = tensor - np.moveaxis(np.multiply.outer(noise, metric), 0, axis)
    V, _, _ = follow(tensor, V, STEPS)
    if not (np.abs(V[:, -1]) > 1e-3).all():
        return None
    places = V / V[:, -1:]
    try:
        weights = np.linalg.solve(places.T, constant)
        variances = (
            np.full(k, sigma2) if shared else np.linalg.solve((weights[:, None] * places).T, noise)
        )
    except np.linalg.LinAlgError:
        return None
    a = np.square(V @ places.T)
    own = np.einsum("ij,jk,ik->i", V, metric, V)[:, None] * variances  # s_j^2 G_ii
    axes = A @ V.T
    peaks = tensor_eigenvalues(fourth, axes.T) - (a * a + 6 * a * own + 3 * own * own) @ weights
    along_sizes = np.einsum("ij,jk,ik->i", V, sizes, V) - (a + own) @ (weights * variances)
    whole_size = square - (1 + 2 / free) * float(weights @ np.square(variances))
    flatter = (1 + 2 / free * np.maximum(variances, 0.0)) ** (-free / 2)
    tails = np.array([bell - float(weights @ flatter)])
    groups = [peaks, np.append(along_sizes, whole_size), tails]
    if shared:
        groups[1] = np.append(groups[1], V @ sizes[:, -1] - sigma2 * V[:, -1])
    if far:
        third, cubes = fourth @ c, fourth[:, :, :, -1] @ c
        odd = tensor_eigenvalues(third, axes.T)
        groups.append(
            np.concatenate([[c @ cubes @ c], np.einsum("ab,ai,bi->i", cubes, axes, axes), odd])
        )
    return groups


def with_constant(M: Array, mean: Array) -> Array:
    """The matrix A with ``(u, 1) A = (M'(u - mean), 1)``."""
    A = np.zeros((len(M) + 1, M.shape[1] + 1))
    A[:-1, :-1], A[-1, :-1], A[-1, -1] = M, -mean @ M, 1.0
    return A
