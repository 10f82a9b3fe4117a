"""Latent Dirichlet allocation from moments (see :mod:`karat.problems.latent.topics`).

alpha_j = 4 a (a+1) / ((a+2)^2 ell_j^2),  mu_j = (a+2)/2 ell_j B v_j,  a = alpha_0.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln

from karat.core.construct import read_sample
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError, check_integer, several
from karat.models.base import AUTO
from karat.models.recovery import warn_recovery
from karat.models.tensor import decompose
from karat.models.topics import TopicLearner
from karat.problems import latent

# values of alpha_0 that are tried first
GRID = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
ROUNDS, STILL = 200, 1e-6  # of the fixed-point iteration for a document's proportions
CHOSEN = (0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0)  # alpha_0 that was chosen may be off by such factors
CHUNK = 2**20  # non-zero counts handled at a time


def alpha0_curve(X: Any, n_topics: int, sample_weight: Any = None) -> tuple[Array, Array]:
    """Values of alpha_0 and the share of the tensor that topics do not explain at each; the
    smallest marks the best alpha_0.

    A grid of GRID values first, then golden-section search between the neighbours of the best.
    """
    problem = latent.LatentDirichlet(n_topics, 1.0)
    sample, _ = read_sample(X, problem, sample_weight, None)
    sums = problem.sums(sample)
    residuals: dict[float, float] = {}

    def residual(log: float) -> float:
        value = float(np.exp(log))
        candidate = latent.LatentDirichlet(n_topics, value)
        try:
            maps = candidate.maps_of(sums)
            residuals[value] = decompose(
                candidate.statistics(sample, maps)["tensor"], maps["spectrum"]
            )[2].tensor_residual
        except InputError:  # the data hold fewer topics at this value
            residuals[value] = 1.0
        return residuals[value]

    grid = np.log(GRID)
    on_grid = np.array([residual(x) for x in grid])
    best = int(on_grid.argmin())
    inside = 0 < best < len(grid) - 1
    if inside:
        minimize_scalar(
            residual,
            bracket=grid[best - 1 : best + 2].tolist(),
            method="golden",
            options={"maxiter": 12},
        )
    else:
        warn_recovery(
            f"alpha0 = {GRID[best]:g} is the end of the values that were tried; the moments do not"
            " determine alpha0."
        )
    values = np.array(sorted(residuals))
    return values, np.array([residuals[x] for x in values])


class LatentDirichlet(TopicLearner):
    """Latent Dirichlet allocation of word counts (dense or sparse), learned by moments of word
    pairs and triples.

    Parameters
    ----------
    n_topics : int or "auto"
        "auto": as many as pairs of words show.
    alpha0 : float or "auto"
        Sum of the Dirichlet parameters; "auto" takes that for which the tensor is most nearly that
        of topics.
    random_state : int
        For :meth:`sample`.

    Attributes
    ----------
    topics_ : array (k, d)
        Word distributions.
    alpha0_ : float
        The sum that was used.
    alpha0_curve_ : (array, array) or None
        Values tried by "auto" and the tensor residual at each, for
        :class:`karat.report.Alpha0Display`.
    alpha_ : array (k,)
        Dirichlet parameters, as recovered; they add up to about alpha0 if the model fits.
    weights_ : array (k,)
        ``alpha_`` divided by its sum.
    n_dropped_ : int
        Documents under three words, which were left out.
    recovery_ : Recovery
    """

    problem_type = latent.LatentDirichlet

    def __init__(
        self,
        n_topics: int | Literal["auto"] = 10,
        *,
        alpha0: float | Literal["auto"] = 1.0,
        random_state: int = 0,
    ) -> None:
        self.n_topics = n_topics
        self.alpha0 = alpha0
        self.random_state = random_state

    def _problem(
        self, X: Any = None, sample_weight: Any = None, lengths: Any = None
    ) -> latent.LatentDirichlet:
        k = self._number(X, sample_weight, latent.LatentDirichlet(1, 1.0))
        if self.alpha0 != "auto":
            problem = latent.LatentDirichlet(k, self.alpha0)
            self.alpha0_, self.alpha0_curve_ = problem.alpha0, None
            return problem
        if X is None:
            raise InputError(
                'alpha0="auto" needs data; a coreset was built for one alpha0, give that one.',
                argument="alpha0",
            )
        self.alpha0_curve_ = alpha0_curve(X, k, sample_weight)
        self.alpha0_ = float(self.alpha0_curve_[0][self.alpha0_curve_[1].argmin()])
        return latent.LatentDirichlet(k, self.alpha0_)

    def _alpha0_values(self) -> list[float]:
        return [float(self.alpha0_ * x) for x in (CHOSEN if self.alpha0 == "auto" else (1.0,))]

    def _matching(self, core: Any) -> latent.Latent:
        if self.alpha0 == "auto" and isinstance(core.problem, latent.LatentDirichlet):
            if self.n_topics not in (AUTO, core.problem.n_topics):
                raise NotExactError(
                    f"The coreset is of {several(core.problem.n_topics, 'topic')}, not"
                    f" {self.n_topics}."
                )
            self.alpha0_, self.alpha0_curve_ = float(core.problem.alpha0), None
            return core.problem
        return super()._matching(core)

    def _weigh(self, ell: Array) -> None:
        a = self.alpha0_
        self.alpha_ = 4 * a * (a + 1) / ((a + 2) ** 2 * ell**2) if len(ell) > 1 else np.array([a])
        self.weights_ = self.alpha_ / self.alpha_.sum()

    def transform(self, X: Any) -> Array:
        """Expected proportions of the topics in each document (n x k), by the variational fixed
        point (Blei et al. 2003).
        """
        gamma, _ = self._posteriors(X)
        return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))

    def score_samples(self, X: Any) -> Array:
        """A lower bound of the log-likelihood of each document's words, without the number of their
        orders: that of the variational fixed point.
        """
        return self._posteriors(X)[1]

    def sample(self, n_samples: int = 1, length: int = 100) -> tuple[np.ndarray, Array]:
        """Draw the word counts of documents of one length, and the proportions of their topics."""
        self._check_fitted()
        check_integer("n_samples", n_samples)
        check_integer("length", length)
        rng = np.random.default_rng(self.random_state)
        proportions = rng.dirichlet(np.maximum(self.alpha_, 1e-300), size=n_samples)
        return rng.multinomial(length, proportions @ self.topics_), proportions

    def _posteriors(self, X: Any) -> tuple[Array, Array]:
        """The Dirichlet parameters of every document's proportions (n x k), and the bounds."""
        counts = self._counts(X)
        words = np.exp(self._log_words())
        gamma = np.empty((counts.shape[0], len(self.alpha_)))
        bound = np.empty(counts.shape[0])
        step = max(1, int(CHUNK * counts.shape[0] / max(counts.nnz, 1)))
        for start in range(0, counts.shape[0], step):
            part = slice(start, start + step)
            gamma[part] = self._proportions(counts[part], words)
            bound[part] = self._bound(counts[part], words, gamma[part])
        return gamma, bound

    def _bound(self, counts: csr_array, words: Array, gamma: Array) -> Array:
        """``E_q log p(words, topics, h) - E_q log q`` of every document, at the best q of the
        topics.
        """
        logs = digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))
        document = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        likely = np.einsum("ij,ij->i", np.exp(logs)[document], words[counts.indices])
        drawn = np.bincount(document, counts.data * np.log(likely), minlength=counts.shape[0])
        prior = gammaln(self.alpha_.sum()) - gammaln(self.alpha_).sum()
        found = gammaln(gamma).sum(axis=1) - gammaln(gamma.sum(axis=1))
        return np.asarray(drawn + prior + found + ((self.alpha_ - gamma) * logs).sum(axis=1))

    def _proportions(self, counts: csr_array, words: Array) -> Array:
        document = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        likely = words[counts.indices]
        gather = csr_array(
            (np.ones(counts.nnz), np.arange(counts.nnz), counts.indptr),
            shape=(counts.shape[0], counts.nnz),
        )
        gamma = self.alpha_ + np.asarray(counts.sum(axis=1)).reshape(-1, 1) / len(self.alpha_)
        # every document stops by itself, whatever the others do
        moving = np.ones((len(gamma), 1), dtype=bool)
        for _ in range(ROUNDS):
            theta = np.exp(digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True)))
            share = theta[document] * likely
            share *= (counts.data / share.sum(axis=1))[:, None]
            fresh = np.where(moving, self.alpha_ + gather @ share, gamma)
            moving = np.abs(fresh - gamma).max(axis=1, keepdims=True) >= STILL * np.maximum(
                1.0, fresh.max(axis=1, keepdims=True)
            )
            gamma = fresh
            if not moving.any():
                break
        return np.asarray(gamma)
