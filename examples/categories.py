"""
A frame with categories
=======================

The coreset of a pandas frame keeps whole records, with strings and index.
"""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import karat


def flats(n: int) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "area": rng.gamma(6.0, 12.0, n).round(1),
            "floor": rng.integers(0, 20, n),
            "district": rng.choice(["Altona", "Barmbek", "Eppendorf"], n, p=[0.5, 0.4, 0.1]),
            "balcony": rng.choice(["yes", "no"], n),
        },
        index=pd.Index([f"flat-{i:06d}" for i in range(n)], name="flat"),
    )
    rent = 9.0 * frame["area"] + 4.0 * frame["floor"] + 150.0 * (frame["district"] == "Eppendorf") + rng.normal(0, 60, n)
    return frame, rent.rename("rent")


def main(n: int = 50_000) -> None:
    X, y = flats(n)
    columns = make_column_transformer((StandardScaler(), ["area", "floor"]), (OneHotEncoder(), ["district", "balcony"]))
    model = make_pipeline(columns, Ridge(1.0))
    few = karat.CoresetRegressor(model).fit(X, y)
    full = model.fit(X, y)
    kept = few.core_.X.assign(rent=few.core_.y, weight=few.core_.weights.round(1))
    print(kept.head().to_string())
    change = np.abs(few.estimator_[-1].coef_ - full[-1].coef_).max()
    print(f"\n{len(few.core_)} of {n:,} flats; coefficients differ by {change:.0e}")
    assert change < 1e-8


if __name__ == "__main__":
    main()
