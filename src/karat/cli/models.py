"""The models of ``karat train``, each of which trains on a coreset and on all rows.

Alpha is scikit-learn's: ridge and l_p add ``alpha |w|^p`` to the sum of losses, lasso and elastic
net to half their mean. Iterative solvers run to convergence, so that only the rows can cause a
difference between coreset and data.  Times are those of a fit at scikit-learn's own tolerance,
which is what people wait for.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from karat.cli.problems import KINDS
from karat.errors import InputError, MissingExtraError, NotExactError

if TYPE_CHECKING:
    import numpy as np

    from karat import Coreset

Value = TypeVar("Value")
CONVERGED = {"tol": 1e-12, "max_iter": 100_000}


class Model(StrEnum):
    """Names of the models; a latent model needs a coreset of its own problem."""

    OLS = "ols"
    RIDGE = "ridge"
    LASSO = "lasso"
    ELASTIC_NET = "elastic-net"
    LP = "lp"
    GAUSSIAN_MIXTURE = "gaussian-mixture"
    SINGLE_TOPIC = "single-topic"
    LATENT_DIRICHLET = "latent-dirichlet"
    HIDDEN_MARKOV = "hidden-markov"
    MULTI_VIEW = "multi-view"
    ICA = "ica"


LINEAR = (Model.OLS, Model.RIDGE, Model.LASSO, Model.ELASTIC_NET, Model.LP)
_MODEL_OF_PROBLEM = {"LeastSquares": Model.OLS} | {
    kind.name: Model(name.value) for name, kind in KINDS.items() if name.value in set(Model)
}


class Fitted(NamedTuple):
    """Learned parameters by name, and the time."""

    parameters: dict[str, np.ndarray]
    seconds: float


class Trainer(NamedTuple):
    """A model that trains on a coreset, or raises NotExactError, and on all rows (X, y, weights,
    lengths).
    """

    on_coreset: Callable[[Coreset], dict[str, np.ndarray]]
    on_rows: Callable[[Any, Any, Any, Any], dict[str, np.ndarray]]
    tolerance: float | None = None  # of the solver, if it is iterative
    usual: Trainer | None = None  # the same model at its default tolerance, which is timed

    def seconds_on_coreset(self, core: Coreset) -> float:
        """Time one fit, after one that imports and allocates what it needs."""
        usual = self.usual or self
        return _quietly(
            lambda: (usual.on_coreset(core), timed(lambda: usual.on_coreset(core))[1])[1]
        )

    def on_all_rows(self, rows: Any) -> Fitted:
        """Parameters at convergence, and the time of a fit at the default tolerance."""
        if self.usual is None:
            return Fitted(*timed(lambda: self.on_rows(*rows)))
        usual = self.usual
        return Fitted(self.on_rows(*rows), _quietly(lambda: timed(lambda: usual.on_rows(*rows))[1]))


def _quietly(job: Callable[[], Value]) -> Value:
    """Run a job without the warning that a solver stopped early: its result is not used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return job()


def _by_estimator(estimator: Any) -> Trainer:
    """A linear model of scikit-learn."""
    return Trainer(
        lambda core: _linear_parameters(core.fit(estimator)),
        lambda X, y, weights, _: _linear_parameters(estimator.fit(X, y, sample_weight=weights)),
    )


def _by_moments(problem: Any) -> Trainer:
    """A latent-variable model."""
    from karat import models

    kind = getattr(models, type(problem).__name__)
    accepted = kind().get_params()
    given = {name: value for name, value in vars(problem).items() if name in accepted}

    def on_rows(X: Any, _: Any, weights: Any, lengths: Any) -> dict[str, np.ndarray]:
        sequences = {} if lengths is None else {"lengths": lengths}
        return _learned(kind(**given).fit(X, sample_weight=weights, **sequences))

    return Trainer(lambda core: _learned(kind(**given).fit_coreset(core)), on_rows)


def trainer(
    core: Coreset, model: Model | None, alpha: float | None, l1_ratio: float | None, intercept: bool
) -> tuple[Model, Trainer]:
    """Make the model; the default is that of the coreset's problem.

    An option that the model does not have is an error.
    """
    problem = core.problem
    default = _MODEL_OF_PROBLEM.get(type(problem).__name__)
    model = model or default
    if model is None:
        raise InputError(f"Add --model: a coreset of {problem.describe()} has no default model.")
    _check_options(model, alpha, l1_ratio, intercept)
    if model not in LINEAR:
        if model is not default:
            raise NotExactError(
                f"A coreset of {problem.describe()} cannot train --model {model}; build one for"
                " that problem."
            )
        return model, _by_moments(problem)
    if alpha is None:
        alpha = getattr(problem, "alpha", None) if model is default else None
    if alpha is None and model is not Model.OLS:
        raise InputError(f"--model {model} needs --alpha.")
    intercept = intercept and getattr(problem, "fit_intercept", True)
    if model is Model.LP or core.correction is not None:
        return model, _by_problem(problem, model, default, alpha, intercept)
    exact = _by_estimator(_estimator(model, alpha, l1_ratio, intercept))
    if model not in (Model.LASSO, Model.ELASTIC_NET):
        return model, exact
    plain = _estimator(model, alpha, l1_ratio, intercept, converged=False)
    return model, exact._replace(
        tolerance=CONVERGED["tol"], usual=_by_estimator(plain)._replace(tolerance=plain.tol)
    )


