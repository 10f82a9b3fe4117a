"""Compare EM from the moments (``refine=``) with EM alone from three starts of its own: errors and
times on 20 settings.

python benchmarks/refine.py
"""

from __future__ import annotations

import logging
import time
import warnings

import numpy as np
from latent import chain, error, mixture

from karat import models

SETTINGS = [
    ("mixture", {"n": n, "spread": spread, "own": own, "d": d, "k": k})
    for n in (10_000, 100_000)
    for spread, own, d, k in (
        (1.0, False, 20, 5),
        (3.0, False, 20, 5),
        (1.0, True, 10, 4),
        (2.0, True, 10, 4),
        (2.0, False, 30, 8),
        (0.5, False, 6, 3),
    )
] + [
    ("chain", {"n": n, "gaussian": gaussian, "seed": seed})
    for n in (10_000, 30_000)
    for gaussian in (True, False)
    for seed in (1, 2)
]


def separate(n, rng, gaussian):
    """A chain whose symbols tell the states apart, or Gaussian emissions."""
    if gaussian:
        return chain(n, rng, True)
    states = np.argmax(
        chain(n, rng, True)[0]
        @ np.linalg.pinv(2 * np.random.default_rng(0).standard_normal((3, 6))),
        axis=1,
    )
    laws = 0.8 * np.eye(3, 7) + 0.2 * np.random.default_rng(0).dirichlet(np.ones(7), size=3)
    return (rng.random(n)[:, None] >= laws.cumsum(axis=1)[states]).sum(axis=1).clip(0, 6), laws


def both(kind, options):
    """Error and seconds of refine and of EM alone, and what EM did."""
    rng = np.random.default_rng(options.get("seed", 1))
    if kind == "mixture":
        from sklearn.mixture import GaussianMixture as EM

        X, truth = mixture(
            options["n"], rng, options["d"], options["k"], options["spread"], options["own"]
        )
        ours = models.GaussianMixture(
            options["k"], variances="spherical" if options["own"] else "shared", refine="spherical"
        )
        theirs = EM(options["k"], covariance_type="spherical", n_init=3, random_state=0)
        begin = time.perf_counter()
        ours.fit(X)
        middle = time.perf_counter()
        theirs.fit(X)
        end = time.perf_counter()
        return (
            error(ours.means_, truth),
            error(theirs.means_, truth),
            middle - begin,
            end - middle,
            ours.refinement_,
        )
    from hmmlearn.hmm import CategoricalHMM, GaussianHMM

    X, truth = separate(options["n"], rng, options["gaussian"])
    X = X.reshape(len(X), -1)
    ours = models.HiddenMarkov(
        3, emissions="gaussian" if options["gaussian"] else "categorical", refine="spherical"
    )
    begin = time.perf_counter()
    ours.fit(X)
    middle = time.perf_counter()
    peers = [
        (
            GaussianHMM(3, "spherical", n_iter=100, random_state=s)
            if options["gaussian"]
            else CategoricalHMM(3, n_iter=100, random_state=s)
        ).fit(X)
        for s in range(3)
    ]
    end = time.perf_counter()
    best = max(peers, key=lambda peer: peer.score(X))
    found, other = (m.means_ if options["gaussian"] else m.emissionprob_ for m in (ours, best))
    return error(found, truth), error(other, truth), middle - begin, end - middle, ours.refinement_


def main():
    warnings.simplefilter("ignore")
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    smaller = faster = 0
    for kind, options in SETTINGS:
        mine, theirs, own, other, did = both(kind, options)
        smaller += mine <= 1.001 * theirs
        faster += own <= other
        print(
            f"{kind} {options}: error {mine:.4f} against {theirs:.4f}, {own:.2f} s against"
            f" {other:.2f} s, {did}",
            flush=True,
        )
    print(f"error not larger in {smaller} of {len(SETTINGS)}, time not longer in {faster}")


if __name__ == "__main__":
    main()
