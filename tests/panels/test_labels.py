"""Levels of fixed effects come back as they are in the data: dates, times with their unit and zone,
booleans, categories, decimals.
"""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat

ROWS = 90
RNG = np.random.default_rng(12)
X, NOISE = RNG.normal(size=(2, ROWS))
CODES = np.arange(ROWS) % 3
NOON = [dt.datetime(2024, 3, 30 + i, 12) if i < 2 else dt.datetime(2024, 4, 2) for i in range(3)]
BERLIN = "Europe/Berlin"  # its clocks change between the first two days

LEVELS = {
    "date": (pa.date32(), [dt.date(2024, 1, 1), dt.date(1969, 7, 20), dt.date(2030, 5, 6)]),
    "date64": (pa.date64(), [dt.date(2024, 1, 1), dt.date(1969, 7, 20), dt.date(2030, 5, 6)]),
    **{f"time in {unit}": (pa.timestamp(unit), NOON) for unit in ("s", "ms", "us", "ns")},
    "nanoseconds": (
        pa.timestamp("ns"),
        [pd.Timestamp(1_700_000_000_000_000_123 + i, unit="ns") for i in range(3)],
    ),
    **{
        f"zone, {unit}": (
            pa.timestamp(unit, BERLIN), [pd.Timestamp(t, tz=BERLIN) for t in NOON],
        )
        for unit in ("us", "ns")
    },
    "long ago": (pa.timestamp("us"), [dt.datetime(1500 + i, 1, 1) for i in range(3)]),
    "duration": (pa.duration("ns"), [pd.Timedelta(hours=i) for i in range(3)]),
    "boolean": (pa.bool_(), [True, False, True]),
    "category": (pa.dictionary(pa.int8(), pa.string()), ["z", "a", "m"]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.25"), Decimal("4.10")]),
    "whole decimal": (pa.decimal128(9, 0), [Decimal(1), Decimal(7), Decimal(12)]),
    "wide integer": (pa.uint64(), [1, 2**63 + 5, 3]),
}  # fmt: skip


def table_of(name):
    kind, levels = LEVELS[name]
    if pa.types.is_dictionary(kind):
        column = pa.array([levels[i] for i in CODES]).dictionary_encode()
    else:
        column = pa.array([levels[i] for i in CODES], kind)
    effect = np.array([levels.index(levels[i]) for i in CODES], dtype=float)
    return pa.table({"x": X, "y": 2 * X + effect + NOISE, "g": column}), levels


def effects_of_dummies(table, levels):
    """The effect of every level by least squares with a column for each."""
    given = sorted(set(levels), key=str)
    home = np.array([given.index(levels[i]) for i in CODES])
    design = np.column_stack([X, np.eye(len(given))[home]])
    found = np.linalg.lstsq(design, table["y"].to_numpy(), rcond=None)[0]
    return dict(zip(given, found[1:], strict=True)), design @ found


@pytest.mark.parametrize("form", ["arrow", "pandas", "parquet"])
@pytest.mark.parametrize("name", LEVELS)
def test_labels_come_back(name, form, tmp_path):
    table, levels = table_of(name)
    pq.write_table(table, tmp_path / "data.parquet")
    frame = table.to_pandas()
    data = {"arrow": table, "pandas": frame, "parquet": tmp_path / "data.parquet"}[form]
    fit = karat.ols("y ~ x | g", data)
    effects = fit.effects()["g"]["effect"]
    expected, means = effects_of_dummies(table, levels)
    assert set(effects.index) == set(expected)
    for label, effect in expected.items():
        assert effects.loc[label] == pytest.approx(effect, abs=1e-11)
    if name.startswith("zone"):
        assert str(effects.index.tz) == BERLIN
    if "decimal" in name:
        assert all(isinstance(label, Decimal) for label in effects.index)
        assert {str(label) for label in effects.index} == {str(label) for label in levels}
    np.testing.assert_allclose(fit.predict(frame), means, rtol=0, atol=1e-11)


@pytest.mark.parametrize("zone", [None, BERLIN])
def test_units_and_zones_do_not_matter_to_predictions(zone):
    """A file has microseconds, pandas nanoseconds; before, such levels were not found."""
    table, levels = table_of("time in us" if zone is None else "zone, us")
    means = effects_of_dummies(table, levels)[1]
    for unit in ("s", "us", "ns"):
        data = table.set_column(2, "g", table["g"].cast(pa.timestamp(unit, zone)))
        fit = karat.ols("y ~ x | g", data)
        for other in ("s", "us", "ns"):
            there = None if zone is None else "Asia/Tokyo"
            new = table.set_column(2, "g", table["g"].cast(pa.timestamp(other, there)))
            np.testing.assert_allclose(fit.predict(new.to_pandas()), means, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["time in ns", "zone, us", "zone, ns", "date", "decimal"])
def test_labels_of_a_resumed_run(name, tmp_path):
    table, levels = table_of(name)
    pq.write_table(table, tmp_path / "data.parquet")
    first, again = (
        karat.ols("y ~ x | g", tmp_path / "data.parquet", checkpoint=tmp_path / "c.npz")
        for _ in range(2)
    )
    pd.testing.assert_frame_equal(first.effects()["g"], again.effects()["g"])
    assert set(again.effects()["g"].index) == set(levels)


def test_labels_of_partitions_samples_and_combinations():
    dd = pytest.importorskip("dask.dataframe")
    table, levels = table_of("zone, ns")
    frame = table.to_pandas().assign(s=np.arange(ROWS) // 45)
    expected = effects_of_dummies(table, levels)[0]
    parted = karat.ols("y ~ x | g", dd.from_pandas(frame, npartitions=4)).effects()["g"]
    for label, effect in expected.items():
        assert parted.loc[label, "effect"] == pytest.approx(effect, abs=1e-11)
    assert set(karat.ols("y ~ x | s", frame, split="g")) == set(levels)
    joint = karat.ols("y ~ x | s^g", frame).effects()["s^g"]
    assert set(joint.index) == {(s, label) for s in (0, 1) for label in levels}
