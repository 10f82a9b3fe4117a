"""Hidden Markov models from moments of three steps (see :mod:`karat.problems.latent.views`).

O = [ell_j B v_j], g = 1 / ell^2 the law of the middle state, and the joint law of two neighbouring states
``J = (M'O)^-1 (M'P12 M) (O'M)^-1``; its rows, normalised, are the transitions, its row sums the law of a window's first state.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import logsumexp

from karat._data import containers
from karat.engine.linalg import Array
from karat.errors import InputError, MissingExtraError, NotExactError
from karat.models.base import Learner, as_distributions, positive_variances, solve_small, spherical_log_density, view_checks
from karat.models.misfit import Check
from karat.problems import latent
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, sequence_steps

SMOOTH = 1e-6  # share of the uniform law mixed in where a likelihood is taken: nothing is impossible


class HiddenMarkov(Learner):
    """Hidden Markov model, learned by moments of windows of three steps: many ragged sequences, weights, no local optima.

    Parameters
    ----------
    n_states : int
    emissions : {"categorical", "gaussian"}
        Symbols 0, 1, .. in one column, or spherical Gaussians.
    start : {"windows", "first"}
        ``startprob_`` from the first state of all windows (the stationary law, for one long chain), or from the first step of
        every sequence (the initial law; needs many sequences).
    random_state : int
        For :meth:`sample`.

    Attributes
    ----------
    startprob_, transmat_ : arrays (k,), (k, k)
        ``transmat_[i, j]`` is the probability of j after i.
    emissionprob_ : array (k, d)
        Categorical emissions.
    means_, covars_ : arrays (k, d), (k,)
        Gaussian emissions.
    joint_ : array (k, k)
        J as estimated, before it was clipped and normalised.
    n_dropped_ : int
        Sequences under three steps, which were left out.
    recovery_ : Recovery
    """

    problem_type: ClassVar[type[Latent]] = latent.HiddenMarkov

    def __init__(
        self,
        n_states: int = 2,
        *,
        emissions: Literal["categorical", "gaussian"] = "categorical",
        start: Literal["windows", "first"] = "windows",
        random_state: int = 0,
    ) -> None:
        self.n_states = n_states
        self.emissions = emissions
        self.start = start
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, lengths: Any = None, sample_weight: Any = None) -> Self:
        """Learn from sequences one after another; y is there for scikit-learn's pipelines only.

        Parameters
        ----------
        X : table
            One row per step.
        lengths : list of int, optional
            Lengths of the sequences; one sequence without them.
        sample_weight : array, optional
            One weight per row: a window has that of its first row.
        """
        return self._fit(X, sample_weight, lengths)

    def _problem(self, X: Any) -> latent.HiddenMarkov:
        if self.start not in ("windows", "first"):
            raise InputError(f'start must be "windows" or "first", not {self.start!r}.')
        return latent.HiddenMarkov(self.n_states, self.emissions)

    def _recover(self, moments: dict[str, Array], maps: Maps, problem: Latent) -> None:
        if self.start == "first" and "first" not in maps:
            raise NotExactError(
                'start="first" needs the first steps of the sequences, which a keep="all" coreset does not know; use '
                'start="windows".'
            )
        found = self._mixture(moments["tensor"], maps, problem)
        small, lifted = found.small, problem.lifted(maps)
        inner, before = maps["M"].T @ maps["cross1"], small  # M'P12 M, and the states in the first step
        if lifted:
            inner = np.pad(inner, (0, 1))
            inner[-1, -1] = 1.0
            before = small + np.append((maps["mean2"] - maps["mean1"]) @ maps["M"], 0.0)  # the steps have means of their own
        half = solve_small(before.T, inner, problem.parts)
        self.joint_ = solve_small(small.T, half.T, problem.parts).T
        self.transmat_ = as_distributions(self.joint_, "The transition probabilities", float(maps["n"]))
        law = self.joint_.sum(axis=1)
        if self.start == "first":
            law = solve_small(small.T, maps["first"], problem.parts)
        self.startprob_ = as_distributions(law[None], "The probabilities of the first state", float(maps["n"]))[0]
        if self.emissions == "categorical":
            self.emissionprob_ = as_distributions(found.points, "The emission probabilities", float(maps["n"]))
            return
        squares = solve_small((found.weights[:, None] * small).T, moments["spread"], problem.parts)
        if "top" in maps and maps["top"].shape[1] < found.points.shape[1]:
            own = squares
        else:
            own = (squares - np.square(found.points).sum(axis=1)) / found.points.shape[1]
        common = max(float(found.weights @ own / found.weights.sum()), 1e-12 * float(np.square(found.points).mean()))
        self.means_ = found.points + maps["mean2"] if lifted else found.points
        self.covars_ = positive_variances(own, common, "The variances of the states")

    def _checks(self, maps: Maps, problem: Latent, sample: Sample | None) -> list[Check]:
        return [] if sample is None else view_checks(maps, problem, sample, self._basis)

    def _log_emissions(self, X: Any) -> Array:
        self._check_fitted()
        if self.emissions == "gaussian":
            return spherical_log_density(self._table(X), self.means_, self.covars_)
        values = np.asarray(containers.as_table(X, "X"))
        symbols = values[:, 0].astype(np.int64)
        if values.shape[1] != 1 or (symbols != values[:, 0]).any() or symbols.min(initial=0) < 0:
            raise InputError("Categorical emissions are symbols 0, 1, .. in one column.")
        if symbols.max(initial=0) >= self.n_features_in_:
            raise InputError(
                f"X holds symbol {symbols.max()}; the model was fitted with symbols 0 to {self.n_features_in_ - 1}."
            )
        return np.asarray(np.log((1 - SMOOTH) * self.emissionprob_ + SMOOTH / self.n_features_in_).T[symbols])

    def _log_chain(self) -> tuple[Array, Array]:
        k = len(self.startprob_)
        return tuple(np.log((1 - SMOOTH) * p + SMOOTH / k) for p in (self.startprob_, self.transmat_))  # type: ignore[return-value]

    def _sequences(self, X: Any, lengths: Any) -> list[Array]:
        emissions = self._log_emissions(X)
        if lengths is None:
            return [emissions]
        begins = np.flatnonzero(sequence_steps(lengths, len(emissions)) == 0)
        return np.split(emissions, begins[1:])

    def decode(self, X: Any, lengths: Any = None) -> tuple[float, np.ndarray]:
        """The most likely states of each sequence (Viterbi), and the log-probability of all of them."""
        start, step = self._log_chain()
        total, paths = 0.0, []
        for emissions in self._sequences(X, lengths):
            score = start + emissions[0]
            back = np.empty(emissions.shape, dtype=np.intp)
            for t in range(1, len(emissions)):
                ways = score[:, None] + step
                back[t] = ways.argmax(axis=0)
                score = ways.max(axis=0) + emissions[t]
            path = np.empty(len(emissions), dtype=np.int64)
            path[-1] = score.argmax()
            for t in range(len(emissions) - 1, 0, -1):
                path[t - 1] = back[t][path[t]]
            total += float(score.max())
            paths.append(path)
        return total, np.concatenate(paths)

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """The most likely states of each sequence."""
        return self.decode(X, lengths)[1]

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """Log-likelihood of all sequences (forward algorithm)."""
        start, step = self._log_chain()
        total = 0.0
        for emissions in self._sequences(X, lengths):
            forward = start + emissions[0]
            for row in emissions[1:]:
                forward = logsumexp(forward[:, None] + step, axis=0) + row
            total += float(logsumexp(forward))
        return total

    def sample(self, n_samples: int = 1) -> tuple[Array, np.ndarray]:
        """Draw one sequence, and its states."""
        self._check_fitted()
        rng = np.random.default_rng(self.random_state)
        chain, k = self.transmat_.cumsum(axis=1), len(self.startprob_)
        states = np.empty(n_samples, dtype=np.int64)
        draws = rng.random(n_samples)
        for t in range(n_samples):
            law = self.startprob_.cumsum() if t == 0 else chain[states[t - 1]]
            states[t] = min(int(np.searchsorted(law, draws[t], side="right")), k - 1)
        if self.emissions == "gaussian":
            noise = rng.standard_normal((n_samples, self.n_features_in_))
            return self.means_[states] + np.sqrt(self.covars_[states])[:, None] * noise, states
        laws = self.emissionprob_.cumsum(axis=1)[states]
        symbols = np.minimum((rng.random(n_samples)[:, None] >= laws).sum(axis=1), self.n_features_in_ - 1)
        return symbols[:, None], states

    def to_hmmlearn(self) -> Any:
        """A fitted ``hmmlearn`` model with these parameters.

        Its ``fit`` starts EM from them: a separate step, which needs the full data, since a coreset does not keep the
        likelihood.
        """
        try:
            from hmmlearn import hmm
        except ImportError as error:
            raise MissingExtraError("to_hmmlearn", "models") from error
        self._check_fitted()
        k = len(self.startprob_)
        if self.emissions == "categorical":
            peer = hmm.CategoricalHMM(k, init_params="", n_features=self.n_features_in_, random_state=self.random_state)
            peer.emissionprob_ = self.emissionprob_
        else:
            peer = hmm.GaussianHMM(k, covariance_type="spherical", init_params="", random_state=self.random_state)
            peer.n_features = self.n_features_in_
            peer.means_, peer.covars_ = self.means_, self.covars_
        peer.startprob_, peer.transmat_ = self.startprob_, self.transmat_
        return peer
