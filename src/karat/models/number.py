"""The number of components, topics, states or sources that the data show: what "auto" takes.

mixtures         k components add k - 1 large eigenvalues to the covariance: the largest ratio of
                 neighbours marks their end
views, chains    products of two views have rank k - 1 about their means: the smallest rank of
                 which the rest is noise (:func:`karat.models.misfit.remainder`)
topics           pairs of words have rank k: in the same way
sources          the rank of the correlations
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from karat.core.construct import explaining_nan, read_sample
from karat.data.transformed import dense
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.models import misfit
from karat.problems import latent
from karat.problems.latent import Latent
from karat.problems.latent.plain import mean_and_covariance
from karat.problems.latent.sample import Sample, read
from karat.problems.latent.whiten import POSITIVE

MOST = 50  # topics that are tried
LEAST = 20  # samples of which one half can be compared with the other


def by_gap(sample: Sample, covariance: Array) -> int:
    """Of a mixture: the largest ratio of neighbours in the spectrum of the covariance, if it
    exceeds what sampling noise gives on equal eigenvalues (Marchenko and Pastur).
    """
    d, n = len(covariance), len(sample)
    if d < 3:
        raise InputError(
            f'n_components="auto" compares neighbours in the spectrum and needs at least 3 columns,'
            f" X has {d}."
        )
    values = np.linalg.eigvalsh(covariance)[::-1]
    if not values[0] > 0:
        return 1
    values = np.maximum(values, 1e-15 * values[0])
    ratio = values[:-1] / values[1:]
    edge = np.sqrt(d / n)
    noise = ((1 + edge) / max(1 - edge, 0.1)) ** 2
    largest = int(ratio.argmax())
    return largest + 2 if ratio[largest] > noise else 1


def by_rank(sample: Sample, chain: bool) -> int:
    """Of views and chains: one more than the rank of the first and third view's products."""
    index = misfit.probe(sample, chain)
    tables = [read(sample.views[a], index) for a in (0, 2)]
    left, right = (misfit.of_unit_size(table - table.mean(axis=0)) for table in map(dense, tables))
    most = min(int(left.shape[1]), int(right.shape[1]))
    for rank in range(most):
        if misfit.remainder(left, right, rank) < misfit.SEEN:
            return rank + 1
    return most + 1


def by_words(sample: Sample) -> int:
    """Of topics: the rank of the pairs of words."""
    counts = csr_array(read(sample.views[0], misfit.probe(sample)))
    most = min(MOST, int(counts.shape[1]))
    for k in range(1, most):
        basis = latent.SingleTopic(k).maps(sample)["B"]
        if misfit.word_remainder(counts, basis) < misfit.SEEN:
            return k
    return most


def number_shown(problem: Latent, X: Any, sample_weight: Any, lengths: Any) -> int:
    """How many parts the data show; ``problem`` has one."""
    sample, tables = read_sample(X, problem, sample_weight, lengths)
    halves = isinstance(
        problem,
        latent.SingleTopic | latent.LatentDirichlet | latent.MultiView | latent.HiddenMarkov,
    )
    if halves and len(sample) < LEAST:
        name = fields(problem)[0].name  # type: ignore[arg-type]
        raise InputError(
            f'{name}="auto" compares one half of the samples with the other and needs at least'
            f" {LEAST} of them; X has {len(sample)}. Give {name} a number.",
            argument=name,
        )
    if isinstance(problem, latent.SingleTopic | latent.LatentDirichlet):
        return explaining_nan(tables, lambda: by_words(sample))
    if isinstance(problem, latent.MultiView | latent.HiddenMarkov):
        return explaining_nan(tables, lambda: by_rank(sample, problem.rows_per_sample > 1))
    _, covariance = explaining_nan(tables, lambda: mean_and_covariance(problem.sums(sample)))
    if isinstance(problem, latent.GaussianMixture):
        return by_gap(sample, covariance)
    return rank(covariance)


def rank(covariance: Array) -> int:
    """Of sources: the rank of the covariance, in any units of the columns; at least 1."""
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1.0)
    values = np.linalg.eigvalsh(covariance / np.outer(size, size))
    return max(1, int(np.sum(values > POSITIVE * values[-1])))
