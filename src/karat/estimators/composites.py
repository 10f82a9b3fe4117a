"""Estimators that hold others, or that need all rows for something other than moments.

VotingRegressor, MultiOutputRegressor, RegressorChain   every regressor inside is fitted by itself
DummyRegressor, DummyClassifier    read the target of all rows, and nothing else
class_weight="balanced"            counts all rows of every class
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import validate_data

from karat.core.coreset import Coreset
from karat.data import containers
from karat.errors import InputError
from karat.estimators.fitting import key_of, refuse
from karat.estimators.training_rows import ALL_ROWS, TrainingRows, numeric

Fit = Callable[..., tuple[Any, Coreset]]
TARGET_ONLY = "{name} reads the target only, so few rows would gain nothing."


def regressors_inside(composite: Any) -> list[Any]:
    """The regressors that a composite fits; raises if the parameters of the composite are not
    exact.
    """
    if key_of(composite) == "VotingRegressor":
        names = [name for name, _ in composite.estimators]
        if len(set(names)) < len(names):
            raise InputError(
                f"VotingRegressor: names of estimators occur twice: {names}.", argument="estimators"
            )
        if composite.weights is not None and len(composite.weights) != len(names):
            raise InputError(
                f"VotingRegressor has {len(names)} estimators but {len(composite.weights)}"
                " weights.",
                argument="weights",
            )
        return [model for _, model in composite.estimators if not _dropped(model)]
    if key_of(composite) == "RegressorChain" and composite.cv is not None:
        raise refuse(
            composite,
            "with cv every regressor is given predictions for single rows of folds; leave cv=None,"
            " or put karat.CoresetRegressor into the chain:"
            " RegressorChain(CoresetRegressor(Ridge()), cv=5)",
        )
    return [composite.estimator]


def _dropped(model: Any) -> bool:
    return isinstance(model, str) and model == "drop"


def fit_voting(voting: Any, rows: TrainingRows, fit: Fit) -> tuple[Any, Coreset]:
    """Fit a VotingRegressor, in place: every regressor by itself."""
    models = regressors_inside(voting)
    if not models:
        raise InputError("VotingRegressor: all estimators are 'drop'; pass at least one regressor.")
    shared = replace(rows, fits=len(models) * rows.fits)
    core = _set_models(voting, [fit(clone(model), shared) for model in models])
    fitted = iter(voting.estimators_)
    voting.named_estimators_ = Bunch(
        **{name: model if _dropped(model) else next(fitted) for name, model in voting.estimators}
    )
    _copy_names(voting.estimators_[0], voting)
    return voting, core


def fit_targets(several: Any, rows: TrainingRows, fit: Fit) -> tuple[Any, Coreset]:
    """Fit a MultiOutputRegressor, in place: every target by itself."""
    fits = [
        fit(clone(several.estimator), replace(rows, target=column.copy(), memo={}))
        for column in _targets(several, rows).T
    ]
    core = _set_models(several, fits)
    first = several.estimators_[0]
    if hasattr(first, "n_features_in_"):
        several.n_features_in_ = first.n_features_in_
    _copy_names(first, several)
    return several, core


def fit_chain(chain: Any, rows: TrainingRows, fit: Fit) -> tuple[Any, Coreset]:
    """Fit a RegressorChain, in place: every target from the columns and the targets before it."""
    targets = _targets(chain, rows)
    if containers.is_sparse(rows.X):
        raise InputError(
            "RegressorChain puts the targets beside the columns, which are sparse; pass"
            " X.toarray()."
        )
    rows = rows.alone()
    table = np.asarray(containers.as_table(numeric(rows.X), "X"), dtype=float)
    chain.order_ = _order_of_targets(chain, targets.shape[1])
    fits = []
    for place, target in enumerate(chain.order_):
        wider = np.hstack([table, targets[:, chain.order_[:place]]])
        link = replace(rows, table=wider, positions=None, target=targets[:, target], memo={})
        fits.append(fit(clone(chain.estimator), link))
    validate_data(chain, rows.X, skip_check_array=True)  # notes the number and names of the columns
    return chain, _set_models(chain, fits)


def _order_of_targets(chain: Any, count: int) -> np.ndarray:
    if chain.order is None:
        return np.arange(count)
    if isinstance(chain.order, str) and chain.order == "random":
        return np.asarray(check_random_state(chain.random_state).permutation(count))
    if sorted(chain.order) != list(range(count)):
        raise InputError(
            f"order={chain.order!r} does not name each of the {count} targets once; pass an order"
            f" of the numbers 0 to {count - 1}.",
            argument="order",
        )
    return np.asarray(chain.order)


def fit_to_target(dummy: Any, rows: TrainingRows) -> tuple[Any, Coreset]:
    """Fit a DummyRegressor or DummyClassifier, in place, to the target of all rows."""
    X = rows.X
    dummy.fit(X, rows.y, sample_weight=rows.sample_weight)
    return dummy, rows.as_they_are(TARGET_ONLY.format(name=type(dummy).__name__), X).core


def fit_with_balanced_classes(model: Any, rows: TrainingRows, fit: Fit) -> tuple[Any, Coreset]:
    """Fit a classifier with class_weight="balanced", in place; all rows are counted."""
    labels = np.asarray(rows.target)
    classes = np.unique(labels)
    setting = model.class_weight
    weights = compute_class_weight(setting, classes=classes, y=labels)
    model.class_weight = dict(zip(classes.tolist(), weights.tolist(), strict=True))
    model, core = fit(model, rows)
    model.class_weight = setting
    return model, core


def _targets(several: Any, rows: TrainingRows) -> np.ndarray:
    targets = np.asarray(rows.y, dtype=float)
    if targets.ndim == 1:
        raise InputError(
            f"{type(several).__name__} needs y with a column per target, but y has one dimension."
        )
    return targets


def _set_models(composite: Any, fits: list[tuple[Any, Coreset]]) -> Coreset:
    """Keep the fitted models; returns the first coreset of few rows, or the first of all rows."""
    composite.estimators_ = [model for model, _ in fits]
    few = [core for _, core in fits if core.certificate.method != ALL_ROWS]
    return few[0] if few else fits[0][1]


def _copy_names(model: Any, composite: Any) -> None:
    if hasattr(model, "feature_names_in_"):
        composite.feature_names_in_ = model.feature_names_in_
