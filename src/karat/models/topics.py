"""Topics from moments (see :mod:`karat.problems.latent.topics`).

Single topic:      g_j = 1 / ell_j^2,                        mu_j = ell_j B v_j.
Latent Dirichlet:  alpha_j = 4 a (a+1) / ((a+2)^2 ell_j^2),  mu_j = (a+2)/2 ell_j B v_j,  a =
alpha_0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import digamma, logsumexp, softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from karat.core.construct import read_sample
from karat.data import containers
from karat.engine.linalg import Array
from karat.engine.monomials import monomials
from karat.errors import InputError, NotExactError
from karat.models import misfit, quadruples
from karat.models.base import SEEN, Learner, as_distributions
from karat.models.misfit import Check
from karat.models.recovery import warn_recovery
from karat.models.refine import smoothed
from karat.models.tensor import decompose
from karat.problems import latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, only, read
from karat.problems.latent.topics import checked_counts

FEW = 20  # long documents per topic below which the answer is mostly noise
# values of alpha_0 that are tried first
GRID = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
ENOUGH = 1000  # words of a topic for every word of the vocabulary, at least, in the peer's counts
# share of the uniform distribution mixed in where a likelihood is taken: no word is impossible
SMOOTH = 1e-3
ROUNDS, STILL = 200, 1e-6  # of the fixed-point iteration for a document's proportions
CHOSEN = (0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0)  # alpha_0 that was chosen may be off by such factors
CHUNK = 2**20  # non-zero counts handled at a time


class _TopicLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """Base class of both topic models."""

    n_topics: int

    @property
    def _n_features_out(self) -> int:
        return len(self.topics_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _recover(self, moments: dict[str, Array], maps: Maps, problem: Any) -> None:
        ell, V = self._components(moments["tensor"], maps, problem)
        documents, a = int(maps["n"]), problem.concentration
        if documents < FEW * problem.k:
            warn_recovery(
                f"Only {documents} documents of at least 3 words for {problem.k} topics; the result"
                f" is mostly noise below {FEW * problem.k}."
            )
        # one topic is the law of all words, whether the model fits or not
        rows = (
            maps["m1"][None] if problem.k == 1 else (a + 2) / 2 * ell[:, None] * (V @ maps["B"].T)
        )
        self.topics_ = as_distributions(rows, "The word distributions of the topics", documents)
        self.n_words_ = 3.0 * float(maps["total"])  # a document counts by its triples
        self._weigh(ell)

    @abstractmethod
    def _weigh(self, ell: Array) -> None:
        """Set the weights of the topics."""

    def _checks(self, maps: Maps, problem: latent.Latent, sample: Sample | None) -> list[Check]:
        """Word pairs have rank k, and word triples a diagonal tensor."""
        if sample is None:
            return []
        words = np.flatnonzero(maps["m1"])  # those that do not occur have no part in any check
        counts = only(csr_array(read(sample.views[0], misfit.probe(sample))), words)
        maps = maps | {name: maps[name][words] for name in ("M", "B", "m1")}
        rank = misfit.word_remainder(counts, maps["B"])
        checks = [
            Check(
                "rank",
                misfit.beyond(rank),
                f"words occur together more often than {problem.k} topics explain",
            )
        ]
        if problem.k > 1:
            seen = misfit.word_remainder(counts, maps["B"][:, :-1])
            if seen < SEEN:
                checks.append(
                    Check("too many", 0.0, f"pairs of words do not clearly show {problem.k} topics")
                )
            ell, V = self._basis
            values = misfit.off_diagonal(
                *topic_parts(counts, maps, problem, misfit.orthonormal(V)), ell
            )
            model = "are not those of this model" + (
                " and this alpha0" if hasattr(self, "alpha0_") else ""
            )
            checks.append(Check("tensor", misfit.wald(values), f"triples of words {model}"))
            fourth = quadruples.fourth_moment_p_value(counts, maps["M"], V, self._alpha0_values())
            checks.append(Check("quadruples", fourth, f"quadruples of words {model}"))
        return checks

    def _alpha0_values(self) -> list[float]:
        """The values of alpha_0, of which the data must agree with at least one."""
        return [0.0]

    def top_words(
        self, vocabulary: Sequence[str] | None = None, n_words: int = 10
    ) -> list[list[Any]]:
        """The most frequent words of each topic: their names, or numbers without a vocabulary."""
        self._check_fitted()
        if vocabulary is not None and len(vocabulary) != self.n_features_in_:
            raise InputError(
                f"The vocabulary has {len(vocabulary)} words; the model was fitted with"
                f" {self.n_features_in_}."
            )
        best = np.argsort(-self.topics_, axis=1, kind="stable")[:, :n_words]
        return [[int(w) if vocabulary is None else vocabulary[w] for w in row] for row in best]

    def _counts(self, X: Any) -> csr_array:
        self._check_fitted()
        counts = checked_counts(containers.as_table(self._validated(X, reset=False), "X"))
        if counts.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {counts.shape[1]} words; the model was fitted with {self.n_features_in_}."
            )
        return counts

    def _log_words(self) -> Array:
        """Logarithms of the smoothed word distributions (d x k)."""
        return np.asarray(np.log(smoothed(self.topics_, SMOOTH)).T)

    @abstractmethod
    def transform(self, X: Any) -> Array:
        """The topics of documents (n x k)."""

    def to_sklearn(self) -> Any:
        """A fitted ``sklearn.decomposition.LatentDirichletAllocation`` with these topics.

        Its ``partial_fit`` continues from them by variational Bayes: a separate step, which needs
        the full data.
        """
        from sklearn.decomposition import LatentDirichletAllocation as Peer

        self._check_fitted()
        k, d = self.topics_.shape
        prior = float(np.mean(getattr(self, "alpha_", 1.0 / k)))
        peer = Peer(
            k,
            doc_topic_prior=prior,
            topic_word_prior=1.0 / k,
            learning_method="batch",
            random_state=0,
        )
        # with few words the peer's prior would blur the topics
        words = np.maximum(self.n_words_ * self.weights_, ENOUGH * d)
        peer.components_ = (1 - SMOOTH) * words[:, None] * self.topics_ + SMOOTH * words[
            :, None
        ] / d
        peer.exp_dirichlet_component_ = np.exp(
            digamma(peer.components_) - digamma(peer.components_.sum(axis=1, keepdims=True))
        )
        peer.doc_topic_prior_, peer.topic_word_prior_ = prior, 1.0 / k
        peer.n_batch_iter_, peer.n_iter_, peer.bound_, peer.n_features_in_ = 1, 0, np.inf, d
        peer.random_state_ = np.random.RandomState(0)
        return peer


def topic_parts(counts: csr_array, maps: Maps, problem: Any, V: Array) -> tuple[Any, Any]:
    """Every document's part in the entries of the tensor and of the whitened pairs, with the error
    of the mean taken off.

    With a = alpha_0 and delta = t1 - m1 of a document, M3 = E t3 - a/(a+2) [m1 | E t2] + c m1 (x)
    m1 (x) m1 changes by ``-a/(a+2) [delta | E t2] + c (delta, m1, m1 in every order)``, and M2 by
    ``-a/(a+1) (delta m1' + m1 delta')``.
    """
    a = problem.concentration
    M = maps["M"] @ V.T
    length = np.asarray(counts.sum(axis=1)).ravel()
    z, mean = counts @ M, M.T @ maps["m1"]
    apart = z / length[:, None] - mean
    pairs = np.eye(len(V)) + a / (a + 1) * np.outer(mean, mean)  # E t2
    less, more = a / (a + 2), 2 * a**2 / ((a + 1) * (a + 2))
    triples = problem.reader(maps | {"M": M}, "tensor")(counts)
    table = monomials(len(V), 3)
    place = {tuple(t): p for p, t in enumerate(table.indices.tolist())}

    def entry(i: int, j: int, m: int) -> Array:
        at = place[tuple(sorted((i, j, m)))]
        moved = sum(
            apart[:, x] * (more * mean[y] * mean[w] - less * pairs[y, w])
            for x, y, w in ((i, j, m), (j, i, m), (m, i, j))
        )
        return np.asarray(triples[:, at] / np.sqrt(table.multinomials[at]) + (moved if a else 0.0))

    def pair(i: int, j: int) -> Array:
        observed = (z[:, i] * z[:, j] - counts @ (M[:, i] * M[:, j])) / (length * (length - 1))
        return np.asarray(
            observed
            - a / (a + 1) * (apart[:, i] * mean[j] + apart[:, j] * mean[i] + mean[i] * mean[j])
        )

    return entry, pair


class SingleTopic(_TopicLearner):
    """Documents (word counts, dense or sparse) of one topic each, learned by moments of word pairs
    and triples.

    Parameters
    ----------
    n_topics : int

    Attributes
    ----------
    topics_ : array (k, d)
        Word distributions.
    weights_ : array (k,)
        Shares of the topics among the documents.
    mass_ : float
        Sum of the shares before they were normalised; near 1 if the model fits.
    n_dropped_ : int
        Documents under three words, which were left out.
    recovery_ : Recovery
    """

    problem_type = latent.SingleTopic

    def __init__(self, n_topics: int = 10) -> None:
        self.n_topics = n_topics

    def _problem(self, X: Any = None, sample_weight: Any = None) -> latent.SingleTopic:
        return latent.SingleTopic(self.n_topics)

    def _weigh(self, ell: Array) -> None:
        weights = 1.0 / ell**2
        self.mass_ = float(weights.sum())
        self.weights_ = weights / self.mass_

    def _log_joint(self, X: Any) -> Array:
        return np.asarray(self._counts(X) @ self._log_words() + np.log(self.weights_))

    def transform(self, X: Any) -> Array:
        """Posterior probability of each topic for each document (n x k)."""
        return self.predict_proba(X)

    def predict_proba(self, X: Any) -> Array:
        """The same as :meth:`transform`, always as an array."""
        return np.asarray(softmax(self._log_joint(X), axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """The most likely topic of each document."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Learn from documents and return their most likely topics."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Log-likelihood of the words per document, without the number of their orders; y is there
        for searches only.
        """
        return float(logsumexp(self._log_joint(X), axis=1).mean())

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of documents; lower is better."""
        (k, d), n = self.topics_.shape, self._counts(X).shape[0]
        return float(-2 * n * self.score(X) + (k * (d - 1) + k - 1) * np.log(n))


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


