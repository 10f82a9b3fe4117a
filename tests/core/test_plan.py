"""The plan for files and clusters, and what is said where an extra is missing."""

from __future__ import annotations

import importlib
import sys

import pytest

import karat
from karat import problems as P


def test_files_cost_one_pass_and_bounded_memory():
    small, large = (karat.plan(P.LeastSquares(), n, 10, source="files") for n in (10**8, 10**10))
    assert small.rows == large.rows == 78
    assert small.memory == large.memory < 10**9
    assert large.passes == 1
    assert 50 < large.operations / small.operations < 200
    assert large.travels == 0
    assert "pass" in str(large)


def test_what_travels_depends_on_partitions_not_rows():
    plans = [
        karat.plan(P.LeastSquares(), n, 10, source="cluster", partitions=100, workers=10)
        for n in (10**8, 10**12)
    ]
    assert plans[0].travels == plans[1].travels > 0
    more = karat.plan(P.LeastSquares(), 10**8, 10, source="cluster", partitions=200, workers=10)
    assert 1.9 < more.travels / plans[0].travels < 2.1
    assert "travel" in str(more)
    assert plans[1].operations > 1000 * plans[0].operations


def test_the_plan_tells_what_dask_sends():
    import re

    import dask
    import dask.array as da

    with dask.config.set(scheduler="synchronous"):
        X = da.random.default_rng(0).standard_normal((40_000, 10), chunks=(2000, 10))
        core = karat.dask.coreset(
            X, X.sum(axis=1) + da.random.default_rng(1).standard_normal(40_000, chunks=2000)
        )
    sent = int(re.search(r"sent ([\d,]+)", core.certificate.notes[-1])[1].replace(",", ""))
    expected = karat.plan(P.LeastSquares(), 40_000, 10, source="cluster", partitions=20).travels
    assert 0.5 < sent / expected < 1.5


def test_latent_problems_take_two_passes():
    small, large = (karat.plan(P.GaussianMixture(4), n, 8, source="files") for n in (10**8, 10**10))
    assert small.passes == large.passes == karat.plan(P.GaussianMixture(4), 1000, 8).passes == 2
    assert small.rows == large.rows == 20
    assert small.memory == large.memory < 10**9
    assert "Two passes (maps, then tensor)" in large.why
    options = {"source": "cluster", "partitions": 100, "workers": 10}
    plans = [karat.plan(P.MultiView(3), n, 8, **options) for n in (10**8, 10**12)]
    # three matrices of sums from each partition
    assert plans[0].travels == plans[1].travels > 100 * 8 * 3 * 8**2
    assert plans[0].passes == 2
    assert "twice" in plans[0].why
    with pytest.raises(karat.InputError, match="does not take groups"):
        karat.plan(P.GaussianMixture(4), 1000, 8, groups=2)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"source": "tape"}, "source"),
        ({"partitions": 3}, "cluster"),
        ({"source": "cluster", "workers": 0}, "workers"),
    ],
)
def test_refusals(kwargs, words):
    with pytest.raises(karat.InputError, match=words):
        karat.plan(P.LeastSquares(), 100, 3, **kwargs)


@pytest.mark.parametrize(
    ("name", "gone", "extra"),
    [
        ("coreset_files", "pyarrow", "io"),
        ("dask", "dask.delayed", "dask"),
        ("spark", "pyspark", "spark"),
    ],
)
def test_a_missing_extra_is_named(name, gone, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, gone, None)
    for module in [m for m in sys.modules if m.startswith(("karat.io", f"karat.{name}"))]:
        monkeypatch.delitem(sys.modules, module)
    if name in vars(karat):
        monkeypatch.delattr(karat, name)
    importlib.invalidate_caches()
    with pytest.raises(karat.MissingExtraError, match=rf"karat\[{extra}\]"):
        getattr(karat, name)
