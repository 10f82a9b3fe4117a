"""Every data set x problem x reducer: positive weights, no more rows than the rank, the same loss
at every query.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, METHODS, allowed_error, by_turns, independent_rank, judge, whitened
from factory import LARGE, SMALL, TAGS, data
from oracles import EPS, PowerJudge, mean_error, rank, square_error, whiten
from scipy import sparse

import karat
from karat import problems


def build(tag: str, case: str, method: str, **options):
    made, spec = data(tag), CASES[case]
    return karat.coreset(
        made.X,
        made.y if spec.target else None,
        spec.problem,
        sample_weight=made.weights,
        method=method,
        **options,
    )


def check_rows(core, made) -> None:
    """Indices increase, rows and targets are verbatim, weights are positive and finite."""
    assert core.indices.dtype == np.int64
    assert (np.diff(core.indices) > 0).all()
    assert core.indices[0] >= 0
    assert core.indices[-1] < len(made.y)
    assert core.weights.dtype == np.float64
    assert np.isfinite(core.weights).all()
    assert (core.weights > 0).all()
    assert (made.mass[core.indices] > 0).all()
    if sparse.issparse(made.X):
        assert sparse.issparse(core.X)
        assert np.array_equal(core.X.toarray(), made.X.toarray()[core.indices])
    else:
        assert core.X.dtype == made.X.dtype
        assert np.array_equal(core.X, made.X[core.indices])
    if core.y is not None:
        assert np.array_equal(core.y, made.y[core.indices])
    assert core.n_rows == len(made.y)
    assert len(core) == len(core.indices) == len(core.weights) == core.certificate.size


def check_exact(tag: str, case: str, core) -> None:
    made, spec, white = data(tag), CASES[case], whitened(tag, case)
    assert core.certificate.ok
    assert len(core) <= independent_rank(tag, case) + core.certificate.peeled
    if spec.total:
        assert abs(core.weights.sum() / made.mass.sum() - 1) <= 1e-12
    tolerance = allowed_error(white, spec.degree)
    if spec.degree == 2:
        assert square_error(white, spec.kept(core), core.weights) <= tolerance
    else:
        assert judge(tag, case).error(spec.kept(core), core.weights) <= tolerance


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("tag", "case", "method"), by_turns(SMALL, CASES))
def test_small(tag, case, method):
    if tag == "outlier" and case.startswith("l6"):
        pytest.skip(
            "the sixth powers of this outlier leave no clear rank; see"
            " test_refused_rather_than_inexact"
        )
    core = build(tag, case, method)
    check_rows(core, data(tag))
    check_exact(tag, case, core)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("tag", "case", "method"),
    by_turns(
        LARGE, ["least_squares", "least_squares_no_intercept", "moments_3", "l4_no_intercept"]
    ),
)
def test_more_rows_than_the_pilot_sees(tag, case, method):
    core = build(tag, case, method)
    check_rows(core, data(tag))
    check_exact(tag, case, core)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tag", TAGS)
def test_mean(tag, method):
    made = data(tag)
    core = karat.coreset(made.X, problem=problems.Mean(), sample_weight=made.weights, method=method)
    check_rows(core, made)
    X = made.dense
    centred = X - np.average(X, axis=0, weights=made.mass)
    spread = np.sqrt(np.average((centred**2).sum(axis=1), weights=made.mass))
    centred = centred / spread if spread > 0 else centred
    features = np.column_stack([np.ones(len(X)), centred, (centred**2).sum(axis=1)])
    assert len(core) <= X.shape[1] + 2
    # where small columns are rounding beside the large ones
    if tag not in ("wide_scales", "near_collinear"):
        assert len(core) <= rank(features, made.mass, False)
    assert abs(core.weights.sum() / made.mass.sum() - 1) <= 1e-12
    assert mean_error(X, made.mass, core.arrays()[0], core.weights) <= 1e-12


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "tag", ["many_gaussian", "many_rare", "one_hot_binary", "zero_weights", "heavy_tails"]
)
def test_same_seed_same_coreset(tag, method):
    first, again = (build(tag, "least_squares", method, random_state=7) for _ in range(2))
    assert np.array_equal(first.indices, again.indices)
    assert np.array_equal(first.weights, again.weights)


@pytest.mark.parametrize("method", ["auto", "onepass"])
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("tag", ["many_skewed", "many_rare", "heavy_tails", "near_collinear"])
def test_exact_for_every_seed(tag, method, seed):
    core = build(tag, "least_squares", method, random_state=seed)
    check_rows(core, data(tag))
    check_exact(tag, "least_squares", core)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e3, 1e5, 1e8])
@pytest.mark.parametrize("case", ["least_squares", "moments_3", "l4", "l6_no_intercept"])
def test_refused_rather_than_inexact(case, size, method):
    """One row far outside: if its powers exceed the precision of the others there is an error, and
    never a wrong coreset.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2))
    X[250] *= size
    y, spec = X.sum(axis=1) + rng.standard_normal(500), CASES[case]
    try:
        core = karat.coreset(X, y if spec.target else None, spec.problem, method=method)
    except karat.NotExactError as error:
        refusal = str(error)
        assert case != "least_squares", (
            "second moments of an outlier are well within double precision"
        )
        assert "loss error" in refusal
        return
    table = np.column_stack([X, y]) if spec.target else X
    white = whiten(table, np.ones(500), spec.affine)
    if spec.degree == 2:
        assert square_error(white, table[core.indices], core.weights) <= max(
            1e-12, EPS * white.condition
        )
    else:
        error = PowerJudge(white, table, np.ones(500), spec.degree, 1000).error(
            table[core.indices], core.weights
        )
        assert error <= max(1e-10, 100 * EPS * white.condition)
    assert core.weights.sum() == pytest.approx(500, rel=1e-12)


