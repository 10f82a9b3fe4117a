"""Time of construction against rows and against features, from `measured.json`, which `make bench` writes."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

GOLD, GREY = "#c98a00", "#8a8a8a"


def curve(kind: str, columns: int | None) -> list[tuple[float, float, float]]:
    """Rows or features, seconds, and seconds of the yardstick, of the lines of one curve."""
    here = Path(__file__).parent if "__file__" in globals() else Path("figures")
    found = []
    for line in json.loads((here / "measured.json").read_text(encoding="utf-8"))[
        "lines"
    ]:
        if not line["case"].startswith(f"curve {kind} "):
            continue
        size = line["case"].split(" ")[2:]
        if (int(size[2]) == 10) != (columns == 10):
            continue
        at = float(size[0]) if columns else float(line["note"].split("= ")[1])
        found.append((at, line["seconds"], line["seconds"] / line["ratio"]))
    return sorted(found)


def draw(ink: str) -> Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 2.8), sharey=True)
    rows = curve("gaussian", 10)
    left.plot(
        [p[0] for p in rows], [p[1] for p in rows], "o-", color=GOLD, label="karat"
    )
    left.plot(
        [p[0] for p in rows], [p[2] for p in rows], "o--", color=GREY, label="D'D alone"
    )
    left.set(xscale="log", yscale="log", xlabel="rows (10 columns)", ylabel="seconds")
    left.legend()
    for kind, style in (("gaussian", "o-"), ("lognormal", "s:")):
        points = curve(kind, None)
        right.plot(
            [p[0] for p in points],
            [p[1] for p in points],
            style,
            color=GOLD,
            label=f"karat, {kind}",
        )
    points = curve("gaussian", None)
    right.plot(
        [p[0] for p in points],
        [p[2] for p in points],
        "o--",
        color=GREY,
        label="D'D and one LU",
    )
    right.set(xscale="log", xlabel="features m (100,000 rows)")
    right.set_xticks(
        [p[0] for p in points], [f"{p[0]:,.0f}" for p in points], minor=False
    )
    right.set_xticks([], minor=True)
    right.legend()
    figure.tight_layout()
    plt.close(figure)
    return figure
