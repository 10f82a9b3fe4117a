"""Whether a stored table still matches its data: levels, splines and weights are encoded as the
formula says.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("formulaic")

import karat
from karat import InputError
from karat.inference import ols, verify

TABLES = [
    ("y ~ a + C(town)", {}),
    ("y ~ half * town + I(half > 1)", {}),  # rows with equal regressors are joined in one pass
    ("np.exp(y) ~ bs(a, df=4) + scale(half)", {}),
    ("y ~ a", {"weights": "half"}),
    ("y ~ a", {"frequencies": "times"}),
    ("y ~ a + I(2 * a)", {"on_collinear": "drop"}),
    ("y ~ [a ~ half]", {"cov_type": "HC1"}),
]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(2)
    n = 3000
    table = pd.DataFrame({"a": rng.standard_normal(n), "town": rng.choice(["x", "y", "z"], n)})
    table["half"], table["times"] = rng.integers(1, 5, n) / 2, rng.integers(1, 4, n)
    table["a"] += table["half"]
    table["y"] = table["a"] + (table["town"] == "y") + rng.standard_normal(n)
    return table


@pytest.mark.parametrize(("formula", "options"), TABLES)
def test_tables_are_proven_and_refuted(frame, tmp_path, formula, options):
    ols(formula, frame, **options).coreset.save(tmp_path / "table.parquet")
    core = karat.load(tmp_path / "table.parquet")
    shuffled = frame.sample(frac=1, random_state=0)
    assert verify(core, frame).ok
    assert verify(core, shuffled).ok
    assert not verify(core, frame.assign(y=frame["y"] + 1e-3 * (frame.index == 7))).ok
    found = verify(core, frame[:-1])
    assert not found.ok
    assert "2,999" in str(found)


def test_files_and_missing_values_are_those_of_the_table(frame, tmp_path):
    frame.assign(a=frame["a"].where(frame.index % 7 > 0)).to_csv(tmp_path / "rows.csv")
    core = ols("y ~ a + town", tmp_path / "rows.csv", on_missing="drop").coreset
    assert verify(core).ok
    with pytest.raises(InputError, match=r"karat\.inference\.verify"):
        karat.verify_files(core)


def test_what_has_no_formula_is_told_the_other_call(frame):
    core = karat.coreset(frame[["a", "y"]], "y")
    with pytest.raises(InputError, match="has no formula"):
        verify(core, frame)
    with pytest.raises(InputError, match="pass the data"):
        verify(ols("y ~ a", frame).coreset)
