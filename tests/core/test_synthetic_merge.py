"""Merges of synthetic rows: with each other, with real rows, with rows kept as they are, many
times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from factory import data
from made_rows import check, worst_ratio
from scipy import sparse
from sklearn.linear_model import LinearRegression

import karat
from karat import InputError, NotExactError
from karat.problems import LeastSquares, LpRegression, Mean, Moments, Ridge, TensorContraction
from tests.torture.merges import KINDS, chain


def made(*args, **kwargs):
    return karat.coreset(*args, rows="synthetic", **kwargs)


@pytest.mark.parametrize(
    "tag",
    ["gaussian", "skewed", "near_collinear", "huge_offset", "one_hot_binary", "uneven_weights"],
)
def test_the_union(tag):
    given = data(tag)
    cut = len(given.y) // 3
    parts = [slice(0, cut), slice(cut, None)]
    own = [
        {} if given.weights is None else {"sample_weight": given.weights[part]} for part in parts
    ]
    merged = made(given.X[parts[0]], given.y[parts[0]], **own[0]).merge(
        made(given.X[parts[1]], given.y[parts[1]], **own[1])
    )
    check(merged, given.X, given.y, given.weights)
    assert merged.n_rows == len(given.y)
    assert merged.verify(given.X, given.y, sample_weight=given.weights).ok


@pytest.mark.parametrize("first", ["real", "synthetic"])
@pytest.mark.parametrize(
    "problem", [LeastSquares(), Ridge(2.0), LpRegression(2)], ids=lambda problem: problem.describe()
)
def test_with_real_rows_the_union_is_synthetic(first, problem):
    given = data("skewed")
    kinds = ("real", "synthetic") if first == "real" else ("synthetic", "real")
    parts = slice(0, 400), slice(400, None)
    one, two = (
        karat.coreset(given.X[part], given.y[part], problem, rows=kind)
        for part, kind in zip(parts, kinds, strict=True)
    )
    merged = one.merge(two)
    check(merged, given.X, given.y)
    assert len(merged) == 5


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (LeastSquares(fit_intercept=False), "squares of all affine forms"),
        (LpRegression(2, fit_intercept=False), "squares of all affine forms"),
        (Moments(1), "squares of all affine forms"),
        (Moments(2), "squares of all affine forms"),
        (TensorContraction(2), "squares of all affine forms"),
        (Mean(), "squares of all affine forms"),
        (LeastSquares(), "products of different targets"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.describe(),
)
def test_real_rows_that_keep_less_are_refused(problem, said):
    """Without an intercept real rows have no means, and of several targets no products: the claim
    would be false.
    """
    given = data("skewed")
    y = (
        np.column_stack([given.y, given.y**2])
        if "targets" in said
        else given.y
        if problem.needs_target
        else None
    )
    real = karat.coreset(given.X[:400], None if y is None else y[:400], problem)
    other = made(given.X[400:], None if y is None else y[400:], problem=problem)
    for one, two in ((real, other), (other, real)):
        with pytest.raises(NotExactError, match=f"do not keep {said}.*rows='synthetic'"):
            one.merge(two)


def test_real_rows_that_are_all_rows_keep_everything():
    given = data("skewed")
    problem = LeastSquares(fit_intercept=False)
    few = karat.coreset(given.X[:6], given.y[:6], problem)
    assert len(few) == 6
    merged = few.merge(made(given.X[6:], given.y[6:], problem=problem))
    assert worst_ratio(merged, given.X, given.y) <= 1


def test_containers():
    given = data("sparse_rows")
    X = sparse.csr_array(given.X)
    both = karat.coreset(X[:400], given.y[:400]).merge(made(X[400:], given.y[400:]))
    check(both, given.X, given.y)
    frame = pd.DataFrame(given.dense, columns=list("abcd"))
    both = karat.coreset(frame[:400], given.y[:400]).merge(made(frame[400:], given.y[400:]))
    assert list(both.X.columns) == list("abcd")
    with pytest.raises(InputError, match="the same kind of table"):
        both.merge(made(given.dense, given.y))


def test_rows_kept_as_they_are_stay_so():
    given = data("gaussian")
    X = np.array(given.X)
    X[[5, 500, 800]] *= 1e12
    merged = (
        made(X[:300], given.y[:300])
        .merge(made(X[300:600], given.y[300:600]))
        .merge(karat.coreset(X[600:], given.y[600:]))
    )
    assert merged.certificate.verbatim == 3
    check(merged, X, given.y)
    assert {row.tobytes() for row in merged.X[merged.verbatim]} == {
        X[i].tobytes() for i in (5, 500, 800)
    }
    assert merged.verify(X, given.y).ok


def test_many_wild_rows_become_a_level():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2))
    X[::50] *= 1e8
    merged = made(X[:200], problem=Moments(2))
    for start in range(200, 2000, 200):
        merged = merged.merge(made(X[start : start + 200], problem=Moments(2)))
    assert merged.certificate.verbatim <= 48
    assert worst_ratio(merged, X) <= 1
    assert merged.verify(X).ok


def test_groups():
    given = data("gaussian")
    labels = np.arange(900) % 3
    first, second = slice(0, 500), slice(500, 900)
    merged = made(given.X[first], given.y[first], groups=labels[first]).merge(
        karat.coreset(given.X[second], given.y[second], groups=labels[second])
    )
    check(merged, given.X, given.y, groups=labels)
    with pytest.raises(InputError, match="groups or keys"):
        merged.merge(made(given.X, given.y))


def test_keys_of_real_rows_are_left_behind():
    given = data("gaussian")
    frame = pd.DataFrame(given.X, columns=list("abc"))
    sketch = karat.Sketch(key="id").update(frame[:400].assign(id=range(400)), given.y[:400])
    merged = sketch.coreset().merge(made(frame[400:], given.y[400:]))
    assert merged.keys is None
    assert merged.indices is None
    check(merged, given.X, given.y)


def test_the_same_data_twice():
    given = data("gaussian")
    core = replace(made(given.X, given.y), provenance={"parts": []})
    merged = core.merge(core)
    assert merged.weights.sum() == pytest.approx(1800)


@pytest.mark.parametrize("kind", KINDS)
def test_every_merge_is_inside_its_claim(kind):
    seen = chain(kind, 40)
    assert seen.ratio <= 1, seen.said
    assert seen.error <= seen.allowed


def test_too_many_merges_are_refused_not_hidden():
    given = data("near_collinear")
    core = made(given.X, given.y)
    spent = replace(core, certificate=replace(core.certificate, loss_error=1e-10))
    with pytest.raises(NotExactError, match="After this merge the loss may be off by"):
        spent.merge(made(given.X, given.y))


def test_a_model_of_ten_parts():
    given = data("many_skewed")
    merged = made(given.X[:2000], given.y[:2000])
    for start in range(2000, len(given.y), 2000):
        part = slice(start, start + 2000)
        merged = merged.merge(made(given.X[part], given.y[part]))
    few, full = merged.fit(LinearRegression()), LinearRegression().fit(given.X, given.y)
    np.testing.assert_allclose(few.coef_, full.coef_, rtol=1e-10)