class LatentDirichlet(_TopicLearner):
    """Latent Dirichlet allocation of word counts (dense or sparse), learned by moments of word
    pairs and triples.

    Parameters
    ----------
    n_topics : int
    alpha0 : float or "auto"
        Sum of the Dirichlet parameters; "auto" takes that for which the tensor is most nearly that
        of topics.

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

    def __init__(self, n_topics: int = 10, *, alpha0: float | Literal["auto"] = 1.0) -> None:
        self.n_topics = n_topics
        self.alpha0 = alpha0

    def _problem(self, X: Any = None, sample_weight: Any = None) -> latent.LatentDirichlet:
        if self.alpha0 != "auto":
            self.alpha0_, self.alpha0_curve_ = float(self.alpha0), None
            return latent.LatentDirichlet(self.n_topics, self.alpha0)
        if X is None:
            raise InputError(
                'alpha0="auto" needs data; a coreset was built for one alpha0, give that one.',
                argument="alpha0",
            )
        self.alpha0_curve_ = alpha0_curve(X, self.n_topics, sample_weight)
        self.alpha0_ = float(self.alpha0_curve_[0][self.alpha0_curve_[1].argmin()])
        return latent.LatentDirichlet(self.n_topics, self.alpha0_)

    def _alpha0_values(self) -> list[float]:
        return [float(self.alpha0_ * x) for x in (CHOSEN if self.alpha0 == "auto" else (1.0,))]

    def _matching(self, core: Any) -> latent.Latent:
        if self.alpha0 == "auto" and isinstance(core.problem, latent.LatentDirichlet):
            if core.problem.n_topics != self.n_topics:
                raise NotExactError(
                    f"The coreset is of {core.problem.n_topics} topics, not {self.n_topics}."
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
        counts = self._counts(X)
        words = np.exp(self._log_words())
        result = np.empty((counts.shape[0], len(self.alpha_)))
        step = max(1, int(CHUNK * counts.shape[0] / max(counts.nnz, 1)))
        for start in range(0, counts.shape[0], step):
            result[start : start + step] = self._proportions(counts[start : start + step], words)
        return result

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
        return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))
