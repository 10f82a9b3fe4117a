"""Bad input raises an error that names the place and the remedy; nothing is silently corrected,
dropped or ignored.
"""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import karat
from karat import InputError, NotExactError, problems
from karat.problems import (
    Kernel,
    LeastSquares,
    LpRegression,
    Mean,
    Moments,
    Ridge,
    TensorContraction,
)

METHODS = ("auto", "onepass", "tree", "caratheodory")


def table(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X.sum(axis=1) + rng.standard_normal(n)


def attempt(function, *args, **options):
    """The result, or the refusal."""
    try:
        return function(*args, **options)
    except InputError as error:
        return error


def refused(match: str, *args, **options):
    """The call is refused with a message that has all the parts, in any order."""
    with pytest.raises(InputError) as caught:
        karat.coreset(*args, **options)
    text = str(caught.value)
    for part in match.split("|"):
        assert part.lower() in text.lower(), f"{part!r} is not in: {text}"
    assert text.rstrip().endswith((".", ")")), f"not a message: {text}"
    return text


@pytest.mark.parametrize("n", [300, 40_000])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "problem", [LeastSquares(), Moments(3), LpRegression(4), Mean(), TensorContraction(3)]
)
def test_nan_names_column_count_and_row(problem, method, n):
    if n > 1000 and method == "caratheodory":
        pytest.skip("checked before the reducer is reached")
    X, y = table(n)
    X[[n - 7, n - 5, n - 2], 1] = np.nan
    text = refused(f"column 1|3|NaN|row {n - 7}", X, y, problem, method=method)
    assert re.search(r"drop|impute|fill|remove", text), "no remedy"


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("problem", [LeastSquares(), Moments(2), LpRegression(4)])
def test_infinity(problem, value):
    X, y = table(20_000)
    X[12_345, 2] = value
    refused("column 2|1|infinite|row 12345", X, y, problem)


def test_nan_and_infinity_in_one_column():
    X, y = table()
    X[10, 0], X[20, 0] = np.nan, np.inf
    refused("column 0|2|row 10", X, y)


def test_first_bad_column_is_named():
    X, y = table()
    X[200, 1], X[100, 2] = np.nan, np.nan
    refused("column 1|row 200", X, y)


def test_nan_in_the_target():
    X, y = table()
    y[[17, 40]] = np.nan
    refused("y|2|NaN|row 17", X, y)


def test_nan_in_one_of_several_targets():
    X, y = table()
    Y = np.column_stack([y, y])
    Y[3, 1] = np.nan
    refused("column 1 of y|NaN|row 3", X, Y)


def test_column_names_of_a_frame():
    X, y = table()
    frame = pd.DataFrame(X, columns=["age", "income", "height"])
    frame.loc[33, "income"] = np.nan
    refused("income|NaN|row 33", frame, y)
    refused(
        "weight|NaN|row 4",
        frame.drop(columns="income"),
        pd.Series(np.where(np.arange(300) == 4, np.nan, y), name="weight"),
    )


def test_nan_in_sparse():
    X = sparse.csr_array(np.where(np.arange(600).reshape(300, 2) == 77, np.nan, np.eye(300, 2)))
    refused("column 1|NaN|row 38", X, np.ones(300))


def test_nan_where_the_weight_is_zero_is_not_looked_at():
    """A row of weight zero does not exist; its values do not matter."""
    X, y = table()
    X[5, 1], y[7] = np.nan, np.inf
    u = np.ones(300)
    u[[5, 7]] = 0
    core = karat.coreset(X, y, sample_weight=u)
    assert core.certificate.ok
    assert not np.isin([5, 7], core.indices).any()


@pytest.mark.parametrize("which", ["y", "sample_weight", "groups"])
@pytest.mark.parametrize("length", [299, 301, 0, 1])
def test_lengths_that_differ(which, length):
    X, y = table()
    options = {"sample_weight": np.ones(300), "groups": np.zeros(300, int)}
    if which == "y":
        refused(f"300|y|{length}", X, np.ones(length))
    else:
        refused(f"300|{which}|{length}", X, y, **{which: options[which][:1].repeat(length)})


