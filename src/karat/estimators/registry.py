"""Tables of what is exact: estimators, scorers and transformers that depend on kept moments only.

:mod:`karat.estimators.fitting` and :mod:`karat.estimators.transformers` apply the tables.  An
estimator that is not listed is refused, and so is a listed one with a parameter that breaks a rule,
because the damage is silent: a Huber fit on a least-squares coreset is 13 % off and looks fine.

The listed regressors read the data only through the weighted sums of 1, x, y, x x', x y and y^2;
the listed scorers only through those of the test rows (any other scorer is given all test rows).
scikit-learn fits the listed transformers on all rows of their part of the data; they transform each
row separately, and ``fit_transform`` gives the same as ``fit`` and ``transform``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn import metrics

GIVEN, ARRAY = "given", "array"  # any value but None; any array


class Except(tuple[Any, ...]):
    """All values but these."""


class Rule(NamedTuple):
    """A parameter, the values of it that are refused (a tuple, Except, GIVEN or ARRAY), and the
    reason.
    """

    parameter: str
    refused: Any
    reason: str


LBFGS = (
    "the solver 'lbfgs' (positive=True) stops where rounding decides; use LinearRegression or"
    " Lasso(positive=True)"
)
RIDGE = (
    Rule(
        "solver",
        ("sag", "saga"),
        "solver={value!r} visits rows at random and diverges on uneven weights; choose"
        " solver='auto'",
    ),
    Rule("solver", ("lbfgs",), LBFGS),
    Rule("positive", (True,), LBFGS),
)
CLASS_WEIGHT = Rule(
    "class_weight",
    GIVEN,
    "class_weight counts rows, and a coreset has few; multiply sample_weight by the class weights"
    " before building",
)
COORDINATE_DESCENT = (
    Rule(
        "selection",
        ("random",),
        "selection='random' gives no single answer to compare with; choose selection='cyclic'",
    ),
    Rule(
        "precompute",
        ARRAY,
        "precompute holds a Gram matrix of the full data; leave it at its default",
    ),
)

LEAST_ANGLES = (
    Rule("jitter", GIVEN, "jitter adds noise to every row; leave jitter=None"),
    Rule(
        "precompute",
        ARRAY,
        "precompute holds a Gram matrix of the full data; leave it at its default",
    ),
)
TWEEDIE = (
    Rule(
        "alpha",
        (0,),
        "without a penalty its solver may change to 'lbfgs'; use LinearRegression, the same model",
    ),
    Rule(
        "power",
        Except((0,)),
        "with power={value} its likelihood is not a polynomial of the data: rows with different"
        " inputs cannot stand for each other; power=0 is exact",
    ),
    Rule(
        "link",
        Except(("auto", "identity")),
        "link={value!r} is no squared loss; choose link='identity'",
    ),
    Rule(
        "solver",
        ("lbfgs",),
        "the solver 'lbfgs' stops where rounding decides; choose solver='newton-cholesky'",
    ),
)

SQUARED_LOSS: dict[str, tuple[Rule, ...]] = {
    "LinearRegression": (),
    "Ridge": RIDGE,
    "Lasso": COORDINATE_DESCENT,
    "ElasticNet": COORDINATE_DESCENT,
    "MultiTaskLasso": COORDINATE_DESCENT,
    "MultiTaskElasticNet": COORDINATE_DESCENT,
    "BayesianRidge": (),
    "karat.LassoLars": (),
    "karat.OrthogonalMatchingPursuit": (),
    "Lars": LEAST_ANGLES,
    "LassoLars": LEAST_ANGLES,
    "LassoLarsIC": LEAST_ANGLES,
    "OrthogonalMatchingPursuit": (),
    "PLSRegression": (),
    "TweedieRegressor": TWEEDIE,
}
SELECTS_ITSELF: dict[str, tuple[Rule, ...]] = {
    "LassoCV": COORDINATE_DESCENT,
    "ElasticNetCV": COORDINATE_DESCENT,
    "MultiTaskLassoCV": COORDINATE_DESCENT,
    "MultiTaskElasticNetCV": COORDINATE_DESCENT,
    "RidgeCV": (),
    "karat.LassoLarsCV": (),
    "OrthogonalMatchingPursuitCV": (),
}
BY_CLASS: dict[str, tuple[Rule, ...]] = {
    "RidgeClassifier": RIDGE,
    "karat.LinearDiscriminant": (),
    "karat.QuadraticDiscriminant": (),
    "karat.GaussianNaiveBayes": (),
}
CLASSIFIES_AND_SELECTS: dict[str, tuple[Rule, ...]] = {
    "RidgeClassifierCV": (),
}
# These models read the target of all rows, and nothing else.
TARGET_ONLY_REGRESSORS: dict[str, tuple[Rule, ...]] = {"DummyRegressor": ()}
TARGET_ONLY_CLASSIFIERS: dict[str, tuple[Rule, ...]] = {"DummyClassifier": ()}
TARGET_ONLY = TARGET_ONLY_REGRESSORS.keys() | TARGET_ONLY_CLASSIFIERS.keys()
# Regressors that hold others.
SEVERAL_MODELS = ("VotingRegressor", "MultiOutputRegressor", "RegressorChain")
LOGISTIC: dict[str, tuple[Rule, ...]] = {  # on a coreset of GroupedLogistic
    "LogisticRegression": (
        Rule(
            "solver",
            ("sag", "saga"),
            "solver={value!r} visits rows at random; choose solver='lbfgs'",
        ),
        CLASS_WEIGHT,
    )
}
OF_COVARIANCE: dict[str, tuple[Rule, ...]] = {"karat.PCA": (), "karat.GraphicalLasso": ()}
SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
# Estimators that select by cross-validation.
SELECTS = frozenset(SEARCHES) | SELECTS_ITSELF.keys() | CLASSIFIES_AND_SELECTS.keys()

# Scores that are functions of kept moments.
SCORERS = {
    "r2": metrics.r2_score,
    "neg_mean_squared_error": metrics.mean_squared_error,
    "neg_root_mean_squared_error": metrics.root_mean_squared_error,
    "explained_variance": metrics.explained_variance_score,
}

# scikit-learn's class takes no sample_weight, or uses it in part only; karat's takes it, and gives
# the same answer.
WITH_WEIGHTS = {
    "LassoLarsCV": "karat.CoresetRegressor(karat.models.LassoLarsCV())",
    "PCA": "karat.coreset(X).fit(karat.models.PCA())",
    "GraphicalLasso": "karat.coreset(X).fit(karat.models.GraphicalLasso())",
    "LinearDiscriminantAnalysis": "karat.CoresetClassifier(karat.models.LinearDiscriminant())",
    "QuadraticDiscriminantAnalysis": (
        "karat.CoresetClassifier(karat.models.QuadraticDiscriminant())"
    ),
    "GaussianNB": "karat.CoresetClassifier(karat.models.GaussianNaiveBayes())",
}
WHY_NOT = {
    "HuberRegressor": "its loss is not a polynomial of the residual",
    "QuantileRegressor": "absolute errors are not a function of moments",
    "TheilSenRegressor": "medians are not a function of moments",
    "RANSACRegressor": "it counts rows near a model",
    **dict.fromkeys(
        ["SVR", "LinearSVR", "NuSVR"],
        "its loss ignores errors within epsilon, which is not a function of moments",
    ),
    **dict.fromkeys(
        ["SVC", "LinearSVC", "NuSVC"],
        "its answer depends on the rows nearest to the decision boundary, not on moments",
    ),
    **dict.fromkeys(
        ["LogisticRegression", "LogisticRegressionCV"],
        "its loss is not a polynomial of the data; karat.CoresetClassifier is exact for"
        " karat.models.LinearDiscriminant(), which is a linear classifier with probabilities too,"
        " and a coreset of karat.problems.GroupedLogistic for rows that share their inputs",
    ),
    **dict.fromkeys(
        ["PoissonRegressor", "GammaRegressor"],
        "its likelihood is not a polynomial of the data: rows with different inputs cannot stand"
        " for each other",
    ),
    **dict.fromkeys(
        ["KNeighborsRegressor", "KNeighborsClassifier"], "it looks for neighbours among all rows"
    ),
    **dict.fromkeys(["MLPRegressor", "MLPClassifier"], "its loss is not a polynomial of the data"),
    **dict.fromkeys(["KernelRidge", "GaussianProcessRegressor"], "it compares every pair of rows"),
    "KMeans": (
        "which centre is nearest is not a function of moments; karat.models.GaussianMixture learns"
        " from moments"
    ),
    "GaussianMixture": (
        "EM needs every row's likelihood; karat.models.GaussianMixture learns from moments"
    ),
    "SGDRegressor": "it visits rows one by one, and its answer depends on their order",
    "ARDRegression": "it takes no sample_weight; BayesianRidge is exact",
    **{
        f"Stacking{kind}": (
            "its last model is trained on predictions for single rows; karat works inside it: "
            f"Stacking{kind}([('few', karat.Coreset{kind}(...))])"
        )
        for kind in ("Regressor", "Classifier")
    },
    **{
        f"Bagging{kind}": (
            "it draws single rows at random; karat works inside it:"
            f" Bagging{kind}(karat.Coreset{kind}(...))"
        )
        for kind in ("Regressor", "Classifier")
    },
    **{
        name: (
            "it fits its parts to other labels than those of the coreset; karat works inside it:"
            f" {name}(karat.CoresetClassifier(...))"
        )
        for name in (
            "MultiOutputClassifier",
            "ClassifierChain",
            "OneVsRestClassifier",
            "OneVsOneClassifier",
        )
    },
    **dict.fromkeys(
        ["AdaBoostRegressor", "AdaBoostClassifier"],
        "it reweights single rows by their errors",
    ),
    "IterativeImputer": (
        "it is not known to transform each row separately once it is fitted; impute before building"
    ),
    **dict.fromkeys(
        ["CountVectorizer", "TfidfVectorizer", "HashingVectorizer", "DictVectorizer"],
        "it reads one list of texts, not a table; apply it before building, and pass the columns"
        " that it makes",
    ),
    "VotingClassifier": (
        "karat does not fit its parts one by one, as it does those of VotingRegressor; karat works"
        " inside it: VotingClassifier([('few', karat.CoresetClassifier(...))])"
    ),
    "TargetEncoder": (
        "it encodes its training rows by random folds, and other rows in another way; encode before"
        " building"
    ),
    "LeaveOneOut": "every row would be a fold of its own",
    "LeavePOut": "every set of p rows would be a fold of its own",
}

# A single fit of these gains nothing: solving it costs one pass over the rows, and so does reducing
# them.
ONE_PASS = (
    "Ridge", "RidgeClassifier", "karat.LassoLars", "karat.OrthogonalMatchingPursuit",
    "karat.GaussianNaiveBayes",
)  # fmt: skip
# Coordinate descent takes some sweeps over the rows.
SWEEPS = ("Lasso", "ElasticNet", "MultiTaskLasso", "MultiTaskElasticNet")

# scikit-learn fits the transformers below; they transform each row separately.
# Scalers are affine maps of every column.
SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
SELECTIONS = (  # of columns
    "VarianceThreshold", "SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe",
    "GenericUnivariateSelect", "SelectFromModel", "RFE", "RFECV", "SequentialFeatureSelector",
)  # fmt: skip
ROTATIONS = ("PCA", "IncrementalPCA", "TruncatedSVD")  # linear maps, unless they whiten
# Their solvers stop at a tolerance if the rows are sparse, unlike those of dense rows.
ITERATIVE_IF_SPARSE = ("Ridge", "RidgeClassifier", "LinearRegression")
MOMENT_FITTED = ("StandardScaler",)  # a fit on few rows with weights learns the same
IMPUTERS = ("SimpleImputer",)
TRANSFORMERS = frozenset(SCALERS + SELECTIONS + ROTATIONS + IMPUTERS) | {
    "FactorAnalysis", "FastICA", "GaussianRandomProjection", "SparseRandomProjection",
    "FeatureAgglomeration", "PolynomialFeatures", "FunctionTransformer", "Normalizer", "Binarizer",
    "OneHotEncoder", "OrdinalEncoder", "KBinsDiscretizer", "SplineTransformer", "PowerTransformer",
    "QuantileTransformer", "KNNImputer", "MissingIndicator", "KernelPCA", "Nystroem", "RBFSampler",
    "SkewedChi2Sampler", "AdditiveChi2Sampler", "PolynomialCountSketch", "KMeans",
    "RandomTreesEmbedding",
}  # fmt: skip
# Functions of numbers that are no ufuncs, for FunctionTransformer.
ROW_FUNCTIONS = (
    np.clip,
    np.nan_to_num,
    np.round,
    np.around,
    np.fix,
    np.sinc,
    np.real_if_close,
    np.i0,
)
COMPOSITES = ("Pipeline", "ColumnTransformer", "FeatureUnion")

HOMES = ("sklearn", "karat")  # packages whose classes are listed
UNCHANGED = ("passthrough", "drop", None)  # steps of a pipeline that fit nothing
