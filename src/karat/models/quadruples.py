"""Quadruples of words against the topics that pairs and triples show: a check of the law of a
document's proportions.

Pairs and triples of words fix the topics, and leave little to compare: for three topics one number.
Any law of the proportions h that has the right second and nearly the right third moments passes.
The fourth moments tell more:

    single topic:      h is a unit vector,    E[h_i^3 h_j] = E[h_i^2 h_j^2] = 0 for i != j;
    latent Dirichlet:  h ~ Dirichlet(alpha),  E[h_i^3 h_j] = alpha_i (alpha_i+1) (alpha_i+2) alpha_j
    / (a (a+1) (a+2) (a+3)),
                                              E[h_i^2 h_j^2] = alpha_i (alpha_i+1) alpha_j
                                              (alpha_j+1) / (the same).

A word w of a document has E[M[w] | h] = sum_j h_j mu_j with mu_j the whitened topics, so E[h (x) h
(x) h (x) h] is the mean over quadruples of distinct words of the four M[w], in the dual basis of
the mu_j.  It is made of sums of powers of the words, as are the second and third moments (Newton's
identities: p_1 = sum_w c_w M[w], p_2 = sum_w c_w M[w] (x) M[w], ..):

    pairs        p1 p1 - p2       triples      p1 p1 p1 - 3 p2 p1 + 2 p3    (symmetric parts)
    quadruples   p1 p1 p1 p1 - 6 p2 p1 p1 + 3 p2 p2 + 8 p3 p1 - 6 p4.

The deviation depends on the moments also through the topics that they give.  Both kinds of noise
are measured by the jackknife: blocks of documents are left out in turn, and topics and deviation
are found again, in the whitened space.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from karat.engine.linalg import Array
from karat.models import misfit
from karat.models.misfit import ALIKE
from karat.models.tensor import follow, tensor_eigenvalues, transformed_axes

MOST_TOPICS = 6  # the fourth moments of more have too many entries
APART = 4  # topics up to which all entries are compared, so that they stay fewer than the blocks
BLOCKS = 80  # of documents, of which each is left out once; at least FEW_BLOCKS
FEW_BLOCKS = 40
FEW = 10  # documents of a block, at least
STEPS = 60  # of the power method, from the topics found


class WordTensors(NamedTuple):
    """Means over documents of the words' tensors of orders 1 to 4, in the whitened space."""

    first: Array
    second: Array
    third: Array
    fourth: Array

    def without(self, block: WordTensors, blocks: int) -> WordTensors:
        """These moments without one of so many equal blocks."""
        return WordTensors(
            *((blocks * all_ - one) / (blocks - 1) for all_, one in zip(self, block, strict=True))
        )


def word_moments(counts: csr_array, words: Array, blocks: int = 1) -> list[WordTensors]:
    """Moments of distinct words, for equal blocks of documents of at least four words; ``words``
    are places (d x k).
    """
    (n, d), k = counts.shape, words.shape[1]
    squares = (words[:, :, None] * words[:, None, :]).reshape(d, -1)
    p1, p2 = counts @ words, counts @ squares
    p3 = counts @ (squares[:, :, None] * words[:, None, :]).reshape(d, -1)
    p11 = (p1[:, :, None] * p1[:, None, :]).reshape(n, -1)
    length = np.asarray(counts.sum(axis=1)).ravel()
    size, tuples = n // blocks, [1.0 / length]
    for order in (1, 2, 3):
        tuples.append(tuples[-1] / (length - order))
    edges = np.arange(blocks + 1) * size
    by_word = (
        csr_array((tuples[3][: edges[-1]], np.arange(edges[-1]), edges), shape=(blocks, n)) @ counts
    )
    moments = []
    for start, stop, word in zip(edges[:-1], edges[1:], by_word.toarray(), strict=True):
        here = slice(start, stop)
        x, xx, y, z = p1[here], p11[here], p2[here], p3[here]
        singles, per_pair, per_triple, per_quadruple = (weights[here] for weights in tuples)
        pairs = (per_pair[:, None] * x).T @ x - (per_pair @ y).reshape(k, k)
        triples = ((per_triple[:, None] * (xx - 3 * y)).T @ x).ravel() + 2 * (per_triple @ z)
        weighted = per_quadruple[:, None] * y
        fourth = (
            (per_quadruple[:, None] * xx - 6 * weighted).T @ xx
            + 3 * weighted.T @ y
            - 6 * squares.T @ (word[:, None] * squares)
        )
        fourth = fourth.ravel() + 8 * (z.T @ (per_quadruple[:, None] * x)).ravel()
        tensors = (
            singles @ x,
            pairs,
            symmetric(triples.reshape(k, k, k)),
            symmetric(fourth.reshape((k,) * 4)),
        )
        moments.append(WordTensors(*(tensor / size for tensor in tensors)))
    return moments


