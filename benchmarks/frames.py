"""Time pipelines on data frames with categories: scikit-learn on all rows beside karat,
construction included.

    python benchmarks/frames.py            both tables, about a minute
    python benchmarks/frames.py --small    small data only: n of 100, 1,000 and 5,000

Diamonds (53,940 rows, three categories one-hot, six numbers scaled) and flights (330,000 rows, two
categories, five numbers) are drawn with the shapes, levels and shares of the real tables.  Both
sides run in turn in one process; times are processor seconds, the best of several runs, because
ratios are what matters.
"""

import argparse
import os
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    MultiTaskElasticNet,
    MultiTaskElasticNetCV,
    MultiTaskLasso,
    MultiTaskLassoCV,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import karat
from karat import models

CARRIERS = [
    58665,
    54635,
    54173,
    48110,
    32729,
    26397,
    20536,
    18460,
    12275,
    5162,
    3260,
    714,
    685,
    601,
    342,
    32,
]


def drawn(rng, levels, shares, n):
    shares = np.asarray(shares, dtype=float)
    return rng.choice(levels, n, p=shares / shares.sum())


def diamonds(n=53_940):
    rng = np.random.default_rng(0)
    carat = np.round(np.exp(rng.normal(-0.4, 0.58, n)).clip(0.2, 5.01), 2)
    depth = np.round(rng.normal(61.75, 1.43, n), 1)
    length = np.round(6.5 * carat ** (1 / 3) * rng.normal(1, 0.01, n), 2)
    frame = pd.DataFrame(
        {
            "carat": carat,
            "cut": drawn(
                rng,
                ["Fair", "Good", "Very Good", "Premium", "Ideal"],
                [1610, 4906, 12082, 13791, 21551],
                n,
            ),
            "color": drawn(rng, list("DEFGHIJ"), [6775, 9797, 9542, 11292, 8304, 5422, 2808], n),
            "clarity": drawn(
                rng,
                ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
                [741, 9194, 13065, 12258, 8171, 5066, 3655, 1790],
                n,
            ),
            "depth": depth,
            "table": np.round(rng.normal(57.46, 2.23, n)),
            "x": length,
            "y": np.round(length * rng.normal(1, 0.01, n), 2),
            "z": np.round(length * depth / 100, 2),
        }
    )
    return frame, np.round(np.exp(8.4 + 1.7 * np.log(carat) + rng.normal(0, 0.2, n)))


def flights(n=330_000):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "carrier": drawn(rng, [f"C{i:02d}" for i in range(16)], CARRIERS, n),
            "origin": drawn(rng, ["EWR", "JFK", "LGA"], [120835, 111279, 104662], n),
            "month": rng.integers(1, 13, n),
            "hour": rng.integers(5, 24, n),
            "distance": rng.integers(80, 4983, n),
            "dep_delay": np.round(rng.exponential(20, n) - 8),
            "air_time": np.round(rng.normal(150, 90, n).clip(20, 700)),
        }
    )
    return frame, (frame["dep_delay"] + rng.normal(-5, 15, n)).to_numpy()


def encoded(frame, leaf):
    numbers = [name for name in frame if frame[name].dtype.kind in "fi"]
    text = [name for name in frame if name not in numbers]
    return make_pipeline(
        make_column_transformer((OneHotEncoder(), text), (StandardScaler(), numbers)), leaf
    )


def best(function, runs):
    """Processor seconds of the fastest run, and its result."""
    found = []
    for _ in range(runs):
        start = time.process_time()
        result = function()
        found.append((time.process_time() - start, result))
    return min(found, key=lambda pair: pair[0])


def compare(title, estimator, X, y, runs=3):
    karat.CoresetRegressor(estimator).fit(X, y)  # imports, thread pools, memory
    plain_time, plain = best(lambda: clone(estimator).fit(X, y), runs)
    few_time, few = best(lambda: karat.CoresetRegressor(estimator).fit(X, y), 2 * runs)
    gap = np.abs(few.predict(X[:1000]) - plain.predict(X[:1000])).max() / np.abs(y).max()
    print(
        f"  {title:48}{plain_time:9.3f} s plain{few_time:9.3f} s karat{plain_time / few_time:8.1f}"
        f" x   {len(few.core_):,} rows, predictions differ by {gap:.0e} of the largest"
    )


