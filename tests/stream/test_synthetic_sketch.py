"""Sketches of synthetic rows hold sums: exact in any order of batches, the same bits after a
checkpoint, no row in it.
"""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from factory import data
from made_rows import check, worst_ratio

import karat
from karat import InputError, NotExactError
from karat.problems import LeastSquares, LpRegression, Moments

TAGS = [
    "gaussian",
    "skewed",
    "near_collinear",
    "huge_offset",
    "wide_scales",
    "one_hot_binary",
    "uneven_weights",
    "sorted_rows",
    "constant_column",
    "duplicated_rows",
    "sparse_rows",
    "integers",
    "linear_target",
    "zero_weights",
]


def sketched(
    X, y=None, weights=None, groups=None, *, step=97, buffer_rows=200, problem=None, **options
):
    sketch = karat.Sketch(problem, rows="synthetic", buffer_rows=buffer_rows, **options)
    for start in range(0, X.shape[0], step):
        part = slice(start, start + step)
        own = {"sample_weight": weights, "groups": groups}
        own = {name: values[part] for name, values in own.items() if values is not None}
        sketch.update(X[part], None if y is None else y[part], **own)
    return sketch


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("buffer_rows", [60, 10**6])
def test_the_claim_holds(tag, buffer_rows):
    given = data(tag)
    core = sketched(given.X, given.y, given.weights, buffer_rows=buffer_rows).coreset()
    check(core, given.X, given.y, given.weights)
    assert core.verify(given.X, given.y, sample_weight=given.weights).ok


@pytest.mark.parametrize("step", [1, 7, 400])
def test_any_batches(step):
    given = data("heavy_tails")
    check(
        sketched(given.X[:300], given.y[:300], step=step, buffer_rows=50).coreset(),
        given.X[:300],
        given.y[:300],
    )


def test_any_order():
    given = data("many_skewed")
    rng = np.random.default_rng(0)
    for _ in range(3):
        order = rng.permutation(len(given.y))
        core = sketched(given.X[order], given.y[order], step=3000, buffer_rows=2500).coreset()
        check(core, given.X, given.y)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 8, 9])
def test_few_rows(count):
    given = data("gaussian")
    core = sketched(given.X[:count], given.y[:count], step=2, buffer_rows=2).coreset()
    check(core, given.X[:count], given.y[:count])


def test_a_coreset_on_the_way_changes_nothing():
    given = data("gaussian")
    plain, asked = (karat.Sketch(rows="synthetic", buffer_rows=100) for _ in range(2))
    for start in range(0, 900, 100):
        part = slice(start, start + 100)
        plain.update(given.X[part], given.y[part])
        asked.update(given.X[part], given.y[part])
        core = asked.coreset()
        assert worst_ratio(core, given.X[: start + 100], given.y[: start + 100]) <= 1
    assert np.array_equal(plain.coreset().X, core.X)
    assert np.array_equal(plain.coreset().weights, core.weights)


@pytest.mark.parametrize("kind", ["scale", "mean", "jump", "late", "twin"])
def test_drift(kind):
    rng = np.random.default_rng(1)
    X, t = rng.standard_normal((3000, 3)), np.linspace(0, 1, 3000)[:, None]
    if kind == "scale":
        X *= 10.0 ** (5 * t)
    elif kind == "mean":
        X += 10.0 ** (6 * t)
    elif kind == "jump":
        X[1500:] = 1e-3 * X[1500:] + 1e4
    elif kind == "late":  # a column that is constant at first
        X[:2000, 1] = 5.0
    else:  # columns that are equal at first
        X[:2000, 1] = X[:2000, 0]
    y = rng.standard_normal(3000)
    core = sketched(X, y, step=150, buffer_rows=300).coreset()
    assert worst_ratio(core, X, y) <= 1
    assert core.verify(X, y).ok


def test_wild_rows_on_the_way():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((2000, 2)), rng.standard_normal(2000)
    X[[100, 900, 1700]] *= 1e11
    core = sketched(X, y).coreset()
    assert core.certificate.verbatim == 3
    check(core, X, y)
    with pytest.raises(InputError, match="3 rows of the data, far from all others"):
        sketched(X, y, verbatim="error").coreset()


