"""Likelihood, posteriors and most likely states of a chain, against the recursions one step after
the other.
"""

import numpy as np
import pytest
from scipy.special import logsumexp

from karat.models import HiddenMarkov
from karat.models.hmm import SMOOTH
from karat.models.refine import smoothed


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


class GivenDensities(HiddenMarkov):
    """A model of given laws, whose data are the log-densities of the emissions."""

    def _log_emissions(self, X):
        return X


@pytest.mark.parametrize("n", [1, 2, 66, 700])
@pytest.mark.parametrize("k", [1, 2, 5, 17])
@pytest.mark.parametrize(("spread", "cuts"), [(1.0, 0.0), (300.0, 0.02), (3.0, 0.5)])
def test_chains_give_the_recursions(n, k, spread, cuts):
    pytest.importorskip("hmmlearn")
    rng = np.random.default_rng([n, k])
    model = GivenDensities(k)
    model.startprob_ = rng.dirichlet(np.ones(k))
    model.transmat_ = rng.dirichlet(np.full(k, 0.3), size=k)
    start, steps = (smoothed(law, SMOOTH) for law in (model.startprob_, model.transmat_))
    emissions = spread * rng.standard_normal((n, k))
    begins = rng.random(n) < cuts
    begins[0] = True
    firsts = np.flatnonzero(begins)
    lengths = np.diff([*firsts, n])
    parts = [one_by_one(part, start, steps) for part in np.split(emissions, firsts[1:])]
    assert model.score(emissions, lengths=lengths) == pytest.approx(
        sum(part[0] for part in parts), rel=1e-10
    )
    share = model.predict_proba(emissions, lengths)
    np.testing.assert_allclose(share, np.vstack([part[1] for part in parts]), atol=1e-8)
    score, states = model.decode(emissions, lengths)
    assert score == pytest.approx(sum(part[2] for part in parts), rel=1e-10)
    assert states.tolist() == [state for part in parts for state in part[3]]
