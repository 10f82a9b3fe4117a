"""Coresets of parts merge to an exact coreset of the whole; files give back what was saved."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from factory import data
from oracles import PowerJudge, square_error, whiten
from scipy import sparse

import karat
from karat import InputError
from karat.problems import (
    Kernel,
    LeastSquares,
    LpRegression,
    Mean,
    Moments,
    Ridge,
    TensorContraction,
)


def whole(n=1500, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * [1.0, 10.0, 0.1] + [0.0, 5.0, -3.0]
    return X, X @ [1.0, 0.2, -3.0] + rng.standard_normal(n)


def least_squares_error(X, y, core, weights=None, intercept=True):
    table = np.column_stack([X, y])
    white = whiten(table, np.ones(len(y)) if weights is None else weights, intercept)
    return square_error(white, table[core.indices], core.weights)


def test_merge_is_exact_for_the_union():
    X, y = whole()
    first, second = karat.coreset(X[:700], y[:700]), karat.coreset(X[700:], y[700:])
    merged = first.merge(second)
    assert merged.n_rows == 1500
    assert len(merged) <= 15
    assert (merged.weights > 0).all()
    assert np.array_equal(merged.X, X[merged.indices])
    assert np.array_equal(merged.y, y[merged.indices])
    assert (np.diff(merged.indices) > 0).all()
    assert least_squares_error(X, y, merged) <= 1e-12
    assert merged.verify(X, y).ok
    assert set(merged.indices) <= set(first.indices) | set(second.indices + 700)


def test_chain_of_merges_keeps_the_guarantee():
    """Fifty merges one after the other, of very uneven parts."""
    X, y = whole(3000)
    cuts = np.unique(
        np.concatenate([[0, 1, 3, 3000], np.random.default_rng(0).integers(5, 3000, 48)])
    )
    core = None
    for a, b in pairwise(cuts):
        part = karat.coreset(X[a:b], y[a:b])
        core = part if core is None else core.merge(part)
    assert core.n_rows == 3000
    assert len(core) <= 15
    assert least_squares_error(X, y, core) <= 1e-12
    assert core.weights.sum() == pytest.approx(3000, rel=1e-12)
    assert np.array_equal(core.X, X[core.indices])


def test_merge_is_associative_in_its_loss():
    X, y = whole()
    a, b, c = (karat.coreset(X[i::3], y[i::3]) for i in range(3))
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    query = (np.array([1.0, 0.3, -2.0]), 0.5)
    full = ((X @ query[0] + 0.5 - y) ** 2).sum()
    assert left.loss(query) == pytest.approx(full, rel=1e-12)
    assert right.loss(query) == pytest.approx(full, rel=1e-12)
    assert left.n_rows == right.n_rows == 1500


@pytest.mark.parametrize(
    "problem",
    [
        Moments(3),
        TensorContraction(3),
        LpRegression(4),
        LpRegression(6, fit_intercept=False),
        Ridge(2.0),
        Mean(),
    ],
)
def test_merge_of_other_problems(problem):
    X, y = whole(900)
    y = y if problem.needs_target else None
    part = lambda s: None if y is None else y[s]  # noqa: E731
    first, second = (
        karat.coreset(X[s], part(s), problem) for s in (slice(0, 500), slice(500, 900))
    )
    merged = first.merge(second)
    assert merged.verify(X, y).ok
    assert merged.certificate.ok
    table = X if y is None else np.column_stack([X, y])
    assert np.array_equal(merged.X, X[merged.indices])
    if not isinstance(problem, Mean):
        degree = getattr(problem, "p", None) or getattr(problem, "degree", 2)
        affine = getattr(problem, "fit_intercept", isinstance(problem, Moments))
        white = whiten(table, np.ones(900), affine)
        judge = PowerJudge(white, table, np.ones(900), degree, count=600)
        assert judge.error(table[merged.indices], merged.weights) <= 1e-10


@pytest.mark.parametrize(
    "tag",
    [
        "single_one",
        "rank_deficient",
        "zero_weights",
        "uneven_weights",
        "huge_offset",
        "sparse_rows",
    ],
)
def test_merge_of_unpleasant_parts(tag):
    made = data(tag)
    n = len(made.y)
    cut = n // 3
    u = made.weights
    parts = [
        karat.coreset(made.X[s], made.y[s], sample_weight=None if u is None else u[s])
        for s in (slice(0, cut), slice(cut, n))
    ]
    merged = parts[0].merge(parts[1])
    assert least_squares_error(made.dense, made.y, merged, made.mass) <= 1e-12
    assert sparse.issparse(merged.X) == sparse.issparse(made.X)


def test_merge_with_itself_doubles():
    X, y = whole(200)
    core = karat.coreset(X, y)
    twice = core.merge(core)
    assert twice.n_rows == 400
    assert twice.weights.sum() == pytest.approx(400, rel=1e-12)
    assert twice.loss(np.ones(4)) == pytest.approx(2 * core.loss(np.ones(4)), rel=1e-12)
    assert len(twice) <= 15


def test_merge_with_groups():
    X, y = whole(1000)
    groups = np.arange(1000) % 3
    first = karat.coreset(X[:600], y[:600], groups=groups[:600])
    second = karat.coreset(X[600:], y[600:], groups=groups[600:])
    merged = first.merge(second)
    assert np.array_equal(merged.groups, groups[merged.indices])
    for label in range(3):
        here = groups == label
        table = np.column_stack([X, y])
        white = whiten(table[here], np.ones(here.sum()), True)
        kept = merged.groups == label
        assert square_error(white, table[merged.indices[kept]], merged.weights[kept]) <= 1e-12


def test_merge_with_groups_of_one_part_only():
    X, y = whole(400)
    groups = np.where(np.arange(400) < 200, "a", "b")
    merged = karat.coreset(X[:200], y[:200], groups=groups[:200]).merge(
        karat.coreset(X[200:], y[200:], groups=groups[200:])
    )
    assert set(merged.groups) == {"a", "b"}
    assert merged.verify(X, y, groups=groups).ok


def test_merge_refusals():
    X, y = whole(300)
    core = karat.coreset(X, y)
    with pytest.raises(InputError, match="for the same problem"):
        core.merge(karat.coreset(X, y, Ridge(1.0)))
    with pytest.raises(InputError, match="groups"):
        core.merge(karat.coreset(X, y, groups=np.arange(300) % 2))
    with pytest.raises(InputError, match="Coreset"):
        core.merge(X)
    with pytest.raises(InputError, match="DataFrame"):
        core.merge(karat.coreset(pd.DataFrame(X), y))
    with pytest.raises((InputError, ValueError), match=r"columns"):
        core.merge(karat.coreset(X[:, :2], y))


def test_merge_of_frames():
    X, y = whole(600)
    frame, target = pd.DataFrame(X, columns=["a", "b", "c"]), pd.Series(y, name="t")
    merged = karat.coreset(frame[:300], target[:300]).merge(
        karat.coreset(frame[300:], target[300:])
    )
    assert isinstance(merged.X, pd.DataFrame)
    assert list(merged.X.columns) == ["a", "b", "c"]
    assert np.array_equal(merged.X.to_numpy(), X[merged.indices])
    assert least_squares_error(X, y, merged) <= 1e-12


def test_merge_of_frames_with_columns_in_another_order():
    """Columns are matched by name; a merge of different columns is refused."""
    X, y = whole(600)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    first, second = (
        karat.coreset(frame[:300], y[:300]),
        karat.coreset(frame[300:][["c", "a", "b"]], y[300:]),
    )
    merged = first.merge(second)
    assert list(merged.X.columns) == ["a", "b", "c"]
    assert least_squares_error(X, y, merged) <= 1e-12
    with pytest.raises(InputError, match="column"):
        first.merge(karat.coreset(frame[300:].rename(columns={"c": "z"}), y[300:]))


def roundtrip(core, tmp_path, **options):
    core.save(tmp_path / "core.npz")
    back = karat.load(tmp_path / "core.npz", **options)
    assert np.array_equal(back.indices, core.indices)
    assert back.indices.dtype == np.int64
    assert np.array_equal(back.weights, core.weights)
    assert back.n_rows == core.n_rows
    assert str(back.certificate) == str(core.certificate)
    assert back.certificate == core.certificate
    return back


@pytest.mark.parametrize(
    "problem",
    [
        LeastSquares(),
        Ridge(0.5),
        Ridge(2.0, absorb="diagonal"),
        Ridge(2.0, absorb="box", fit_intercept=False),
        LpRegression(4, 1.0),
        LpRegression(4, 1.0, absorb="box"),
        Moments(3),
        TensorContraction(3, total_weight=False),
        Mean(),
    ],
)
def test_round_trip(problem, tmp_path):
    X, y = whole(500)
    target = y if problem.needs_target else None
    core = karat.coreset(X, target, problem)
    back = roundtrip(core, tmp_path)
    assert back.problem == problem
    assert np.array_equal(back.X, core.X)
    assert (back.y is None) == (core.y is None)
    if core.y is not None:
        assert np.array_equal(back.y, core.y)
        assert back.y.shape == core.y.shape
    if core.correction is not None:
        assert all(
            np.array_equal(a, b) for a, b in zip(back.correction, core.correction, strict=True)
        )
    if problem.needs_target:
        query = np.array([1.0, 0.2, 3.0])
        assert back.loss(query) == core.loss(query)
        assert np.array_equal(problem.solve(back).coef, problem.solve(core).coef)
    assert back.verify(X, target).ok
    part = karat.coreset(X, target, problem)
    assert back.merge(part).n_rows == 1000


def test_round_trip_of_a_frame(tmp_path):
    X, y = whole(500)
    frame = pd.DataFrame(X, columns=["a", "b", "ä c"], index=np.arange(500) * 2)
    target = pd.Series(y, name="price", index=frame.index)
    core = karat.coreset(frame, target)
    back = roundtrip(core, tmp_path)
    assert list(back.X.columns) == ["a", "b", "ä c"]
    assert back.y.name == "price"
    assert np.array_equal(back.X.to_numpy(), core.X.to_numpy())
    assert np.array_equal(back.y.to_numpy(), core.y.to_numpy())
    assert back.verify(frame, target).ok
    assert isinstance(back.merge(karat.coreset(frame, target)).X, pd.DataFrame)


def test_round_trip_of_sparse_rows(tmp_path):
    made = data("sparse_rows")
    back = roundtrip(karat.coreset(made.X, made.y), tmp_path)
    assert sparse.issparse(back.X)
    assert np.array_equal(back.X.toarray(), made.X.toarray()[back.indices])


@pytest.mark.parametrize("labels", ["numbers", "text", "objects"])
def test_round_trip_of_groups(labels, tmp_path):
    X, y = whole(400)
    groups = np.arange(400) % 2
    groups = {
        "numbers": groups,
        "text": np.where(groups, "yes", "no"),
        "objects": np.where(groups, "yes", "no").astype(object),
    }
    core = karat.coreset(X, y, groups=groups[labels])
    back = roundtrip(core, tmp_path)
    assert list(back.groups) == list(core.groups)
    assert back.verify(X, y, groups=groups[labels]).ok


def test_round_trip_of_several_targets(tmp_path):
    X, y = whole(400)
    Y = np.column_stack([y, -y + X[:, 0]])
    back = roundtrip(karat.coreset(X, Y), tmp_path)
    assert back.y.shape[1] == 2


def test_round_trip_keeps_integers_verbatim(tmp_path):
    made = data("integers")
    core = karat.coreset(made.X, made.y)
    back = roundtrip(core, tmp_path)
    assert np.array_equal(back.X, made.X[back.indices])
    assert back.X.dtype == made.X.dtype


def test_a_kernel_needs_its_function_again(tmp_path):
    X, _ = whole(400)
    problem = Kernel(np.sin, lambda q: q)
    core = karat.coreset(X, problem=problem)
    core.save(tmp_path / "core.npz")
    with pytest.raises(InputError, match="problem="):
        karat.load(tmp_path / "core.npz")
    back = karat.load(tmp_path / "core.npz", problem=problem)
    assert (
        back.loss(np.ones(3)) == core.loss(np.ones(3)) == pytest.approx(np.sin(X).sum(), rel=1e-9)
    )
    with pytest.raises(InputError, match="Kernel"):
        karat.load(tmp_path / "core.npz", problem=LeastSquares())


def rewrite(source, path, change):
    """A copy of a file with its header changed."""
    with np.load(source) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    change(header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


@pytest.fixture
def saved(tmp_path):
    X, y = whole(300)
    karat.coreset(X, y).save(tmp_path / "core.npz")
    return tmp_path / "core.npz"


def test_newer_format(saved, tmp_path):
    rewrite(saved, tmp_path / "new.npz", lambda h: h.update(format_version=99))
    with pytest.raises(InputError, match=r"99.*[Uu]pdate"):
        karat.load(tmp_path / "new.npz")


@pytest.mark.parametrize(
    "how", ["truncated", "garbage", "empty", "not_zip", "no_header", "bad_json", "missing_array"]
)
def test_damaged_files(saved, tmp_path, how):
    path = tmp_path / "bad.npz"
    content = saved.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "garbage":
        path.write_bytes(content[:200] + bytes(300) + content[500:])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "not_zip":
        path.write_bytes(b"hello world" * 50)
    elif how == "no_header":
        np.savez(path, X=np.ones(3))
    elif how == "bad_json":
        np.savez(path, header=np.frombuffer(b"{nope", dtype=np.uint8))
    else:
        with np.load(saved) as file:
            np.savez(path, **{k: v for k, v in file.items() if k != "weights"})
    with pytest.raises(InputError, match=r"bad\.npz"):
        karat.load(path)


def test_missing_file_and_wrong_suffix(saved, tmp_path):
    with pytest.raises(InputError, match="no file"):
        karat.load(tmp_path / "nothing.npz")
    core = karat.load(saved)
    with pytest.raises(InputError, match="npz"):
        core.save(tmp_path / "core.txt")
    assert not (tmp_path / "core.txt").exists()


def test_nothing_is_pickled(saved):
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist():
            assert b"O'" not in archive.read(name)[:128], f"{name} holds objects"
    with np.load(saved, allow_pickle=False) as file:
        assert all(file[name].dtype.kind != "O" for name in file.files)


def test_a_failed_write_leaves_the_old_file(saved, tmp_path, monkeypatch):
    before = saved.read_bytes()
    core = karat.load(saved)

    def fail(*args, **options):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", fail)
    monkeypatch.setattr(np, "savez", fail)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        replace(core, weights=core.weights * 2).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["core.npz"]


def test_save_in_the_current_folder(saved, tmp_path, monkeypatch):
    core = karat.load(saved)
    monkeypatch.chdir(tmp_path)
    core.save("here.npz")
    assert len(karat.load("here.npz")) == len(core)


NAMES = {
    "tuples": pd.MultiIndex.from_tuples([("p", "q"), ("p", "r"), ("s", "t")]),
    "tuples and others": [("p", "q"), "c", 3],
    "a number and its text": [1, "1", 2.5],
    "numbers": np.array([5, 6, 7]),
}


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_names_of_columns_in_files(names, ending, tmp_path):
    """Names that are not text, of coresets and of sketches that go on after they were loaded."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((500, 3)), columns=NAMES[names])
    y = frame.sum(axis=1).to_numpy()
    core = karat.coreset(frame, y)
    core.save(tmp_path / f"core.{ending}")
    pd.testing.assert_frame_equal(
        karat.load(tmp_path / f"core.{ending}").X, core.X, check_column_type=False
    )
    sketch = karat.Sketch(karat.problems.LeastSquares()).update(frame[:250], y[:250])
    sketch.save(tmp_path / "sketch.npz")
    later = karat.Sketch.load(tmp_path / "sketch.npz").update(frame[250:], y[250:]).coreset()
    assert list(later.X.columns) == list(frame.columns)


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_a_target_without_a_name_in_files(ending, tmp_path):
    X, y = whole()
    frame = pd.DataFrame(X, columns=list("abc"))
    core = karat.coreset(frame, pd.Series(y))
    core.save(tmp_path / f"core.{ending}")
    loaded = karat.load(tmp_path / f"core.{ending}")
    assert loaded.y.name is None
    assert (
        list(loaded.to_pandas().columns)
        == list(core.to_pandas().columns)
        == ["a", "b", "c", "y", "weight"]
    )
    assert karat.Sketch(LeastSquares()).update(frame, pd.Series(y)).coreset().y.name is None