def test_many_wild_rows():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4000, 2))
    X[::25] *= 1e8
    core = sketched(X, problem=Moments(2), step=500, buffer_rows=500).coreset()
    assert worst_ratio(core, X) <= 1
    assert core.verify(X).ok
    assert core.certificate.levels == 0


def test_groups_with_weights():
    given = data("uneven_weights")
    labels = np.array(["a", "b", "c"])[np.arange(800) ** 2 % 3]
    core = sketched(given.X, given.y, given.weights, labels).coreset()
    check(core, given.X, given.y, given.weights, labels)
    assert core.verify(given.X, given.y, sample_weight=given.weights, groups=labels).ok


@pytest.mark.parametrize("tag", ["gaussian", "huge_offset", "heavy_tails"])
@pytest.mark.parametrize("after", [50, 333, 800])
def test_the_same_bits_after_a_checkpoint(tag, after, tmp_path):
    given = data(tag)
    halves = []
    for saved in (False, True):
        sketch = karat.Sketch(rows="synthetic", buffer_rows=100, verbatim="keep")
        sketch.update(given.X[:after], given.y[:after])
        sketch.fold()
        if saved:
            sketch.save(tmp_path / "s.npz")
            sketch = karat.Sketch.load(tmp_path / "s.npz")
        sketch.update(given.X[after:], given.y[after:])
        halves.append(sketch.coreset())
    for name in ("X", "y", "weights", "strata"):
        assert np.array_equal(getattr(halves[0], name), getattr(halves[1], name))
    assert halves[0].certificate.loss_error == halves[1].certificate.loss_error
    assert halves[0].certificate.rounding == halves[1].certificate.rounding


def test_a_checkpoint_of_groups_wild_rows_and_few(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((1500, 3))
    X[[7, 700]] *= 1e11
    X[::9, 0] *= 1e7
    labels = np.repeat([1, 2, 3], [5, 95, 1400])
    sketch = sketched(X, problem=Moments(2), groups=labels, buffer_rows=70)
    sketch.save(tmp_path / "s.npz")
    again = karat.Sketch.load(tmp_path / "s.npz")
    for one, two in zip(sketch.coreset().arrays(), again.coreset().arrays(), strict=True):
        assert one is two is None or np.array_equal(one, two)
    assert again.rows == "synthetic"
    assert repr(again) == repr(sketch)


def bytes_of(path):
    with np.load(path) as arrays:
        return b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in arrays.files)


