"""What users of statsmodels, pyfixest, fixest and linearmodels try first gets an answer: it works,
or one sentence says how karat does it, and what it names exists.
"""

import pickle
import re

import numpy as np
import pandas as pd
import pytest

import karat
from karat.errors import InputError, NotExactError

RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(size=300),
        "z": RNG.normal(size=300),
        "w": RNG.uniform(1, 2, size=300),
        "g": RNG.integers(0, 20, size=300),
    }
)
FRAME["y"] = FRAME["x"] - FRAME["z"] + RNG.normal(size=300)

FITS = {
    "plain": karat.ols("y ~ x + z", FRAME),
    "instruments": karat.ols("y ~ z + [x ~ w]", FRAME),
    "effects": karat.ols("y ~ x + z | g", FRAME),
}
SEVERAL = {
    "responses": karat.ols("y + w ~ x", FRAME),
    "samples": karat.ols("y ~ x | g", FRAME.assign(s=np.arange(300) % 2), split="s"),
}


def words(text):
    return text.split()


NAMES = words("""fit vcov coef coeftable etable se std_errors confint pvalue tstat intercept_ r2
    adj_r2 N n_obs deviance loglik AIC f_statistic residuals resids fitted fitted_values fixef
    estimated_effects wildboottest ritest ccv plot coefplot iplot anova_lm""")
ARGUMENTS = words("""vcov se robust groups cov_kwds clusters endog missing subset fixef absorb
    entity_effects fixef_rm sample_weight freq_weights fit_intercept hasconst alpha collin_tol
    copy_data lean demeaner_backend""")


@pytest.fixture(params=sorted(FITS))
def fit(request):
    return FITS[request.param]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_another_package(fit, name):
    with pytest.raises(NotExactError, match=f"A table has no '{name}': .*") as error:
        getattr(fit, name)
    assert isinstance(error.value, AttributeError)
    assert not hasattr(fit, name)
    check_what_is_named(fit, str(error.value))


def check_what_is_named(fit, message):
    """Every ``fit.name`` of a message is an attribute of the fit, or says why it has none."""
    for named in re.findall(r"\bfit\.(\w+)", message.split("; those of")[0]):
        try:
            there = hasattr(fit, named)
        except NotExactError:  # two-stage least squares has no likelihood
            there = fit is FITS["instruments"]
        assert there, message


@pytest.mark.parametrize(
    ("name", "owner"),
    [("first_stage", "instruments"), ("sargan", "instruments"), ("wu_hausman", "instruments"),
     ("effects", "effects"), ("rsquared_within", "effects"), ("with_covariance", "effects")],
)  # fmt: skip
def test_what_one_kind_of_table_has_the_others_explain(fit, name, owner):
    if fit is FITS[owner]:
        assert hasattr(fit, name) or name == "sargan"  # exactly identified
        return
    with pytest.raises(AttributeError, match="A table has no"):
        getattr(fit, name)


def test_other_attributes_are_ordinary_errors(fit):
    with pytest.raises(AttributeError, match="has no attribute 'no_such_thing'") as error:
        fit.no_such_thing  # noqa: B018
    assert not isinstance(error.value, NotExactError)
    if not hasattr(fit, "coreset"):
        assert pickle.loads(pickle.dumps(fit)).params.equals(fit.params)


@pytest.mark.parametrize(("kind", "take"), [("responses", "fit["), ("samples", "fits[")])
def test_one_of_several_tables(kind, take):
    fits = SEVERAL[kind]
    for name in ("params", "predict", "bse", "wald_test", "fit", "r2"):
        with pytest.raises(AttributeError, match=rf"take one of them: {re.escape(take)}.*{name}"):
            getattr(fits, name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_thing'"):
        fits.no_such_thing  # noqa: B018
    assert set(pickle.loads(pickle.dumps(fits))) == set(fits)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_of_another_package(name):
    with pytest.raises(TypeError, match=rf"ols\(\) has no argument '{name}'; \w+"):
        karat.ols("y ~ x", FRAME, **{name: "g"})


def test_an_argument_with_a_slip():
    with pytest.raises(TypeError, match=r"did you mean on_missing=\?"):
        karat.ols("y ~ x", FRAME, on_mising="drop")


@pytest.mark.parametrize(
    ("other", "ours"),
    [("robust", "HC1"), ("hetero", "HC1"), ("iid", "nonrobust"), ("clustered", "cluster"),
     ("CRV1", "cluster"), ("CRV3", "CR3"), ("unadjusted", "nonrobust")],
)  # fmt: skip
def test_covariances_have_other_names_elsewhere(other, ours):
    with pytest.raises(InputError, match=f"not '{other}'; karat calls it '{ours}'"):
        karat.ols("y ~ x", FRAME, cov_type=other)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ factor(g)", r"category as C\(...\)"),
        ("y ~ csw(x, z)", "call ols for each formula"),
        ("y ~ l(x, 1)", "depends on another row"),
        ("y ~ I(x^2)", r"two stars, x\*\*2"),
        ("y ~ Q('x')", "in backticks"),
        ("y ~ x | 0 | g", "clusters are cluster='firm'"),
    ],
)
def test_formulas_of_other_packages(formula, said):
    with pytest.raises(InputError, match=said):
        karat.ols(formula, FRAME)


@pytest.mark.parametrize("first", [FRAME, FRAME["y"], FRAME[["x"]].to_numpy(), ["y ~ x"]])
def test_the_first_argument_is_the_formula(first):
    with pytest.raises(InputError, match=r"not \w+; the data comes second: ols\('y"):
        karat.ols(first, FRAME)


def test_names_of_the_module():
    for name in ("OLS", "feols", "PanelOLS", "iv"):
        with pytest.raises(AttributeError, match=r"karat.ols\('y ~ x | firm', data\)"):
            getattr(karat, name)


def test_predict_says_what_it_takes(fit):
    with pytest.raises(InputError, match="not newdata"):
        fit.predict(newdata=FRAME)
    with pytest.raises(NotExactError, match=r"Pass new rows: predict\(frame\)"):
        fit.predict()
    level = FITS["effects"]
    if fit is level:
        with pytest.raises(NotExactError, match="predictions have no intervals"):
            fit.predict(FRAME, interval=0.95)
    elif fit is FITS["plain"]:
        assert len(fit.predict(FRAME, interval=0.95)) == len(FRAME)
