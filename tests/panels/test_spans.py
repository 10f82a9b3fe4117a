"""Regressors in the span of the effects, and columns that vary little inside levels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat


def persons() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    person, year = rng.integers(0, 40, 500), rng.integers(0, 8, 500)
    born = rng.integers(1950, 1990, 40)
    data = pd.DataFrame({"person": person, "year": year + 2000, "x": rng.standard_normal(500)})
    data["age"] = data["year"] - born[person]
    data["height"] = rng.standard_normal(40)[person]
    data["y"] = data["x"] + data["height"] + 0.1 * year + rng.standard_normal(500)
    return data


@pytest.mark.parametrize("name", ["age", "height"])
def test_a_regressor_in_the_span_is_named(name):
    with pytest.raises(karat.InputError, match=f"'{name}' is a combination of the fixed effects"):
        karat.ols(f"y ~ x + {name} | person + year", persons())


def test_it_is_dropped_if_asked():
    data = persons()
    fit = karat.ols("y ~ age + x + height | person + year", data, on_collinear="drop")
    plain = karat.ols("y ~ x | person + year", data)
    assert fit.model.dropped == ("age", "height")
    assert abs(fit.params["x"] / plain.params["x"] - 1) < 1e-13
    assert abs(fit.bse["x"] / plain.bse["x"] - 1) < 1e-13
    assert fit.tidy()["term"].tolist() == ["x", "age", "height"]
    assert fit.tidy()["estimate"].isna().tolist() == [False, True, True]
    assert "'age', 'height'" in fit.summary()


def test_a_column_that_others_determine_is_named_with_them():
    data = persons().assign(z=lambda rows: rows["x"] + rows["height"])
    with pytest.raises(karat.InputError, match=r"'z' is a combination .* and the columns 'x'"):
        karat.ols("y ~ x + z | person", data)


def test_a_response_in_the_span_is_refused():
    data = persons().assign(y=lambda rows: rows["age"])
    with pytest.raises(karat.InputError, match="in the span of the fixed effects"):
        karat.ols("y ~ x | person + year", data)


def test_what_is_nearly_in_the_span_is_not_dropped():
    """A tenth of a millionth of its variation is left, which is enough for eight digits."""
    data, rng = persons(), np.random.default_rng(6)
    wobble = rng.standard_normal(500)
    data["near"] = data["height"] + 1e-7 * wobble
    data["y"] += wobble
    exact = karat.ols("y ~ x + w | person + year", data.assign(w=wobble))
    fit = karat.ols("y ~ x + near | person + year", data, on_collinear="drop")
    assert fit.model.dropped == ()
    errors = exact.bse.to_numpy()
    assert abs(fit.params["x"] - exact.params["x"]) / errors[0] < 1e-7
    assert abs(1e-7 * fit.params["near"] - exact.params["w"]) / errors[1] < 1e-7


@pytest.mark.parametrize("ratio", [1.0, 2.0**7, 2.0**10])
def test_variation_between_levels_does_not_matter(ratio):
    """Effects are whole multiples of powers of two, so that adding them rounds little."""
    rng = np.random.default_rng(7)
    firm, year = rng.integers(0, 50, 2000), rng.integers(0, 10, 2000)
    grain = 2.0**-30
    small = np.round(rng.standard_normal((2000, 2)) / grain) * grain
    noise = np.round(rng.standard_normal(2000) * (1 + np.abs(small[:, 0])) / grain) * grain
    large = np.round(rng.standard_normal((3, 50)))[:, firm] + np.arange(10)[year]
    x = small + ratio * large[:2].T
    y = small @ [1.0, -0.5] + noise + ratio * large[2]
    data = pd.DataFrame({"y": y, "x1": x[:, 0], "x2": x[:, 1], "firm": firm, "year": year})
    plain = data.assign(y=small @ [1.0, -0.5] + noise, x1=small[:, 0], x2=small[:, 1])
    options = {"cov_type": ["cluster", "HC1"], "cluster": ["firm", "year"]}
    fit, expected = (
        karat.ols("y ~ x1 + x2 | firm + year", rows, **options) for rows in (data, plain)
    )
    errors = expected.bse.to_numpy()
    assert np.abs((fit.params - expected.params) / errors).max() < 1e-10
    for kind in ("HC1", "cluster"):
        found = fit.with_covariance(kind).bse / expected.with_covariance(kind).bse
        assert np.abs(found - 1).max() < 1e-10


def test_too_few_rows_are_no_exact_fit():
    """A ring of firms and years, in which one direction is left."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((12, 2)), columns=["x", "y"])
    frame["firm"], frame["year"] = np.arange(12) // 2, (np.arange(12) + 1) // 2 % 6
    with pytest.raises(karat.InputError, match="degrees of freedom"):
        karat.ols("y ~ x | firm + year", frame)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_an_exact_fit_is_named(scale):
    """The effects do not explain the response, but the regressor and the effects do."""
    rng = np.random.default_rng(0)
    firm, year, x = rng.integers(0, 60, 900), rng.integers(0, 9, 900), rng.standard_normal(900)
    frame = pd.DataFrame({"firm": firm, "year": year, "x": x, "y": scale * (x + year + firm % 5)})
    with pytest.raises(karat.InputError, match="'y' is a combination of the regressors and the"):
        karat.ols("y ~ x | firm + year", frame)
