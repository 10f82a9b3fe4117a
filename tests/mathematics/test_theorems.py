"""The theorems of docs/theorems.md, on random data: each test would fail if its theorem were
false.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog, nnls
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit

import karat
from karat.problems import Kernel, Moments, Ridge

QUERIES = 3000


def queries(rng, d):
    """Queries of all sizes: large ones tell kinks apart, small ones the rest."""
    return 10.0 ** rng.uniform(-1, 2.5, (QUERIES, 1)) * rng.standard_normal((QUERIES, d))


def balanced(losses):
    """Losses (rows x queries) scaled so that every query and then every row counts alike."""
    losses = losses / (np.linalg.norm(losses, axis=0) + 1e-100)
    return losses / np.linalg.norm(losses, axis=1, keepdims=True)


LOSSES = {
    "absolute": lambda eta, y, s: np.abs(eta - y),
    "pinball": lambda eta, y, s: np.maximum(0.3 * (eta - y), -0.7 * (eta - y)),
    "cubed": lambda eta, y, s: np.abs(eta - y) ** 3,
    "hinge": lambda eta, y, s: np.maximum(0.0, 1.0 - s * eta),
    "logistic": lambda eta, y, s: np.logaddexp(0.0, -s * eta),
    "poisson": lambda eta, y, s: np.exp(np.minimum(eta, 30.0)) - np.abs(y) * eta,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_a_no_row_can_be_dropped(loss, seed):
    """Distinct rows are independent, and without any one of them no weights give the loss of
    all.
    """
    rng = np.random.default_rng(seed)
    n, d = 14, 1 + seed
    X = np.column_stack([rng.standard_normal((n, d)), np.ones(n)])
    losses = balanced(
        LOSSES[loss](
            X @ queries(rng, d + 1).T, rng.standard_normal((n, 1)), rng.choice([-1.0, 1.0], (n, 1))
        )
    )
    assert np.linalg.svd(losses, compute_uv=False)[-1] > 1e-6
    everything = losses.sum(axis=0)
    for row in range(n):
        others = np.delete(losses, row, axis=0)
        assert nnls(others.T, everything)[1] > 1e-4
    assert nnls(losses.T, everything)[1] < 1e-8


@pytest.mark.parametrize("seed", range(5))
def test_a_grouped_logistic_span(seed):
    """N points, some with both labels: N plus the rank of those, neither more nor less."""
    rng = np.random.default_rng(seed)
    N, d = 10, 3
    points = rng.standard_normal((N, d))
    if seed % 2:
        points[:, 2] = points[:, 0] + points[:, 1]  # rank 2
    twice = rng.choice(N, seed * 2, replace=False)
    eta = points @ queries(rng, d).T
    losses = balanced(np.vstack([np.logaddexp(0.0, -eta), np.logaddexp(0.0, eta[twice])]))
    rank = np.linalg.matrix_rank(points[twice]) if len(twice) else 0
    assert np.linalg.matrix_rank(losses, tol=1e-8) == N + rank


def test_a_likelihoods():
    """Exponential families have a finite span, a Cauchy law and a mixture have not."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.standard_normal(25) * 3)[:, None]
    shape, size = rng.uniform(0.5, 9.0, (2, 1, QUERIES))
    gamma = (shape - 1) * np.log(np.abs(x)) - np.abs(x) / size - shape * np.log(size)
    place, width = rng.uniform(-9, 9, (1, QUERIES)), 10.0 ** rng.uniform(-2, 0, (1, QUERIES))
    cauchy = np.log1p(((x - place) / width) ** 2)
    other = rng.uniform(-9, 9, (1, QUERIES))
    mixture = np.logaddexp(-(((x - place) / width) ** 2), -(((x - other) / width) ** 2))
    ranks = [
        np.linalg.matrix_rank(balanced(losses), tol=1e-8) for losses in (gamma, cauchy, mixture)
    ]
    assert ranks == [3, 25, 25]


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("law", ["normal", "uniform", "exponential"])
def test_b_fewer_rows_than_the_rank_never_suffice(degree, law):
    rng = np.random.default_rng(degree)
    x = getattr(rng, law)(size=9)[:, None]
    features = np.linalg.qr(np.column_stack([x**k for k in range(degree + 2)]))[0]
    total = features.sum(axis=0)
    for size in (degree + 1, degree + 2):
        errors = [
            np.linalg.norm(
                np.linalg.lstsq(features[list(s)].T, total, rcond=None)[0] @ features[list(s)]
                - total
            )
            for s in combinations(range(9), size)
        ]
        assert (min(errors) > 1e-7) == (size < degree + 2)