def test_other_seed_other_rows():
    """The choice of rows is random, or the seed would mean nothing."""
    first, other = (
        build("many_gaussian", "least_squares", "onepass", random_state=s) for s in (0, 1)
    )
    assert not np.array_equal(first.indices, other.indices)


@pytest.mark.parametrize("method", METHODS)
def test_fewer_rows_than_rank_are_kept_as_they_are(method):
    made = data("fewer_rows_than_features")
    weights = np.linspace(0.5, 2.0, 12)
    core = karat.coreset(made.X, made.y, sample_weight=weights, method=method)
    assert np.array_equal(core.indices, np.arange(12))
    assert np.allclose(core.weights, weights, rtol=1e-15, atol=0)
    assert "all are kept" in str(core.certificate)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", ["least_squares", "l4_no_intercept", "moments_3"])
@pytest.mark.parametrize(
    "kind", ["float32", "int8", "uint8", "bool", "fortran", "strided", "list", "longdouble"]
)
def test_number_types_and_layouts(kind, case, method):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2 if kind == "bool" else 100, (400, 2))
    y = rng.integers(0, 100, 400)
    spec = CASES[case]
    if kind == "fortran":
        given, target = np.asfortranarray(X, dtype=float), y
    elif kind == "strided":
        given, target = (
            np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3][::-1][::-1],
            np.repeat(y, 2)[::2],
        )
    elif kind == "list":
        given, target = X.tolist(), y.tolist()
    else:
        given, target = X.astype(kind), y.astype("float32" if kind == "bool" else kind)
    core = karat.coreset(given, target if spec.target else None, spec.problem, method=method)
    table = spec.table(type("Plain", (), {"dense": X.astype(float), "y": y.astype(float)}))
    white = whiten(table, np.ones(400), spec.affine)
    if spec.degree == 2:
        assert square_error(white, table[core.indices], core.weights) <= 1e-12
    else:
        judged = PowerJudge(white, table, np.ones(400), spec.degree, count=500)
        assert judged.error(table[core.indices], core.weights) <= 1e-10
    assert np.array_equal(np.asarray(core.X, dtype=float), X[core.indices])


@pytest.mark.parametrize("method", METHODS)
def test_two_dimensional_target_of_one_column(method):
    made = data("gaussian")
    flat = karat.coreset(made.X, made.y, method=method)
    tall = karat.coreset(made.X, made.y[:, None], method=method)
    assert np.array_equal(flat.indices, tall.indices)
    assert tall.y.shape == (len(tall), 1)
    assert flat.y.shape == (len(flat),)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("inputs", "targets"), [(2, 2), (3, 5), (1, 8)])
@pytest.mark.parametrize(
    "trouble", ["plain", "offset", "repeated_target", "constant_target", "linear_target"]
)
def test_several_targets(trouble, inputs, targets, method):
    rng = np.random.default_rng(inputs * targets)
    X = rng.standard_normal((700, inputs))
    Y = X @ rng.standard_normal((inputs, targets)) + rng.standard_normal((700, targets))
    if trouble == "offset":
        X, Y = X + 1e6, Y - 1e6
    elif trouble == "repeated_target":
        Y[:, -1] = Y[:, 0]
    elif trouble == "constant_target":
        Y[:, 0] = 4.0
    elif trouble == "linear_target":
        Y[:, 0] = X @ np.arange(1.0, inputs + 1)
    core = karat.coreset(X, Y, method=method)
    for t in range(targets):
        table = np.column_stack([X, Y[:, t]])
        white = whiten(table, np.ones(700), True)
        assert square_error(white, table[core.indices], core.weights) <= 1e-12
    K = (inputs + 1) * (inputs + 2) // 2 + targets * (inputs + 1) + targets
    less = {
        "repeated_target": inputs + 2,
        "constant_target": inputs + 2,
        "linear_target": inputs + 2,
    }.get(trouble, 0)
    assert len(core) <= K - less


