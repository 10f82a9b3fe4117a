"""Latent Dirichlet allocation on documents that mix four topics; the paper claims it and does not
run it.
"""

from __future__ import annotations

import numpy as np

from karat import models, problems
from karat.engine.linalg import Array
from paper.learners import COLUMNS, Model, agreement, recovery
from paper.result import Experiment, Table
from paper.settings import Settings

ALPHA = np.array([0.2, 0.3, 0.4, 0.6])
WORDS, LENGTH = 14, 30
TOPICS = np.random.default_rng(0).dirichlet(np.full(WORDS, 0.3), size=len(ALPHA))


def documents(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw the word counts of n documents; also returns the topics."""
    return rng.multinomial(LENGTH, rng.dirichlet(ALPHA, size=n) @ TOPICS).astype(float), TOPICS


MODEL = Model(
    documents, lambda: problems.LatentDirichlet(4, float(ALPHA.sum())),
    lambda: models.LatentDirichlet(4, alpha0=float(ALPHA.sum())),
    ("topics_", "alpha_"), lambda model: np.asarray(model.topics_),
)  # fmt: skip


def run(settings: Settings) -> Experiment:
    n = 5000 if settings.quick else 50_000
    settings.say(f"{n:,} documents")
    rows = [agreement("latent Dirichlet", MODEL, n, 21)]
    sizes = (1000, 4000) if settings.quick else (1000, 4000, 16_000, 64_000)
    table, figure = recovery(
        "Latent Dirichlet allocation",
        "lda_recovery",
        {"k = 4": MODEL},
        sizes,
        3 if settings.quick else 7,
    )
    return Experiment(
        "Latent Dirichlet allocation",
        [
            (
                f"{LENGTH}-word documents over {WORDS} words, each a mixture of four topics with"
                " Dirichlet shares. Topics and Dirichlet parameters learned from the 21 documents"
                " of the coreset are those of all documents."
            ),
        ],
        [Table("lda", f"Four topics, alpha_0 = {ALPHA.sum():g}", COLUMNS, rows), table],
        [figure],
        [
            (
                "The tensor of latent Dirichlet allocation contains products of the mean word"
                " distribution with the second moments. It is a sum over documents only if that"
                " mean is fixed, so the mean of the full data is stored with the coreset (the paper"
                " does not mention this)."
            ),
        ],
    )
