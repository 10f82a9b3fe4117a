"""Data that the tests of this folder share."""

import os
from pathlib import Path

import numpy as np
import pytest


def real_file(name):
    folder = os.environ.get("KARAT_DATA", "")
    path = Path(folder) / name
    if not folder or not path.exists():
        pytest.skip(f"KARAT_DATA does not point at a folder with {name}")
    return path


@pytest.fixture(scope="session")
def blobs():
    """Correlated columns with offsets, one target, uneven weights."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((4000, 5)) @ rng.standard_normal((5, 5)) + 3.0
    y = X @ [1.0, -2.0, 0.0, 0.5, 0.0] + 2.0 * rng.standard_normal(4000) + 1.0
    return X, y, rng.integers(0, 4, 4000).astype(float) + 0.25


@pytest.fixture(scope="session")
def covtype():
    """Covertype, numeric columns, a slice of its rows; the target is the elevation."""
    import pandas as pd

    frame = pd.read_parquet(real_file("covtype.parquet"))
    frame = frame.iloc[:: len(frame) // 60000]
    return frame.iloc[:, 1:10], frame.iloc[:, 0].rename("elevation").astype(float)


@pytest.fixture(scope="session")
def credit():
    """Credit cards, complete rows; the target is the balance."""
    import pandas as pd

    frame = pd.read_csv(real_file("credit_card.csv.gz")).dropna().drop(columns="CUST_ID")
    return frame.drop(columns="BALANCE"), frame["BALANCE"]


@pytest.fixture(scope="session")
def diabetes():
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.fixture(scope="session")
def covtype_all():
    """Covertype with its one-hot columns, every tenth row; the target is the elevation."""
    import pandas as pd

    frame = pd.read_parquet(real_file("covtype.parquet")).iloc[::10]
    return frame.iloc[:, 1:54], frame.iloc[:, 0].rename("elevation").astype(float)
