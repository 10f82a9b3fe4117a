"""A sketch is exact at any moment, whatever the chunks, and remembers what it has seen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tables import Latent

import karat
from karat import problems as P

N = 12_000


def waves(X):
    return np.column_stack([np.sin(X), np.cos(X)])


PROBLEMS = [
    P.LeastSquares(),
    P.LeastSquares(fit_intercept=False, total_weight=False),
    P.Ridge(2.0, absorb="diagonal"),
    P.LpRegression(4),
    P.Mean(),
    P.TensorContraction(3),
    P.Moments(2),
    P.Moments(3),
    P.Kernel(waves),
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4))
    y = X.sum(axis=1) + rng.standard_normal(N)
    return X, y, rng.random(N) * (rng.random(N) > 0.1), np.array(["u", "v"])[rng.integers(0, 2, N)]


def chunks(n, largest, seed=0):
    rng = np.random.default_rng(seed)
    start = 0
    while start < n:
        stop = min(n, start + int(rng.integers(1, largest)))
        yield slice(start, stop)
        start = stop


def feed(sketch, X, y=None, w=None, g=None, largest=1500, seed=0):
    for c in chunks(X.shape[0], largest, seed):
        sketch.update(
            X[c],
            None if y is None else y[c],
            sample_weight=None if w is None else w[c],
            groups=None if g is None else g[c],
        )
    return sketch


def moments(core):
    X, y = core.arrays()
    D = np.column_stack([np.ones(len(core)), X] + ([] if y is None else [y]))
    return (D * core.weights[:, None]).T @ D


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.describe())
@pytest.mark.parametrize("extras", ["plain", "weights", "groups", "both"])
def test_exact_against_the_full_data(problem, extras, rows):
    X, y, w, g = rows
    w, g = w if extras in ("weights", "both") else None, g if extras in ("groups", "both") else None
    if g is not None and getattr(problem, "absorb", None):
        with pytest.raises(karat.InputError, match="absorb and groups"):
            feed(karat.Sketch(problem), X, y, w, g)
        return
    target = y if problem.needs_target else None
    core = feed(karat.Sketch(problem, buffer_rows=2500), X, target, w, g).coreset()
    proof = core.verify(X, target, sample_weight=w, groups=g)
    assert proof.ok, str(proof)
    assert core.certificate.loss_error <= 1e-11
    assert proof.loss_error <= 1e-11
    assert not proof.notes
    assert (core.weights > 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_any_chunks_give_the_same_moments(seed, rows):
    X, y, *_ = rows
    whole = moments(karat.coreset(X, y))
    core = feed(
        karat.Sketch(P.LeastSquares(), buffer_rows=300 + 700 * seed),
        X,
        y,
        largest=1 + 10**seed,
        seed=seed,
    ).coreset()
    np.testing.assert_allclose(moments(core), whole, rtol=1e-12, atol=1e-12 * N)


@pytest.mark.nightly
def test_thousands_of_folds_do_not_drift():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60_000, 3)) + 5.0
    y = X.sum(axis=1) + rng.standard_normal(len(X))
    sketch = karat.Sketch(P.LeastSquares(), buffer_rows=30)
    for start in range(0, len(X), 30):
        sketch.update(X[start : start + 30], y[start : start + 30])
    assert sketch.summary.folds == 2000
    one, many = karat.coreset(X, y).verify(X, y), sketch.coreset().verify(X, y)
    assert many.loss_error <= 10 * one.loss_error


@pytest.mark.parametrize(
    "problem", [P.LeastSquares(), P.Moments(2), P.Mean()], ids=lambda p: p.describe()
)
def test_streams_that_wander(problem):
    """The mean and the scale move, a constant column wakes up, and two columns are collinear."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((N, 5))
    time = np.arange(N) / N
    X[:, 0] += 1e6 * time**3
    X[:, 1] = np.where(time < 0.5, 3.0, X[:, 1])
    X[:, 2] *= 10 ** (8 * time - 4)
    X[:, 3] = 2 * X[:, 4] + 1
    y = rng.standard_normal(N) if problem.needs_target else None
    core = feed(karat.Sketch(problem, buffer_rows=1000), X, y).coreset()
    proof = core.verify(X, y)
    assert proof.ok, str(proof)
    assert proof.loss_error <= 1e-11


