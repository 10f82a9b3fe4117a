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
from scipy.sparse import csr_array
from scipy.special import digamma, logsumexp, softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from karat.data import containers
from karat.engine.kernel import monomials
from karat.engine.linalg import Array
from karat.errors import InputError, check_integer, several
from karat.models import misfit, quadruples
from karat.models.base import Learner, as_distributions, is_text
from karat.models.misfit import Check
from karat.models.refine import smoothed
from karat.problems import latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, only, read
from karat.problems.latent.topics import checked_counts

FEW = 20  # long documents per topic below which the answer is mostly noise
ENOUGH = 1000  # words of a topic for every word of the vocabulary, at least, in the peer's counts
# share of the uniform distribution mixed in where a likelihood is taken: no word is impossible
SMOOTH = 1e-3


class TopicLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """Base class of both topic models."""

    instead = "other models, or fit scikit-learn's LatentDirichletAllocation"
    n_topics: int | Literal["auto"]

    @property
    def _n_features_out(self) -> int:
        return len(self.topics_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _validated(self, X: Any, reset: bool) -> Any:
        if is_text(X):
            raise InputError(
                "X has texts; count their words first: CountVectorizer().fit_transform(X) of"
                " scikit-learn.",
                argument="X",
            )
        return super()._validated(X, reset)

    def _recover(self, moments: dict[str, Array], maps: Maps, problem: Any) -> None:
        ell, V = self._components(moments["tensor"], maps, problem)
        documents, a = int(maps["n"]), problem.concentration
        these = several(problem.k, "topic")
        if documents < FEW * problem.k:
            self._notes.append(
                f"only {several(documents, 'document')} of at least 3 words for {these}; the result"
                f" is mostly noise below {FEW * problem.k}"
            )
        # one topic is the law of all words, whether the model fits or not
        rows = (
            maps["m1"][None] if problem.k == 1 else (a + 2) / 2 * ell[:, None] * (V @ maps["B"].T)
        )
        self.topics_ = as_distributions(
            rows, "the word distributions of the topics", self._impossible, documents
        )
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
        these = several(problem.k, "topic")
        checks = [
            Check(
                "rank",
                misfit.beyond(rank),
                f"words occur together more often than {these} can explain",
            )
        ]
        if problem.k > 1:
            fewer = misfit.beyond(misfit.word_remainder(counts, maps["B"][:, :-1]))
            shown = f"pairs of words do not clearly show {these}"
            checks.append(Check("fewer", fewer, shown, shortage=True))
            ell, V = self._basis
            values = misfit.off_diagonal(
                *topic_parts(counts, maps, problem, misfit.orthonormal(V)), ell
            )
            model = "are not those of this model" + (
                " and this alpha0" if hasattr(self, "alpha0_") else ""
            )
            diagonal = misfit.compared(
                "tensor",
                misfit.wald(values),
                f"triples of words {model}",
                misfit.NOTHING_OFF_DIAGONAL,
            )
            fourth = misfit.compared(
                "quadruples",
                quadruples.fourth_moment_p_value(counts, maps["M"], V, self._alpha0_values()),
                f"quadruples of words {model}",
                f"it needs at most {quadruples.MOST_TOPICS} topics, all of which show, and"
                f" {quadruples.FEW * quadruples.FEW_BLOCKS} documents of four words",
            )
            checks += [diagonal, fourth]
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
                f"The vocabulary has {several(len(vocabulary), 'word')}; the model was fitted with"
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

    @abstractmethod
    def score_samples(self, X: Any) -> Array:
        """The log-likelihood of each document's words, or a lower bound."""

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of :meth:`score_samples`; y is ignored."""
        return float(self.score_samples(X).mean())

    def perplexity(self, X: Any) -> float:
        """``exp`` of minus :meth:`score_samples` per word: of how many equally likely words the
        next seems to be one; lower is better.
        """
        words = float(self._counts(X).sum())
        if not words:
            raise InputError("X has no words.", argument="X")
        return float(np.exp(-self.score_samples(X).sum() / words))

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


class SingleTopic(TopicLearner):
    """Documents (word counts, dense or sparse) of one topic each, learned by moments of word pairs
    and triples.

    Parameters
    ----------
    n_topics : int or "auto"
        "auto": as many as pairs of words show.
    random_state : int
        For :meth:`sample`.

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

    def __init__(self, n_topics: int | Literal["auto"] = 10, *, random_state: int = 0) -> None:
        self.n_topics = n_topics
        self.random_state = random_state

    def _problem(
        self, X: Any = None, sample_weight: Any = None, lengths: Any = None
    ) -> latent.SingleTopic:
        return latent.SingleTopic(self._number(X, sample_weight, latent.SingleTopic(1)))

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

    def score_samples(self, X: Any) -> Array:
        """Log-likelihood of each document's words, without the number of their orders."""
        return np.asarray(logsumexp(self._log_joint(X), axis=1))

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of documents; lower is better."""
        (k, d), n = self.topics_.shape, self._counts(X).shape[0]
        return float(-2 * n * self.score(X) + (k * (d - 1) + k - 1) * np.log(n))

    def sample(self, n_samples: int = 1, length: int = 100) -> tuple[np.ndarray, np.ndarray]:
        """Draw the word counts of documents of one length, and the topic of each."""
        self._check_fitted()
        check_integer("n_samples", n_samples)
        check_integer("length", length)
        rng = np.random.default_rng(self.random_state)
        labels = rng.choice(self.n_components_, size=n_samples, p=self.weights_)
        return rng.multinomial(length, self.topics_[labels]), labels
