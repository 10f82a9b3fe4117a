"""CoresetClassifier: a classifier that second moments of every class decide, fitted on a few rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from karat.estimators.meta import CoresetEstimator, delegates


class CoresetClassifier(ClassifierMixin, CoresetEstimator):
    """A classifier, fitted on an exact coreset of every class: the same answer from a few rows.

    Exact are the classifiers that read the data through counts, means and covariances of the classes:
    ``karat.models.LinearDiscriminant``, ``QuadraticDiscriminant`` and ``GaussianNaiveBayes``, and scikit-learn's
    ``RidgeClassifier`` and ``RidgeClassifierCV(cv=5)``; also as the last step of a pipeline, and inside a
    search.  Scores are computed on all test rows, so any classification score will do.  Logistic regression is refused:
    its loss is not a polynomial of the data.

    Parameters
    ----------
    estimator : estimator
        What is not known to be exact is refused; the error names an alternative.
    problem : Problem, optional
        What the coreset of every class keeps; by default second moments of the columns that the classifier sees.  Passing
        a problem switches the check of the estimator off.
    few_rows : int, default 5000
        Up to so many rows, or where coresets would hold half of the rows, nothing is gained, and the estimator is fitted on
        all rows.  0 builds coresets in any case, and so does a ``problem``.
    random_state : int, default 0
        Which rows are kept depends on it; the answer does not.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    core_ : Coreset
        The rows that it was fitted on.
    classes_ : array
    n_features_in_ : int
    feature_names_in_ : array of str
        If X has column names.

    Examples
    --------
    >>> import numpy as np, karat
    >>> from karat.models import LinearDiscriminant
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 30_000); X = rng.standard_normal((30_000, 4)) + y[:, None]
    >>> few = karat.CoresetClassifier(LinearDiscriminant()).fit(X, y)
    >>> len(few.core_), bool((few.predict(X) == LinearDiscriminant().fit(X, y).predict(X)).all())
    (45, True)
    """

    score = CoresetEstimator.score  # not that of the mixin

    classifies: ClassVar[bool] = True

    def _checked_target(self, y: Any) -> np.ndarray:
        labels = column_or_1d(np.asarray(y), warn=True)
        check_classification_targets(labels)
        return np.asarray(labels)

    @available_if(delegates("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """The decision function of the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.decision_function(self._rows(X))

    @available_if(delegates("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """The probability of each class."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._rows(X))

    @available_if(delegates("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """The logarithm of the probability of each class."""
        check_is_fitted(self)
        return self.estimator_.predict_log_proba(self._rows(X))
