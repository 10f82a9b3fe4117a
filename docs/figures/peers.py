"""Time to a lossless coreset of 1,000,000 x 10, from `peers.json`; the table is on the benchmarks page."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

GOLD, GREY = "#c98a00", "#8a8a8a"
NAMES = {
    "karat": "karat",
    "tree of Tchernychova and Lyons, literal": "tree of Tchernychova and Lyons",
    "random cones, Cosentino et al., literal": "random cones",
    "paper's Algorithm 5, literal": "the paper's Algorithm 5",
    "PyRecombine": "PyRecombine",
    "coreax TreeRecombination, x64": "coreax 1.0, tree recombination",
}


def seconds() -> dict[str, float]:
    """The time of every tool, the fastest first."""
    path = Path(__file__).parent / "peers.json"
    lines = json.loads(path.read_text(encoding="utf-8"))["lines"]
    found = {
        NAMES[line["what"]]: line["seconds"]
        for line in lines
        if line["case"] == "peers 1e6 x 10" and line["what"] in NAMES
    }
    return dict(sorted(found.items(), key=lambda item: item[1]))


def draw(ink: str) -> Figure:
    figure, ax = plt.subplots(figsize=(7.5, 3.0))
    times = seconds()
    names = list(times)[::-1]
    ax.barh(
        names,
        [times[n] for n in names],
        color=[GOLD if n == "karat" else GREY for n in names],
        height=0.6,
    )
    for i, name in enumerate(names):
        ax.text(times[name] * 1.1, i, f"{times[name]:.3g} s", va="center", fontsize=9)
    ax.set(
        xscale="log",
        xlim=(0.008, 12),
        xlabel="seconds of processor time, one thread (logarithmic)",
    )
    plt.close(figure)
    return figure
