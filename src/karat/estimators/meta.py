"""CoresetRegressor and CoresetClassifier fit scikit-learn's estimators on a few rows.

Both check their inputs, fit (:mod:`karat.estimators.exact_fit`), and then behave like the estimator
inside.
"""

from __future__ import annotations

import numbers
from typing import Any, ClassVar, Never, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.batch import check_weights
from karat.errors import InputError
from karat.estimators import registry
from karat.estimators.exact_fit import FEW, check_exact, fit_few, fit_for_problem, selects
from karat.estimators.fitting import (
    check_is_estimator,
    check_steps,
    fit_weighted,
    key_of,
    overwrites,
    split_pipeline,
)
from karat.estimators.training_rows import ALL_ROWS, TrainingRows
from karat.estimators.transformers import fitted_by_moments, single_steps
from karat.problems import LeastSquares, Problem
from karat.stream.sketch import Sketch

# Fitted attributes that are never those of the estimator inside.
OWN_ATTRIBUTES = (
    "n_features_in_", "feature_names_in_", "estimator_", "core_", "reduced_", "reason_", "sketch_",
)  # fmt: skip


def delegates(name: str) -> Any:
    """A check for ``available_if``: the estimator inside, fitted or not, has a method."""

    def check(self: Any) -> bool:
        inner = getattr(self, "estimator_", self.estimator)
        return inner is not None and hasattr(inner, name)

    return check


def forwarded(name: str, text: str) -> Any:
    """A method that calls that of the fitted estimator, available if the estimator has it."""

    def method(self: Any, X: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.estimator_, name)(self._rows(X))

    method.__name__, method.__doc__ = name, text
    return available_if(delegates(name))(method)


