"""The base class of learners: one way from samples to moments, and from moments to parameters.

    fit(X)              maps(X)            -> moments(X; maps)         -> parameters
    fit_coreset(core)   the stored maps    -> moments(kept rows; maps) -> parameters

The last two arrows are the same code, so equal moments give equal parameters.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import linalg as sla
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted, validate_data

from karat.core.construct import explaining_nan, read_sample
from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.transformed import dense
from karat.engine.linalg import Array, Indices
from karat.errors import InputError, NotExactError
from karat.models import misfit
from karat.models.misfit import Check
from karat.models.recovery import NOISE, Recovery, warn_recovery
from karat.models.tensor import decompose
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, read

FLOOR = 1e-3  # smallest variance, relative to the common one, that a component is given
FAR = 1e-3  # smallest last entry of a whitened component: its square is the share of the component
# columns up to which the rank of products is tested; standard errors of a component that is seen
WIDE, SEEN = 600, 3.0
ENOUGH = 100  # samples below which nothing is compared
NOT_INDEPENDENT = (
    "the third moments are not those of views that are independent given the hidden value"
)
CLIPPED = 0.05  # negative mass of an estimated distribution beyond which a warning is due


class Learner(BaseEstimator):
    """Base class: subclasses name their problem and turn moments into parameters.

    Attributes
    ----------
    recovery_ : Recovery
        How well the moments fit the model.
    n_features_in_ : int or tuple of int
        Columns seen.
    """

    problem_type: ClassVar[type[Latent]]
    recovery_: Recovery
    n_features_in_: Any

    @abstractmethod
    def _problem(self, X: Any = None, sample_weight: Any = None) -> Latent:
        """The problem with this estimator's parameters; the data may decide some of them."""

    @abstractmethod
    def _recover(self, moments: dict[str, Array], maps: Maps, problem: Latent) -> None:
        """Set the fitted attributes."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from data; y is ignored."""
        return self._fit(X, sample_weight)

    def _fit(self, X: Any, sample_weight: Any, lengths: Any = None) -> Self:
        if isinstance(X, Coreset):
            raise InputError("fit takes rows; use fit_coreset(core) for a coreset.", argument="X")
        X = self._validated(X, reset=True)
        problem = self._problem(X, sample_weight)
        sample, tables = read_sample(X, problem, sample_weight, lengths)
        for note in problem.notes(sample.inputs, sample.dropped):
            warn_recovery(note)

        def moments() -> tuple[dict[str, Array], Maps]:
            maps = problem.maps(sample)
            return problem.statistics(sample, maps), maps

        self.n_dropped_ = sample.dropped
        return self._learn(*explaining_nan(tables, moments), problem, sample)

    def fit_coreset(self, core: Coreset) -> Self:
        """Learn from a coreset of the matching problem; the same parameters as from the full data.

        Parameters
        ----------
        core : Coreset
            Built by ``karat.coreset(X, problem=...)`` with the problem of this estimator's name and
            parameters.
        """
        if not isinstance(core, Coreset):
            raise InputError(
                f"fit_coreset takes a karat.Coreset, not {type(core).__name__}; for data use fit."
            )
        wanted = self._matching(core)
        if core.problem != wanted:
            raise NotExactError(
                f"The coreset keeps {core.problem.describe()}, but this estimator needs"
                f" {wanted.describe()}; build it with that problem."
            )
        self._take_names(core)
        kept = wanted.kept_sample(core)
        maps = wanted.kept_maps(core, kept)
        self.n_dropped_ = 0
        return self._learn(wanted.statistics(kept, maps), maps, wanted)

    def _take_names(self, core: Coreset) -> None:
        """Take the names of the columns from the rows of the coreset, if they have any."""
        table = core.X if core.problem.rows_per_sample == 1 else np.zeros((1, 1))
        validate_data(self, table, reset=True, skip_check_array=True)

    def _matching(self, core: Coreset) -> Latent:
        """This estimator's problem, with the mode of the coreset."""
        if not isinstance(core.problem, self.problem_type):
            raise NotExactError(
                f"{type(self).__name__} learns from a coreset of"
                f" problems.{self.problem_type.__name__}, not of {core.problem.describe()}."
            )
        values = self._problem().params() | {
            "keep": core.problem.keep,
            "total_weight": core.problem.total_weight,
        }
        return self.problem_type.from_params(values)  # type: ignore[return-value]

    def _learn(
        self, moments: dict[str, Array], maps: Maps, problem: Latent, sample: Sample | None = None
    ) -> Self:
        """Parameters from moments; if the samples are at hand, compare them with the model."""
        self.n_features_in_ = len(maps["M"])
        self._recover(moments, maps, problem)
        checks = self._checks(
            maps, problem, sample if sample is not None and len(sample) >= ENOUGH else None
        )
        del self._basis, self._tensor
        self.recovery_ = replace(self.recovery_, checks=tuple(checks), samples=float(maps["n"]))
        if doubts := self.recovery_.doubts(problem.parts, problem.k):
            warn_recovery(
                f"The model may not fit: {'; '.join(doubts)}. Compare other numbers of"
                f" {problem.parts} and other models, or give more data. [{self.recovery_}]"
            )
        return self

    def _checks(self, maps: Maps, problem: Latent, sample: Sample | None) -> list[Check]:
        """Comparisons of the data with the model; without samples, those that the maps allow."""
        return []

    def _components(self, tensor: Array, maps: Maps, problem: Latent) -> tuple[Array, Array]:
        """``ell_j`` and ``v_j`` (rows), from the whitened tensor."""
        spectrum = maps.get("singular", maps["spectrum"])
        ell, V, self.recovery_ = self._decomposed(tensor, spectrum, problem)
        self._basis, self._tensor = (ell, V), tensor
        if problem.order == 3 and not ell.min() > 1e-8 * ell.max():
            listed = ", ".join(f"{x:.3g}" for x in ell)
            raise InputError(
                f"The third moments hold fewer than {problem.k} {problem.parts}: the eigenvalues of"
                f" the tensor are {listed}, and all must be positive. Ask for fewer"
                f" {problem.parts}, or give more data."
            )
        return ell, V

    def _decomposed(
        self, tensor: Array, spectrum: Array, problem: Latent
    ) -> tuple[Array, Array, Recovery]:
        return decompose(tensor, spectrum, problem.lifted)

    def _mixture(self, tensor: Array, maps: Maps, problem: Latent) -> Mixture:
        """Weights and places of the components, from the whitened tensor."""
        ell, V = self._components(tensor, maps, problem)
        mass = 1.0 / ell**2
        if not problem.lifted:
            points = ell[:, None] * V @ maps["B"].T
            return Mixture(mass, float(mass.sum()), points @ maps["M"], points)
        return Mixture.about_mean(V, float(mass.sum()), maps["B"], problem.parts)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "recovery_")

    def _validated(self, X: Any, reset: bool) -> Any:
        """X, checked by scikit-learn: names of columns, their number, and arrays that are no tables
        of numbers.
        """
        if isinstance(X, tuple) and self.problem_type.input_tables > 1:
            return X
        if containers.is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        return validate_data(
            self, X, reset=reset, accept_sparse=True, ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1
        )  # fmt: skip

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # no classifier; but the checks of sparse input ask for these tags
        if hasattr(self, "predict_proba"):
            tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def _columns(self, X: Any) -> np.ndarray:
        """X as a dense table; its named columns must be those seen in fit, in that order."""
        self._check_fitted()
        return dense(containers.as_table(self._validated(X, reset=False), "X"))

    def _table(self, X: Any) -> Array:
        """X as a dense table of finite numbers with the columns seen in fit."""
        table = np.asarray(self._columns(X), dtype=float)
        if table.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {table.shape[1]} features, but {type(self).__name__} is expecting"
                f" {self.n_features_in_} features as input."
            )
        if not np.isfinite(table).all():
            row, column = np.argwhere(~np.isfinite(table))[0]
            raise InputError(
                f"Row {row}, column {column} of X is NaN or infinite; drop or fill such rows first."
            )
        return table


