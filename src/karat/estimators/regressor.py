"""CoresetRegressor: a scikit-learn regressor, pipeline or search, fitted on a few rows, with the answer of all of them."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from karat._stream.sketch import Sketch
from karat.errors import InputError
from karat.estimators import registry
from karat.estimators.exact_fit import check_exact
from karat.estimators.fitting import fit_weighted, key_of, split_pipeline
from karat.estimators.meta import CoresetEstimator
from karat.estimators.transformers import only_scales
from karat.problems import LeastSquares


def _learns_from_moments(self: Any) -> bool:
    """Whether the estimator can be fitted from a running summary: a listed regressor, behind scalers or alone."""
    transformers, leaf = split_pipeline(self.estimator)
    return key_of(leaf) in registry.SQUARED_LOSS and (transformers is None or only_scales(transformers))


class CoresetRegressor(RegressorMixin, CoresetEstimator):
    """A scikit-learn regressor, fitted on an exact coreset: the same answer from a few rows.

    If the estimator selects by cross-validation (``GridSearchCV``, ``RandomizedSearchCV``, the halving searches over a
    parameter, ``LassoCV``, ``ElasticNetCV``, ``RidgeCV``, ...), the folds of the *full* data get coresets.  Every score,
    the chosen parameters and the refitted coefficients then equal those on the full data.  Any score will do: one that
    is not a function of moments is computed on all test rows.

    Transformers of a pipeline are fitted on all rows, or on all rows of a training part, as scikit-learn does; only
    what follows them is fitted on few.  So encoders, imputers, scalers, splines, discretisers, PCA and selections of
    columns are exact too. Fitted attributes (``coef_``, ``best_params_``, ``cv_results_``, ...) are those of the
    estimator inside.

    Parameters
    ----------
    estimator : estimator
        What is not known to be exact is refused; the error names an alternative.
    problem : Problem, optional
        What the coreset keeps.  By default the squared loss of the columns that the regressor sees.  Passing a problem
        switches the check of the estimator off: the coreset then keeps the problem *of the raw columns*, and whether
        that is enough is yours to know.
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
    n_features_in_ : int
    feature_names_in_ : array of str
        If X has column names.

    Notes
    -----
    One least-squares or ridge fit gains nothing: solving it costs one pass over the data, and so does the coreset.  It
    pays when many fits follow: cross-validation, grids, paths, refits.  Each of them takes a few rows, so a search starts no
    processes, whatever its ``n_jobs``; with a ``problem`` of your own it has so many threads.

    ``sample_weight`` counts in every step: scaling, fitting and scoring, as scikit-learn does where metadata routing is
    on and everything asks for it.

    Examples
    --------
    >>> import numpy as np, karat
    >>> from sklearn.linear_model import LassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20_000, 5)); y = X @ [3.0, 0, 0, 1, 0] + rng.standard_normal(20_000)
    >>> few = karat.CoresetRegressor(LassoCV(cv=5)).fit(X, y)
    >>> all_ = LassoCV(cv=5).fit(X, y)
    >>> bool(abs(few.estimator_.alpha_ / all_.alpha_ - 1) < 1e-9), len(few.core_)
    (True, 140)
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
        check_exact(estimator, self.classifies, sample_weight is not None)
        if self.problem is not None and not isinstance(self.problem, LeastSquares):
            raise InputError("partial_fit keeps LeastSquares(); leave problem out.", argument="problem")
        first = "sketch_" not in vars(self)
        X, y = self._checked(X, y) if first else (self._rows(X), y)
        new = Sketch(self.problem or LeastSquares(), random_state=self.random_state)
        sketch: Sketch = vars(self).get("sketch_", new)
        sketch.update(X, y, sample_weight=sample_weight)
        core = sketch.coreset()
        self.estimator_ = fit_weighted(estimator, core.X, core.y, core.weights)
        self.sketch_, self.core_ = sketch, core
        return self
