"""The list of printed figures, and the searches behind it."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from paper import printed, search
from tests.paper.conftest import columns, has_data

RNG = np.random.default_rng(0)


def test_a_number_is_compared_in_the_digits_that_are_printed():
    assert printed.judged("", "1025.93", 1025.9349, "").verdict == "to the digit"
    other = printed.judged("", "1025.93", 1025.9351, "")
    assert (other.verdict, other.ours) == ("not", "1025.9351")
    assert printed.judged("", "75", 74.888, "").verdict == "to the digit"
    assert printed.judged("", "92.10", 92.0904, "", else_="slip").verdict == "slip"


def test_curves_of_ridge_are_those_of_scikit_learn():
    X, y = RNG.standard_normal((60, 4)), RNG.standard_normal(60)
    curve = search.rmse_curve(X, y)
    for place in (1, 200, 300, 500):
        model = Ridge(search.GRID[place], fit_intercept=False, solver="svd").fit(X, y)
        expected = np.sqrt(np.mean((model.predict(X) - y) ** 2))
        assert curve[place] == pytest.approx(expected, rel=1e-10)


def test_a_list_of_lambdas_is_found_if_there_is_one_and_only_then():
    curves = [
        search.rmse_curve(X, X[:, 0] + RNG.standard_normal(80))
        for X in RNG.standard_normal((2, 80, 3))
    ]
    chosen = [100, 250, 250, 330]
    printed_averages = [f"{curve[chosen].mean():.3f}" for curve in curves]
    assert search.has_common_list(curves, printed_averages)
    below = [f"{curve.min() - 0.01:.3f}" for curve in curves]
    assert not search.has_common_list(curves, below)
    # each alone is possible, but not the least of one together with the largest of the other
    apart = [f"{curves[0].min() + 0.0005:.3f}", f"{curves[1].max() - 0.0005:.3f}"]
    for curve, value in zip(curves, apart, strict=True):
        assert search.has_common_list([curve], [value])
    assert not search.has_common_list(curves, apart)


def test_classes_in_order_of_appearance():
    y = np.array([2.0, 0.0, 2.0, 1.0, 0.0])
    np.testing.assert_array_equal(search.in_order_of_appearance(y), [0, 1, 0, 2, 1])


def test_the_chance_of_a_match_is_that_of_random_values():
    rng = np.random.default_rng(1)
    printed_value, step, count = 10.0, 0.01, 40
    hits = trials = 0
    expected = 0.0
    for _ in range(20_000):
        values = printed_value * 4.0 ** rng.uniform(-0.5, 0.5, count)
        hits += bool((np.round(values / step) == printed_value / step).any())
        trials += 1
    expected = search.chance([*values, printed_value * 5], printed_value, step)
    assert hits / trials == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("name", search.PREPARATIONS)
def test_preparations_keep_rows_and_give_numbers(name):
    X = np.abs(RNG.standard_normal((50, 4))) * [1, 10, 100, 0]
    X[0, :3] = 1.0
    found = search.PREPARATIONS[name](X)
    assert found.shape == X.shape
    assert np.isfinite(found).all()


@pytest.mark.nightly
def test_the_page_of_printed_figures(real):
    experiment = printed.run(real)
    found = columns(experiment.tables[0])
    verdicts = dict(zip(found["figure"], found["reproduced"], strict=True))
    assert set(found["reproduced"]) - {"to the digit", "in kind", "not"} == {
        verdict for verdict in found["reproduced"] if verdict.startswith("slip")
    }
    assert verdicts["Table 1, Iris: coreset size"] == "to the digit"
    if has_data():
        assert verdicts["Table 2, Credit card: loss"] == "to the digit"
        assert verdicts["Table 2, Covertype: loss"] == "not"
        assert verdicts["Table 1, Breast cancer: size reduction, %"].startswith("slip")
        assert {verdicts[f"Table 1, {name}: average RMSE"] for name in printed.REDUCTIONS} == {
            "not"
        }
        assert "1025.93, printed 1025.93" in experiment.headline
