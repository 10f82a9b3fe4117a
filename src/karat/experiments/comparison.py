"""The comparison nobody has made: karat's coreset against other choices of as many rows, by the error of the trained model.

At equal size m each method gives m weighted rows; the model is trained on them, and its parameters are compared with those of
the model trained on all rows.  The random methods are also run at 2 m, 4 m, .. rows, which shows how many they need.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from karat.engine.linalg import Array
from karat.experiments.data import MissingDataError
from karat.experiments.result import Experiment, Figure, Table
from karat.experiments.samplers import FIXED, RANDOM, THINNED, Sampler, absent, available
from karat.experiments.settings import Settings
from karat.experiments.tasks import TASKS, Task

STYLES = ("o-", "s-", "^-", "D-")
FIXED_MARKS = ("P", "X")


def trials(task: Task, sampler: Sampler, m: int, seeds: int) -> tuple[Array, float]:
    """Parameter errors and excess losses over the seeds (NaN where there is none), and the seconds of one choice."""
    begin = time.perf_counter()
    choices = [sampler(task.views, m, np.random.default_rng(seed)) for seed in range(seeds)]
    taken = (time.perf_counter() - begin) / seeds
    return np.array([task.error(index, weights) for index, weights in choices]), taken


def summary(errors: Array) -> list[Any]:
    """Median and worst parameter error, median excess loss where a model came out, and in how many trials none did."""
    found = errors[np.isfinite(errors[:, 0])]
    failed = "" if len(found) == len(errors) else f"{len(errors) - len(found)} of {len(errors)}"
    if not len(found):
        return [None, None, None, failed]
    excess = float(np.median(found[:, 1]))
    return [float(np.median(found[:, 0])), float(found[:, 0].max()), None if np.isnan(excess) else excess, failed]


def compare(task: Task, seeds: int, doublings: int, panel: Any) -> list[list[Any]]:
    """Rows of the table for one task, and its panel of the figure."""
    begin = time.perf_counter()
    index, weights = task.build()
    built, m = time.perf_counter() - begin, len(index)
    ours = task.error(index, weights)
    rows: list[list[Any]] = [[task.title, "karat", m, *summary(np.array([ours])), built]]
    panel.loglog([m], [max(ours[0], 1e-16)], "*", color="black", markersize=14, label="karat", zorder=5)
    sizes = [m << i for i in range(doublings) if m << i <= len(task.views.table) // 2]
    for (name, sampler), style in zip(available(RANDOM).items(), STYLES, strict=False):
        curve = []
        for size in sizes:
            if "thinning" in name and size > THINNED // 2:
                break
            errors, taken = trials(task, sampler, size, seeds)
            found = summary(errors)
            if size == m:
                rows.append([task.title, name, m, *found, taken])
            curve.append(np.nan if found[0] is None else found[0])
        panel.loglog(sizes[: len(curve)], curve, style, markersize=4, label=name)
    for (name, sampler), mark in zip(available(FIXED).items(), FIXED_MARKS, strict=False):
        begin = time.perf_counter()
        index, weights = sampler(task.views, m, np.random.default_rng(0))
        taken = time.perf_counter() - begin
        found = summary(np.array([task.error(index, weights)]))
        rows.append([task.title, name, len(index), *found, taken])
        if found[0] is not None:
            panel.loglog([len(index)], [max(found[0], 1e-16)], mark, markersize=9, label=name, zorder=4)
    panel.set(title=task.title, xlabel="rows", ylabel="relative error of the model", ylim=(1e-17, 1e2))
    panel.grid(alpha=0.25)
    return rows


def run(settings: Settings) -> Experiment:
    """The comparison."""
    from matplotlib.figure import Figure as Drawing

    missing = absent()
    tasks: list[Task] = []
    for name, make in TASKS.items():
        try:
            tasks.append(make(settings))
        except MissingDataError as error:
            missing.append(f"The task {name} is left out: {error}")
    drawing = Drawing(figsize=(12, 7.6), layout="constrained")
    panels = drawing.subplots(2, 3, squeeze=False).ravel()
    rows: list[list[Any]] = []
    for task, panel in zip(tasks, panels, strict=False):
        settings.say(task.title)
        rows += compare(task, 3 if settings.quick else 9, 3 if settings.quick else 7, panel)
    for panel in panels[len(tasks) :]:
        panel.axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    if len(tasks) < len(panels):
        panels[len(tasks)].legend(handles, labels, loc="center", frameon=False)
    return Experiment(
        "The comparison nobody has made",
        [
            "Each method chooses as many rows as karat's coreset has, with weights; the model is trained on them, and its "
            "error is that of its parameters against the model of all rows (largest coefficient difference, or distance of the "
            "worst component, both relative). For regression there is also the excess loss: by how much the loss of all rows "
            "at the found coefficients exceeds its minimum. Random methods: median and worst of several seeds.",
            "Samples of a few dozen rows give a wrong model, at every task; with more rows their error falls like one over the "
            "square root of the size, so that even half of the data is far from what the coreset gives. Kernel thinning and "
            "herding keep the distribution better than chance, which helps little here: they keep averages of smooth "
            "functions, not the moments.",
        ],
        [
            Table(
                "comparison", "At equal size",
                ["task", "method", "rows", "median error", "worst error", "median excess loss", "no model in",
                 "seconds to choose"],
                rows,
            )
        ],
        [Figure("comparison", "Error of the trained model against the number of rows", drawing)],
        [
            "Latent models: every method is given the full data's whitening, which karat stores with its coreset. Trained on "
            "the sampled rows alone, 11 rows in 30 dimensions give no mixture at all. 'No model in' counts trials whose rows "
            "did not even show the number of components.",
            "coreax's TreeRecombination is exact as well, once a user hands it the kernel features as a matrix; its time "
            "includes the compilation by JAX. What karat adds is knowing the features, never forming that matrix, the "
            "certificate, and the speed.",
            "Sampling has merits that this table does not show: it works for any loss (logistic, hinge, absolute error), where "
            "no exact coreset exists, and takes no time. Kernel thinning is made for expectations of functions that are not "
            "known beforehand.",
        ],
        missing,
    )  # fmt: skip