@pytest.mark.parametrize("buffer_rows", [7, 40, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_row_of_the_data_leaves(buffer_rows, weighted, tmp_path):
    """Neither whole rows nor single numbers of them, in a checkpoint, a pickle, or a copy."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((300, 4)) + 10, rng.standard_normal(300) + 3
    u = rng.uniform(0.5, 2.0, 300)
    u[17] = 1e6  # most of the weight
    sketch = sketched(X, y, u if weighted else None, step=33, buffer_rows=buffer_rows)
    sketch.save(tmp_path / "s.npz")
    core = sketch.coreset()
    core.save(tmp_path / "c.npz")
    left = sketched(X, y, u if weighted else None, step=33, buffer_rows=buffer_rows)
    found = {
        "checkpoint": bytes_of(tmp_path / "s.npz"),
        "coreset": bytes_of(tmp_path / "c.npz"),
        "pickle": pickle.dumps(left),
        "copy": pickle.dumps(deepcopy(left)),
    }
    for name, blob in found.items():
        seen = [value for value in np.column_stack([X, y]).ravel() if value.tobytes() in blob]
        assert not seen, (name, seen[:3])
    assert core.certificate.ok


def test_keys_do_not_leave_either(tmp_path):
    given = data("gaussian")
    names = np.array([f"person-{i:04}" for i in range(900)])
    frame = pd.DataFrame(given.X, columns=list("abc")).assign(id=names)
    sketch = karat.Sketch(key="id", rows="synthetic", buffer_rows=200)
    sketch.update(frame[:500], given.y[:500])
    sketch.save(tmp_path / "s.npz")
    for blob in (
        bytes_of(tmp_path / "s.npz"),
        pickle.dumps(sketch),
        (tmp_path / "s.npz").read_bytes(),
    ):
        assert b"person-" not in blob
        assert "person-".encode("utf-32-le") not in blob
    again = karat.Sketch.load(tmp_path / "s.npz")
    with pytest.raises(InputError, match="comes twice"):
        again.update(frame[400:], given.y[400:])
    again.update(frame[500:], given.y[500:])
    assert again.coreset().keys is None


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
def test_sketches_merged_in_any_order(order):
    given = data("skewed")
    X, y = np.array(given.X), given.y
    X[450] *= 1e11
    cuts = [slice(0, 10), slice(10, 300), slice(300, 600), slice(600, 900)]
    parts = [sketched(X[cut], y[cut], buffer_rows=80) for cut in cuts]
    merged = parts[order[0]].merge(*(parts[i] for i in order[1:]))
    core = merged.coreset()
    check(core, X, y)
    assert core.certificate.verbatim == 1
    assert core.verify(X, y).ok


def test_sketches_with_groups_that_only_one_has():
    given = data("gaussian")
    labels = np.repeat(["a", "b", "c"], 300)
    first = sketched(given.X[:450], given.y[:450], groups=labels[:450])
    second = sketched(given.X[450:], given.y[450:], groups=labels[450:])
    core = first.merge(second).coreset()
    check(core, given.X, given.y, groups=labels)


def test_merges_that_cannot_be():
    given = data("gaussian")
    made = sketched(given.X, given.y)
    with pytest.raises(InputError, match="synthetic"):
        made.merge(karat.Sketch().update(given.X, given.y))
    with pytest.raises(InputError, match="for the same problem"):
        made.merge(karat.Sketch(Moments(2), rows="synthetic").update(given.X))
    with pytest.raises(InputError, match="squared losses only"):
        karat.Sketch(LpRegression(4), rows="synthetic")
    with pytest.raises(InputError, match="verbatim"):
        karat.Sketch(verbatim="error")


def test_nothing_changes_when_a_batch_is_refused():
    given = data("gaussian")
    sketch = sketched(given.X[:500], given.y[:500], buffer_rows=100)
    bad = np.array(given.X[500:])
    bad[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        sketch.update(bad, given.y[500:])
    with pytest.raises(InputError, match="columns"):
        sketch.update(given.X[500:, :2], given.y[500:])
    sketch.update(given.X[500:], given.y[500:])
    check(sketch.coreset(), given.X, given.y)


def test_an_empty_sketch():
    with pytest.raises(InputError, match="seen no row"):
        karat.Sketch(rows="synthetic").coreset()


def test_single_rows_are_said_or_refused():
    given = data("gaussian")
    sketch = karat.Sketch(LeastSquares(), rows="synthetic", verbatim="error").update(
        given.X[:1], given.y[:1]
    )
    with pytest.raises(InputError, match="rows themselves"):
        sketch.coreset()
    sketch.update(given.X[1:], given.y[1:])
    assert sketch.coreset().certificate.verbatim == 0


def test_long_integers():
    rng = np.random.default_rng(6)
    X = np.column_stack(
        [1_700_000_000_000_000_000 + rng.integers(0, 10**14, 900), rng.integers(0, 9, 900)]
    )
    y = rng.standard_normal(900)
    core = sketched(X, y).coreset()
    assert worst_ratio(core, X, y) <= 1
    assert core.verify(X, y).ok
    narrow = np.column_stack([1_700_000_000_000_000_000 + rng.integers(0, 1000, 900), X[:, 1]])
    with pytest.raises(NotExactError):
        sketched(narrow, y, buffer_rows=20).coreset()


@pytest.mark.parametrize("tiny", [1e-300, 1e-200, 1e-160, 1e200])
@pytest.mark.parametrize("merged", [False, True])
def test_a_column_that_is_tiny_or_huge_in_early_rows_only(tiny, merged):
    """Coordinates fitted to early rows are in units of 1e-300, in which squares of later ones leave
    the doubles.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    X[:1700, 1] *= tiny
    y = X[:, 0] + rng.standard_normal(2000)
    sketches = [
        karat.Sketch(karat.problems.LeastSquares(), rows="synthetic", buffer_rows=200)
        for _ in range(2)
    ]
    for start in range(0, 2000, 100):
        some = slice(start, start + 100)
        sketches[merged and start >= 1700].update(X[some], y[some])
    core = (sketches[0].merge(sketches[1]) if merged else sketches[0]).coreset()
    assert core.certificate.ok
    assert core.verify(X, y).ok
