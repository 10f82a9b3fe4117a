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
    "mixture": lambda: models.GaussianMixture(3, refine=None),
    "mixture, own variances": lambda: models.GaussianMixture(3, variances="spherical", refine=None),
    "mixture, k = d = 2": lambda: models.GaussianMixture(2, refine=None),
    "mixture, k = d = 4": lambda: models.GaussianMixture(4, refine=None),
    "mixture, k = 8": lambda: models.GaussianMixture(8, refine=None),
    "mixture, 1 % component": lambda: models.GaussianMixture(3, refine=None),
    "views": lambda: models.MultiView(3),
    "chain, Gaussian": lambda: models.HiddenMarkov(3, emissions="gaussian", refine=None),
    "chain, symbols": lambda: models.HiddenMarkov(3, refine=None),
    "chain, shared symbols": lambda: models.HiddenMarkov(3, refine=None),
    "single topic": lambda: models.SingleTopic(3),
    "latent Dirichlet": lambda: models.LatentDirichlet(3, alpha0=1.2),
    "sources": lambda: models.ICA(4),
}


@cache  # several tests look at the same draws
def said(family, kind, n, seed):
    """What the learner says of one draw: "misfit", "too few" or "either", and by what; None if
    nothing.
    """
    X = FAMILIES[family][0](kind, n, np.random.default_rng(seed))
    model = LEARNERS[family]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", models.RecoveryWarning)
        try:
            model.fit(X)
        except InputError as error:
            if "fewer" not in str(error) and "support" not in str(error):
                raise
            return "too few", "refused"  # fewer components are seen than were asked for
    if not caught:
        return None
    failed = ", ".join(check.name for check in model.recovery_.checks if not check.ok)
    first = {"The model does": "misfit", "Too little dat": "too few", "The data are t": "either"}
    return first[str(caught[0].message)[:14]], failed or "notes"


def share(family, kind, n, draws, seed=1000):
    """Of how many draws it said that the model does not fit, and that the data are too few, or
    either; and by what.
    """
    found = [said(family, kind, n, seed + i) for i in range(draws)]
    words = [one[0] for one in found if one is not None]
    misfits = words.count("misfit")
    return misfits, len(words) - misfits, sorted({one for one in found if one})
