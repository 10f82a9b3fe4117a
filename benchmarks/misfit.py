"""Measure how often the learners notice that a model does not fit, and how often they say so of data that do fit.

    python benchmarks/misfit.py [draws] [correct draws] [family ...]
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from latent_data import FAMILIES

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


def share(family, kind, n, draws):
    """How many draws were noticed, and by what."""
    found = [noticed(family, kind, n, 1000 + seed) for seed in range(draws)]
    return sum(one is not None for one in found), sorted({one for one in found if one is not None})


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    correct = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    for family in sys.argv[3:] or FAMILIES:
        for n in (3_000, 30_000):
            count, by = share(family, None, n, correct)
            print(f"{family}, n = {n:,}: {count} of {correct} false alarms {by if count else ''}", flush=True)
            total = 0
            for kind in FAMILIES[family][1]:
                count, by = share(family, kind, n, draws)
                total += count
                print(f"    {kind:28} {count:3} of {draws}   {'; '.join(by)[:90]}", flush=True)
            print(f"  all kinds: {total / (draws * len(FAMILIES[family][1])):.0%} noticed", flush=True)


if __name__ == "__main__":
    main()
