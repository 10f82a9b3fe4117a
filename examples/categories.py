"""
A frame with categories
=======================

The coreset of a pandas frame keeps whole records, with strings and index.
"""

import matplotlib.pyplot as plt
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
    rent = (
        9.0 * frame["area"]
        + 4.0 * frame["floor"]
        + 150.0 * (frame["district"] == "Eppendorf")
        + rng.normal(0, 60, n)
    )
    return frame, rent.rename("rent")


def main(n: int = 50_000) -> None:
    X, y = flats(n)
    columns = make_column_transformer(
        (StandardScaler(), ["area", "floor"]), (OneHotEncoder(), ["district", "balcony"])
    )
    model = make_pipeline(columns, Ridge(1.0))
    few = karat.CoresetRegressor(model).fit(X, y)
    full = model.fit(X, y)
    kept = few.core_.X.assign(rent=few.core_.y, weight=few.core_.weights.round(1))
    print(kept.head().to_string())
    change = np.abs(few.estimator_[-1].coef_ - full[-1].coef_).max()
    print(f"\n{len(few.core_)} of {n:,} flats; coefficients differ by {change:.0e}")
    assert change < 1e-8

    _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    colours = {"Altona": "#2f7fd1", "Barmbek": "#5a9e6f", "Eppendorf": "#d1495b"}
    for district, colour in colours.items():
        some, own = (
            X.index[:4000][X["district"][:4000] == district],
            kept[kept["district"] == district],
        )
        ax.scatter(X["area"][some], y[some], s=3, color=colour, alpha=0.25, linewidths=0)
        ax.scatter(
            own["area"],
            own["rent"],
            s=15 + own["weight"] / 20,
            color=colour,
            edgecolors="black",
            label=district,
        )
    ax.set(xlabel="area", ylabel="rent", title=f"{len(kept)} of {n:,} flats, sized by weight")
    ax.legend()


if __name__ == "__main__":
    main()
    plt.show()