class CoresetEstimator(MetaEstimatorMixin, BaseEstimator):
    """Base class: fits an estimator on few rows, with the same answer as on all rows."""

    classifies: ClassVar[bool] = False

    def __init__(
        self,
        estimator: Any,
        problem: Problem | None = None,
        *,
        few_rows: int = FEW,
        random_state: int = 0,
        rowwise: Any = (),
    ) -> None:
        self.estimator = estimator
        self.problem = problem
        self.few_rows = few_rows
        self.random_state = random_state
        self.rowwise = rowwise

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **unknown: Never
    ) -> Self:
        """Make few rows (of every fold, if the estimator selects) and fit the estimator on them.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array or frame of shape (n,) or (n, T)
        sample_weight : array of shape (n,), optional
            Or one number for all rows.
        groups : array of shape (n,), optional
            For splitters such as ``GroupKFold``.
        **unknown
            Refused.

        Returns
        -------
        the estimator itself
        """
        if unknown:
            raise InputError(
                f"fit() has no argument {next(iter(unknown))!r}; pass weights as sample_weight,"
                " which every step and score is given, and labels for the splitter as groups.",
                argument=next(iter(unknown)),
            )
        estimator = self._cloned()
        if not isinstance(self.few_rows, int | np.integer) or self.few_rows < 0:
            raise InputError(
                f"few_rows={self.few_rows!r} is not a number of rows; pass 0 or more.",
                argument="few_rows",
            )
        if groups is not None and not selects(estimator):
            raise InputError(
                "groups are for cross-validation, but the estimator does not select by it."
            )
        if self.problem is None:
            check_exact(estimator, self.classifies, sample_weight is not None, self._vouched())
        X, y = self._checked(X, y)
        if isinstance(sample_weight, numbers.Real):  # as in scikit-learn
            sample_weight = np.full(containers.row_count(X), float(sample_weight))
        weights = check_weights(sample_weight, containers.row_count(X))
        rows = TrainingRows(
            X, y, weights, classifies=self.classifies, random_state=self.random_state
        )
        self.__dict__.pop("sketch_", None)  # partial_fit starts anew
        if self.problem is None:
            self._fitted(*fit_few(estimator, rows, groups, self.few_rows, bool(self.rowwise)))
        else:
            self._fitted(*fit_for_problem(estimator, rows, groups, self.problem))
        return self

    def _fitted(self, estimator: Any, core: Coreset) -> None:
        """Set the fitted attributes; ``reason_`` is the first note of a coreset of all rows."""
        self.estimator_, self.core_ = estimator, core
        self.reduced_ = core.certificate.method != ALL_ROWS
        self.reason_ = None if self.reduced_ else core.certificate.notes[0]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = str(super().__repr__(N_CHAR_MAX))
        reduced = vars(self).get("reduced_", True)
        return text if reduced else f"{text}\n# fitted on all rows: {self.reason_}"

    def _vouched(self) -> tuple[Any, ...]:
        """Classes of transformers, and functions, which the user says transform rows separately."""
        if not isinstance(self.rowwise, list | tuple) or not all(map(callable, self.rowwise)):
            raise InputError(
                f"rowwise={self.rowwise!r} is not a list of classes of transformers and of"
                " functions; pass, for example, rowwise=[MyTransformer].",
                argument="rowwise",
            )
        return tuple(self.rowwise)

    def _cloned(self) -> Any:
        """A copy of the estimator, with a check of ``cv``: it is read more than once."""
        check_is_estimator(self.estimator)
        for owner in (self.estimator, split_pipeline(self.estimator)[1]):
            cv = getattr(owner, "cv", None)
            if hasattr(cv, "__next__"):
                raise InputError(
                    "cv is a generator, which can be read only once; pass list(cv).", argument="cv"
                )
        return clone(self.estimator)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Arrays checked as in scikit-learn; frames left as they are, with their names noted."""
        X, y = containers.collected(X), containers.collected(y)
        if y is None:
            raise InputError(
                f"This {type(self).__name__} requires y to be passed, but the target y is None."
            )
        if isinstance(y, str):
            raise InputError(f"fit takes the values of the target, not its name: y=data[{y!r}].")
        if containers.is_on_device(X):  # it stays there, and is checked when few rows are made
            self.n_features_in_ = int(containers.as_table(X, "X").shape[1])
            self.__dict__.pop("feature_names_in_", None)
            return X, self._checked_target(containers.on_host(y)) if self.classifies else y
        containers.check_on_host(y=y)
        checks = {"accept_sparse": "csr", "ensure_min_samples": 2, **self._kind()}
        if containers.is_frame(X):
            containers.check_unique_names(X, "X")
            validate_data(self, X, skip_check_array=True)
        elif containers.is_frame(y):
            X = validate_data(self, X, **checks)
        else:
            regresses = not self.classifies
            X, y = validate_data(self, X, y, multi_output=regresses, y_numeric=regresses, **checks)
        return X, self._checked_target(y)

    def _checked_target(self, y: Any) -> Any:
        single = containers.dimensions(y) == 2 and np.shape(y)[1] == 1
        if single and not get_tags(self).target_tags.multi_output:
            return column_or_1d(np.asarray(y), warn=True)
        return y

    def _inside(self) -> Any:
        """The estimator, or the one that a search holds."""
        searches = key_of(self.estimator) in registry.SEARCHES
        return self.estimator.estimator if searches else self.estimator

    def _kind(self) -> dict[str, Any]:
        """Options of the check of X: finite numbers, unless transformers may encode or impute."""
        if fitted_by_moments(split_pipeline(self._inside())[0]):
            return {"dtype": "numeric"}
        return {"dtype": None, "ensure_all_finite": False}

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score of the estimator inside: R2, accuracy, or the ``scoring`` of a search."""
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
    def predict(self, X: Any, **options: Any) -> Any:
        """Predictions of the fitted estimator.

        Parameters
        ----------
        X : array, sparse matrix or data frame
        **options
            Those of the estimator inside, such as ``return_std=True`` of ``BayesianRidge``.

        Returns
        -------
        array, or what the options ask for
        """
        check_is_fitted(self)
        return self.estimator_.predict(self._rows(X), **options)

    def _rows(self, X: Any) -> Any:
        """New rows, checked against those of fit, in double precision, on the host."""
        X = containers.on_host(X)
        if containers.is_frame(X):
            X = containers.collected(X)
            containers.check_unique_names(X, "X")
            validate_data(self, X, skip_check_array=True, reset=False)
        else:
            X = validate_data(self, X, accept_sparse="csr", reset=False, **self._kind())
        X = containers.in_double(X)
        return containers.copied(X) if overwrites(self.estimator_) else X

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes of the estimator inside, of the one that a search chose, or of the last
        step of a pipeline.
        """
        fitted = name.endswith("_") and not name.startswith("_") and name not in OWN_ATTRIBUTES
        inner = vars(self).get("estimator_") if fitted else None
        while inner is not None:
            if hasattr(inner, name):
                return getattr(inner, name)
            last = split_pipeline(inner)[1]
            chosen = getattr(inner, "best_estimator_", getattr(inner, "regressor_", None))
            inner = chosen if last is inner else last
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inside = self._inside()
        transformers, last = split_pipeline(inside)
        leaf = get_tags(last)
        tags.target_tags = leaf.target_tags
        tags.regressor_tags = leaf.regressor_tags or tags.regressor_tags
        tags.classifier_tags = leaf.classifier_tags or tags.classifier_tags
        tags.input_tags.sparse = get_tags(inside).input_tags.sparse
        tags.input_tags.allow_nan = transformers is not None and any(
            key_of(step) in registry.IMPUTERS for step in single_steps(transformers)
        )
        return tags


def _learns_from_moments(self: Any) -> bool:
    """Whether a sketch is enough to fit the estimator: a listed regressor, behind scalers or
    alone.
    """
    transformers, leaf = split_pipeline(self.estimator)
    return key_of(leaf) in registry.SQUARED_LOSS and fitted_by_moments(transformers)


class CoresetRegressor(RegressorMixin, CoresetEstimator):
    """Fit a scikit-learn regressor on an exact coreset: the same answer from a few rows.

    If the estimator selects by cross-validation (``GridSearchCV``, ``RandomizedSearchCV``, the
    halving searches over a parameter, ``LassoCV``, ``ElasticNetCV``, ``RidgeCV``, ...), the folds
    of the *full* data get coresets.  Every score, the chosen parameters and the refitted
    coefficients then equal those on the full data.  Any score works: one that is not a function of
    moments is computed on all test rows.

    Transformers of a pipeline are fitted on all rows, or on all rows of a training part, as
    scikit-learn does; only the model behind them is fitted on few.  So encoders, imputers, scalers,
    splines, discretisers, PCA and selections of columns are exact too. Fitted attributes
    (``coef_``, ``best_params_``, ``cv_results_``, ...) are those of the estimator inside.

    Parameters
    ----------
    estimator : estimator
        An estimator that is not known to be exact is refused; the error names an alternative.
    problem : Problem, optional
        What the coreset keeps.  By default the squared loss of the columns that the regressor sees.
        With a problem the estimator is not checked: the coreset keeps the problem *of the raw
        columns*, and you have to know whether that is enough.
    few_rows : int, default 5000
        The estimator is fitted on all rows if there are at most so many, or if reducing them would
        take longer than the fits.  0 reduces them in any case, and so does a ``problem``.
    random_state : int, default 0
        It decides which rows are made or kept; the answer does not depend on it.
    rowwise : list of classes and functions, optional
        Your own transformers, and functions of ``FunctionTransformer``, that transform each row
        separately once they are fitted.  karat tests them on blocks of rows in another order.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    core_ : Coreset
        The rows that it was fitted on, in the columns that the model sees; ``core_.rows`` says
        whether they are rows of the data or synthetic.
    reduced_ : bool
        False if all rows were used.
    reason_ : str or None
        Why all rows were used.
    n_features_in_ : int
    feature_names_in_ : array of str
        If X has column names.

    Notes
    -----
    A single least-squares or ridge fit gains nothing: solving it costs one pass over the data, and
    so does the coreset.  Many fits gain: cross-validation, grids, paths, refits.  Each of them
    takes a few rows, so a search starts no processes, whatever its ``n_jobs``; with a ``problem``
    of your own it starts ``n_jobs`` threads.

    Every step uses ``sample_weight``: scaling, fitting and scoring.  scikit-learn does the same if
    metadata routing is on and every step requests it.

    Examples
    --------
    >>> import numpy as np, karat
    >>> from sklearn.linear_model import LassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20_000, 5))
    >>> y = X @ [3.0, 0, 0, 1, 0] + rng.standard_normal(20_000)
    >>> few = karat.CoresetRegressor(LassoCV(cv=5)).fit(X, y)
    >>> all_ = LassoCV(cv=5).fit(X, y)
    >>> bool(abs(few.estimator_.alpha_ / all_.alpha_ - 1) < 1e-9), len(few.core_)
    (True, 35)
    """

    score = CoresetEstimator.score  # not that of the mixin

    @available_if(_learns_from_moments)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to all rows seen so far, exactly: a :class:`karat.Sketch` keeps their squared losses.

        Parameters
        ----------
        X, y, sample_weight
            More rows.  The first call after ``fit`` starts anew.

        Returns
        -------
        CoresetRegressor
        """
        estimator = self._cloned()
        check_exact(estimator, self.classifies, sample_weight is not None, self._vouched())
        if self.problem is not None and not isinstance(self.problem, LeastSquares):
            raise InputError(
                "partial_fit keeps LeastSquares(); leave problem out.", argument="problem"
            )
        first = "sketch_" not in vars(self)
        X, y = self._checked(X, y) if first else (self._rows(X), y)
        empty = Sketch(self.problem or LeastSquares(), random_state=self.random_state)
        sketch: Sketch = vars(self).get("sketch_", empty)
        sketch.update(X, y, sample_weight=sample_weight)
        core = sketch.coreset()
        check_steps(core, split_pipeline(estimator)[1])
        self._fitted(fit_weighted(estimator, core.X, core.y, core.weights), core)
        self.sketch_ = sketch
        return self


