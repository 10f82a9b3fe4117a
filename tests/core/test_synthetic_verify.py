"""verify accepts synthetic rows on their data, and refuses them where a weight, a value or the data
is another.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factory import data

import karat
from karat import InputError
from karat.problems import Moments

TAGS = [
    "gaussian",
    "one_hot_binary",
    "near_collinear",
    "huge_offset",
    "uneven_weights",
    "duplicated_rows",
    "five_rows",
]


def made(*args, **kwargs):
    return karat.coreset(*args, rows="synthetic", **kwargs)


def spoilt(core, **changes):
    """The coreset with a changed array."""
    found = {name: np.array(getattr(core, name)) for name in changes}
    for name, (place, change) in changes.items():
        found[name][place] = change(found[name][place])
    return replace(core, **found)


@pytest.mark.parametrize("tag", TAGS)
def test_a_weight_or_a_value_that_is_off(tag):
    given = data(tag)
    core = made(given.X, given.y, sample_weight=given.weights)

    def verify(one):
        return one.verify(given.X, given.y, sample_weight=given.weights)

    assert verify(core).ok
    heavy = int(np.argmax(core.weights))
    assert not verify(spoilt(core, weights=(heavy, lambda w: w * (1 + 1e-6)))).ok
    assert not verify(replace(core, weights=core.weights * (1 + 1e-9))).ok
    spread = given.dense.std(axis=0)
    column = int(np.argmax(spread))
    assert not verify(spoilt(core, X=((heavy, column), lambda x: x + 1e-6 * spread[column]))).ok
    if given.y.std():
        assert not verify(spoilt(core, y=(heavy, lambda v: v + 1e-6 * given.y.std()))).ok


def test_other_data():
    given = data("gaussian")
    core = made(given.X, given.y)
    other = np.array(given.X)
    other[100, 1] += 1e-4
    assert not core.verify(other, given.y).ok
    shorter = core.verify(given.X[:-1], given.y[:-1])
    assert not shorter.ok
    assert "made of 900 rows, the data has 899" in str(shorter)
    assert core.verify(given.X[::-1], given.y[::-1]).ok  # moments do not know an order
    with pytest.raises(InputError, match="columns"):
        core.verify(given.X[:, :2], given.y)
    with pytest.raises(InputError, match="no groups"):
        core.verify(given.X, given.y, groups=np.arange(900) % 2)


def test_wild_rows():
    given = data("gaussian")
    X = np.array(given.X)
    X[[5, 70]] *= 1e12
    core = made(X, given.y)
    wild = np.flatnonzero(core.verbatim)
    assert core.verify(X, given.y).ok
    bit = spoilt(core, X=((wild[0], 1), lambda x: np.nextafter(x, np.inf)))
    seen = bit.verify(X, given.y)
    assert not seen.ok
    assert "kept as they are, are not rows of this data" in str(seen)
    assert not spoilt(core, weights=(wild[0], lambda w: np.nextafter(w, 2))).verify(X, given.y).ok
    twice = replace(
        core,
        X=core.X[[*range(len(core)), wild[0]]],
        y=core.y[[*range(len(core)), wild[0]]],
        weights=np.append(core.weights, 1.0),
        strata=np.append(core.strata, 2),
        verbatim=np.append(core.verbatim, True),
    )
    assert not twice.verify(X, given.y).ok
    # a wrong weight of an ordinary row does not hide behind a wild one
    assert not spoilt(core, weights=(0, lambda w: w * (1 + 1e-6))).verify(X, given.y).ok
    without = replace(
        core, strata=np.zeros(len(core), dtype=np.intp), verbatim=np.zeros(len(core), dtype=bool)
    )
    assert without.verify(X, given.y).ok  # all rows together: a weaker statement, but true


def test_a_level_of_wild_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2))
    X[::20] *= 1e7
    core = made(X, problem=Moments(2))
    assert core.verify(X).ok
    ordinary = int(np.flatnonzero(core.strata == 0)[0])
    assert not spoilt(core, weights=(ordinary, lambda w: w * (1 + 1e-6))).verify(X).ok


def test_groups():
    given = data("gaussian")
    labels = np.arange(900) % 3
    core = made(given.X, given.y, groups=labels)
    assert core.verify(given.X, given.y, groups=labels).ok
    assert not core.verify(given.X, given.y, groups=(labels + 1) % 3).ok
    assert not core.verify(given.X, given.y, groups=np.where(labels == 2, 7, labels)).ok
    assert (
        not spoilt(core, weights=(len(core) - 1, lambda w: w * (1 + 1e-6)))
        .verify(given.X, given.y, groups=labels)
        .ok
    )


def test_of_a_merge_and_of_a_stream_with_wild_rows_of_their_own():
    """A row that was wild among the first rows, and is not among all, still is a row of the
    data.
    """
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1200, 2))
    X[3] *= 1e6
    X[600:] *= 1e5
    y = rng.standard_normal(1200)
    merged = made(X[:600], y[:600]).merge(made(X[600:], y[600:]))
    sketch = karat.Sketch(rows="synthetic", buffer_rows=300)
    for start in range(0, 1200, 200):
        sketch.update(X[start : start + 200], y[start : start + 200])
    for core in (merged, sketch.coreset()):
        assert core.certificate.verbatim
        assert core.verify(X, y).ok
        assert (
            not spoilt(core, weights=(int(np.argmax(core.weights)), lambda w: w * (1 + 1e-6)))
            .verify(X, y)
            .ok
        )


def test_a_wide_table():
    rng = np.random.default_rng(2)
    X = np.hstack([np.eye(200)[rng.integers(0, 200, 3000)], rng.standard_normal((3000, 100))])
    core = made(X, problem=Moments(2))
    assert core.verify(X).ok
    other = np.array(X)
    other[17, 250] += 1e-3
    assert not core.verify(other).ok
    assert not spoilt(core, X=((4, 209), lambda x: x + 1e-6)).verify(X).ok
