"""Dates and times as levels of a category."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from karat.errors import InputError

pytest.importorskip("statsmodels")
ols = pytest.importorskip("karat.inference").ols


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2023-12-30") + pd.to_timedelta(rng.integers(0, 5, 900), unit="D")
    frame = pd.DataFrame({"day": days, "x": rng.standard_normal(900)})
    return frame.assign(y=frame["x"] + frame["day"].dt.day + rng.standard_normal(900))


def test_levels_are_iso_dates_in_order(frame, tmp_path):
    whole = ols("y ~ x + day", frame, cov_type="HC1")
    texts = frame.assign(day=frame["day"].dt.strftime("%Y-%m-%d"))
    assert list(whole.params.index)[1] == "day[T.2023-12-31]"
    np.testing.assert_allclose(whole.bse, ols("y ~ x + day", texts, cov_type="HC1").bse, rtol=1e-12)
    table = pa.table({"day": frame["day"].dt.date, "x": frame["x"], "y": frame["y"]})
    assert table.schema.field("day").type == pa.date32()
    pq.write_table(table, tmp_path / "days.parquet")
    files = ols("y ~ x + day", tmp_path / "days.parquet", cov_type="HC1")
    assert list(files.params.index) == list(whole.params.index)
    np.testing.assert_allclose(files.bse, whole.bse, rtol=1e-12)
    for rows in (frame.head(9), texts.head(9), frame.head(9).assign(day=frame["day"].dt.date)):
        np.testing.assert_allclose(files.predict(rows), whole.predict(frame.head(9)), rtol=1e-12)
    with pytest.raises(InputError, match="no level '2025-01-01'"):
        files.predict(frame.head(1).assign(day=pd.Timestamp("2025-01-01")))


def test_times_of_day_and_zones(frame):
    hours = frame.assign(day=frame["day"] + pd.to_timedelta(12 * (frame.index % 2), unit="h"))
    names = list(ols("y ~ C(day)", hours).params.index)
    assert names[1:3] == ["C(day)[T.2023-12-30 12:00:00]", "C(day)[T.2023-12-31]"]
    quarter = hours.assign(day=hours["day"] + pd.Timedelta("250ms"))
    assert "C(day)[T.2023-12-31 00:00:00.25]" in ols("y ~ C(day)", quarter).params
    with pytest.raises(InputError, match="zone Europe/Paris"):
        ols("y ~ C(day)", frame.assign(day=frame["day"].dt.tz_localize("Europe/Paris")))


def test_a_row_without_a_date(frame):
    gap = frame.assign(day=frame["day"].mask(frame.index == 7))
    with pytest.raises(InputError, match="'day' has no value"):
        ols("y ~ x + day", gap)
    assert ols("y ~ x + day", gap, on_missing="drop").nobs == 899