def test_b_needs_a_density():
    """On the integers fewer rows may do: karat keeps the rank, 3, where 2 are enough."""
    x = np.array([-7.0, -5.0, -1.0, 1.0, 5.0, 7.0])[:, None]
    powers = np.column_stack([np.ones(6), x, x**2])
    assert np.array_equal(np.array([0, 3, 0, 0, 3, 0]) @ powers, powers.sum(axis=0))
    assert karat.coreset(x, problem=Moments(2)).certificate.rank == 3


def smallest_change(features, u, rho):
    """The smallest largest |c_i| with sum_i u_i c_i phi_i = rho."""
    n, m = features.shape
    sides = np.hstack([np.vstack([np.eye(n), -np.eye(n)]), -np.ones((2 * n, 1))])
    return linprog(
        np.append(np.zeros(n), 1.0),
        A_eq=np.hstack([(features * u[:, None]).T, np.zeros((m, 1))]),
        b_eq=rho,
        A_ub=sides,
        b_ub=np.zeros(2 * n),
        bounds=[(None, None)] * n + [(0, None)],
    )


def worst_query(features, u, rho):
    """The largest <rho, h> with sum_i u_i |<phi_i, h>| at most 1."""
    n, m = features.shape
    sides = np.block([[features, -np.eye(n)], [-features, -np.eye(n)], [np.zeros((1, m)), u[None]]])
    return linprog(
        np.append(-rho, np.zeros(n)),
        A_ub=sides,
        b_ub=np.append(np.zeros(2 * n), 1.0),
        bounds=[(None, None)] * m + [(0, None)] * n,
    )


@pytest.mark.parametrize("seed", range(6))
def test_c_backward_error(seed):
    rng = np.random.default_rng(seed)
    n, m = 40, 5
    features, u = rng.standard_t(3, (n, m)), rng.uniform(0.1, 4.0, n)
    if seed % 2:
        features[:, 4] = features[:, :3].sum(axis=1)  # rank 4
    rho = rng.standard_normal(n) @ features
    change, worst = smallest_change(features, u, rho), worst_query(features, u, rho)
    assert change.fun == pytest.approx(-worst.fun, rel=1e-8)
    h = rng.standard_normal((m, 4000))
    assert (np.abs(rho @ h) / (u @ np.abs(features @ h))).max() <= change.fun * (1 + 1e-9)
    if seed % 2:
        outside = rho + np.array([1.0, 1.0, 1.0, 0.0, -1.0])
        assert smallest_change(features, u, outside).status == 2  # infeasible
        assert worst_query(features, u, outside).status in (3, 4)  # unbounded


@pytest.mark.parametrize("seed", range(3))
def test_c_the_certificate_is_an_upper_bound_of_it(seed):
    """Of a coreset with wrong weights: the certificate claims no less than the supremum."""
    from dataclasses import replace

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 2))
    core = karat.coreset(X, problem=Kernel(lambda X: np.column_stack([X, X**3])))
    wrong = replace(core, weights=core.weights * (1 + 1e-5 * rng.standard_normal(len(core))))
    features = np.column_stack([X, X**3, np.ones(80)])
    rho = wrong.weights @ features[core.indices] - features.sum(axis=0)
    measured = wrong.verify(X)
    assert not measured.ok
    assert measured.loss_error >= smallest_change(features, np.ones(80), rho).fun * (1 - 1e-6)


