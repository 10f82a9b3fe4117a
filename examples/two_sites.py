"""
Two sites that exchange no record
=================================

Two hospitals want one model of the length of a stay. Neither may send records. Each makes synthetic
rows, checks that they tell little about single patients, and sends a file of 13 made rows. A third
party merges the files and gets the regression of all patients. Made rows are not differential
privacy: read :doc:`/synthetic` before you do so with real patients.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

import karat

FLOOR = 100  # rows per column below which second moments tell too much about single rows
# the largest share that one row may have in any sum of squares: ten rows behind everything
LEVERAGE = 0.1


def patients(site: int, n: int) -> pd.DataFrame:
    rng = np.random.default_rng(site)
    age = rng.normal(58 + 6 * site, 14, n).clip(18, 100).round()
    blood = rng.normal(0, 1, (n, 6)) @ (np.eye(6) + 0.2 * rng.standard_normal((6, 6)))
    frame = pd.DataFrame(
        blood, columns=["sodium", "potassium", "urea", "crp", "haemoglobin", "glucose"]
    )
    frame = frame.assign(age=age, bmi=rng.normal(27, 5, n).round(1), female=rng.random(n) < 0.5)
    frame = frame.assign(
        emergency=rng.random(n) < 0.3 + 0.1 * site, diabetes=rng.random(n) < 0.002 * age, rare=False
    )
    # a rare disease: too rare at the first site
    frame.loc[rng.choice(n, 12 if site else 3, replace=False), "rare"] = True
    stay = (
        3
        + 0.05 * age
        + 1.5 * frame["emergency"]
        + 0.8 * frame["crp"]
        + 4.0 * frame["rare"]
        + rng.gamma(2.0, 1.0, n)
    )
    return frame.astype(float).assign(stay=stay)


def largest_leverage(data: pd.DataFrame, core: karat.Coreset) -> float:
    """The largest share that one row has in the sum of squares of any linear combination of the
    columns.
    """
    made = np.column_stack([core.X, core.y])
    mean = np.average(made, axis=0, weights=core.weights)
    size = np.sqrt(np.average(np.square(made - mean), axis=0, weights=core.weights))
    units = np.where(size > 0, size, 1.0)
    few = (
        np.column_stack([np.ones(len(made)), (made - mean) / units])
        * np.sqrt(core.weights)[:, None]
    )
    rows = np.column_stack([np.ones(len(data)), (data.to_numpy() - mean) / units])
    return float(np.square(rows @ np.linalg.pinv(few, rcond=1e-10)).sum(axis=1).max())


def made_at_site(data: pd.DataFrame) -> karat.Coreset:
    """Synthetic rows that may leave the site; an error if they tell too much about one patient."""
    # refuses to return any row as it is
    core = karat.coreset(data, "stay", rows="synthetic", verbatim="error")
    per_column, leverage = len(data) / (data.shape[1] - 1), largest_leverage(data, core)
    print(
        f"{len(core)} made rows for {len(data):,}: {per_column:.0f} rows per column, leverage at"
        f" most {leverage:.2f}"
    )
    if per_column < FLOOR or leverage > LEVERAGE:
        raise PermissionError(f"needs {FLOOR} rows per column and no leverage above {LEVERAGE}")
    return core


def main(n: int = 20_000) -> None:
    sites = [patients(site, n // (1 + site)) for site in range(2)]
    try:
        made_at_site(sites[0])
    except PermissionError as refusal:
        print(f"not sent: {refusal}. Both sites leave the rare disease out.")
    sites = [data.drop(columns="rare") for data in sites]

    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"site-{number}.parquet" for number in range(2)]
        for data, file in zip(sites, files, strict=True):  # at each site
            made_at_site(data).save(file)
        first, second = (karat.load(file) for file in files)  # at the third party
    both = first.merge(second)
    print(both)

    everything = pd.concat(sites)
    X, y = everything.drop(columns="stay"), everything["stay"]
    few, full = both.fit(Ridge(10.0)), Ridge(10.0).fit(X, y)
    change = np.abs(few.coef_ - full.coef_).max()
    print(f"coefficients differ from those of {len(y):,} patients by {change:.0e}")
    assert change < 1e-9
    assert both.certificate.verbatim == 0
    records = set(map(tuple, everything.to_numpy()))
    assert not records & set(map(tuple, np.column_stack([both.X, both.y])))

    _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for number, (data, core) in enumerate(zip(sites, (first, second), strict=True)):
        some = data[:1500]
        ax.scatter(some["age"], some["stay"], s=3, color=f"C{number}", alpha=0.25, linewidths=0)
        made = np.column_stack([core.X["age"], core.y])
        ax.scatter(
            *made.T,
            s=40,
            color=f"C{number}",
            edgecolors="black",
            label=f"site {number}: {len(core)} made rows sent",
        )
    ax.set(
        xlabel="age", ylabel="days", title="Patients stay at their site; what is sent are made rows"
    )
    ax.legend(loc="upper left")


if __name__ == "__main__":
    main()
    plt.show()
