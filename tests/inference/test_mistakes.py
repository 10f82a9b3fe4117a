"""What people do wrong is answered by karat's own error, which names the term and says what to
do.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

from inference.data_sets import simulated  # noqa: E402

import karat  # noqa: E402
from karat import InputError, NotExactError  # noqa: E402
from karat.inference import anova, ols  # noqa: E402

TERMS = [
    ("a | b | g", "2 bars"),
    ("C()", r"'C\(\)' needs the column"),
    ("C(3)", "reads no column"),
    ("C(g, contr.sum, 3)", "C takes a column"),
    ("C(g, levels=3)", "levels must be a list"),
    ("C(g, levels=['red', 'red'])", "different texts or numbers"),
    ("C(g, Treatment('violet'))", "violet"),
    ("bs(a, knots='a')", "knots must be a list of numbers"),
    ("bs(a, knots=['a'])", "knots must be a list of numbers"),
    ("bs(a, knots=[99])", "99 is not between"),
    ("bs(a, df=h)", "instead of the name 'h'"),
    ("bs(a, df=2.5)", "df must be an integer"),
    ("bs(a, df=4, knots=[0])", "either df or knots"),
    ("bs(a, degree='x')", "degree must be"),
    ("bs(a, extrapolation='x')", "extrapolation must be"),
    ("bs(a, _state=3)", "remove _state"),
    ("poly(a, 0)", "at least 1"),
    ("poly(a, 'x')", "degree must be"),
    ("poly(a, h)", "instead of the name 'h'"),
    ("poly(g, 2)", "is text"),
    ("center(g)", "is text"),
    ("scale(a, center='x')", "center must be"),
    ("scale(a, ddof=600)", "too few for ddof"),
    ("I(a / 0)", r"'I\(a / 0\)' is infinite"),
    ("I(a ** 1000)", "is infinite"),
    ("I(a ** 0.5)", "has no value"),
    ("I(a % 0)", "has no value"),
    ("I(1 / 0)", "1 / 0 is not a number"),
    ("I(a * 9 ** 9 ** 9)", "is not a number"),
    ("I(a * ('x' * 9))", "is not a number"),
    ("I(3)", "reads no column"),
    ("I('x')", "reads no column"),
    ("I([a, b])", "uses"),
    ("I(None)", "uses 'None'"),
    ("I()", "takes 1 argument"),
    ("np.log(b, a)", "takes 1 argument"),
    ("np.log(b, out=a)", "takes 1 argument"),
    ("np.where(a)", "takes 3 arguments"),
    ("np.where(a > 0, g, 0)", "is text"),
    ("np.log(**h)", "uses"),
    ("C(g)(a)", "uses"),
    ("ns(a, 3)", r"uses 'ns'.*first, or use bs\(\.\.\.\)\.$"),
    ("np.lgo(b)", r"uses 'np.lgo'.*or use np\.log\(\.\.\.\)\.$"),
    ("np.median(a)", r"uses 'np.median'.*a column of the data first"),
    ("(a + b)**a", "cannot be read"),
    ("(a + b)**0", "cannot be read"),
    (f"({' + '.join(f'x{i}' for i in range(40))})**20", "more than 10,000 terms"),
]


@pytest.fixture(scope="module")
def frame():
    return simulated(0, 600)()


@pytest.fixture(scope="module")
def fit(frame):
    return ols("y ~ a + C(g)", frame)


@pytest.mark.parametrize(("term", "said"), TERMS)
def test_terms(term, said, frame):
    with pytest.raises(InputError, match=said):
        ols(f"y ~ {term} + b", frame)


@pytest.mark.parametrize(
    "response", ["poly(y, 2)", "bs(y, df=3)", "y:a", "y | a", "I(y / 0)", "I(3)"]
)
def test_responses(response, frame):
    with pytest.raises(InputError):
        ols(f"{response} ~ b", frame)


def test_rows_to_predict(fit, frame):
    for rows, said in (
        (frame.iloc[0], "one-dimensional Series"),
        (frame["a"], "one-dimensional Series"),
        (np.ones((2, 3)), "4 columns"),
        (np.ones((2, 4, 2)), "4 columns"),
        (np.array([["x"] * 4], dtype=object), "must hold numbers"),
        ([1, 2, 3], "a frame"),
        (3, "a frame"),
        ({"a": [1, 2], "g": ["red"]}, "have the same length"),
        ({"a": [1, "x"], "g": ["red", "red"]}, "'a' is text"),
    ):
        with pytest.raises(InputError, match=said):
            fit.predict(rows)
    gaps = frame.head().assign(a=np.nan)
    with pytest.raises(InputError, match=r"The data, row 0: column 'a'.*frame\.dropna\(\)\.$"):
        fit.predict(gaps)
    with pytest.raises(InputError, match=r"on_missing='drop'\.$"):
        ols("y ~ a", gaps)
    for interval in ("a", True, 2.0, -1):
        with pytest.raises(InputError, match="a level such as"):
            fit.predict(frame.head(), interval=interval)
    with pytest.raises(InputError, match="not other"):
        fit.predict(frame.head(), other=1)
    plain = ols(karat.coreset(frame[["a", "b"]], frame["y"]))
    for rows in (
        [1, 2],
        3,
        object(),
        {"a": [1.0]},
        {"a": [1.0], "b": [1.0, 2.0]},
        {"a": ["x"], "b": ["y"]},
        np.ones((2, 2)),
    ):
        with pytest.raises(InputError):
            plain.predict(rows)


def test_hypotheses_and_comparisons(fit, frame):
    for asked in ("q = 0", "a = = 0", np.eye(2), "a = q"):
        for test in (fit.t_test, fit.f_test, fit.wald_test):
            with pytest.raises(InputError, match="each of Intercept"):
                test(asked)
    full = smf.ols("y ~ a", frame).fit()
    for pair in ((full, fit), (fit, full), ("a", "b"), (fit.coreset, fit)):
        with pytest.raises(InputError, match=r"results of karat\.inference\.ols"):
            anova(*pair)
    for terms in (3, None, [], ["a", "a"], "y ~ g", "y ~ a | b"):
        with pytest.raises((InputError, NotExactError)):
            fit.submodel(terms)
    with pytest.raises(NotExactError, match=r"'g' is not in this coreset.*write 'C\(g\)'"):
        fit.submodel("y ~ g")


def test_residuals_of_kept_rows_are_refused(fit):
    for name in ("resid", "wresid", "fittedvalues", "resid_pearson"):
        with pytest.raises(NotExactError):
            getattr(fit, name)
    with pytest.raises(NotExactError, match=r"fit\.predict\(frame\)"):
        fit.resid  # noqa: B018


def test_tests_of_terms(frame):
    formula = "y ~ a + C(g) + b:C(h)"
    for kind in ("nonrobust", "HC1"):
        few, full = ols(formula, frame, cov_type=kind), smf.ols(formula, frame).fit(cov_type=kind)
        mine, theirs = few.wald_test_terms().table, full.wald_test_terms().table
        assert set(mine.index) == set(theirs.index)
        np.testing.assert_allclose(
            mine.astype(float), theirs.loc[mine.index].astype(float), rtol=1e-7, atol=1e-12
        )
        mine, theirs = (
            few.t_test_pairwise("C(g)").result_frame,
            full.t_test_pairwise("C(g)").result_frame,
        )
        assert list(mine.index) == list(theirs.index)
        np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=1e-7, atol=1e-12)
        with pytest.raises(InputError, match=r"this fit has C\(g\)"):
            few.t_test_pairwise("a")


@pytest.mark.parametrize("response", ["constant", "zero", "exact"])
def test_perfect_fits_do_not_warn(response, frame):
    y = {"constant": 1.0, "zero": 0.0, "exact": 2 * frame["a"]}[response]
    fit = ols("y ~ a + g", frame.assign(y=y), cov_type=["nonrobust", "HC1"])
    for one in (fit, fit.get_robustcov_results("HC1")):
        assert "R-squared" in str(one.summary())
        assert len(one.tidy()) == 4
        one.t_test("a = 0")
    assert fit.ssr < 1e-20


def test_columns_that_are_not_read_are_not_copied(frame):
    from karat.formulas.passes import needed_columns

    found = needed_columns(frame, "y ~ a", ("user", None))
    assert list(found.columns) == ["a", "user", "y"]
    assert all(
        np.shares_memory(found[name].to_numpy(), frame[name].to_numpy()) for name in found.columns
    )
    assert len(frame.columns) == 8


def test_columns_that_are_not_read_may_hold_anything(frame):
    mixed = frame.assign(o=pd.Series([1, "a"] * 300, dtype=object))
    assert ols("y ~ a", mixed).labels == ["Intercept", "a"]
    for formula in ("y ~ o", "y ~ C(o)"):
        with pytest.raises(InputError, match="column o"):
            ols(formula, mixed)
    with pytest.raises(InputError, match="column o"):
        ols("y ~ a", mixed, cov_type="cluster", cluster="o")
    twice = pd.concat([frame, frame[["a"]]], axis=1)
    np.testing.assert_allclose(ols("y ~ b", twice).params, ols("y ~ b", frame).params)
    with pytest.raises(InputError, match="several columns named 'a'"):
        ols("y ~ a", twice)


@pytest.mark.parametrize("value", [["x"], {"x": 1}, b"x", pd.Timestamp("2020-01-01").date()])
def test_levels_that_are_none(value, frame, tmp_path):
    strange = frame.head(50).assign(o=[value] * 50)
    strange.to_parquet(tmp_path / "rows.parquet")
    for data in (strange, tmp_path / "rows.parquet"):
        with pytest.raises(InputError, match=r"'C\(o\)' has (levels|values) of type"):
            ols("y ~ C(o)", data)


@pytest.mark.parametrize("size", [1e-200, 1e-100, 1e100, 1e200])
def test_sizes_beyond_double_precision(size, frame):
    """Squares that are no doubles are refused; before, standard errors were 0, or the column was
    said to be zero.
    """
    if 1e-150 < size < 1e150:
        fit, plain = ols("y ~ a + b", frame.assign(a=size * frame["a"])), ols("y ~ a + b", frame)
        np.testing.assert_allclose(fit.bse * [1, size, 1], plain.bse, rtol=1e-12)
    else:
        with pytest.raises(InputError, match=r"units of the column 'a'.*size"):
            ols("y ~ a + b", frame.assign(a=size * frame["a"]), cov_type="HC1")


def test_arguments(fit, frame):
    for call, said in (
        (lambda: ols("y ~ a", frame, cov_type=None), "cov_type must be one of"),
        (lambda: ols("y ~ a", frame, use_t="no"), "use_t must be True or False"),
        (
            lambda: ols("y ~ a", frame, residual_quantiles="no"),
            "residual_quantiles must be True or False",
        ),
        (lambda: ols("y ~ a", frame["a"]), "a single column"),
        (lambda: fit.tidy(2.0), "alpha must be a number between"),
        (lambda: fit.tidy("a"), "alpha must be a number between"),
        (lambda: fit.submodel("y ~ a").t_test_pairwise("C(g)"), "this fit has none"),
        (lambda: fit.model.fit_regularized(alpha=0.1), "kept rows"),
    ):
        with pytest.raises((InputError, NotExactError), match=said):
            call()
    with pytest.raises(TypeError, match="other"):
        fit.summary(other=1)
    assert len(str(fit.summary(slim=True)).splitlines()) == len(str(fit.summary()).splitlines()) - 4
    assert fit.submodel(np.array(["a"])).labels == ["a"]


def test_the_short_name(frame):
    assert karat.ols is ols
    assert "ols" in karat.__all__
    assert "ols" in dir(karat)
    np.testing.assert_array_equal(karat.ols("y ~ a", frame).bse, ols("y ~ a", frame).bse)


def test_progress_that_is_no_function():
    frame = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20.0) ** 2})
    with pytest.raises(InputError, match="progress is 3"):
        ols("y ~ x", frame, progress=3)
    with pytest.raises(InputError, match="progress is 3"):
        ols(ols("y ~ x", frame).coreset, frame, cov_type="HC1", progress=3)