class Mixture(NamedTuple):
    """Components of a mixture.

    Attributes
    ----------
    weights : array (k,)
        Mixing weights as estimated; about the mean they add up to 1.
    mass : float
        Sum of ``1 / ell_j^2``: near 1 if the model fits.
    small : array (k, k)
        E[z | j], the components in the whitened space; about the mean the last column is 1.
    points : array (k, d)
        The means, or their differences to the mean of all rows.
    """

    weights: Array
    mass: float
    small: Array
    points: Array

    @staticmethod
    def about_mean(V: Array, mass: float, B: Array, parts: str) -> Mixture:
        """From the vectors ``v_j = sqrt(g_j) (M'(mu_j - m), 1)``: only their directions are used.

        The weights solve ``sum_j g_j = 1`` and ``sum_j g_j mu_j = m``; for orthogonal v_j they are
        the squares of the last entries.
        """
        last = V[:, -1]
        if (last < FAR).any():
            warn_recovery(
                f"A component has a share of about {max(float(last.min()), 0.0) ** 2:.1e} of the"
                " samples, so that its place is not determined: the data are too few, or not of"
                f" this model. Ask for fewer {parts}."
            )
        last = np.where(last < 0, np.minimum(last, -FAR), np.maximum(last, FAR))
        small = V / last[:, None]
        small[:, -1] = 1.0
        weights = solve_small(small.T, np.eye(len(V))[-1], parts)
        return Mixture(weights, mass, small, small[:, :-1] @ B.T)


