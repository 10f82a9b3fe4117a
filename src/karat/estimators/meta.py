"""What CoresetRegressor and CoresetClassifier share: checking inputs, fitting, and behaving like the estimator inside."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from karat._data import containers
from karat.errors import InputError
from karat.estimators import registry
from karat.estimators.exact_fit import check_exact, fit_exactly, fit_insisting, selects
from karat.estimators.fitting import key_of, split_pipeline
from karat.estimators.small_data import FEW, fit_on_all_rows, passes_through
from karat.estimators.training_rows import TrainingRows
from karat.estimators.transformers import only_scales, overwrites, single_steps
from karat.problems import Problem

OWN = ("n_features_in_", "feature_names_in_", "estimator_", "core_", "sketch_")


def delegates(name: str) -> Any:
    """Whether the inner estimator, fitted or not, has a method."""

    def check(self: Any) -> bool:
        inner = getattr(self, "estimator_", self.estimator)
        return inner is not None and hasattr(inner, name)

    return check


class CoresetEstimator(MetaEstimatorMixin, BaseEstimator):
    """An estimator that is fitted on few rows, to the answer of all of them."""

    classifies: ClassVar[bool] = False

    def __init__(self, estimator: Any, problem: Problem | None = None, *, few_rows: int = FEW, random_state: int = 0) -> None:
        self.estimator = estimator
        self.problem = problem
        self.few_rows = few_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Build the coreset (or one per fold) and fit the estimator on it.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array or frame of shape (n,) or (n, T)
        sample_weight : array of shape (n,), optional
        groups : array of shape (n,), optional
            For splitters such as ``GroupKFold``.

        Returns
        -------
        the estimator itself
        """
        estimator = self._cloned()
        if not isinstance(self.few_rows, int | np.integer) or self.few_rows < 0:
            raise InputError(f"few_rows={self.few_rows!r} is not a number of rows; pass 0 or more.", argument="few_rows")
        if groups is not None and not selects(estimator):
            raise InputError("groups are for cross-validation, but the estimator does not select by it.")
        if self.problem is None:
            check_exact(estimator, self.classifies, sample_weight is not None)
        X, y = self._checked(X, y)
        rows = TrainingRows(X, y, sample_weight, classifies=self.classifies, random_state=self.random_state)
        self.__dict__.pop("sketch_", None)
        if self.problem is None and passes_through(estimator, rows, groups, self.few_rows):
            self.estimator_, self.core_ = fit_on_all_rows(estimator, rows, groups)
        elif self.problem is None:
            self.estimator_, self.core_ = fit_exactly(estimator, rows, groups)
        else:
            self.estimator_, self.core_ = fit_insisting(estimator, rows, groups, self.problem)
        return self

    def _cloned(self) -> Any:
        """A copy of the estimator; what can be read only once is an error."""
        for owner in (self.estimator, split_pipeline(self.estimator)[1]):
            cv = getattr(owner, "cv", None)
            if hasattr(cv, "__next__"):
                raise InputError("cv is a generator, which can be read only once; pass list(cv).", argument="cv")
        return clone(self.estimator)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Arrays checked as in scikit-learn; frames left as they are, with their names noted."""
        X, y = containers.collected(X), containers.collected(y)
        if y is None:
            raise InputError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        checks = {"accept_sparse": "csr", "ensure_min_samples": 2, **self._kind()}
        if containers.is_frame(X):
            validate_data(self, X, skip_check_array=True)
        elif containers.is_frame(y):
            X = validate_data(self, X, **checks)
        else:
            X, y = validate_data(self, X, y, multi_output=not self.classifies, y_numeric=not self.classifies, **checks)
        return X, self._checked_target(y)

    def _checked_target(self, y: Any) -> Any:
        return y

    def _kind(self) -> dict[str, Any]:
        """What to check values for: finite numbers, unless transformers may encode or impute others."""
        inside = self.estimator.estimator if key_of(self.estimator) in registry.SEARCHES else self.estimator
        transformers, _ = split_pipeline(inside)
        if transformers is None or only_scales(transformers):
            return {"dtype": "numeric"}
        return {"dtype": None, "ensure_all_finite": False}

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score of the inner estimator: R2 or accuracy, or what a search was told to score by."""
        check_is_fitted(self)
        X = self._rows(X)
        if sample_weight is None:
            return float(self.estimator_.score(X, y))
        transformers, leaf = split_pipeline(self.estimator_)
        if key_of(leaf) not in registry.SEARCHES:
            return float(self.estimator_.score(X, y, sample_weight=sample_weight))
        X = X if transformers is None else transformers.transform(X)
        scorer = leaf.scorer_[leaf.refit] if isinstance(leaf.scorer_, dict) else leaf.scorer_
        return float(scorer(leaf.best_estimator_, X, y, sample_weight=sample_weight))

    @available_if(delegates("predict"))
    def predict(self, X: Any) -> Any:
        """Predictions of the fitted estimator.

        Parameters
        ----------
        X : array, sparse matrix or data frame

        Returns
        -------
        array
        """
        check_is_fitted(self)
        return self.estimator_.predict(self._rows(X))

    def _rows(self, X: Any) -> Any:
        """New rows, checked against those of fit, in double precision."""
        if containers.is_frame(X):
            X = containers.collected(X)
            validate_data(self, X, skip_check_array=True, reset=False)
        else:
            X = validate_data(self, X, accept_sparse="csr", reset=False, **self._kind())
        X = containers.in_double(X)
        return containers.copied(X) if overwrites(self.estimator_) else X

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes of the estimator inside, of the one that a search chose, or of the last step of a pipeline."""
        if name.endswith("_") and not name.startswith("_") and name not in OWN and "estimator_" in vars(self):
            inner = self.estimator_
            while inner is not None:
                if hasattr(inner, name):
                    return getattr(inner, name)
                last = split_pipeline(inner)[1]
                inner = last if last is not inner else getattr(inner, "best_estimator_", getattr(inner, "regressor_", None))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inside = self.estimator.estimator if key_of(self.estimator) in registry.SEARCHES else self.estimator
        leaf = get_tags(split_pipeline(inside)[1])
        tags.target_tags = leaf.target_tags
        tags.regressor_tags = leaf.regressor_tags or tags.regressor_tags
        tags.classifier_tags = leaf.classifier_tags or tags.classifier_tags
        tags.input_tags.sparse = get_tags(inside).input_tags.sparse
        transformers, _ = split_pipeline(inside)
        tags.input_tags.allow_nan = transformers is not None and any(
            key_of(step) in registry.IMPUTERS for step in single_steps(transformers)
        )
        return tags