class CoresetClassifier(ClassifierMixin, CoresetEstimator):
    """Fit a classifier on an exact coreset of every class: the same answer from a few rows.

    Classifiers are exact if they read the data through counts, means and covariances of the
    classes: ``karat.models.LinearDiscriminant``, ``QuadraticDiscriminant`` and
    ``GaussianNaiveBayes``, and scikit-learn's ``RidgeClassifier``, ``RidgeClassifierCV`` and
    ``DummyClassifier``; also as the last step of a pipeline, and inside a search.  Scores are
    computed on all test rows, so any classification score works.  Logistic regression is refused,
    because its loss is not a polynomial of the data.

    Parameters
    ----------
    estimator : estimator
        An estimator that is not known to be exact is refused; the error names an alternative.
    problem : Problem, optional
        What the coreset of every class keeps; by default second moments of the columns that the
        classifier sees.  With a problem the estimator is not checked.
    few_rows, random_state, rowwise
        As in :class:`CoresetRegressor`.

    Attributes
    ----------
    classes_ : array
    estimator_, core_, reduced_, reason_, n_features_in_, feature_names_in_
        As in :class:`CoresetRegressor`.

    Examples
    --------
    >>> import numpy as np, karat
    >>> from karat.models import LinearDiscriminant
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 30_000); X = rng.standard_normal((30_000, 4)) + y[:, None]
    >>> few = karat.CoresetClassifier(LinearDiscriminant()).fit(X, y)
    >>> len(few.core_), bool((few.predict(X) == LinearDiscriminant().fit(X, y).predict(X)).all())
    (15, True)
    """

    score = CoresetEstimator.score  # not that of the mixin

    classifies: ClassVar[bool] = True

    def _checked_target(self, y: Any) -> np.ndarray:
        labels = column_or_1d(np.asarray(y), warn=True)
        check_classification_targets(labels)
        return np.asarray(labels)

    decision_function = forwarded(
        "decision_function", "The decision function of the fitted estimator."
    )
    predict_proba = forwarded("predict_proba", "The probability of each class.")
    predict_log_proba = forwarded(
        "predict_log_proba", "The logarithm of the probability of each class."
    )
