"""Learn latent-variable models from all samples and from the coreset, and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import karat
from karat.engine.linalg import Array
from karat.report import RecoveryErrorDisplay
from karat.report.latent import relative_error
from paper.drawing import finish, new_drawing, readable_logs
from paper.measure import difference, learn_twice, real_data
from paper.result import Figure, Table


class Model(NamedTuple):
    """A latent-variable model: data with known components, its problem, its learner and its
    parameters.
    """

    # n rows of data, and the true components (rows)
    draw: Callable[[int, np.random.Generator], tuple[Any, Array]]
    problem: Callable[[], Any]  # makes a new one
    learner: Callable[[], Any]
    parameters: Sequence[str]  # names of the fitted arrays to compare
    components: Callable[[Any], Array]  # from a fitted learner to its components (rows)


def agreement(name: str, model: Model, n: int, bound: int) -> list[Any]:
    """Learn a model both ways: a row of sizes, largest difference of a parameter, error and
    times.
    """
    X, truth = model.draw(n, np.random.default_rng(1))
    found = learn_twice(X, model.problem(), model.learner)
    worst = max(
        difference(getattr(found.small, name), getattr(found.full, name))
        for name in model.parameters
    )
    return [
        name, n, len(found.core), bound, worst, relative_error(truth, model.components(found.full)),
        1e3 * found.full_seconds, 1e3 * found.build_seconds, 1e3 * found.small_seconds,
    ]  # fmt: skip


COLUMNS = (
    "model", "samples", "kept", "bound", "largest difference of a parameter", "error of both",
    "learn from all, ms", "build the coreset, ms", "learn from the coreset, ms",
)  # fmt: skip


def recovery(
    title: str, name: str, models: dict[str, Model], sizes: Sequence[int], seeds: int
) -> tuple[Table, Figure]:
    """Measure the error of the components against n, from all samples and from coresets."""
    drawing = new_drawing(5.6 * len(models), 4)
    rows: list[list[Any]] = []
    for panel, (kind, model) in zip(
        drawing.subplots(1, len(models), squeeze=False)[0], models.items(), strict=True
    ):
        middle = []
        for n in sizes:
            errors = []
            for seed in range(seeds):
                X, truth = model.draw(n, np.random.default_rng(100 + seed))
                with real_data():
                    core = karat.coreset(X, problem=model.problem())
                    found = model.learner().fit(X), model.learner().fit_coreset(core)
                errors.append([relative_error(truth, model.components(one)) for one in found])
            middle.append(np.median(errors, axis=0))
            rows.append([kind, n, len(core), *middle[-1].tolist()])
        full, small = np.transpose(middle)
        RecoveryErrorDisplay(sizes, {"all samples": full, f"coreset of {len(core)}": small}).plot(
            panel
        )
        finish(panel, f"{title}, {kind}")
        readable_logs(panel)
    columns = ["model", "samples", "kept", "error, all samples", "error, coreset"]
    return Table(
        name, "Error of the components against n, median of several draws", columns, rows
    ), Figure(name, f"{title}: error of the components", drawing)
