"""Data of known models, one small set for each."""

from __future__ import annotations

import numpy as np


class Truth(dict):
    __getattr__ = dict.__getitem__


def draw(cumulative, rng):
    """One index per row of cumulative probabilities."""
    return np.minimum(
        (rng.random(len(cumulative))[:, None] >= cumulative).sum(axis=1), cumulative.shape[1] - 1
    )


def make_mixture(n=20_000, d=8, k=4, spherical=False, seed=0):
    rng = np.random.default_rng(seed)
    means = 3 * rng.standard_normal((k, d))
    weights = np.array([0.15, 0.2, 0.31, 0.34])[:k]
    weights = weights / weights.sum()
    variances = np.array([0.25, 0.64, 1.0, 1.44])[:k] if spherical else np.full(k, 0.8)
    h = rng.choice(k, n, p=weights)
    X = means[h] + np.sqrt(variances[h])[:, None] * rng.standard_normal((n, d))
    return Truth(X=X, means=means, weights=weights, variances=variances, h=h)


def make_topics(n=4000, d=14, k=4, alpha=None, length=12, seed=1):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(d, 0.3), size=k)
    weights = np.array([0.15, 0.2, 0.31, 0.34])[:k]
    weights = weights / weights.sum()
    h = rng.choice(k, n, p=weights)
    shares = np.eye(k)[h] if alpha is None else rng.dirichlet(alpha, size=n)
    sizes = rng.integers(3, 2 * length - 2, size=n)
    X = np.array([rng.multinomial(m, p) for m, p in zip(sizes, shares @ topics, strict=True)])
    return Truth(X=X, topics=topics, weights=weights, h=h, alpha=alpha)


TRANSITIONS = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])


def make_chain(n=60_000, lengths=None, gaussian=False, seed=2):
    rng = np.random.default_rng(seed)
    lengths = np.array([n]) if lengths is None else np.asarray(lengths)
    n = int(lengths.sum())
    start = np.array([0.1, 0.3, 0.6])
    first = np.zeros(n, dtype=bool)
    first[np.concatenate([[0], np.cumsum(lengths)[:-1]])] = True
    states, draws = np.empty(n, dtype=int), rng.random(n)
    chain, begin = TRANSITIONS.cumsum(axis=1), start.cumsum()
    for t in range(n):
        law = begin if first[t] else chain[states[t - 1]]
        states[t] = min(int((draws[t] >= law).sum()), 2)
    if gaussian:
        means, variances = 2 * rng.standard_normal((3, 6)), np.array([0.2, 0.5, 0.9])
        X = means[states] + np.sqrt(variances[states])[:, None] * rng.standard_normal((n, 6))
        return Truth(
            X=X, lengths=lengths, states=states, means=means, variances=variances, start=start
        )
    emissions = rng.dirichlet(np.full(7, 0.5), size=3)
    return Truth(
        X=draw(emissions.cumsum(axis=1)[states], rng),
        lengths=lengths,
        states=states,
        emissions=emissions,
        start=start,
    )


def make_views(n=20_000, seed=3):
    rng = np.random.default_rng(seed)
    weights = np.array([0.2, 0.3, 0.5])
    h = rng.choice(3, n, p=weights)
    means = [2 * rng.standard_normal((3, d)) for d in (7, 8, 6)]
    X = tuple(m[h] + 0.5 * rng.standard_normal((n, m.shape[1])) for m in means)
    return Truth(X=X, means=means, weights=weights, h=h)


def make_sources(n=20_000, seed=4):
    rng = np.random.default_rng(seed)
    H = np.column_stack(
        [
            rng.laplace(size=(n, 2)) / np.sqrt(2),
            rng.uniform(-1, 1, n) * np.sqrt(3),
            rng.exponential(size=n) - 1,
        ]
    )
    A = rng.standard_normal((4, 4))
    return Truth(X=H @ A.T + 5.0, A=A, H=H)


CASES = {
    "mixture": ("GaussianMixture", (4,), {}, make_mixture, ("means_", "weights_", "covariances_")),
    "mixture, own variances": (
        "GaussianMixture",
        (4,),
        {"variances": "spherical"},
        lambda: make_mixture(spherical=True),
        ("means_", "weights_", "covariances_"),
    ),
    "single topic": ("SingleTopic", (4,), {}, make_topics, ("topics_", "weights_")),
    "dirichlet": (
        "LatentDirichlet",
        (4,),
        {"alpha0": 1.5},
        lambda: make_topics(alpha=[0.2, 0.3, 0.4, 0.6], length=30),
        ("topics_", "alpha_"),
    ),
    "chain": ("HiddenMarkov", (3,), {}, make_chain, ("emissionprob_", "transmat_", "startprob_")),
    "chain, gaussian": (
        "HiddenMarkov",
        (3,),
        {"emissions": "gaussian"},
        lambda: make_chain(lengths=[97, 3, 400] * 60, gaussian=True),
        ("means_", "covars_", "transmat_", "startprob_"),
    ),
    "views": ("MultiView", (3,), {}, make_views, ("means_", "weights_")),
    "sources": ("ICA", (4,), {}, make_sources, ("mixing_", "components_", "kurtosis_")),
}
# rows kept: conic mode A, B, C (math: binom(k+2,3) (+k), binom(k+3,3) (+k), ...) About the mean the
# tensor holds all moments up to the third in k - 1 dimensions, and the total weight.
SIZES = {
    "mixture": (20, 20, 55),
    "mixture, own variances": (24, 24, 58),
    "single topic": (20, 35, 125),
    "dirichlet": (20, 35, 125),
    "chain": (10, 47, 137),
    "chain, gaussian": (13, 26, 134),
    "views": (10, 23, 172),
    "sources": (45, 70, 50),
}
CENTRED = ("mixture", "mixture, own variances", "chain, gaussian", "views")
