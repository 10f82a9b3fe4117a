"""Robust symmetric tensor power method (Anandkumar et al. 2014), for orders 3 and 4.

    T = sum_j lambda_j v_j (x) .. (x) v_j,  v_j orthonormal:  theta <- T(I, theta, .., theta) / norm

converges quadratically to one of the v_j.  The best of many starts is taken, followed until it no
longer moves, and *deflated*, k times. On an estimated tensor the deflated vectors depend, a little,
on the order in which they were found.  So all of them are followed once more on T itself, where
each is a fixed point of its own, and the answer does not depend on the order; should two of them
run into one, the tensor is too noisy for that and the deflated vectors are kept (``refined`` is
False).

:func:`deflate` is their Algorithm 1 to the letter, with every start followed until it no longer
moves: it keeps the deflated vectors, and so depends on their order.

Order 3: signs are such that lambda_j > 0.  Order 4: lambda_j may have either sign, and v_j has its
largest entry positive. The components come in decreasing |lambda_j|.

Conditioning: a change dT moves v_j by ``(lambda_j I - (p-1) T(I, I, v_j, ..))^-1 dT(I, v_j, ..)``
across v_j, so the largest inverse of that matrix, times |T|, is the condition of the decomposition;
that of the whitening multiplies it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from karat.engine.linalg import Array
from karat.models.recovery import Recovery

STARTS = 30
SETTLED = 1e-15  # squared movement of a unit vector that counts as none
PATIENCE, STEPS = 100, 2000  # plain and shifted power steps
CLOSE = 1e-4  # how far Newton's method may move a vector that has converged
# a step of Newton's method after which the next would be rounding: it converges quadratically
SMALL_STEP = 1e-10
SCREEN = 20  # plain steps, then shifted ones, before the best start is chosen
EQUAL = 1e-6  # relative difference of eigenvalues that are tied: their order is that of the vectors
# relative difference of eigenvalues below which the first start wins, so that rounding does not
# decide
TIED = 1e-8
MERGED = 0.7  # |cosine| beyond which two vectors are one


def contract(tensor: Array, vectors: Array, times: int) -> Array:
    """``T(I, .., v, .., v)`` with each row v of ``vectors`` put in ``times`` times."""
    powers = vectors  # v (x) .. (x) v, one row each
    for _ in range(times - 1):
        powers = (powers[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
    return np.asarray(powers @ tensor.reshape(-1, powers.shape[1]).T)


def follow(
    tensor: Array, vectors: Array, steps: int, shift: float = 0.0
) -> tuple[Array, bool, int]:
    """Power steps from every row until none moves; the vectors, whether they converged, and the
    number of steps.

    With a shift of at least (p-1) |T| the value never falls (Kolda and Mayo 2011), so that a noisy
    tensor cannot lead in circles.
    """
    moved = np.inf
    for step in range(1, steps + 1):
        image = contract(tensor, vectors, tensor.ndim - 1)
        if tensor.ndim == 4:  # with lambda < 0 the image points the other way
            image = image * np.where(np.sum(image * vectors, axis=1, keepdims=True) < 0, -1.0, 1.0)
        if shift:
            image = image + shift * vectors
        size = np.sqrt((image * image).sum(axis=1, keepdims=True))
        fresh = image / np.where(size > 0, size, 1.0)
        apart = fresh - vectors
        last, moved = moved, float((apart * apart).sum(axis=1).max())
        vectors = fresh
        # converged, up to rounding
        if moved == 0.0 or (moved < SETTLED and not moved < 0.25 * last):
            return vectors, True, step
    return vectors, moved < SETTLED, steps


def fixed_point(tensor: Array, start: Array, shift: float) -> tuple[Array, bool, int]:
    """The fixed point that one start leads to: plain steps, shifted ones if these do not converge,
    then Newton's method.
    """
    vector, calm, taken = follow(tensor, start, PATIENCE)
    if not calm:
        vector, calm, more = follow(tensor, start, STEPS, shift)
        taken += more
    return (refine_eigenvectors(tensor, vector), calm, taken) if calm else (vector, calm, taken)


def refine_eigenvectors(tensor: Array, vectors: Array) -> Array:
    """Newton's method on ``T(I, v, .., v) = lambda v``, ``|v| = 1``, for every row; kept where it
    stays close.
    """
    k, order = len(tensor), tensor.ndim
    result = vectors.copy()
    for row, v in enumerate(vectors):
        fresh = v
        for _ in range(3):
            image = contract(tensor, fresh[None], order - 1)[0]
            value = float(image @ fresh)
            jacobian = (order - 1) * contract(tensor, fresh[None], order - 2)[0].reshape(
                k, k
            ) - value * np.eye(k)
            bordered = np.block([[jacobian, -fresh[:, None]], [fresh[None], np.zeros((1, 1))]])
            right = np.append(value * fresh - image, 0.0)
            step = np.linalg.lstsq(bordered, right, rcond=1e-12)[0][:k]
            fresh = (fresh + step) / np.linalg.norm(fresh + step)
            if np.abs(step).max() < SMALL_STEP:
                break
        if np.linalg.norm(fresh - v) < CLOSE:
            result[row] = fresh
    return result


def tensor_eigenvalues(tensor: Array, vectors: Array) -> Array:
    """``T(v, .., v)`` of every row."""
    return np.asarray(np.einsum("lk,lk->l", contract(tensor, vectors, tensor.ndim - 1), vectors))


def transformed_axes(tensor: Array, matrix: Array) -> Array:
    """The tensor with every axis multiplied by a matrix."""
    for _ in range(tensor.ndim):  # the first axis becomes the last
        tensor = np.tensordot(tensor, matrix, axes=(0, 0))
    return tensor


def rank_one(value: float, vector: Array, order: int) -> Array:
    result = np.asarray(value)
    for _ in range(order):
        result = np.multiply.outer(result, vector)
    return result


def decompose(
    tensor: Array, spectrum: Array, lifted: bool = False
) -> tuple[Array, Array, Recovery]:
    """Eigenvalues (k,), eigenvectors (k, k; rows) and the recovery report of a whitened tensor.

    Parameters
    ----------
    tensor : array (k, k, k) or (k, k, k, k), symmetric
    spectrum : array
        Eigenvalues of the second-moment matrix it was whitened by: the k largest, and the next if
        there is one.
    lifted : bool
        Whether the last coordinate is a constant, so that k components have k - 1 eigenvalues.
    """
    k, order = len(tensor), tensor.ndim
    rest, taken, still = tensor.copy(), 0, True
    directions: list[Array] = []
    rng = np.random.default_rng(0)
    for _ in range(k):
        starts = random_units(rng, STARTS + 2 * k, k, directions if order == 4 else [])
        shift = (order - 1) * float(np.linalg.norm(rest.reshape(k, -1), 2))
        starts, calm, steps = follow(rest, starts, SCREEN)
        starts, _, more = (starts, calm, 0) if calm else follow(rest, starts, SCREEN, shift)
        start = best_of(np.abs(tensor_eigenvalues(rest, starts)), starts)
        vector, calm, last = fixed_point(rest, start, shift)
        taken, still = taken + steps + more + last, still and calm
        directions.append(vector[0])
        rest = rest - rank_one(float(tensor_eigenvalues(rest, vector)[0]), vector[0], order)
        # a source of no kurtosis leaves nothing to follow: it is what the others are orthogonal to
        if order == 4:
            rest = transformed_axes(rest, np.eye(k) - np.outer(vector[0], vector[0]))
    vectors = np.array(directions)
    better, calm, more = follow(tensor, vectors, STEPS)
    better = refine_eigenvectors(tensor, better) if calm else better
    apart = np.abs(better @ better.T)
    np.fill_diagonal(apart, 0.0)
    refined = bool(
        calm
        and apart.max(initial=0.0) < MERGED
        and (np.abs(np.sum(better * vectors, axis=1)) > MERGED).all()
    )
    vectors = better if refined else vectors
    values = tensor_eigenvalues(tensor, vectors)
    if order == 4:
        largest = np.abs(vectors).argmax(axis=1)
        vectors = vectors * np.where(vectors[np.arange(k), largest] < 0, -1.0, 1.0)[:, None]
    by_size = canonical_order(np.abs(values), vectors)
    values, vectors = values[by_size], vectors[by_size]
    report = _report(tensor, values, vectors, spectrum, k - lifted, still, refined, taken + more)
    return values, vectors, report


def deflate(
    tensor: Array, spectrum: Array, n_init: int, random_state: int
) -> tuple[Array, Array, Recovery]:
    """Algorithm 1 of Anandkumar et al. (2014) on a tensor of order 3: results as of
    :func:`decompose`.

    The best of ``n_init`` random starts is followed, and its part is subtracted, k times.
    """
    k = len(tensor)
    rest, taken, still = tensor.copy(), 0, True
    values, directions = [], []
    rng = np.random.default_rng(random_state)
    for _ in range(k):
        starts, _, steps = follow(rest, random_units(rng, n_init, k), PATIENCE)
        start = best_of(tensor_eigenvalues(rest, starts), starts)
        shift = 2 * float(np.linalg.norm(rest.reshape(k, -1), 2))
        vector, calm, last = fixed_point(rest, start, shift)
        taken, still = taken + steps + last, still and calm
        values.append(float(tensor_eigenvalues(rest, vector)[0]))
        directions.append(vector[0])
        rest = rest - rank_one(values[-1], vector[0], 3)
    sizes, vectors = np.array(values), np.array(directions)
    by_size = canonical_order(sizes, vectors)
    sizes, vectors = sizes[by_size], vectors[by_size]
    return sizes, vectors, _report(tensor, sizes, vectors, spectrum, k, still, False, taken)


def random_units(
    rng: np.random.Generator, count: int, k: int, found: Sequence[Array] = ()
) -> Array:
    """Random unit vectors, orthogonal to those found."""
    starts = rng.standard_normal((count, k))
    if len(found):
        starts -= starts @ np.array(found).T @ np.array(found)
    return np.asarray(starts / np.linalg.norm(starts, axis=1, keepdims=True))


def best_of(values: Array, vectors: Array) -> Array:
    """The vector of the largest value, as a row; the first of those that are tied."""
    best = int(np.argmax(values >= values.max() - TIED * abs(values.max())))
    return vectors[best : best + 1]


def canonical_order(sizes: Array, vectors: Array) -> list[int]:
    """Decreasing sizes; vectors whose sizes are tied up to rounding by their entries, so that
    rounding does not decide.
    """
    order = np.argsort(-sizes, kind="stable")
    groups = np.cumsum(np.diff(sizes[order], prepend=sizes[order[0]]) < -EQUAL * sizes.max())
    keys = [
        (int(group), *np.round(-vectors[row], 4)) for group, row in zip(groups, order, strict=True)
    ]
    return [int(order[i]) for i in sorted(range(len(order)), key=keys.__getitem__)]


def _report(
    tensor: Array,
    values: Array,
    vectors: Array,
    spectrum: Array,
    leading: int,
    still: bool,
    refined: bool,
    iterations: int,
) -> Recovery:
    k, order = len(tensor), tensor.ndim
    size = max(float(np.linalg.norm(tensor)), 1e-300)
    model = sum(rank_one(float(x), v, order) for x, v in zip(values, vectors, strict=True))
    worst = 1.0
    for value, v in zip(values, vectors, strict=True):
        jacobian = value * np.eye(k) - (order - 1) * contract(tensor, v[None], order - 2)[
            0
        ].reshape(k, k)
        across = jacobian - np.outer(jacobian @ v, v)
        # |T| along v, so that only the rest counts
        across = across - np.outer(v, v @ across) + size * np.outer(v, v)
        worst = max(
            worst, size / max(float(np.linalg.svd(across, compute_uv=False)[-1]), 1e-300 * size)
        )
    overlap = np.abs(vectors @ vectors.T)
    np.fill_diagonal(overlap, 0.0)
    # one component has no second moments about its mean
    e = spectrum[:leading] if leading else np.ones(1)
    following = float(spectrum[leading]) if 0 < leading < len(spectrum) else 0.0
    return Recovery(
        spectrum=tuple(float(x) for x in spectrum),
        eigen_gap=float((e[-1] - following) / e[0]),
        whitening_condition=float(e[0] / e[-1]),
        effective_rank=float((e / e[0]).sum() ** 2 / np.square(e / e[0]).sum()),
        tensor_residual=float(np.linalg.norm(tensor - model) / size),
        off_diagonal=float(overlap.max(initial=0.0)),
        tensor_condition=worst,
        converged=still,
        refined=refined,
        iterations=iterations,
        leading=leading,
        order=order,
    )
