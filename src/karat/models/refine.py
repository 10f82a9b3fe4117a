"""EM from the moments: scikit-learn's and hmmlearn's own iterations, from a start that they can
use.

The method of moments does not depend on a start (its power method draws random ones and keeps the
best), but its error is larger than that of the maximum of the likelihood.  EM has the smaller
error, if it starts near enough.  So:

    1. the moments give a start; zeros and tiny variances, which EM cannot leave, are smoothed
       (:data:`SMOOTH`, :data:`FLOOR`);
    2. on a part of the data, EM runs from such a start and, in case the model does not fit, from
       the library's own;
    3. rows that were held out say whether EM improved on the moments of that part; if not, the
       moments are kept.  The likelihood is what EM makes largest, so a difference within one
        standard error does not speak against it;
    4.  otherwise EM goes on with all rows from there.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from karat.engine.linalg import Array
from karat.errors import InputError, MissingExtraError

SMOOTH = 0.01  # share of the uniform law that is mixed into probabilities
POSSIBLE = 1e-6  # the same after EM
FLOOR = 0.01  # smallest variance, relative to the mean one
# rows on which starts are compared, and the share of them that is held out
PART, HELD = 20_000, 0.2
SMALL, STARTS = 2_000, 3  # rows up to which several of the library's own starts are tried as well
# gain of log-likelihood per row at which EM of a mixture stops; near the end steps are cheap
TOLERANCE = 1e-5
REGULAR = 1e-6  # added to variances by scikit-learn, relative to the smallest of a column
KINDS = ("spherical", "diag", "tied", "full")
# "auto" compares spherical, diagonal and full covariances, the last of up to WIDE columns, and
# leaves larger tables to the moments
AUTO, WIDE, LARGE = "auto", 200, 5_000_000


@dataclass(frozen=True)
class Refinement:
    """What EM did.

    Attributes
    ----------
    before, after : float
        Log-likelihood per held-out row of the moments and of EM.
    kept : bool
        Whether EM was better, or as good up to noise; otherwise the parameters are those of the
        moments.
    iterations : int
        On all rows.
    start : str
        "moments", or "library" if EM from the library's own start was better.
    """

    before: float
    after: float
    kept: bool
    iterations: int
    start: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def shifted(self, by: float) -> Refinement:
        """The same of rows in another unit."""
        return replace(self, before=self.before + by, after=self.after + by)


def smoothed(laws: Array, share: float = SMOOTH) -> Array:
    """Distributions (rows) without zeros."""
    return np.asarray((1 - share) * laws + share / laws.shape[-1])


def floored(variances: Array) -> Array:
    """Variances, raised where they are tiny compared with the others."""
    return np.maximum(variances, FLOOR * max(float(np.mean(variances)), 1e-300))


def check_kind(refine: Any) -> None:
    if refine is not None and (not isinstance(refine, str) or refine not in (AUTO, *KINDS)):
        raise InputError(
            f"refine must be None or one of {', '.join(map(repr, (AUTO, *KINDS)))}, not"
            f" {refine!r}.",
            argument="refine",
        )


def smallest_spread(X: Array) -> float:
    """The smallest standard deviation of a column that is not constant: the unit in which constants
    of the libraries are small.
    """
    spreads = X.std(axis=0)
    return float(spreads[spreads > 0].min()) if spreads.any() else 1.0


def kinds_tried(refine: str | None, columns: int) -> tuple[str, ...]:
    """The kinds of covariances that are compared on held-out rows; of one column there is one."""
    if refine != AUTO:
        return (refine or "spherical",)
    return ("spherical", "diag", "full")[: 1 if columns == 1 else 3 if columns <= WIDE else 2]


def improve(
    starts: list[Any], starts_of: Callable[[Array], list[Any]], rows: Array,
    parts: tuple[Array, Array], library_starts: list[list[Callable[[], Any]]],
    run: Callable[[Any, Array], Any], score: Callable[[Any, Array], float],
    noise: Callable[[Any, Any, Array], float] = lambda one, two, rows: 0.0,
) -> tuple[Any, Refinement]:  # fmt: skip
    """The model of the moments or that after EM, whichever is better.

    Parameters
    ----------
    starts : list of models
        With the parameters that the moments of all rows give, for each kind of covariances.
    starts_of : callable
        The same for some rows, since models that are compared on held-out rows must not have seen
        them.
    rows : array
        All rows.
    parts : two arrays
        The rows on which both are fitted for the comparison, and the held-out rows.
    library_starts : list of lists of callables
        For each kind of covariances; they make models that begin at the library's own starts.
    run : callable
        From a model with parameters and rows to the model after EM.
    score : callable
        Mean log-likelihood of rows.
    noise : callable
        By how much the scores of two models on rows may differ and still count as equal.
    """
    train, held = parts
    with no_convergence_warnings():
        try:
            firsts = starts_of(train)
        except InputError:  # the part does not show so many components
            firsts = starts
        before, after, best = score(firsts[0], held), -np.inf, None
        for place, first in enumerate(firsts):
            refined = _best(_with_library(first, library_starts[place]), train, run, score)
            value = -np.inf if refined is None else score(refined[1], held)
            if refined is not None and value > after:
                after, best = value, (refined, place)
        if best is None or not after >= before - noise(firsts[0], best[0][1], held):
            return starts[0], Refinement(before, after, False, 0, "moments")
        refined, place = best
        more = library_starts[place]
        again = _with_library(starts[place], more) if len(more) > 1 else []
        final = _best([refined, *again], rows, run, score) or refined
        return final[1], Refinement(before, after, True, int(final[1].n_iter_), final[0])


def _with_library(moments: Any, library_starts: list[Callable[[], Any]]) -> list[tuple[str, Any]]:
    return [("moments", moments), *(("library", make()) for make in library_starts)]


def _best(
    starts: list[tuple[str, Any]],
    rows: Array,
    run: Callable[[Any, Array], Any],
    score: Callable[[Any, Array], float],
) -> tuple[str, Any] | None:
    """The most likely result of EM from several starts, and the name of the start."""
    ends = [(name, *_run_and_score(run, score, model, rows)) for name, model in starts]
    likely = [(value, -place) for place, (_, _, value) in enumerate(ends) if np.isfinite(value)]
    return ends[-max(likely)[1]][:2] if likely else None


def _run_and_score(
    run: Callable[[Any, Array], Any], score: Callable[[Any, Array], float], model: Any, rows: Array
) -> tuple[Any, float]:
    """The model after EM and its score; minus infinity if the library gives up."""
    try:
        refined = run(model, rows)
        return refined, score(refined, rows)
    except (ValueError, FloatingPointError, np.linalg.LinAlgError):
        return None, -np.inf


@contextmanager
def no_convergence_warnings() -> Iterator[None]:
    """Silence warnings about convergence; the likelihoods are compared instead."""
    log = logging.getLogger("hmmlearn")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def mixture_start(weights: Array, means: Array, variances: Array, kind: str, seed: int) -> Any:
    """scikit-learn's mixture at given weights, means and variances (k,)."""
    variances = floored(variances)
    weights = smoothed(weights) if weights.min() < SMOOTH / len(means) else weights
    precisions = shaped(1.0 / variances, 1.0 / float(weights @ variances), means.shape[1], kind)
    return fitted_mixture(weights, means, precisions, kind, seed).set_params(max_iter=200)