def test_rare_categories_need_the_tree():
    rng = np.random.default_rng(3)
    kinds = rng.choice(30, N, p=np.r_[np.full(10, 0.0997), np.full(20, 0.003 / 20)])
    X = np.column_stack([np.eye(30)[kinds], rng.standard_normal((N, 2))])
    y = rng.standard_normal(N)
    core = feed(karat.Sketch(P.LeastSquares(), buffer_rows=3000), X, y).coreset()
    assert core.verify(X, y).ok


def test_exact_at_any_moment(rows):
    X, y, *_ = rows
    sketch = karat.Sketch(P.LeastSquares(), buffer_rows=1000)
    for start in range(0, 6000, 700):
        sketch.update(X[start : start + 700], y[start : start + 700])
        seen = min(start + 700, N)
        core = sketch.coreset()
        assert core.n_rows == seen
        assert core.verify(X[:seen], y[:seen]).ok


def test_the_batch_may_be_reused(rows):
    X, y, *_ = rows
    batch, target = np.empty((500, 4)), np.empty(500)
    sketch = karat.Sketch(P.LeastSquares())
    for start in range(0, N, 500):
        batch[:], target[:] = X[start : start + 500], y[start : start + 500]
        sketch.update(batch, target)
    assert sketch.coreset().verify(X, y).ok


def test_state_is_bounded(rows):
    X, y, *_ = rows
    sketch = karat.Sketch(P.LeastSquares(), buffer_rows=400)
    most = 0
    for _ in range(5):
        sketch.update(X, y)  # far larger than the buffer
        most = max(most, sketch.buffer.rows)
        assert len(sketch.summary.held) <= 21
    assert most < 400
    assert sketch.n_rows == 5 * N


def test_containers_come_back(rows):
    X, y, *_ = rows
    frame = pd.DataFrame(X, columns=list("abcd"))
    core = feed(
        karat.Sketch(P.LeastSquares(), buffer_rows=3000), frame, pd.Series(y, name="t")
    ).coreset()
    assert list(core.X.columns) == list("abcd")
    assert core.y.name == "t"
    np.testing.assert_array_equal(core.X.to_numpy(), X[core.indices])
    S = sparse.random(4000, 6, density=0.3, format="csr", random_state=0)
    core = feed(karat.Sketch(P.Moments(2), buffer_rows=900), S).coreset()
    assert sparse.issparse(core.X)
    assert core.verify(S).ok


def test_merge_numbers_rows_through_both(rows):
    X, y, w, g = rows
    first = feed(
        karat.Sketch(P.LeastSquares(), buffer_rows=900), X[:5000], y[:5000], w[:5000], g[:5000]
    )
    second = feed(
        karat.Sketch(P.LeastSquares(), buffer_rows=900), X[5000:], y[5000:], w[5000:], g[5000:]
    )
    core = first.merge(second).coreset()
    proof = core.verify(X, y, sample_weight=w, groups=g)
    assert proof.ok
    assert not proof.notes  # the kept rows are the rows at the stored numbers


def test_the_same_source_twice_is_an_error(rows):
    X, y, *_ = rows
    frame = pd.DataFrame(X, columns=list("abcd")).assign(id=np.arange(N))
    make = lambda rows: karat.Sketch(P.LeastSquares(), key="id").update(rows, y[: len(rows)])  # noqa: E731
    first, second = make(frame[:5000]), make(frame[5000:])
    first.merge(second)
    for again in (second, first):
        with pytest.raises(karat.InputError, match="merged twice"):
            first.merge(again)
    with pytest.raises(karat.InputError, match="comes twice"):
        first.merge(make(frame[3000:4000]))  # the same rows, read by another sketch
    with pytest.raises(karat.InputError, match="comes twice"):
        make(frame).update(frame, y)
    core = first.coreset()
    np.testing.assert_array_equal(core.keys, core.indices)
    assert "id" not in core.X.columns


def test_text_keys(rows):
    X, y, *_ = rows
    names = np.array([f"row-{i}" for i in range(N)])
    frame = pd.DataFrame(X, columns=list("abcd")).assign(id=names)
    sketch = karat.Sketch(P.LeastSquares(), key="id")
    for c in chunks(N, 3000):
        sketch.update(frame[c], y[c])
    core = sketch.coreset()
    np.testing.assert_array_equal(core.keys, names[core.indices])
    with pytest.raises(karat.InputError, match="comes twice"):
        sketch.update(frame[2000:9000], y[2000:9000])


