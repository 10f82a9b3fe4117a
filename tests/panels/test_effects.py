"""Effects of levels and predictions, against indicators in long double."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from panels.dummies import Dummies
from panels.made import panel

import karat
from karat.errors import InputError, NotExactError

# a panel of each kind that has one effect, or two; of two components; with weights; joined
SEEDS = {"one": 0, "balanced": 1, "unbalanced": 2, "apart": 4, "weights": 6, "chain": 10}
pytestmark = pytest.mark.filterwarnings("ignore:.*are singletons, each alone:UserWarning")


def oracle(made):
    """The fit of indicators: what it predicts, in the rows that it keeps."""
    found = Dummies(made.x, made.y, made.absorbed, made.weights)
    root = found.root
    return found, (found.z[:, -1] - found.residuals) / root


def fitted(made, **options):
    weights = None if made.weights is None else "w"
    frame = pd.DataFrame(made.columns())
    return karat.ols(made.formula, frame, weights=weights, **options), frame


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_predictions_of_the_rows_are_those_of_indicators(seed):
    made = panel(seed)
    fit, frame = fitted(made)
    found, means = oracle(made)
    kept = frame[found.kept]
    assert np.abs(fit.predict(kept) - means.astype(float)).max() < 1e-11 * np.abs(made.y).max()


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_effects_and_coefficients_add_up_to_the_fit(seed):
    made = panel(seed)
    fit, frame = fitted(made)
    found, means = oracle(made)
    kept, effects = frame[found.kept], fit.effects()
    total = kept[made.names].to_numpy() @ fit.params.to_numpy()
    for name, table in effects.items():
        total = total + table["effect"].loc[kept[name]].to_numpy()
        assert (table["rows"] == kept[name].value_counts().loc[table.index]).all()
    assert np.abs(total - means.astype(float)).max() < 1e-11 * np.abs(made.y).max()


def test_each_component_has_one_reference_whose_effect_is_zero():
    made = panel(SEEDS["apart"])
    fit, frame = fitted(made)
    effects = fit.effects()
    first, second = effects["f0"], effects["f1"]
    assert not first["reference"].any()
    assert (second.loc[second["reference"], "effect"] == 0).all()
    components = set(first["component"])
    assert len(components) > 1
    assert sorted(second.loc[second["reference"], "component"]) == sorted(components)
    pairs = set(zip(frame["f0"], frame["f1"], strict=True))
    for one, two in pairs:
        if one in first.index and two in second.index:
            assert first["component"][one] == second["component"][two]


def test_levels_of_combinations_have_an_index_of_their_columns():
    made = panel(11)
    fit, frame = fitted(made)
    table = fit.effects()["f0^f1"]
    assert list(table.index.names) == ["f0", "f1"]
    found, means = oracle(made)
    kept = frame[found.kept]
    assert np.abs(fit.predict(kept) - means.astype(float)).max() < 1e-11 * np.abs(made.y).max()


def test_rows_without_an_effect_are_nan_and_counted():
    made = panel(SEEDS["apart"])
    fit, frame = fitted(made)
    new = frame.iloc[:3].copy()
    new.loc[new.index[0], "f0"] = 10**6
    with pytest.warns(UserWarning, match="1 of 3 rows has a level of 'f0' that the fit did not"):
        means = fit.predict(new)
    assert means.isna().tolist() == [True, False, False]
    assert means.index.equals(new.index)


def test_levels_of_different_components_have_no_prediction():
    made = panel(SEEDS["apart"])
    fit, frame = fitted(made)
    first, second = fit.effects().values()
    one, other = first.index[0], second.index[second["component"] != first["component"].iloc[0]][0]
    new = frame.iloc[:1].assign(f0=one, f1=other)
    with pytest.warns(UserWarning, match="1 of 1 row has levels that no chain of rows connects"):
        assert fit.predict(new).isna().all()


def test_levels_of_singletons_have_no_effect():
    frame = pd.DataFrame({"g": [0, 0, 0, 1, 1, 1, 2], "x": [1.0, 2, 4, 1, 3, 4, 9]})
    frame["y"] = frame["x"] + frame["g"] + np.array([0.1, -0.1, 0, 0.2, 0, 0.1, 0])
    fit = karat.ols("y ~ x | g", frame)
    assert list(fit.effects()["g"].index) == [0, 1]
    with pytest.warns(UserWarning, match="1 of 7 rows"):
        assert fit.predict(frame).isna().tolist() == [False] * 6 + [True]


def test_three_effects_that_are_not_determined_are_an_error_and_their_sum_is_predicted():
    made = panel(9)  # age, period, cohort
    exact, frame = fitted(made, ssc={"k_fixef_exact": True})
    with pytest.raises(NotExactError, match=r"not determined: .* levels have the rank"):
        exact.effects()
    found, means = oracle(made)
    with pytest.warns(UserWarning, match="that some row of the fit had"):
        again = exact.predict(frame[found.kept])
    assert np.abs(again - means.astype(float)).max() < 1e-11 * np.abs(made.y).max()


def test_three_effects_are_checked_if_asked():
    made = panel(7)
    fit, frame = fitted(made)
    with pytest.warns(UserWarning, match="was not checked"):
        unchecked = fit.effects()
    exact, _ = fitted(made, ssc={"k_fixef_exact": True})
    found, means = oracle(made)
    kept, checked = frame[found.kept], exact.effects()
    total = kept[made.names].to_numpy() @ exact.params.to_numpy()
    for name, table in checked.items():
        total = total + table["effect"].loc[kept[name]].to_numpy()
        pd.testing.assert_frame_equal(table, unchecked[name])
    assert np.abs(total - means.astype(float)).max() < 1e-11 * np.abs(made.y).max()


def test_new_rows_may_be_a_file_or_a_dictionary(tmp_path):
    made = panel(SEEDS["unbalanced"])
    fit, frame = fitted(made)
    found, means = oracle(made)
    kept = frame[found.kept]
    kept.to_parquet(tmp_path / "new.parquet")
    again = fit.predict(str(tmp_path / "new.parquet"))
    np.testing.assert_allclose(again, fit.predict(kept).to_numpy(), rtol=0, atol=1e-12)
    single = {name: values.iloc[0] for name, values in kept.items()}
    assert abs(fit.predict(single).iloc[0] - float(means[0])) < 1e-10


def test_a_column_that_is_missing_is_named():
    made = panel(SEEDS["unbalanced"])
    fit, frame = fitted(made)
    with pytest.raises(InputError, match="f1"):
        fit.predict(frame.drop(columns="f1"))
