"""Likelihood, most likely states and posterior probabilities of a Markov chain whose emissions have known log-densities.

With A the transitions and e_t the emission densities at step t, the likelihood of a sequence is a product of k x k matrices,

    p = start' diag(e_1) A diag(e_2) A .. diag(e_n) 1,

which is multiplied pairwise, in log2(n) calls, each factor scaled to about 1.  Where a sequence begins, every row of the factor
is ``start * e_t``: it forgets what came before, and sequences one after another need one product.
"""

from __future__ import annotations

import numpy as np

from karat.engine.linalg import Array, Flags

BLOCK = 2**16  # steps of which the factors are held at once


def log_likelihood(emissions: Array, start: Array, steps: Array, begins: Flags) -> float:
    """Log-likelihood of sequences; ``emissions`` (n x k) are log-densities, ``begins`` marks first steps."""
    total, before = 0.0, np.eye(len(start))
    for place in range(0, len(emissions), BLOCK):
        block = emissions[place : place + BLOCK]
        largest = block.max(axis=1)
        sizes = np.exp(block - largest[:, None])
        factors = np.where(begins[place : place + BLOCK, None, None], start, steps) * sizes[:, None, :]
        product, scale = _product(factors)
        before = before @ product
        size = float(before.max())
        before = before / size
        total += float(largest.sum()) + scale + np.log(size)
    return total + float(np.log(before[0].sum()))


def _product(factors: Array) -> tuple[Array, float]:
    """The product of many matrices, and the logarithm that was taken off it."""
    scale = 0.0
    while len(factors) > 1:
        even = len(factors) // 2 * 2
        product = factors[0:even:2] @ factors[1:even:2]
        if even < len(factors):
            product = np.concatenate([product, factors[-1:]])
        size = product.max(axis=(1, 2))
        scale += float(np.log(size).sum())
        factors = product / size[:, None, None]
    return factors[0], scale


def likely_states(emissions: Array, start: Array, steps: Array) -> tuple[float, np.ndarray]:
    """The most likely states of one sequence (Viterbi), and the log-probability; all arguments are logarithms."""
    back = np.empty(emissions.shape, dtype=np.intp)
    score = start + emissions[0]
    into = np.ascontiguousarray(steps.T)
    for t in range(1, len(emissions)):
        ways = into + score
        best = ways.argmax(axis=1)
        back[t] = best
        score = ways[np.arange(len(best)), best] + emissions[t]
    path = np.empty(len(emissions), dtype=np.int64)
    path[-1] = score.argmax()
    for t in range(len(emissions) - 1, 0, -1):
        path[t - 1] = back[t][path[t]]
    return float(score.max()), path


def posteriors(emissions: Array, start: Array, steps: Array) -> Array:
    """The probability of every state at every step of one sequence (forward and backward); emissions are log-densities."""
    sizes = np.exp(emissions - emissions.max(axis=1, keepdims=True))
    forward = np.empty_like(sizes)
    now = start * sizes[0]
    for t in range(len(sizes)):
        now = now if t == 0 else (now @ steps) * sizes[t]
        now = now / now.sum()
        forward[t] = now
    after = np.ones(len(start))
    for t in range(len(sizes) - 2, -1, -1):
        after = steps @ (sizes[t + 1] * after)
        after = after / after.sum()
        forward[t] *= after
    return np.asarray(forward / forward.sum(axis=1, keepdims=True))
