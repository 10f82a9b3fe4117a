"""A comparison of karat's coreset with other choices of as many rows, by the error of the trained
model.

Each method chooses m weighted rows.  A model is trained on them, and its parameters are compared
with those of the model trained on all rows.  The random methods also run with 2 m, 4 m, ... rows,
which shows how many they need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from karat.engine.linalg import Array
from karat.report.display import CORE, FULL, OTHER
from paper.data import MissingDataError
from paper.drawing import finish, new_drawing, readable_logs
from paper.result import Experiment, Figure, Table
from paper.samplers import (
    FIXED,
    RANDOM,
    THINNED,
    Choice,
    Sampler,
    absent,
    available,
    kernel_thinning,
)
from paper.settings import Settings
from paper.tasks import TASKS, Task

Curve = tuple[list[int], list[float | None]]
ROUNDING = 1e-16

LOOKS = {
    "karat": (CORE, "*"),
    "uniform sampling": (OTHER[3], "o"),
    "leverage sampling": (FULL, "s"),
    "sensitivity sampling": (OTHER[0], "^"),
    "kernel thinning (goodpoints)": (OTHER[1], "D"),
    "kernel herding (coreax)": ("black", "P"),
    "TreeRecombination on ready features (coreax)": (OTHER[2], "X"),
}
EXACT = 1e-6  # smaller errors are drawn in the lower part of a panel, with an axis of its own


def trials(task: Task, sampler: Sampler, m: int, seeds: int) -> tuple[Array, float]:
    """Run a sampler with several seeds: parameter errors and excess losses (NaN if there is none),
    and seconds per run.
    """
    begin = time.perf_counter()
    choices = [sampler(task.views, m, np.random.default_rng(seed)) for seed in range(seeds)]
    taken = (time.perf_counter() - begin) / seeds
    return np.array([task.error(index, weights) for index, weights in choices]), taken


def summary(errors: Array) -> list[Any]:
    """Median and worst parameter error, median excess loss, and the number of trials without a
    model.
    """
    found = errors[np.isfinite(errors[:, 0])]
    failed = "" if len(found) == len(errors) else f"{len(errors) - len(found)} of {len(errors)}"
    if not len(found):
        return [None, None, None, failed]
    excess = float(np.median(found[:, 1]))
    return [
        float(np.median(found[:, 0])),
        float(found[:, 0].max()),
        None if np.isnan(excess) else excess,
        failed,
    ]


def compare(task: Task, seeds: int, doublings: int) -> tuple[list[list[Any]], dict[str, Curve]]:
    """Compare all methods on one task: rows of the table, and error against size for the figure."""
    rows: list[list[Any]] = []
    curves: dict[str, Curve] = {}

    def alone(name: str, choose: Callable[[], Choice]) -> int:
        begin = time.perf_counter()
        index, weights = choose()
        taken = time.perf_counter() - begin
        found = summary(np.array([task.error(index, weights)]))
        rows.append([task.title, name, len(index), *found, taken])
        curves[name] = ([len(index)], [found[0]])
        return len(index)

    m = alone("karat", task.build)
    sizes = [m << i for i in range(doublings) if m << i <= len(task.views.table) // 2]
    for name, sampler in available(RANDOM).items():
        reached = [size for size in sizes if size <= THINNED // 2 or sampler is not kernel_thinning]
        middle = []
        for size in reached:
            errors, taken = trials(task, sampler, size, seeds)
            found = summary(errors)
            middle.append(found[0])
            if size == m:
                rows.append([task.title, name, m, *found, taken])
        curves[name] = (reached, middle)
    for name, sampler in available(FIXED).items():
        alone(name, lambda: sampler(task.views, m, np.random.default_rng(0)))  # noqa: B023
    return rows, curves


THINNING = (
    " Kernel thinning is often the best of the samples: it keeps the averages of smooth functions"
    " better than random rows do. It does not keep moments."
)


def draw(title: str, curves: dict[str, Curve], place: Any) -> None:
    """Draw one task: errors of samples above, errors of the size of rounding below."""
    above, below = place.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for name, (sizes, errors) in curves.items():
        values = np.array([np.nan if error is None else max(error, ROUNDING) for error in errors])
        colour, mark = LOOKS[name]
        panel = below if np.nanmin(values) < EXACT else above
        large = 12 if name == "karat" else 8 if len(sizes) == 1 else 4
        panel.loglog(
            sizes,
            values,
            marker=mark,
            color=colour,
            markersize=large,
            linestyle="-" if len(sizes) > 1 else "none",
        )
    finish(above, title, ylabel="relative error")
    above.tick_params(labelbottom=False)
    finish(below, "", xlabel="rows", ylabel="rounding", ylim=(ROUNDING / 3, 1e-11))
    readable_logs(above)
    readable_logs(below)


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D

    shown = ["karat", *available(RANDOM), *available(FIXED)]
    return [
        Line2D([], [], color=LOOKS[name][0], marker=LOOKS[name][1], markersize=8, label=name)
        for name in shown
    ]


def run(settings: Settings, choice: Mapping[str, Callable[[Settings], Task]] = TASKS) -> Experiment:
    missing = absent()
    tasks: list[Task] = []
    for name, make in choice.items():
        try:
            tasks.append(make(settings))
        except MissingDataError as error:
            missing.append(f"The task {name} is left out: {error}")
    drawing = new_drawing(12, 8.4)
    places = drawing.subfigures(2, 3).ravel()
    rows: list[list[Any]] = []
    for task, place in zip(tasks, places, strict=False):
        settings.say(task.title)
        found, curves = compare(task, 3 if settings.quick else 9, 3 if settings.quick else 7)
        rows += found
        draw(task.title, curves, place)
    places[-1].legend(handles=_legend(), loc="center", frameon=False)
    return Experiment(
        "Comparison with other choices of rows",
        [
            (
                "Each method chooses as many weighted rows as karat's coreset has. A model is"
                " trained on them and compared with the model of all rows: the error is the largest"
                " difference of a coefficient, or the distance of the worst component, both"
                " relative. For regression the excess loss is the loss of all rows at the found"
                " coefficients, relative to its minimum, less one. Random methods: median and worst"
                " of several seeds."
            ),
            "Samples of a few dozen rows give a wrong model in every task. With more rows their"
            " error falls about like one over the square root of the size (upper parts of the"
            " figure), so that even half of the data has a much larger error than the coreset"
            " (lower parts)."
            + (THINNING if "kernel thinning (goodpoints)" in available(RANDOM) else ""),
        ],
        [
            Table(
                "comparison",
                "At equal size",
                [
                    "task",
                    "method",
                    "rows",
                    "median error",
                    "worst error",
                    "median excess loss",
                    "no model in",
                    "seconds to choose",
                ],
                rows,
            )
        ],
        [Figure("comparison", "Error of the trained model against the number of rows", drawing)],
        [
            (
                "Latent models: every method is given the whitening of the full data, which karat"
                " stores with its coreset. Without it, 10 rows in 30 dimensions give no mixture at"
                " all. 'No model in' counts the trials whose rows show fewer components than there"
                " are."
            ),
            (
                "coreax's TreeRecombination is exact too, if the user passes the kernel features as"
                " a matrix; its time includes the compilation by JAX. karat computes the features"
                " itself, never forms that matrix, gives a certificate, and is faster."
            ),
            (
                "Sampling has advantages that this table does not show: it works for any loss, also"
                " where an exact coreset must keep all distinct rows (logistic, hinge, absolute"
                " error), and takes no time. Kernel thinning is made for expectations of functions"
                " that are not known beforehand."
            ),
        ],
        missing,
    )
