"""Labels of clusters: integers of any width are added up as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("statsmodels")
pytest.importorskip("formulaic")

from karat.inference import ols
from karat.inference.cluster_sums import ClusterSums

pytestmark = pytest.mark.filterwarnings("ignore:There are .* clusters:UserWarning")

KINDS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def frame_of(labels):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(len(labels)), "c": labels})
    return frame.assign(
        y=frame["x"] + rng.standard_normal(len(labels)) + np.argsort(np.argsort(labels)) % 3
    )


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_of_any_width(kind):
    limits = np.iinfo(kind)
    spread = [limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max]
    for values in (spread, spread[:2], spread[-2:]):
        labels = np.repeat(np.array(values, dtype=kind), 40)
        frame = frame_of(labels)
        texts = ols(
            "y ~ x", frame.assign(c=frame["c"].astype(str)), cov_type="cluster", cluster="c"
        )
        np.testing.assert_allclose(
            ols("y ~ x", frame, cov_type="cluster", cluster="c").bse, texts.bse, rtol=1e-9
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", [1, 7])
def test_sums_of_sorted_runs(kind, parts):
    limits = np.iinfo(kind)
    low, high = max(limits.min, -300), min(limits.max, 300)
    labels = np.sort(np.random.default_rng(0).integers(low, high, 5000)).astype(kind)
    values = np.random.default_rng(1).standard_normal((2, 5000))
    sums = ClusterSums(2)
    for some in np.array_split(np.arange(5000), parts):
        one = ClusterSums(2)
        one.add(labels[some], values[:, some])
        sums.merge(one)
    expected = {int(label): values[:, labels == label].sum(axis=1) for label in np.unique(labels)}
    assert sums.labels() == sorted(expected)
    np.testing.assert_allclose(sums.sums[:, sums.seen].T, list(expected.values()), atol=1e-9)


def test_tables_of_numbers_that_no_array_holds():
    first, second = ClusterSums(1), ClusterSums(1)
    second.add(np.array([-1, 2**62]), np.ones((1, 2)))
    second.add(np.array([2**63 + 1, 2**63 + 2], dtype=np.uint64), np.ones((1, 2)))
    first.merge(second)
    assert first.labels() == [-1, 2**62, 2**63 + 1, 2**63 + 2]
