"""The base class of learners: one way from samples to moments, and from moments to parameters.

    fit(X)              maps(X)            -> moments(X; maps)         -> parameters
    fit_coreset(core)   the stored maps    -> moments(kept rows; maps) -> parameters

The last two arrows are the same code, so equal moments give equal parameters.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from scipy import linalg as sla
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted, validate_data

from karat.core.construct import explaining_nan, read_sample
from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.transformed import dense
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError, plural, several
from karat.models import number
from karat.models.misfit import Check
from karat.models.recovery import NOISE, Recovery, warn_recovery
from karat.models.tensor import decompose
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample

# of the spread of the means: variances that are zero up to rounding, and the smallest that is used
ROUNDING, SMALLEST = 1e-9, 1e-12
FLOOR = 1e-3  # smallest variance, relative to the common one, that a component is given
FAR = 1e-3  # smallest last entry of a whitened component: its square is the share of the component
AUTO = "auto"  # as many components, topics, states or sources as the data show
ENOUGH = 100  # samples below which nothing is compared
CLIPPED = 0.05  # negative mass of an estimated distribution beyond which a warning is due


AnyLearner = TypeVar("AnyLearner", bound="Learner")


class Learner(BaseEstimator):
    """Base class: subclasses name their problem and turn moments into parameters.

    Attributes
    ----------
    recovery_ : Recovery
        How well the moments fit the model.
    n_components_ : int
        Number of components, topics, states or sources.
    n_features_in_ : int or tuple of int
        Columns seen.
    """

    problem_type: ClassVar[type[Latent]]
    instead: ClassVar[str] = "other models"  # what may serve better where the model does not fit
    recovery_: Recovery
    n_components_: int
    n_features_in_: Any

    @abstractmethod
    def _problem(self, X: Any = None, sample_weight: Any = None, lengths: Any = None) -> Latent:
        """The problem with this estimator's parameters; the data may decide some of them."""

    def _number(self, X: Any, sample_weight: Any, one: Latent, lengths: Any = None) -> int:
        """The number of components, topics or states; "auto" is what the data show, or what a
        coreset was built for.

        ``one``: the problem with a single one of them.
        """
        name = fields(one)[0].name  # type: ignore[arg-type]
        given = getattr(self, name)
        if not isinstance(given, str):
            return given  # type: ignore[no-any-return]
        if given != AUTO:
            raise InputError(
                f'{name} must be an integer or "{AUTO}", not {given!r}.', argument=name
            )
        if isinstance(X, Coreset):
            return X.problem.k  # type: ignore[attr-defined, no-any-return]
        return number.number_shown(one, X, sample_weight, lengths)

    @abstractmethod
    def _recover(self, moments: dict[str, Array], maps: Maps, problem: Latent) -> None:
        """Set the fitted attributes."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from data; y is ignored."""
        return self._fit(X, sample_weight)._warned()

    def _fit(self, X: Any, sample_weight: Any, lengths: Any = None) -> Self:
        if isinstance(X, Coreset):
            raise InputError("fit takes rows; use fit_coreset(core) for a coreset.", argument="X")
        X = self._validated(X, reset=True)
        problem = self._problem(X, sample_weight, lengths)
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
        return self._learn(wanted.statistics(kept, maps), maps, wanted)._warned()

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
        values = self._problem(core).params() | {
            "keep": core.problem.keep,
            "total_weight": core.problem.total_weight,
        }
        return self.problem_type.from_params(values)  # type: ignore[return-value]

    def _learn(
        self, moments: dict[str, Array], maps: Maps, problem: Latent, sample: Sample | None = None
    ) -> Self:
        """Parameters from moments; if the samples are at hand, compare them with the model."""
        self.n_features_in_, self.n_components_ = len(maps["M"]), problem.k
        self._notes: list[str] = []
        self._impossible: list[str] = []
        self._recover(moments, maps, problem)
        if sample is not None and len(sample) < ENOUGH:
            few, why = several(len(sample), "sample"), f"fewer than {ENOUGH} samples"
            checks = [Check("fit", None, why)]
            self._notes.append(f"only {few}; of {why} nothing is compared")
        else:
            checks = self._checks(maps, problem, sample)
        self.recovery_ = replace(
            self.recovery_,
            checks=tuple(checks),
            samples=float(maps["n"]),
            notes=tuple(self._notes),
            impossible=tuple(self._impossible),
        )
        del self._basis, self._tensor, self._notes, self._impossible
        return self

    def _warned(self, instead: str | None = None, done: str = "") -> Self:
        """Warn if anything speaks against the model."""
        part, k = self.problem_type.part, self.n_components_
        if verdict := self.recovery_.verdict(part, k, instead or self.instead, done):
            warn_recovery(f"{verdict} [{self.recovery_}]")
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
                f"The third moments hold fewer than {several(problem.k, problem.part)}: the"
                f" eigenvalues of the tensor are {listed}, and all must be positive. Ask for fewer"
                f" {plural(problem.part)}, or give more data."
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
        last = V[:, -1]
        if (last < FAR).any():
            self._notes.append(
                f"a component has a share of about {max(float(last.min()), 0.0) ** 2:.1e} of the"
                " samples, so that its place is not determined"
            )
        return Mixture.about_mean(V, float(mass.sum()), maps["B"], problem.part)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "recovery_")

    def _validated(self, X: Any, reset: bool) -> Any:
        """X, checked by scikit-learn: names of columns, their number, and arrays that are no tables
        of numbers.
        """
        if isinstance(X, tuple) and self.problem_type.input_tables > 1:
            return X
        plain = isinstance(X, np.ndarray) and not np.ma.isMaskedArray(X)
        if not (plain or isinstance(X, list | tuple) or sparse.issparse(X)):
            containers.as_table(X, "X")  # what is no table, or has masked values, is refused here
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
        check_finite(table, "X")
        return table