def shaped(spherical: Array, common: float, d: int, kind: str) -> Array:
    """Variances or precisions of spherical components (k,), and one for all, in the shape of a kind
    of covariances.
    """
    shapes = {
        "spherical": spherical,
        "diag": np.repeat(spherical[:, None], d, axis=1),
        "tied": common * np.eye(d),
        "full": spherical[:, None, None] * np.eye(d),
    }
    return np.asarray(shapes[kind])


def free_covariances(kind: str, k: int, d: int) -> int:
    """The number of free parameters of the covariances."""
    return {"spherical": k, "diag": k * d, "tied": d * (d + 1) // 2, "full": k * d * (d + 1) // 2}[
        kind
    ]


def fitted_mixture(weights: Array, means: Array, precisions: Array, kind: str, seed: int) -> Any:
    """A scikit-learn mixture that is fitted with these parameters, and starts EM from them."""
    from sklearn.mixture import GaussianMixture as Peer

    peer = Peer(
        len(means),
        covariance_type=kind,
        weights_init=weights,
        means_init=means,
        precisions_init=precisions,
        random_state=seed,
    )
    matrices = kind in ("full", "tied")
    peer.weights_, peer.means_, peer.precisions_ = weights, means, precisions
    peer.covariances_ = np.linalg.inv(precisions) if matrices else 1.0 / precisions
    peer.precisions_cholesky_ = np.linalg.cholesky(precisions) if matrices else np.sqrt(precisions)
    peer.converged_, peer.n_iter_, peer.lower_bound_, peer.n_features_in_ = (
        True,
        0,
        -np.inf,
        means.shape[1],
    )
    return peer