@pytest.mark.parametrize(
    ("cv", "dimension"),
    [
        (KFold(4, shuffle=True, random_state=0), 4),
        (RepeatedKFold(n_splits=3, n_repeats=3, random_state=0), 7),
        (RepeatedKFold(n_splits=2, n_repeats=4, random_state=1), 5),
        (ShuffleSplit(4, test_size=0.3, random_state=0), 5),
    ],
    ids=str,
)
def test_d_one_weighted_set_for_all_splits(cv, dimension):
    rng = np.random.default_rng(0)
    n = 1500
    X, y = rng.standard_normal((n, 1)), rng.standard_normal(n)
    tests = np.array([np.isin(np.arange(n), test) for _, test in cv.split(X)], dtype=float)
    members = np.vstack([np.ones(n), tests])
    basis = np.linalg.svd(members @ members.T)[0][:, : np.linalg.matrix_rank(members)]
    g = members.T @ basis
    assert g.shape[1] == dimension
    moments = np.column_stack([np.ones(n), X[:, 0], y, X[:, 0] ** 2, X[:, 0] * y, y * y])
    table = np.column_stack([moments, g])
    both = Kernel(
        lambda A: (A[:, :6, None] * A[:, None, 6:]).reshape(len(A), -1), total_weight=False
    )
    core = karat.coreset(table, problem=both)
    assert len(core) <= 6 * dimension
    for inside in (*tests, *(1 - tests), np.ones(n)):
        few = (core.weights * inside[core.indices]) @ moments[core.indices]
        assert np.abs(few - inside @ moments).max() <= 1e-9


def meets_box(D, S, lam):
    """Whether some weights on the rows D meet the box of Theorem 6."""
    a, b = np.triu_indices(D.shape[1])
    F, goal, label = (D[:, a] * D[:, b]).T, S[a, b], D.shape[1] - 1
    exact, pure = (a == label) & (b == label), (a == b) & (a < label)
    above, below = ~exact, ~exact & ~pure
    return linprog(
        np.zeros(len(D)),
        A_ub=np.vstack([F[above], -F[below]]),
        b_ub=np.append(goal[above] + lam, lam - goal[below]),
        A_eq=F[exact],
        b_eq=goal[exact],
    ).success


@pytest.mark.parametrize("seed", range(2))
def test_e_the_smallest_number_of_rows_falls_with_lambda(seed):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((7, 3))
    S, sizes = D.T @ D, []
    for lam in (1e-6, 0.5, 2.0, 10.0):
        subsets = (s for size in range(1, 7) for s in combinations(range(7), size))
        sizes.append(next(len(s) for s in subsets if meets_box(D[list(s)], S, lam)))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] <= 6
    assert sizes[-1] == 1


@pytest.mark.parametrize(("law", "share"), list(product(["signs", "uniform"], [0.5, 2.0])))
def test_e_sampling_meets_the_box(law, share):
    """As many rows as the bound says, drawn as in its proof, meet the box with positive
    probability.
    """
    rng = np.random.default_rng(0)
    n, d = 3000, 12
    D = rng.choice([-1.0, 1.0], (n, d + 1)) if law == "signs" else rng.uniform(-1, 1, (n, d + 1))
    u = rng.uniform(0.5, 1.5, n)
    S, K, lam = (D.T * u) @ D, (d + 1) * (d + 2) // 2, share * n
    size = u * np.abs(D).max(axis=1) ** 2
    T = size.sum()
    eps = min(S[-1, -1] / 2, lam / (2 + 2 * np.abs(S).max() / S[-1, -1]))
    rows = int(2 * (T / eps) ** 2 * np.log(2 * K)) + 1
    met = 0
    for _ in range(20):
        chosen = rng.choice(n, rows, p=size / T)
        weights = T / (rows * np.abs(D[chosen]).max(axis=1) ** 2)
        weights *= S[-1, -1] / (weights @ D[chosen, -1] ** 2)
        difference = (D[chosen].T * weights) @ D[chosen] - S
        pure = np.diag(np.append(np.ones(d, dtype=bool), False))
        met += bool((np.where(pure, difference, np.abs(difference)) <= lam * (1 + 1e-12)).all())
    assert met > 0


@pytest.mark.parametrize("d", [1, 3, 5])
def test_e_diagonal_form(d):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((400, d))
    y = X.sum(axis=1) + rng.standard_normal(400)
    K = (d + 1) * (d + 2) // 2
    for lam in (1e4, 1e7):
        assert len(karat.coreset(X, y, Ridge(lam, fit_intercept=False, absorb="diagonal"))) == K - d
