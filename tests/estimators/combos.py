"""Random combinations of estimator, transformers, splitter, scorer, container and weights.

    python -m tests.estimators.combos --count 2000 --seed 0

Each is fitted by scikit-learn on all rows and through karat, and single elements are compared:
every score of every split, the chosen parameters, every prediction.  A combination is a function of
its seed and number alone; ``--only 17,42`` runs some again.  Where an answer differs, scikit-learn
is given the rows in other orders: what its own answer moves by is decided by rounding, not by the
rows (in brackets).  Tables are those of scikit-learn, of statsmodels and of the folder KARAT_DATA,
as far as they are there.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from scipy import sparse
from sklearn import datasets, linear_model, preprocessing
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

import karat

EQUAL, REFUSED, DIFFERENT, RAW, NOTHING = (
    "equal",
    "refused",
    "different",
    "raw",
    "fails in scikit-learn",
)
ROUNDING = "decided by rounding"
# orders of the rows; times as far as scikit-learn's own answer moves from one to another
ORDERS, MOVES = 8, 3.0
MOST = 300  # rows of a table
CLOSE = 1e-6  # of the largest element; solvers have tight tolerances
SHARED = {"glass.csv.gz": None, "yeast.csv.gz": None, "credit_card.csv.gz": None}
OF_STATSMODELS = (
    "fair",
    "randhie",
    "ccard",
    "star98",
    "anes96",
    "modechoice",
    "statecrime",
    "scotland",
)


@cache
def tables():
    """Numbers of real tables, by name: all columns but the last are X."""
    found = {}
    for name in ("diabetes", "wine", "breast_cancer"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        found[name] = np.column_stack([X[:, :8], y if name == "diabetes" else X[:, 8]])
    for name in OF_STATSMODELS:
        try:
            import statsmodels.api as sm

            frame = getattr(sm.datasets, name).load_pandas().data
        except Exception:  # not installed, or a table that this version has not
            continue
        found[f"statsmodels {name}"] = frame.select_dtypes("number").to_numpy(dtype=float)
    for name in SHARED:
        path = Path(os.environ.get("KARAT_DATA") or ".") / name
        if path.exists():
            found[name] = pd.read_csv(path).select_dtypes("number").to_numpy(dtype=float)
    rng = np.random.default_rng(0)
    found["gamma"] = rng.gamma(2.0, 1.0, (500, 7))
    found["far"] = rng.standard_normal((500, 5)) + 1e4
    tidy = {
        name: table[np.isfinite(table).all(axis=1)][:MOST, -10:] for name, table in found.items()
    }
    return {name: table for name, table in tidy.items() if len(table) > 60 and table.shape[1] > 2}


def pick(rng, things):
    return things[int(rng.integers(len(things)))]


def leaf(rng, several):
    """An estimator and a grid of its parameters."""
    fits = {"fit_intercept": bool(rng.random() < 0.85)}
    tight = {"tol": 1e-13, "max_iter": 1_000}
    alphas = sorted(float(a) for a in 10 ** rng.uniform(-2, 2, int(rng.integers(2, 5))))
    found = [
        (linear_model.Ridge(tol=1e-13, max_iter=1_000, **fits), {"alpha": alphas}),
        (linear_model.LinearRegression(tol=1e-14, **fits), {"fit_intercept": [True, False]}),
    ]
    if several:
        return pick(
            rng, [*found, (linear_model.MultiTaskElasticNet(**tight, **fits), {"alpha": alphas})]
        )
    return pick(
        rng,
        [
            *found,
            (linear_model.Lasso(**tight, **fits), {"alpha": alphas}),
            (linear_model.ElasticNet(**tight, **fits), {"alpha": alphas, "l1_ratio": [0.3, 0.9]}),
            (linear_model.BayesianRidge(tol=1e-8, **fits), {"alpha_1": [1e-6, 1e-2]}),
        ],
    )


def numeric_front(rng):
    """Transformers of numeric columns."""
    p = preprocessing
    steps = [
        p.StandardScaler(), p.StandardScaler(with_mean=False), p.MinMaxScaler(), p.RobustScaler(),
        p.MaxAbsScaler(), p.PolynomialFeatures(2, include_bias=False),
        p.SplineTransformer(n_knots=4), PCA(2, random_state=0),
        p.KBinsDiscretizer(4, strategy="uniform"),
        p.KBinsDiscretizer(3, encode="onehot-dense", strategy="kmeans"),
        p.QuantileTransformer(n_quantiles=20, random_state=0), p.FunctionTransformer(np.arctan),
        p.Normalizer(), SelectKBest(f_regression, k=2), VarianceThreshold(), "passthrough",
    ]  # fmt: skip
    return [pick(rng, steps) for _ in range(int(rng.integers(0, 3)))]


def front_of_frame(rng, frame):
    """A ColumnTransformer of numbers and categories, and perhaps a step behind it."""
    numbers = [name for name in frame.columns if name not in ("town", "code")]
    encoder = preprocessing.OneHotEncoder(
        sparse_output=bool(rng.random() < 0.5),
        handle_unknown=pick(rng, ["ignore", "error", "infrequent_if_exist"]),
        drop=pick(rng, [None, None, None, "first"]),
        min_frequency=pick(rng, [None, None, None, 5]),
    )
    own = numeric_front(rng)[:1] or ["passthrough"]
    cut = int(rng.integers(1, len(numbers)))
    columns = make_column_transformer(
        (own[0], numbers[:cut]),
        (
            pick(
                rng,
                [
                    preprocessing.StandardScaler(),
                    preprocessing.MinMaxScaler(),
                    "passthrough",
                    "drop",
                ],
            ),
            numbers[cut:],
        ),
        (encoder, pick(rng, [["town"], ["town", "code"]])),
        remainder="drop",
        sparse_threshold=pick(rng, [0.3, 0.9]),
    )
    behind = [preprocessing.MaxAbsScaler()] if rng.random() < 0.2 else []
    return [columns, *behind]


def contained(rng, X):
    """The table in a container, and what it is called."""
    names = [f"x{k}" for k in range(X.shape[1])]
    kind = pick(
        rng,
        [
            "array",
            "array",
            "fortran",
            "single",
            "sparse",
            "pandas",
            "pandas",
            "mixed",
            "mixed",
            "mixed",
            "polars",
        ],
    )
    if kind == "mixed":
        frame = pd.DataFrame(X, columns=names)
        towns = np.array([f"t{k}" for k in range(12)])
        place = np.minimum(rng.geometric(0.3, len(X)) - 1, 11)
        return kind, frame.assign(town=towns[place], code=rng.integers(0, 4, len(X)))
    if kind == "polars":
        try:
            import polars

            return kind, polars.DataFrame({name: X[:, k] for k, name in enumerate(names)})
        except ImportError:
            kind = "pandas"
    makers = {
        "array": np.ascontiguousarray, "fortran": np.asfortranarray, "single": np.float32,
        "sparse": sparse.csr_matrix, "pandas": lambda X: pd.DataFrame(X, columns=names),
    }  # fmt: skip
    return kind, makers[kind](X)


def combination(seed, number):
    """An estimator with its data: what is drawn depends on seed and number alone."""
    rng = np.random.default_rng([seed, number])
    name = pick(rng, sorted(tables()))
    table = tables()[name]
    several = bool(rng.random() < 0.15)
    X, y = (
        (table[:, :-2], table[:, -2:])
        if several and table.shape[1] > 3
        else (table[:, :-1], table[:, -1])
    )
    several = y.ndim == 2
    kind, X = contained(rng, X)
    model, grid = leaf(rng, several)
    steps = front_of_frame(rng, X) if kind == "mixed" else numeric_front(rng)
    pipeline = make_pipeline(*steps, model)
    last = pipeline.steps[-1][0]
    grid = {f"{last}__{key}": values for key, values in grid.items()}
    if not several and rng.random() < 0.15:
        pipeline = TransformedTargetRegressor(pipeline, func=np.arcsinh, inverse_func=np.sinh)
        grid = {f"regressor__{key}": values for key, values in grid.items()}
    n = len(y)
    splitters = [
        3, KFold(4), KFold(3, shuffle=True, random_state=1),
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=2),
        ShuffleSplit(3, test_size=0.3, random_state=3), TimeSeriesSplit(3), GroupKFold(3),
        PredefinedSplit(rng.integers(-1, 3, n)),
    ]  # fmt: skip
    cv = pick(rng, splitters)
    groups = np.arange(n) % 7 if isinstance(cv, GroupKFold) else None
    weights = rng.integers(0, 4, n) + pick(rng, [0.0, 0.5]) if rng.random() < 0.25 else None
    names = [
        None,
        None,
        "neg_mean_squared_error",
        "explained_variance",
        "neg_root_mean_squared_error",
    ]
    scoring = pick(rng, [*names, "neg_mean_absolute_error", "neg_median_absolute_error"])
    options = {"cv": cv, "scoring": scoring, "error_score": "raise"}
    search = GridSearchCV(pipeline, grid, **options)
    if rng.random() < 0.15:
        search = RandomizedSearchCV(pipeline, grid, n_iter=2, random_state=4, **options)
    estimator = search if rng.random() < 0.85 or groups is not None else pipeline
    return (
        f"{seed}/{number} {name}, {kind}, weights {weights is not None}",
        estimator,
        X,
        y,
        weights,
        groups,
    )


def on_all_rows(estimator, X, y, weights, groups):
    """Fitted by scikit-learn; weights, if any, routed to every step and score that takes them."""
    estimator, extra = clone(estimator), {} if groups is None else {"groups": groups}
    # karat computes in double precision
    X = X.astype(float) if getattr(X, "dtype", None) == np.float32 else X
    if weights is None:
        return estimator.fit(X, y, **extra)
    with sklearn.config_context(enable_metadata_routing=True):
        for part in [estimator, *estimator.get_params(deep=True).values()]:
            if hasattr(part, "set_fit_request") and has_fit_parameter(part, "sample_weight"):
                part.set_fit_request(sample_weight=True)
        if hasattr(estimator, "scoring"):
            estimator.scoring = get_scorer(estimator.scoring or "r2").set_score_request(
                sample_weight=True
            )
        return estimator.fit(X, y, sample_weight=weights, **extra)


def in_other_order(estimator, X, y, weights, groups, order):
    """The same, with the rows in another order: every split has the same rows, and exact arithmetic
    the same answer.
    """
    estimator, take = clone(estimator), _safe_indexing
    if hasattr(estimator, "cv"):
        place = np.argsort(order)
        splits = check_cv(estimator.cv).split(X, y, groups)
        estimator.cv = [(np.sort(place[train]), np.sort(place[test])) for train, test in splits]
    parts = (None if part is None else take(part, order) for part in (weights, groups))
    return on_all_rows(estimator, take(X, order), take(y, order), *parts)


def answers(fitted, X):
    """All that is compared: names and numbers."""
    X = X.astype(float) if getattr(X, "dtype", None) == np.float32 else X
    found = {"predictions": np.asarray(fitted.predict(X))}
    if hasattr(fitted, "cv_results_"):
        scores = {
            key: value for key, value in fitted.cv_results_.items() if key.startswith("split")
        }
        found |= scores
        mean = fitted.cv_results_["mean_test_score"]
        best = np.sort(mean)[::-1]
        tied = len(best) > 1 and best[0] - best[1] <= CLOSE * abs(best[0])
        if tied:  # rounding decides, and what follows from the choice
            del found["predictions"]
        else:
            found["best"] = np.array([fitted.best_index_])
    return found


def verdict(number, seed):
    """How one combination compares: the verdict, its title and what is wrong."""
    title, estimator, X, y, weights, groups = combination(seed, number)
    few_rows = 0 if number % 5 else 5000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = None
        try:
            few = karat.CoresetRegressor(estimator, few_rows=few_rows)
            few.fit(X, y, sample_weight=weights, **({} if groups is None else {"groups": groups}))
            mine = answers(few, X)
        except (karat.NotExactError, karat.InputError) as refusal:
            raw = refusal
        except Exception as error:  # what scikit-learn raises as well is no finding
            raw = error
        try:
            full = answers(on_all_rows(estimator, X, y, weights, groups), X)
        except Exception:
            return NOTHING, title, ""
    if isinstance(raw, karat.NotExactError | karat.InputError):
        return REFUSED, title, str(raw)[:150]
    if raw is not None:
        return RAW, title, repr(raw)[:200]
    scoring = getattr(estimator, "scoring", "")
    wrong = distances(mine, full, scoring)
    if not wrong:
        return EQUAL, title, ""
    rng, moves = np.random.default_rng(number), {}
    for _ in range(ORDERS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = answers(
                in_other_order(estimator, X, y, weights, groups, rng.permutation(len(y))), X
            )
        for key, far in distances(again, full, scoring).items():
            moves[key] = max(far, moves.get(key, 0.0))
    what = ", ".join(
        f"{key} by {far:.0e} ({moves.get(key, 0.0):.0e})" for key, far in sorted(wrong.items())[:4]
    )
    own = max(wrong.values()) <= MOVES * max(moves.values(), default=0.0)
    return (ROUNDING if own else DIFFERENT), title, what


def distances(one, other, scoring):
    """How far answers are from others, by name, as shares of the largest element; those that are
    close are left out.
    """
    found = {}
    for key in one.keys() & other.keys():
        mine, full = np.asarray(one[key], dtype=float), np.asarray(other[key], dtype=float)
        # of a variance
        shares = key.startswith("split") and scoring in (None, "explained_variance")
        size = max(float(np.abs(full).max()), 1.0 if shares else 1e-300)
        if not np.allclose(mine, full, rtol=0.0, atol=CLOSE * size, equal_nan=True):
            found[key] = float(np.abs(mine - full).max()) / size
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.estimators.combos", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="numbers, by commas")
    parser.add_argument("--refusals", action="store_true", help="print these too")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    chosen = [int(one) for one in options.only.split(",")] if options.only else range(options.count)
    for number in chosen:
        found, title, what = verdict(number, options.seed)
        counts[found] += 1
        if (
            found in (DIFFERENT, RAW, ROUNDING)
            or (found == REFUSED and options.refusals)
            or options.only
        ):
            print(f"{found}: {title}: {what}", flush=True)
        if options.only or found in (DIFFERENT, RAW, ROUNDING):
            print("   ", " ".join(str(combination(options.seed, number)[1]).split()), flush=True)
        if number % 100 == 99:
            print(number + 1, dict(counts), flush=True)
    print(f"{sum(counts.values()):,} combinations of seed {options.seed}: {dict(counts)}")
    return 1 if counts[DIFFERENT] + counts[RAW] else 0


if __name__ == "__main__":
    sys.exit(main())