def symmetric(tensor: Array) -> Array:
    """The mean over all orders of the axes."""
    orders = list(permutations(range(tensor.ndim)))
    return np.asarray(sum(tensor.transpose(order) for order in orders) / len(orders))


def deviation(moments: WordTensors, V: Array, a: float) -> Array | None:
    """E[h_i^2 h_j^2], i < j, and E[h_i^3 h_j], i != j, less those of the model with the topics of
    these moments; of many topics the latter summed over j.  None if they show fewer topics.

    ``V``: about the components of the whitened tensor (rows); ``a``: alpha_0, 0 for single topics.
    """
    first, second, third, fourth = moments
    crossed = symmetric(np.multiply.outer(second, first))
    cube = symmetric(np.multiply.outer(np.multiply.outer(first, first), first))
    tensor = third - 3 * a / (a + 2) * crossed + 2 * a * a / ((a + 1) * (a + 2)) * cube
    values, vectors = np.linalg.eigh(second - a / (a + 1) * np.outer(first, first))
    if not values[0] > ALIKE * values[-1]:
        return None
    root = np.sqrt(values)
    white, back = (vectors / root) @ vectors.T, (vectors * root) @ vectors.T
    whitened = transformed_axes(tensor, white)
    V, _, _ = follow(whitened, V, STEPS)
    ell = tensor_eigenvalues(whitened, V)
    topics = (a + 2) / 2 * ell[:, None] * V @ back
    h = transformed_axes(fourth, np.linalg.inv(topics))
    share = 4 * (a + 1) / ((a + 2) ** 2 * ell**2)
    alpha, rest = a * share, (a + 1) * (a + 2) * (a + 3)
    three_one = np.einsum("iiij->ij", h) - np.outer(share * (alpha + 1) * (alpha + 2), alpha) / rest
    two_two = np.einsum("iijj->ij", h) - np.outer(share * (alpha + 1), alpha * (alpha + 1)) / rest
    upper, off = np.triu_indices(len(ell), 1), ~np.eye(len(ell), dtype=bool)
    one_sided = three_one[off] if len(ell) <= APART else (three_one * off).sum(axis=1)
    return np.concatenate([two_two[upper], one_sided])


def fourth_moment_p_value(
    counts: csr_array, words: Array, V: Array, values: Sequence[float]
) -> float | None:
    """The p-value of "the proportions have the fourth moments of the model"; None if it is unknown.

    ``values`` of alpha_0: the largest p-value counts.  One that was chosen by the data has noise of
    its own.
    """
    k = words.shape[1]
    long = counts[np.flatnonzero(np.asarray(counts.sum(axis=1)).ravel() >= 4)]
    if not 1 < k <= MOST_TOPICS or long.shape[0] < FEW * FEW_BLOCKS:
        return None
    blocks = word_moments(long, words, min(BLOCKS, long.shape[0] // FEW))
    whole = WordTensors(*(np.mean(parts, axis=0) for parts in zip(*blocks, strict=True)))
    known = [_p_value(whole, blocks, V, a) for a in values]
    return max((p for p in known if p is not None), default=None)


def _p_value(whole: WordTensors, blocks: list[WordTensors], V: Array, a: float) -> float | None:
    try:
        measured = deviation(whole, V, a)
        left_out = [deviation(whole.without(block, len(blocks)), V, a) for block in blocks]
    except np.linalg.LinAlgError:
        return None
    if measured is None or any(part is None for part in left_out):
        return None
    return misfit.jackknife_p_value(measured, np.array(left_out))