def test_empty_data():
    refused("no rows", np.zeros((0, 3)), np.zeros(0))
    refused("no rows", np.zeros((0, 3)))
    refused("no columns", np.zeros((5, 0)), np.zeros(5))
    refused("no rows", pd.DataFrame({"a": []}, dtype=float), pd.Series([], dtype=float))
    refused("no rows", sparse.csr_array((0, 3)), np.zeros(0))
    refused("None", None)
    refused("no rows", [], [])


def test_negative_weights():
    X, y = table()
    u = np.ones(300)
    u[[41, 99]] = -1e-3
    refused("sample_weight|2|negative|row 41", X, y, sample_weight=u)


def test_all_zero_weights():
    X, y = table()
    refused("sample_weight|zero|positive", X, y, sample_weight=np.zeros(300))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_weights(value):
    X, y = table()
    u = np.ones(300)
    u[8] = value
    refused("sample_weight|1|row 8", X, y, sample_weight=u)


def test_weights_of_two_dimensions():
    X, y = table()
    refused("sample_weight|one number per row", X, y, sample_weight=np.ones((300, 2)))


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (np.array([["a", "b"], ["c", "d"]]), "X|not numeric|astype"),
        (np.array([[1, "b"], [2, None]], dtype=object), "X|object|astype"),
        (np.array([[1 + 2j, 1], [2, 3]]), "complex|real"),
        (
            np.array([["2020-01-01"], ["2020-01-02"]], dtype="datetime64[D]"),
            "datetime64|not numeric",
        ),
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.float64(3.0), "single number"),
        ([[1.0, 2.0], [3.0]], "equal length"),
        ({"a": 1}, "X"),
        ("text", "X"),
    ],
)
def test_wrong_types(values, parts):
    refused(parts, values)


def test_wrong_types_of_the_target():
    X, _ = table(2)
    refused("The target y is text|numeric target", X, np.array(["a", "b"]))
    pandas = pytest.importorskip("pandas")
    refused("The target 'town' is text|numeric target", X, pandas.Series(["a", "b"], name="town"))
    refused("The target y is text|numeric target", X, pandas.Series(["a", "b"]))
    refused("y|complex", X, np.array([1j, 2.0]))
    refused("y|sparse|dense", X, sparse.csr_array(np.ones((2, 1))))


def test_frame_with_text_column():
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0], "city": ["Rome", "Oslo", "Bonn"]})
    refused("city|not numeric|one_hot", frame, np.ones(3))


def test_sparse_complex():
    refused("complex", sparse.csr_array(np.eye(3) * 1j), np.ones(3))


def test_masked_values():
    X, y = table()
    masked = np.ma.array(X, mask=np.zeros_like(X, dtype=bool))
    masked.mask[6, 1] = True
    refused("masked|row 6", masked, y)


def test_frame_with_missing_integers():
    frame = pd.DataFrame(
        {"count": pd.array([1, None, 3, 4], dtype="Int64"), "size": [1.0, 2.0, 3.0, 4.0]}
    )
    refused("count|1|row 1", frame, np.ones(4))


@pytest.mark.parametrize("p", [1, 3, 5, 0, -2, 2.5, "4", True, None])
def test_odd_or_silly_powers(p):
    with pytest.raises(InputError, match="even"):
        LpRegression(p)


@pytest.mark.parametrize("p", [0, -1, 1.5, "2", None, True])
def test_silly_orders(p):
    with pytest.raises(InputError, match="integer"):
        TensorContraction(p)
    with pytest.raises(InputError, match="integer"):
        Moments(p)


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, "1", None])
def test_silly_alphas(alpha):
    for make in (Ridge, lambda a: LpRegression(4, a)):
        with pytest.raises(InputError, match="alpha"):
            make(alpha)


def test_silly_absorb():
    with pytest.raises(InputError, match=r"diagonal.*box"):
        Ridge(1.0, absorb="corner")
    for absorb in ("diagonal", "box"):
        with pytest.raises(InputError, match="positive"):
            Ridge(0.0, absorb=absorb)
        with pytest.raises(InputError, match="positive"):
            LpRegression(4, absorb=absorb)


