"""Sampling noise as the learned model predicts it: for coresets, whose rows are no sample of the
data.

A coreset keeps the whitened tensor of all rows, so what a diagonal tensor does not have is known
(:func:`karat.models.misfit.off_diagonal`).  Its noise is not: it is a moment of twice the order.
But the model says what it is.  Draws of the model, in the few dimensions of the whitened space,
give the covariance of that noise, and the deviation is compared with it.

Views of unknown noise, words of documents of unknown length and sources of unknown laws cannot be
drawn.
"""

from __future__ import annotations

import numpy as np

from karat.engine.linalg import Array, Indices
from karat.models import misfit
from karat.models.tensor import transformed_axes

DRAWS, ENOUGH = 2000, 4  # of a mixture; draws for every entry that is compared, at least
CHAINS, STEPS, BURNED = 200, 60, 20  # sequences of a chain, steps of each, and steps before them
SEED = 0


def p_value(tensor: Array, V: Array, draws: Array, ell: Array, n: float) -> float | None:
    """Of "the tensor, a mean of n samples, is diagonal in the basis V (rows)"; samples (or means of
    a few) vary as draws do.  None if nothing is compared.
    """
    tensor = transformed_axes(tensor, V.T)
    mean = misfit.off_diagonal(
        lambda i, j, m: tensor[i, j, m : m + 1], lambda i, j: np.zeros(1), ell
    )[0]
    distance, m = misfit.squared_distance(mean, np.atleast_2d(np.cov(draws.T)))
    return misfit.hotelling(n * distance, m, len(draws)) if m and len(draws) >= ENOUGH * m else None


def mixture(
    weights: Array, points: Array, variances: Array, metric: Array, free: int
) -> tuple[Array, Array]:
    """Draws of z and q of a mixture: z given j ~ N(points_j, variances_j metric), q its mean square
    in ``free`` others.
    """
    rng = np.random.default_rng(SEED)
    h = rng.choice(len(weights), DRAWS, p=weights)
    noise = rng.standard_normal(points[h].shape) @ _root(metric)
    return (
        points[h] + np.sqrt(variances[h])[:, None] * noise,
        variances[h] * rng.chisquare(free, DRAWS) / free,
    )


def states(transitions: Array) -> Indices:
    """States of CHAINS sequences of STEPS steps, one in every row."""
    rng = np.random.default_rng(SEED)
    laws = transitions.cumsum(axis=1)
    now = rng.integers(len(laws), size=CHAINS)
    chains = np.empty((CHAINS, STEPS), dtype=np.intp)
    for step in range(-BURNED, STEPS):
        now = np.minimum((rng.random(CHAINS)[:, None] >= laws[now]).sum(axis=1), len(laws) - 1)
        if step >= 0:
            chains[:, step] = now
    return chains


def symbols(hidden: Indices, emissions: Array, maps: list[Array]) -> list[Array]:
    """The three whitened views of the windows of sequences of symbols (CHAINS x windows x k)."""
    drawn = emitted(emissions, hidden, np.random.default_rng(SEED + 1).random(hidden.shape))
    return [view[drawn[:, a : STEPS - 2 + a]] for a, view in enumerate(maps)]


def emitted(emissions: Array, hidden: Indices, uniform: Array) -> Indices:
    """Symbols of states by inversion, from uniform numbers; the symbols may be many, so no law is
    copied for a step.
    """
    drawn = np.empty(hidden.shape, dtype=np.intp)
    for state, law in enumerate(emissions.cumsum(axis=1)):
        here = hidden == state
        drawn[here] = np.searchsorted(law, uniform[here], side="right")
    return np.asarray(np.minimum(drawn, emissions.shape[1] - 1))


def gaussians(
    hidden: Indices, means: list[Array], variances: Array, maps: list[Array]
) -> list[Array]:
    """The same for Gaussian emissions; ``means`` are those of the states in each view, whitened,
    ``maps`` without a constant.
    """
    k = maps[0].shape[1]
    together = np.hstack(maps)
    noise = np.random.default_rng(SEED + 1).standard_normal((*hidden.shape, 3 * k)) @ _root(
        together.T @ together
    )
    noise *= np.sqrt(variances)[hidden][:, :, None]
    views = []
    for a, mean in enumerate(means):
        at = slice(a, STEPS - 2 + a)
        z = mean[hidden[:, at]] + noise[:, at, a * k : (a + 1) * k]
        views.append(np.concatenate([z, np.ones((*z.shape[:2], 1))], axis=2))
    return views


def _root(matrix: Array) -> Array:
    """A symmetric root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
