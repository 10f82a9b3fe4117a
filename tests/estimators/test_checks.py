"""scikit-learn's own checks, for every estimator; no check is left out without a reason."""

import pytest
import sklearn
from estimators.reducing import CoresetClassifier, CoresetRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LassoCV,
    LinearRegression,
    MultiTaskLasso,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

from karat import models

FOLDS_MOVE = (
    "Folds are runs of rows: a row that is repeated or left out moves the others into other folds,"
    " as in scikit-learn's own"
)
REASONS = {
    "check_sample_weight_equivalence_on_dense_data": FOLDS_MOVE,
    "check_sample_weight_equivalence_on_sparse_data": FOLDS_MOVE,
}


BEFORE_1_8 = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)


def reasons(estimator):
    """What cannot hold for an estimator, and why."""
    if isinstance(estimator, models.QuadraticDiscriminant):
        singular = (
            "The check's classes have singular covariances, which the model refuses, as"
            " scikit-learn's does"
        )
        names = (
            "check_sample_weights_shape",
            "check_sample_weights_not_overwritten",
            "check_sample_weight_equivalence_on_dense_data",
        )
        if BEFORE_1_8:  # which draws classes of few rows, and whose own model warns
            names += ("check_n_features_in_after_fitting", "check_dtype_object")
        return dict.fromkeys(names, singular)
    if isinstance(estimator, models.GraphicalLasso) and estimator.alpha < 0.1 and not BEFORE_1_8:
        few = (
            "The check has 15 rows of 30 columns, where scikit-learn's solver needs a larger alpha,"
            " also in its own class"
        )
        return {"check_sample_weight_equivalence_on_dense_data": few}
    inside = getattr(estimator, "estimator", None)
    if isinstance(inside, RidgeCV):
        return dict.fromkeys(
            REASONS, "A repeated row is left out once at a time, as in scikit-learn's own"
        )
    if isinstance(getattr(inside, "steps", [("", None)])[0][1], SimpleImputer):
        return dict.fromkeys(
            REASONS, "SimpleImputer and MinMaxScaler take no weights, in scikit-learn either"
        )
    selects = isinstance(getattr(estimator, "estimator", None), LassoCV)
    return REASONS if selects else {}


ESTIMATORS = [
    CoresetRegressor(LinearRegression()),
    CoresetRegressor(Ridge()),
    *(
        [CoresetRegressor(MultiTaskLasso(alpha=0.01))]
        if has_fit_parameter(MultiTaskLasso(), "sample_weight")
        else []
    ),
    CoresetRegressor(make_pipeline(StandardScaler(), Ridge())),
    CoresetRegressor(LassoCV(cv=3)),
    CoresetRegressor(GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3)),
    CoresetRegressor(make_pipeline(SimpleImputer(), MinMaxScaler(), Ridge())),
    CoresetRegressor(RidgeCV()),
    CoresetClassifier(models.LinearDiscriminant()),
    CoresetClassifier(RidgeClassifier()),
    CoresetClassifier(make_pipeline(StandardScaler(), models.GaussianNaiveBayes())),
    models.PCA(),
    models.LinearDiscriminant(),
    models.QuadraticDiscriminant(),
    models.GaussianNaiveBayes(),
    models.GraphicalLasso(),
    models.GraphicalLasso(alpha=0.1),
    models.LassoLars(alpha=0.01),
    models.LassoLarsCV(cv=3),
    models.OrthogonalMatchingPursuit(),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=reasons)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:R.2. score is not well-defined"
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
