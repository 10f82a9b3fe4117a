"""Fit on a coreset: the checks of estimators, scorers and splitters, and weights in every step.

An estimator is fitted only if the registry lists it, its parameters break no rule, and the coreset
keeps every moment that it reads.  Every step of a pipeline gets its weights by name.  The functions
that split and join pipelines are here too, as are the candidates of a search and :func:`setting`,
which tells them apart.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Hashable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from karat.compat.sklearn import check_parameters, score_function, weight_request
from karat.core.synthetic import SYNTHETIC
from karat.data import containers
from karat.errors import InputError, NotExactError
from karat.estimators import registry
from karat.estimators.weighted.regressors import GREEDY, READS, decided_by_rounding, fit_balanced
from karat.problems import GroupedLogistic, Transformed

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

SCORER_COLLECTIONS = (dict, list, tuple, set)  # types of scoring= that hold several scorers


def fit_on_core(core: Coreset, estimator: Any) -> Any:
    """See :meth:`karat.Coreset.fit`."""
    check_is_estimator(estimator)
    core = replace(core, X=containers.on_host(core.X), y=containers.on_host(core.y))
    transformers, leaf = split_pipeline(estimator)
    if key_of(leaf) in registry.SEARCHES or key_of(leaf) in registry.SELECTS_ITSELF:
        raise refuse(
            leaf,
            "its folds are parts of the full data; use karat.CoresetRegressor, which makes one"
            " coreset per fold",
        )
    if (
        key_of(leaf) in registry.LOGISTIC
        and isinstance(core.problem, GroupedLogistic)
        and transformers is None
    ):
        check_listed(leaf, registry.LOGISTIC)
        if leaf.fit_intercept and not core.problem.fit_intercept:
            raise NotExactError(
                f"{type(leaf).__name__} has an intercept; build with GroupedLogistic.of(X,"
                " fit_intercept=True)."
            )
        return fit_weighted(estimator, core.X, core.y, core.weights)
    check_listed(leaf, registry.SQUARED_LOSS, registry.BY_CLASS, registry.OF_COVARIANCE)
    if is_balanced(leaf):
        raise refuse(leaf, registry.CLASS_WEIGHT.reason)
    steps = [] if transformers is None else [step for _, step in transformers.steps]
    learning = [step for step in steps if key_of(step) != "StandardScaler"]
    if learning and core.rows == SYNTHETIC:
        raise refuse(
            learning[0],
            "synthetic rows keep squares of linear forms of the columns they were made of; apply it"
            " to all rows and make rows of the columns that it gives, or pass the pipeline and the"
            " data to karat.CoresetRegressor",
        )
    if learning:
        raise refuse(
            estimator,
            "this coreset was built on the columns as they are; pass the whole pipeline to"
            " karat.CoresetRegressor",
        )
    y = core.y
    if key_of(leaf) in registry.BY_CLASS:
        if core.groups is None or core.y is not None:
            raise refuse(
                leaf,
                "it needs the moments of every class; build with karat.coreset(X,"
                " problem=Moments(2), groups=labels)",
            )
        y = core.groups
    check_kept(core, leaf, centred=transformers is not None)
    check_steps(core, leaf)
    return fit_weighted(estimator, core.X, y, core.weights)


def check_is_estimator(thing: Any, inside: str = "") -> None:
    """Raise unless something can be fitted; a class or a name cannot."""
    if isinstance(thing, type):
        raise InputError(
            f"{inside}{thing.__name__} is a class; pass an estimator, such as {thing.__name__}()."
        )
    if not hasattr(thing, "fit") or not hasattr(thing, "get_params"):
        raise InputError(f"{inside}{thing!r} is not an estimator; pass one, such as Ridge().")
    if key_of(thing) == "Pipeline":
        for name, step in thing.steps:
            if isinstance(step, type):
                check_is_estimator(step, f"Step {name!r}: ")
    elif key_of(thing) in registry.SEARCHES:
        check_is_estimator(thing.estimator, f"{type(thing).__name__}: ")


def check_kept(core: Coreset, leaf: Any, centred: bool) -> None:
    """Refuse a coreset that lacks a moment which the estimator reads."""
    name, problem = type(leaf).__name__, core.problem
    if isinstance(problem, Transformed):
        raise refuse(
            leaf,
            "this coreset was built on transformed columns; pass the pipeline to"
            " karat.CoresetRegressor",
        )
    if key_of(leaf) in registry.SQUARED_LOSS and core.y is None:
        raise NotExactError(f"{name} needs a target, but the coreset was built without y.")
    if core.rows == SYNTHETIC:  # all second moments, the means and the total weight are kept
        return
    if not problem.keeps_squares:
        raise NotExactError(
            f"{name} needs second moments (the squared loss), which a coreset of"
            f" {problem.describe()} does not keep; use LeastSquares() or Moments(2)."
        )
    if core.absorbed is not None:
        raise NotExactError(
            "A part of the data was absorbed into the regulariser; use problem.solve(core) instead"
            f" of {name}."
        )
    if (centred or getattr(leaf, "fit_intercept", True)) and not problem.shifts:
        raise NotExactError(
            f"{name} centres the columns, but {problem.describe()} kept no first moments; build"
            " with fit_intercept=True."
        )
    if not problem.keeps_total and key_of(leaf) not in ("LinearRegression", "Ridge"):
        raise NotExactError(
            f"{name} divides by the total weight, which this coreset does not keep; build with"
            " total_weight=True."
        )


def check_steps(core: Coreset, leaf: Any) -> None:
    """Refuse made rows where rounding would decide which columns an estimator chooses."""
    if key_of(leaf) in GREEDY and core.rows == SYNTHETIC:
        reason = decided_by_rounding(leaf, str(key_of(leaf)), core.X, core.weights)
        if reason:
            raise NotExactError(
                f"{reason} Leave such columns out, or pass all rows to karat.CoresetRegressor."
            )


def fit_weighted(estimator: Any, X: Any, y: Any, weights: Any) -> Any:
    """Fit a plain estimator or a flat pipeline, in place, with weights in every step that takes
    them; None: with no weights.

    Estimators with ``copy_X=False``, which overwrite the rows, get copies of them.
    """
    X, y = (containers.in_double(containers.on_host(table)) for table in (X, y))
    if overwrites(estimator):
        X, y = containers.copied(X), containers.copied(y)
    with config_context(enable_metadata_routing=False):
        leaf = estimator.steps[-1][1] if key_of(estimator) == "Pipeline" else estimator
        if key_of(leaf) in READS:  # it takes no weights
            if leaf is not estimator:
                fitted = fit_weighted(estimator[:-1], X, y, weights)
                estimator.steps, X = [*fitted.steps, estimator.steps[-1]], fitted.transform(X)
            fit_balanced(leaf, str(key_of(leaf)), X, y, weights)
            return estimator
        if leaf is estimator:
            return estimator.fit(X, y, sample_weight=weights)
        options = {
            f"{name}__sample_weight": np.array(weights)
            for name, step in estimator.steps
            if weights is not None and _accepts_weights(step.__class__)
        }
        return estimator.fit(X, y, **options)


def is_balanced(model: Any) -> bool:
    """Whether a classifier weighs classes by their number of rows."""
    value = getattr(model, "class_weight", None)
    return isinstance(value, str) and value == "balanced"


def overwrites(estimator: Any) -> bool:
    """Whether a parameter lets the estimator write into its input."""
    parameters = estimator.get_params(deep=True).items()
    return any(
        name.split("__")[-1] in ("copy", "copy_X") and value is False for name, value in parameters
    )


def nested_estimators(estimator: Any) -> list[Any]:
    """The estimator and all estimators among its parameters."""
    return [
        estimator,
        *(
            value
            for value in estimator.get_params(deep=True).values()
            if hasattr(value, "get_params")
        ),
    ]


@cache
def _accepts_weights(kind: Hashable) -> bool:
    return hasattr(kind, "fit") and bool(has_fit_parameter(kind, "sample_weight"))


def key_of(thing: Any) -> str | None:
    """The name of an object's class in the registry, or None for classes of other packages and
    subclasses.
    """
    home, name = type(thing).__module__.split(".")[0], type(thing).__name__
    return None if home not in registry.HOMES else name if home == "sklearn" else f"karat.{name}"


def refuse(thing: Any, reason: str) -> NotExactError:
    """The error for an object that is not exact on a coreset."""
    return NotExactError(
        f"{type(thing).__name__} would not give the answer of the full data: {reason}."
    )


def unknown(thing: Any) -> NotExactError:
    """The error for an object that is not listed."""
    name = type(thing).__name__
    if name in registry.WITH_WEIGHTS:
        reason = (
            f"it does not take (or fully use) sample_weight; {registry.WITH_WEIGHTS[name]} does,"
            " and gives the same answer"
        )
    elif name in registry.WHY_NOT:
        reason = registry.WHY_NOT[name]
    elif hasattr(thing, "tree_") or "Tree" in name or "Forest" in name or "Boosting" in name:
        reason = "where a tree splits depends on the order of all rows, not on moments"
    else:
        return NotExactError(
            f"{name} is not known to depend on kept moments only, so its answer on a coreset may"
            " differ from the full data's. If you know that a problem keeps what it needs, pass"
            " that problem: CoresetRegressor(estimator, problem=...)."
        )
    return refuse(thing, reason)


def check_listed(estimator: Any, *tables: dict[str, tuple[registry.Rule, ...]]) -> None:
    """Refuse an estimator that is in none of the tables, or whose parameters break a rule."""
    key = key_of(estimator)
    for table in tables:
        if key in table:
            for rule in table[key]:
                value = getattr(estimator, rule.parameter, rule)
                if value is not rule and _refused(value, rule.refused):
                    raise refuse(estimator, rule.reason.format(value=value))
            return
    raise unknown(estimator)


def _refused(value: Any, refused: Any) -> bool:
    if isinstance(refused, registry.Except):
        return value not in refused
    if refused is registry.GIVEN:
        return value is not None
    return hasattr(value, "__array__") if refused is registry.ARRAY else value in refused


def check_splitter(cv: Any) -> None:
    """Refuse leave-one-out and leave-p-out."""
    name = type(cv).__name__
    if name in ("LeaveOneOut", "LeavePOut"):
        raise refuse(cv, f"{registry.WHY_NOT[name]}; use KFold")


def check_scorers(scoring: Any, weighted: bool) -> None:
    """Refuse a scorer that takes no sample_weight if there are sample weights."""
    if not weighted or scoring is None:
        return
    for scorer in scorers_by_name(scoring).values():
        function = score_function(scorer)
        names = inspect.signature(function).parameters
        takes = "sample_weight" in names or any(p.kind is p.VAR_KEYWORD for p in names.values())
        if not takes and weight_request(scorer, "score") is not False:
            name = getattr(function, "__name__", str(function))
            raise refuse(
                scorer,
                f"the score {name} takes no sample_weight, but the data has weights; choose another"
                " scoring",
            )


def scorers_by_name(scoring: Any) -> dict[str, Any]:
    """Scorers by name; a single one is called "score"."""
    if isinstance(scoring, dict):
        return {name: get_scorer(scorer) for name, scorer in scoring.items()}
    if isinstance(scoring, SCORER_COLLECTIONS):
        return {name: get_scorer(name) for name in scoring}
    return {"score": get_scorer(scoring)}


class _Itself:
    """A key that is equal for the same object only; it holds the object, so that its id is not
    used again.
    """

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.thing is self.thing


def setting(thing: Any) -> Hashable:
    """A key of an unfitted estimator: its class and parameters.

    Values are compared by their hashes; those that have none, such as lambdas, by identity.
    """
    if hasattr(thing, "get_params") and not isinstance(thing, type):
        return type(thing), tuple(
            (name, setting(value)) for name, value in sorted(vars(thing).items())
        )
    if isinstance(thing, list | tuple):
        return type(thing), tuple(map(setting, thing))
    if isinstance(thing, str | int | None):
        return type(thing), thing
    if isinstance(thing, float):
        return type(thing), thing.hex()  # NaN differs from itself
    try:
        return str(joblib.hash(thing))
    except Exception:  # joblib raises whatever pickling raises
        return _Itself(thing)


def candidates(search: Any, random_source: Any = None) -> list[Any]:
    """Every estimator that a search will fit, with valid parameters.

    Parameters
    ----------
    search : search
    random_source : int or RandomState, optional
        Where a random search draws from, which changes it; by default a copy of the search's own.
    """
    if hasattr(search, "param_grid"):
        drawn = list(ParameterGrid(search.param_grid))
    else:
        if random_source is None:
            random_source = copy.deepcopy(random_source_of(search))
        sampler = ParameterSampler(
            search.param_distributions, _count(search), random_state=random_source
        )
        drawn = list(sampler)
        if hasattr(search, "n_candidates"):
            # A halving search reads its candidates once before it lists them.
            drawn = list(sampler)
    estimators, valid = [], set()
    for parameters in drawn:
        candidate = with_parameters(search.estimator, parameters)
        for part in nested_estimators(candidate):
            if id(part) not in valid:
                check_parameters(part)  # once per candidate, here, rather than in each of its fits
                valid.add(id(part))
        estimators.append(candidate)
    return estimators


def random_source_of(search: Any) -> Any:
    """Where a random search draws from: an integer seed, or a RandomState."""
    state = search.random_state
    return state if isinstance(state, int | np.integer) else check_random_state(state)


def _count(search: Any) -> int:
    """How many candidates a random search draws."""
    count = search.n_iter if hasattr(search, "n_iter") else search.n_candidates
    if count != "exhaust":
        return int(count)
    least = 1 if isinstance(search.min_resources, str) else search.min_resources
    if isinstance(search.max_resources, str):
        raise InputError(
            f"max_resources must be an integer if the resource is {search.resource!r}.",
            argument="max_resources",
        )
    return int(search.max_resources) // int(least)


def with_parameters(estimator: Any, parameters: dict[str, Any]) -> Any:
    """A copy of an estimator with other parameters; transformers of a pipeline that none of them
    changes are shared.
    """
    if key_of(estimator) == "Pipeline":
        *before, (last, leaf) = estimator.steps
        if hasattr(leaf, "get_params") and all(name.startswith(f"{last}__") for name in parameters):
            of_leaf = {name.removeprefix(f"{last}__"): value for name, value in parameters.items()}
            pipeline = copy.copy(estimator)
            pipeline.steps = [*before, (last, clone(leaf).set_params(**of_leaf))]
            return pipeline
    return clone(estimator).set_params(**parameters)


def join_pipeline(pipeline: Any, transformers: Any, leaf: Any) -> Any:
    """A pipeline, in place, of fitted transformers (as :func:`split_pipeline` took them out) and a
    fitted estimator.
    """
    fitted = dict(transformers.steps)
    *steps, (last, _) = pipeline.steps
    pipeline.steps = [(name, fitted.get(name, step)) for name, step in steps] + [(last, leaf)]
    return pipeline


def split_pipeline(estimator: Any) -> tuple[Pipeline | None, Any]:
    """The transformers of a pipeline (or None) and the estimator behind them."""
    if key_of(estimator) == "Pipeline":
        steps = [step for step in estimator.steps[:-1] if step[1] not in registry.UNCHANGED]
        return (Pipeline(steps) if steps else None), estimator.steps[-1][1]
    return None, estimator


def step_ids(transformers: Any) -> tuple[int, ...]:
    """The ids of the steps of a pipeline of transformers."""
    return () if transformers is None else tuple(id(step) for _, step in transformers.steps)
