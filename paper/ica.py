"""Independent component analysis by the fourth cumulant; the paper names it and does not run it."""

from __future__ import annotations

from math import comb

import numpy as np

from karat import models, problems
from karat.engine.linalg import Array
from paper.learners import COLUMNS, Model, agreement, recovery
from paper.result import Experiment, Table
from paper.settings import Settings

K = 4
BOUND = comb(K + 3, 4) + comb(K + 1, 2) + 1  # the cumulant is of order four
MIXING = np.random.default_rng(0).standard_normal((K, K))


def signals(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw mixed signals of two Laplace, a uniform and an exponential source.

    Also returns the columns of the mixing matrix, with their largest entries positive.
    """
    sources = np.column_stack(
        [
            rng.laplace(size=(n, 2)) / np.sqrt(2),
            rng.uniform(-1, 1, n) * np.sqrt(3),
            rng.exponential(size=n) - 1,
        ]
    )
    largest = np.take_along_axis(MIXING, np.abs(MIXING).argmax(axis=0)[None], axis=0)
    return sources @ MIXING.T, np.asarray((MIXING * np.sign(largest)).T)


MODEL = Model(
    signals, lambda: problems.ICA(K), lambda: models.ICA(K),
    ("mixing_", "components_", "kurtosis_"), lambda model: np.asarray(model.mixing_.T),
)  # fmt: skip


def run(settings: Settings) -> Experiment:
    n = 20_000 if settings.quick else 100_000
    settings.say(f"{n:,} samples")
    rows = [agreement("ICA", MODEL, n, BOUND)]
    sizes = (4000, 16_000) if settings.quick else (4000, 16_000, 64_000, 256_000)
    table, figure = recovery(
        "Independent components",
        "ica_recovery",
        {"k = 4": MODEL},
        sizes,
        3 if settings.quick else 7,
    )
    return Experiment(
        "Independent component analysis",
        [
            "The mixing matrix learned from the coreset is that of all samples, so it has the same"
            " error."
        ],
        [
            Table("ica", "Four sources: two Laplace, a uniform, an exponential", COLUMNS, rows),
            table,
        ],
        [figure],
        [
            "The paper bounds every latent model by the third-order count binom(k+2, 3) + 1 = 21;"
            f" fourth cumulants need {BOUND}."
        ],
    )
