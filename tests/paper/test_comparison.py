"""The samplers of the comparison are what they say, and the comparison runs without the peers."""

import sys

import numpy as np
import pytest

from paper import comparison, samplers, tasks
from paper.samplers import FIXED, RANDOM, Views, available, leverage_scores, standardised


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    table = standardised(rng.standard_t(5, (1000, 4)))
    affine = np.column_stack([np.ones(1000), table])
    return Views(
        table, leverage_scores(affine), leverage_scores(table), tasks.products(table, 2)[:, 1:]
    )


@pytest.mark.parametrize("name", ["uniform sampling", "leverage sampling", "sensitivity sampling"])
def test_weighted_samples_are_unbiased(views, name):
    sums = []
    for seed in range(400):
        index, weights = RANDOM[name](views, 50, np.random.default_rng(seed))
        assert len(index) == len(weights) == 50
        sums.append([weights.sum(), weights @ np.square(views.table[index, 0])])
    mean, error = np.mean(sums, axis=0), np.std(sums, axis=0) / np.sqrt(400)
    assert np.all(np.abs(mean - [1000, np.square(views.table[:, 0]).sum()]) <= 4 * error + 1e-9)


def test_leverage_scores_are_the_diagonal_of_the_hat_matrix(views):
    X = views.table[:50]
    np.testing.assert_allclose(
        leverage_scores(X), np.diag(X @ np.linalg.inv(X.T @ X) @ X.T), rtol=1e-9
    )


def test_kernel_thinning_gives_distinct_rows_of_the_size_asked_for(views):
    pytest.importorskip("goodpoints")
    index, weights = samplers.kernel_thinning(views, 30, np.random.default_rng(0))
    assert len(np.unique(index)) == 30
    assert weights.sum() == pytest.approx(1000)


@pytest.mark.slow
def test_coreax(views):
    pytest.importorskip("coreax")
    index, weights = samplers.kernel_herding(views, 20, np.random.default_rng(0))
    assert len(np.unique(index)) == 20
    assert weights.sum() == pytest.approx(1000)
    index, weights = samplers.recombination(views, 15, np.random.default_rng(0))
    assert len(index) == 15  # the monomials of four columns to degree 2, with the constant
    np.testing.assert_allclose(
        weights @ views.features[index], views.features.sum(axis=0), rtol=1e-9, atol=1e-6
    )


def test_equal_size_and_error_against_scikit_learn(views):
    """The error of a choice is that of a model trained on it by scikit-learn, and zero for
    karat's.
    """
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(2000)
    task = tasks.regression(2, X, y, "ridge")
    index, weights = task.build()
    assert len(index) == 15
    assert task.error(index, weights)[0] <= 1e-12
    index, weights = samplers.uniform(task.views, 15, rng)
    Z, t = standardised(X), standardised(y[:, None])[:, 0]
    full = Ridge(alpha=1.0).fit(Z, t)
    sampled = Ridge(alpha=1.0).fit(Z[index], t[index], sample_weight=weights)
    expected = np.abs(
        np.append(sampled.coef_ - full.coef_, sampled.intercept_ - full.intercept_)
    ).max()
    expected /= np.abs(np.append(full.coef_, full.intercept_)).max()
    assert task.error(index, weights)[0] == pytest.approx(expected, rel=1e-8)
    assert task.error(index, weights)[1] > 0


def test_latent_task_gives_every_sampler_the_whitening(nothing):
    task = tasks.TASKS["mixture"](nothing)
    index, weights = task.build()
    assert len(index) == 10
    assert task.error(index, weights)[0] <= 1e-9
    everything = np.arange(len(task.views.table))
    assert task.error(everything, np.ones(len(everything)))[0] <= 1e-9
    assert task.error(*samplers.uniform(task.views, 10, np.random.default_rng(0)))[0] > 1e-2


def test_without_peers_the_rest_is_compared(nothing, monkeypatch):
    for package in samplers.PACKAGES:
        # which is how Python says that there is none
        monkeypatch.setitem(sys.modules, package, None)
    assert list(available(RANDOM)) == [
        "uniform sampling",
        "leverage sampling",
        "sensitivity sampling",
    ]
    assert not available(FIXED)
    experiment = comparison.run(
        nothing, {name: tasks.TASKS[name] for name in ("mixture", "topics")}
    )
    said = " ".join(experiment.missing)
    assert "goodpoints is not installed" in said
    assert "coreax is not installed" in said
    assert "The task topics is left out" in said
    errors = {row[1]: row[3] for row in experiment.tables[0].rows}
    assert set(errors) == {"karat", *available(RANDOM)}
    assert errors["karat"] <= 1e-9
    assert min(errors[name] for name in available(RANDOM)) > 1e-2