def tables():
    X, y = diamonds()
    print(f"Diamonds, {len(X):,} rows")
    compare("LinearRegression (one fit; at least 0.33 x)", encoded(X, LinearRegression()), X, y)
    grid = {"ridge__alpha": np.logspace(-3, 3, 20)}
    compare(
        "GridSearchCV, 20 alphas x 5 folds",
        GridSearchCV(encoded(X, Ridge()), grid, cv=5),
        X,
        y,
        runs=1,
    )
    X, y = flights()
    print(f"Flights, {len(X):,} rows")
    grid = {"ridge__alpha": np.logspace(-3, 3, 3)}
    compare(
        "GridSearchCV, 3 alphas x 5 folds",
        GridSearchCV(encoded(X, Ridge()), grid, cv=5),
        X,
        y,
        runs=1,
    )


def all_estimators(d):
    """Every listed regressor and classifier, with the target that it takes; and what is put around
    them.
    """
    scaled = make_pipeline(StandardScaler(), Lasso())
    flat = [
        LinearRegression(),
        Ridge(),
        Lasso(0.1),
        ElasticNet(0.1),
        BayesianRidge(),
        models.LassoLars(0.1),
    ]
    flat += [
        models.OrthogonalMatchingPursuit(),
        LassoCV(cv=5),
        ElasticNetCV(cv=5),
        RidgeCV(),
        RidgeCV(cv=5),
        models.LassoLarsCV(),
    ]
    flat += [
        make_pipeline(StandardScaler(), Ridge()),
        make_pipeline(PCA(5), Ridge()),
        make_pipeline(SelectKBest(f_regression), Ridge()),
    ]
    flat += [make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge())] if d <= 10 else []
    flat += [
        TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
        make_pipeline(StandardScaler(), RidgeCV(cv=5)),
    ]
    flat += [GridSearchCV(scaled, {"lasso__alpha": [0.01, 0.1, 1.0]}, cv=5)]
    flat += [
        RandomizedSearchCV(scaled, {"lasso__alpha": [0.01, 0.1, 1.0]}, n_iter=2, random_state=0)
    ]
    several = [
        MultiTaskLasso(0.1),
        MultiTaskElasticNet(0.1),
        MultiTaskLassoCV(cv=3),
        MultiTaskElasticNetCV(cv=3),
    ]
    several += [MultiOutputRegressor(Ridge())]
    classes = [
        RidgeClassifier(),
        RidgeClassifierCV(cv=3),
        models.LinearDiscriminant(),
        models.QuadraticDiscriminant(),
    ]
    classes += [
        models.GaussianNaiveBayes(),
        GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 10.0]}, cv=5),
    ]
    return (
        [(karat.CoresetRegressor, 1, one) for one in flat]
        + [(karat.CoresetRegressor, 2, one) for one in several]
        + [(karat.CoresetClassifier, 0, one) for one in classes]
    )


def small():
    """Small data passes through: at most 1.3 times plain and 5 ms, for every estimator."""
    rng = np.random.default_rng(0)
    worst = (0.0, "")
    for n in (100, 1000, 5000):
        for d in (10, 40):
            X = rng.standard_normal((n, d))
            y = X[:, 0] + rng.standard_normal(n)
            targets = {0: np.digitize(y, [-0.5, 0.5]), 1: y, 2: np.column_stack([y, X[:, 1] - y])}
            beyond = []
            for wrap, kind, estimator in all_estimators(d):
                target = targets[kind]
                if n < 10 * d and isinstance(estimator, models.QuadraticDiscriminant):
                    continue  # a class has fewer rows than columns
                clone(estimator).fit(X, target)
                plain, few = np.inf, np.inf
                for _ in range(3):
                    plain = min(plain, best(lambda: clone(estimator).fit(X, target), 1)[0])  # noqa: B023
                    few = min(few, best(lambda: wrap(estimator).fit(X, target), 1)[0])  # noqa: B023
                inside = (
                    f" of {type(estimator[-1]).__name__}" if hasattr(estimator, "steps") else ""
                )
                name = type(estimator).__name__ + inside
                share = few / (1.3 * plain + 0.005)
                worst = max(worst, (share, f"n = {n:,}, d = {d}, {name}"))
                beyond += (
                    [f"{name}: {1000 * few:.1f} ms, plain {1000 * plain:.1f} ms"]
                    if share > 1
                    else []
                )
            print(
                f"  n = {n:,}, d = {d}: " + ("; ".join(beyond) or "all within 1.3 x plain + 5 ms"),
                flush=True,
            )
    print(f"Small data: at most {worst[0]:.2f} of 1.3 x plain + 5 ms ({worst[1]})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small data only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if not options.small:
        tables()
    small()


if __name__ == "__main__":
    main()
