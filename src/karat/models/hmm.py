"""Hidden Markov models from moments of three steps (see :mod:`karat.problems.latent.views`).

O = [ell_j B v_j], g = 1 / ell^2 the law of the middle state, and the joint law of two neighbouring
states ``J = (M'O)^-1 (M'P12 M) (O'M)^-1``; its rows, normalised, are the transitions, its row sums
the law of a window's first state.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.base import clone

from karat.core.coreset import Coreset
from karat.engine.linalg import Array, Flags
from karat.errors import InputError, NotExactError, check_integer
from karat.models import chains, misfit, simulate
from karat.models import refine as refining
from karat.models.base import (
    ENOUGH,
    as_distributions,
    common_variance,
    fit_quietly,
    is_text,
    positive_variances,
    solve_small,
    spherical_log_density,
)
from karat.models.misfit import Check
from karat.models.refinable import Refinable
from karat.models.views import NOT_INDEPENDENT, view_checks
from karat.problems import latent
from karat.problems.latent.base import Maps
from karat.problems.latent.markov import symbols_of
from karat.problems.latent.sample import Sample, read, sequence_steps

# share of the uniform law that is mixed in before likelihoods, so that nothing is impossible
SMOOTH = 1e-6
BEGIN = (
    0.1  # variance, of the spread of the means, with which EM begins where the moments give none
)


class HiddenMarkov(Refinable):
    """Hidden Markov model, learned by moments of windows of three steps: many ragged sequences,
    weights, no local optima.

    Parameters
    ----------
    n_states : int or "auto"
        "auto": as many as the products of steps show.
    emissions : {"categorical", "gaussian"}
        Symbols 0, 1, .. in one column, or spherical Gaussians.
    start : {"windows", "first"}
        ``startprob_`` from the first state of all windows (the stationary law, for one long chain),
        or from the first step of every sequence (the initial law; needs many sequences).
    refine : {"auto", None, "spherical", "diag", "tied", "full"}
        Continue with hmmlearn's EM on all rows, and keep the model of higher held-out likelihood.
        The value is the type of the covariances of Gaussian emissions; for symbols use any.
        "auto": if a check says that the model does not fit, or variances come out negative, with
        spherical, diagonal or full covariances, whichever held-out rows prefer; not with weights,
        without hmmlearn, or of more than 5,000,000 numbers.  None: moments alone.
    random_state : int
        For :meth:`sample` and ``refine``.

    Attributes
    ----------
    startprob_, transmat_ : arrays (k,), (k, k)
        ``transmat_[i, j]`` is the probability of j after i.
    emissionprob_ : array (k, d)
        Categorical emissions.
    means_, covars_ : arrays (k, d), (k,)
        Gaussian emissions; after ``refine`` covariances in hmmlearn's shape.
    covariance_type_ : str
        "spherical", or what ``refine`` gave.
    refinement_ : Refinement or None
        Likelihoods before and after ``refine``.
    joint_ : array (k, k)
        J as estimated, before it was clipped and normalised.
    n_dropped_ : int
        Sequences under three steps, which were left out.
    recovery_ : Recovery
    """

    means_: Array
    covars_: Array
    library: ClassVar[str] = "hmmlearn"
    problem_type = latent.HiddenMarkov

    def __init__(
        self,
        n_states: int | Literal["auto"] = 2,
        *,
        emissions: Literal["categorical", "gaussian"] = "categorical",
        start: Literal["windows", "first"] = "windows",
        refine: Literal["auto", "spherical", "diag", "tied", "full"] | None = "auto",
        random_state: int = 0,
    ) -> None:
        self.n_states = n_states
        self.emissions = emissions
        self.start = start
        self.refine = refine
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, lengths: Any = None, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Learn from sequences that follow one another in X; y is ignored.

        Parameters
        ----------
        X : table
            One row per step.
        lengths : list of int, optional
            Lengths of the sequences; one sequence without them.
        sample_weight : array, optional
            One weight per row: a window has that of its first row.
        """
        return self._fit_and_refine(X, sample_weight, lengths)

    def _can_continue(self, sample_weight: Any) -> bool:
        return find_spec("hmmlearn") is not None and super()._can_continue(sample_weight)

    def _due(self, sample_weight: Any) -> bool:
        poor = self.refine == refining.AUTO and self._poor and self._can_continue(sample_weight)
        return bool(self._negative) or poor or super()._due(sample_weight)

    def _law(self) -> str:
        return "symbols" if self.emissions == "categorical" else super()._law()

    def refine_with(self, X: Any, lengths: Any = None) -> Self:
        """Continue with hmmlearn's EM on rows, such as after ``fit_coreset``; see ``refine``."""
        refining.check_kind(self.refine)
        self._log_emissions(X)  # checks X
        table = self._columns(X).astype(np.int64 if self.emissions == "categorical" else float)
        long = np.array([len(table)]) if lengths is None else np.asarray(lengths)
        sequence_steps(long, len(table))
        kinds = refining.kinds_tried(self.refine, table.shape[1])  # symbols are one column

        def starts_of(rows: Array, cut: Array) -> list[Any]:
            part = clone(self).set_params(n_states=self.n_components_, refine=kinds[0])
            fit_quietly(part, rows, cut)
            return [part.to_hmmlearn(kind, self.n_features_in_) for kind in kinds]

        gaussian, unit = self.emissions == "gaussian", 1.0
        place: Any = self
        if gaussian:  # hmmlearn's squares would cancel far from the origin; its priors have units
            centre, unit = self.means_.mean(axis=0), refining.smallest_spread(table)
            table = (table - centre) / unit
            place = copy(self)
            place.means_, place.covars_ = (self.means_ - centre) / unit, self.covars_ / unit**2
        starts = [place.to_hmmlearn(kind) for kind in kinds]
        own: list[list[Any]] = [[partial(self._empty_peer, kind)] for kind in kinds]
        library_starts = [[] for _ in kinds] if self.recovery_.fits else own
        peer, done = refining.refine_chain(starts, starts_of, table, long, library_starts)
        self.refinement_ = done.shifted(-table.shape[1] * float(np.log(unit)))
        if self._negative and not self.refinement_.kept:
            raise InputError(f"{self._negative} EM found no other model, either.")
        if self.refinement_.kept:
            self._take(peer)
            if gaussian:
                self.means_, self.covars_ = self.means_ * unit + centre, self.covars_ * unit**2
        return self

    def _take(self, peer: Any) -> None:
        """The parameters of a fitted hmmlearn model."""
        self.startprob_, self.transmat_ = peer.startprob_, peer.transmat_
        if self.emissions == "categorical":
            self.emissionprob_ = peer.emissionprob_
            return
        self.means_, self.covariance_type_ = peer.means_, peer.covariance_type
        covariances = np.asarray(peer.covars_)
        # hmmlearn gives d matrices for each state, all the same
        if peer.covariance_type == "spherical":
            by_state = covariances.reshape(len(self.means_), -1, *covariances.shape[1:])
            covariances = by_state[:, 0, 0, 0]
        self.covars_ = covariances

    def _validated(self, X: Any, reset: bool) -> Any:
        if self.emissions == "categorical" and is_text(X):
            fault = "X has text; number the symbols that occur:"
            raise InputError(f"{fault} names, X = numpy.unique(X, return_inverse=True).")
        # as hmmlearn, a list of numbers is one column
        if isinstance(X, np.ndarray | list | tuple) and np.ndim(X) == 1:
            X = np.reshape(X, (-1, 1))
        if self.emissions == "gaussian":
            return super()._validated(X, reset)
        return X  # n_features_in_ counts symbols, not columns

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.emissions == "categorical":  # one column of symbols
            tags.input_tags.two_d_array = False
            tags.input_tags.one_d_array = tags.input_tags.categorical = True
        return tags

    def _problem(
        self, X: Any = None, sample_weight: Any = None, lengths: Any = None
    ) -> latent.HiddenMarkov:
        refining.check_kind(self.refine)
        if self.start not in ("windows", "first"):
            raise InputError(f'start must be "windows" or "first", not {self.start!r}.')
        rows_follow = not isinstance(X, Coreset) and self._can_continue(sample_weight)
        self._em_follows = rows_follow if self.refine == refining.AUTO else self.refine is not None
        one = latent.HiddenMarkov(1, self.emissions)
        k = self._number(X, sample_weight, one, lengths)
        return latent.HiddenMarkov(k, self.emissions)

    def _recover(self, moments: dict[str, Array], maps: Maps, problem: latent.Latent) -> None:
        if self.start == "first" and "first" not in maps:
            raise NotExactError(
                'start="first" needs the first steps of the sequences, which a keep="all" coreset'
                ' does not store; use start="windows".'
            )
        self.covariance_type_, self.refinement_ = "spherical", None
        self._negative, self._poor = "", False  # variances of all states, of some
        mixture = self._mixture(moments["tensor"], maps, problem)
        small = mixture.small
        # M'P12 M, and the states in the first step
        inner, before = maps["M"].T @ maps["cross1"], small
        if problem.lifted:
            inner = np.pad(inner, (0, 1))
            inner[-1, -1] = 1.0
            # the steps have means of their own
            before = small + np.append((maps["mean2"] - maps["mean1"]) @ maps["M"], 0.0)
        half = solve_small(before.T, inner, problem.part)
        self.joint_ = solve_small(small.T, half.T, problem.part).T
        n = float(maps["n"])
        self.transmat_ = as_distributions(
            self.joint_, "the transition probabilities", self._impossible, n
        )
        law = self.joint_.sum(axis=1)
        if self.start == "first":
            law = solve_small(small.T, maps["first"], problem.part)
        self.startprob_ = as_distributions(
            law[None], "the probabilities of the first state", self._impossible, n
        )[0]
        if self.emissions == "categorical":
            laws = maps["mean2"][None] if problem.k == 1 and "mean2" in maps else mixture.points
            self.emissionprob_ = as_distributions(
                laws, "the emission probabilities", self._impossible, n
            )
            return
        variances = solve_small(
            (mixture.weights[:, None] * small).T, moments["spread"], problem.part
        )
        columns = mixture.points.shape[1]
        if maps["top"].shape[1] >= columns:
            variances = (variances - np.square(mixture.points).sum(axis=1)) / columns
        common = common_variance(mixture, variances)
        self.means_ = mixture.points + maps["mean2"]
        if common is None:
            self._refuse(variances)
            self.covars_ = np.full(problem.k, BEGIN * float(np.square(mixture.points).mean()))
            return
        self.covars_ = positive_variances(
            variances, common, "the variances of the states", self._impossible
        )
        self._poor = bool((self.covars_ > variances).any())

    def _refuse(self, variances: Array) -> None:
        """Raise for negative variances, unless EM follows, which finds variances of its own."""
        listed = ", ".join(f"{x:.3g}" for x in variances)
        came_out = f"the variances of the states came out as {listed}, and no model has negative"
        self._negative = (
            f"T{came_out[1:]} ones: the data are not of Gaussian states that a single step shows,"
            " or too few. Ask for fewer states."
        )
        if not self._em_follows:
            raise InputError(f'{self._negative} Or continue with EM on rows: refine="diag".')
        self._impossible.append(f"{came_out} ones")

    def _checks(self, maps: Maps, problem: latent.Latent, sample: Sample | None) -> list[Check]:
        if sample is not None:
            constant = (
                misfit.constant_columns(read(sample.views[1], misfit.probe(sample)), len(sample))
                if problem.lifted
                else []
            )
            return constant + view_checks(maps, problem, sample, self._basis)
        if problem.k < 2 or float(maps["n"]) < ENOUGH:
            return []
        gaussian = self.emissions == "gaussian"
        law: Any = self.emissionprob_ if not gaussian else (self.means_, self.covars_)
        p_value = chains.simulated(self.transmat_, law, maps, self._basis, self._tensor)
        return [misfit.compared("tensor", p_value, NOT_INDEPENDENT, misfit.NOTHING_OFF_DIAGONAL)]

    def _log_emissions(self, X: Any) -> Array:
        self._check_fitted()
        if self.emissions == "gaussian":
            table = self._table(X)
            if self.covariance_type_ == "spherical":
                return spherical_log_density(table, self.means_, self.covars_)
            laws = zip(self.means_, self._full_covariances(), strict=True)
            return np.column_stack(
                [multivariate_normal.logpdf(table, mean, full) for mean, full in laws]
            )
        symbols = symbols_of(self._columns(X))
        if not len(symbols):
            raise InputError("X has no rows.", argument="X")
        if symbols.max(initial=0) >= self.n_features_in_:
            raise InputError(
                f"X contains the symbol {symbols.max()}; the model was fitted with symbols 0 to"
                f" {self.n_features_in_ - 1}."
            )
        return np.asarray(np.log(refining.smoothed(self.emissionprob_, SMOOTH)).T[symbols])

    def _chain(self, X: Any, lengths: Any) -> tuple[Any, Array, Flags]:
        """hmmlearn's chain with the laws of this model, the log-densities of the emissions, and the
        first steps.
        """
        emissions = self._log_emissions(X)
        rows = len(emissions)
        steps = np.arange(rows) if lengths is None else sequence_steps(lengths, rows)
        start, step = (refining.smoothed(law, SMOOTH) for law in (self.startprob_, self.transmat_))
        return refining.chain_of_densities(start, step), emissions, np.asarray(steps == 0)

    def decode(self, X: Any, lengths: Any = None) -> tuple[float, np.ndarray]:
        """The most likely states of each sequence (Viterbi), and the log-probability of all of
        them.
        """
        chain, emissions, begins = self._chain(X, lengths)
        states = chain.decode(emissions, lengths)[1]
        # hmmlearn adds up the log-probability step by step; of a million steps, a sum in pairs
        # keeps five digits more.
        moves = np.where(
            begins,
            np.log(chain.startprob_[states]),
            np.log(chain.transmat_[np.roll(states, 1), states]),
        )
        likelihood = np.take_along_axis(emissions, states[:, None], axis=1).sum() + moves.sum()
        return float(likelihood), states

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """The most likely states of each sequence."""
        return self.decode(X, lengths)[1]

    def fit_predict(
        self, X: Any, y: Any = None, lengths: Any = None, sample_weight: Any = None
    ) -> np.ndarray:
        """Learn from sequences and return their most likely states."""
        return self.fit(X, lengths=lengths, sample_weight=sample_weight).predict(X, lengths)

    def predict_proba(self, X: Any, lengths: Any = None) -> Array:
        """The probability of every state at every step, given the whole sequence (n x k)."""
        chain, emissions, _ = self._chain(X, lengths)
        return np.asarray(
            chain.predict_proba(emissions - emissions.max(axis=1, keepdims=True), lengths)
        )

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """Log-likelihood of all sequences."""
        chain, emissions, _ = self._chain(X, lengths)
        largest = emissions.max(axis=1)
        return float(largest.sum() + chain.score(emissions - largest[:, None], lengths))

    @property
    def _parameters(self) -> int:
        """The number of free parameters."""
        k, d = len(self.startprob_), self.n_features_in_
        gaussian = k * d + refining.free_covariances(self.covariance_type_, k, d)
        return int(
            k - 1 + k * (k - 1) + (k * (d - 1) if self.emissions == "categorical" else gaussian)
        )

    def bic(self, X: Any, lengths: Any = None) -> float:
        """Bayesian information criterion of sequences; lower is better."""
        penalty = self._parameters * float(np.log(len(self._columns(X))))
        return -2 * self.score(X, lengths=lengths) + penalty

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Akaike's information criterion of sequences; lower is better."""
        return -2 * self.score(X, lengths=lengths) + 2 * self._parameters

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw one sequence, and its states."""
        self._check_fitted()
        check_integer("n_samples", n_samples)
        rng = np.random.default_rng(self.random_state)
        chain, k = self.transmat_.cumsum(axis=1), len(self.startprob_)
        states = np.empty(n_samples, dtype=np.int64)
        draws = rng.random(n_samples)
        for t in range(n_samples):
            law = self.startprob_.cumsum() if t == 0 else chain[states[t - 1]]
            states[t] = min(int(np.searchsorted(law, draws[t], side="right")), k - 1)
        if self.emissions == "gaussian":
            noise = rng.standard_normal((n_samples, self.n_features_in_))
            if self.covariance_type_ != "spherical":
                roots = np.linalg.cholesky(self._full_covariances())
                return self.means_[states] + np.einsum("nij,nj->ni", roots[states], noise), states
            return self.means_[states] + np.sqrt(self.covars_[states])[:, None] * noise, states
        return simulate.emitted(self.emissionprob_, states, rng.random(n_samples))[:, None], states

    def _full_covariances(self) -> Array:
        k, d = self.means_.shape
        # hmmlearn gives matrices for every kind
        return np.asarray(np.broadcast_to(self.covars_, (k, d, d)))

    def _empty_peer(self, kind: str) -> Any:
        symbols = self.n_features_in_ if self.emissions == "categorical" else None
        return refining.unfitted_chain(len(self.startprob_), symbols, kind, self.random_state)

    def to_hmmlearn(self, kind: str | None = None, n_features: int | None = None) -> Any:
        """A fitted ``hmmlearn`` model with these parameters, smoothed so that EM can leave zeros.

        One percent of the uniform law is mixed into probabilities, and tiny variances are raised.
        Its ``fit`` starts EM from them: a separate step, which needs the full data, since a coreset
        does not keep the likelihood (see ``refine``).

        Parameters
        ----------
        kind : {None, "spherical", "diag", "tied", "full"}
            Of the covariances; None: as they are.
        n_features : int, optional
            Number of symbols, if there are more than were seen.
        """
        self._check_fitted()
        kind = kind or self.covariance_type_
        peer = self._empty_peer(kind)
        peer.init_params = ""
        # few sequences say nothing about the first state; EM would make it certain
        if self.start == "windows":
            peer.params = peer.params.replace("s", "")
        peer.startprob_ = refining.smoothed(self.startprob_)
        peer.transmat_ = refining.smoothed(self.transmat_)
        if self.emissions == "categorical":
            more = max((n_features or 0) - self.n_features_in_, 0)
            peer.emissionprob_ = refining.smoothed(np.pad(self.emissionprob_, ((0, 0), (0, more))))
            peer.n_features = self.n_features_in_ + more
            return peer
        peer.n_features, peer.means_ = self.n_features_in_, self.means_
        if self.covariance_type_ == "spherical":
            variances = refining.floored(self.covars_)
            peer.covars_ = refining.shaped(
                variances, float(variances.mean()), self.n_features_in_, kind
            )
        elif kind != self.covariance_type_:
            raise InputError(
                f"The covariances are {self.covariance_type_!r} already, not {kind!r}."
            )
        else:
            full = self._full_covariances()
            diagonals = np.diagonal(full, axis1=1, axis2=2)
            peer.covars_ = {"diag": diagonals, "tied": full[0], "full": full}[kind]
        return peer
