"""Rows that are dropped are not examined: the table is that of the remaining rows, in any order of
the terms, whatever else the dropped rows hold.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

from inference.data_sets import simulated  # noqa: E402

from karat import InputError  # noqa: E402
from karat.inference import ols  # noqa: E402

GAP = 5  # the row that lacks a value of a
SPOILT = {  # what this row holds besides, and terms that read it
    "a rare level": ({"g": "violet"}, ["g", "a"]),
    "a rare level of C": ({"g": "violet"}, ["C(g)", "a", "b"]),
    "a rare combination": ({"g": "violet"}, ["g:b", "a"]),
    "an infinite column": ({"b": np.inf}, ["b", "a"]),
    "an infinite expression": ({"b": 0.0}, ["np.log(b)", "a"]),
    "an infinite level": ({"b": np.inf}, ["C(np.floor(b) > 1)", "a"]),
    "a value beyond the knots": ({"b": 99.0}, ["bs(b, knots=[1.0, 2.0])", "a"]),
    "a value that moves the mean": ({"b": 1e9}, ["center(b)", "a"]),
    "an infinite polynomial": ({"b": np.inf}, ["poly(b, 2)", "a"]),
    "an infinite response": ({"y": np.inf}, ["b", "a"]),
}


@pytest.fixture(scope="module")
def frame():
    return simulated(0, 300)()


def spoilt(frame, values, gap="a"):
    frame = frame.copy()
    for name, value in values.items():
        frame[name] = frame[name].astype(object if isinstance(value, str) else float)
        frame.loc[GAP, name] = value
    frame[gap] = frame[gap].astype(float)
    frame.loc[GAP, gap] = np.nan
    return frame


@pytest.mark.parametrize("case", SPOILT)
def test_rows_that_are_dropped_are_not_examined(case, frame, tmp_path):
    values, terms = SPOILT[case]
    rows = spoilt(frame, values)
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    kept = frame.drop(index=GAP)
    for order in permutations(terms):
        formula = f"y ~ {' + '.join(order)}"
        expected = ols(formula, kept)
        for data in (rows, tmp_path / "rows.parquet", tmp_path / "rows.csv"):
            fit = ols(formula, data, on_missing="drop")
            assert fit.nobs == len(kept)
            np.testing.assert_allclose(fit.params, expected.params[fit.labels], rtol=1e-8)
        if "bs" not in formula and "poly" not in formula:
            full = smf.ols(formula, kept).fit() if "center" not in formula else expected
            np.testing.assert_allclose(fit.bse, full.bse.to_numpy(), rtol=1e-8)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.inf, np.nan])
def test_weights_of_dropped_rows(weight, frame):
    fit = ols("y ~ a + b", spoilt(frame, {"w": weight}), weights="w", on_missing="drop")
    kept = frame.drop(index=GAP)
    full = smf.wls("y ~ a + b", kept, weights=kept["w"]).fit()
    np.testing.assert_allclose(fit.bse, full.bse, rtol=1e-9)
    assert fit.llf == pytest.approx(full.llf, rel=1e-9)


@pytest.mark.parametrize("kind", ["Int64", float, object, "string"])
def test_missing_labels_of_clusters(kind, frame):
    """A row without a label is dropped in every pass, as in Stata and fixest."""
    rows = frame.assign(user=frame["user"].astype(kind))
    rows.loc[[GAP, 7], "user"] = None
    for data, kept in (
        (rows, frame.drop(index=[GAP, 7])),
        (rows.assign(a=rows["a"].where(rows.index != GAP)), frame.drop(index=[GAP, 7])),
    ):
        fit = ols("y ~ a + C(g)", data, cov_type="cluster", cluster="user", on_missing="drop")
        full = smf.ols("y ~ a + C(g)", kept).fit(
            cov_type="cluster", cov_kwds={"groups": kept["user"]}
        )
        np.testing.assert_allclose(fit.bse, full.bse, rtol=1e-9)
        assert fit.nobs == len(kept)
    with pytest.raises(InputError, match="'user' has no value"):
        ols("y ~ a", rows, cov_type="cluster", cluster="user")


def test_values_that_expressions_lack(frame):
    """The logarithm of -1 is missing; a rare level of that row is no level of the rest."""
    rows = frame.assign(b=frame["b"].where(frame.index != GAP, -1.0))
    rows.loc[GAP, "g"], rows.loc[GAP, "a"] = "violet", np.inf
    for formula in ("y ~ np.log(b) + g + a", "y ~ a + g + np.log(b)", "y ~ poly(a, 2) + np.log(b)"):
        fit = ols(formula, rows, on_missing="drop")
        np.testing.assert_allclose(
            fit.params, ols(formula, frame.drop(index=GAP)).params, rtol=1e-9
        )


def test_infinite_values_of_other_rows_are_errors(frame):
    rows = frame.assign(b=frame["b"].where(frame.index != 7, np.inf))
    rows.loc[GAP, "a"] = np.nan
    for formula in ("y ~ a + b", "y ~ I(b - b) + a", "y ~ a + poly(b, 2)", "y ~ a + C(b > 1)"):
        with pytest.raises(InputError, match="The data, row 7: column 'b' is infinite"):
            ols(formula, rows, on_missing="drop")
    with pytest.raises(InputError, match="row 7: the weight in column 'w' is not positive"):
        ols(
            "y ~ a", frame.assign(w=frame["w"].where(frame.index != 7, 0.0)), weights="w",
            on_missing="drop",
        )  # fmt: skip


def test_batches_of_which_every_row_is_dropped(frame, tmp_path):
    gaps = frame.assign(a=np.nan, g="violet")
    for number, part in enumerate((gaps, frame, gaps)):
        part.to_parquet(tmp_path / f"{number}.parquet")
    for formula in ("y ~ a * g", "y ~ bs(a, df=4) + C(h)", "y ~ a + b"):
        fit = ols(
            formula, tmp_path, weights="w", cov_type=["HC1", "cluster"], cluster="user",
            on_missing="drop",
        )  # fmt: skip
        plain = ols(formula, frame, weights="w", cov_type="HC1")
        np.testing.assert_allclose(fit.bse, plain.bse, rtol=1e-9)
    with pytest.raises(InputError):
        ols("y ~ a", gaps, on_missing="drop")
