"""Private names of scikit-learn: the function of a scorer, parameter checks, metadata requests, and
fitted state.
"""

from __future__ import annotations

from typing import Any

import sklearn
from sklearn.utils.fixes import parse_version

# From 1.9.1 on discriminants divide scatters by the number of rows, before by so many less: the
# number of classes (linear, solver "svd"), or one (quadratic).
DIVIDES_BY_ROWS = parse_version(sklearn.__version__) >= parse_version("1.9.1")
SCORER = ("_score_func", "_sign", "_kwargs", "_response_method")  # what a scorer computes
# of a ridge model
FITTED = (
    "coef_",
    "intercept_",
    "n_features_in_",
    "feature_names_in_",
    "classes_",
    "_label_binarizer",
)


def is_scorer(scorer: Any) -> bool:
    """Whether a scorer was made by ``make_scorer``: it looks at predictions only."""
    return hasattr(scorer, "_score_func")


def score_function(scorer: Any) -> Any:
    """The function that a scorer calls with targets and predictions; a scorer of the user's own is
    that function itself.
    """
    return getattr(scorer, "_score_func", scorer)


def same_score(first: Any, second: Any) -> bool:
    """Whether two scorers of ``make_scorer`` compute the same number."""
    return type(first) is type(second) and all(
        getattr(first, name) == getattr(second, name) for name in SCORER
    )


def check_parameters(estimator: Any) -> None:
    """Check the parameters of an estimator as its ``fit`` would, if it is one that does."""
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()


def weight_request(thing: Any, method: str = "fit") -> Any:
    """The request of sample_weight made by ``set_fit_request`` or ``set_score_request``: True,
    False, an alias, or None.

    The public method fails for some meta-estimators.
    """
    request = getattr(getattr(thing, "_metadata_request", None), method, None)
    return None if request is None else request.requests.get("sample_weight")


def copy_fitted(model: Any, other: Any) -> None:
    """Copy the coefficients, feature names and classes of a fitted ridge model to another."""
    for name in FITTED:
        if hasattr(model, name) and not isinstance(getattr(type(other), name, None), property):
            setattr(other, name, getattr(model, name))


def set_means_of_pls(model: Any, x_mean: Any, y_mean: Any) -> None:
    """Set the column means of a PLSRegression of centred rows, and remove scores of synthetic
    rows.
    """
    model._x_mean, model._y_mean = x_mean, y_mean.reshape(-1)
    model.intercept_ = model._y_mean
    for name in ("_x_scores", "_y_scores", "x_scores_", "y_scores_"):
        vars(model).pop(name, None)


def set_classes(ridge: Any, binarizer: Any) -> None:
    """Set the classes of a ridge classifier to those of a fitted LabelBinarizer."""
    ridge._label_binarizer = binarizer
    if not isinstance(getattr(type(ridge), "classes_", None), property):  # one until 1.8 or so
        ridge.classes_ = binarizer.classes_
