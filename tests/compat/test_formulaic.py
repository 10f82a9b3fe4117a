"""formulaic still takes the changes that make its tables those of statsmodels."""

from __future__ import annotations

import numpy as np
import pytest

formulaic = pytest.importorskip("formulaic")
pd = pytest.importorskip("pandas")

from formulaic import ModelSpec  # noqa: E402
from formulaic.errors import FormulaicError  # noqa: E402

from karat.compat import formulaic as compat  # noqa: E402
from karat.errors import InputError  # noqa: E402

CHANGED = f"formulaic {formulaic.__version__} has changed: "


def terms(text, names=()):
    return [str(term) for term in compat.parse_formula(text, names).rhs]


def columns(text, **values):
    spec = ModelSpec.from_spec(compat.parse_formula(text, []), output="pandas")
    return list(compat.BooleanLevels(pd.DataFrame(values)).get_model_matrix(spec).columns)


def test_a_dot_stands_for_the_other_columns():
    assert terms("y ~ .", ["y", "a", "b"]) == ["1", "a", "b"], (
        f"{CHANGED}{compat.AVAILABLE} is not read"
    )


@pytest.mark.parametrize("power", ["**", "^"])
def test_powers_come_by_degree(power):
    assert terms(f"y ~ (a + b + c){power}2") == ["1", "a", "b", "c", "a:b", "a:c", "b:c"]


def test_powers_that_cannot_be():
    with pytest.raises(FormulaicError, match="integer"):  # formulaic's own message
        compat.parse_formula("y ~ (a + b)**c", [])
    with pytest.raises(InputError, match="terms; lower it"):
        compat.parse_formula(f"y ~ ({' + '.join(f'a{i}' for i in range(30))})**15", [])


def test_booleans_are_categories():
    assert columns("a", a=[True, False]) == ["Intercept", "a[T.True]"], (
        f"{CHANGED}_is_categorical is not asked"
    )
    assert columns("np.greater(a, 1)", a=[1, 2])[1].endswith("[T.True]"), (
        f"{CHANGED}_evaluate is not asked"
    )


@pytest.mark.parametrize("contrasts", ["Treatment", "Treatment()", "Treatment('u')"])
def test_treatment_with_and_without_parentheses(contrasts):
    assert len(columns(f"C(g, {contrasts})", g=["u", "v", "u"])) == 2


def test_transforms_take_a_state():
    state = {"center": 10.0, "scale": 2.0, "ddof": 1}
    found = compat.apply_transform("scale", [np.array([12.0, 8.0])], {}, state)
    np.testing.assert_array_equal(
        found, [1.0, -1.0], err_msg=f"{CHANGED}{compat.STATE} is not read"
    )
    assert compat.apply_transform(
        "bs",
        [np.array([0.5])],
        {"df": 4},
        {"lower_bound": 0.0, "upper_bound": 1.0, "knots": [0.0] * 4 + [0.5] + [1.0] * 4},
    ).shape == (1, 4)


def test_errors_say_one_line_without_colours():
    with pytest.raises(FormulaicError) as caught:
        compat.parse_formula("y ~ a + + )", [])
    line = compat.first_line(caught.value)
    assert line
    assert line.isprintable(), f"{CHANGED}an error says {line!r}"
    assert compat.first_line(ValueError()) == ""
