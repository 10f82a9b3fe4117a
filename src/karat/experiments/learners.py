"""One latent-variable model learned twice: from all samples, and from the coreset with the full data's maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import karat
from karat.engine.linalg import Array
from karat.experiments.measure import difference, matched, real_data, seconds
from karat.experiments.result import Figure, Table


class Model(NamedTuple):
    """A kind of model: data of a known truth, its problem, its learner, and its parameters.

    Attributes
    ----------
    draw : callable
        From n and a generator to the data and the true components (rows).
    problem, learner : callables
        Make a fresh one.
    parameters : sequence of str
        Names of the fitted arrays to compare.
    components : callable
        From a fitted learner to its components (rows).
    """

    draw: Callable[[int, np.random.Generator], tuple[Any, Array]]
    problem: Callable[[], Any]
    learner: Callable[[], Any]
    parameters: Sequence[str]
    components: Callable[[Any], Array]


def agreement(name: str, model: Model, n: int, bound: int) -> list[Any]:
    """A row: sizes, largest difference of a parameter, error to the truth, times."""
    X, truth = model.draw(n, np.random.default_rng(1))
    with real_data():
        core = karat.coreset(X, problem=model.problem())
        full, small = model.learner().fit(X), model.learner().fit_coreset(core)
        learn = seconds(lambda: model.learner().fit(X)), seconds(lambda: model.learner().fit_coreset(core))
        build = seconds(lambda: karat.coreset(X, problem=model.problem()))
    worst = max(difference(getattr(small, name), getattr(full, name)) for name in model.parameters)
    return [
        name, n, len(core), bound, worst, matched(model.components(full), truth), 1e3 * learn[0], 1e3 * build, 1e3 * learn[1],
    ]  # fmt: skip


COLUMNS = (
    "model", "samples", "kept", "bound", "largest difference of a parameter", "error of both to the truth",
    "learn from all, ms", "build the coreset, ms", "learn from the coreset, ms",
)  # fmt: skip


def recovery(title: str, name: str, models: dict[str, Model], sizes: Sequence[int], seeds: int) -> tuple[Table, Figure]:
    """Error to the truth against n, from the coreset: it falls as that of all data does, like n^(-1/2)."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(6.5, 4), layout="constrained")
    panel = drawing.subplots()
    rows: list[list[Any]] = []
    for kind, model in models.items():
        full, small = [], []
        for n in sizes:
            errors = []
            for seed in range(seeds):
                X, truth = model.draw(n, np.random.default_rng(100 + seed))
                with real_data():
                    core = karat.coreset(X, problem=model.problem())
                    found = [model.learner().fit(X), model.learner().fit_coreset(core)]
                errors.append([matched(model.components(one), truth) for one in found])
            middle = np.median(errors, axis=0)
            full.append(middle[0])
            small.append(middle[1])
            rows.append([kind, n, len(core), float(middle[0]), float(middle[1])])
        line = panel.loglog(sizes, full, "-", label=f"{kind}, all samples")[0]
        panel.loglog(sizes, small, "o", color=line.get_color(), label=f"{kind}, coreset")
    guide = np.array(sizes, dtype=float)
    panel.loglog(guide, rows[0][3] * np.sqrt(guide[0] / guide), "k:", label="n^(-1/2)")
    panel.set(xlabel="samples", ylabel="error of the components (median)", title=title)
    panel.grid(alpha=0.25)
    panel.legend(frameon=False, fontsize=8)
    columns = ["model", "samples", "kept", "error, all samples", "error, coreset"]
    return Table(name, f"{title}: error to the truth against n", columns, rows), Figure(name, title, drawing)
