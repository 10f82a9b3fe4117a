"""Two-stage least squares: against linearmodels (stored numbers, made by make_linearmodels.py) and
against long double.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import karat
from karat.errors import InputError, NotExactError

from .instrument_cases import KINDS, in_long_double, random_case

pytest.importorskip("statsmodels")
ols = pytest.importorskip("karat.inference").ols

STORED = json.loads(Path(__file__).with_name("linearmodels.json").read_text(encoding="utf-8"))


def close(found, wanted, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=tolerance, atol=0)


def fitted(case, **options):
    kinds = ["nonrobust", "HC0", "cluster"]
    return ols(
        case.formula, case.frame, weights=case.weights, cov_type=kinds, cluster="g", **options
    )


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(100))
def test_tables_are_those_of_linearmodels(seed):
    case, stored = random_case(seed), STORED[seed]
    whole, count = fitted(case), len(case.instruments)
    assert (np.abs(whole.params - stored["params"]) < 1e-9 * np.array(stored["nonrobust"])).all()
    for kind in KINDS:
        fit = whole.get_robustcov_results(kind)
        close(fit.bse, stored[kind])
        # linearmodels gives chi2 without debiased=True, and for robust first stages always
        close(fit.fvalue * (fit.df_model if kind == "HC0" else 1), stored[f"f {kind}"])
        times = 1 if kind == "nonrobust" else count
        close(fit.first_stage.f_statistic * times, stored[f"first {kind}"])
    first = whole.first_stage
    close(first.partial_r_squared, stored["partial"])
    close(first.r_squared, stored["first_r_squared"])
    close(whole.rsquared, stored["r_squared"])
    close(whole.wu_hausman.statistic, stored["wu_hausman"])
    if "sargan" in stored:
        close(whole.sargan.statistic, stored["sargan"])
    else:
        assert np.isnan(whole.sargan.statistic)


def check_in_long_double(case, fit):
    right = in_long_double(case)
    assert (np.abs(fit.params - right["params"]) < 1e-9 * right["nonrobust"]).all()
    for kind in KINDS:
        other = fit.get_robustcov_results(kind)
        close(other.bse, right[kind])
        close(other.first_stage.f_statistic, right[f"first {kind}"][:, 0])
        if len(case.endogenous) == 1:
            close(other.first_stage.effective_f, right[f"first {kind}"][:, 1])
        else:
            assert other.first_stage.effective_f.isna().all()
    close(fit.wu_hausman.statistic, right["wu_hausman"])
    if len(case.instruments) > len(case.endogenous):
        close(fit.sargan.statistic, right["sargan"])


@pytest.mark.sampled(15)
@pytest.mark.parametrize("seed", range(100))
def test_columns_far_from_zero(seed):
    case = random_case(seed, offset=10.0 ** (seed % 6))
    check_in_long_double(case, fitted(case))


def test_no_intercept_and_categories():
    """Categories are coded as in the equation that they belong to."""
    case = random_case(65)
    rng = np.random.default_rng(0)
    frame = case.frame.assign(a=rng.choice(list("xyz"), len(case.frame)))
    fit = ols("y ~ 0 + w0 + [C(a) + e0 ~ z0 + z1 + C(a):z0]", frame)
    dummies = pd.get_dummies(frame["a"]).to_numpy(float)
    z = np.column_stack([frame[["w0", "z0", "z1"]], dummies[:, 1:] * frame[["z0"]].to_numpy()])
    x = np.column_stack([frame["w0"], dummies, frame["e0"]])
    projected = z @ np.linalg.lstsq(z, x)[0]
    params = np.linalg.lstsq(projected, frame["y"].to_numpy())[0]
    close(fit.params, params, 1e-8)
    assert list(fit.params.index) == ["w0", "C(a)[x]", "C(a)[y]", "C(a)[z]", "e0"]
    with_constant = ols("y ~ C(a) + [e0 ~ z0 + C(a):z1]", frame)
    assert list(with_constant.params.index) == ["Intercept", "C(a)[T.y]", "C(a)[T.z]", "e0"]
    assert with_constant.model.instruments == ["z0", "C(a)[x]:z1", "C(a)[y]:z1", "C(a)[z]:z1"]


def test_discrete_columns_are_joined_first():
    rng = np.random.default_rng(3)
    n = 40_000
    z, w, g = rng.integers(0, 3, n), rng.integers(0, 2, n), rng.integers(0, 40, n)
    u = rng.standard_normal(n)
    e = (z + w + u > 1).astype(int) + rng.integers(0, 2, n)
    frame = pd.DataFrame({"w0": w, "z0": z, "e0": e, "g": g, "y": e + w + u})
    case = random_case(0)._replace(
        frame=frame, exogenous=["w0"], endogenous=["e0"], instruments=["z0"], weights=None
    )
    fit = fitted(case)
    assert any("joined" in note for note in fit.coreset.certificate.notes)
    check_in_long_double(case, fit)


def test_frequencies_are_repeated_rows():
    case = random_case(1)
    times = np.random.default_rng(0).integers(1, 4, len(case.frame))
    short = case.frame.assign(times=times)
    options = {"cov_type": ["HC1", "cluster"], "cluster": "g"}
    fit = ols(case.formula, short, frequencies="times", **options)
    long = ols(case.formula, short.loc[short.index.repeat(times)], **options)
    for kind in ("nonrobust", "HC1", "cluster"):
        one, other = fit.get_robustcov_results(kind), long.get_robustcov_results(kind)
        close(one.bse, other.bse)
        close(one.first_stage.f_statistic, other.first_stage.f_statistic)


def test_files_partitions_and_stored_tables(tmp_path):
    case = random_case(4)
    whole = fitted(case, residual_quantiles=True)
    for part in range(3):
        case.frame[part::3].to_parquet(tmp_path / f"{part}.parquet")
    files = ols(case.formula, tmp_path / "*.parquet", cov_type="cluster", cluster="g")
    close(files.bse, whole.get_robustcov_results("cluster").bse)
    saved = tmp_path / "fit.parquet"
    files.coreset.save(saved)
    again = ols(karat.load(saved), case.frame, cov_type="HC1")
    close(again.bse, whole.get_robustcov_results("HC1").bse)
    clustered = again.get_robustcov_results("cluster")
    close(clustered.bse, files.bse)
    close(clustered.first_stage.effective_f, files.first_stage.effective_f)
    assert str(clustered.summary()).splitlines()[1:] == str(files.summary()).splitlines()[1:]
    right = in_long_double(case)
    errors = case.frame["y"] - whole.predict(case.frame.drop(columns=case.instruments))
    assert whole.residual_quantiles["max"] == pytest.approx(errors.max(), rel=1e-9)
    assert len(right["params"]) == len(whole.params)


def test_partitions_of_a_dask_frame():
    dask = pytest.importorskip("dask.dataframe")
    case = random_case(6)
    parts = dask.from_pandas(case.frame, npartitions=4)
    fit = ols(case.formula, parts, cov_type=["HC1", "cluster"], cluster="g")
    whole = fitted(case)
    for kind in ("HC1", "cluster"):
        one, other = fit.get_robustcov_results(kind), whole.get_robustcov_results(kind)
        close(one.bse, other.bse)
        close(one.first_stage.f_statistic, other.first_stage.f_statistic)


def test_dependent_instruments_are_an_error_or_dropped():
    case = random_case(2)
    frame = case.frame.assign(twice=2 * case.frame["z0"])
    formula = case.formula.replace("z0", "z0 + twice")
    with pytest.raises(InputError, match=r"'(twice|z0)' is a linear combination of"):
        ols(formula, frame)
    fit = ols(formula, frame, on_collinear="drop", cov_type="HC1")
    close(fit.bse, ols(case.formula, case.frame, cov_type="HC1").bse)
    assert "twice" in str(fit.summary())


def test_the_table_names_instruments_and_tests():
    fit = ols("y ~ w0 + [e0 ~ z0 + z1]", random_case(65).frame, cov_type="HC1")
    text = str(fit.summary())
    for words in (
        "Two-Stage Least Squares", "Instruments: z0, z1", "effective F", "Wu-Hausman F(1)",
        "Sargan chi2(1)",
    ):  # fmt: skip
        assert words in text
    assert "Log-Likelihood" not in text
    row = fit.glance().iloc[0]
    assert row["effective_f"] == fit.first_stage.effective_f.iloc[0]
    assert list(fit.tidy()["term"]) == ["Intercept", "w0", "e0"]
    assert fit.wald_test_terms().table.shape[0] == 3


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ w0 + [e0 ~ z0] | g", "absorbed effects"),
        ("y ~ w0 | g + [e0 ~ z0]", "absorbed effects"),
        ("y ~ [e0 ~ z0] + [w0 ~ z1]", "2 pairs of brackets"),
        ("y ~ w0 + [e0 + w1 ~ z0]", "2 endogenous columns .* and 1 instrument "),
        ("y ~ w0 + [e0 ~ w0 + z0]", "'w0' is in the brackets"),
        ("y ~ w0 + [e0 ~ e0 + z0]", "both an endogenous regressor and an instrument"),
        ("y ~ w0 * [e0 ~ z0]", "a term of their own"),
        ("y ~ w0 - [e0 ~ z0]", "a term of their own"),
        ("y ~ w0 + [ ~ z0]", "need endogenous regressors"),
        ("y ~ w0 + [e0 ~ 1 + z0]", "without a constant"),
        ("y ~ w0 + [e0]", "cannot be read"),
        ("[y ~ z0] + w0", "cannot be read"),
        ("y ~ w0 + [y ~ z0]", "also a term"),
        ("y ~ w0 + [e0 ~ nothing]", "nothing"),
    ],
)
def test_formulas_that_are_refused(formula, message):
    with pytest.raises(InputError, match=message):
        ols(formula, random_case(65).frame)


def test_what_two_stages_do_not_have():
    case = random_case(65)
    for kind in ("HC2", "HC3", "CR3"):
        with pytest.raises(InputError, match="covariances nonrobust, HC0, HC1, cluster"):
            ols(case.formula, case.frame, cov_type=kind, cluster="g" if kind == "CR3" else None)
    with pytest.raises(InputError, match="no submodels"):
        ols(case.formula, case.frame, cov_type="HC1", submodels=True)
    fit = ols(case.formula, case.frame)
    with pytest.raises(NotExactError, match="not stored"):
        fit.get_robustcov_results("HC1")
    with pytest.raises(NotExactError, match="no submodels"):
        fit.submodel("y ~ w0")
    for name in ("llf", "aic", "bic"):
        with pytest.raises(NotExactError, match="no likelihood"):
            getattr(fit, name)
    with pytest.raises(InputError, match="instruments"):
        karat.inference.anova(fit)


def test_instruments_that_identify_nothing():
    frame = random_case(65).frame
    # given the constant and w0, the instruments move e0 and its double in one direction only
    with pytest.raises(InputError, match="do not identify"):
        ols("y ~ w0 + [e0 + copy ~ z0 + z1]", frame.assign(copy=2 * frame["e0"]))
    orthogonal = np.ones(len(frame))
    orthogonal[::2] = -1
    z = orthogonal - orthogonal.mean()
    e = frame["e0"] - frame["e0"].mean()
    e -= z * (z @ e) / (z @ z)
    with pytest.raises(InputError, match="do not identify"):
        ols("y ~ [e ~ z]", frame.assign(e=e, z=z))


def test_instruments_that_determine_a_column():
    frame = random_case(65).frame.assign(e=lambda data: data["z0"] - 2 * data["z1"])
    fit = ols("y ~ w0 + [e ~ z0 + z1]", frame)
    assert np.isnan(fit.wu_hausman.statistic)
    assert np.isinf(fit.first_stage[["f_statistic", "effective_f"]].to_numpy()).all()
    plain = ols("y ~ w0 + e", frame)
    close(fit.bse, plain.bse)


def test_brackets_elsewhere_are_no_instruments():
    frame = random_case(65).frame.rename(columns={"w0": "a [b ~ c]"})
    fit = ols("y ~ `a [b ~ c]` + np.isin(g, [1, 2])", frame)
    assert len(fit.params) == 3