def test_absorb_with_groups():
    X, y = table()
    refused("absorb|groups", X, y, Ridge(1.0, absorb="box"), groups=np.arange(300) % 2)


def test_absorb_with_several_targets():
    X, y = table()
    refused("absorb|one target", X, np.column_stack([y, y]), Ridge(1.0, absorb="diagonal"))


def test_group_without_a_row_of_positive_weight():
    X, y = table()
    groups = np.arange(300) % 3
    refused(
        "group|2|positive weight", X, y, groups=groups, sample_weight=(groups != 2).astype(float)
    )


def test_groups_with_missing_labels():
    X, y = table()
    labels = (np.arange(300) % 2).astype(float)
    labels[[4, 9]] = np.nan
    refused("groups|2|missing", X, y, groups=labels)
    mixed = np.array(["a", 1] * 150, dtype=object)
    refused("groups", X, y, groups=mixed)
    refused("groups|one label per row", X, y, groups=np.zeros((300, 2)))


def test_group_label_none():
    X, y = table()
    refused("groups", X, y, groups=np.array(["a", None] * 150, dtype=object))


KERNELS = {
    "one dimension": (lambda X: X[:, 0], "shape|one row of features per row"),
    "too few rows": (lambda X: X[:-1], "shape|one row of features per row"),
    "a sum": (lambda X: X.sum(), "shape"),
    "infinite": (lambda X: 1 / np.where(X > 2.5, 0.0, 1.0), "finite|feature"),
    "nan": (lambda X: np.where(X > 2.0, np.nan, X), "nan|finite|feature"),
    "text": (lambda X: X.astype(str), "real numbers"),
    "complex": (lambda X: X * 1j, "real numbers"),
    "no features": (lambda X: X[:, :0], "feature"),
    "block-dependent": (lambda X: np.ones((len(X), 1 + len(X) % 7)), "number"),
}


@pytest.mark.parametrize("kind", KERNELS)
def test_kernel_functions_that_misbehave(kind):
    function, parts = KERNELS[kind]
    X, _ = table(50_001)
    with np.errstate(divide="ignore"):
        refused(parts, X, problem=Kernel(function))


def test_kernel_function_that_raises_is_not_hidden():
    def broken(X):
        raise ZeroDivisionError("the user's own error")

    with pytest.raises(ZeroDivisionError, match="own error"):
        karat.coreset(table()[0], problem=Kernel(broken))


def test_kernel_without_a_function():
    with pytest.raises(InputError, match="function"):
        Kernel(3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("problem", "size"),
    [
        (LeastSquares(), 1e200),
        (Moments(3), 1e150),
        (LpRegression(6, fit_intercept=False), 1e80),
        (Mean(), 1e200),
    ],
)
def test_powers_that_overflow(problem, size, method):
    """Scaled columns may well be fine; but if not, the message names the column and says
    rescale.
    """
    X, y = table()
    X[:, 1] *= size
    result = attempt(karat.coreset, X, y, problem, method=method)
    if isinstance(result, InputError):
        assert "Column 1" in str(result)
        assert "escale" in str(result)
        return
    assert np.isfinite(result.weights).all()
    assert result.weights.sum() == pytest.approx(300, rel=1e-12)
    X[:, 1] /= size  # the loss at queries that undo the scale
    for q in np.random.default_rng(0).standard_normal((3, 3)):
        if isinstance(problem, Mean):
            centred = X - X.mean(axis=0)
            assert (
                abs(result.weights @ centred[result.indices, 1])
                <= 1e-10 * np.abs(centred[:, 1]).sum()
            )
        elif isinstance(problem, LeastSquares):
            full = ((X @ q - y) ** 2).sum()
            assert result.weights @ (
                X[result.indices] @ q - y[result.indices]
            ) ** 2 == pytest.approx(full, rel=1e-10)
        elif isinstance(problem, LpRegression):
            full = ((X @ q - y) ** 6).sum()
            assert result.weights @ (
                X[result.indices] @ q - y[result.indices]
            ) ** 6 == pytest.approx(full, rel=1e-10)
        else:
            full = (X @ q) ** 3
            assert (
                abs(result.weights @ (X[result.indices] @ q) ** 3 - full.sum())
                <= 1e-10 * np.abs(full).sum()
            )


