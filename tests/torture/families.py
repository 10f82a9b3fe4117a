"""Families of cases: which tables, which sizes, which problems, and how many of the campaign."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .data import Rng

Spec = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """How the cases of a family are drawn; ``share`` is its part of the campaign."""

    generators: tuple[str, ...]
    shape: Callable[[Rng], tuple[int, int]]
    problem: Callable[[Rng, int, int], Spec]
    share: float = 1.0
    weights: tuple[float, ...] = (0.5, 0.2, 0.2, 0.1)
    grouped: bool = True
    stream: bool = False
    units: bool = False
    around_rank: bool = False
    memory_only: bool = False
    heavy_target: bool = False
    turned: bool = True  # odd numbers are rotated
    newer: bool = False  # came with the claim by columns; counted apart
    refusal: str = ""  # why all cases must be refused
    lax: bool = False  # a refusal is no worse


def pick(rng: Rng, *options, p=None):
    return options[int(rng.choice(len(options), p=p))]


def small(rng: Rng) -> tuple[int, int]:
    return int(10.0 ** rng.uniform(1.7, 3.7)), int(rng.integers(1, 7))


def several(rng: Rng) -> tuple[int, int]:
    """At least two columns."""
    n, d = small(rng)
    return n, max(2, d)


def tiny(rng: Rng) -> tuple[int, int]:
    return int(rng.integers(1, 31)), int(rng.integers(1, 5))


def large(rng: Rng) -> tuple[int, int]:
    return int(10.0 ** rng.uniform(4.3, 5.3)), int(rng.integers(2, 5))


def huge(rng: Rng) -> tuple[int, int]:
    return 1_000_000, int(rng.integers(2, 4))


def moments(rng: Rng, d: int, n: int) -> Spec:
    top = [6, 6, 6, 5, 4, 3][d - 1] if n <= 20_000 else [6, 4, 3, 2, 2, 2][d - 1]
    return {"name": "Moments", "degree": int(rng.integers(1, top + 1))}


def steep(rng: Rng, d: int, n: int) -> Spec:
    """Degree four and more, where tails hurt."""
    if rng.random() < 0.2:
        return contraction(rng, d, n)
    if rng.random() < 0.2:
        return lp(rng, d, n)
    return {"name": "Moments", "degree": int(rng.integers(3, [6, 6, 6, 5, 4, 3][d - 1] + 1))}


def contraction(rng: Rng, d: int, n: int) -> Spec:
    top = [5, 5, 5, 5, 5, 4][d - 1] if n <= 20_000 else [5, 4, 3, 2, 2, 2][d - 1]
    return {"name": "TensorContraction", "p": int(rng.integers(2, top + 1))}


def squares(rng: Rng, d: int, n: int) -> Spec:
    kind = rng.integers(6)
    if kind == 0:
        return {"name": "LeastSquares", "fit_intercept": False}
    if kind == 1:
        return {"name": "LeastSquares", "targets": int(rng.integers(2, 5))}
    if kind == 2:
        return {
            "name": "Ridge",
            "alpha": float(10.0 ** rng.uniform(-3, 3)),
            "fit_intercept": bool(rng.random() < 0.7),
        }
    return {"name": "LeastSquares"}


def lp(rng: Rng, d: int, n: int) -> Spec:
    p = 4 if d > 3 or n > 20_000 else int(pick(rng, 4, 4, 6))
    return {"name": "LpRegression", "p": p, "fit_intercept": bool(rng.random() < 0.7)}


def mean(rng: Rng, d: int, n: int) -> Spec:
    return {"name": "Mean"}


def kernel(rng: Rng, d: int, n: int) -> Spec:
    name = pick(
        rng,
        "identity",
        "powers",
        "waves",
        "bumps",
        "hinge",
        "smooth",
        "threshold",
        p=[0.15, 0.2, 0.1, 0.1, 0.1, 0.25, 0.1],
    )
    spec: Spec = {"name": "Kernel", "function": name}
    if name == "smooth":
        spec |= {"count": int(rng.integers(5, 60)), "seed": int(rng.integers(100))}
    if name == "threshold":
        spec |= {"scale": float(10.0 ** rng.uniform(-6, 0)), "level": float(rng.uniform(1.5, 3.0))}
    return spec


def anything(rng: Rng, d: int, n: int) -> Spec:
    makers = (squares, lp, moments, contraction, mean, kernel)
    return pick(rng, *makers, p=[0.32, 0.12, 0.28, 0.12, 0.04, 0.12])(rng, d, n)


def polynomial(rng: Rng, d: int, n: int) -> Spec:
    return pick(rng, squares, lp, moments, contraction, mean, p=[0.36, 0.14, 0.32, 0.13, 0.05])(
        rng, d, n
    )


def low(rng: Rng, d: int, n: int) -> Spec:
    """Cheap problems for many rows."""
    kind = rng.integers(5)
    if kind == 0:
        return {"name": "Moments", "degree": int(rng.integers(1, 4 if d < 4 else 3))}
    if kind == 1:
        return {"name": "Kernel", "function": pick(rng, "identity", "powers", "waves")}
    if kind == 2:
        return {"name": "TensorContraction", "p": int(rng.integers(2, 4))}
    return squares(rng, d, n)


def hidden(rng: Rng, d: int, n: int) -> Spec:
    """What asks for single sums, and so sees a hidden feature best."""
    return pick(
        rng,
        {"name": "Moments", "degree": 1},
        {"name": "Kernel", "function": "identity"},
        {"name": "LeastSquares"},
        {"name": "Moments", "degree": 2},
        {"name": "TensorContraction", "p": 2},
    )


def outlying(rng: Rng, d: int, n: int) -> Spec:
    return {"name": "Kernel", "function": pick(rng, "powers", "powers", "hinge", "identity")}


def absorbing(rng: Rng, d: int, n: int) -> Spec:
    share = (
        float(10.0 ** rng.uniform(-14, 1))
        if rng.random() < 0.5
        else float(10.0 ** rng.uniform(-4, 0))
    )
    spec: Spec = {
        "alpha_share": share,
        "absorb": pick(rng, "box", "diagonal"),
        "fit_intercept": bool(rng.random() < 0.75),
    }
    if d <= 2 and n <= 1000 and rng.random() < 0.2:
        return {"name": "LpRegression", "p": 4} | spec
    return {"name": "Ridge"} | spec


def absorbing_shape(rng: Rng) -> tuple[int, int]:
    return int(10.0 ** rng.uniform(2.0, 3.3)), int(rng.integers(2, 5))


def smooth_shape(rng: Rng) -> tuple[int, int]:
    return int(10.0 ** rng.uniform(3.0, 5.0)), int(rng.integers(1, 4))


def smooth(rng: Rng, d: int, n: int) -> Spec:
    return {
        "name": "Kernel",
        "function": "smooth",
        "count": int(rng.integers(20, 100)),
        "seed": int(rng.integers(100)),
    }


CUBIC: tuple[Spec, ...] = (
    {"name": "Moments", "degree": 2},
    {"name": "Moments", "degree": 3},
    {"name": "Moments", "degree": 4},
    {"name": "TensorContraction", "p": 3},
    {"name": "LpRegression", "p": 4},
    {"name": "LeastSquares"},
)


def cubic(rng: Rng, d: int, n: int) -> Spec:
    """Degrees at which an equation between the columns shows."""
    return pick(rng, *CUBIC)


def three(rng: Rng) -> tuple[int, int]:
    n, d = small(rng)
    return n, min(max(3, d), 5)


def latent_shape(rng: Rng) -> tuple[int, int]:
    return int(10.0 ** rng.uniform(2.5, 4)), int(rng.integers(3, 7))


def mixture(rng: Rng, d: int, n: int) -> Spec:
    return {"name": "GaussianMixture", "n_components": int(rng.integers(2, 4))}


def components(rng: Rng, d: int, n: int) -> Spec:
    return {"name": "ICA", "n_components": int(rng.integers(2, 4))}


def topics(rng: Rng, d: int, n: int) -> Spec:
    return {"name": "SingleTopic", "n_topics": 2}


def pair_of_columns(rng: Rng) -> tuple[int, int]:
    return int(10.0 ** rng.uniform(2.0, 3.6)), int(rng.integers(2, 5))


def long_table(rng: Rng) -> tuple[int, int]:
    return int(10.0 ** rng.uniform(3.0, 4.4)), int(rng.integers(2, 5))


def pieces(rng: Rng) -> tuple[int, int]:
    """Whole blocks of running sums."""
    return int(pick(rng, 1024, 4096, 8192, 8192, 16384, 24576)), int(rng.integers(2, 4))


def powers(rng: Rng, d: int, n: int) -> Spec:
    """Powers 2 and 4, with and without an intercept."""
    kind, intercept = rng.integers(10), bool(rng.random() < 0.5)
    if kind < 3:
        return {"name": "LpRegression", "p": 4, "fit_intercept": intercept}
    if kind == 3:
        return {
            "name": "Ridge",
            "alpha": float(10.0 ** rng.uniform(-3, 3)),
            "fit_intercept": intercept,
        }
    if kind == 4:
        return {
            "name": "LeastSquares",
            "targets": int(rng.integers(2, 4)),
            "fit_intercept": intercept,
        }
    return {"name": "LeastSquares", "fit_intercept": intercept}


def raw_squares(rng: Rng, d: int, n: int) -> Spec:
    """Mostly squares without an intercept: a shift would take constants away."""
    if n <= 8192 and rng.random() < 0.1:
        return {"name": "LpRegression", "p": 4, "fit_intercept": False}
    return {"name": "LeastSquares", "fit_intercept": bool(rng.random() < 0.1)}


def all_levels(rng: Rng, d: int, n: int) -> Spec:
    """Mostly with an intercept, which the levels of a factor add up to."""
    name = "Ridge" if rng.random() < 0.2 else "LeastSquares"
    return {"name": name, "fit_intercept": bool(rng.random() < 0.8)} | (
        {"alpha": 1.0} if name == "Ridge" else {}
    )


def least_squares(rng: Rng, d: int, n: int) -> Spec:
    return {"name": "LeastSquares", "fit_intercept": bool(rng.random() < 0.6)}


def targets(rng: Rng, d: int, n: int) -> Spec:
    return {"name": "LeastSquares", "targets": int(rng.integers(2, 5))}


def blockwise(rng: Rng, d: int, n: int) -> Spec:
    return {
        "name": "Kernel",
        "function": pick(rng, "centred", "cumulative", "ranks", "scaled", "first"),
    }


LATENT = {"grouped": False, "memory_only": True, "weights": (0.6, 0.2, 0.1, 0.1)}
COMMON = ("pareto", "cauchy", "lognormal", "student")
RARE = ("rare_column", "rare_category", "two_rows", "rare_rows", "cascade")

FAMILIES: dict[str, Family] = {
    "benign": Family(("benign",), small, anything, 1.0),
    "pareto": Family(("pareto",), small, steep, 1.2, heavy_target=True),
    "cauchy": Family(("cauchy",), small, steep, 0.8, heavy_target=True),
    "lognormal": Family(("lognormal",), small, steep, 0.8, heavy_target=True),
    "student": Family(("student",), small, anything, 0.8, heavy_target=True),
    "units": Family(("units",), small, polynomial, 1.0, units=True),
    "offset": Family(("offset",), small, polynomial, 1.0),
    "rare-rows": Family(("rare_rows",), small, anything, 0.8),
    "rare-category": Family(("rare_category",), several, anything, 0.8),
    "rare-column": Family(("rare_column",), several, anything, 0.8),
    "two-rows": Family(("two_rows", "two_rows", "cascade"), several, anything, 0.8),
    "collinear": Family(("collinear",), several, polynomial, 1.0),
    "algebraic": Family(("algebraic",), three, cubic, 0.8),
    "real": Family(("real",), several, polynomial, 0.8),
    "dependent": Family(("dependent",), several, polynomial, 0.6),
    "duplicates": Family(("duplicates",), small, anything, 0.6),
    "constant": Family(("constant",), several, polynomial, 0.6),
    "drift": Family(("drift", "late_twin"), several, polynomial, 1.2, stream=True),
    "stream-tails": Family(
        (*COMMON, "rare_column", "rare_category"), several, polynomial, 0.6, stream=True
    ),
    "sparse": Family(("sparse_table",), small, polynomial, 0.5),
    "integers": Family(("integers",), small, polynomial, 0.5),
    "long-integers": Family(("long_integers",), small, polynomial, 0.4),
    "onehot": Family(("onehot",), several, polynomial, 0.5),
    "zero-inflated": Family(("zero_inflated",), small, anything, 0.8),
    "binary": Family(("binary",), small, polynomial, 0.4),
    "tiny": Family(
        ("benign", "collinear", "constant", "duplicates", "pareto", "binary", "rare_column"),
        tiny,
        polynomial,
        0.8,
    ),
    "rank-edge": Family(
        ("benign", "student", "dependent", "offset"), several, polynomial, 0.5, around_rank=True
    ),
    "zero-weights": Family(
        ("benign", "student", "offset"), small, anything, 0.4, weights=(0.0, 0.0, 0.2, 0.8)
    ),
    "absorb": Family(("benign",), absorbing_shape, absorbing, 0.6, grouped=False),
    "absorb-hostile": Family(
        ("collinear", "offset", "drift", "student", "rare_column", "constant"),
        absorbing_shape,
        absorbing,
        1.0,
        grouped=False,
    ),
    "absorb-units": Family(("units",), absorbing_shape, absorbing, 0.4, grouped=False, units=True),
    "kernel": Family(("benign", "student", "zero_inflated", "rare_column"), small, kernel, 0.6),
    "kernel-outlier": Family(("outlier",), small, outlying, 0.3),
    "kernel-smooth": Family(("benign",), smooth_shape, smooth, 0.3, memory_only=True),
    "mixture": Family(("clusters",), latent_shape, mixture, 0.15, **LATENT),
    "ica": Family(("sources",), latent_shape, components, 0.1, **LATENT),
    "topics": Family(("documents",), latent_shape, topics, 0.1, **LATENT, turned=False),
    "large": Family(("benign", "zero_inflated", *COMMON), large, low, 0.15),
    "large-rare": Family(RARE, large, low, 0.3),
    "hidden": Family(("two_rows", "rare_column"), large, hidden, 0.3),
    "huge": Family(
        ("two_rows", "rare_column", "benign", "rare_category"),
        huge,
        hidden,
        0.02,
        weights=(1, 0, 0, 0),
        grouped=False,
        memory_only=True,
    ),
}

PLAIN = {"turned": False, "newer": True, "weights": (0.5, 0.25, 0.2, 0.05)}
FAMILIES |= {
    "floored": Family(("floored",), pair_of_columns, powers, **PLAIN),
    "underflow": Family(("underflow",), pair_of_columns, powers, **PLAIN),
    "rare-twins": Family(("rare_twins",), pair_of_columns, powers, **PLAIN),
    "ends": Family(("ends",), pair_of_columns, polynomial, **PLAIN, lax=True),
    "equal-products": Family(
        ("equal_products",), pieces, raw_squares, **(PLAIN | {"weights": (0.8, 0.1, 0.1, 0.0)})
    ),
    "good-fit": Family(("good_fit",), pair_of_columns, least_squares, **PLAIN),
    "harmless-twins": Family(
        ("floored_amounts", "softmax", "complement", "cosines", "sigmoids"),
        pair_of_columns,
        powers,
        2.0,
        **PLAIN,
    ),
    "blockwise": Family(
        ("benign",),
        pair_of_columns,
        blockwise,
        0.5,
        **PLAIN,
        refusal="features depend on the other rows of the block",
    ),
    "light-rows": Family(("light_rows",), pair_of_columns, powers, **PLAIN),
    "wild-row": Family(("wild_row",), pair_of_columns, powers, **PLAIN),
    "sentinels": Family(("sentinels",), long_table, powers, **PLAIN),
    "all-levels": Family(("all_levels",), pair_of_columns, all_levels, **PLAIN),
    "uneven-groups": Family(("uneven_groups",), pair_of_columns, powers, 0.5, **PLAIN),
    "late-noise": Family(("late_noise",), small, targets, **PLAIN, stream=True),
}
NEWER = tuple(k for k, f in FAMILIES.items() if f.newer)


def names(cases: int, family: str | None = None, newer: int = 0) -> list[str]:
    """The names of a campaign of so many cases, and of so many more of the newer families."""
    if family is None and newer:
        return names(cases) + names(newer, ",".join(NEWER))
    chosen = {
        k: f
        for k, f in FAMILIES.items()
        if (not f.newer if family is None else k in family.split(","))
    }
    total = sum(f.share for f in chosen.values())
    counts = {k: max(1, round(cases * f.share / total)) for k, f in chosen.items()}
    return [f"{k}/{i}" for k, count in counts.items() for i in range(count)]


def interleaved(found: list[str]) -> list[str]:
    """The same, families mixed, so that a campaign that is stopped has seen all of them."""
    order = np.argsort([int(name.rsplit("/", 1)[1]) for name in found], kind="stable")
    return [found[i] for i in order]
