"""Thirty data sets, real and simulated: a frame, a formula, and columns of weights and clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd


class Case(NamedTuple):
    """A table to make."""

    frame: Callable[[], pd.DataFrame]
    formula: str
    weights: str | None = None
    cluster: str | None = None


def shipped(name: str) -> Callable[[], pd.DataFrame]:
    """A data set that comes with statsmodels."""

    def load() -> pd.DataFrame:
        import statsmodels.api as sm

        return getattr(sm.datasets, name).load_pandas().data.dropna()

    return load


def diabetes() -> pd.DataFrame:
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True, scaled=False).frame


def simulated(
    seed: int, n: int, clusters: int = 50, shift: float = 0.0
) -> Callable[[], pd.DataFrame]:
    """Numbers, categories, heteroskedastic errors that are correlated within clusters, and
    weights.
    """

    def make() -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        user = np.concatenate([np.arange(clusters), rng.integers(0, clusters, n - clusters)])
        a, b = rng.standard_normal(n) + shift, rng.exponential(size=n)
        g, h = rng.choice(["red", "green", "blue"], n), rng.integers(2018, 2022, n)
        noise = rng.standard_normal(n) * (0.5 + b) + rng.standard_normal(clusters)[user]
        y = 1 + 2 * a - b + (g == "red") + 0.1 * h + noise
        frame = {
            "a": a,
            "b": b,
            "g": g,
            "h": h,
            "user": user,
            "w": rng.uniform(0.2, 3, n),
            "y": y,
            "flag": a > shift,
        }
        return pd.DataFrame(frame)

    return make


def text_clusters() -> pd.DataFrame:
    frame = simulated(20, 2000, 60)()
    return frame.assign(user=[f"user {i}" for i in frame["user"]])


CASES = {
    "longley": Case(shipped("longley"), "TOTEMP ~ GNP + UNEMP + ARMED"),
    "stackloss": Case(shipped("stackloss"), "STACKLOSS ~ AIRFLOW + WATERTEMP + ACIDCONC"),
    "engel": Case(shipped("engel"), "foodexp ~ income"),
    "fair": Case(shipped("fair"), "affairs ~ rate_marriage + age + educ", cluster="occupation"),
    "randhie": Case(
        shipped("randhie"), "mdvis ~ lncoins + idp + lpi + physlm + disea + hlthg + hlthf + hlthp"
    ),
    "star98": Case(
        shipped("star98"),
        "NABOVE ~ LOWINC + PERASIAN + PERBLACK + PERHISP + PTRATIO",
        weights="AVYRSEXP",
    ),
    "grunfeld": Case(shipped("grunfeld"), "invest ~ value + capital", cluster="firm"),
    "grunfeld firms": Case(
        shipped("grunfeld"), "invest ~ value + capital + C(firm)", cluster="year"
    ),
    "spector": Case(shipped("spector"), "GPA ~ TUCE + PSI + GRADE"),
    "ccard": Case(shipped("ccard"), "AVGEXP ~ AGE + INCOME + OWNRENT"),
    "copper": Case(shipped("copper"), "WORLDCONSUMPTION ~ COPPERPRICE + INCOMEINDEX + ALUMPRICE"),
    "committee": Case(shipped("committee"), "BILLS104 ~ SIZE + SUBS + STAFF"),
    "crime": Case(shipped("statecrime"), "murder ~ hs_grad + poverty + single + urban"),
    "crime without intercept": Case(
        shipped("statecrime"), "murder ~ 0 + hs_grad + poverty + single"
    ),
    "travel": Case(
        shipped("modechoice"), "gc ~ ttme + C(mode) + hinc:C(mode)", cluster="individual"
    ),
    "vote": Case(shipped("anes96"), "vote ~ TVnews + selfLR + educ + C(PID)", cluster="age"),
    "macro": Case(
        shipped("macrodata"), "infl ~ unemp + tbilrate + np.log(realgdp)", cluster="year"
    ),
    "strikes": Case(shipped("strikes"), "np.log(duration) ~ iprod"),
    "scotland": Case(shipped("scotland"), "YES ~ UNEMPF + MOR + AGE"),
    "diabetes": Case(diabetes, "target ~ age + C(sex) + bmi + bp + s1 + s2 + s5"),
    "diabetes, centred": Case(
        diabetes, "target ~ center(age) + scale(bmi) + standardize(bp) + poly(s5, 2)"
    ),
    "categories": Case(simulated(1, 3000), "y ~ a + C(g) + a:C(h)", cluster="user"),
    "weights": Case(simulated(2, 3000), "y ~ a * g + b", weights="w", cluster="user"),
    "no intercept": Case(simulated(3, 3000), "y ~ 0 + C(g) + a", cluster="user"),
    "no constant": Case(simulated(4, 3000), "y ~ 0 + a + b", weights="w", cluster="user"),
    "contrasts": Case(
        simulated(5, 3000), "y ~ C(g, contr.sum) + C(h, contr.helmert) + a", cluster="user"
    ),
    "splines": Case(
        simulated(6, 3000), "y ~ bs(b, knots=[1, 2]) + bs(h, df=2, degree=1) + flag", cluster="user"
    ),
    "two clusters": Case(simulated(7, 3000, 2), "y ~ a", cluster="user"),
    "100,000 clusters": Case(simulated(8, 120_000, 100_000), "y ~ a + b + g", cluster="user"),
    "far from zero": Case(simulated(9, 3000, shift=1e5), "y ~ a + b", cluster="user"),
    "text clusters": Case(
        text_clusters, "np.sqrt(y + 200) ~ a + I(b ** 2) + C(a > 0)", cluster="user"
    ),
}
