"""Time to a lossless coreset of 1,000,000 x 10, from `benchmarks/run.py` on 2 cores; the table is on the benchmarks page."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

GOLD, GREY = "#c98a00", "#8a8a8a"
SECONDS = {  # those of PyRecombine and coreax are from a run beside version 0.1.0, which took as long as today's
    "D'D alone, the floor": 0.0169,
    "karat": 0.029,
    "tree of Tchernychova and Lyons": 0.306,
    "random cones": 0.46,
    "PyRecombine": 0.527,
    "the paper's Algorithm 5, literal": 1.72,
    "coreax 1.0, tree recombination": 4.87,
}


def draw(ink: str) -> Figure:
    figure, ax = plt.subplots(figsize=(7.5, 3.0))
    names = list(SECONDS)[::-1]
    ax.barh(
        names,
        [SECONDS[n] for n in names],
        color=[GOLD if n == "karat" else GREY for n in names],
        height=0.6,
    )
    for i, name in enumerate(names):
        ax.text(
            SECONDS[name] * 1.1, i, f"{SECONDS[name]:.3g} s", va="center", fontsize=9
        )
    ax.set(xscale="log", xlim=(0.008, 12), xlabel="seconds (logarithmic)")
    plt.close(figure)
    return figure