def test_overflow_of_the_sum_of_two_columns():
    X, y = table()
    X[:, 0] *= 1e307
    with pytest.raises(InputError, match=r"Column 0.*escale"):
        karat.coreset(X, y, LpRegression(4))


@pytest.mark.parametrize(
    "problem",
    [LeastSquares(), Ridge(absorb="box"), LpRegression(4), Moments(2), TensorContraction(2)],
)
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_subnormal_column_is_named(problem, column, kind):
    """It is the small column that is at fault, not the largest."""
    X, y = table()
    X[:, column] *= 1e-310
    with pytest.raises(
        InputError, match=rf"Column {column} has values up to \d\.\de-3\d\d, so small .*; rescale"
    ):
        karat.coreset(kind(X), y if problem.needs_target else None, problem)


def test_subnormal_target_and_spread_are_named():
    X, y = table()
    with pytest.raises(InputError, match=r"Column y has values up to \d\.\de-3\d\d, so small"):
        karat.coreset(X, y * 1e-310, LeastSquares())
    X[:, 1] = 1e-307 * (1 + 1e-4 * X[:, 1])
    with pytest.raises(
        InputError, match=r"Column 1 has values that differ by at most \d\.\de-31\d, so small"
    ):
        karat.coreset(X, y, LeastSquares())


def test_verify_against_columns_of_another_unit():
    X, _ = table()
    core = karat.coreset(X, problem=Moments(2))
    X[:, 1] *= 1e-307
    assert not core.verify(X).ok


def test_underflow_is_exact_or_refused():
    """Tiny values must not become zero weights or a silent loss of rank."""
    X, y = table()
    core = karat.coreset(X * 1e-200, y * 1e-200)
    scaled = karat.coreset(X, y)
    assert len(core) == len(scaled)
    D = np.column_stack([np.ones(300), X, y])
    kept = D[core.indices]
    assert np.abs((kept.T * core.weights) @ kept - D.T @ D).max() <= 1e-12 * np.abs(D.T @ D).max()


def test_problem_in_the_place_of_y():
    X, y = table()
    refused("second argument|problem=", X, Moments(2))
    refused("second argument|problem=", X, Moments(2), LeastSquares())
    refused("problem", X, y, "least-squares")
    refused("problem", X, y, LeastSquares)


def test_missing_target():
    X, _ = table()
    for problem in (LeastSquares(), Ridge(1.0), LpRegression(4)):
        refused("needs a target|y", X, problem=problem)


@pytest.mark.parametrize("state", [-1, 1.5, "0", None, True, np.random.default_rng(0)])
def test_silly_random_states(state):
    X, y = table()
    refused("random_state", X, y, random_state=state)


def test_silly_methods_and_lengths():
    X, y = table()
    refused("method|onepass", X, y, method="fast")
    refused("lengths|sequence", X, y, lengths=[100, 200])


def test_queries_of_the_wrong_shape():
    X, y = table()
    core = karat.coreset(X, y)
    for query in (np.ones(2), np.ones(5), np.ones((2, 3, 4)), (np.ones(3), 1.0, 2.0)):
        with pytest.raises(InputError):
            core.loss(query)
    with pytest.raises(InputError, match="intercept"):
        karat.coreset(X, y, LeastSquares(fit_intercept=False)).loss((np.ones(3), 1.0))
    with pytest.raises(InputError):
        karat.coreset(X, problem=Mean()).loss(np.ones(2))
    with pytest.raises(InputError):
        karat.coreset(X, problem=TensorContraction(3)).loss(np.ones((2, 3)))
    with pytest.raises(InputError):
        karat.coreset(X, problem=Moments(2)).loss(np.ones(3))


def test_loss_of_a_kernel_without_lift():
    core = karat.coreset(table()[0], problem=Kernel(lambda X: X))
    with pytest.raises(InputError, match="lift"):
        core.loss(np.ones(3))


def test_total_weight_that_cannot_be_given_up():
    for make in (Mean, Moments):
        with pytest.raises(InputError, match="total"):
            make(total_weight=False)