def view_checks(
    maps: Maps, problem: Latent, sample: Sample, basis: tuple[Array, Array]
) -> list[Check]:
    """Comparisons of three views with independence given the hidden value."""
    chain = problem.rows_per_sample > 1
    index, lifted = misfit.probe(sample, chain), problem.lifted
    views = [read(view, index) for view in sample.views]
    used = [_used_columns(view) for view in views]
    checks = []
    if min(len(columns) for columns in used) <= WIDE:
        centred = [dense(view[:, columns]) for view, columns in zip(views, used, strict=True)]
        if lifted:  # symbols have one unit; scaled, rare ones would bring in the most noise
            centred = [
                misfit.of_unit_size(view - maps[f"mean{a}"][used[a - 1]])
                for a, view in enumerate(centred, 1)
            ]
        rank = problem.k - lifted
        pairs = [(centred[a], centred[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
        more = max(
            (misfit.remainder(a, b, rank) for a, b in pairs if rank < min(a.shape[1], b.shape[1])),
            default=-np.inf,
        )
        says = f"the views of a sample have more in common than {problem.k} {problem.parts} explain"
        checks.append(Check("rank", min(1.0, 3 * misfit.beyond(more)), says))
        if rank and misfit.remainder(*pairs[1], rank - 1) < SEEN:
            checks.append(
                Check(
                    "too many",
                    0.0,
                    f"the first and third views do not clearly show {problem.k} {problem.parts}",
                )
            )
    if problem.k > 1:
        ell, V = basis
        z = problem.reader(maps, "tensor")(*views)
        k = problem.k
        values = view_products(
            [z[:, i * k : (i + 1) * k] for i in range(3)], misfit.orthonormal(V), ell
        )
        values = misfit.block_means(values) if chain else values
        checks.append(Check("tensor", misfit.wald(values), NOT_INDEPENDENT))
    return checks


def _used_columns(view: Any) -> Indices:
    """Columns that have an entry: few of the symbols up to a large code may occur."""
    return np.unique(view.indices) if hasattr(view, "indices") else np.arange(view.shape[1])


def view_products(views: list[Array], V: Array, ell: Array) -> Array:
    """What the tensor of three whitened views does not have, sample by sample."""
    a, b, c = (view @ V.T for view in views)

    def pair(i: int, j: int) -> Array:
        return np.asarray(
            sum(x[:, i] * y[:, j] + x[:, j] * y[:, i] for x, y in ((a, b), (a, c), (b, c))) / 6.0
        )

    return misfit.off_diagonal(misfit.triple(a, b, c), pair, ell)


def solve_small(matrix: Array, right: Array, parts: str) -> Array:
    """Solve a k x k system; raise if its columns depend on each other."""
    try:
        return np.asarray(sla.solve(matrix, right, check_finite=False))
    except (sla.LinAlgError, ValueError) as error:
        raise InputError(
            f"The {parts} found depend on each other, so the rest cannot be solved for; ask for"
            f" fewer {parts}."
        ) from error


def as_distributions(rows: Array, subject: str, samples: float = np.inf) -> Array:
    """Rows with negative entries clipped and sum 1; warn if that changes more than sampling noise
    would.
    """
    sign = np.where(rows.sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
    rows = rows * sign
    positive = np.maximum(rows, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    negative = float(
        np.max((total - rows.sum(axis=1, keepdims=True)) / np.maximum(total, 1e-300), initial=0.0)
    )
    if negative > CLIPPED + NOISE / max(samples, 1.0) ** 0.5:
        warn_recovery(
            f"{subject} came out with up to {negative:.0%} negative mass, which was clipped: the"
            " data are too few, or not of this model."
        )
    return np.asarray(
        np.where(total > 0, positive / np.maximum(total, 1e-300), 1.0 / rows.shape[1])
    )


def positive_variances(variances: Array, common: float, subject: str) -> Array:
    """Variances raised to at least a small share of the common one; warn if some were smaller."""
    floor = FLOOR * max(common, 1e-300)
    if (variances < floor).any():
        listed = ", ".join(f"{x:.3g}" for x in variances)
        warn_recovery(
            f"{subject} came out as {listed}; those below {floor:.3g} were raised to it. The data"
            " are too few, or not of this model."
        )
    return np.maximum(variances, floor)


def spherical_log_density(X: Array, means: Array, variances: Array) -> Array:
    """``log N(x; mu_j, s_j^2 I)`` (n x k); far from the origin squares would differ in their last
    digits only.
    """
    centre = means.mean(axis=0)
    X, means = X - centre, means - centre
    squares = np.square(X).sum(axis=1)[:, None] - 2 * X @ means.T + np.square(means).sum(axis=1)
    return np.asarray(
        -0.5 * (np.maximum(squares, 0.0) / variances + X.shape[1] * np.log(2 * np.pi * variances))
    )
