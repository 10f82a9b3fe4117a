"""``i(year, treated, ref=2004)`` against indicators that are written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat
from karat.errors import InputError

pytest.importorskip("statsmodels")

YEARS = list(range(2000, 2008))


def rows(seed: int = 0, n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "year": rng.integers(2000, 2008, n),
            "treated": rng.integers(0, 2, n),
            "dose": rng.standard_normal(n),
            "arm": rng.choice(["a", "b", "c"], n),
        }
    )
    frame["flag"] = frame["treated"] > 0
    frame["the year"] = frame["year"]
    frame["y"] = frame["dose"] + 0.3 * frame["treated"] * (frame["year"] - 2004)
    frame["y"] += rng.standard_normal(n)
    return frame


def indicators(frame, column, levels, times=None, called=""):
    number = 1.0 if times is None else frame[times].astype(float)
    suffix = f":{called or times}" if times else ""
    return {f"{column}::{level}{suffix}": (frame[column] == level) * number for level in levels}


def expected(frame, columns, constant=True):
    names = ["Intercept"] * constant + list(columns)
    X = np.column_stack([np.ones(len(frame))] * constant + list(columns.values()))
    return pd.Series(np.linalg.lstsq(X, frame["y"].to_numpy(), rcond=None)[0], index=names)


def years_but(*left_out):
    return [year for year in YEARS if year not in left_out]


CASES = {
    "y ~ i(year, ref=2004)": lambda f: indicators(f, "year", years_but(2004)),
    "y ~ i(year)": lambda f: indicators(f, "year", years_but(2000)),
    "y ~ i(year, treated, ref=2004)": lambda f: indicators(f, "year", years_but(2004), "treated"),
    "y ~ i(year,flag,ref = 2004)": lambda f: indicators(f, "year", years_but(2004), "flag"),
    "y ~ i(year, dose, ref=[2000, 2004])": lambda f: indicators(
        f, "year", years_but(2000, 2004), "dose"
    ),
    "y ~ i(`the year`, treated, ref=2007)": lambda f: indicators(
        f, "the year", years_but(2007), "treated"
    ),
    "y ~ i(arm, dose, ref='b')": lambda f: indicators(f, "arm", ["a", "c"], "dose"),
    "y ~ i(arm, dose)": lambda f: indicators(f, "arm", ["a", "b", "c"], "dose"),
    "y ~ dose + i(year, treated, ref=2004)": lambda f: {
        "dose": f["dose"],
        **indicators(f, "year", years_but(2004), "treated"),
    },
}


@pytest.mark.parametrize("formula", CASES)
def test_columns_and_coefficients_are_those_of_indicators(formula):
    frame = rows()
    fit, right = karat.ols(formula, frame), expected(frame, CASES[formula](frame))
    assert sorted(fit.params.index) == sorted(right.index)
    np.testing.assert_allclose(fit.params[right.index], right, rtol=1e-9, atol=1e-11)


def test_the_reference_is_left_out_without_a_constant_too():
    frame = rows(1)
    columns = indicators(frame, "year", years_but(2004))
    fit, right = karat.ols("y ~ 0 + i(year, ref=2004)", frame), expected(frame, columns, False)
    np.testing.assert_allclose(fit.params[right.index], right, rtol=1e-9, atol=1e-11)


def test_new_rows_and_stored_coresets_are_encoded_alike(tmp_path):
    frame = rows(2)
    frame.to_parquet(tmp_path / "rows.parquet")
    fit = karat.ols("y ~ i(year, flag, ref=2004) + dose", str(tmp_path / "rows.parquet"))
    fit.coreset.save(tmp_path / "core.npz")
    again = karat.ols(karat.load(tmp_path / "core.npz"))
    columns = {"dose": frame["dose"], **indicators(frame, "year", years_but(2004), "flag")}
    right = expected(frame, columns)
    means = right["Intercept"] + sum(right[name] * values for name, values in columns.items())
    for each in (fit, again):
        np.testing.assert_allclose(each.predict(frame), means, rtol=1e-9, atol=1e-9)


def test_names_that_end_in_i_and_text_in_quotes_are_left_alone():
    frame = rows(3).assign(**{"i(year)": lambda f: f["dose"] ** 2})
    fit = karat.ols("y ~ `i(year)` + I(dose * 2) + C(arm, Treatment('b'))", frame)
    assert "i(year)" in fit.params.index
    assert len(fit.params) == 5


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("i(year, ref=1999)", "ref=1999 is not a level; the levels are 2000, 2001"),
        ("i(year, ref=treated)", "ref must be a level"),
        ("i(year, ref=[])", "ref must be a level"),
        ("i(year, keep=2001)", "i takes a column of levels"),
        ("i()", "i takes a column of levels"),
        ("i(year, treated, dose)", "i takes a column of levels"),
        ("i(year, arm)", "is text where a number is needed"),
        ("i(year", "close the bracket"),
    ],
)
def test_mistakes_are_named(term, words):
    with pytest.raises(InputError, match=words):
        karat.ols(f"y ~ {term}", rows(n=200))
