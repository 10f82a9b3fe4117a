"""
A million flights, one model per carrier and month
==================================================

A cube reduces the flights of every carrier and week once. After that a model per carrier and month,
a window that rolls over two years, and a test whether a carrier has changed are made of a few rows
each, and are those of all flights. The data is made up, like that of an airport: delays grow
towards the evening, more in summer than in winter, and one carrier has a new schedule from the
second January on.
"""

import time
from datetime import date

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.linear_model import LinearRegression

import karat

CARRIERS = ["AC", "BX", "CN", "DL", "EK", "FI", "GU", "HA", "IB", "JL", "KM", "LY"]
CHANGED, SINCE = "HA", "2025-01-01"
FEATURES = ["evening", "wind", "distance", "weekend"]
DAYS = 731


def flights(n: int) -> pa.Table:
    """Arrival delay in minutes; ``evening`` counts hours after six in the morning, in units of
    twelve.
    """
    rng = np.random.default_rng(8)
    carrier, number = rng.integers(len(CARRIERS), size=n), np.sort(rng.integers(DAYS, size=n))
    day = np.datetime64("2024-01-01") + number
    evening, distance = rng.beta(1.6, 1.4, n) * 1.5, rng.gamma(2.0, 0.6, n)
    wind = rng.gamma(2.0, 2.0, n) * (1.3 + 0.5 * np.cos(2 * np.pi * number / 365))
    season = 0.5 - 0.5 * np.cos(2 * np.pi * (number - 15) / 365)  # 1 in July
    drag = (
        6
        + 9 * rng.random(len(CARRIERS))[carrier]
        + 14 * season * (0.5 + rng.random(len(CARRIERS))[carrier])
    )
    drag = np.where(
        (carrier == CARRIERS.index(CHANGED)) & (day >= np.datetime64(SINCE)), drag * 0.35, drag
    )
    delay = (
        drag * evening
        + 0.8 * wind
        - 2.0 * distance
        - 1.5 * (number % 7 > 4)
        + rng.gumbel(-6, 11, n)
    )
    month, week = day.astype("datetime64[M]").astype("datetime64[D]"), day - number % 7
    return pa.table(
        {"carrier": np.array(CARRIERS)[carrier], "week": week, "month": month}
        | {
            "evening": evening,
            "wind": wind,
            "distance": distance,
            "weekend": (number % 7 > 4) * 1.0,
            "delay": delay,
        }
    )


def draw(
    months: np.ndarray, table: np.ndarray, weeks: np.ndarray, rolling: dict[str, np.ndarray]
) -> None:
    plt.rcParams["svg.fonttype"] = "none"
    _, (left, right) = plt.subplots(
        1, 2, figsize=(12, 4.6), width_ratios=(1.35, 1), layout="constrained"
    )
    image = left.imshow(table, cmap="magma", aspect="auto", vmin=0)
    names = [str(month)[:7] for month in months]
    left.set_yticks(range(len(CARRIERS)), CARRIERS)
    left.set_xticks(range(0, len(names), 3), names[::3])
    left.set_title("Evening delay by carrier and month", loc="left", fontsize=11)
    left.axvline(11.5, color="white", lw=0.8, ls=":")
    left.annotate(
        "new schedule", (12, CARRIERS.index(CHANGED)), (13.2, CARRIERS.index(CHANGED) - 1.55),
        color="white", fontsize=9, arrowprops={"arrowstyle": "-", "color": "white", "lw": 0.8},
    )  # fmt: skip
    bar = plt.colorbar(image, ax=left, pad=0.02)
    bar.set_label("minutes per twelve hours", fontsize=9)
    bar.outline.set_visible(False)
    for spine in (*left.spines.values(), right.spines["top"], right.spines["right"]):
        spine.set_visible(False)
    left.tick_params(length=0)
    for name, values in rolling.items():
        chosen = name == CHANGED
        right.plot(
            weeks,
            values,
            color="#c0392b" if chosen else "#b8b8b8",
            lw=2.0 if chosen else 0.8,
            zorder=2 + chosen,
        )
    right.text(
        weeks[-1],
        rolling[CHANGED][-1],
        f" {CHANGED}",
        color="#c0392b",
        va="center",
        fontweight="bold",
    )
    right.axvline(np.datetime64(SINCE), color="#888888", lw=0.8, ls=":")
    right.set(ylim=(0, None), xlim=(weeks[0], weeks[-1] + 25))
    right.set_title("The same over windows of eight weeks", loc="left", fontsize=11)
    ticks = np.arange("2024-04", "2026-01", 3, dtype="datetime64[M]")
    right.set_xticks(ticks.astype("datetime64[D]"), [str(month) for month in ticks], fontsize=9)
    right.grid(axis="y", color="#eeeeee")
    right.set_axisbelow(True)


def main(n: int = 1_000_000) -> None:
    table = flights(n)
    start = time.perf_counter()
    # Cells of a carrier and a week; the month is a label, too, so that models can be made by it.
    cube = karat.cube(table, target="delay", by=["carrier", "month", "week"], columns=FEATURES)
    print(f"{cube}\nbuilt in {time.perf_counter() - start:.1f} s")

    start = time.perf_counter()
    fits = cube.fit(LinearRegression(), by=["carrier", "month"])
    print(f"{len(fits)} models in {time.perf_counter() - start:.2f} s")
    own = table.filter((pc.field("carrier") == "DL") & (pc.field("month") == date(2024, 7, 1)))
    full = LinearRegression().fit(np.column_stack([own[name] for name in FEATURES]), own["delay"])
    change = np.abs(fits["DL", "2024-07-01"].coef_ - full.coef_).max() / np.abs(full.coef_).max()
    print(
        f"coefficients of DL in July 2024 differ from those of its {len(own):,} flights by"
        f" {change:.0e}"
    )
    assert change < 1e-9

    start = time.perf_counter()
    windows = cube.rolling("week", 8, by="carrier").fit(LinearRegression())
    print(f"{len(windows):,} windows in {time.perf_counter() - start:.1f} s")
    for carrier in (CHANGED, "DL"):
        first, second = (
            {"carrier": carrier, "month": slice(f"{year}-02", f"{year}-11")}
            for year in (2024, 2025)
        )
        print(f"{carrier}: {cube.compare(first, second)}")

    months = cube.labels("month")
    evening = windows.table("evening")
    lines = {carrier: evening[windows.labels[0] == carrier] for carrier in CARRIERS}
    weeks = windows.labels[1][windows.labels[0] == CHANGED]
    lines = {carrier: values for carrier, values in lines.items() if len(values) == len(weeks)}
    shown = {label: model.coef_[0] for label, model in fits.items()}
    picture = np.array(
        [[shown.get((carrier, month), np.nan) for month in months] for carrier in CARRIERS]
    )
    draw(months, picture, weeks, lines)


if __name__ == "__main__":
    main()
    plt.show()
