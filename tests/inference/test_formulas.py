"""Formulas: the columns are those of formulaic, and what cannot be exact is refused by the name of
its term.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

smf = pytest.importorskip("statsmodels.formula.api")
formulaic = pytest.importorskip("formulaic")

from inference.data_sets import simulated  # noqa: E402

from karat import InputError, NotExactError  # noqa: E402
from karat.inference import anova, ols  # noqa: E402


@pytest.fixture(scope="module")
def frame():
    return simulated(0, 600)()


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ a + b",
        "y ~ a*g*C(h)",
        "y ~ 0 + g:a + C(h)",
        "y ~ a:b + g - 1",
        "y ~ (a + b + g)**2",
        "y ~ C(g, contr.treatment('red')) + C(h, contr.poly)",
        "y ~ C(g, contr.sum):C(h, contr.diff)",
        "y ~ poly(a, 3) + poly(b, 2, raw=True)",
        "y ~ bs(a, df=5) + bs(h, df=3, degree=1, include_intercept=True)",
        "y ~ center(a)**2 + scale(b, center=False) + scale(a * b)",
        "np.log1p(np.abs(y)) ~ np.where(a > 0, a, 0) + I(b / 2) + I((a > 0.5) * b)",
        "y ~ C(a > 0) + C(g, levels=['red', 'green', 'blue']) + 2:b",
        "`y` ~ `a` + np.exp(`b` / 10)",
    ],
)
def test_columns_are_those_of_formulaic(formula, frame):
    fit = ols(formula, frame)
    matrices = formulaic.model_matrix(formula, frame, cluster_by="numerical_factors")
    assert sorted(fit.labels) == sorted(matrices.rhs.columns)  # the order is that of statsmodels
    np.testing.assert_allclose(
        fit.design.matrix(frame, fit.labels), matrices.rhs[fit.labels], rtol=1e-9, atol=1e-9
    )
    whole = ols(formula, frame.iloc[::-1])
    np.testing.assert_allclose(whole.params, fit.params, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ C(h):b + a",
        "y ~ a*g - 1",
        "y ~ (a + b + g)**2 + np.sqrt(b)",
        "y ~ flag + C(h):b + np.where(flag, a, 0.0)",
        "y ~ a:flag:g + b",
        "y ~ np.log(b) + g/a + h",
        "y ~ a:b + g:b + b + g + 0",
        "y ~ I(b ** 2) + a:g + a:b:g + C(h)",
        "y ~ h + C(g)*flag*b - a",
        "y ~ (g + a:b + b)**3",
        "y ~ (a + b)**60",
    ],
)
def test_columns_are_in_the_order_of_statsmodels(formula, frame):
    few, full = ols(formula, frame), smf.ols(formula, frame).fit()
    assert few.labels == list(full.params.index)
    np.testing.assert_allclose(few.bse, full.bse, rtol=1e-8)


def test_all_other_columns(frame):
    few = ols(
        "y ~ .",
        frame[["a", "b", "y", "w", "user"]],
        weights="w",
        cov_type="cluster",
        cluster="user",
    )
    assert few.labels == ["Intercept", "a", "b"]


def test_names_of_any_kind():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"my x": rng.standard_normal(300), "a.b": rng.choice(["p q", "r:s"], 300)})
    frame["the y"] = frame["my x"] + rng.standard_normal(300)
    fit = ols("`the y` ~ `my x` + C(`a.b`) + np.exp(`my x`)", frame)
    assert fit.labels[0] == "Intercept"
    assert len(fit.labels) == 4
    assert len(fit.predict(frame.head(3))) == 3


def test_order_of_levels(frame):
    ordered = frame.assign(g=pd.Categorical(frame["g"], ["red", "unused", "blue", "green"]))
    assert ols("y ~ g", ordered).labels == ["Intercept", "g[T.blue]", "g[T.green]"]
    assert ols("y ~ g", frame).labels == ["Intercept", "g[T.green]", "g[T.red]"]
    # of the type category, so they are levels
    numbers = frame.assign(g=pd.Categorical(frame["h"] / 2))
    assert ols("y ~ g", numbers).labels == [
        "Intercept",
        "g[T.1009.5]",
        "g[T.1010.0]",
        "g[T.1010.5]",
    ]
    polars = pytest.importorskip("polars")
    enum = polars.from_pandas(frame).with_columns(
        polars.col("g").cast(polars.Enum(["red", "green", "blue"]))
    )
    assert ols("y ~ g", enum).labels == ["Intercept", "g[T.green]", "g[T.blue]"]


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ a +", "'y ~ a \\+' cannot be read"),
        ("y ~ (a", "cannot be read"),
        ("a + b", "no response"),
        ("y:a ~ b", "one response"),
        ("C(y) ~ a", "must be a number"),
        ("g ~ a", "'g' is text"),
        ("y ~ q", "no column 'q'"),
        ("y ~ aa", "did you mean 'a'"),
        ("y ~ y + a", "'y' is also a term"),
        ("y ~ np.mean(a)", "'np.mean\\(a\\)' uses 'np.mean'"),
        ("y ~ a.mean()", "uses 'a.mean'"),
        ("y ~ __import__('os')", "uses"),
        ("y ~ I(__import__('os').getcwd())", "uses"),
        ("y ~ np.load('x')", "uses 'np.load'"),
        ("y ~ I([c for c in a])", "uses"),
        ("y ~ center(scale(a))", "scale inside center"),
        ("y ~ C(center(a))", "depend on all rows"),
        ("y ~ C(g, contr.what)", "not known contrasts"),
        ("y ~ C(g, levels=['red'])", "does not list the level"),
        ("y ~ np.log(g)", "'g' is text"),
        ("y ~ np.log(a)", "'np.log\\(a\\)'"),
        ("y ~ lag(a)", "uses 'lag'"),
        ("y ~ 0", "has no term"),
        ("y ~ a + I(2 * a)", "linear combination"),
        ("y ~ a + b + I(a + b)", "linear combination"),
        ("y ~ a + I(a * 0)", "'I\\(a \\* 0\\)' is always zero"),
        ("y ~ a + I(a * 0 + 3)", "constant, like the intercept"),
        (
            "y ~ g + C(user):C(a)",
            "columns, [0-9,]+ of them of the term .C.user.:C.a..; a table has",
        ),
    ],
)
def test_bad_formulas(formula, said, frame):
    with pytest.raises((InputError, NotExactError), match=said):
        ols(formula, frame)


def test_missing_values(frame):
    holes = frame.assign(a=frame["a"].where(frame.index != 7), g=frame["g"].where(frame.index != 9))
    with pytest.raises(InputError, match="'a' has no value"):
        ols("y ~ a", holes)
    with pytest.raises(InputError, match="'g' has no value"):
        ols("y ~ C(g) + b", holes)
    few = ols("y ~ a + center(b) + g", holes, on_missing="drop", cov_type="HC3", weights="w")
    full = ols("y ~ a + center(b) + g", holes.dropna(), cov_type="HC3", weights="w")
    assert few.nobs == len(frame) - 2
    np.testing.assert_allclose(few.bse, full.bse, rtol=1e-9)
    np.testing.assert_allclose(few.llf, full.llf, rtol=1e-9)


def test_values_that_an_expression_does_not_have(frame):
    """Rows without a logarithm are left out of every pass, also of the levels, the means and the
    weights.
    """
    formula, some = (
        "y ~ np.log(a) + center(b) + g",
        frame.assign(g=frame["g"].where(frame["a"] > 0, "only here")),
    )
    few = ols(formula, some, on_missing="drop", weights="w", cov_type="HC0")
    full = ols(formula, some[some["a"] > 0], weights="w", cov_type="HC0")
    assert few.labels == full.labels
    np.testing.assert_allclose(few.bse, full.bse, rtol=1e-9)
    np.testing.assert_allclose(few.llf, full.llf, rtol=1e-12)


def test_what_new_rows_need(frame):
    fit = ols("y ~ a + C(g) + bs(b, df=4)", frame)
    with pytest.raises(InputError, match=r"'C\(g\)' has no level 'violet'"):
        fit.predict(frame.head(3).assign(g="violet"))
    with pytest.raises(InputError, match="no column 'a'"):
        fit.predict(frame[["g", "b"]].head(3))
    with pytest.raises(InputError, match="'a' has no value"):
        fit.predict(frame.head(3).assign(a=np.nan))
    with pytest.raises(InputError, match="bs"):
        fit.predict(frame.head(3).assign(b=1e9))
    with pytest.raises(NotExactError, match="new rows"):
        fit.predict()
    assert fit.predict({"a": 1.0, "g": "red", "b": 0.5}).shape == (1,)


def test_arguments(frame):
    for call, said in (
        (lambda: ols("y ~ a", frame, cov_type="HC9"), "cov_type must be one of"),
        (
            lambda: ols("y ~ a", frame, cov_type="cluster"),
            "labels the clusters. Pass its name as cluster=",
        ),
        (lambda: ols("y ~ a", frame, cluster="user"), "cov_type='cluster'"),
        (lambda: ols("y ~ a", frame, cov_type="cluster", cluster="none"), "no column 'none'"),
        (
            lambda: ols("y ~ a", frame.assign(user=3), cov_type="cluster", cluster="user"),
            "'user' has a single cluster",
        ),
        (lambda: ols("y ~ a", frame, weights="none"), "no column 'none'"),
        (lambda: ols("y ~ a", frame.assign(w=0.0), weights="w"), "'w' is not positive"),
        (lambda: ols("y ~ a", frame, on_missing="guess"), "on_missing"),
        (lambda: ols("y ~ a"), "needs data"),
        (lambda: ols(3, frame), "formula or a coreset"),
        (anova, "needs a fit"),
        (lambda: anova(ols("y ~ a", frame), ols("y ~ b", frame)), "'a' is not in the larger"),
        (lambda: anova(ols("y ~ a", frame, cov_type="HC1"), ols("y ~ a + b", frame)), "classical"),
        (lambda: ols("y ~ a", frame.head(2)), "degrees of freedom"),
        (
            lambda: ols("y ~ C(g) + C(user)", frame.head(60), cov_type="HC3"),
            "leverage 1|degrees|rows for",
        ),
    ):
        with pytest.raises((InputError, NotExactError), match=said):
            call()


def test_leverage_one(frame):
    alone = frame.assign(one=np.arange(len(frame)) == 5)
    assert np.isfinite(ols("y ~ a + one", alone, cov_type="HC1").bse).all()
    with pytest.raises(NotExactError, match="leverage 1"):
        ols("y ~ a + one", alone, cov_type="HC3")


def test_two_columns_of_one_name_are_refused():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((50, 4)), columns=["y", "a", "b", "a:b"]).assign(
        q=list("ab") * 25
    )
    with pytest.raises(InputError, match="make a column 'a:b'"):
        ols("y ~ a * b + `a:b`", frame)
    with pytest.raises(InputError, match=r"make a column 'q\[T.b\]'"):
        ols("y ~ q + `q[T.b]`", frame.rename(columns={"a:b": "q[T.b]"}))


def test_isin_compares_with_values_only():
    frame = pd.DataFrame({"y": np.arange(9.0), "i": [1, 2, 3] * 3, "v": [3, 3, 1] * 3})
    with pytest.raises(InputError, match="not with a column"):
        ols("y ~ np.isin(i, v)", frame)
    assert len(ols("y ~ np.isin(i, [1, 2])", frame).params) == 2


@pytest.mark.parametrize(
    "kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.float16, np.float32]
)
def test_products_of_narrow_numbers_do_not_overflow(kind):
    """Parquet files hold numbers in few bits; their products need more."""
    rng = np.random.default_rng(0)
    size = 100 if np.dtype(kind).itemsize < 4 else 2**20
    frame = pd.DataFrame(
        {
            "a": rng.integers(size // 2, size, 300),
            "b": rng.integers(0, size, 300),
            "g": list("pqr") * 100,
        }
    )
    frame["y"] = frame["a"] * frame["b"] / size**2 + rng.standard_normal(300)
    for formula in ("y ~ a:b", "y ~ a:b:g", "y ~ I(a * b)"):
        fit, full = (
            ols(formula, frame.astype({"a": kind, "b": kind})),
            smf.ols(formula, frame).fit(),
        )
        np.testing.assert_allclose(fit.params, full.params, rtol=1e-9)
        np.testing.assert_allclose(
            fit.predict(frame.head().astype({"a": kind})), full.predict(frame.head()), rtol=1e-9
        )


def test_expressions_of_whole_numbers_that_would_be_rounded(frame):
    """A remainder of a number beyond 2^53 is another one in double precision."""
    long = frame.assign(key=2**60 + np.arange(len(frame)))
    for term in ("C(key % 3)", "I(key - 2**60)", "center(key)"):
        with pytest.raises(InputError, match="'key' holds integers beyond"):
            ols(f"y ~ {term}", long)
