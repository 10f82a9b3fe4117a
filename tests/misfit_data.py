"""Data of latent-variable models that follow them, and data that do not: eight kinds of misfit for
every family.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

MIXTURE = (
    "unequal variances",
    "stretched axes",
    "correlation",
    "two columns x 10",
    "constant columns",
    "t3 noise",
    "skewed noise",
    "one too many",
)
OWN = (
    "more components",
    "stretched axes",
    "correlation",
    "two columns x 10",
    "constant columns",
    "t3 noise",
    "skewed noise",
    "one too many",
)
FULL = (  # as many components as columns
    "unequal variances",
    "stretched axes",
    "correlation",
    "t3 noise",
    "skewed noise",
    "one too many",
)
VIEWS = (
    "more components",
    "one too many",
    "views 1 and 2 correlated",
    "views 2 and 3 correlated",
    "views 1 and 3 correlated",
    "a common factor",
    "spread in common",
    "a trend in all views",
)
CHAIN = (
    "more states",
    "one too many",
    "noise follows itself",
    "a trend",
    "a common factor",
    "second order",
    "states last two steps",
    "level drifts",
)
SYMBOLS = (
    "more states",
    "one too many",
    "second order",
    "symbols repeat",
    "law drifts",
    "a common mixture",
    "states last two steps",
    "two chains in turn",
)
TOPICS = (
    "more topics",
    "one too many",
    "mixed documents",
    "words repeat",
    "law drifts",
    "pairs of words",
    "a random background",
    "documents of two kinds",
)
DIRICHLET = (
    "more topics",
    "one too many",
    "alpha0 x 4",
    "alpha0 / 4",
    "words repeat",
    "correlated topics",
    "pairs of words",
    "a random background",
)
SOURCES = (
    "common spread",
    "spread of pairs",
    "squares added",
    "products added",
    "noise added",
    "two kinds of rows",
    "clipped",
    "signs together",
)


def _states(n, steps, rng, start=0):
    laws, draws = steps.cumsum(axis=1)[:, :-1].tolist(), rng.random(n).tolist()
    states = [start]
    for draw in draws[1:]:
        states.append(bisect_right(laws[states[-1]], draw))
    return np.array(states)


def mixture(kind, n, rng, d=8, k=3, apart=0.0, rare=None):
    """Rows of k spherical Gaussians; means at least ``apart``, in every direction that they span;
    one component may be rare.
    """
    count = k + 1 if kind == "more components" else k - 1 if kind == "one too many" else k
    means = 3 * rng.standard_normal((count, d))
    while count > 1 and np.linalg.svd(means - means.mean(axis=0))[1][count - 2] < apart:
        means = 3 * rng.standard_normal((count, d))
    shares = rng.dirichlet(np.full(count, 8.0))
    if rare is not None:
        shares = np.append((1 - rare) * shares[1:] / shares[1:].sum(), rare)
    h = rng.choice(count, n, p=shares)
    noise = rng.standard_normal((n, d))
    if kind == "t3 noise":
        noise = rng.standard_t(3, size=(n, d))
    if kind == "skewed noise":
        noise = rng.exponential(size=(n, d)) - 1
    if kind in ("unequal variances", "own"):
        noise *= np.linspace(0.6, 1.4, count)[h, None]
    if kind == "stretched axes":
        noise *= np.linspace(0.7, 1.3, d)
    if kind == "correlation":
        noise += 0.5 * rng.standard_normal((n, 1))
    X = means[h] + noise
    if kind == "two columns x 10":
        X[:, :2] *= 10
    if kind == "constant columns":
        X[:, :2] = 1.0
    return X


def own_mixture(kind, n, rng):
    """Rows of k spherical Gaussians, each with a variance of its own."""
    return mixture("own" if kind is None else kind, n, rng)


def two_in_a_plane(kind, n, rng):
    """Two components in two columns, where the covariance and the third moments fit always."""
    return mixture(kind, n, rng, d=2, k=2, apart=3.0)


def full(kind, n, rng):
    """As many components as columns."""
    return mixture(kind, n, rng, d=4, k=4, apart=3.0)


def eight(kind, n, rng):
    """Eight components."""
    return mixture(kind, n, rng, d=16, k=8, apart=3.0)


def rare(kind, n, rng):
    """Three components, one of them of 1 % of the rows."""
    return mixture(kind, n, rng, apart=3.0, rare=0.01)


def views(kind, n, rng, k=3):
    """Three views of a hidden value."""
    count = k + 1 if kind == "more components" else k - 1 if kind == "one too many" else k
    h = rng.choice(count, n, p=rng.dirichlet(np.full(count, 8.0)))
    X = [2 * rng.standard_normal((count, d))[h] + rng.standard_normal((n, d)) for d in (5, 6, 4)]
    common = rng.standard_normal((n, 1))
    for a, b in ((0, 1), (1, 2), (0, 2)):
        if kind == f"views {a + 1} and {b + 1} correlated":
            X[a], X[b] = X[a] + 0.5 * common, X[b] + 0.5 * common
    if kind == "a common factor":
        X = [x + 0.5 * common for x in X]
    if kind == "spread in common":
        X = [x * np.exp(0.4 * common) for x in X]
    if kind == "a trend in all views":
        X = [x + np.linspace(-1, 1, n)[:, None] for x in X]
    return tuple(X)


def _apart(rng, count, d):
    """Means of states of which every three can be told apart."""
    while True:
        means = 2 * rng.standard_normal((count, d))
        if (
            min(
                np.linalg.svd(means[:m] - means[:m].mean(axis=0), compute_uv=False)[m - 2]
                for m in (2, 3, 4)
            )
            > 2.0
        ):
            return means


STEPS = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
FOUR = np.full((4, 4), 0.1) + 0.6 * np.eye(4)
TWO = np.array([[0.8, 0.2], [0.3, 0.7]])


def _hidden(kind, n, rng):
    if kind in ("more states", "one too many"):
        return _states(n, FOUR if kind == "more states" else TWO, rng)
    if kind == "second order":  # the next state depends on the last two
        states = np.zeros(n, dtype=int)
        draws = rng.random(n)
        for t in range(2, n):
            a, b = states[t - 2], states[t - 1]
            states[t] = (a + 1) % 3 if draws[t] < 0.7 else b
        return states
    if kind == "states last two steps":
        return np.repeat(_states(n // 2 + 1, np.full((3, 3), 0.45) - 0.35 * np.eye(3), rng), 2)[:n]
    return _states(n, STEPS, rng)


def chain(kind, n, rng, d=5):
    """Gaussian emissions of a Markov chain."""
    states = _hidden(kind, n, rng)
    X = _apart(rng, 4, d)[states]
    noise = 0.7 * rng.standard_normal((n, d))
    if kind == "noise follows itself":
        for t in range(1, n):
            noise[t] += 0.5 * noise[t - 1]
    if kind == "a trend":
        noise += np.linspace(-1, 1, n)[:, None]
    if kind == "a common factor":
        noise += np.repeat(rng.standard_normal((n // 10 + 1, 1)), 10, axis=0)[:n]
    if kind == "level drifts":
        noise += np.cumsum(0.05 * rng.standard_normal((n, d)), axis=0)
    return X + noise


def symbols(kind, n, rng, d=7, own=0.85):
    """Symbols of a Markov chain; every state has one of its own, of the given share."""
    states = _hidden(kind, n, rng)
    laws = own * np.eye(4, d) + (1 - own) * rng.dirichlet(np.full(d, 1.0), size=4)
    if kind == "two chains in turn":
        states = states + 0
        other = 0.85 * np.eye(4, d, 3) + 0.15 * rng.dirichlet(np.full(d, 1.0), size=4)
        rows = np.where((np.arange(n) // 50 % 2 == 0)[:, None], laws[states], other[states])
    else:
        rows = laws[states]
    if kind == "law drifts":
        share = np.linspace(0, 0.8, n)[:, None]
        rows = (1 - share) * rows + share * rng.dirichlet(np.full(d, 0.5))
    if kind == "a common mixture":
        blocks = rng.dirichlet(np.full(d, 0.5), size=n // 20 + 1)
        rows = 0.6 * rows + 0.4 * np.repeat(blocks, 20, axis=0)[:n]
    X = (rng.random(n)[:, None] >= rows.cumsum(axis=1)).sum(axis=1).clip(0, d - 1)
    if kind == "symbols repeat":
        again = rng.random(n) < 0.3
        for t in range(1, n):
            if again[t]:
                X[t] = X[t - 1]
    return X


def shared_symbols(kind, n, rng):
    """Symbols of a Markov chain that tell its states apart less well."""
    return symbols(kind, n, rng, own=0.6)


def topics(kind, n, rng, k=3, d=15, length=20, alpha=None):
    """Word counts; every document has one topic, or mixes them by a Dirichlet law."""
    count = k + 1 if kind == "more topics" else k - 1 if kind == "one too many" else k
    words = rng.dirichlet(np.full(d, 0.3), size=count)
    shares = np.eye(count)[rng.choice(count, n, p=rng.dirichlet(np.full(count, 8.0)))]
    if kind == "mixed documents":
        shares = rng.dirichlet(np.full(count, 0.5), size=n)
    if alpha is not None:
        shares = rng.dirichlet(np.full(count, alpha), size=n)
    if kind == "correlated topics":
        raw = np.exp(
            rng.standard_normal((n, 1)) * np.array([1.5, 1.5, -1.5])
            + 0.5 * rng.standard_normal((n, 3))
        )
        shares = raw / raw.sum(axis=1, keepdims=True)
    laws = shares @ words
    if kind == "law drifts":
        share = np.linspace(0, 0.8, n)[:, None]
        laws = (1 - share) * laws + share * rng.dirichlet(np.full(d, 0.3))
    if kind == "a random background":
        laws = 0.6 * laws + 0.4 * rng.dirichlet(np.full(d, 0.3), size=n)
    if kind == "documents of two kinds":
        other = rng.dirichlet(np.full(d, 0.3), size=count)
        laws = np.where((rng.random(n) < 0.5)[:, None], laws, 0.5 * laws + 0.5 * shares @ other)
    edges, uniform = laws.cumsum(axis=1)[:, :-1], rng.random((n, length))
    drawn = sum((uniform >= edges[:, word : word + 1]) for word in range(d - 1)).astype(int)
    if kind == "words repeat":
        for t in range(1, length):
            again = rng.random(n) < 0.3
            drawn[again, t] = drawn[again, t - 1]
    if kind == "pairs of words":  # every second word is the partner of the one before
        drawn[:, 1::2] = np.where(
            rng.random(drawn[:, 1::2].shape) < 0.4, (drawn[:, ::2] + 1) % d, drawn[:, 1::2]
        )
    return (
        np.bincount((np.arange(n)[:, None] * d + drawn).ravel(), minlength=n * d)
        .reshape(n, d)
        .astype(float)
    )


def dirichlet(kind, n, rng):
    """Word counts of documents that mix topics, alpha_0 = 1.2; the learner is told 1.2."""
    return topics(
        kind, n, rng, length=40, alpha=0.4 * {"alpha0 x 4": 4.0, "alpha0 / 4": 0.25}.get(kind, 1.0)
    )


def sources(kind, n, rng):
    """Mixed independent sources."""
    H = np.column_stack(
        [
            rng.laplace(size=(n, 2)) / np.sqrt(2),
            rng.uniform(-1, 1, n) * np.sqrt(3),
            rng.exponential(size=n) - 1,
        ]
    )
    if kind == "common spread":
        H = H * np.exp(0.4 * rng.standard_normal((n, 1)))
    if kind == "spread of pairs":
        H[:, :2] *= np.exp(0.5 * rng.standard_normal((n, 1)))
    if kind == "squares added":
        H[:, 0] += 0.4 * np.square(H[:, 2])
    if kind == "products added":
        H[:, 3] += 0.5 * H[:, 0] * H[:, 1]
    A = rng.standard_normal((4, 4))
    if kind == "two kinds of rows":
        A = np.where((rng.random(n) < 0.5)[:, None, None], A, rng.standard_normal((4, 4)))
        return np.einsum("nij,nj->ni", A, H)
    X = H @ A.T
    if kind == "noise added":
        X = X + 0.7 * rng.standard_normal(X.shape) * np.abs(H[:, :1])
    if kind == "clipped":
        X = np.clip(X, -1.5, 1.5)
    if kind == "signs together":
        X = (np.abs(H) * np.sign(H[:, :1])) @ A.T
    return X


FAMILIES = {
    "mixture": (mixture, MIXTURE),
    "mixture, own variances": (own_mixture, OWN),
    "mixture, k = d = 2": (two_in_a_plane, FULL),
    "mixture, k = d = 4": (full, FULL),
    "mixture, k = 8": (eight, MIXTURE),
    "mixture, 1 % component": (rare, MIXTURE),
    "views": (views, VIEWS),
    "chain, Gaussian": (chain, CHAIN),
    "chain, symbols": (symbols, SYMBOLS),
    "chain, shared symbols": (shared_symbols, SYMBOLS),
    "single topic": (topics, TOPICS),
    "latent Dirichlet": (dirichlet, DIRICHLET),
    "sources": (sources, SOURCES),
}
