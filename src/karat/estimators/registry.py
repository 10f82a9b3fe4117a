"""What is exact: the estimators, scorers, splitters and transformers whose answer depends on kept moments only.

These are tables only; :mod:`karat.estimators.fitting` and :mod:`karat.estimators.searches` apply them.  What is not listed is
refused, and so is a listed estimator with a parameter that breaks a rule, because the damage is silent: a Huber fit on a
least-squares coreset is 13 % off and looks fine.

The listed regressors read the data only through the weighted sums of 1, x, y, x x', x y and y^2; the scorers only through those
of the test rows; the transformers are affine (and fitted with weights, so that they come out the same), or map every row by
itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

GIVEN, ARRAY = "given", "array"  # any value but None; any array


class Rule(NamedTuple):
    """A parameter, the values of it that are refused (a tuple, GIVEN or ARRAY), and the reason."""

    parameter: str
    refused: Any
    reason: str


LBFGS = "the solver 'lbfgs' (positive=True) stops where rounding decides; use LinearRegression or Lasso(positive=True)"
RIDGE = (
    Rule(
        "solver", ("sag", "saga"), "solver={value!r} visits rows at random and diverges on uneven weights; choose solver='auto'"
    ),
    Rule("solver", ("lbfgs",), LBFGS),
    Rule("positive", (True,), LBFGS),
    Rule(
        "class_weight",
        GIVEN,
        "class_weight counts rows, and a coreset has few; multiply sample_weight by the class weights before building",
    ),
)
COORDINATE_DESCENT = (
    Rule("selection", ("random",), "selection='random' has no one answer to compare with; choose selection='cyclic'"),
    Rule("precompute", ARRAY, "precompute holds a Gram matrix of the full data; leave it at its default"),
)
RIDGE_CV = (
    Rule("cv", (None,), "without cv it scores by leave-one-out, which no coreset keeps; pass an integer cv, such as cv=5"),
)

SQUARED_LOSS: dict[str, tuple[Rule, ...]] = {
    "LinearRegression": (),
    "Ridge": RIDGE,
    "Lasso": COORDINATE_DESCENT,
    "ElasticNet": COORDINATE_DESCENT,
    "MultiTaskLasso": COORDINATE_DESCENT,
    "MultiTaskElasticNet": COORDINATE_DESCENT,
    "karat.LassoLars": (),
    "karat.OrthogonalMatchingPursuit": (),
}
SELECTS_ITSELF: dict[str, tuple[Rule, ...]] = {
    "LassoCV": COORDINATE_DESCENT,
    "ElasticNetCV": COORDINATE_DESCENT,
    "MultiTaskLassoCV": COORDINATE_DESCENT,
    "MultiTaskElasticNetCV": COORDINATE_DESCENT,
    "RidgeCV": RIDGE_CV,
    "karat.LassoLarsCV": (),
}
BY_CLASS: dict[str, tuple[Rule, ...]] = {
    "RidgeClassifier": RIDGE,
    "karat.LinearDiscriminant": (),
    "karat.QuadraticDiscriminant": (),
    "karat.GaussianNaiveBayes": (),
}
OF_COVARIANCE: dict[str, tuple[Rule, ...]] = {"karat.PCA": (), "karat.GraphicalLasso": ()}
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
    **dict.fromkeys(["SVC", "LinearSVC", "NuSVC"], "its answer depends on the rows nearest to the border, not on moments"),
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

HOMES = ("sklearn", "karat")  # packages whose classes are listed
UNCHANGED = ("passthrough", "drop", None)  # steps of a pipeline that fit nothing
IGNORES_WEIGHTS = ("SplineTransformer", "KBinsDiscretizer")  # fixed beforehand or refused: weights must not move their knots
