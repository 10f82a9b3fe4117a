"""Chains in runs side by side, against the recursions one step after the other."""

import time

import numpy as np
import pytest
from scipy.special import logsumexp

from karat.models import chain


def one_by_one(emissions, start, steps):
    """Log-likelihood, posteriors, score and states of one sequence, in logarithms."""
    start, steps = np.log(start), np.log(steps)
    forward, best, back = [start + emissions[0]], [start + emissions[0]], []
    for now in emissions[1:]:
        forward.append(logsumexp(forward[-1][:, None] + steps, axis=0) + now)
        ways = best[-1][:, None] + steps
        back.append(ways.argmax(axis=0))
        best.append(ways.max(axis=0) + now)
    backward = [np.zeros(len(start))]
    for now in emissions[:0:-1]:
        backward.append(logsumexp(steps + now + backward[-1], axis=1))
    joint = np.array(forward) + np.array(backward[::-1])
    states = [int(best[-1].argmax())]
    for row in back[::-1]:
        states.append(int(row[states[-1]]))
    share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    return logsumexp(forward[-1]), share, best[-1].max(), states[::-1]


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 66, 130, 700])
@pytest.mark.parametrize("k", [1, 2, 5, 17])
@pytest.mark.parametrize(("spread", "cuts"), [(1.0, 0.0), (300.0, 0.02), (3.0, 0.5)])
def test_runs_give_the_recursions(n, k, spread, cuts):
    rng = np.random.default_rng([n, k])
    start = rng.dirichlet(np.ones(k))
    steps = 1e-6 / k + (1 - 1e-6) * rng.dirichlet(np.full(k, 0.3), size=k)
    emissions = spread * rng.standard_normal((n, k))
    begins = rng.random(n) < cuts
    begins[0] = True
    parts = [one_by_one(part, start, steps) for part in np.split(emissions, np.flatnonzero(begins)[1:])]
    assert chain.log_likelihood(emissions, start, steps, begins) == pytest.approx(sum(part[0] for part in parts), rel=1e-10)
    share = chain.posteriors(emissions, start, steps, begins)
    np.testing.assert_allclose(share, np.vstack([part[1] for part in parts]), atol=1e-8)
    score, states = chain.likely_states(emissions, np.log(start), np.log(steps), begins)
    assert score == pytest.approx(sum(part[2] for part in parts), rel=1e-10)
    assert states.tolist() == [state for part in parts for state in part[3]]


def test_long_chains_take_few_calls():
    """A loop over steps, even an empty one of NumPy calls, would take longer."""
    rng = np.random.default_rng(0)
    emissions, law = rng.standard_normal((100_000, 3)), np.full((3, 3), 1 / 3)
    begins = np.arange(100_000) % 1000 == 0

    def taken(action):
        start = time.process_time()
        action()
        return time.process_time() - start

    ours = min(taken(lambda: chain.posteriors(emissions, law[0], law, begins)) for _ in range(3))
    loop = min(taken(lambda: [row @ law for row in emissions]) for _ in range(3))
    assert ours < 2 * loop
