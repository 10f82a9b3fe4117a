"""Files that karat wrote hold weighted rows: they are not read as rows of data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((500, 2)), columns=["x", "z"])
    return table.assign(y=table["x"] + rng.standard_normal(500), g=rng.integers(0, 3, 500))


@pytest.mark.parametrize("kind", ["coreset", "synthetic", "cube"])
def test_they_are_no_data(frame, tmp_path, kind):
    path = tmp_path / "own.parquet"
    if kind == "cube":
        karat.cube(frame, "y", by="g").save(path)
    else:
        rows = "real" if kind == "coreset" else "synthetic"
        karat.coreset(frame[["x", "z", "y"]], "y", rows=rows).save(path)
    for read in (
        lambda: karat.coreset_files(path, "y"),
        lambda: karat.ols("y ~ x", path),
        lambda: karat.ols("y ~ x | z", path),
        lambda: karat.cube(path, "y", by="z"),
    ):
        with pytest.raises(karat.InputError, match="holds weighted rows that karat wrote"):
            read()
