"""
When not to use it
==================

A coreset saves little for one fit and nothing for few rows, and it would be wrong for losses that
its moments do not decide.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression

import karat


def main(n: int = 200_000) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 8))
    y = X.sum(axis=1) + rng.standard_t(1.5, n)

    start = time.perf_counter()
    LinearRegression().fit(X, y)
    middle = time.perf_counter()
    karat.CoresetRegressor(LinearRegression()).fit(X, y)
    end = time.perf_counter()
    print(
        f"One fit: {middle - start:.3f} s on all rows, {end - middle:.3f} s with a coreset. Both"
        " read the data once."
    )

    small = karat.coreset(X[:40], y[:40])
    print(
        f"Few rows: of 40 rows with 8 columns, {len(small)} are kept. The bound is"
        f" {small.certificate.bound}."
    )

    for estimator in (HuberRegressor(), LogisticRegression()):
        try:
            karat.CoresetRegressor(estimator).fit(X, y)
        except karat.NotExactError as refusal:
            print(f"Refused: {refusal}")
        else:
            raise AssertionError(f"{estimator} was not refused")

    core = karat.coreset(X, y)
    few = HuberRegressor().fit(core.X, core.y, sample_weight=core.weights)
    full = HuberRegressor().fit(X, y)
    print(
        "Without the check a coefficient would be wrong by"
        f" {np.abs(few.coef_ - full.coef_).max():.0%}, without a warning."
    )

    _, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
    place = np.arange(8)
    ax.bar(place - 0.2, full.coef_, 0.4, color="0.6", label="all rows")
    ax.bar(place + 0.2, few.coef_, 0.4, color="#d1495b", label=f"{len(core)} kept rows: wrong")
    ax.set(
        xlabel="column",
        ylabel="coefficient of a Huber fit",
        title="Why a Huber fit on a coreset is refused",
    )
    ax.set_ylim(top=1.25 * max(few.coef_.max(), full.coef_.max()))  # room for the legend
    ax.legend(loc="upper center", ncols=2)


if __name__ == "__main__":
    main()
    plt.show()
