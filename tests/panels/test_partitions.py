"""Panels in partitions of Dask and Spark: the table of the same rows in memory, from messages that
are merged in a tree, and an error where the rows change between passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from panels.test_clusters import rows

import karat
from karat.core.plan import FAN

LIBRARIES = ["dask", "spark"]
LESS_SPARK = ["dask", pytest.param("spark", marks=pytest.mark.nightly)]  # it takes seconds to start
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*singletons:UserWarning"),
    pytest.mark.filterwarnings(
        "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
    ),
]
KINDS = ["cluster", "HC1", "nonrobust"]


@pytest.fixture
def partitioned(request) -> Callable[..., Any]:
    """Makes a frame of Dask or Spark, whose partitions go through a function in every pass."""

    def dask(frame: pd.DataFrame, parts: int, change: Any = None) -> Any:
        whole = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=parts)
        return whole if change is None else whole.map_partitions(change, meta=whole._meta)

    def spark(frame: pd.DataFrame, parts: int, change: Any = None) -> Any:
        session = request.getfixturevalue("spark")
        whole = session.createDataFrame(frame).repartition(parts)
        if change is None:
            return whole
        return whole.mapInPandas(lambda batches: map(change, batches), whole.schema)

    return {"dask": dask, "spark": spark}[request.param]


def check_equal(formula: str, frame: pd.DataFrame, parts: Any, **options: Any) -> None:
    here = karat.ols(formula, frame, **options)
    there = karat.ols(formula, parts, **options)
    assert np.abs((here.params - there.params) / here.bse).max() < 1e-12
    assert (here.nobs, here.singletons, here.df_k) == (there.nobs, there.singletons, there.df_k)
    for kind in options["cov_type"]:
        ratio = here.with_covariance(kind).bse / there.with_covariance(kind).bse
        assert np.abs(ratio - 1).max() < 1e-11
    for name, effects in here.effects().items():
        again = there.effects()[name]
        assert effects.index.equals(again.index)
        assert np.abs(effects["effect"] - again["effect"]).max() < 1e-10


@pytest.mark.parametrize("partitioned", LIBRARIES, indirect=True)
@pytest.mark.parametrize("weight", [pytest.param(None, marks=pytest.mark.nightly), "w"])
def test_the_same_as_in_memory(partitioned, weight):
    frame = rows(True).assign(firm=lambda rows: "f" + rows["firm"].astype(str))
    options = {"cov_type": KINDS, "cluster": ["firm", "town", "year"], "weights": weight}
    frame = frame.query("town < 4").sort_values("year")
    check_equal("y ~ x1 + x2 | firm^town + year", frame, partitioned(frame, 5), **options)


@pytest.mark.parametrize("partitioned", LESS_SPARK, indirect=True)
def test_messages_are_merged_in_a_tree(partitioned):
    """Of more partitions than are merged at once, with levels that first occur late."""
    frame = rows().sort_values("firm")
    parts = partitioned(frame, 2 * FAN + 3)
    check_equal("y ~ x1 + C(year) | firm + town", frame, parts, cov_type=["HC1"])


@pytest.mark.parametrize("partitioned", LESS_SPARK, indirect=True)
@pytest.mark.parametrize("formula", ["y ~ x1 | firm + year", "y ~ x1 + C(year)"])
def test_rows_that_change_between_passes_are_refused(partitioned, formula):
    """As many rows, with the same levels."""

    def draw(part: pd.DataFrame) -> pd.DataFrame:
        return part.assign(x1=np.random.default_rng().standard_normal(len(part)))

    parts = partitioned(rows(), 3, draw)
    with pytest.raises(karat.InputError, match="A later pass over the data read other rows"):
        karat.ols(formula, parts, cov_type="HC1")


@pytest.mark.parametrize("partitioned", LIBRARIES, indirect=True)
def test_one_changed_digit_between_passes_is_refused(partitioned, tmp_path):
    """The first pass reads categories only; the others must agree with it, and with each other."""
    log = tmp_path / "passes"
    log.touch()

    def change(part: pd.DataFrame) -> pd.DataFrame:
        if not len(part):  # how Dask asks for types
            return part
        with log.open("a") as file:
            file.write("x")
        late = len(log.read_text()) > 2  # the passes that need y are the second and the third
        part = part.copy()
        part.iloc[0, part.columns.get_loc("y")] += 1e-13 * late
        return part

    parts = partitioned(rows(), 1, change)
    with pytest.raises(karat.InputError, match="A later pass over the data read other rows"):
        karat.ols("y ~ x1 + C(year) | firm", parts, cov_type="HC1")
    assert len(log.read_text()) == 3