@pytest.mark.parametrize("method", METHODS)
def test_total_weight_beside_an_ill_conditioned_base(method):
    """A constant column and an offset target are nearly collinear; the total weight does not suffer
    from that.
    """
    X, y = np.full((60, 1), 0.1), 1e6 + np.random.default_rng(1).standard_normal(60)
    core = karat.coreset(X, y, problems.LeastSquares(fit_intercept=False), method=method)
    assert len(core) <= 3
    assert core.weights.sum() == pytest.approx(60, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(5))
def test_offset_beside_binary_columns(seed, method):
    """Of x^2 b, x b^2 and b^3 with x = 1e6 + gauss and b binary one combination is 1e-12 of the
    rest: exact, or refused.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [1e6 + rng.standard_normal(221), rng.integers(0, 2, 221), rng.integers(0, 2, 221)]
    ).astype(float)
    u = rng.random(221)
    try:
        core = karat.coreset(
            X, problem=problems.TensorContraction(3), sample_weight=u, method=method
        )
    except karat.NotExactError:
        return
    white = whiten(X, u, False)
    judged = PowerJudge(white, X, u, 3, 1000)
    assert judged.error(X[core.indices], core.weights) <= max(1e-10, 100 * EPS * white.condition)


@pytest.mark.parametrize("method", METHODS)
def test_two_distinct_rows_nearly_collinear(method):
    X, y = np.full((6, 1), 0.1), np.repeat([1e6, 1e6 + 1.0], 3)
    core = karat.coreset(X, y, problems.LeastSquares(fit_intercept=False), method=method)
    assert len(core) == 2
    assert np.allclose(core.weights, 3.0, rtol=1e-8)


@pytest.mark.parametrize("levels", range(2, 9))
def test_indicators_of_one_category_beside_an_intercept(levels):
    """Their sum is 1 in every row: a direction that vanishes exactly, and must be dropped as
    accurately.
    """
    rng = np.random.default_rng(levels)
    category = rng.integers(levels, size=6000)
    X = np.column_stack(
        [rng.integers(1, 7, 6000), *(category == level for level in range(levels))]
    ).astype(float)
    y = X[:, 0] + rng.standard_normal(6000)
    core = karat.coreset(X, y)
    streamed = karat.Sketch().update(X[:2000], y[:2000]).update(X[2000:], y[2000:]).coreset()
    D = np.column_stack([X, y])
    for few in (core, streamed):
        assert few.verify(X, y).ok
        kept = np.column_stack([few.X, few.y])
        assert np.allclose((kept.T * few.weights) @ kept, D.T @ D, rtol=1e-11)


@pytest.mark.parametrize("seed", [2, 1131, 3600])
def test_fewer_rows_than_categories(seed):
    """Directions that rows have shown can become zero in every row when rounding is taken out of
    them: they are dropped.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 14))
    first, second = np.eye(12)[rng.integers(0, 12, n)], np.eye(9)[rng.zipf(1.5, n) % 9]
    X = np.hstack([first, second, rng.standard_normal((n, 2)) * [1, 10] + [0, 5]])
    y = X[:, -2:].sum(axis=1) + 2000 + rng.standard_normal(n)
    weights = rng.uniform(0.1, 3, n)
    core = karat.coreset(X, y, sample_weight=weights)
    assert core.verify(X, y, sample_weight=weights).ok
    D, kept = np.column_stack([X, y]), np.column_stack([core.X, core.y])
    assert np.allclose((kept.T * core.weights) @ kept, (D.T * weights) @ D, rtol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_targets_that_the_columns_explain(seed):
    """Two of three targets are combinations of graded columns, along their small directions as
    well.
    """
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    X = rng.standard_normal((200, 4)) @ (turn * 10.0 ** (-1.7 * np.arange(4))) @ turn.T
    Y = np.column_stack(
        [X @ rng.standard_normal(4), X @ rng.standard_normal(4), rng.standard_normal(200)]
    )
    core = karat.coreset(X, Y, karat.problems.LeastSquares(fit_intercept=False))
    assert core.certificate.ok
    assert core.verify(X, Y).ok
    root = np.sqrt(core.weights)[:, None]
    for target in range(3):
        full = np.linalg.lstsq(X, Y[:, target], rcond=None)[0]
        kept = np.linalg.lstsq(root * core.X, root[:, 0] * core.y[:, target], rcond=None)[0]
        assert np.linalg.norm(X @ (full - kept)) <= 1e-9 * np.linalg.norm(Y[:, target])