@pytest.mark.parametrize("extras", ["plain", "groups"])
def test_a_checkpoint_goes_on_as_if_nothing_had_happened(extras, rows, tmp_path):
    X, y, w, g = rows
    g = g if extras == "groups" else None
    cut = lambda a, part: None if a is None else a[part]  # noqa: E731
    half, rest = slice(0, 6000), slice(6000, N)
    sketch = feed(
        karat.Sketch(P.LeastSquares(), buffer_rows=1000), X[half], y[half], w[half], cut(g, half)
    )
    sketch.save(tmp_path / "s.npz")
    copy = karat.Sketch.load(tmp_path / "s.npz")
    one, two = (feed(s, X[rest], y[rest], w[rest], cut(g, rest)).coreset() for s in (sketch, copy))
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.weights, two.weights)
    assert copy.n_rows == N
    copy.save(tmp_path / "t.npz")
    third = karat.Sketch.load(tmp_path / "t.npz").coreset()
    np.testing.assert_array_equal(third.weights, two.weights)
    assert third.certificate.ok
    with pytest.raises(karat.InputError, match="merged twice"):
        sketch.merge(copy)


@pytest.mark.parametrize("buffer_rows", [100, 1000])
@pytest.mark.parametrize("absorb", ["box", "diagonal"])
def test_a_regulariser_absorbs_the_same_after_a_checkpoint(absorb, buffer_rows, tmp_path):
    """Linear programmes are sensitive to the last bit of the coordinates in which they are
    written.
    """
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 2)) + 100.0
        sketch = karat.Sketch(P.Ridge(0.01, absorb=absorb), buffer_rows=buffer_rows).update(
            X, rng.standard_normal(300)
        )
        sketch.save(tmp_path / "s.npz")
        one, two = (s.coreset() for s in (sketch, karat.Sketch.load(tmp_path / "s.npz")))
        np.testing.assert_array_equal(one.indices, two.indices)
        np.testing.assert_array_equal(one.weights, two.weights)
        np.testing.assert_array_equal(one.absorbed.delta, two.absorbed.delta)
        assert one.certificate.loss_error == two.certificate.loss_error


def test_damaged_and_foreign_files(rows, tmp_path):
    X, y, *_ = rows
    path = tmp_path / "s.npz"
    karat.Sketch(P.LeastSquares()).update(X, y).save(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(karat.InputError, match="damaged"):
        karat.Sketch.load(path)
    karat.coreset(X, y).save(path)
    with pytest.raises(karat.InputError, match="not a checkpoint"):
        karat.Sketch.load(path)
    karat.Sketch(P.Kernel(waves)).update(X).save(path)
    with pytest.raises(karat.InputError, match="user's function"):
        karat.Sketch.load(path)
    assert karat.Sketch.load(path, problem=P.Kernel(waves)).coreset().certificate.ok


def test_refusals_are_sentences_and_change_nothing(rows):
    X, y, w, g = rows
    sketch = feed(karat.Sketch(P.LeastSquares(), buffer_rows=1000), X[:3000], y[:3000])
    bad = X[:10].copy()
    bad[3, 1] = np.nan
    for args, kwargs, words in [
        ((bad, y[:10]), {}, "row 3"),
        ((X[:10, :3], y[:10]), {}, "earlier rows have 4"),
        ((X[:10], y[:9]), {}, "10 rows but y has 9"),
        ((X[:10],), {}, "needs a target"),
        ((X[:10], y[:10]), {"groups": g[:10]}, "groups"),
        ((X[:10], y[:10]), {"sample_weight": -w[:10] - 1}, "negative"),
        ((pd.DataFrame(X[:10], columns=list("abcd")), y[:10]), {}, "same columns"),
    ]:
        with pytest.raises(karat.InputError, match=words):
            sketch.update(*args, **kwargs)
    # rows that weigh nothing still have numbers
    sketch.update(X[3000:3010], y[3000:3010], sample_weight=np.zeros(10))
    sketch.update(X[3010:], y[3010:])
    u = np.ones(N)
    u[3000:3010] = 0
    assert sketch.coreset().verify(X, y, sample_weight=u).ok
    with pytest.raises(karat.InputError, match="no row"):
        karat.Sketch(P.Mean()).coreset()
    with pytest.raises(karat.InputError, match="for the same problem"):
        sketch.merge(karat.Sketch(P.Moments(2)))
    # units are no obstacle
    assert karat.Sketch(P.LeastSquares()).update(X * 1e200, y).coreset().certificate.ok
    with pytest.raises(karat.InputError, match="buffer_rows"):
        karat.Sketch(P.Mean(), buffer_rows=0)


def test_latent_problems_take_two_passes():
    with pytest.raises(karat.NotExactError, match=r"two passes.*karat\.coreset"):
        karat.Sketch(Latent())