def linear_estimator(
    model: Model, alpha: float | None, l1_ratio: float | None, intercept: bool
) -> Any:
    """Make a linear model of scikit-learn; an option that it does not have is an error."""
    if model not in LINEAR or model is Model.LP:
        raise InputError(
            f"--model {model} cannot be fitted by label; use ols, ridge, lasso or elastic-net."
        )
    _check_options(model, alpha, l1_ratio, intercept)
    if alpha is None and model is not Model.OLS:
        raise InputError(f"--model {model} needs --alpha.")
    return _estimator(model, alpha, l1_ratio, intercept)


def _check_options(
    model: Model, alpha: float | None, l1_ratio: float | None, intercept: bool
) -> None:
    linear = model in LINEAR
    given = {
        "--alpha": alpha is not None,
        "--l1-ratio": l1_ratio is not None,
        "--no-intercept": not intercept,
    }
    takes = {
        "--alpha": linear and model is not Model.OLS,
        "--l1-ratio": model is Model.ELASTIC_NET,
        "--no-intercept": linear,
    }
    for option, takes_it in takes.items():
        if given[option] and not takes_it:
            raise InputError(f"{option} does not apply to --model {model}.")
    if alpha is not None and not 0 <= alpha < math.inf:
        raise InputError(f"--alpha must be a number of at least 0, not {alpha:g}.")


def _by_problem(
    problem: Any, model: Model, default: Model | None, alpha: float | None, intercept: bool
) -> Trainer:
    """The minimiser of the coreset's own problem, with its correction; alpha may differ only if
    nothing was absorbed.
    """
    import numpy as np

    from karat.problems.absorb.minimise import minimise_power

    if model is not default:
        serves = Model.LP if model is Model.LP else "least-squares"
        raise NotExactError(
            f"A coreset of {problem.describe()} cannot train --model {model}; build one with"
            f" --problem {serves}."
        )
    if problem.absorb is not None and (alpha, intercept) != (problem.alpha, problem.fit_intercept):
        raise NotExactError(
            "The regulariser has absorbed a part of the data, so this coreset is exact only for"
            f" alpha = {problem.alpha:g} {'with' if problem.fit_intercept else 'without'} an"
            " intercept."
        )
    served = replace(problem, alpha=alpha, fit_intercept=intercept)

    def on_rows(X: Any, y: Any, weights: Any, _: Any) -> dict[str, np.ndarray]:
        weights = np.ones(len(X)) if weights is None else weights
        return _shaped(*minimise_power(X, y, weights, served.power, served.penalty, intercept))

    return Trainer(lambda core: _shaped(*served.solve(core)), on_rows)


def _estimator(
    model: Model,
    alpha: float | None,
    l1_ratio: float | None,
    intercept: bool,
    converged: bool = True,
) -> Any:
    try:
        from sklearn import linear_model as skl

        import karat.estimators.fitting  # noqa: F401  (imported before the clock starts)
    except ImportError as error:
        raise MissingExtraError(f"--model {model}", "sklearn") from error
    if model is Model.OLS:
        return skl.LinearRegression(fit_intercept=intercept)
    if model is Model.RIDGE:
        return skl.Ridge(alpha, fit_intercept=intercept)
    solver = CONVERGED if converged else {}
    if model is Model.LASSO:
        return skl.Lasso(alpha, fit_intercept=intercept, **solver)
    share = 0.5 if l1_ratio is None else l1_ratio
    return skl.ElasticNet(alpha, l1_ratio=share, fit_intercept=intercept, **solver)


def timed(job: Callable[[], Value]) -> tuple[Value, float]:
    """Run a job and measure its seconds."""
    start = time.perf_counter()
    return job(), time.perf_counter() - start


def _linear_parameters(estimator: Any) -> dict[str, np.ndarray]:
    return _shaped(estimator.coef_.T, estimator.intercept_)


def _shaped(coef: Any, intercept: Any) -> dict[str, np.ndarray]:
    """Reshape coefficients (d,) or (d, T) to a row per target, with an intercept each."""
    import numpy as np

    rows = np.atleast_2d(np.asarray(coef).T)
    return {"coef": rows, "intercept": np.broadcast_to(intercept, len(rows))}


def _learned(model: Any) -> dict[str, np.ndarray]:
    """The fitted arrays of a learner; a tuple of arrays becomes one entry per view."""
    import numpy as np

    arrays: dict[str, np.ndarray] = {}
    for name, value in vars(model).items():
        if not name.endswith("_") or name.startswith(("_", "n_")):
            continue
        parts = (
            {f"{name}{i}": v for i, v in enumerate(value)}
            if isinstance(value, tuple)
            else {name: value}
        )
        arrays |= {key: part for key, part in parts.items() if isinstance(part, np.ndarray)}
    return arrays
