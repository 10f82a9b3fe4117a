"""What is exact: the estimators, solvers, scorers, splitters and transformers whose answer depends on kept moments only.

Default-deny.  An object is accepted if its class is listed here and its parameters pass the rule beside it; everything else is
refused with a sentence, because the damage is silent: a Huber fit on a least-squares coreset is 13 % off and looks fine.

A rule gives the reason of a refusal, or None.  The listed regressors read the data only through the weighted sums of 1, x, y,
x x', x y and y^2; the scorers only through those of the test rows; the transformers are affine (and fitted with weights, so
that they come out the same), or map every row by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from karat.errors import NotExactError

Rule = Callable[[Any], str | None]
HOMES = ("sklearn", "karat")


def _always(estimator: Any) -> None:
    return None


def _ridge(estimator: Any) -> str | None:
    solver = getattr(estimator, "solver", "auto")
    if solver in ("sag", "saga"):
        return f"solver={solver!r} visits rows at random and diverges on uneven weights; choose solver='auto'"
    if solver == "lbfgs" or getattr(estimator, "positive", False):
        return "the solver 'lbfgs' (positive=True) stops where rounding decides; use LinearRegression or Lasso(positive=True)"
    if getattr(estimator, "class_weight", None) is not None:
        return "class_weight counts rows, and a coreset has few; multiply sample_weight by the class weights before building"
    return None


def _coordinate_descent(estimator: Any) -> str | None:
    if estimator.selection == "random":
        return "selection='random' has no one answer to compare with; choose selection='cyclic'"
    if hasattr(getattr(estimator, "precompute", None), "__array__"):
        return "precompute holds a Gram matrix of the full data; leave it at its default"
    return None


def _ridge_cv(estimator: Any) -> str | None:
    if estimator.cv is None:
        return "without cv it scores by leave-one-out, which no coreset keeps; pass an integer cv, such as cv=5"
    return None


def _lars(estimator: Any) -> str | None:
    if getattr(estimator, "jitter", None) is not None:
        return "jitter adds noise to every row; leave it at None"
    return _coordinate_descent(estimator) if hasattr(estimator, "selection") else None


SQUARED_LOSS: dict[str, Rule] = {
    "LinearRegression": _always,
    "Ridge": _ridge,
    "Lasso": _coordinate_descent,
    "ElasticNet": _coordinate_descent,
    "MultiTaskLasso": _coordinate_descent,
    "MultiTaskElasticNet": _coordinate_descent,
    "karat.LassoLars": _lars,
    "karat.OrthogonalMatchingPursuit": _always,
}
SELECTS_ITSELF: dict[str, Rule] = {
    "LassoCV": _coordinate_descent,
    "ElasticNetCV": _coordinate_descent,
    "MultiTaskLassoCV": _coordinate_descent,
    "MultiTaskElasticNetCV": _coordinate_descent,
    "RidgeCV": _ridge_cv,
    "karat.LassoLarsCV": _always,
}
BY_CLASS: dict[str, Rule] = {
    "RidgeClassifier": _ridge,
    "karat.LinearDiscriminant": _always,
    "karat.QuadraticDiscriminant": _always,
    "karat.GaussianNaiveBayes": _always,
}
OF_COVARIANCE: dict[str, Rule] = {"karat.PCA": _always, "karat.GraphicalLasso": _always}
SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")

SCORERS = {
    "r2": "r2_score",
    "neg_mean_squared_error": "mean_squared_error",
    "neg_root_mean_squared_error": "root_mean_squared_error",
    "explained_variance": "explained_variance_score",
}

WITH_WEIGHTS = {  # scikit-learn's own takes no sample_weight, or uses it in part only; ours gives the same answer and takes it
    "LassoLars": "karat.models.LassoLars",
    "LassoLarsCV": "karat.models.LassoLarsCV",
    "OrthogonalMatchingPursuit": "karat.models.OrthogonalMatchingPursuit",
    "PCA": "karat.models.PCA",
    "LinearDiscriminantAnalysis": "karat.models.LinearDiscriminant",
    "QuadraticDiscriminantAnalysis": "karat.models.QuadraticDiscriminant",
    "GaussianNB": "karat.models.GaussianNaiveBayes",
    "GraphicalLasso": "karat.models.GraphicalLasso",
}
WHY_NOT = {
    "HuberRegressor": "its loss is not a polynomial of the residual",
    "QuantileRegressor": "absolute errors are not a function of moments",
    "TheilSenRegressor": "medians are not a function of moments",
    "RANSACRegressor": "it counts rows near a model",
    **dict.fromkeys(["SVR", "LinearSVR", "NuSVR"], "errors within epsilon count for nothing, which moments cannot tell"),
    **dict.fromkeys(["SVC", "LinearSVC", "NuSVC"], "its answer hangs on the rows nearest to the border, not on moments"),
    "LogisticRegression": "its loss is not a polynomial of the data; karat.models.LinearDiscriminant is exact",
    **dict.fromkeys(
        ["PoissonRegressor", "GammaRegressor", "TweedieRegressor"], "its likelihood is not a polynomial of the data"
    ),
    **dict.fromkeys(["KNeighborsRegressor", "KNeighborsClassifier"], "it looks for neighbours among all rows"),
    **dict.fromkeys(["MLPRegressor", "MLPClassifier"], "its loss is not a polynomial of the data"),
    **dict.fromkeys(["KernelRidge", "GaussianProcessRegressor"], "it compares every pair of rows"),
    "KMeans": "which centre is nearest is not a function of moments; karat.models.GaussianMixture learns from moments",
    "GaussianMixture": "EM needs every row's likelihood; karat.models.GaussianMixture learns from moments",
    "SGDRegressor": "it visits rows one by one, and its answer depends on their order",
    "TransformedTargetRegressor": "it transforms y; transform y yourself before building",
    "TargetEncoder": "it averages y over rows in random folds",
    "SelectKBest": "its tests count rows, of which few are kept; select columns before building",
    "SimpleImputer": "it counts rows and cannot weigh them; impute before building",
    "KNNImputer": "it looks for neighbours among all rows; impute before building",
    "IterativeImputer": "it models every column from all rows; impute before building",
    "MinMaxScaler": "extreme values are not kept; use StandardScaler",
    "RobustScaler": "quantiles are not kept; use StandardScaler",
    "LeaveOneOut": "every row would be a fold of its own",
    "LeavePOut": "every set of p rows would be a fold of its own",
}


def key_of(thing: Any) -> str | None:
    """The name under which a class is listed here, or None for foreign classes (subclasses are foreign too)."""
    home, name = type(thing).__module__.split(".")[0], type(thing).__name__
    return None if home not in HOMES else name if home == "sklearn" else f"karat.{name}"


def refuse(thing: Any, reason: str) -> NotExactError:
    """The error for an object that is not exact on a coreset."""
    return NotExactError(f"{type(thing).__name__} would not give the answer of the full data: {reason}.")


def unknown(thing: Any) -> NotExactError:
    """The error for an object that is not listed."""
    name = type(thing).__name__
    if name in WITH_WEIGHTS:
        reason = f"it does not take (or fully use) sample_weight; {WITH_WEIGHTS[name]} does, and gives the same answer"
    elif name in WHY_NOT:
        reason = WHY_NOT[name]
    elif hasattr(thing, "tree_") or "Tree" in name or "Forest" in name or "Boosting" in name:
        reason = "where a tree splits depends on the order of all rows, not on moments"
    else:
        return NotExactError(
            f"{name} is not known to depend on kept moments only, so its answer on a coreset may differ from the full data's. "
            "If you know that a problem keeps what it needs, pass that problem: CoresetRegressor(estimator, problem=...)."
        )
    return refuse(thing, reason)


def check_listed(estimator: Any, *tables: dict[str, Rule]) -> None:
    """Refuse an estimator that is in none of the tables, or whose parameters break its rule."""
    key = key_of(estimator)
    for table in tables:
        if key in table:
            reason = table[key](estimator)
            if reason is not None:
                raise refuse(estimator, reason)
            return
    raise unknown(estimator)


def check_scorer(scoring: Any) -> None:
    """Refuse a scorer (a name, a scorer object, or several) that is not a function of kept moments."""
    if scoring is None:
        return
    if isinstance(scoring, dict):
        for one in scoring.values():
            check_scorer(one)
    elif isinstance(scoring, list | tuple | set):
        for one in scoring:
            check_scorer(one)
    else:
        function = getattr(getattr(scoring, "_score_func", None), "__name__", None)
        plain = getattr(scoring, "_response_method", "predict") == "predict"
        if not ((isinstance(scoring, str) and scoring in SCORERS) or (function in SCORERS.values() and plain)):
            name = repr(scoring) if isinstance(scoring, str) else str(scoring)
            raise NotExactError(
                f"The score {name} is not a function of kept moments, so it would not be that of the full data; "
                f"choose one of {', '.join(SCORERS)}."
            )


def check_splitter(cv: Any) -> None:
    """Refuse leave-one-out and its kin."""
    name = type(cv).__name__
    if name in ("LeaveOneOut", "LeavePOut"):
        raise refuse(cv, f"{WHY_NOT[name]}; use KFold")


def check_search(search: Any) -> None:
    """Refuse what is inexact in a search itself; its candidates are checked one by one."""
    if getattr(search, "resource", None) == "n_samples":
        raise refuse(
            search,
            "resource='n_samples' fits on random subsets of the rows; choose a parameter as the resource, such as 'max_iter'",
        )
    check_scorer(search.scoring)
    if not isinstance(search.cv, int | type(None) | np.integer):
        check_splitter(search.cv)
