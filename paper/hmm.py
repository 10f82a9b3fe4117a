"""Hidden Markov models with three states and categorical or Gaussian emissions; the paper claims
them and does not run them.
"""

from __future__ import annotations

import numpy as np

from karat import models, problems
from karat.engine.linalg import Array
from paper.learners import COLUMNS, Model, agreement, recovery
from paper.result import Experiment, Table
from paper.settings import Settings

TRANSITIONS = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
MEANS = 2 * np.random.default_rng(0).standard_normal((3, 6))
EMISSIONS = np.random.default_rng(0).dirichlet(np.full(7, 0.5), size=3)


def states(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw one long chain of hidden states."""
    steps, draws = TRANSITIONS.cumsum(axis=1).tolist(), rng.random(n).tolist()
    path = [0] * n
    for t in range(1, n):
        low, high, _ = steps[path[t - 1]]
        path[t] = (draws[t] >= low) + (draws[t] >= high)
    return np.array(path)


def categorical(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    laws = EMISSIONS.cumsum(axis=1)[states(n, rng)]
    return (
        np.minimum((rng.random(n)[:, None] >= laws).sum(axis=1), 6)[:, None].astype(float),
        EMISSIONS,
    )


def gaussian(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    return MEANS[states(n, rng)] + 0.7 * rng.standard_normal((n, 6)), MEANS


MODELS = {
    "categorical emissions": Model(
        categorical,
        lambda: problems.HiddenMarkov(3),
        lambda: models.HiddenMarkov(3, refine=None),
        ("emissionprob_", "transmat_", "startprob_"),
        lambda model: np.asarray(model.emissionprob_),
    ),
    "Gaussian emissions": Model(
        gaussian,
        lambda: problems.HiddenMarkov(3, "gaussian"),
        lambda: models.HiddenMarkov(3, emissions="gaussian", refine=None),
        ("means_", "covars_", "transmat_", "startprob_"),
        lambda model: np.asarray(model.means_),
    ),
}


def run(settings: Settings) -> Experiment:
    n = 20_000 if settings.quick else 100_000
    rows = []
    for (name, model), bound in zip(MODELS.items(), (11, 13), strict=True):
        settings.say(name)
        rows.append(agreement(name, model, n, bound))
    sizes = (4000, 16_000) if settings.quick else (4000, 16_000, 64_000)
    table, figure = recovery(
        "Hidden Markov model", "hmm_recovery", MODELS, sizes, 3 if settings.quick else 5
    )
    return Experiment(
        "Hidden Markov models",
        [
            (
                "Emissions, transitions and the distribution of the first state are learned from"
                " all windows of a chain and from the few windows of the coreset. They agree to"
                " rounding, so both have the same error, which falls with n."
            ),
        ],
        [Table("hmm", "Three hidden states, one chain", COLUMNS, rows), table],
        [figure],
        [
            (
                "The paper's bound binom(k+2, 3) + 1 = 11 holds after the tensor is symmetrised."
                " Gaussian emissions are centred, so that the tensor holds the total weight; they"
                " need k = 3 more rows for their variances, which makes 13. As for all latent"
                " models, the maps of the full data (here also the cross moments of two steps) are"
                " stored with the rows."
            ),
        ],
    )
