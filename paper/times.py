"""Running times against the theorems:

O(n d^2 + d^8 log n) for ridge regression, O(n k^3 + k^12 log n) for latent models.

O() has no constant.  The theorem's curve is drawn with the smallest constant for which it bounds
the measured times of the paper's algorithm as printed, or of karat where that is not run.  Only its
shape is meaningful.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

import karat
from karat import problems
from karat.engine.linalg import Array
from karat.problems import LeastSquares
from karat.report.display import CORE, FULL, OTHER
from paper.drawing import finish, new_drawing
from paper.literal import fast_caratheodory
from paper.measure import real_data, seconds
from paper.result import Experiment, Figure, Table
from paper.settings import Settings

Curve = tuple[list[int], list[float]]
COLOURS = {"karat": CORE, "karat, method='tree'": FULL, "Algorithm 5, literal": OTHER[1]}
LITERAL, THEOREM = "Algorithm 5, literal", "theorem's curve"


def regression_data(n: int, d: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


def mixture_data(n: int, k: int, d: int = 20) -> Array:
    rng = np.random.default_rng(0)
    means = 3 * rng.standard_normal((k, d))
    return np.asarray(means[rng.integers(k, size=n)] + rng.standard_normal((n, d)))


def squares(X: Array, y: Array) -> Array:
    """The matrix of all products of two columns, which the literal algorithm takes as input."""
    D = np.column_stack([X, y])
    return np.column_stack(
        [D[:, a] * D[:, b] for a, b in combinations_with_replacement(range(D.shape[1]), 2)]
    )


def measured(values: Sequence[int], job: Callable[[int], Callable[[], Any]]) -> Curve:
    """Time a job at each value."""
    return list(values), [seconds(job(value), enough=0.3, runs=5) for value in values]


def regression_curves(
    values: Sequence[int], most: int, shape: Callable[[int], tuple[int, int]]
) -> dict[str, Curve]:
    """Time two methods of karat, and the literal algorithm up to ``most``."""
    problem = LeastSquares(fit_intercept=False)

    def by(method: Any) -> Callable[[int], Callable[[], Any]]:
        def job(value: int) -> Callable[[], Any]:
            X, y = regression_data(*shape(value))
            return lambda: karat.coreset(X, y, problem, method=method)

        return job

    def literal(value: int) -> Callable[[], Any]:
        F = squares(*regression_data(*shape(value)))
        weights = np.ones(len(F))
        return lambda: fast_caratheodory(F, weights)

    return {
        "karat": measured(values, by("auto")),
        "karat, method='tree'": measured([v for v in values if v <= most], by("tree")),
        LITERAL: measured([v for v in values if v <= most], literal),
    }


def latent_curves(
    values: Sequence[int], shape: Callable[[int], tuple[int, int]]
) -> dict[str, Curve]:
    """Time karat on Gaussian mixtures."""

    def job(value: int) -> Callable[[], Any]:
        n, k = shape(value)
        X = mixture_data(n, k)
        return lambda: karat.coreset(X, problem=problems.GaussianMixture(k))

    return {"karat": measured(values, job)}


def with_theorem(curves: dict[str, Curve], law: Callable[[int], float]) -> dict[str, Curve]:
    """Add the theorem's curve, the lowest that bounds the literal algorithm, or karat if that was
    not run.
    """
    values = curves["karat"][0]
    scale = max(
        taken / law(value)
        for value, taken in zip(*curves.get(LITERAL, curves["karat"]), strict=True)
    )
    return curves | {THEOREM: (values, [scale * law(value) for value in values])}


def slope(curve: Curve) -> float:
    """The exponent of a curve, fitted from its middle to its end."""
    values, taken = (np.log(np.array(part, dtype=float)) for part in curve)
    half = len(values) // 2
    return (
        float(np.polyfit(values[half:], taken[half:], 1)[0])
        if len(values) - half > 1
        else float("nan")
    )


def draw(parts: dict[str, tuple[str, dict[str, Curve]]]) -> Any:
    drawing = new_drawing(11, 7.6)
    for panel, (title, (variable, curves)) in zip(
        drawing.subplots(2, 2).ravel(), parts.items(), strict=True
    ):
        for name, (values, taken) in curves.items():
            theorem = name == THEOREM
            style = (
                {"linestyle": "--", "color": "black"}
                if theorem
                else {"marker": "o", "markersize": 4, "color": COLOURS[name]}
            )
            panel.loglog(values, taken, label=name, **style)
        top = max(max(taken) for name, (_, taken) in curves.items() if name != THEOREM)
        low = min(min(taken) for _, taken in curves.values())
        if variable != "n":
            panel.set_xticks(
                curves["karat"][0], [str(value) for value in curves["karat"][0]], minor=False
            )
            panel.minorticks_off()
        finish(panel, title, xlabel=variable, ylabel="seconds", ylim=(low / 3, 30 * top))
        panel.legend(frameon=False, fontsize=8)
    return drawing


def run(settings: Settings) -> Experiment:
    quick = settings.quick
    n_values = (
        [1000, 10_000, 100_000]
        if quick
        else [1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    )
    d_values = [2, 4, 8] if quick else [2, 3, 4, 6, 8, 12, 16, 24, 32]
    k_values = [2, 3, 4] if quick else [2, 3, 4, 6, 8, 12, 16]
    N = 20_000  # rows, where they are fixed
    cases: dict[str, tuple[str, Callable[[], dict[str, Curve]], Callable[[int], float]]] = {
        "squared loss, d = 6: time against n": (
            "n",
            lambda: regression_curves(n_values, 100_000, lambda n: (n, 6)),
            lambda n: n * 6**2 + 6**8 * np.log(n),
        ),
        f"squared loss, n = {N:,}: time against d": (
            "d",
            lambda: regression_curves(d_values, 12, lambda d: (N, d)),
            lambda d: N * d**2 + d**8 * np.log(N),
        ),
        "mixture, k = 4, d = 20: time against n": (
            "n",
            lambda: latent_curves(n_values, lambda n: (n, 4)),
            lambda n: n * 4**3 + 4**12 * np.log(n),
        ),
        f"mixture, n = {N:,}, d = 20: time against k": (
            "k",
            lambda: latent_curves(k_values, lambda k: (N, k)),
            lambda k: N * k**3 + k**12 * np.log(N),
        ),
    }
    parts: dict[str, tuple[str, dict[str, Curve]]] = {}
    with real_data():
        for title, (variable, curves, law) in cases.items():
            settings.say(title)
            parts[title] = variable, with_theorem(curves(), law)
    rows: list[list[Any]] = [
        [title, name, value, second]
        for title, (_, curves) in parts.items()
        for name, (values, taken) in curves.items()
        for value, second in zip(values, taken, strict=True)
    ]
    growth: list[list[Any]] = [
        [title, name, curve[1][0], curve[1][-1], slope(curve)]
        for title, (_, curves) in parts.items()
        for name, curve in curves.items()
    ]
    return Experiment(
        "Running times against the theorems",
        [
            (
                "Time to build a coreset, against n and against d or k. Dashed lines are the"
                " theorems' O(n d^2 + d^8 log n) and O(n k^3 + k^12 log n), with the smallest"
                " constant for which they bound the measured times; only their shape is meaningful."
            ),
            (
                "In n, the time of karat grows at most linearly, as in the theorems. In d and k it"
                " stays far below their d^8 and k^12, which come from one singular value"
                " decomposition per removed point. karat eliminates all points in one blocked"
                " factorisation, O(n d^2 + d^6) and O(n k^3 + k^9); even these powers are not"
                " reached in the range shown."
            ),
        ],
        [
            Table(
                "times_growth",
                "Seconds at both ends, and the exponent at the end",
                ["curve", "method", "first", "last", "power"],
                growth,
            ),
            Table("times", "All points", ["curve", "method", "value", "seconds"], rows),
        ],
        [Figure("times", "Running times", draw(parts))],
        [
            (
                "The theorem on latent models omits the second moment, its eigenvectors and the"
                " projection, O(n d^2 + d^3 + n d k), which take most of the time here (d = 20)."
            ),
            "The literal algorithm and the tree run up to n = 100,000 and d = 12 only.",
        ],
    )
