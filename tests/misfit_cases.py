"""How often the learners notice that a model does not fit; benchmarks/misfit.py measures it at full
size.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from misfit_data import FAMILIES

from karat import models
from karat.errors import InputError

LEARNERS = {
    "mixture": lambda: models.GaussianMixture(3),
    "mixture, own variances": lambda: models.GaussianMixture(3, variances="spherical"),
    "views": lambda: models.MultiView(3),
    "chain, Gaussian": lambda: models.HiddenMarkov(3, emissions="gaussian"),
    "chain, symbols": lambda: models.HiddenMarkov(3),
    "single topic": lambda: models.SingleTopic(3),
    "latent Dirichlet": lambda: models.LatentDirichlet(3, alpha0=1.2),
    "sources": lambda: models.ICA(4),
}


@cache  # several tests look at the same draws
def noticed(family, kind, n, seed):
    """What the learner says of one draw; None if nothing."""
    X = FAMILIES[family][0](kind, n, np.random.default_rng(seed))
    model = LEARNERS[family]()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", models.RecoveryWarning)
        try:
            model.fit(X)
        except InputError:
            return "refused"
    if not said:
        return None
    failed = [check.name for check in model.recovery_.checks if not check.ok]
    return ", ".join(failed) or "other"


def share(family, kind, n, draws, seed=1000):
    """How many draws were noticed, and by what."""
    found = [noticed(family, kind, n, seed + i) for i in range(draws)]
    return sum(one is not None for one in found), sorted({one for one in found if one is not None})
