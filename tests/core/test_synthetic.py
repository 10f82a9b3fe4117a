"""Synthetic rows in memory: exact for every squared loss, by rational arithmetic and by other
libraries on all rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from factory import SMALL, TAGS, data
from made_rows import check, worst_ratio
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import karat
from karat import InputError, NotExactError, problems

SQUARED = [
    problems.LeastSquares(),
    problems.LeastSquares(fit_intercept=False),
    problems.Ridge(3.0),
    problems.LpRegression(2),
    problems.LpRegression(2, fit_intercept=False),
    problems.Moments(1),
    problems.Moments(2),
    problems.Mean(),
    problems.TensorContraction(1),
    problems.TensorContraction(2),
]
OTHERS = {
    "degree 4": problems.LpRegression(4),
    r"Moments\(degree=3\) needs more": problems.Moments(3),
    r"TensorContraction\(p=3\) needs more": problems.TensorContraction(3),
    "leave out absorb=": problems.Ridge(1.0, absorb="box"),
    "Kernel.* needs more": problems.Kernel(np.abs),
    "GaussianMixture.* needs more": problems.GaussianMixture(2),
    "ICA.* needs more": problems.ICA(2),
    "SingleTopic.* needs more": problems.SingleTopic(2),
    "HiddenMarkov.* needs more": problems.HiddenMarkov(2),
}


def made(*args, **kwargs):
    return karat.coreset(*args, rows="synthetic", **kwargs)


@pytest.mark.parametrize("tag", [*SMALL, "many_rare", "many_offset_sorted"])
def test_the_claim_holds_at_every_query(tag):
    given = data(tag)
    core = made(given.X, given.y, sample_weight=given.weights)
    check(core, given.X, given.y, given.weights)
    assert core.verify(given.X, given.y, sample_weight=given.weights).ok


@pytest.mark.parametrize("problem", SQUARED, ids=lambda problem: problem.describe())
def test_every_squared_problem(problem):
    given = data("skewed")
    y = given.y if problem.needs_target else None
    core = made(
        given.X,
        y,
        problem=problem,
        sample_weight=data("uneven_weights").weights.repeat(2)[: len(given.y)],
    )
    check(core, given.X, y, data("uneven_weights").weights.repeat(2)[: len(given.y)])
    rank = np.linalg.matrix_rank(np.column_stack([given.X, *([] if y is None else [y])]))
    assert core.certificate.rank == rank
    assert len(core) == rank + 1


@pytest.mark.parametrize("said", OTHERS)
def test_other_problems_are_refused(said):
    X = np.abs(data("gaussian").X)
    y = data("gaussian").y if OTHERS[said].needs_target else None
    with pytest.raises(InputError, match=f"squared losses only.*{said}"):
        made(X, y, problem=OTHERS[said])
    with pytest.raises(InputError, match=f"squared losses only.*{said}"):
        karat.plan(OTHERS[said], 1000, 3, rows="synthetic")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rows": "xyz"}, "rows must be 'real' or 'synthetic'"),
        ({"rows": "synthetic", "verbatim": "xyz"}, "verbatim must be 'keep' or 'error'"),
        ({"verbatim": "error"}, "real rows are records"),
        ({"rows": "synthetic", "method": "tree"}, "one method"),
    ],
)
def test_arguments_that_do_not_go_together(options, said):
    with pytest.raises(InputError, match=said):
        karat.coreset(data("gaussian").X, data("gaussian").y, **options)


def test_a_transformation_comes_before_the_rows_are_made():
    problem = problems.Transformed(
        problems.LeastSquares(), StandardScaler().fit(data("gaussian").X)
    )
    with pytest.raises(InputError, match="transform all rows first"):
        made(data("gaussian").X, data("gaussian").y, problem=problem)


@pytest.mark.parametrize(
    "tag", ["gaussian", "one_hot_binary", "skewed", "huge_offset", "uneven_weights"]
)
@pytest.mark.parametrize(
    "model",
    [LinearRegression(), Ridge(2.0), Lasso(0.05), ElasticNet(0.05)],
    ids=lambda m: type(m).__name__,
)
def test_models_of_all_rows(tag, model):
    given = data(tag)
    core = made(given.X, given.y, sample_weight=given.weights)
    steps = make_pipeline(StandardScaler(), model)
    name = type(model).__name__.lower()

    def fitted(X, y, weights):
        own = {"standardscaler__sample_weight": weights, f"{name}__sample_weight": weights}
        return steps.fit(X, y, **own).predict(given.dense)

    if isinstance(model, Lasso | ElasticNet):
        model.set_params(tol=1e-14, max_iter=100_000)
    few, full = fitted(core.X, core.y, core.weights), fitted(given.dense, given.y, given.mass)
    assert np.abs(few - full).max() <= 1e-9 * np.abs(given.y - given.y.mean()).max()


def test_several_targets_with_their_products():
    X, y = data("gaussian").X, data("gaussian").y
    Y = np.column_stack([y, y**2, np.sin(y)])
    core = made(X, Y)
    check(core, X, Y)
    assert core.y.shape == (len(core), 3)
    assert len(core) == 7


def test_a_problem_without_intercept_keeps_means_too():
    given = data("skewed")
    core = made(given.X, given.y, problem=problems.LeastSquares(fit_intercept=False))
    full = LinearRegression().fit(given.X, given.y)
    few = core.fit(LinearRegression())
    np.testing.assert_allclose(
        [*few.coef_, few.intercept_], [*full.coef_, full.intercept_], rtol=1e-10
    )


def test_the_bound_is_that_of_layers_and_verbatim_rows():
    given = data("gaussian")
    assert made(given.X, given.y).certificate.bound == 5
    far = np.where(np.arange(3) == 1, 1e8, 0.0)
    layered = made(given.X + far, given.y)
    assert layered.certificate.bound == len(layered) == 10  # two layers of rank + 1
    check(layered, given.X + far, given.y)
    wild = np.array(given.X)
    wild[[3, 99]] *= 1e9
    core = made(wild, given.y)
    assert core.certificate.verbatim == 2
    assert core.certificate.bound == len(core) == 5 + 2
    check(core, wild, given.y)


def test_rank_of_dependent_columns():
    X = data("rank_deficient").X
    core = made(X, problem=problems.Moments(2))
    assert core.certificate.rank == 2
    assert len(core) == 3
    check(core, X)


def test_many_wild_rows_are_a_level_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2))
    X[::20] *= 1e7
    y = rng.standard_normal(4000)
    core = made(X, y)
    assert set(core.strata) == {0, 1}
    assert core.certificate.levels == 2
    check(core, X, y)
    assert core.verify(X, y).ok


def test_wild_rows_can_be_refused():
    X, y = np.array(data("gaussian").X), data("gaussian").y
    X[[17, 23]] *= 1e12
    with pytest.raises(InputError, match=r"2 rows of the data, .*rows 17, 23.*verbatim='keep'"):
        made(X, y, verbatim="error")
    groups = np.arange(len(y)) % 2
    with pytest.raises(InputError, match=r"rows 17, 23"):
        made(X, y, groups=groups, verbatim="error")
    assert made(data("gaussian").X, y, verbatim="error").certificate.verbatim == 0


@pytest.mark.parametrize("count", [1, 2])
def test_one_row_or_two_are_themselves(count):
    """Moments of so few rows are these rows: that is said, or refused."""
    X, y = data("gaussian").X[:count], data("gaussian").y[:count]
    core = made(X, y)
    assert any("rows themselves" in note for note in core.certificate.notes)
    with pytest.raises(InputError, match="rows themselves"):
        made(X, y, verbatim="error")
    labels = np.repeat(["a", "b"], [1, 99])
    with pytest.raises(InputError, match="One group has one or two rows"):
        made(data("gaussian").X[:100], data("gaussian").y[:100], groups=labels, verbatim="error")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (1e15 + np.random.default_rng(0).standard_normal(500), "subtract a constant"),
        (1 + 2.0**-52 * np.random.default_rng(0).integers(0, 2, 500), "ulps of its values"),
    ],
)
def test_what_doubles_cannot_hold_is_refused_and_never_replaced_by_real_rows(values, said):
    X = np.column_stack([values, data("gaussian").X[:500]])
    with pytest.raises(NotExactError, match=said):
        made(X, data("gaussian").y[:500])
    assert karat.coreset(X, data("gaussian").y[:500]).certificate.ok


def test_wording():
    given = data("gaussian")
    X = np.array(given.X)
    X[5] *= 1e12
    core = made(X, given.y)
    assert "6 made rows for 900, 1 of them rows of the data as they are" in repr(core)
    assert "made rows differs from that of all rows" in str(core.certificate)
    assert "The rows are made, not rows of the data, but for 1 that are kept as they are." in str(
        core.certificate
    )
    assert "privacy (kept rows are real records)" not in str(core.certificate)
    assert "not linear in the columns" in str(core.certificate)
    text = str(core.summary())
    assert "rows made" in text
    assert "1 row of the data as they are" in " ".join(text.split())
    assert "6 made rows" in core._repr_html_()
    with pytest.raises(InputError, match="Synthetic rows have no keys"):
        core.contains([5])


def test_the_same_rows_again():
    given = data("heavy_tails")
    first, second = (made(given.X, given.y, random_state=3) for _ in range(2))
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.weights, second.weights)


def test_weights_from_tiny_to_large():
    given = data("gaussian")
    u = 10.0 ** np.random.default_rng(0).uniform(-12, 12, len(given.y))
    check(made(given.X, given.y, sample_weight=u), given.X, given.y, u)


@pytest.mark.parametrize("factor", [1e-160, 1e150, 1e-30])
def test_units(factor):
    given = data("gaussian")
    X = given.X * [1.0, factor, 1.0]
    check(made(X, given.y), X, given.y)


def test_plan_says_how_many():
    found = karat.plan(problems.LeastSquares(), 10**6, 300, rows="synthetic")
    assert (found.rows, found.passes) == (302, 1)
    assert "made, not rows of the data" in found.why
    assert (
        karat.plan(problems.LeastSquares(), 10**6, 20, targets=3, groups=7, rows="synthetic").rows
        == 7 * 24
    )
    assert "rows='synthetic', 102 made rows" in karat.plan(problems.LeastSquares(), 10**6, 100).why
    with pytest.raises(InputError, match="rows='synthetic' makes about one row per column"):
        karat.plan(problems.LeastSquares(), 10**6, 300)
    many = karat.plan(
        problems.LeastSquares(),
        10**9,
        300,
        rows="synthetic",
        source="cluster",
        partitions=100,
        workers=10,
    )
    assert 0 < many.travels < 1e10
    with pytest.raises(InputError, match="rows must be"):
        karat.plan(problems.LeastSquares(), 10**6, 300, rows="made")


def test_all_tags_are_judged():
    assert set(SMALL) < set(TAGS)
    assert (
        worst_ratio(
            made(data("one_row").X, data("one_row").y), data("one_row").X, data("one_row").y
        )
        == 0
    )


@pytest.mark.parametrize("rows", [6000, 8000, 9000, 12_000, 16_000])
@pytest.mark.parametrize("seed", range(4))
def test_all_levels_of_two_categories(rows, seed):
    rng = np.random.default_rng(seed)
    three, two = np.eye(3)[rng.integers(0, 3, rows)], np.eye(2)[rng.integers(0, 2, rows)]
    X = np.column_stack([three, two, rng.standard_normal((rows, 2))])
    y = X[:, 5] + rng.standard_normal(rows)
    core = karat.coreset(X, y, rows="synthetic")
    D, made = (
        np.column_stack([np.ones(rows), X, y]),
        np.column_stack([np.ones(len(core)), core.X, core.y]),
    )
    np.testing.assert_allclose(made.T @ (made * core.weights[:, None]), D.T @ D, atol=1e-9 * rows)
