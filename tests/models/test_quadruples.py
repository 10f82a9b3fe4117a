"""Fourth moments of words: against enumeration, and on laws of proportions whose moments are
known.
"""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.sparse import csr_array

from karat.models.quadruples import WordTensors, deviation, symmetric, word_moments
from karat.models.tensor import transformed_axes


def test_moments_of_distinct_words_by_enumeration():
    rng = np.random.default_rng(0)
    places = rng.standard_normal((5, 2))
    documents = [rng.integers(5, size=length) for length in (4, 6, 7)]
    counts = csr_array(
        np.array([np.bincount(words, minlength=5) for words in documents], dtype=float)
    )
    (found,) = word_moments(counts, places)
    for order, mine in enumerate(found, 1):
        letters = "abcd"[:order]
        brute = [
            np.mean(
                [
                    np.einsum(
                        f"{','.join(letters)}->{letters}", *(places[words[p]] for p in chosen)
                    )
                    for chosen in permutations(range(len(words)), order)
                ],
                axis=0,
            )
            for words in documents
        ]
        np.testing.assert_allclose(mine, np.mean(brute, axis=0), atol=1e-12)


def test_moments_of_blocks_are_those_of_their_documents():
    rng = np.random.default_rng(1)
    places, counts = (
        rng.standard_normal((6, 3)),
        csr_array(rng.integers(1, 4, size=(21, 6)).astype(float)),
    )
    for block, mine in enumerate(word_moments(counts, places, 4)):  # the last document is left out
        (alone,) = word_moments(counts[5 * block : 5 * block + 5], places)
        for one, other in zip(mine, alone, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


def dirichlet_moment(alpha, indices):
    top = np.prod([alpha[i] + indices[:place].count(i) for place, i in enumerate(indices)])
    return top / np.prod([alpha.sum() + place for place in range(len(indices))])


def moments_of(law, topics):
    """Moments of words whose proportions have E[h_i h_j ..] = law(i, j, ..)."""
    k, tensors = len(topics), []
    for order in range(1, 5):
        tensor = np.array([law(list(t)) for t in product(range(k), repeat=order)]).reshape(
            (k,) * order
        )
        tensors.append(transformed_axes(tensor, topics))
    return WordTensors(*tensors)


def components(topics, share, a):
    """The v_j of the whitened tensor: symmetric whitening of the topics, as in ``deviation``."""
    second = topics.T @ (share[:, None] * topics) / (a + 1)
    values, vectors = np.linalg.eigh(second)
    rows = topics @ (vectors / np.sqrt(values)) @ vectors.T
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("alpha", [[0.3, 0.5, 0.4], [2.0, 1.0, 0.2, 0.6]])
def test_the_law_of_the_model_has_no_deviation_and_another_has(alpha):
    alpha = np.array(alpha)
    a, k = alpha.sum(), len(alpha)
    topics = np.eye(k) + 0.3 * np.random.default_rng(k).standard_normal((k, k))
    V = components(topics, alpha / a, a)
    exact = moments_of(lambda t: dirichlet_moment(alpha, t), topics)
    np.testing.assert_allclose(deviation(exact, V, a), 0.0, atol=1e-10)
    share = alpha / a
    single = moments_of(lambda t: share[t[0]] * (len(set(t)) == 1), topics)
    np.testing.assert_allclose(
        deviation(single, components(topics, share, 0.0), 0.0), 0.0, atol=1e-10
    )
    assert np.abs(deviation(single, components(topics, share, 0.0), a)).sum() > 0.01


def test_symmetric_part():
    tensor = np.random.default_rng(0).standard_normal((3, 3, 3))
    mine = symmetric(tensor)
    for order in permutations(range(3)):
        np.testing.assert_allclose(mine, mine.transpose(order), atol=1e-15)
    v = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(mine @ v @ v @ v, tensor @ v @ v @ v)