def refine_mixture(
    starts: list[Any], starts_of: Callable[[Array], list[Any]], X: Array, seed: int, fits: bool
) -> tuple[Any, Refinement]:
    """EM of scikit-learn on all rows, from mixtures with parameters."""
    from sklearn.base import clone

    def run(model: Any, rows: Array) -> Any:
        again = clone(model).set_params(tol=TOLERANCE, reg_covar=regular)
        if hasattr(model, "means_"):
            again.set_params(
                weights_init=model.weights_,
                means_init=model.means_,
                precisions_init=model.precisions_,
            )
        return again.fit(rows)

    def library_start(model: Any, seed: int) -> Callable[[], Any]:
        return lambda: clone(model).set_params(
            weights_init=None, means_init=None, precisions_init=None, random_state=seed
        )

    regular = REGULAR * np.square(smallest_spread(X))
    order = np.random.default_rng(seed).permutation(len(X))[:PART]
    edge = int(len(order) * (1 - HELD))
    number = STARTS if len(X) <= (SMALL if fits else PART) else 0 if fits else 1
    library_starts = [[library_start(model, seed + i) for i in range(number)] for model in starts]
    parts = X[order[:edge]], X[order[edge:]]

    def noise(first: Any, second: Any, rows: Array) -> float:
        apart = first.score_samples(rows) - second.score_samples(rows)
        return float(np.std(apart) / np.sqrt(len(rows)))

    def score(model: Any, rows: Array) -> float:
        return float(model.score(rows))

    return improve(starts, starts_of, X, parts, library_starts, run, score, noise)


def refine_chain(
    starts: list[Any],
    starts_of: Callable[[Array, Array], list[Any]],
    X: Array,
    lengths: Array,
    library_starts: list[list[Callable[[], Any]]],
) -> tuple[Any, Refinement]:
    """EM of hmmlearn on all sequences, from models with parameters."""
    edges = np.cumsum(lengths)
    part = min(len(X), PART)
    edge = int(part * (1 - HELD))
    train, held = X[:edge], X[edge:part]
    place = {id(X): 0, id(train): 0, id(held): edge}

    def cut(rows: Array) -> Array:
        """Lengths of the sequences, whole or cut, among neighbouring rows."""
        first = place[id(rows)]
        inside = edges[(edges > first) & (edges < first + len(rows))] - first
        return np.diff(np.concatenate([[0], inside, [len(rows)]]))

    def run(model: Any, rows: Array) -> Any:
        fitted = deepcopy(model).fit(rows, cut(rows))
        # a symbol that these rows do not hold is not impossible in others
        if hasattr(fitted, "emissionprob_"):
            fitted.emissionprob_ = smoothed(fitted.emissionprob_, POSSIBLE)
        fitted.init_params = ""
        fitted.n_iter_ = fitted.monitor_.iter
        return fitted

    def score(model: Any, rows: Array) -> float:
        return float(model.score(rows, cut(rows))) / len(rows)

    def of_rows(rows: Array) -> list[Any]:
        return starts_of(rows, cut(rows))

    return improve(starts, of_rows, X, (train, held), library_starts, run, score)


def unfitted_chain(k: int, symbols: int | None, kind: str, seed: int) -> Any:
    """hmmlearn's model of k states; ``symbols``: their number, None for Gaussian emissions."""
    try:
        from hmmlearn import hmm
    except ImportError as error:
        raise MissingExtraError("to_hmmlearn", "models") from error
    if symbols is not None:
        return hmm.CategoricalHMM(k, n_features=symbols, random_state=seed, n_iter=100)
    return hmm.GaussianHMM(k, covariance_type=kind, random_state=seed, n_iter=100)


def chain_of_densities(start: Array, steps: Array) -> Any:
    """A hidden Markov model of hmmlearn with given laws.

    A row of its data holds the log-densities of its emission, by state.

    Its likelihood and posteriors multiply densities, so the largest of a row should be 1: subtract
    its logarithm from the row. The laws must be positive; then no product of such densities
    vanishes.
    """
    try:
        from hmmlearn.base import BaseHMM
    except ImportError as error:
        raise MissingExtraError("HiddenMarkov of sequences", "models") from error

    class Chain(BaseHMM):
        def _compute_log_likelihood(self, X: Array) -> Array:
            return X

    chain = Chain(len(start), implementation="scaling")
    chain.startprob_, chain.transmat_ = start, steps
    return chain
