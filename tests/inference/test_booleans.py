"""Booleans are categories with the levels False and True, as in statsmodels; they keep their types
in expressions.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

from inference.data_sets import simulated  # noqa: E402

from karat.inference import ols  # noqa: E402

FORMULAS = [
    "y ~ flag",
    "y ~ flag - 1",
    "y ~ a:flag",
    "y ~ a * flag",
    "y ~ flag * g",
    "y ~ flag:I(b > 1) + a",
    "y ~ I(a > 0.5) + b",
    "y ~ np.logical_and(flag, b > 1) + a",
    "y ~ I(flag * b) + np.logical_not(flag)",
    "y ~ C(flag, Treatment) + C(g, Treatment(reference='red')) + C(h, Sum)",
    "y ~ C(h % 2) + C(h // 2019)",
    "y ~ I(g == 'red') + np.where(flag, a, b)",
]


@pytest.fixture(scope="module")
def frame():
    return simulated(0, 500)()


@pytest.mark.parametrize("formula", FORMULAS)
def test_tables_of_statsmodels(formula, frame):
    few, full = ols(formula, frame, cov_type="HC1"), smf.ols(formula, frame).fit(cov_type="HC1")
    assert list(few.params.index) == list(full.params.index)
    np.testing.assert_allclose(few.params, full.params, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(few.bse, full.bse, rtol=1e-9)
    some = frame.head(7)
    np.testing.assert_allclose(few.predict(some), full.predict(some), rtol=1e-9)
    assert ols(few.coreset).labels == few.labels
    np.testing.assert_allclose(few.submodel(formula).params, few.params, rtol=1e-12)


@pytest.mark.parametrize("kind", ["object", "nullable", "arrow", "csv", "gaps"])
def test_kinds_of_booleans(kind, frame, tmp_path):
    expected, data = ols("y ~ a * flag", frame), frame[["y", "a", "flag"]]
    if kind == "csv":
        pacsv.write_csv(pa.Table.from_pandas(data), tmp_path / "rows.csv")
        data = tmp_path / "rows.csv"
    elif kind == "gaps":
        data = pd.concat(
            [
                data.astype({"flag": "boolean"}),
                pd.DataFrame({"y": [9.0], "a": [9.0], "flag": [pd.NA]}),
            ]
        )
    else:
        data = data.astype(
            {"flag": {"object": object, "nullable": "boolean", "arrow": "bool[pyarrow]"}[kind]}
        )
    found = ols("y ~ a * flag", data, on_missing="drop" if kind == "gaps" else "error")
    assert found.labels == expected.labels == ["Intercept", "flag[T.True]", "a", "a:flag[T.True]"]
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)
    assert found.nobs == len(frame)


def test_functions_of_booleans_are_exact(frame):
    """NumPy computes np.exp of a boolean in half precision."""
    fit = ols("y ~ np.exp(flag) + center(flag * a)", frame)
    np.testing.assert_allclose(
        fit.design.matrix(frame, fit.labels)[:, 1], np.exp(frame["flag"].astype(float)), rtol=1e-15
    )


@pytest.mark.filterwarnings("ignore:There are .* clusters:UserWarning")
def test_zeros_of_both_signs_are_one_level(frame):
    signs = frame.assign(
        c=np.where(frame.index % 3 == 0, -0.0, np.where(frame.index % 3 == 1, 0.0, 1.5))
    )
    fit, full = ols("y ~ C(c) + a", signs), smf.ols("y ~ C(c) + a", signs).fit()
    assert fit.labels == list(full.params.index) == ["Intercept", "C(c)[T.1.5]", "a"]
    np.testing.assert_allclose(fit.params, full.params, rtol=1e-9)
    np.testing.assert_allclose(fit.predict(signs.head()), full.predict(signs.head()), rtol=1e-9)
    clustered = ols("y ~ a", signs, cov_type="cluster", cluster="c")
    assert clustered.n_groups == 2
