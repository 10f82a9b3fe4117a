"""Estimators that hold others, or read the target alone: each part is fitted to the answer of all
rows.

VotingRegressor, MultiOutputRegressor, RegressorChain   every regressor inside is fitted by itself
DummyRegressor, DummyClassifier    read the target only, of all rows
class_weight="balanced"            the weights of the classes are those of all rows
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

from karat.core.all_rows import ALL_ROWS
from karat.core.coreset import Coreset
from karat.data import containers
from karat.errors import InputError
from karat.estimators.fitting import key_of, refuse
from karat.estimators.training_rows import TrainingRows, numeric

Fit = Callable[..., tuple[Any, Coreset]]
TARGET_ONLY = "{name} reads the target only: there is nothing to gain from few rows."


def regressors_inside(composite: Any) -> list[Any]:
    """The regressors that a composite fits; refused if its own parameters do not give one
    answer.
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
    found = [fit(clone(model), shared) for model in models]
    voting.estimators_ = [model for model, _ in found]
    left = iter(voting.estimators_)
    voting.named_estimators_ = Bunch(
        **{name: model if _dropped(model) else next(left) for name, model in voting.estimators}
    )
    _note_names(voting, voting.estimators_[0])
    return voting, _core_of(found)


def fit_targets(several: Any, rows: TrainingRows, fit: Fit) -> tuple[Any, Coreset]:
    """Fit a MultiOutputRegressor, in place: every target by itself."""
    targets = _targets(several, rows)
    found = [
        fit(clone(several.estimator), replace(rows, target=column.copy(), memo={}))
        for column in targets.T
    ]
    several.estimators_ = [model for model, _ in found]
    first = several.estimators_[0]
    if hasattr(first, "n_features_in_"):
        several.n_features_in_ = first.n_features_in_
    _note_names(several, first)
    return several, _core_of(found)


def fit_chain(chain: Any, rows: TrainingRows, fit: Fit) -> tuple[Any, Coreset]:
    """Fit a RegressorChain, in place: every target from the columns and the targets before it."""
    targets = _targets(chain, rows)
    if containers.is_sparse(rows.X):
        raise InputError(
            "RegressorChain puts the targets beside the columns, which are sparse; pass"
            " X.toarray()."
        )
    own = rows.alone()
    table = np.asarray(containers.as_table(numeric(own.X), "X"), dtype=float)
    chain.order_ = _order_of_targets(chain, targets.shape[1])
    found = []
    for place, target in enumerate(chain.order_):
        wider = np.hstack([table, targets[:, chain.order_[:place]]])
        part = replace(own, table=wider, positions=None, target=targets[:, target], memo={})
        found.append(fit(clone(chain.estimator), part))
    chain.estimators_ = [model for model, _ in found]
    validate_data(chain, own.X, skip_check_array=True)  # the number and names of the columns
    return chain, _core_of(found)


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
    """Fit a classifier with class_weight="balanced", in place: the number of rows is counted of
    all.
    """
    labels = np.asarray(rows.target)
    classes = np.unique(labels)
    own = model.class_weight
    weights = compute_class_weight(own, classes=classes, y=labels)
    model.class_weight = dict(zip(classes.tolist(), weights.tolist(), strict=True))
    model, core = fit(model, rows)
    model.class_weight = own  # the user's setting
    return model, core


def _targets(several: Any, rows: TrainingRows) -> np.ndarray:
    targets = np.asarray(rows.y, dtype=float)
    if targets.ndim == 1:
        raise InputError(
            f"{type(several).__name__} needs y with a column per target, but y has one dimension."
        )
    return targets


def _core_of(found: list[tuple[Any, Coreset]]) -> Coreset:
    """The first coreset of few rows, or the first."""
    few = [core for _, core in found if core.certificate.method != ALL_ROWS]
    return (few or [core for _, core in found])[0]


def _note_names(composite: Any, first: Any) -> None:
    if hasattr(first, "feature_names_in_"):
        composite.feature_names_in_ = first.feature_names_in_
