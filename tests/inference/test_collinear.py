"""``on_collinear="drop"`` leaves out columns that are combinations of those before them; the table
is that of the remaining columns.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

sm = pytest.importorskip("statsmodels.api")
formulaic = pytest.importorskip("formulaic")

import karat  # noqa: E402
from karat import InputError, NotExactError  # noqa: E402
from karat.inference import anova, ols  # noqa: E402

FORMULAS = {
    "y ~ a + b + c": ["c"],
    "y ~ c + b + a": ["a"],
    "y ~ a + g * h": ["g[T.q]:h[T.t]"],  # an empty cell
    "y ~ g + h + a + gg + b": ["gg[T.two]"],  # a category that says the same
    "y ~ a + zero + b + one": ["zero", "one"],
    "y ~ 0 + one + a + C(g) + c": ["C(g)[q]"],
    "y ~ a + b + I(a - b) + I(a + b) + c": ["I(a - b)", "I(a + b)", "c"],
}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame(
        {
            "a": rng.standard_normal(n) + 3,
            "b": rng.exponential(size=n),
            "g": rng.choice(["p", "q"], n),
            "h": rng.choice(["r", "s", "t"], n),
            "w": rng.uniform(0.5, 2, n),
            "firm": rng.integers(0, 40, n),
            "zero": 0.0,
            "one": 1.0,
        }
    )
    frame = frame[~((frame["g"] == "q") & (frame["h"] == "t"))].reset_index(drop=True)
    noise = rng.standard_normal(len(frame)) * frame["b"]
    c = frame["a"] + 2 * frame["b"]
    gg = frame["g"].map({"p": "one", "q": "two"})
    return frame.assign(c=c, gg=gg, y=frame["a"] - frame["b"] + noise)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_the_table_is_that_of_the_other_columns(formula, weights, frame):
    kinds = ["nonrobust", "HC1", "HC3", "cluster"]
    fit = ols(
        formula, frame, on_collinear="drop", cov_type=kinds, cluster="firm", weights=weights,
        residual_quantiles=True,
    )  # fmt: skip
    dropped = [name for name in FORMULAS[formula] if name not in fit.labels]
    if "0 + one" not in formula:
        assert list(fit.model.dropped) == FORMULAS[formula] == dropped
    matrix = formulaic.model_matrix(formula, frame, cluster_by="numerical_factors").rhs
    options = {} if weights is None else {"weights": frame["w"]}
    X = matrix[fit.labels]
    assert np.linalg.matrix_rank(matrix) == len(fit.labels)
    model = (sm.WLS if weights else sm.OLS)(frame["y"], X, **options)
    for kind in kinds:
        groups = {"cov_kwds": {"groups": frame["firm"]}} if kind == "cluster" else {}
        full, mine = model.fit(cov_type=kind, **groups), fit.get_robustcov_results(kind)
        np.testing.assert_allclose(mine.params, full.params, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(mine.bse, full.bse, rtol=1e-8)
        assert mine.df_resid == full.df_resid
    np.testing.assert_allclose(
        fit.predict(frame.head(9)), model.fit().fittedvalues[:9], rtol=1e-8, atol=1e-10
    )
    assert fit.residual_quantiles["max"] == pytest.approx(full.wresid.max(), rel=1e-8)


def test_dropped_columns_are_named(frame, tmp_path):
    fit = ols("y ~ a + b + c + g * h", frame, on_collinear="drop", cov_type="HC1")
    shown = str(fit.summary())
    assert "Dropped, as linear combinations of columns before them: 'g[T.q]:h[T.t]', 'c'." in shown
    assert sum("dropped" in line for line in shown.splitlines()) == 2
    tidy = fit.tidy()
    assert tidy[tidy["estimate"].isna()]["term"].tolist() == ["g[T.q]:h[T.t]", "c"]
    assert set(anova(ols("y ~ a + b + c", frame, on_collinear="drop")).index) == {
        "a", "b", "Residual",
    }  # fmt: skip
    fit.coreset.save(tmp_path / "fit.npz")
    again = ols(karat.load(tmp_path / "fit.npz"), cov_type="HC1")
    np.testing.assert_allclose(again.bse, fit.bse, rtol=1e-10)
    assert again.model.dropped == fit.model.dropped
    more = ols(karat.load(tmp_path / "fit.npz"), frame, cov_type="HC3")
    np.testing.assert_allclose(
        more.bse, ols("y ~ a + b + g * h", frame, on_collinear="drop", cov_type="HC3").bse
    )


def test_coresets_without_a_formula(frame):
    core = karat.coreset(frame[["a", "b", "c"]], frame["y"])
    with pytest.raises(InputError, match="linear combination"):
        ols(core)
    fit = ols(core, on_collinear="drop")
    assert fit.labels == ["Intercept", "a", "b"]
    np.testing.assert_allclose(fit.bse, ols("y ~ a + b", frame).bse, rtol=1e-9)


def test_the_default_is_an_error(frame):
    for formula in ("y ~ a + b + c", "y ~ g * h", "y ~ a + zero"):
        with pytest.raises(InputError, match="remove"):
            ols(formula, frame)
    with pytest.raises(InputError, match="on_collinear must be 'error' or 'drop'"):
        ols("y ~ a", frame, on_collinear="keep")
    with pytest.raises(InputError, match="Every column is always zero"):
        ols("y ~ 0 + zero", frame, on_collinear="drop")
    fit = ols("y ~ a + b", frame, on_collinear="drop")
    assert fit.model.dropped == ()
    assert "Dropped" not in str(fit.summary())
    with pytest.raises(NotExactError):
        ols("y ~ a + b + c", frame, on_collinear="drop").submodel("y ~ a + c")