def check_finite(table: Array, name: str) -> None:
    """Raise if a table holds NaN or infinity."""
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"Row {row}, column {column} of {name} is NaN or infinite; drop or fill such rows"
            " first."
        )


def is_text(X: Any) -> bool:
    """Whether X is text: an array, or a list or series."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "SU":
        return True
    if not hasattr(X, "__len__") or isinstance(X, str) or containers.dimensions(X) != 1:
        return False
    return len(X) > 0 and isinstance(next(iter(X)), str)


def fit_quietly(learner: AnyLearner, X: Any, lengths: Any = None) -> AnyLearner:
    """Fit a learner to rows, without a warning of what its checks say."""
    return learner._fit(X, None, lengths)


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
    def about_mean(V: Array, mass: float, B: Array, part: str) -> Mixture:
        """From the vectors ``v_j = sqrt(g_j) (M'(mu_j - m), 1)``: only their directions are used.

        The weights solve ``sum_j g_j = 1`` and ``sum_j g_j mu_j = m``; for orthogonal v_j they are
        the squares of the last entries.
        """
        last = V[:, -1]
        last = np.where(last < 0, np.minimum(last, -FAR), np.maximum(last, FAR))
        small = V / last[:, None]
        small[:, -1] = 1.0
        weights = solve_small(small.T, np.eye(len(V))[-1], part)
        return Mixture(weights, mass, small, small[:, :-1] @ B.T)


def solve_small(matrix: Array, right: Array, part: str) -> Array:
    """Solve a k x k system; raise if its columns depend on each other."""
    try:
        return np.asarray(sla.solve(matrix, right, check_finite=False))
    except (sla.LinAlgError, ValueError) as error:
        raise InputError(
            f"The {plural(part)} found depend on each other, so the rest cannot be solved for; ask"
            f" for fewer {plural(part)}."
        ) from error


def as_distributions(rows: Array, subject: str, notes: list[str], samples: float = np.inf) -> Array:
    """Rows with negative entries clipped and sum 1; a note if that changes more than sampling noise
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
        notes.append(
            f"{subject} came out with up to {negative:.0%} negative mass, which was clipped"
        )
    return np.asarray(
        np.where(total > 0, positive / np.maximum(total, 1e-300), 1.0 / rows.shape[1])
    )


def common_variance(mixture: Mixture, variances: Array) -> float | None:
    """The mean variance of the states of a chain; None if it is negative beyond rounding."""
    spread = float(np.square(mixture.points).mean())
    common = float(mixture.weights @ variances / mixture.weights.sum())
    return max(common, SMALLEST * spread) if common >= -ROUNDING * spread else None


def positive_variances(variances: Array, common: float, subject: str, notes: list[str]) -> Array:
    """Variances raised to at least a small share of the common one; a note if some were smaller."""
    floor = FLOOR * max(common, 1e-300)
    if (variances < floor).any():
        listed = ", ".join(f"{x:.3g}" for x in variances)
        notes.append(f"{subject} came out as {listed}; those below {floor:.3g} were raised to it")
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