def test_input_is_not_changed():
    X, y = table()
    u = np.linspace(0.1, 1, 300)
    copies = X.copy(), y.copy(), u.copy()
    for method in METHODS:
        for problem in (LeastSquares(), LpRegression(4), Ridge(1.0, absorb="box")):
            karat.coreset(X, y, problem, sample_weight=u, method=method)
    for now, before in zip((X, y, u), copies, strict=True):
        assert np.array_equal(now, before)


def test_read_only_input():
    X, y = table()
    for part in (X, y):
        part.flags.writeable = False
    assert karat.coreset(X, y).certificate.ok


class TestFit:
    """``core.fit`` refuses what a coreset does not keep."""

    def test_refuses_what_is_not_exact(self):
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.linear_model import HuberRegressor, LinearRegression, Ridge, RidgeCV

        X, y = table()
        core = karat.coreset(X, y)
        for estimator in (HuberRegressor(), RidgeCV(), RandomForestRegressor()):
            with pytest.raises(NotExactError, match=type(estimator).__name__):
                core.fit(estimator)
        with pytest.raises(InputError, match="not an estimator"):
            core.fit(object())
        with pytest.raises(NotExactError, match="solver"):
            core.fit(Ridge(solver="sag"))
        with pytest.raises(NotExactError, match="intercept"):
            karat.coreset(X, y, LeastSquares(fit_intercept=False)).fit(LinearRegression())
        with pytest.raises(NotExactError, match=r"y|target"):
            karat.coreset(X).fit(LinearRegression())
        with pytest.raises(NotExactError, match=r"squared|second moments"):
            karat.coreset(X, y, LpRegression(4, fit_intercept=False)).fit(
                LinearRegression(fit_intercept=False)
            )
        with pytest.raises(NotExactError, match="absorbed"):
            karat.coreset(X, y, problems.Ridge(1.0, absorb="box")).fit(Ridge())

    def test_lasso_needs_the_total_weight(self):
        from sklearn.linear_model import Lasso

        X, y = table()
        conic = karat.coreset(X, y, LeastSquares(fit_intercept=False, total_weight=False))
        with pytest.raises(NotExactError, match="total weight"):
            conic.fit(Lasso(fit_intercept=False))

    @pytest.mark.parametrize("intercept", [True, False])
    def test_exact_estimators(self, intercept):
        from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge

        X, y = table(2000)
        X, y = X + 1.5, y + 4
        core = karat.coreset(X, y, LeastSquares(fit_intercept=intercept))
        for make in (
            lambda: LinearRegression(fit_intercept=intercept),
            lambda: Ridge(alpha=30.0, fit_intercept=intercept),
            lambda: Lasso(alpha=0.1, tol=1e-14, max_iter=100_000, fit_intercept=intercept),
            lambda: ElasticNet(
                alpha=0.1, l1_ratio=0.3, tol=1e-14, max_iter=100_000, fit_intercept=intercept
            ),
        ):
            full, small = make().fit(X, y), core.fit(make())
            assert np.allclose(full.coef_, small.coef_, rtol=1e-9, atol=1e-9)
            assert np.allclose(full.intercept_, small.intercept_, rtol=1e-9, atol=1e-9)


def test_errors_carry_their_place_as_fields():
    X, y = table(300)
    X[[5, 9], 1] = np.nan
    with pytest.raises(InputError) as caught:
        karat.coreset(X, y)
    assert (caught.value.column, caught.value.row) == ("1", 5)
    for options in (
        {"random_state": -1},
        {"method": "magic"},
        {"sample_weight": np.full(300, -1.0)},
        {"lengths": [300]},
    ):
        with pytest.raises(InputError) as caught:
            karat.coreset(*table(300), **options)
        assert caught.value.argument == next(iter(options))
    again = pickle.loads(
        pickle.dumps(InputError("It is wrong.", "Do this.", argument="y", column="a", row=3))
    )
    assert (str(again), again.message, again.remedy) == (
        "It is wrong. Do this.",
        "It is wrong.",
        "Do this.",
    )
    assert (again.argument, again.column, again.row) == ("y", "a", 3)
